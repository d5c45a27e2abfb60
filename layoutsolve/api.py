"""Converting and comparing, as a program calls it."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from layoutsolve.budget import Budget, within_memory
from layoutsolve.emit import LIMIT, External, apply, constant_bytes, nodes_of, place, serialise
from layoutsolve.ends import End, ends_of, metadata, states_of
from layoutsolve.errors import ModelError, OutputError, StrategyError, VerifyError
from layoutsolve.explanation import Explanation
from layoutsolve.frontend import Reading, read
from layoutsolve.graph import Graph
from layoutsolve.solver import (
    DEFAULT_OBJECTIVE,
    DEFAULT_SECONDS,
    STRATEGIES,
    Assignment,
    Boundary,
    Price,
    assign,
    in_steps,
)
from layoutsolve.solver.boundary import Ends
from layoutsolve.solver.explain import explain

if TYPE_CHECKING:
    import onnx

    from layoutsolve.verification import Verification

Source = str | os.PathLike[str] | bytes | memoryview


@dataclass(frozen=True)
class Conversion:
    """A converted model with everything that is known about it.

    ``seconds`` has the time of each stage. ``assignment`` has the layouts; its ``status`` is 'optimal' where no other
    choice of layouts has a lower price. ``boundary`` and ``reading`` are what was asked for. ``external`` has the
    constants where they are too large for the model itself; :meth:`save` writes them beside it.
    """

    graph: Graph
    assignment: Assignment
    model: onnx.ModelProto
    seconds: Mapping[str, float]
    boundary: Boundary = field(default_factory=Boundary)
    reading: Reading = field(default_factory=Reading)
    external: External | None = field(default=None, repr=False)

    @property
    def price(self) -> Price:
        """What the layouts cost."""
        return self.assignment.price

    @property
    def bound(self) -> int:
        """A proven lower bound on the objective's first tier (for 'min-executed', Transposes and hidden ones)."""
        return self.assignment.bound

    @cached_property
    def report(self) -> dict[str, object]:
        """The facts of the conversion, ready for JSON. Transposes and Reshapes are counted in the written model."""
        operators = [node.op_type for node in nodes_of(self.model.graph)]
        return {
            "strategy": self.assignment.strategy,
            "objective": self.assignment.objective,
            "contrib": self.assignment.goal.contrib,
            "status": self.assignment.status,
            "transposes": operators.count("Transpose"),
            "hidden_transposes": self.price.hidden,
            "reshapes": operators.count("Reshape"),
            "bytes_moved": self.price.bytes,
            "bytes_copied": self.price.copies,
            "bound": self.bound,
            "operators": len(operators),
            "tensors": sum(value.data is None for value in self.graph.values.values()),
            "opset": self.model.opset_import[0].version,
            "layouts": {
                end.name: {"permutation": list(end.permutation), "chosen": end.chosen} for end in self.moved_ends
            },
            "seconds": dict(self.seconds),
        }

    @within_memory()
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, whole or not at all, and external constants to a file with ``.data`` added to its name.

        Raises :class:`OutputError` where that is impossible.
        """
        target = Path(path)
        if self.external is not None:
            data = target.with_name(f"{target.name}.data")
            _write_whole(data, self.external.write)
            place(self.model, data.name)
        _write_whole(target, lambda file: file.write(self.model.SerializeToString(deterministic=True)))

    @cached_property
    def moved_ends(self) -> tuple[End, ...]:
        """The inputs, outputs and states that are not stored as in the source model, each tensor once."""
        return tuple(end for end in _ends(self.graph, self.boundary, self.assignment) if end.moved)

    def permutations(self, inputs: bool) -> dict[str, tuple[int, ...]]:
        """How graph inputs (or outputs) are stored: ``stored = transpose(source, permutation)``, by name in the file.

        Only those that are not stored as in the source model.
        """
        ends = ends_of(self.graph, self.boundary, self.assignment, inputs)
        ports = self.model.graph.input if inputs else self.model.graph.output
        return {port.name: end.permutation for port, end in zip(ports, ends, strict=False) if end.moved}

    def explain(self, seconds: float = DEFAULT_SECONDS) -> Explanation:
        """Why each Transpose and Reshape is there, and what would remove it.

        That is found by solving again with other choices for the ends, a few times, each for ``seconds`` at most.
        """
        return Explanation(explain(self.graph, self.boundary, self.assignment, seconds))


def _ends(graph: Graph, boundary: Boundary, assignment: Assignment) -> list[End]:
    """All inputs, outputs and states; a tensor that is both, or an output twice, is there once."""
    both = (ends_of(graph, boundary, assignment, inputs) for inputs in (True, False))
    ends = {end.tensor: end for ends in both for end in ends}
    return [*ends.values(), *states_of(graph, assignment)]


def _write_whole(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under another name and rename it when it is complete."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise OutputError(f"cannot write '{target}': {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@within_memory()
def convert(
    source: Source,
    *,
    objective: str = DEFAULT_OBJECTIVE,
    strategy: str = "cpsat",
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    opset: int | None = None,
    contrib: bool = False,
    external_data: bool | None = None,
    time_limit: float = DEFAULT_SECONDS,
    custom: str = "error",
    signature: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    max_size: int | None = None,
) -> Conversion:
    """Convert a TensorFlow Lite model, given as a path or as bytes.

    ``layouts`` maps names of tensors to a pair of strings, the order of dimensions in the source model and the wanted
    one: ``{"image": ("NHWC", "NCHW")}``. ``inputs`` and ``outputs`` say how all others at the ends of the graph are
    stored: 'keep', 'nchw', 'nhwc' or 'free'; or, as a mapping from names to such a choice or a pair of orders, how some
    are, while others keep the source's order (the name '*' stands for them). Where an end is not stored as in the
    source, the model's metadata say so: ``layoutsolve.layout.image`` is "0 3 1 2". ``contrib`` allows operators that
    ONNX Runtime alone has (FusedMatMul). ``external_data`` keeps constants in a file beside the model, by default
    where they are more than a model can hold. ``time_limit`` is in seconds and bounds the search for layouts.
    ``custom`` says what becomes of custom operators without a lowering: an 'error' that lists them, or 'passthrough',
    which writes them as nodes of the domain ``layoutsolve.custom``. ``signature`` names the signature to convert, by
    default the main subgraph. ``shapes`` fixes dynamic inputs by name: ``{"image": (1, 224, 224, 3)}``. ``max_size``
    are the most bytes that the ONNX model may have, by default 4 times those of the source and 16 MiB more. Raises
    :class:`ConversionError`.
    """
    boundary = Boundary(inputs, outputs, dict(layouts or {}))
    clock = _Clock()
    reading = _reading(custom, signature, shapes, max_size)
    content = source if isinstance(source, (bytes, memoryview)) else file_bytes(Path(source))
    budget = Budget(len(content), max_size)
    graph = _reference(content, _title(source), reading, budget)
    clock.lap("read")
    assignment = assign(graph, boundary, strategy=strategy, objective=objective, contrib=contrib, seconds=time_limit)
    clock.lap("solve")
    applied = apply(graph, assignment, budget)
    facts = {**applied.metadata, **metadata(_ends(graph, boundary, assignment))}
    too_large = constant_bytes(applied) > LIMIT if external_data is None else external_data
    external = External() if too_large else None
    model = serialise(replace(applied, metadata=facts), opset, external, budget)
    clock.lap("emit")
    return Conversion(graph, assignment, model, clock.laps, boundary, reading, external)


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self.last, 6)
        self.last = now


def _reading(
    custom: str, signature: str, shapes: Mapping[str, Sequence[int]] | None, max_size: int | None = None
) -> Reading:
    return Reading(custom, signature, {name: tuple(shape) for name, shape in (shapes or {}).items()}, max_size)


def reference(source: Source, reading: Reading) -> Graph:
    """The reference graph of a model, as a layout problem is stated of it."""
    content = source if isinstance(source, (bytes, memoryview)) else file_bytes(Path(source))
    return _reference(content, _title(source), reading, Budget(len(content), reading.max_size))


def _reference(content: bytes | memoryview, name: str, reading: Reading, budget: Budget) -> Graph:
    return in_steps(read(content, name, reading, budget))


def _title(source: Source) -> str:
    return "model" if isinstance(source, (bytes, memoryview)) else Path(source).stem


def file_bytes(path: Path) -> memoryview:
    """The content of a file, mapped into memory. Raises :class:`ModelError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ModelError(f"'{path}' is empty: give a TensorFlow Lite model")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelError(f"cannot read '{path}': {reason}") from error


@dataclass(frozen=True)
class Comparison:
    """One strategy's result on a model."""

    strategy: str
    status: str
    price: Price
    bound: int
    seconds: float


def compare(
    source: Source,
    *,
    objective: str = DEFAULT_OBJECTIVE,
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    contrib: bool = False,
    time_limit: float = DEFAULT_SECONDS,
    custom: str = "error",
    signature: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> list[Comparison]:
    """What every strategy makes of a model: one row each, over the same graph and priced the same way.

    A strategy that cannot solve the model has no row.
    """
    reading = _reading(custom, signature, shapes)
    graph = reference(source, reading)
    boundary = Boundary(inputs, outputs, dict(layouts or {}))
    rows = []
    for strategy in STRATEGIES:
        start = time.perf_counter()
        try:
            found = assign(graph, boundary, strategy=strategy, objective=objective, contrib=contrib, seconds=time_limit)
        except StrategyError:
            continue
        spent = time.perf_counter() - start
        rows.append(Comparison(strategy, found.status, found.price, found.bound, round(spent, 6)))
    return rows


def verify(source: Source, conversion: Conversion, *, seed: int = 0, samples: int = 1) -> Verification:
    """Run the source in LiteRT and the conversion in ONNX Runtime on the same data, and compare all outputs.

    Raises :class:`VerifyError` where a runtime is missing or refuses its model.
    """
    if conversion.reading.signature:
        raise VerifyError("the main subgraph alone can be compared: convert without a signature")
    data = source if isinstance(source, (bytes, memoryview)) else file_bytes(Path(source))
    if conversion.external is None:
        return _compared(bytes(data), conversion, conversion.model, seed, samples)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        conversion.save(path)
        return _compared(bytes(data), conversion, path, seed, samples)


def _compared(
    source: bytes, conversion: Conversion, model: onnx.ModelProto | Path, seed: int, samples: int
) -> Verification:
    from layoutsolve.verification import verify as compared

    inputs, outputs = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
    return compared(source, model, seed=seed, samples=samples, input_permutations=inputs, output_permutations=outputs)
