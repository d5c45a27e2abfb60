"""Running a case: converted and run by ONNX Runtime, against LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import onnx

from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port, Run
from layoutsolve.verification.metrics import Distance, distance, kind
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime
from tests.conformance.cases import Case, Model
from tests.truth import litert

Convert = Callable[[bytes], onnx.ModelProto]
"""From the bytes of a TensorFlow Lite model to an ONNX model, inputs and outputs in the same order."""


FEW_LEVELS: tuple[Level, ...] = (LEVELS[0], LEVELS[-1])
"""As a model is written, and as far as it is optimised: enough where all levels are looked at for the same operators
elsewhere.
"""


def check(case: Case, *converts: Convert) -> None:
    """Raise AssertionError unless the model gives what LiteRT gives, in whichever way it is converted."""
    model = case.make()
    for convert in converts:
        judge(case, model, convert(model.source))


def judge(
    case: Case,
    model: Model,
    converted: onnx.ModelProto,
    stored_inputs: Mapping[str, Sequence[int]] | None = None,
    stored_outputs: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[Level] = LEVELS,
) -> None:
    """Raise AssertionError unless ``converted`` gives what LiteRT gives for ``model``, however far it is optimised.

    The permutations of inputs and outputs say how they are stored, by name.
    """
    truth = truth_of(model)
    onnx.checker.check_model(converted, full_check=True)
    portable(converted)
    source = converted.SerializeToString()
    for level in levels:
        runtime = OnnxRuntime(source, threads=1, level=level)
        results = runtime.run(feeds(runtime, model.inputs, stored_inputs or {}))
        state = len(runtime.inputs) - len(model.inputs) + len(runtime.states)
        assert len(results) == len(truth.results) + state, f"{len(results)} outputs instead of {len(truth.results)}"
        for name, port, expected, actual in zip(runtime.outputs, truth.outputs, truth.results, results, strict=False):
            permutation = (stored_outputs or {}).get(name)
            original = actual if permutation is None else np.transpose(actual, np.argsort(permutation))
            try:
                compare(case, port, expected, original)
            except AssertionError as error:
                raise AssertionError(f"at level '{level}': {error}") from error


def portable(model: onnx.ModelProto) -> None:
    """Raise AssertionError where OpenVINO would stumble on the main graph."""
    empty = {
        each.name for each in model.graph.initializer if 0 in each.dims and each.data_type != onnx.TensorProto.STRING
    }
    for node in model.graph.node:
        assert not node.input or node.input[-1], (
            f"{node.name} has an input at its end that is left out, and an empty name"
        )
        assert node.op_type != "Loop" or empty.isdisjoint(node.input), f"{node.name} begins with an empty constant"


@lru_cache(maxsize=8)
def truth_of(model: Model) -> Run:
    """What LiteRT gives, or what is expected in its place; a model is mostly asked for several times in a row."""
    if model.expected is None:
        return litert().run(model.truth or model.source, model.inputs)
    ports = tuple(
        Port(
            f"output {at}", "string" if array.dtype.kind in "SO" else array.dtype.name, array.shape, array.shape, (), ()
        )
        for at, array in enumerate(model.expected)
    )
    return Run((), ports, False, model.expected, {})


def compare(case: Case, port: Port, expected: Array, actual: Array) -> None:
    """Raise AssertionError unless one output is near enough to LiteRT's."""
    assert expected.shape == actual.shape, f"{port.name} has the shape {actual.shape}, should have {expected.shape}"
    if expected.dtype.kind != "S":
        assert expected.dtype == actual.dtype, f"{port.name} is of {actual.dtype}, should be of {expected.dtype}"
    found = distance(port, [(expected, actual)])
    if _within(case, port, found):
        return
    raise AssertionError(f"{port.name}: {found}\n{_worst(expected, actual)}")


def _within(case: Case, port: Port, found: Distance) -> bool:
    if kind(port) == "quantized":
        return found.maximum <= case.steps
    return found.relative <= case.tolerance if kind(port) == "float" else found.maximum == 0


def _worst(expected: Array, actual: Array) -> str:
    """A few elements that differ, for the reader of a failure."""
    places = np.argwhere(expected != actual)[:4]
    return "\n".join(
        f"  at {place.tolist()}: {actual[tuple(place)]!r}, should be {expected[tuple(place)]!r}" for place in places
    )
