"""Operators that LiteRT's kernels approximate are held against what is exact: right ones pass, wrong ones do not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import layoutsolve
from experiments.compare.verdicts import broken
from layoutsolve.verification import onnx_source
from tests.builder import Builder, Quant


def check_told_apart(source: bytes, fault: str, seed: int) -> None:
    """A conversion passes, and with a fault in it does not."""
    right = layoutsolve.convert(source)
    found = layoutsolve.verify(source, right)
    if found.verdict == "not verified":
        pytest.skip("LiteRT has such a kernel in later versions")
    assert found.verdict == "pass", str(found)
    wrong = broken(right, fault, seed)
    assert wrong is not None and layoutsolve.verify(source, wrong).verdict == "FAIL"


def products(dtype: str, seed: int) -> bytes:
    """Products over one or two axes, which LiteRT rounds after each factor."""
    random = np.random.default_rng(seed)
    largest, zero = np.iinfo(dtype).max, int(random.integers(-5, 6)) if dtype == "int8" else 0
    scale = float(random.uniform(0.5, 2)) / largest
    axes = [[1], [1, 2], [-2]][int(random.integers(3))]
    shape = (6, int(random.integers(2, 7)), int(random.integers(2, 4)))
    build = Builder()
    x = build.input("x", shape, dtype, quant=Quant([scale], [zero]))
    made = tuple(size for axis, size in enumerate(shape) if axis not in {each % 3 for each in axes})
    y = build.tensor("y", made, dtype, quant=Quant([scale * float(random.uniform(0.5, 3))], [zero]))
    build.operator("REDUCE_PROD", [x, build.constant("axes", np.array(axes, np.int32))], [y], {"keepDims": False})
    return build.finish(y)


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_products(dtype: str, seed: int) -> None:
    check_told_apart(products(dtype, seed), "another reduction", seed)


def halves(op: str, scale: float, offset: float, count: int, **options: object) -> bytes:
    """An operator in float16, of numbers about an offset."""
    build = Builder()
    x = build.input("x", (1, count), "float16")
    for name, made, number in (("MUL", "scaled", scale), ("ADD", "moved", offset)):
        y = build.tensor(made, (1, count), "float16")
        build.operator(name, [x, build.constant("number", np.full(1, number, np.float16))], [y], {})
        x = y
    y = build.tensor("y", (1, count), "float16")
    build.operator(op, [x], [y], options)
    return build.finish(y)


@pytest.mark.members(3)
@pytest.mark.parametrize("offset", [-4.0, -0.75, 2.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("approximate", [False, True])
def test_halves_in_narrow_ranges(approximate: bool, scale: float, offset: float) -> None:
    """LiteRT rounds a GELU in float16 after each operation, and results next to each other are few steps apart."""
    for count in (3, 64):
        source = halves("GELU", scale, offset, count, approximate=approximate)
        found = layoutsolve.verify(source, layoutsolve.convert(source))
        if found.verdict == "not verified":
            pytest.skip("LiteRT has kernels on float16 in later versions")
        assert found.verdict == "pass", str(found)


@pytest.mark.parametrize("op", ["GELU", "LOGISTIC", "TANH"])
def test_wrong_halves(op: str) -> None:
    check_told_apart(halves(op, 1.0, 0.5, 64), "constant changed", 0)


def leaky(operator: str, dtype: str, seed: int) -> bytes:
    """A LEAKY_RELU or PRELU of quantized numbers, with any slope and any scales."""
    random, shape = np.random.default_rng(seed), (1, 4, 4, 8)
    zero = int(random.integers(-20, 21)) + 128 * (dtype == "uint8") if dtype != "int16" else 0
    scale = 0.05 if dtype != "int16" else 2e-4
    build = Builder()
    x = build.input("x", shape, dtype, quant=Quant([scale], [zero]))
    y = build.tensor("y", shape, dtype, quant=Quant([scale * float(random.uniform(0.5, 2.5))], [zero]))
    slope = float(random.uniform(0.02, 0.95))
    if operator == "LEAKY_RELU":
        build.operator(operator, [x], [y], {"alpha": slope})
    else:
        kind, middle = ("uint8", 128) if dtype == "uint8" else ("int8", 0)
        slopes = random.integers(middle - 127, middle + 128, (1, 1, 8)).astype(kind)
        quant = Quant([slope / 127], [middle])
        build.operator(operator, [x, build.constant("slopes", slopes, kind, quant)], [y])
    return build.finish(y)


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("operator", ["LEAKY_RELU", "PRELU"])
def test_leaky(operator: str, dtype: str, seed: int) -> None:
    """LiteRT rounds them twice, by which many are one off where factors are between a quarter and a half; results that
    are always rounded down depart all the same.
    """
    check_told_apart(leaky(operator, dtype, seed), "rounded down", seed)


def resized(dtype: str, seed: int) -> bytes:
    """A bilinear resize of any sizes, up to several dozen pixels."""
    random = np.random.default_rng(seed)
    before, after = random.integers(2, 33, 2), random.integers(2, 65, 2)
    halves = bool(random.integers(2))
    quant = Quant([float(random.uniform(0.005, 0.05))], [int(random.integers(-20, 21)) if dtype == "int8" else 0])
    build = Builder()
    x = build.input("x", (1, *map(int, before), 2), dtype, quant=quant)
    y = build.tensor("y", (1, *map(int, after), 2), dtype, quant=quant)
    options = {"alignCorners": not halves and bool(random.integers(2)), "halfPixelCenters": halves}
    build.operator("RESIZE_BILINEAR", [x, build.constant("size", after.astype(np.int32))], [y], options)
    return build.finish(y)


@pytest.mark.members(8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_resized(dtype: str, seed: int) -> None:
    """LiteRT rounds the distance of positions, which makes more the farther they are from the first."""
    check_told_apart(resized(dtype, seed), "another resize mode", seed)


def sigmoids(bias: float, seed: int) -> bytes:
    """The sigmoids of a product whose bias is far from zero, as in the heads of detectors."""
    random = np.random.default_rng(seed)
    build = Builder()
    x, weights = (
        build.input("x", (1, 8)),
        build.constant("weights", (random.normal(size=(5, 8)) * 0.3).astype(np.float32)),
    )
    biases = build.constant("biases", np.full(5, bias, np.float32))
    logits, y = build.tensor("logits", (1, 5)), build.tensor("y", (1, 5))
    build.operator("FULLY_CONNECTED", [x, weights, biases], [logits], {})
    build.operator("LOGISTIC", [logits], [y], {})
    return build.finish(y)


@pytest.mark.members(3)
@pytest.mark.parametrize(("seed", "bias"), enumerate([-2.0, -9.0, -12.0, -20.0, -40.0]))
def test_sigmoids_near_zero(seed: int, bias: float) -> None:
    """ONNX Runtime's errors do not shrink with them; where they are larger than these, others are told apart."""
    source = sigmoids(bias, seed)
    assert layoutsolve.verify(source, layoutsolve.convert(source)).verdict == "pass"
    if bias >= -12:
        assert layoutsolve.verify(source, layoutsolve.convert(sigmoids(bias + 0.3, seed))).verdict == "FAIL"


@pytest.mark.members(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [1e-35, 1e-7])
def test_products_that_overflow(dtype: str, scale: float) -> None:
    """Scales that were never calibrated: LiteRT's numbers mean nothing there, and what follows is judged."""
    build, shape, zero = Builder(), (1, 6, 5), int(dtype == "uint8") * 128
    inputs = [build.input(name, shape, dtype, quant=Quant([0.02], [zero])) for name in "xy"]
    scales = {"lost": scale, "sums": 0.04}
    lost, sums = (build.tensor(name, shape, dtype, quant=Quant([each], [zero])) for name, each in scales.items())
    build.operator("MUL", inputs, [lost])
    build.operator("ADD", inputs, [sums])
    source = build.finish(sums, lost)
    found = layoutsolve.convert(source)
    assert layoutsolve.verify(source, found).inspection.departure is None
    assert layoutsolve.verify(source, broken(found, "another operator", 0)).verdict == "FAIL"


@pytest.mark.members(2)
@pytest.mark.parametrize(("dtype", "scale"), [("int8", 1e-35), ("uint8", 7e-9), ("int16", 1e-7)])
def test_differences_in_steps_of_nothing(dtype: str, scale: float) -> None:
    """A scale of what is 0 always: LiteRT's difference of a number and itself is 1 there, and what follows is judged.
    The same in steps that its kernel knows is right or wrong.
    """
    for step in (scale, 0.01):
        build, shape, zero = Builder(), (1, 6, 5), int(dtype == "uint8") * 128
        x = build.input("x", shape, dtype, quant=Quant([0.02], [zero]))
        made = {"lost": Quant([step], [zero]), "sums": Quant([0.04], [zero])}
        lost, sums = (build.tensor(name, shape, dtype, quant=quant) for name, quant in made.items())
        build.operator("SUB", [x, x], [lost])
        build.operator("ADD", [x, x], [sums])
        source = build.finish(sums, lost)
        found = layoutsolve.convert(source)
        assert layoutsolve.verify(source, found).inspection.departure is None
        if step == scale:
            assert layoutsolve.verify(source, broken(found, "another operator", 0)).verdict == "FAIL"


def detecting(bias: float, seed: int, folded: bool, scale: float = 1.0) -> bytes:
    """A detector's last layers in ONNX, the sigmoids of a normalised convolution, or of one that is ``folded``."""
    random = np.random.default_rng(seed)
    weights, mean = random.normal(size=(6, 4, 3, 3)) * 0.2 * scale, random.normal(size=6)
    gain, spread = random.uniform(0.5, 1.5, 6), random.uniform(0.5, 2, 6)
    factor = gain / np.sqrt(spread + 1e-5)
    numbers = {"w": weights, "g": gain, "b": np.full(6, bias), "m": mean, "v": spread}
    if folded:
        numbers = {"w": weights * factor[:, None, None, None], "b": bias - mean * factor}
    body = "n = Conv<pads = [1, 1, 1, 1]>(x, w, b)"
    if not folded:
        body = "c = Conv<pads = [1, 1, 1, 1]>(x, w) n = BatchNormalization(c, g, b, m, v)"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 16, 16] x) => (float[1, 6, 16, 16] y) {{
        {body} y = Sigmoid(n) }}"""
    )
    constants = [numpy_helper.from_array(data.astype(np.float32), name) for name, data in numbers.items()]
    model.graph.initializer.extend(constants)
    return model.SerializeToString()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bias", [-2.0, -12.0, -15.0, -18.0, -30.0])
def test_sigmoids_near_zero_of_sources_in_onnx(bias: float, seed: int) -> None:
    source = detecting(bias, seed, folded=False)
    assert onnx_source.verify(source, detecting(bias, seed, folded=True)).verdict == "pass"
    assert bias < -12 or onnx_source.verify(source, detecting(bias, seed, True, 1.02)).verdict == "FAIL"
