"""Converting and comparing, as a program calls it."""

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
    from layoutsolve.verification.input_files import Data
    from layoutsolve.verification.verify import Verification


@dataclass(frozen=True, repr=False)
class Conversion:
    """A converted model with everything that is known about it.

    ``graph`` is the reference graph. ``assignment`` has the layouts, and the graph that they are of; its ``status`` is
    'optimal' where every one of the ``tiers`` is, or is at least 'conditional'. ``seconds`` has the time of each stage.
    ``boundary`` and ``reading`` are what was asked for. ``external`` has the constants where they are too large for the
    model itself; :meth:`save` writes them beside it. ``source`` is the path of the source model, None where that was
    given as bytes. ``origins`` tells by a written node's name which operator it comes from. ``kept`` says why a source
    in ONNX is written as it stands, '' where it is not.
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
        """What another process is handed: all constants go there, wherever they lie here.

        Raises :class:`ModelError` where they still lie in the source and that has changed.
        """
        unchanged(self.mapped)
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "mapped": ()}

    def __repr__(self) -> str:
        tiers = ", ".join(map(str, self.tiers))
        return f"<Conversion of '{self.graph.name}': {counted(self.report['operators'], 'operator')}; {tiers}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        title = f"{self.graph.name}: {counted(self.report['operators'], 'operator')}, opset {self.report['opset']}"
        return self.assignment.as_table(title, map(str, self.moved_ends))

    @property
    def price(self) -> Price:
        """What the layouts cost."""
        return self.assignment.price

    @property
    def bound(self) -> int:
        """A proven lower bound on the objective's first tier (for 'min-executed', Transposes and hidden ones)."""
        return self.assignment.bound

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """What is known about each tier of the objective, in their order: value, proven lower bound and status."""
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
        """How the model was made, which its metadata say: version, source and options."""
        return of_model(self.model)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...] | None:
        """Where data cross from one backend of the target to another one; None where it has no backends."""
        table = self.assignment.goal.target.table
        return tuple(crossings(self.assignment)) if table is not None and table.backends else None

    @cached_property
    def report(self) -> dict[str, object]:
        """The facts of the conversion, ready for JSON. Operators are counted in the written model, and those of weights
        that it selects when it is loaded once.
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
        """Write the model, and external constants to a file with ``.data`` added to its name: both or none.

        Raises :class:`OutputError` where that is impossible, also where it would overwrite the source model, and
        :class:`ModelError` where constants still lie in the source and that has changed.
        """
        target = arguments.path("path", path)
        with Stages()("write"), written(self.outputs(target), [self.source] if self.source else []):
            pass

    def session(self, *, threads: int = 0) -> Session:
        """The model in ONNX Runtime, to be run as its source was: see :class:`layoutsolve.Session`."""
        from layoutsolve.conversion.session import Session

        if self.external is None:
            return Session(self.content("model.onnx"), threads=threads)
        with scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return Session(path, threads=threads)

    def outputs(self, path: str) -> tuple[Output, ...]:
        """What :meth:`save` writes: the constants where they are apart, then the model."""
        if self.external is not None and is_special(path):
            raise OutputError(f"constants beside the model need a file to lie beside, not '{printable(path)}'")
        model = saved(self.model, self.external, path)
        whole = Output("model", path, lambda file: file.writelines(pieces(model)))
        return (whole,) if self.external is None else (Output("data", f"{path}.data", self.write_constants), whole)

    def write_constants(self, file: BinaryIO) -> None:
        """Write the constants that are kept apart, as they were when the source was read.

        Raises :class:`ModelError` where they still lie in the source and that has changed.
        """
        if self.external is not None:
            unchanged(self.mapped)
            self.external.write(file)
            unchanged(self.mapped)

    def content(self, path: str | os.PathLike[str]) -> bytes:
        """The bytes of the model as it is saved under a path, which matters only where constants are apart.

        Raises :class:`OutputError` where the model could not refer to its constants.
        """
        target = arguments.path("path", path)
        return content_of(self.model, self.external, target)

    @cached_property
    def moved_ends(self) -> tuple[End, ...]:
        """The inputs, outputs and states that are not stored as in the source model, each tensor once."""
        ends = () if self.kept else every_end(self.graph, self.boundary, self.assignment)
        return tuple(end for end in ends if end.moved)

    def permutations(self, inputs: bool) -> dict[str, tuple[int, ...]]:
        """How graph inputs (or outputs) are stored: ``stored = transpose(source, permutation)``, by name in the file.

        Only those that are not stored as in the source model.
        """
        if self.kept:
            return {}
        ends = ends_of(self.graph, self.boundary, self.assignment, inputs)
        ports = self.model.graph.input if inputs else self.model.graph.output
        return {port.name: end.permutation for port, end in zip(ports, ends, strict=False) if end.moved}

    @property
    def rounding(self) -> frozenset[tuple[int, int]]:
        """The operators of the source that are products of integers, to which floats are rounded at run time: each by
        the numbers of its subgraph and of itself.
        """
        origins = [node.origin for node in self.graph.nodes if node.op == "MatMulInteger"]
        return frozenset((origin.subgraph, origin.index) for origin in origins if origin is not None)

    def text(self, stage: str) -> str:
        """What a stage of the conversion made, as text: 'graph', 'problem', 'assignment' or 'applied'.

        The same model and options give the same text. The problem is the one that is searched first: over orders of
        atoms, where groupings come after them in the objective.
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
        """Where the time of a run goes in ONNX Runtime on one thread, which is measured on smooth data.

        Raises :class:`VerifyError` where ONNX Runtime is missing, or refuses the model.
        """
        from layoutsolve.measurement.profile import profile

        with Stages()("profile"), scratch() as folder:
            path = folder / "model.onnx"
            self.save(path)
            return profile(path, self.origins)

    def explain(self, seconds: float | None = None) -> Explanation:
        """Why each Transpose and Reshape is there, and what would remove it.

        That is found by solving again with other choices for the ends, a few times, for ``seconds`` in all, or
        as much work as solving once may take.
        """
        from layoutsolve.inspection.explanation import Explanation
        from layoutsolve.solver.explanation.explain import explain

        limit = arguments.seconds("seconds", seconds)
        with Stages()("explain"):
            return Explanation(explain(self.graph, self.boundary, self.assignment, limit))


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
    """Convert a model of TensorFlow Lite, or give one in ONNX the fewest Transposes: it never gets more of them.

    :param source: its path, its bytes (any buffer that holds them), or a model in memory: an ``onnx.ModelProto`` or an
        ``onnx_ir.Model``.
    :param objective: what is minimised: 'min-executed', 'min-transpose', 'min-bytes', 'min-nodes' or 'min-latency'.
    :param strategy: how: 'cpsat', or one of 'mincut', 'push', 'propagate' and 'transpose' to compare with.
    :param layouts: by names of tensors a pair of strings, the order of dimensions in the source model and the wanted
        one: ``{"image": ("NHWC", "NCHW")}``.
    :param inputs: how all others at that end of the graph are stored: 'keep', 'nchw', 'nhwc' or 'free'; or, as a
        mapping from names to such a choice or a pair of orders, how some are, while others keep the source's order (the
        name '*' stands for them). Where an end is not stored as in the source, the model's metadata say so:
        ``layoutsolve.layout.image`` is "0 3 1 2".
    :param outputs: the same of outputs.
    :param opset: the ONNX operator set, by default the lowest that is enough.
    :param target: the runtime that the model is for: the name of a target that comes with layoutsolve ('ort-cpu',
        'ort-arm', ...), or the path of a file as ``docs/targets.md`` describes it.
    :param contrib: short for the target 'ort-cpu-contrib', which allows operators that ONNX Runtime alone has
        (FusedMatMul).
    :param external_data: whether constants are kept in a file beside the model, by default where they are more than a
        model can hold.
    :param time_limit: bounds the conversion, in seconds: the search for layouts gets what reading and writing leave,
        nothing where that is over. By default counted work bounds the search, so that the same model gives the same
        bytes on any machine.
    :param custom: what becomes of custom operators without a lowering: an 'error' that lists them, or 'passthrough',
        which writes them as nodes of the domain ``layoutsolve.custom``.
    :param quant: how operators on quantised numbers are written: 'qdq' as operators on real numbers between
        QuantizeLinear and DequantizeLinear, of which runtimes make kernels on integers; 'qoperator' as these kernels;
        'float' as operators on real numbers that still saturate; 'exact' as arithmetic on integers that gives LiteRT's
        results, bit for bit (``docs/quantised.md``).
    :param dynamic: how floats are multiplied by weights of bytes: as they are ('float'), or rounded to bytes at run
        time, as LiteRT does it, in dense layers for which the target says that it is faster ('integer').
    :param weights: what becomes of weights of bytes of convolutions whose zero is not stored as 0: they are kept
        ('source'), or the nearest ones for which it is are taken ('symmetric'), which is faster, and changes results a
        little.
    :param signature: the signature to convert, by default the main subgraph.
    :param shapes: the sizes of inputs by name, -1 for an open one: ``{"image": (1, 224, 224, 3)}``.
    :param max_size: the most bytes that the ONNX model may have, by default 4 times those of the source and 16 MiB
        more.
    :raises TypeError: for arguments of a wrong type.
    :raises ConversionError: for everything else that is wrong.
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
    stays = replace(hidden, strategy=proven.strategy, bounds=proven.bounds, ended=proven.ended, relative=proven.kept)
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
    """The files that are packed behind a TensorFlow Lite model, by name: labels, vocabularies and the like.

    Those that are texts are in the ONNX model's metadata as well, as ``tflite.file.NAME``. Raises
    :class:`ConversionError` for what is no such model.
    """
    content = load(source)
    with Stages(content)("read"):
        return dict(parse(content.data, content.folder, content.called).files)


@dataclass(frozen=True)
class Comparison:
    """One strategy's result on a model; ``status``, ``bound`` and ``tiers`` are those of its assignment."""

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
    """What every strategy makes of a model: one row each, over the same graph and priced the same way.

    ``time_limit`` bounds the search of each. A strategy that cannot solve the model has no row.
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
    """Run the source in LiteRT and the conversion in ONNX Runtime on the same data, and compare all outputs.

    The data are drawn from a ``seed``, ``samples`` of them in turn from several distributions (smooth like images,
    uniform, normal, extreme), by default one of each as far as 10 seconds go; indices are in the range of what they
    index. A model with states is run so many ``steps`` in a row on each, by default three. Or they are ``data``: arrays
    by the names of inputs, in the source's order of dimensions, with one dimension more in front where they hold
    several samples (the steps of one sample, if the model has states); or the path of a ``.npz`` file of such arrays,
    or of a folder of such files. Every tensor inside of a model of TensorFlow Lite is compared too, each operator on
    LiteRT's own inputs, and the first that departs is named; with ``tensors`` however large they are. Where a runtime
    refuses its model the ``verdict`` says so. Raises :class:`VerifyError` where a runtime is missing, and where data
    do not fit.
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
