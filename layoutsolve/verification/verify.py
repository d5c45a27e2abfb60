"""Comparing a converted model with its source: LiteRT's reference kernels against ONNX Runtime on the same input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.dequantized_model import dequantized
from layoutsolve.verification.input_files import Data
from layoutsolve.verification.input_sampling import limits
from layoutsolve.verification.layer_accuracy import Compared, Inspection, Inspector
from layoutsolve.verification.litert_tensors import BASIS, layers
from layoutsolve.verification.output_accuracy import Bench
from layoutsolve.verification.partial_model import partial_of
from layoutsolve.verification.runtimes import LiteRT, OnnxRuntime, RefusedError, of_result, runtime_of
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from layoutsolve.verification.tensor_locations import Inside
from layoutsolve.verification.verdict import Verification, not_run

OPTIMISER = "outputs agree without ONNX Runtime's graph optimizations, so that these diverge"
UNSEEN = "intermediate tensors are not compared: they have more than {} MB in all (--verify-tensors compares them)"
"""What is said of the tensors inside."""

MOST_BYTES = 1 << 29
"""The most that all tensors inside of a model may have to be compared where that is not asked for."""


@dataclass(frozen=True)
class Asked:
    """Arguments of :func:`verify`; ``moved`` has the permutations of inputs and of outputs."""

    model: onnx.ModelProto | bytes | Path
    inside: Inside | None
    moved: tuple[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]]
    seed: int
    samples: int | None
    steps: int | None
    data: Sequence[Data]
    shapes: Mapping[str, Sequence[int]]
    rounding: Collection[tuple[int, int]]
    thorough: bool
    symmetric: bool
    told: Callable[[list[Compared]], None] | None


def verify(
    source: bytes,
    model: onnx.ModelProto | bytes | Path,
    *,
    seed: int = 0,
    samples: int | None = None,
    steps: int | None = None,
    data: Sequence[Data] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    input_permutations: Mapping[str, Sequence[int]] | None = None,
    output_permutations: Mapping[str, Sequence[int]] | None = None,
    rounding: Collection[tuple[int, int]] = (),
    signature: str = "",
    inside: Inside | None = None,
    thorough: bool = False,
    symmetric: bool = False,
    timeout: float = 300.0,
    told: Callable[[list[Compared]], None] | None = None,
) -> Verification:
    """Run both models on the same inputs and compare their outputs by position.

    The truth is LiteRT's plain kernels. A model that does not agree is held against its float twin where it has one
    (see :data:`TWIN`). One that has states runs ``steps`` times in a row on each sample, by default :data:`STEPS`.
    Inputs that LiteRT refuses are left out.

    ``data`` are what both are run on instead of drawn inputs; for a model with states the steps of one sample.
    A model with external data is given as the path of its file. ``shapes`` gives the shape of a dynamic input by its
    name in the ONNX model; dynamic dimensions otherwise have the first of :data:`SIZES` that do for LiteRT. The
    permutations say, by the same names, how an input or output is stored: ``stored = transpose(original,
    permutation)``. ``rounding`` are the operators, by subgraph and index, that round activations in the ONNX model as
    well. ``signature`` is the one that was converted, ``symmetric`` says that weights were rounded. With what is
    ``inside`` the ONNX model, given as a proto or a path, the tensors in it are compared as well, however large they
    are if it is ``thorough``. ``timeout`` (seconds) holds for each run of LiteRT, and ``told`` is given
    what was compared inside. Raises :class:`RefusedError` where a runtime refuses its model, and :class:`VerifyError`
    where a runtime is missing, and where the models or the data do not fit together.
    """
    place = subgraph_of(source, signature)
    main, kept = exchanged(source, place), _exchanged(rounding, place)
    moved = input_permutations or {}, output_permutations or {}
    asked = Asked(model, inside, moved, seed, samples, steps, data, shapes or {}, kept, thorough, symmetric, told)
    with LiteRT(timeout) as litert:
        try:
            return _verified(litert, main, asked)
        except RefusedError as error:
            found = None if data else _partly(litert, main, asked)
            if found is None:
                raise
            if isinstance(found, VerifyError):
                raise error from None
            return found


def _partly(litert: LiteRT, main: bytes, asked: Asked) -> Verification | VerifyError | None:
    """The comparison of the part of a model that LiteRT runs, or why there is none; None where it runs no part."""
    if asked.inside is None or isinstance(asked.model, bytes):
        return None
    partial = partial_of(litert, main, asked.inside)
    if partial is None:
        return None
    both = {**asked.moved[0], **partial.moved}, {**asked.moved[1], **partial.moved}
    try:
        found = _verified(litert, partial.source, replace(asked, model=partial.cut(asked.model), moved=both))
    except VerifyError as error:
        wrong = isinstance(error, RefusedError) and error.result and not (error.running and partial.counting)
        return not_run(error, asked.seed) if wrong and isinstance(error, RefusedError) else _unlike(error)
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
    ports, model, inside = litert.describe(main), asked.model, asked.inside
    with of_result():
        runtime = runtime_of(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
    parsed = parse(main)
    allowed, keep = limits(parsed), _keeps(parsed)
    chosen = asked.seed, asked.steps, asked.data, asked.shapes
    bench = Bench(litert, runtime, ports, allowed, *chosen, *asked.moved, keep, _detections(parsed))
    judged = dequantized(main, asked.rounding) or main
    bench = replace(bench, open=bench.size(main))
    bench = replace(bench, other=bench.another(main))
    inspector = _inspector(judged, asked)
    large = inspector is not None and inspector.size > MOST_BYTES and not asked.thorough
    found = bench.judged(main, judged, asked.samples, None if large else inspector)
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
        found = bench.judged(main, judged, asked.samples, inspector)
    inspection = inspector.found()
    if asked.told is not None:
        asked.told(inspector.compared)
    if inspection.departure is None and inspector.unknown:
        raise RefusedError(inspector.unknown)
    if not found.passed and inspection.departure is None and inspector.complete:
        assert not isinstance(model, bytes)
        found, optimised = _unoptimised(bench, main, judged, model, found)
        inspection = replace(inspection, note=OPTIMISER) if optimised else inspection
    return replace(found, inspection=inspection)


def _inspector(judged: bytes, asked: Asked) -> Inspector | None:
    """What compares the tensors inside of a model, None where that is not asked for or cannot be."""
    if asked.inside is None or isinstance(asked.model, bytes):
        return None
    found = Inspector(judged, asked.model, asked.inside, asked.moved[1], asked.rounding, asked.symmetric)
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
