"""Public API: conversion, comparison of strategies, verification."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from layoutsolve.base import gc_pause
from layoutsolve.conversion import arguments
from layoutsolve.conversion.choices import (
    Custom,
    Dynamic,
    Format,
    InitializerInputs,
    Objective,
    Quant,
    Strategy,
    Weights,
)
from layoutsolve.conversion.provenance import Provenance
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import FileOptions, emitted, reference
from layoutsolve.errors import OutputError, StrategyError, UnsupportedError
from layoutsolve.frontend import parse
from layoutsolve.io.source import Content, OnnxModel, Source, load, unchanged
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from layoutsolve.result import Conversion
from layoutsolve.solver import STRATEGIES, Assignment, Boundary, Goal, Price, Tier, assign
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.boundary import Ends
from layoutsolve.version import VERSION

if TYPE_CHECKING:
    import numpy.typing as npt

    from layoutsolve.tflite_result import TfliteConversion
    from layoutsolve.verification.input_files import Data
    from layoutsolve.verification.verdict import Verification


@gc_pause.paused()
def convert(
    source: Source,
    *,
    objective: Objective = "min-executed",
    strategy: Strategy = "cpsat",
    to: Format = "onnx",
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    opset: int | None = None,
    target: str | os.PathLike[str] | None = None,
    contrib: bool = False,
    external_data: bool | None = None,
    time_limit: float | None = None,
    custom: Custom = "error",
    quant: Quant = "qdq",
    dynamic: Dynamic = "float",
    weights: Weights = "source",
    initializer_inputs: InitializerInputs = "drop",
    signature: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    max_size: int | None = None,
) -> Conversion:
    """Convert a TensorFlow Lite or ONNX model to either of both, or optimise it: the fewest Transposes, never more than
    the source has.

    :param source: path, bytes (any buffer), or a model in memory: an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
    :param objective: 'min-executed', 'min-transpose', 'min-bytes', 'min-nodes' or 'min-latency'.
    :param strategy: 'cpsat', or one of 'mincut', 'push', 'propagate' and 'transpose' to compare with.
    :param to: the format that is written: 'onnx', or 'tflite' for LiteRT (``docs/tflite_out.md``).
    :param layouts: by tensor name a pair of strings, the dimension order in the source model and the wanted one:
        ``{"image": ("NHWC", "NCHW")}``.
    :param inputs: layout of all graph inputs: 'keep', 'nchw', 'nhwc' or 'free'; or a mapping from names to such a
        choice or a pair of orders, where others keep the source's order (the name '*' stands for them). The metadata
        have the permutation of each that is not stored as in the source: ``layoutsolve.layout.image`` is "0 3 1 2".
    :param outputs: the same of graph outputs.
    :param opset: the ONNX opset, 11 to 24, by default that of an ONNX source, else the lowest that is enough.
    :param target: the runtime that the model is for: the name of a target that comes with layoutsolve ('ort-cpu',
        'ort-arm', 'portable', ...), or the path of a file as ``docs/targets.md`` describes it.
    :param contrib: short for the target 'ort-cpu-contrib', which allows ONNX Runtime's contrib operators (FusedMatMul).
    :param external_data: whether initializers are written to an external data file, by default where they exceed 2 GB.
    :param time_limit: limit of the whole conversion, in seconds: solving gets the time that reading and writing leave.
        By default the limit is deterministic work, so that the same model gives the same bytes on any machine.
    :param custom: custom operators without a lowering: an 'error' that lists them, or 'passthrough', which writes them
        as nodes of the domain ``layoutsolve.custom``.
    :param quant: the format of quantized operators: 'qdq', float operators between QuantizeLinear and DequantizeLinear,
        which runtimes fuse into int8 kernels; 'qoperator', these kernels; 'symmetric', the former without zero points,
        rounded anew; 'float', dequantized operators that still saturate; 'exact', integer arithmetic that is bit-exact
        with LiteRT (``docs/quantized.md``).
    :param dynamic: hybrid (dynamic range) fully-connected layers: 'float', or 'integer' with activations quantized at
        run time as in LiteRT, where the target lists that as faster.
    :param weights: asymmetric 8-bit convolution weights: kept ('source'), or rounded to zero point 0 ('symmetric'),
        which is faster and changes results a little.
    :param initializer_inputs: inputs of an ONNX model that are initializers as well, which may be overridden: constants
        that are no inputs ('drop'), or inputs with a default ('keep').
    :param signature: the signature to convert, by default the main subgraph.
    :param shapes: shapes of inputs by name, -1 for a dynamic size: ``{"image": (1, 224, 224, 3)}``.
    :param max_size: limit of the size of the ONNX model, in bytes, by default 4 times the source and 16 MiB more.
    :returns: the conversion.
    :raises TypeError: for arguments of a wrong type.
    :raises ConversionError: for every other error, by its kind (:mod:`layoutsolve.errors`).
    """
    options = arguments.Options.of(locals())
    limit = None if options.time_limit is None else Limit(seconds=options.time_limit)
    content = load(source)
    stage = Stages(content, options.said())
    budget = Budget(len(content.data), options.max_size)
    graph = reference(content, options.reading, stage, options.opset, budget)
    options.check_onnx() if graph.imports else options.check_tflite()
    request = Request(content, graph, options, limit, stage, budget)
    return request.tflite() if options.to == "tflite" else request.no_worse()


_OTHERS = {"min-transpose": ("min-executed", "min-nodes"), "min-nodes": ("min-executed", "min-transpose")}
"""Objectives that may find fewer Transposes, or operators, where what was asked for was traded for operators."""

_SOONER = 0.9
"""By how much what other layouts move has to be less, of what is moved, so that they are taken."""


@dataclass(frozen=True)
class Request:
    """A graph that is to be converted: with its source, the options, the time and the budget that are left."""

    content: Content
    graph: Graph
    options: arguments.Options
    limit: Limit | None
    stage: Stages
    budget: Budget

    def tflite(self) -> Conversion:
        """The model in TensorFlow Lite. Operators of a source in it that LiteRT does not express in the layouts that
        are best for all keep theirs, and the others are decided again.
        """
        from layoutsolve.conversion.tflite_file import fixed_by, holding, position_of  # which few conversions need

        graph, fixed = self.graph, frozenset[int]()
        refused: UnsupportedError | None = None
        while True:  # one more time at most for each operator that is found to be fixed
            try:
                found = self.tflite_of(self._assignment(self.options.goal, graph), graph)
            except UnsupportedError as error:
                position = position_of(self.content, self.options.reading)
                more, refused = fixed_by(error, position), refused or error
                if more <= fixed:
                    raise refused from error
            else:
                position, more = found.position, found.fixed
                if more <= fixed:
                    return replace(self._in_fewer_operators(self._in_larger_pieces(found, graph), graph), fixed=fixed)
            fixed |= more
            graph = holding(self.graph, position, fixed)

    def _in_larger_pieces(self, found: TfliteConversion, graph: Graph) -> TfliteConversion:
        """What is found of a source in TensorFlow Lite, or what 'push' finds where LiteRT takes longer for Transposes
        that are fewer and move few elements at a time.
        """
        from layoutsolve.conversion.small_moves import cost

        options = self.options
        if graph.imports or options.strategy != "cpsat" or options.objective in ("min-transpose", "min-nodes"):
            return found
        if not cost(found.written, whole=0):
            return found
        other = self._otherwise(found, graph, options.objective, "push")
        return other if cost(other.written) < _SOONER * cost(found.written) else found

    def _in_fewer_operators(self, found: TfliteConversion, graph: Graph) -> TfliteConversion:
        """What is found of a source in TensorFlow Lite, or what other objectives find where Transposes were traded
        for operators, as some layouts take two of LiteRT's for one.
        """
        asked, before = self.options.objective, found.graph.figures
        if graph.imports or self.options.strategy != "cpsat" or found.fixed or asked not in _OTHERS:
            return found
        moves = before.transposes + before.reshapes - sum(found.moves.counts)
        more = before.operators - len(found.operators) < moves
        if not (found.price.transposes < before.transposes if found.kept else more):
            return found
        for objective in _OTHERS[asked]:
            other = self._otherwise(found, graph, objective)
            first, second = ((each.moves.transposes, len(each.operators)) for each in (found, other))
            found = other if (second < first if asked == "min-transpose" else second[::-1] < first[::-1]) else found
            if asked == "min-transpose" and not found.kept:  # 'min-nodes' takes long
                break
        return found

    def _otherwise(self, found: TfliteConversion, graph: Graph, objective: str, strategy: str = "") -> TfliteConversion:
        """What another objective or strategy finds, or what is found already where LiteRT does not express that."""
        options = replace(self.options, objective=objective)
        request = replace(self, options=options, budget=self.budget.fresh())
        try:
            other = request.tflite_of(request._assignment(options.goal, graph, strategy), graph)
        except UnsupportedError:
            return found
        return found if other.fixed else other

    def tflite_of(self, assignment: Assignment, graph: Graph) -> TfliteConversion:
        """The model in TensorFlow Lite of an assignment that is known, of a graph some of whose operators may keep
        their layouts.
        """
        from layoutsolve.conversion.tflite_file import tflite_file
        from layoutsolve.tflite_result import as_tflite

        boundary, reading = self.options.boundary, self.options.reading
        with self.stage("emit"):
            file = tflite_file(
                self.content, graph, boundary, assignment, reading, self._made(self.options), self.budget
            )
            unchanged(self.content.mapped)
            return as_tflite(file, self.content, graph, assignment, (self.stage.seconds, boundary, reading))

    def no_worse(self) -> Conversion:
        """The model in ONNX; a source in ONNX itself where the target runs that faster."""
        options, goal = self.options, self.options.goal
        first = self.onnx(options.objective)
        if not self.graph.imports or options.strategy != "cpsat" or goal.target.table is not None:
            return first
        from layoutsolve.no_worse import no_worse, no_worse_but_for_ports  # TensorFlow Lite needs none of it

        still = all(ends in ("keep", "nchw", "free") for ends in (options.inputs, options.outputs))
        if not still or options.layouts or options.shapes or options.opset:
            return no_worse_but_for_ports(first, self.onnx)
        before = [first.provenance, replace(first.provenance, said=replace(options, objective="min-transpose").text)]
        return no_worse(self.content, first, self.onnx, before)

    def onnx(self, objective: str, assignment: Assignment | None = None) -> Conversion:
        """The model in ONNX by an objective, or of an assignment that is known."""
        options, content = replace(self.options, objective=objective), self.content
        boundary, reading = options.boundary, options.reading
        if assignment is None:
            assignment = self._assignment(options.goal)
        with self.stage("emit"):
            asked, made = FileOptions(options.opset, options.external_data), self._made(options)
            budget = self.budget if objective == self.options.objective else self.budget.fresh()
            model, external, origins = emitted(self.graph, boundary, assignment, reading, made, asked, budget)
            unchanged(content.mapped)
        how_read = (boundary, reading, external, content.file, origins)
        return Conversion(self.graph, assignment, model, self.stage.seconds, *how_read, mapped=content.mapped)

    def _made(self, options: arguments.Options) -> Provenance:
        return Provenance.of(self.content, VERSION, options.text, options.own_target)

    def _assignment(self, goal: Goal, graph: Graph | None = None, other: str = "") -> Assignment:
        boundary, strategy = self.options.boundary, other or self.options.strategy
        with self.stage("solve"):
            return assign(
                self.graph if graph is None else graph,
                boundary,
                strategy=strategy,
                objective=goal.objective,
                target=goal.target,
                limit=self.limit,
            )


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
    objective: Objective = "min-executed",
    layouts: Mapping[str, tuple[str, str]] | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    target: str | os.PathLike[str] | None = None,
    contrib: bool = False,
    time_limit: float | None = None,
    custom: Custom = "error",
    quant: Quant = "qdq",
    dynamic: Dynamic = "float",
    weights: Weights = "source",
    initializer_inputs: InitializerInputs = "drop",
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
    options.check_onnx() if graph.imports else options.check_tflite()
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
    from layoutsolve.accuracy import measured
    from layoutsolve.verification.input_files import Sampling, read

    if isinstance(conversion, (str, os.PathLike)):
        raise TypeError("conversion is a path, and files are no conversions: give what convert returns of the source")
    asked, inside = arguments.instance("conversion", conversion, Conversion), arguments.flag("tensors", tensors)
    first = arguments.whole("seed", seed, 0)
    count = None if samples is None else arguments.whole("samples", samples, 1, arguments.MOST_SAMPLES)
    turns = None if steps is None else arguments.whole("steps", steps, 1, arguments.MOST_SAMPLES)
    arrays = arguments.arrays("data", data) if isinstance(data, Mapping) else None
    place = None if data is None or arrays is not None else arguments.path("data", data)
    content = load(source)
    with Stages(content)("verify"):
        given: Sequence[Data] = [arrays] if arrays is not None else [] if place is None else read(place)
        return measured(content, asked, Sampling(first, count, turns, given), thorough=inside)
