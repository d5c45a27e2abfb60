"""What a conformance case is, and how the model of one operator is made of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant
from tests.truth import litert


@dataclass(frozen=True, eq=False)
class Operand:
    """One input or output of an operator.

    An input holds stored ``data``, an output none. ``constant`` inputs are written into the model, the others are its
    inputs. ``dtype`` is the stored type. ``signature`` is the shape with -1 for dynamic dimensions, ``shape`` that of
    an output.
    """

    data: Array | None = None
    dtype: str = "float32"
    quant: Quant | None = None
    constant: bool = False
    signature: tuple[int, ...] | None = None
    variable: bool = False
    shape: tuple[int, ...] = ()

    @property
    def least(self) -> Array:
        """The data of an input with size 1 in its dynamic dimensions."""
        signature = self.signature or self.values.shape
        return self.values[tuple(slice(1) if size == -1 else slice(None) for size in signature)]

    @property
    def values(self) -> Array:
        """The data of an input."""
        assert self.data is not None
        return self.data

    @property
    def scale(self) -> float:
        """The scale of an input that is quantized per tensor."""
        assert self.quant is not None
        return self.quant.scale[0]

    @property
    def fixed(self) -> Operand:
        """The same as a constant."""
        return replace(self, constant=True)

    def dynamic(self, *axes: int) -> Operand:
        """The same with dynamic dimensions."""
        shape = [-1 if axis in axes else size for axis, size in enumerate(self.values.shape)]
        return replace(self, signature=tuple(shape))


@dataclass(frozen=True, eq=False)
class Model:
    """A model and the data to run it on.

    Where LiteRT cannot run it, ``truth`` is one that it runs in its stead, or ``expected`` are the outputs.
    """

    source: bytes
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...] | None = None
    truth: bytes = b""


@dataclass(frozen=True, eq=False)
class Case:
    """One case of one operator: ``make`` builds its model.

    ``tolerance`` is the largest error of float outputs relative to their range, ``steps`` that of quantized outputs.
    ``ports`` are the numbers of inputs and outputs where the model is the operator alone: known before it is made.
    """

    operator: str
    label: str
    make: Callable[[], Model]
    tolerance: float = 1e-5
    steps: int = 1
    ports: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """What pytest shows, and what ``-k`` selects."""
        return f"{self.operator}-{self.label}"


Generator = Callable[["Table"], None]
GENERATORS: list[tuple[tuple[str, ...], Generator]] = []
"""Each generator of cases and the operators it serves."""


STORED, COMPUTED, REFUSED = "stored", "computed", "refused"
POLICY: dict[str, str | Mapping[str, str]] = {}
"""What LiteRT's reference kernels do where quantization parameters differ, by operator; for some by type or by which
tensor differs.

They look only at what is stored, compute with what it means (where they take the parameters at all), or want all
parameters to be equal. int16 has the zero point 0 wherever it is looked at.
"""

UNLAYERED: dict[str, str] = {}
"""Operators that no case puts between convolutions, and why."""


def declare(*operators: str, parameters: str | Mapping[str, str] = "", unlayered: str = "") -> None:
    """State what holds for operators beside their cases: their ``parameters`` in :data:`POLICY`, and why they are
    ``unlayered``.
    """
    if parameters:
        POLICY.update(dict.fromkeys(operators, parameters))
    if unlayered:
        UNLAYERED.update(dict.fromkeys(operators, unlayered))


def cases(*operators: str) -> Callable[[Generator], Generator]:
    """Declare that a function adds cases for each of these operators; it is called once per operator."""

    def register(generator: Generator) -> Generator:
        GENERATORS.append((operators, generator))
        return generator

    return register


def all_cases() -> list[Case]:
    """All cases of all generators declared so far."""
    return [
        case for operators, generator in GENERATORS for name in operators for case in Table(name).collected(generator)
    ]


@dataclass(eq=False)
class Table:
    """The cases of one operator, and seeded operands to make them of."""

    operator: str
    found: list[Case] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(zlib.crc32(self.operator.encode()))

    def collected(self, generator: Generator) -> Iterator[Case]:
        """The cases that a generator adds."""
        generator(self)
        return iter(self.found)

    def add(
        self,
        label: str,
        inputs: Sequence[Operand | None],
        outputs: Sequence[Operand] | Operand = Operand(),
        options: Mapping[str, Any] | None = None,
        *,
        tolerance: float = 1e-5,
        steps: int = 1,
        custom_options: bytes = b"",
        intermediates: Sequence[Operand] = (),
    ) -> None:
        """Add a case of the operator alone; None is an input left out."""
        results = (outputs,) if isinstance(outputs, Operand) else tuple(outputs)
        operator, given, chosen = self.operator, tuple(inputs), dict(options or {})
        self.add_model(
            label,
            lambda: single(operator, given, results, chosen, custom_options, intermediates),
            tolerance=tolerance,
            steps=steps,
            ports=(len(given), len(results)),
        )

    def add_model(
        self,
        label: str,
        make: Callable[[], Model],
        *,
        tolerance: float = 1e-5,
        steps: int = 1,
        ports: tuple[int, int] | None = None,
    ) -> None:
        """Add a case that is a whole model, made once for all tests."""
        label = label if all(case.label != label for case in self.found) else f"{label}_{len(self.found)}"
        self.found.append(Case(self.operator, label.replace(" ", "_"), cache(make), tolerance, steps, ports))

    def real(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Operand:
        """Floats between ``low`` and ``high``."""
        return Operand(self.random.uniform(low, high, shape).astype(np.float32))

    def quantized(self, dtype: str, *shape: int, low: float = -1.0, high: float = 1.0) -> Operand:
        """Numbers between ``low`` and ``high``, quantized with the parameters that fit."""
        quant = fitted(dtype, low, high)
        steps = np.rint(self.random.uniform(low, high, shape) / quant.scale[0]) + quant.zero_point[0]
        limits = np.iinfo(dtype)
        return Operand(np.clip(steps, limits.min, limits.max).astype(dtype), dtype, quant)

    def numbers(self, dtype: str, *shape: int, low: float = -1.0, high: float = 1.0) -> Operand:
        """Floats, or quantized numbers where ``dtype`` is an integer type of 8 or 16 bits."""
        return (
            self.real(*shape, low=low, high=high)
            if dtype == "float32"
            else self.quantized(dtype, *shape, low=low, high=high)
        )

    def integers(self, *shape: int, low: int = -10, high: int = 10, dtype: str = "int32") -> Operand:
        """Plain integers from ``low`` to ``high`` inclusive."""
        return Operand(self.random.integers(low, high, shape, np.int64, endpoint=True).astype(dtype), dtype)

    def whole(self, *shape: int, dtype: str = "int32") -> Operand:
        """Plain integers over the whole range of their type."""
        ends = np.iinfo(dtype)
        return self.integers(*shape, low=ends.min, high=ends.max, dtype=dtype)

    def booleans(self, *shape: int) -> Operand:
        """Truth values."""
        return Operand(self.random.integers(0, 2, shape).astype(bool), "bool")


def fitted(dtype: str, low: float, high: float) -> Quant:
    """The parameters with which ``dtype`` spans a range that is widened to include zero; int16 is symmetric."""
    low, high = min(low, 0.0), max(high, 0.0)
    if dtype == "int16":
        return Quant([float(np.float32(max(-low, high) / 32767))], [0])
    limits = np.iinfo(dtype)
    scale = float(np.float32((high - low) / 255))
    return Quant([scale], [round(int(limits.min) - low / scale)])


def stored(*values: Any, dtype: str = "int32") -> Operand:
    """A constant of given numbers: axes, shapes, paddings."""
    return constant(list(values), dtype)


def constant(data: Any, dtype: str = "int32") -> Operand:
    """A constant of any shape."""
    return Operand(np.asarray(data, "S" if dtype == "string" else dtype), dtype, constant=True)


def fed(data: Any, dtype: str = "int32") -> Operand:
    """An input of given numbers: indices, sizes."""
    return Operand(np.asarray(data, dtype), dtype)


def result(dtype: str = "float32", low: float = -1.0, high: float = 1.0) -> Operand:
    """An output; of an integer type of 8 or 16 bits it is quantized over ``low`` to ``high``."""
    return Operand(dtype=dtype, quant=fitted(dtype, low, high) if dtype in ("int8", "uint8", "int16") else None)


def plain(dtype: str) -> Operand:
    """An output that is not quantized."""
    return Operand(dtype=dtype)


def like(operand: Operand) -> Operand:
    """An output stored as an input is."""
    return Operand(dtype=operand.dtype, quant=operand.quant)


def single(
    operator: str,
    inputs: Sequence[Operand | None],
    outputs: Sequence[Operand],
    options: Mapping[str, Any],
    custom_options: bytes = b"",
    intermediates: Sequence[Operand] = (),
) -> Model:
    """A model of one operator. LiteRT says which shapes its outputs have, then they are written down.

    Where an input is dynamic, the file states size 1 as converters do, and an output is dynamic where its size follows.
    """

    def made(chosen: Sequence[Operand]) -> bytes:
        return written(operator, inputs, chosen, options, custom_options, intermediates)

    fed = [each for each in inputs if each is not None and not each.constant and not each.variable]
    feeds, least = tuple(operand.values for operand in fed), [operand.least for operand in fed]
    draft = made(outputs)
    stated = [found.shape for found in litert().run(draft, least).results]
    actual = stated
    if any(operand.signature for operand in fed):
        actual = [found.shape for found in litert().run(draft, feeds).results]
    shaped = [_shaped(*output) for output in zip(outputs, stated, actual, strict=True)]
    return Model(made(shaped), feeds)


def _shaped(output: Operand, stated: tuple[int, ...], actual: tuple[int, ...]) -> Operand:
    sizes = [size if size == other else -1 for size, other in zip(stated, actual, strict=True)]
    return replace(output, shape=stated, signature=tuple(sizes) if -1 in sizes else None)


def written(
    operator: str,
    inputs: Sequence[Operand | None],
    outputs: Sequence[Operand],
    options: Mapping[str, Any],
    custom_options: bytes = b"",
    intermediates: Sequence[Operand] = (),
) -> bytes:
    """The bytes of a model of one operator, whose outputs have the shapes given."""
    builder = Builder()
    indices = [-1 if operand is None else _input(builder, f"in{at}", operand) for at, operand in enumerate(inputs)]
    results = [
        builder.tensor(f"out{at}", each.shape, each.dtype, quant=each.quant, signature=each.signature)
        for at, each in enumerate(outputs)
    ]
    between = [
        builder.tensor(f"between{at}", (0,), each.dtype, quant=each.quant) for at, each in enumerate(intermediates)
    ]
    builder.operator(operator, indices, results, options, custom_options=custom_options, intermediates=between)
    return builder.finish(*results)


def _input(builder: Builder, name: str, operand: Operand) -> int:
    if operand.constant:
        return builder.constant(name, operand.values, operand.dtype, operand.quant)
    shape, dtype, quant = operand.least.shape, operand.dtype, operand.quant
    if operand.variable:
        return builder.tensor(name, shape, dtype, quant=quant, variable=True)
    return builder.input(name, shape, dtype, quant=quant, signature=operand.signature)
