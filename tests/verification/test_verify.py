"""Verification tells right models from wrong ones, and says what is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from layoutsolve.emit import serialise
from layoutsolve.errors import VerifyError
from layoutsolve.frontend import read
from layoutsolve.ir.graph import Array
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.metrics import Distance
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verdict import PLAIN, TWIN, OutputComparison
from layoutsolve.verification.verify import verify
from tests.builder import Builder, Quant
from tests.truth import litert


def addition(dtype: str = "float32", offset: float = 0.5) -> bytes:
    quant = Quant([1 / 64], [3]) if dtype != "float32" else None
    builder = Builder()
    x = builder.input("x", (1, 4, 6, 3), dtype, quant=quant, signature=(-1, 4, 6, 3))
    data = np.array([offset, 0.25, -0.5])
    stored = data if quant is None else np.rint(data * 64) + 3
    y = builder.constant("y", stored.astype(dtype), quant=quant)
    out = builder.tensor("out", (1, 4, 6, 3), dtype, quant=quant, signature=(-1, 4, 6, 3))
    builder.operator("ADD", [x, y], [out], {})
    return builder.finish(out)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_right_model_passes(dtype: str) -> None:
    source = addition(dtype)
    found = verify(source, serialise(read(source)), Sampling(3, 2, shapes={"x": (2, 4, 6, 3)}))
    assert found.passed
    (output,) = found.outputs
    assert output.kind == ("float" if dtype == "float32" else "quantized")
    assert output.xnnpack is not None and output.no_further_than_xnnpack
    assert sum(output.distance.steps) == (0 if dtype == "float32" else 2 * 2 * 4 * 6 * 3)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_wrong_model_fails(dtype: str) -> None:
    found = verify(addition(dtype), serialise(read(addition(dtype, offset=0.8))))
    assert not found.passed
    assert str(found).startswith("FAIL out")


def test_permuted_boundary() -> None:
    model = serialise(read(addition()))
    model.graph.initializer[0].CopyFrom(_column(model.graph.initializer[0]))
    for port in (*model.graph.input, *model.graph.output):
        for dim, size in zip(port.type.tensor_type.shape.dim, (1, 3, 4, 6), strict=True):
            dim.dim_value = size
    found = verify(addition(), model, relation=Relation({"x": (0, 3, 1, 2)}, {"out": (0, 3, 1, 2)}))
    assert found.passed


def _column(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).reshape(3, 1, 1), tensor.name)


def test_refusals_name_the_runtime() -> None:
    with pytest.raises(VerifyError, match="ONNX Runtime refuses"):
        verify(addition(), b"no model")
    with pytest.raises(VerifyError, match="LiteRT refuses"):
        verify(b"no model", serialise(read(addition())))


def test_missing_runtime_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(VerifyError, match=r"pip install 'layoutsolve\[verify\]'"):
        verify(addition(), b"")


def test_litert_survives_what_kills_it() -> None:
    with LiteRT(timeout=0.001) as short, pytest.raises(VerifyError, match="aborted"):
        short.describe(addition())
    assert litert().describe(addition()).outputs[0].name == "out"


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16", "int32", "bool", "string"])
def test_smooth_is_seeded_and_in_range(dtype: str) -> None:
    first, second = (smooth(dtype, (2, 5, 5, 3), np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)
    if dtype == "float32":
        assert np.abs(first).max() <= 1


def contraction(dtype: str, steps: int = 3) -> bytes:
    """Fully connected layers with weights of int8, between floats (a dynamic-range model) or between int8."""
    generator, builder = np.random.default_rng(1), Builder()
    quants = [Quant([0.01], [3]) if dtype == "int8" else None for _ in range(steps + 1)]
    value = builder.input("x", (40, 32), dtype, quant=quants[0])
    for step in range(steps):
        weights = generator.integers(-127, 128, (32, 32))
        scale = 0.003 + step * 1e-4
        constant = builder.constant(f"w{step}", weights.astype(np.int8), quant=Quant([scale], [0]))
        bias = (
            builder.constant(f"b{step}", np.zeros(32, np.int32), quant=Quant([0.01 * scale], [0])) if quants[0] else -1
        )
        out = builder.tensor(f"t{step}", (40, 32), dtype, quant=quants[step + 1])
        builder.operator("FULLY_CONNECTED", [value, constant, bias], [out], {})
        value = out
    return builder.finish(value)


def rescaled(model: onnx.ModelProto) -> None:
    """A weight scale that is 3 % off."""
    _replaced(model, "w1/scale", lambda scale: scale * np.float32(1.03))


def shifted(model: onnx.ModelProto) -> None:
    """A zero point that is off by two."""
    _replaced(model, "w1", lambda weights: np.maximum(weights, np.iinfo(weights.dtype).min + 2) - weights.dtype.type(2))


def swapped(model: onnx.ModelProto) -> None:
    """Two channels in each other's place."""
    _replaced(model, "w1", lambda weights: weights[:, [1, 0, *range(2, 32)]])


def _replaced(model: onnx.ModelProto, name: str, change: Callable[[Array], Array]) -> None:
    (tensor,) = [item for item in model.graph.initializer if item.name == name]
    before = numpy_helper.to_array(tensor)
    after = np.ascontiguousarray(change(before)).reshape(before.shape)  # a number by itself stays one
    tensor.CopyFrom(numpy_helper.from_array(after, name))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("fault", [None, rescaled, shifted, swapped])
def test_quantized_weights(dtype: str, fault: Callable[[onnx.ModelProto], None] | None) -> None:
    """LiteRT is off where it rounds activations, XNNPACK where it rounds otherwise; faults show all the same."""
    source = contraction(dtype)
    model = serialise(read(source))
    if fault is not None:
        fault(model)
    found = verify(source, model)
    (output,) = found.outputs
    assert found.passed == output.passed == (fault is None)
    if dtype == "float32":
        assert output.truth == TWIN and "as it is" in str(found)
        assert output.rounded is not None and output.rounded.relative > output.tolerance
    else:
        assert output.truth == PLAIN and output.rounded is None


def steps_off(*counts: int) -> Distance:
    """Elements that are so many steps off: the first number is of those that are not, and so on."""
    mean = sum(step * count for step, count in enumerate(counts)) / sum(counts)
    return Distance(len(counts) - 1, mean, 0.1, 0.99, (*counts, *[0] * (5 - len(counts))), sum(counts))


@pytest.mark.parametrize(
    ("ours", "theirs", "passed"),
    [
        (steps_off(5000, 4000, 1000), steps_off(5000, 4000, 1000), True),
        (steps_off(7000, 2500, 500), steps_off(5000, 4000, 1000), True),
        (steps_off(5000, 3500, 1500), steps_off(5000, 4000, 1000), False),
        (steps_off(9000, 0, 0, 0, 1000), steps_off(1000, 9000), False),
        (steps_off(9700, 0, 300), steps_off(10000), False),
        (steps_off(9950, 0, 50), steps_off(10000), True),
        (steps_off(5000, 4000, 1000), None, False),
        (Distance(np.inf, np.inf, np.inf, 0.0, (0, 0, 0, 0, 1), 1), steps_off(0, 0, 0, 0, 1), False),
    ],
)
def test_verdict_on_steps(ours: Distance, theirs: Distance | None, passed: bool) -> None:
    assert OutputComparison("out", "quantized", ours, theirs, 0.0).passed is passed


@pytest.mark.parametrize(
    ("mean", "theirs", "passed"), [(1e-3, 1e-3, True), (1e-3, 2e-3, True), (2e-3, 1e-3, False), (1e-3, 1e-7, False)]
)
def test_verdict_on_floats(mean: float, theirs: float, passed: bool) -> None:
    ours, fast = (Distance(10 * each, each, 5 * each, 0.999) for each in (mean, theirs))
    output = OutputComparison("out", "float", ours, fast, 1e-4)
    assert output.passed is passed and not output.agrees and "by chance" not in output.reason


@pytest.mark.parametrize(("count", "passed"), [(25, True), (10**4, False)])
def test_verdict_on_few_floats(count: int, passed: bool) -> None:
    ours, fast = (Distance(10 * mean, mean, 5 * mean, 0.999, (), count) for mean in (1.4e-3, 1e-3))
    output = OutputComparison("out", "float", ours, fast, 1e-4)
    assert output.passed is passed and ("XNNPACK's and deviation by chance" in output.reason) is passed


def test_nothing_is_no_further_off_than_what_is_equal() -> None:
    """Errors that differ from input to input are no excuse where XNNPACK has none."""
    ours, fast = (Distance(9.0 * mean, mean, mean, 0.9, (), 100, (mean / 2, 3 * mean / 2)) for mean in (0.2, 0.0))
    assert not ours.no_further_than(fast) and fast.no_further_than(fast)


@pytest.mark.parametrize(("spread", "passed"), [(0.0, False), (0.1, False), (3.0, True)])
def test_verdict_on_errors_that_differ_from_input_to_input(spread: float, passed: bool) -> None:
    theirs = np.tile([1 - spread / 4, 1 + spread / 4], 15)
    mean = (theirs[::-1] * 1.4).tolist()
    ours, fast = (
        Distance(9.0, 1.4, 1.0, 0.9, (), 10**4, tuple(mean)),
        Distance(9.0, 1.0, 1.0, 0.9, (), 10**4, tuple(theirs.tolist())),
    )
    assert ours.no_further_than(fast) is passed
