"""Comparing what is made of a source in ONNX with the source: both in ONNX Runtime, on the same inputs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TypeGuard

import numpy as np
import onnx

from layoutsolve.errors import VerifyError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.onnx.definitions.halves import computes_in_halves
from layoutsolve.frontend.tflite.reading.model import port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.input_files import DRAWN, Sampling
from layoutsolve.verification.input_files import samples as given_samples
from layoutsolve.verification.input_sampling import DISTRIBUTIONS
from layoutsolve.verification.layer_accuracy import Inspection
from layoutsolve.verification.layer_table import Closeness, Layer
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.litert_tensors import Within, numbers
from layoutsolve.verification.metrics import FLOAT_TOLERANCE, distance, kind
from layoutsolve.verification.model_inputs import stored
from layoutsolve.verification.onnx_operators import Operators
from layoutsolve.verification.output_accuracy import SAMPLES, SECONDS
from layoutsolve.verification.refusals import RefusedError, of_result
from layoutsolve.verification.runnable_sizes import choices, dtype_of, made_up, no_data, surviving, tries
from layoutsolve.verification.runtimes import Level, LiteRTModel, OnnxRuntime, Pinned, Runtime, runtime_of
from layoutsolve.verification.tensor_locations import SAME, Inside, Relation, as_in_source
from layoutsolve.verification.verdict import OutputComparison, Verification

SOURCE = "the source in ONNX Runtime"
"""What a model is judged by."""

BASIS = "computed from the first input, without graph optimizations"
"""What tensors within a model are."""

HALF = 4e-3
"""The largest error of a float16 output that passes, relative to its range: a few of its steps."""

IN_HALVES = 1e-2
"""The same where a source computes in float16, and a result in float32: the source's roundings add up."""


def verify(
    source: bytes | Path,
    model: bytes | Path,
    sampling: Sampling = DRAWN,
    relation: Relation = SAME,
    *,
    rounds: bool = False,
    thorough: bool = False,
) -> Verification:
    """Run both models on the same inputs, and compare their outputs by position.

    What ``rounds`` inside, to bytes, is compared without ONNX Runtime's optimiser where it departs with that, which
    rounds elsewhere, and where LiteRT runs it and what is inside is known, what departs is compared operator by
    operator. Floats in ONNX Runtime that depart pass where the source's own move as far by its graph optimizations. A
    ``thorough`` comparison tells the accuracy of each tensor inside, computed from the first input without graph
    optimizations in both. Raises :class:`VerifyError` where a runtime refuses a model, where no sizes are found with
    which the source runs, or where an input or output is no tensor.
    """
    found = _verified(source, model, "all", sampling, relation)
    if not found.passed and rounds:
        found = _verified(source, model, "none", sampling, relation)
    if not found.passed:
        found = _explained(source, model, sampling, relation, found, rounds)
    if relation.inside is None or not thorough:
        return found
    layers = _layers(source, model, sampling, relation.input_permutations, relation.inside)
    apart = next((each for each in layers if each.maximum > FLOAT_TOLERANCE), None)
    note = "" if apart is None else f"first beyond the threshold is operator {apart.index} {apart.operator}"
    departure = None if found.inspection is None else found.inspection.departure
    return replace(found, inspection=Inspection(len(layers), departure, note, layers, BASIS))


def _explained(
    source: bytes | Path, model: bytes | Path, sampling: Sampling, relation: Relation, found: Verification, rounds: bool
) -> Verification:
    """A comparison that does not pass, with what roundings of the source itself come to, or those of each operator."""
    if not _in_tflite(model):
        return _by_levels(source, found, sampling)
    with suppress(VerifyError):  # of what ONNX Runtime does not compute apart
        return _by_operator(source, model, sampling, relation, found, rounds)
    return found


def _in_tflite(model: bytes | Path) -> TypeGuard[bytes]:
    """Whether a result is in TensorFlow Lite, which is given as bytes."""
    return isinstance(model, bytes) and is_tflite(model)


def _verified(
    source: bytes | Path,
    model: bytes | Path,
    level: Level,
    sampling: Sampling,
    relation: Relation,
    of_source: Level | None = None,
) -> Verification:
    """The outputs of both at a level of graph optimizations, or those of the source at a level ``of_source``."""
    second, moved = _runtime(source, model, level), relation.input_permutations
    pinned = _pinned(second, moved)
    first, given, numbers = _drawn(source, of_source or level, pinned, sampling)
    runs = list[tuple[list[Array], list[Array]]]()
    began, used = time.monotonic(), list[int]()
    for sample, fed, truth in _runs(first, given, numbers, sampling):
        with of_result():
            results = second.run({name: stored(each, moved.get(name)) for name, each in fed.items()})
        if not runs:
            before = fed, truth
        runs.append((truth, results))
        used.append(sample)
        if sampling.samples is None and time.monotonic() - began > SECONDS:
            break
    steps = second.ports if isinstance(second, LiteRTModel) else ()
    in_halves = _in_tflite(model) and computes_in_halves(_loaded(source))
    found = _compared(second.outputs, runs, relation.output_permutations, steps, in_halves)
    if not all(each.agrees for each in found):
        _check_repeats(first, *before)
    kinds = () if given is not None else tuple(DISTRIBUTIONS[each] for each in used if each < len(DISTRIBUTIONS))
    known = [*islice(tries(first.inputs), max(numbers) + 1)]
    turns = dict.fromkeys(numbers[each % len(numbers)] for each in used) if given is None and _is_open(first) else ()
    sizes = tuple(", ".join(f"{name}={size}" for name, size in known[number].items()) for number in turns)
    return Verification(tuple(found), sampling.seed, len(runs), distributions=kinds, sizes=sizes)


def _by_levels(source: bytes | Path, found: Verification, sampling: Sampling) -> Verification:
    """A comparison that does not pass, with how far the source's own results move by ONNX Runtime's optimizations: as
    far as rounding may move them, which is far where outputs are sigmoids near zero, or what cancels out.
    """
    own = _verified(source, source, "none", replace(sampling, samples=found.samples), SAME, "all")
    pairs = zip(found.outputs, own.outputs, strict=True)
    outputs = (replace(each, accumulated=by.distance if each.kind == "float" else None) for each, by in pairs)
    return replace(found, outputs=tuple(outputs))


def _runtime(source: bytes | Path, model: bytes | Path, level: Level) -> Runtime:
    """What runs a result. Where it is refused, the source may be as well, and then nothing is said of the result."""
    try:
        return runtime_of(model, level=level)
    except RefusedError as error:
        OnnxRuntime(source, level=level)
        error.result = True
        raise


def _check_repeats(source: OnnxRuntime, fed: Mapping[str, Array], truth: Sequence[Array]) -> None:
    """Raise :class:`RefusedError` where a source gives other results for the same inputs, as random numbers are."""
    for name, one, other in zip(source.outputs, truth, source.run(fed), strict=True):
        if not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            raise RefusedError(
                f"the source gives another '{name}' each time that it runs on the same inputs, as with random numbers"
            )


def _drawn(
    source: bytes | Path, level: Level, pinned: Pinned, sampling: Sampling
) -> tuple[OnnxRuntime, list[list[Array]] | None, Sequence[int]]:
    """The source, the inputs that are given for it, None where they are drawn, and the choices of sizes for these."""
    runtime = OnnxRuntime(source, level=level, pinned=pinned)
    given = _given(runtime, sampling)
    drawn = given is None and _is_open(runtime)
    return runtime, given, choices(source, level, sampling.seed, pinned) if drawn else (0,)


def _given(runtime: OnnxRuntime, sampling: Sampling) -> list[list[Array]] | None:
    """The inputs that are given for a source, None where they are drawn."""
    ports = tuple(Port(name, dtype_of(name, told), (), (), (), ()) for name, told, _ in runtime.inputs)
    return given_samples(sampling.data, [port.name for port in ports], ports) if sampling.data else None


def _is_open(runtime: OnnxRuntime) -> bool:
    """Whether an input has a dynamic dimension."""
    return any(not isinstance(size, int) for _, _, shape in runtime.inputs for size in shape)


def _by_operator(
    source: bytes | Path,
    model: bytes,
    sampling: Sampling,
    relation: Relation,
    found: Verification,
    rounds: bool,
) -> Verification:
    """A comparison that does not pass, with what roundings accumulate to where each operator by itself is right, and
    the first one that is not. Steps are what they are; of floats the source tells what they come to, whose results
    within are rounded once more.
    """
    if relation.inside is None:
        return found
    second = LiteRTModel(model, tuple(port_names(parse(model), inputs) for inputs in (True, False)))  # type: ignore[arg-type]
    moved, back = relation.input_permutations, relation.output_permutations
    pinned = _pinned(second, moved)
    first, given, numbers = _drawn(source, "none", pinned, sampling)
    operators, runs, noise = Operators(_loaded(source), model, relation.inside, pinned), [], []
    with LiteRT() as litert:
        for _, fed, truth in _runs(first, given, numbers, replace(sampling, samples=found.samples)):
            stand = [stored(fed[name], moved.get(name)) for name, _, _ in second.inputs]
            runs.append((operators.run(litert, stand, fed), list(litert.run(model, stand).results)))
            noise.append((truth, operators.noisy(fed)))
    inspection, ends = operators.inspection(), _compared(second.outputs, runs, back, second.ports)
    alone = all(name in operators.names or end.agrees for name, end in zip(first.outputs, ends, strict=True))
    if inspection.departure is not None or not alone:
        return replace(found, inspection=inspection)
    spread = found.outputs if rounds else _compared(first.outputs, noise, {}, ())
    pairs = zip(found.outputs, spread, strict=True)
    outputs = tuple(replace(each, accumulated=other.distance) for each, other in pairs)
    return replace(found, outputs=outputs, inspection=inspection)


def _pinned(model: Runtime | Within, moved: Mapping[str, Sequence[int]]) -> dict[str, dict[str, int]]:
    """The sizes that a result's inputs have, in the source's order: those of the source may be dynamic."""
    found: dict[str, dict[str, int]] = {}
    for name, _, shape in model.inputs:
        places = zip(moved.get(name, range(len(shape))), shape, strict=True)
        found[name] = {str(axis): size for axis, size in places if isinstance(size, int)}
    return found


def _compared(
    names: Sequence[str],
    runs: Sequence[tuple[list[Array], list[Array]]],
    back: Mapping[str, Sequence[int]],
    steps: Sequence[Port],
    in_halves: bool = False,
) -> list[OutputComparison]:
    """Each output of the source and of the result, over all runs; a result may tell in which ``steps`` its numbers
    come, as LiteRT's kernels on integers round otherwise than ONNX Runtime's. A source may compute ``in_halves``, which
    rounds each of its numbers to float16.
    """
    found = []
    for position, name in enumerate(names):
        order = back.get(name)
        pairs = [
            (truth[position], stored(results[position], None if order is None else np.argsort(order).tolist()))
            for truth, results in runs
        ]
        port = Port(name, str(pairs[0][0].dtype) if pairs[0][0].dtype != object else "string", (), (), (), ())
        if steps and steps[position].quantized and steps[position].dtype == port.dtype:
            port = replace(steps[position], name=name)
        for one, other in pairs:
            if one.shape != other.shape or one.dtype != other.dtype:
                raise VerifyError(
                    f"output '{name}' is {other.dtype}{list(other.shape)}, {one.dtype}{list(one.shape)} in the source"
                )
        tolerance = IN_HALVES if in_halves else HALF if port.dtype == "float16" else FLOAT_TOLERANCE
        found.append(OutputComparison(name, kind(port), distance(port, pairs), None, tolerance, SOURCE))
    return found


def _layers(
    source: bytes | Path,
    model: bytes | Path,
    sampling: Sampling,
    moved: Mapping[str, Sequence[int]],
    inside: Inside,
) -> tuple[Layer, ...]:
    """The accuracy of each tensor that both models have, in the order of the source's operators."""
    values, places = inside
    first, there = _loaded(source), _made(model)
    makers = {
        name: (number, node.op_type)
        for number, node in enumerate(first.graph.node)
        for name in node.output
        if name in values and name in places and places[name].name in there
    }
    names = [*makers]
    of_model = _within(model, [places[name].name for name in names])
    pinned = _pinned(of_model, moved)
    of_source = _giving(first, names, pinned)
    given = _given(of_source, sampling)
    number = surviving(source, "none", sampling.seed, pinned) if given is None and _is_open(of_source) else 0
    _, fed, truth = next(_runs(of_source, given, (number,), replace(sampling, samples=1)))
    with of_result():
        results = of_model.run({name: stored(each, moved.get(name)) for name, each in fed.items()})
    found = []
    for name, one, other in zip(names, truth, results, strict=True):
        if makers[name][1] == "QuantizeLinear" and one.dtype != other.dtype:
            continue  # other integers for the same numbers
        closeness = Closeness(Port(name, str(one.dtype) if one.dtype != object else "string", (), (), (), ()))
        closeness.add(one, as_in_source(values[name], places[name], other, one).astype(one.dtype, copy=False))
        found.append(closeness.layer(*makers[name]))
    return tuple(found)


def _made(model: bytes | Path) -> Collection[str]:
    """The tensors that the operators of a model give."""
    if _in_tflite(model):
        return numbers(parse(model).subgraphs[0])
    return {name for node in _loaded(model).graph.node for name in node.output}


def _within(model: bytes | Path, names: Sequence[str]) -> OnnxRuntime | Within:
    """A result that gives tensors within it."""
    if _in_tflite(model):
        return Within(model, names)
    return _giving(_loaded(model), names)


def _loaded(model: bytes | Path) -> onnx.ModelProto:
    return onnx.load(model) if isinstance(model, Path) else onnx.load_from_string(model)


def _giving(model: onnx.ModelProto, names: Sequence[str], pinned: Pinned = MappingProxyType({})) -> OnnxRuntime:
    """A model that gives tensors within it, without graph optimizations."""
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        return OnnxRuntime(model.SerializeToString(), level="none", pinned=pinned)
    except ValueError as error:  # of protobuf, beyond two gigabytes
        raise VerifyError("models of more than two gigabytes are compared by their outputs alone") from error


def _runs(
    runtime: OnnxRuntime, given: list[list[Array]] | None, numbers: Sequence[int], sampling: Sampling
) -> Iterator[tuple[int, dict[str, Array], list[Array]]]:
    """The number of each sample, its inputs by name, and what the source makes of them: those that are given, or made
    up in some choices of sizes, in turn.
    """
    names = [name for name, _, _ in runtime.inputs]
    known = [next(islice(tries(runtime.inputs), number, None)) for number in numbers]
    samples = range(SAMPLES if sampling.samples is None else sampling.samples)
    drawn = (made_up(runtime, known[sample % len(known)], [sampling.seed, sample], sample) for sample in samples)
    wanted = drawn if given is None else (dict(zip(names, each, strict=True)) for each in given)
    refused, done = "", 0
    for sample, fed in enumerate(wanted):
        try:
            truth = runtime.run(fed)
        except RefusedError as error:
            if given is not None:
                raise
            refused = str(error)
            continue
        done += 1
        yield sample, fed, truth
    if not done:
        raise no_data(refused)
