"""Comparing a converted model with its source: LiteRT's reference kernels against ONNX Runtime on the same input."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.dequantized_model import dequantized
from layoutsolve.verification.input_files import DRAWN, Sampling
from layoutsolve.verification.input_sampling import limits
from layoutsolve.verification.layer_accuracy import Compared, Inspection, Inspector
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.litert_tensors import BASIS, layers
from layoutsolve.verification.output_accuracy import Bench
from layoutsolve.verification.partial_model import partial_of
from layoutsolve.verification.refusals import RefusedError, of_result
from layoutsolve.verification.runtimes import OnnxRuntime, runtime_of
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from layoutsolve.verification.tensor_locations import SAME, Relation
from layoutsolve.verification.verdict import Verification, not_run

OPTIMISER = "outputs agree without ONNX Runtime's graph optimizations, so that these diverge"
UNSEEN = "intermediate tensors are not compared: they have more than {} MB in all (--verify-tensors compares them)"
"""What is said of the tensors inside."""

MOST_BYTES = 1 << 29
"""The most that all tensors inside of a model may have to be compared where that is not asked for."""


Result = onnx.ModelProto | bytes | Path
"""A result: in ONNX in memory, or as a file, which may have external data; in TensorFlow Lite its bytes."""


@dataclass(frozen=True)
class Asked:
    """Arguments of :func:`verify`; what is rounded is by subgraph as LiteRT has these."""

    model: Result
    sampling: Sampling
    relation: Relation
    thorough: bool
    told: Callable[[list[Compared]], None] | None


def verify(
    source: bytes,
    model: Result,
    sampling: Sampling = DRAWN,
    relation: Relation = SAME,
    *,
    thorough: bool = False,
    timeout: float = 300.0,
    told: Callable[[list[Compared]], None] | None = None,
) -> Verification:
    """Run both models on the same inputs and compare their outputs by position.

    The truth is LiteRT's plain kernels. A model that does not agree is held against its float twin where it has one
    (see :data:`TWIN`). Inputs that LiteRT refuses are left out.

    With what the ``relation`` has ``inside`` the ONNX model, given as a proto or a path, the tensors in it are compared
    as well, however large they are if it is ``thorough``. ``timeout`` (seconds) holds for each run of LiteRT, and
    ``told`` is given what was compared inside. Raises :class:`RefusedError` where a runtime refuses its model, and
    :class:`VerifyError` where a runtime is missing, and where the models or the data do not fit together.
    """
    place = subgraph_of(source, relation.signature)
    main, own = exchanged(source, place), replace(relation, rounding=_exchanged(relation.rounding, place))
    asked = Asked(model, sampling, own, thorough, told)
    with LiteRT(timeout) as litert:
        try:
            return _verified(litert, main, asked)
        except RefusedError as error:
            found = None if sampling.data else _partly(litert, main, asked)
            if found is None:
                raise
            if isinstance(found, VerifyError):
                raise error from None
            return found


def _partly(litert: LiteRT, main: bytes, asked: Asked) -> Verification | VerifyError | None:
    """The comparison of the part of a model that LiteRT runs, or why there is none; None where it runs no part."""
    relation = asked.relation
    if relation.inside is None or isinstance(asked.model, bytes):
        return None
    partial = partial_of(litert, main, relation.inside)
    if partial is None:
        return None
    own = replace(
        relation,
        input_permutations={**relation.input_permutations, **partial.moved},
        output_permutations={**relation.output_permutations, **partial.moved},
    )
    try:
        found = _verified(litert, partial.source, replace(asked, model=partial.cut(asked.model), relation=own))
    except VerifyError as error:
        if isinstance(error, RefusedError) and error.result and not (error.running and partial.counting):
            return not_run(error, asked.sampling.seed)
        return _unlike(error)
    if not partial.lacking or not found.passed:
        return found
    tensors = 0 if found.inspection is None else found.inspection.compared
    return replace(found, refusal=partial.told(tensors, len(found.outputs)), verdict="not verified")


def _unlike(error: VerifyError) -> VerifyError:
    """An error of which a result is not the cause: numbers that are drawn for what an operator gives may be none that
    it would give.
    """
    if isinstance(error, RefusedError):
        error.result = False
    return error


def _verified(litert: LiteRT, main: bytes, asked: Asked) -> Verification:
    """The comparison of a model whose main subgraph was converted, as it is told in :func:`verify`."""
    ports, model, inside = litert.describe(main), asked.model, asked.relation.inside
    with of_result():
        runtime = runtime_of(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
    parsed = parse(main)
    allowed, keep = limits(parsed), _keeps(parsed)
    bench = Bench(litert, runtime, ports, allowed, asked.sampling, asked.relation, keep, _detections(parsed))
    judged = dequantized(main, asked.relation.rounding) or main
    bench = replace(bench, open=bench.size(main))
    bench = replace(bench, other=bench.another(main))
    inspector = _inspector(judged, asked)
    large = inspector is not None and inspector.size > MOST_BYTES and not asked.thorough
    found = bench.judged(main, judged, None if large else inspector)
    if isinstance(model, bytes) and inside is not None and asked.thorough:
        step = bench.inputs(1)[0][0]
        named = bench.fed([step])[0]
        fed = [named[name] for name, _, _ in bench.runtime.inputs]
        compared = layers(litert, main, model, inside, (step, fed))
        return replace(found, inspection=Inspection(len(compared), None, "", compared, BASIS))
    if large and found.passed:
        return replace(found, inspection=Inspection(0, None, UNSEEN.format(MOST_BYTES >> 20)))
    if inspector is None:
        return found
    if large:  # operators tell whether an output is off by what roundings come to
        bench.used.clear()
        found = bench.judged(main, judged, inspector)
    inspection = inspector.found()
    if asked.told is not None:
        asked.told(inspector.compared)
    if inspection.departure is None and inspector.unknown:
        raise RefusedError(inspector.unknown)
    right = inspection.departure is None and inspector.complete
    if not found.passed and right and not isinstance(model, bytes):
        found, optimised = _unoptimised(bench, main, judged, model, found)
        inspection = replace(inspection, note=OPTIMISER) if optimised else inspection
    return replace(found, inspection=inspection)


def _inspector(judged: bytes, asked: Asked) -> Inspector | None:
    """What compares the tensors inside of a model, None where that is not asked for or cannot be."""
    relation = asked.relation
    if relation.inside is None or isinstance(asked.model, bytes):
        return None
    moved = relation.output_permutations
    found = Inspector(judged, asked.model, relation.inside, moved, relation.rounding, relation.symmetric)
    if asked.thorough:
        found.measure()
    return found


def _unoptimised(
    bench: Bench, main: bytes, judged: bytes, model: onnx.ModelProto | Path, found: Verification
) -> tuple[Verification, bool]:
    """A comparison with the distances that the model has without graph optimizations, and whether an output agrees
    without them that does not with them.
    """
    with of_result():
        plain = OnnxRuntime(model if isinstance(model, Path) else model.SerializeToString(), level="none")
    unoptimised = replace(bench, runtime=plain).again(main, judged, found)
    pairs = [*zip(found.outputs, unoptimised, strict=True)]
    outputs = tuple(replace(each, accumulated=other.distance) for each, other in pairs)
    optimised = any(not each.passed and other.agrees for each, other in zip(outputs, unoptimised, strict=True))
    return replace(found, outputs=outputs), optimised


def _keeps(model: Model) -> bool:
    """Whether LiteRT's interpreter may run one sample after the other: all states that it has are variables."""
    tensors = (tensor for subgraph in model.subgraphs for tensor in subgraph.tensors)
    names = {operator.name for subgraph in model.subgraphs for operator in subgraph.operators}
    random = any(name.startswith(("RANDOM_", "MULTINOMIAL", "CUSTOM:")) for name in names)
    return not random and not any(tensor.dtype in ("resource", "variant") for tensor in tensors)


def _detections(model: Model) -> list[list[int]]:
    """The places of outputs that are boxes, classes, scores and the number of detections."""
    graph = model.subgraphs[0]
    found = (each.outputs for each in graph.operators if each.name == "CUSTOM:TFLite_Detection_PostProcess")
    return [[graph.outputs.index(index) for index in each[:4]] for each in found if {*each[:4]} <= {*graph.outputs}]


def _exchanged(rounding: Collection[tuple[int, int]], place: int) -> set[tuple[int, int]]:
    """The same operators by subgraph and index, where a subgraph and the main one have changed places."""
    numbers = {0: place, place: 0}
    return {(numbers.get(subgraph, subgraph), index) for subgraph, index in rounding}
