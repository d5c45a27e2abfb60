"""Public API: conversion, comparison of strategies, verification."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from layoutsolve.base import gc_pause
from layoutsolve.base.wording import counted, printable
from layoutsolve.conversion import arguments
from layoutsolve.conversion.graph_io import End, ends_of, every_end
from layoutsolve.conversion.provenance import WRITTEN, Provenance, of_model
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import content_of, emitted, reference, saved
from layoutsolve.emit import External, apply, nodes_of, pieces, stored
from layoutsolve.emit.selected_weights import running, selects
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.errors import OptionError, OutputError, StrategyError
from layoutsolve.frontend import Reading, parse
from layoutsolve.io.files import Output, is_special, scratch, written
from layoutsolve.io.source import Content, Mapped, OnnxModel, Source, load, unchanged
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Origin
from layoutsolve.solver import DEFAULT_OBJECTIVE, STRATEGIES, Assignment, Boundary, Goal, Price, Tier, assign
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.backends import Crossing, crossings
from layoutsolve.solver.statement.boundary import Ends
from layoutsolve.solver.statement.objective import coarse_tiers, ranked, without_groupings
from layoutsolve.version import VERSION

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx

    from layoutsolve.conversion.session import Session
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.solver.explanation.explain import Explained
    from layoutsolve.verification.input_files import Data
    from layoutsolve.verification.verify import Verification


@dataclass(frozen=True, repr=False)
class Conversion:
    """Result of :func:`convert`: the ONNX model, its layouts, and their proof.

    ``model`` is the ONNX model; with external data (``external``) :meth:`save` writes a second file beside it.
    ``graph`` is the imported graph in ONNX operators, ``assignment`` the chosen layouts with the graph that they refer
    to; its ``status`` is 'optimal' where every level in ``tiers`` is 'optimal' or 'conditional'. ``seconds`` has the
    wall-clock time of each stage. ``boundary`` and ``reading`` are the options on inputs, outputs and import.
    ``source`` is the path of the source model, None for bytes. ``origins`` maps names of written nodes to source
    operators. ``kept`` is the reason why an ONNX source is returned unchanged, '' where it is not.
    """

    graph: Graph
    assignment: Assignment
    model: onnx.ModelProto
    seconds: Mapping[str, float]
    boundary: Boundary = field(default_factory=Boundary)
    reading: Reading = field(default_factory=Reading)
    external: External | None = field(default=None, repr=False)
    source: str | None = field(default=None, repr=False)
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False)
    kept: str = ""
    mapped: tuple[Mapped, ...] = field(default=(), repr=False)

    def __getstate__(self) -> dict[str, object]:
        """State for pickling: all initializers are included, also those that are mapped from the source.

        Raises :class:`ModelError` where the source file has changed since it was read.
        """
        unchanged(self.mapped)
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "mapped": ()}

    def __repr__(self) -> str:
        tiers = ", ".join(map(str, self.tiers))
        return f"<Conversion of '{self.graph.name}': {counted(self.report['operators'], 'operator')}; {tiers}>"

    def _repr_html_(self) -> str:
        """HTML summary for notebooks."""
        title = f"{self.graph.name}: {counted(self.report['operators'], 'operator')}, opset {self.report['opset']}"
        return self.assignment.as_table(title, map(str, self.moved_ends))

    @property
    def price(self) -> Price:
        """Cost of the layouts: Transposes, layout penalty, bytes and so on."""
        return self.assignment.price

    @property
    def bound(self) -> int:
        """Proven lower bound on the objective's first level (for 'min-executed', Transposes plus layout penalty)."""
        return self.assignment.bound

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Levels of the objective in lexicographic order, each with its value, proven lower bound and status."""
        return self.assignment.tiers

    @property
    def signature(self) -> str | None:
        """The signature that was converted, '' for the main subgraph; None where the source has no more than one."""
        return self.graph.metadata.get("signature")

    @property
    def other_signatures(self) -> tuple[str, ...]:
        """The signatures of the source beside the one that was converted."""
        known = json.loads(self.graph.metadata.get("signatures", "[]"))
        return tuple(str(key) for key in known if key != self.signature)

    @property
    def provenance(self) -> Provenance:
        """Provenance from the model's metadata: version, source digest and options."""
        return of_model(self.model)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...] | None:
        """Tensors that cross between backends of the target; None where it has no backends."""
        table = self.assignment.goal.target.table
        return tuple(crossings(self.assignment)) if table is not None and table.backends else None

    @cached_property
    def report(self) -> dict[str, object]:
        """Facts of the conversion as plain data for JSON (docs/json.md).

        Operators are counted in the written model; those that select weights at load time count once.
        """
        operators = [node.op_type for node in running(self.model.graph)]
        return {
            "strategy": self.assignment.strategy,
            "objective": self.assignment.objective,
            "target": self.assignment.goal.target.name,
            "status": self.assignment.status,
            "transposes": operators.count("Transpose"),
            "hidden_transposes": self.price.hidden,
            "reshapes": operators.count("Reshape"),
            "bytes_moved": self.price.bytes,
            "bytes_copied": self.price.copies,
            **({} if self.crossings is None else {"crossings": len(self.crossings)}),
            "bound": self.bound,
            "tiers": [asdict(tier) for tier in self.tiers],
            **({"planned": [asdict(tier) for tier in planned]} if (planned := self.assignment.planned) else {}),
            "kept_operators": dict(self.assignment.kept),
            "ended": self.assignment.ended,
            "operators": len(operators),
            "tensors": sum(value.data is None for value in self.graph.values.values()),
            "opset": self.model.opset_import[0].version,
            **({} if self.signature is None else {"signature": self.signature}),
            "layouts": {
                end.name: {"permutation": list(end.permutation), "chosen": end.chosen} for end in self.moved_ends
            },
            "seconds": dict(self.seconds),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, and its external data to a file with ``.data`` added to its name: both or neither.

        Raises :class:`OutputError` where a file cannot be written or would overwrite the source model, and
        :class:`ModelError` where the source has changed since it was read.
        """
        target = arguments.path("path", path)
        with Stages()("write"), written(self.outputs(target), [self.source] if self.source else []):
            pass

    def session(self, *, threads: int = 0) -> Session:
        """Load the model into ONNX Runtime, to be run with the source's names and dimension orders: see
        :class:`layoutsolve.Session`.
        """
        from layoutsolve.conversion.session import Session

        if self.external is None:
            return Session(self.content("model.onnx"), threads=threads)
        with scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return Session(path, threads=threads)

    def outputs(self, path: str) -> tuple[Output, ...]:
        """Files that :meth:`save` writes: the external data, if any, then the model."""
        if self.external is not None and is_special(path):
            raise OutputError(f"constants beside the model need a file to lie beside, not '{printable(path)}'")
        model = saved(self.model, self.external, path)
        whole = Output("model", path, lambda file: file.writelines(pieces(model)))
        return (whole,) if self.external is None else (Output("data", f"{path}.data", self.write_constants), whole)

    def write_constants(self, file: BinaryIO) -> None:
        """Write the external data, as it was when the source was read.

        Raises :class:`ModelError` where the source has changed since.
        """
        if self.external is not None:
            unchanged(self.mapped)
            self.external.write(file)
            unchanged(self.mapped)

    def content(self, path: str | os.PathLike[str]) -> bytes:
        """Serialized model as it is saved under a path; the path matters for external data only.

        Raises :class:`OutputError` where the model could not refer to its external data.
        """
        target = arguments.path("path", path)
        return content_of(self.model, self.external, target)

    @cached_property
    def moved_ends(self) -> tuple[End, ...]:
        """The inputs, outputs and states that are not stored as in the source model, each tensor once."""
        ends = () if self.kept else every_end(self.graph, self.boundary, self.assignment)
        return tuple(end for end in ends if end.moved)

    def permutations(self, inputs: bool) -> dict[str, tuple[int, ...]]:
        """Permutations of graph inputs (or outputs) by name in the file: ``stored = transpose(source, permutation)``.

        Only those that are not stored as in the source model.
        """
        if self.kept:
            return {}
        ends = ends_of(self.graph, self.boundary, self.assignment, inputs)
        ports = self.model.graph.input if inputs else self.model.graph.output
        return {port.name: end.permutation for port, end in zip(ports, ends, strict=False) if end.moved}

    @property
    def rounding(self) -> frozenset[tuple[int, int]]:
        """Source operators computed as integer products with activations quantized at run time (``dynamic='integer'``):
        pairs of subgraph and operator numbers.
        """
        origins = [node.origin for node in self.graph.nodes if node.op == "MatMulInteger"]
        return frozenset((origin.subgraph, origin.index) for origin in origins if origin is not None)

    def text(self, stage: str) -> str:
        """Text of a stage of the conversion: 'graph', 'problem', 'assignment' or 'applied'.

        It is deterministic for a model and options. The problem is the one that is solved first: over orders of atoms,
        where groupings come after them in the objective.
        """
        from layoutsolve.inspection import printing
        from layoutsolve.solver.statement.statement import Statement

        asked = arguments.choice("stage", stage, printing.STAGES)
        with Stages()("print"):
            if asked == "graph":
                return printing.graph_text(self.graph)
            if asked == "applied":
                return printing.graph_text(apply(self.assignment))
            if asked == "assignment":
                return printing.assignment_text(self.assignment)
            statement = Statement(self.assignment.graph, self.boundary, self.assignment.goal)
            problem = statement.layouts if coarse_tiers(statement.goal.tiers) is None else statement.orders
            return printing.problem_text(statement.graph, problem(limit=Limit()), statement.rules)

    def profile(self) -> Profile:
        """Profile of one inference in ONNX Runtime on one thread, measured on smooth data.

        Raises :class:`VerifyError` where ONNX Runtime is missing, or refuses the model.
        """
        from layoutsolve.measurement.profile import profile

        with Stages()("profile"), scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return profile(path, self.origins)

    def explain(self, seconds: float | None = None) -> Explanation:
        """Explain each Transpose and Reshape that is left, and what would remove it.

        Remedies are found by solving again with other layouts of inputs and outputs, within ``seconds`` in all, by
        default within the work limit of one solve.
        """
        from layoutsolve.inspection.explanation import Explanation
        from layoutsolve.solver.explanation.explain import explain

        limit = arguments.seconds("seconds", seconds)
        with Stages()("explain"):
            found = explain(self.graph, self.boundary, self.assignment, limit)
            return Explanation(self._written(found) if self.kept else found)

    def _written(self, found: Sequence[Explained]) -> tuple[Explained, ...]:
        """The explanations of moves that a source has itself: its plan may have some of a kind that it has none of."""
        from layoutsolve.proto.data_movement import moves

        counted = moves(self.model)
        has = {"Transpose": counted.transposes, "Reshape": counted.reshapes}
        return tuple(each for each in found if has[each.operator])


@gc_pause.paused()
def convert(
    source: Source,
    *,
    objective: str = DEFAULT_OBJECTIVE,
    strategy: str = "cpsat",
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    opset: int | None = None,
    target: str | os.PathLike[str] | None = None,
    contrib: bool = False,
    external_data: bool | None = None,
    time_limit: float | None = None,
    custom: str = "error",
    quant: str = "qdq",
    dynamic: str = "float",
    weights: str = "source",
    signature: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    max_size: int | None = None,
) -> Conversion:
    """Convert a TensorFlow Lite model to ONNX, or optimise an ONNX model: the fewest Transposes, never more than the
    source has.

    :param source: path, bytes (any buffer), or a model in memory: an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
    :param objective: 'min-executed', 'min-transpose', 'min-bytes', 'min-nodes' or 'min-latency'.
    :param strategy: 'cpsat', or one of 'mincut', 'push', 'propagate' and 'transpose' to compare with.
    :param layouts: by tensor name a pair of strings, the dimension order in the source model and the wanted one:
        ``{"image": ("NHWC", "NCHW")}``.
    :param inputs: layout of all graph inputs: 'keep', 'nchw', 'nhwc' or 'free'; or a mapping from names to such a
        choice or a pair of orders, where others keep the source's order (the name '*' stands for them). The metadata
        have the permutation of each that is not stored as in the source: ``layoutsolve.layout.image`` is "0 3 1 2".
    :param outputs: the same of graph outputs.
    :param opset: the ONNX opset, 18 to 24, by default the lowest that is enough.
    :param target: the runtime that the model is for: the name of a target that comes with layoutsolve ('ort-cpu',
        'ort-arm', 'portable', ...), or the path of a file as ``docs/targets.md`` describes it.
    :param contrib: short for the target 'ort-cpu-contrib', which allows ONNX Runtime's contrib operators (FusedMatMul).
    :param external_data: whether initializers are written to an external data file, by default where they exceed 2 GB.
    :param time_limit: limit of the whole conversion, in seconds: solving gets the time that reading and writing leave.
        By default the limit is deterministic work, so that the same model gives the same bytes on any machine.
    :param custom: custom operators without a lowering: an 'error' that lists them, or 'passthrough', which writes them
        as nodes of the domain ``layoutsolve.custom``.
    :param quant: the format of quantized operators: 'qdq', float operators between QuantizeLinear and DequantizeLinear,
        which runtimes fuse into int8 kernels; 'qoperator', these kernels; 'float', dequantized operators that still
        saturate; 'exact', integer arithmetic that is bit-exact with LiteRT (``docs/quantised.md``).
    :param dynamic: hybrid (dynamic range) fully-connected layers: 'float', or 'integer' with activations quantized at
        run time as in LiteRT, where the target lists that as faster.
    :param weights: asymmetric 8-bit convolution weights: kept ('source'), or rounded to zero point 0 ('symmetric'),
        which is faster and changes results a little.
    :param signature: the signature to convert, by default the main subgraph.
    :param shapes: shapes of inputs by name, -1 for a dynamic size: ``{"image": (1, 224, 224, 3)}``.
    :param max_size: limit of the size of the ONNX model, in bytes, by default 4 times the source and 16 MiB more.
    :returns: the conversion.
    :raises TypeError: for arguments of a wrong type.
    :raises ConversionError: for every other error, by its kind (:mod:`layoutsolve.errors`).
    """
    options = arguments.Options.of(locals())
    limit = None if options.time_limit is None else Limit(seconds=options.time_limit)
    content, boundary, reading, goal = load(source), options.boundary, options.reading, options.goal
    stage = Stages(content, options.said())
    budget = Budget(len(content.data), options.max_size)
    graph = reference(content, reading, stage, options.opset, budget)
    if graph.imports:
        options.check_onnx()

    def converted(objective: str, assignment: Assignment | None = None) -> Conversion:
        said = replace(options, objective=objective)
        made = Provenance(VERSION, content.digest, said.text, said.own_target)
        if assignment is None:
            with stage("solve"):
                how = options.strategy
                assignment = assign(graph, boundary, strategy=how, objective=objective, target=goal.target, limit=limit)
        with stage("emit"):
            asked, origins = (options.opset, options.external_data), dict[str, Origin]()
            own = budget if objective == goal.objective else budget.fresh()
            model, external = emitted(graph, boundary, assignment, reading, made, *asked, own, origins)
            unchanged(content.mapped)
        how_read = (boundary, reading, external, content.path, origins)
        return Conversion(graph, assignment, model, stage.seconds, *how_read, mapped=content.mapped)

    found = converted(goal.objective)
    if not graph.imports or options.strategy != "cpsat" or goal.target.table is not None:
        return found
    still = all(ends in ("keep", "nchw", "free") for ends in (options.inputs, options.outputs))
    if not still or options.layouts or options.shapes or options.opset:
        return _no_worse_but_for_ends(found, converted)
    before = [found.provenance, replace(found.provenance, said=replace(options, objective="min-transpose").text)]
    return _no_worse(content, found, converted, before)


Model = TypeVar("Model", bound="bytes | OnnxModel")


def optimize(model: Model, **options: object) -> Model:
    """Give an ONNX model in memory the fewest Transposes, as a new model of the same kind.

    It stands between an exporter and whatever takes a model next. :func:`convert` tells more, and takes and writes
    files.

    :param model: an ``onnx.ModelProto``, an ``onnx_ir.Model``, or the bytes of a model.
    :param options: those of :func:`convert`.
    :raises TypeError: for a model or an argument of another type.
    :raises ConversionError: for everything else that is wrong, also for a model whose constants do not fit into one
        message of two gigabytes: :func:`convert` and :meth:`Conversion.save` write these to a file.
    """
    if isinstance(model, (str, os.PathLike)):
        raise TypeError("model is a path, and files are left alone here: use convert(...).save(...)")
    found = convert(model, **cast("dict[str, Any]", options))
    if found.external is not None:
        raise OutputError("the constants do not fit into one message: use convert(...).save(...), which writes a file")
    if isinstance(model, (bytes, bytearray, memoryview)):
        return found.content("model.onnx")  # type: ignore[return-value]
    proto: Any = type(found.model)
    if isinstance(model, proto):
        return found.model
    return import_module("onnx_ir").from_proto(found.model)  # type: ignore[no-any-return]


def _no_worse_but_for_ends(found: Conversion, converted: Callable[[str], Conversion]) -> Conversion:
    """What is made of a source in ONNX of which some ends are stored otherwise, for fewest Transposes if there are more
    than in the source and one for each of these.
    """
    from layoutsolve.proto.data_movement import moves

    most = found.graph.moves[0] + len(found.moved_ends)
    made = moves(found.model).transposes
    if made <= most or found.assignment.goal.objective == "min-transpose":
        return found
    other = converted("min-transpose")
    return other if moves(other.model).transposes < made else found


def _no_worse(
    content: Content, found: Conversion, converted: Callable[..., Conversion], before: Sequence[Provenance]
) -> Conversion:
    """What is made of a source in ONNX, for fewer Transposes alone if need be, or the source as it stands where it is
    no better then, or has been made in one of some ways ``before``: in its own layouts with weights that are selected
    where its sums may saturate, but for Transposes that alone read a constant.
    """
    from layoutsolve.conversion.passthrough import as_it_stands, fold_transposes, say_how, written_before
    from layoutsolve.proto.data_movement import Moves, moves

    graph, goal, proven = found.graph, found.assignment.goal, found.assignment
    external = External() if found.external is not None else None
    hidden = assign(graph, found.boundary, strategy="transpose", objective=goal.objective, target=goal.target)
    # what the file says costs, beside what is proven of any other
    completed = proven.completed and ranked(hidden.price, goal.tiers) == ranked(proven.price, goal.tiers)
    stays = replace(
        hidden,
        strategy=proven.strategy,
        bounds=proven.bounds,
        completed=completed,
        ended=proven.ended,
        relative=proven.kept,
    )
    if graph.metadata.get(WRITTEN):
        model = as_it_stands(content, external)
        if model is not None and written_before(model, before):
            kept = "it is what layoutsolve has written"
            return replace(found, assignment=stays, model=model, external=external, origins={}, kept=kept)
    first = Moves(*graph.moves, hidden.price.hidden)
    after = moves(found.model, found.price.hidden)
    tiers = without_groupings(goal.tiers)
    cheaper = after.counts == first.counts and ranked(found.price, tiers) < ranked(hidden.price, tiers)
    if cheaper or after.gains(first):
        return found
    if after.counts > first.counts and goal.objective != "min-transpose":  # they were traded for time
        other = converted("min-transpose")
        after = moves(other.model, other.price.hidden)
        if after.gains(first) and after.executed <= first.executed:
            return other
    model = as_it_stands(content, external)
    no_more = after.transposes <= first.transposes and after.executed <= first.executed
    if model is None or (no_more and _folds(found, model)):
        return found
    if selects(found.model) and not selects(model):
        return converted(goal.objective, stays)
    fold_transposes(model)
    say_how(model, found.provenance)
    counted, price = moves(model), stays.price
    if counted.counts < (price.transposes, price.reshapes):  # no row of some operator is what the file says
        few = Price(counted.transposes, price.hidden, counted.reshapes, price.bytes if counted.transposes else 0)
        stays = replace(stays, price=replace(few, nanoseconds=price.nanoseconds, copies=price.copies))
    return replace(found, assignment=stays, model=model, external=external, origins={}, kept="no improvement")


def _folds(found: Conversion, source: onnx.ModelProto) -> bool:
    """Whether a model has fewer Transposes of constants than its source, no more operators, and no constant twice."""
    from layoutsolve.proto.data_movement import of_constants

    own, theirs = (sum(1 for _ in running(model.graph)) for model in (found.model, source))
    no_more = own <= theirs and not found.price.copies
    return no_more and of_constants(found.model) < of_constants(source)


def associated_files(source: Source) -> dict[str, bytes]:
    """Files that are packed behind a TensorFlow Lite model, by name: labels, vocabularies and the like.

    Text files are in the ONNX model's metadata as well, as ``tflite.file.NAME``. Raises :class:`ConversionError` for
    anything but a TensorFlow Lite model.
    """
    content = load(source)
    with Stages(content)("read"):
        return dict(parse(content.data, content.folder, content.called).files)


@dataclass(frozen=True)
class Comparison:
    """Result of one strategy on a model: its price, and the status, bound and objective levels of its assignment."""

    strategy: str
    status: str
    price: Price
    bound: int
    tiers: tuple[Tier, ...]
    seconds: float


def compare(
    source: Source,
    *,
    objective: str = DEFAULT_OBJECTIVE,
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    target: str | os.PathLike[str] | None = None,
    contrib: bool = False,
    time_limit: float | None = None,
    custom: str = "error",
    quant: str = "qdq",
    dynamic: str = "float",
    weights: str = "source",
    signature: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    max_size: int | None = None,
) -> list[Comparison]:
    """Solve a model with every strategy: one :class:`Comparison` each, over the same graph and with the same cost
    model.

    Arguments are those of :func:`convert`. ``time_limit`` limits each strategy, in seconds. A strategy that cannot
    solve the model has no entry.
    """
    options = arguments.Options.of(locals())
    content, goal = load(source), options.goal
    stage = Stages(content, options.said())
    graph = reference(content, options.reading, stage)
    if graph.imports:
        options.check_onnx()
    found = tried(graph, options.boundary, goal, stage, options.time_limit)
    return [row for row in found.values() if isinstance(row, Comparison)]


def tried(
    graph: Graph,
    boundary: Boundary,
    goal: Goal,
    stage: Stages,
    seconds: float | None = None,
    known: Sequence[Assignment] = (),
) -> dict[str, Comparison | StrategyError]:
    """What every strategy makes of a graph, or why it makes nothing; what is ``known`` is not searched again."""
    done: dict[str, Comparison | StrategyError] = {}
    for strategy in STRATEGIES:
        start = time.perf_counter()
        found = next((each for each in known if each.strategy == strategy), None)
        try:
            with stage("solve"):
                found = found or assign(
                    graph, boundary, strategy=strategy, objective=goal.objective, target=goal.target, seconds=seconds
                )
        except StrategyError as error:
            done[strategy] = error
            continue
        spent = round(time.perf_counter() - start, 6)
        done[strategy] = Comparison(strategy, found.status, found.price, found.bound, found.tiers, spent)
    return done


def verify(
    source: Source,
    conversion: Conversion,
    *,
    seed: int = 0,
    samples: int | None = None,
    steps: int | None = None,
    data: str | os.PathLike[str] | Mapping[str, npt.ArrayLike] | None = None,
    tensors: bool = False,
) -> Verification:
    """Measure the accuracy of a conversion: run the source in LiteRT and the result in ONNX Runtime on the same data.

    Outputs are compared end to end. In a TensorFlow Lite model every intermediate tensor is compared too, each operator
    on LiteRT's own inputs, and the first diverging operator is named; where all tensors have more than 512 MB only with
    ``tensors``.

    The data are ``samples`` inputs drawn from ``seed``, in turn from several distributions (smooth like images,
    uniform, normal, extreme), by default one of each as far as 10 seconds go; indices are in the range of what they
    index. A model with states is run ``steps`` times in a row on each, by default three. Or they are ``data``: arrays
    by the names of inputs, in the source's dimension order, with a leading sample dimension where they hold several
    (time steps, if the model has states); or the path of a ``.npz`` file of such arrays, or of a folder of such files.

    Returns a :class:`Verification`, whose ``verdict`` is 'not verified' where a runtime refuses its model. Raises
    :class:`VerifyError` where a runtime is missing, and where data do not fit.
    """
    from layoutsolve.verification.input_files import read

    asked = arguments.instance("conversion", conversion, Conversion)
    first = arguments.whole("seed", seed, 0)
    count = None if samples is None else arguments.whole("samples", samples, 1, arguments.MOST_SAMPLES)
    turns = None if steps is None else arguments.whole("steps", steps, 1, arguments.MOST_SAMPLES)
    inside = arguments.flag("tensors", tensors)
    arrays = arguments.arrays("data", data) if isinstance(data, Mapping) else None
    place = None if data is None or arrays is not None else arguments.path("data", data)
    content = load(source)
    with Stages(content)("verify"):
        given: Sequence[Data] = [arrays] if arrays is not None else [] if place is None else read(place)
        chosen = {"seed": first, "samples": count, "steps": turns, "data": given}
        if asked.external is None:
            return _compared(content, asked, asked.model, inside, chosen)
        with scratch() as folder:
            path = folder / "model.onnx"
            asked.save(path)
            return _compared(content, asked, path, inside, chosen)


def _compared(
    source: Content, conversion: Conversion, model: onnx.ModelProto | Path, inside: bool, chosen: Mapping[str, Any]
) -> Verification:
    from layoutsolve.verification.runtimes import RefusedError
    from layoutsolve.verification.verify import refused

    try:
        return _run_both(source, conversion, model, inside, chosen)
    except RefusedError as error:
        error.result = error.result and not _foreign(conversion)
        return refused(error, chosen["seed"])


def _foreign(conversion: Conversion) -> bool:
    """Whether a model has operators of domains that no runtime need know."""
    known = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft", *(each.domain for each in conversion.model.functions)}
    return any(node.domain not in known for node in nodes_of(conversion.model.graph))


def _run_both(
    source: Content, conversion: Conversion, model: onnx.ModelProto | Path, inside: bool, chosen: Mapping[str, Any]
) -> Verification:
    from layoutsolve.verification import onnx_source
    from layoutsolve.verification.verify import verify as compared

    inputs, outputs = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
    if conversion.graph.imports:
        if inside:
            raise OptionError("tensors inside are compared with those of LiteRT, which does not run models in ONNX")
        given = model if isinstance(model, Path) else model.SerializeToString()
        known = {name: chosen[name] for name in ("seed", "samples", "data")}
        states = following_of({each.key: each.value for each in conversion.model.metadata_props})
        outputs |= {states[end.name]: end.permutation for end in conversion.moved_ends if end.name in states}
        original = bytes(source.data) if source.path is None else Path(source.path)
        known["rounds"] = any(value.quant is not None for value in conversion.graph.values.values())
        return onnx_source.verify(original, given, input_permutations=inputs, output_permutations=outputs, **known)
    assignment = conversion.assignment
    return compared(
        bytes(source.data),
        model,
        input_permutations=inputs,
        output_permutations=outputs,
        rounding=conversion.rounding,
        signature=conversion.reading.signature,
        inside=(assignment.graph.values, stored(assignment)),
        thorough=inside,
        symmetric=conversion.reading.weights == "symmetric",
        **chosen,
    )
