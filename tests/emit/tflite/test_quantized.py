"""Operators between QuantizeLinear and DequantizeLinear that are written to TensorFlow Lite: on stored integers where a
kernel computes the same on them, else on floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.emit.tflite.comparisons import COMPARING
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.truth import litert

RANDOM = np.random.default_rng(8)
ZEROS = {"int8": 3, "uint8": 131}
SCALES = (0.02, 0.023, 0.05)
"""Of the first operand, of the second one and, where it is not that of the first, of the result."""

Shape = tuple[int, ...]
Case = tuple[str, Sequence[Shape], Array | None, Sequence[Array], bool, Mapping[str, Any]]
"""An operator, the shapes of its operands, constant weights, constants behind, whether the result is in the steps of
the first operand, and attributes.
"""


def real(*shape: int) -> Array:
    """Random floats."""
    return RANDOM.normal(size=shape).astype(np.float32)


def stored(*shape: int) -> Array:
    """Random weights, of 8 bits around 0."""
    return RANDOM.integers(-100, 100, shape)


def whole(*values: int) -> Array:
    """Integers."""
    return np.array(values, np.int64)


IMAGE = (1, 4, 9, 9)
CASES: Sequence[Case] = (
    *(
        ("Gemm", [(3, 8)] if known else [(3, 8), (8, 5)], stored(8, 5) if known else None, [real(*added)], False, each)
        for known, added in product((True, False), ((5,), (1, 5), (3, 5), (3, 1)))
        for each in ({}, {"alpha": 0.5}, {"beta": 2.0}, {"alpha": 2.0, "beta": 0.5})
    ),
    *(("Gemm", [(3, 8), (8, 5)], None, [], False, {"alpha": alpha}) for alpha in (1.0, 0.5)),
    *(
        ("AveragePool", [IMAGE], None, [], True, {"pads": pads, "kernel_shape": [3, 3], "strides": [2, 2], **each})
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [2, 0, 1, 1])
        for each in ({}, {"count_include_pad": 1})
    ),
    *(("Pad", [IMAGE], None, [whole(0, 0, 1, 1, 0, 0, 2, 1), np.float32(each)], True, {}) for each in (0, 1, -0.5, 99)),
    ("Conv", [(1, 2, 5, 5, 5)], stored(8, 2, 3, 3, 3), [], False, {}),
    ("Conv", [IMAGE], stored(8, 4, 3, 3), [real(8)], False, {"pads": [1, 0, 1, 0]}),
    ("ConvTranspose", [IMAGE], stored(4, 6, 3, 3), [], False, {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ("ConvTranspose", [IMAGE], stored(4, 2, 3, 3), [], False, {"group": 2, "dilations": [2, 1]}),
    *(("ReduceSum", [IMAGE], None, [whole(*axes)], False, {}) for axes in ((1,), (2, 3), (0, 1))),
    *(("ReduceMean", [IMAGE], None, [whole(*axes)], False, {"keepdims": 0}) for axes in ((1,), (2, 3))),
    ("Abs", [IMAGE], None, [], False, {}),
    ("Exp", [IMAGE], None, [], False, {}),
    ("Elu", [IMAGE], None, [], False, {}),
    ("Neg", [IMAGE], None, [], True, {}),
    *(("Mul", [IMAGE], None, [np.float32(factor)], False, {}) for factor in (0.01, 0.5, 3.0, 60.0, 900.0)),
    ("MatMul", [(3, 8)], stored(8, 5), [], False, {}),
)


def model(case: Case, dtype: str) -> onnx.ModelProto:
    """An operator, whose operands and result are quantized."""
    op, shapes, weights, behind, kept, attributes = case
    kind, zero = np.dtype(dtype), ZEROS[dtype]
    nodes, held, names = [], [], []

    def parameters(name: str, scale: float, zero: int) -> list[str]:
        held.extend(
            (
                numpy_helper.from_array(np.float32(scale), f"{name}/scale"),
                numpy_helper.from_array(kind.type(zero), f"{name}/zero"),
            )
        )
        return [f"{name}/scale", f"{name}/zero"]

    for number, _ in enumerate(shapes):
        steps = parameters(f"x{number}", SCALES[number], zero)
        nodes.append(helper.make_node("QuantizeLinear", [f"x{number}", *steps], [f"q{number}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{number}", *steps], [f"d{number}"]))
        names.append(f"d{number}")
    if weights is not None:
        middle = 0 if dtype == "int8" else 128
        held.append(numpy_helper.from_array((weights + middle).astype(kind), "w"))
        nodes.append(helper.make_node("DequantizeLinear", ["w", *parameters("w", SCALES[1], middle)], ["dw"]))
        names.append("dw")
    for number, each in enumerate(behind):
        held.append(numpy_helper.from_array(np.asarray(each), f"c{number}"))
        names.append(f"c{number}")
    nodes.append(helper.make_node(op, names, ["made"], **attributes))
    steps = parameters("y", SCALES[0] if kept else SCALES[2], zero)
    nodes.append(helper.make_node("QuantizeLinear", ["made", *steps], ["q"]))
    nodes.append(helper.make_node("DequantizeLinear", ["q", *steps], ["y"]))
    ports = [helper.make_tensor_value_info(f"x{number}", 1, shape) for number, shape in enumerate(shapes)]
    graph = helper.make_graph(nodes, "one", ports, [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.members(72)
@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_quantized_operator(number: int, dtype: str) -> None:
    """LiteRT gives what ONNX Runtime does, or the step beside it."""
    case = CASES[number]
    source, scale = model(case, dtype), SCALES[0] if case[4] else SCALES[2]
    given = [  # in whole steps, so that no runtime rounds an operand
        (RANDOM.integers(-100, 100, shape) * np.float32(each)).astype(np.float32)
        for shape, each in zip(case[1], SCALES, strict=False)
    ]
    truth = OnnxRuntime(source.SerializeToString(), level="none")
    (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
    (found,) = litert().run(layoutsolve.convert(source, to="tflite").content(""), given).results
    assert np.abs(np.rint((found - expected) / scale)).max() <= 1


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("op", ["ConvTranspose", "Abs", "Elu", "Exp", "Mul", "Neg", "MatMul", "Conv"])
def test_bytes_are_computed_with(op: str, dtype: str) -> None:
    """No float is between DEQUANTIZE and QUANTIZE where a kernel on bytes is there."""
    signed_only = op in ("Abs", "Elu", "Exp", "Neg") and dtype == "uint8"
    for case in (case for case in CASES if case[0] == op and len(case[1][0]) < 5 and not signed_only):
        written = parse(layoutsolve.convert(model(case, dtype), to="tflite").content(""))
        names = [operator.name for operator in written.subgraphs[0].operators]
        assert names.count("DEQUANTIZE") == 1, names


STEEP: Sequence[Case] = (
    ("Conv", [IMAGE], stored(8, 4, 3, 3), [real(8)], False, {}),
    ("MatMul", [(3, 8)], stored(8, 5), [], False, {}),
    ("Add", [IMAGE, IMAGE], None, [], False, {}),
    ("Sub", [IMAGE, IMAGE], None, [], False, {}),
    ("Mul", [IMAGE, IMAGE], None, [], False, {}),
)


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("number", range(len(STEEP)))
def test_steps_of_any_ratio(number: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result may be in much smaller, or larger, steps than what it is computed of, with XNNPACK too."""
    for ratio in (1e-4, 1e-3, 1e-2, 1e2):
        scales = (*SCALES[:2], SCALES[0] * ratio)
        monkeypatch.setattr("tests.emit.tflite.test_quantized.SCALES", scales)
        source = model(STEEP[number], dtype)
        given = [
            (RANDOM.integers(-100, 100, shape) * np.float32(each)).astype(np.float32)
            for shape, each in zip(STEEP[number][1], scales, strict=False)
        ]
        truth = OnnxRuntime(source.SerializeToString(), level="none")
        (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
        written = layoutsolve.convert(source, to="tflite").content("")
        for delegate in (False, True):
            (found,) = litert().run(written, given, delegate=delegate).results
            assert np.abs(np.rint((found - expected) / scales[2])).max() <= 1, ratio
        monkeypatch.undo()


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("place", range(3))
def test_steps_next_to_zero(place: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats far beyond the steps of a result are its ends, and what is added to a product is there in full; steps that
    processors do not divide by are refused.
    """
    for case, tiny in (*product((STEEP[0], STEEP[2], STEEP[4]), (1e-8, 1e-12)), (STEEP[2], 1e-38)):
        scales = tuple(tiny if number == place else each for number, each in enumerate(SCALES))
        monkeypatch.setattr("tests.emit.tflite.test_quantized.SCALES", scales)
        source = model(case, dtype)
        if tiny < np.finfo(np.float32).tiny:
            with pytest.raises(UnsupportedError, match="smaller than kernels divide by"):
                layoutsolve.convert(source, to="tflite")
            continue
        given = [
            (RANDOM.integers(1, 100, shape) * np.float32(each)).astype(np.float32)
            for shape, each in zip(case[1], scales, strict=False)
        ]
        truth = OnnxRuntime(source.SerializeToString(), level="none")
        (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
        written = layoutsolve.convert(source, to="tflite").content("")
        for delegate in (False, True):
            (found,) = litert().run(written, given, delegate=delegate).results
            assert np.abs(np.rint((found - expected) / scales[2])).max() <= 1, (case[0], tiny)
        monkeypatch.undo()


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("large", [1e5, 1e12, 1.3e36])
def test_steps_of_masks(large: float, op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operand has steps as large as those of a mask of the least floats, the result those of either operand: at
    products with 2^20 that no float holds kernels end the process, and floats beyond 2^31 steps change their sign.
    """
    for scales in ((large, 0.02, large), (0.02, large, large), (large, 0.02, 0.02), (0.02, large, 0.02)):
        monkeypatch.setattr("tests.emit.tflite.test_quantized.SCALES", scales)
        source = model((op, [IMAGE, IMAGE], None, [], False, {}), dtype)
        given = [(RANDOM.integers(-100, 100, IMAGE) * np.float32(each)).astype(np.float32) for each in scales[:2]]
        truth = OnnxRuntime(source.SerializeToString(), level="none")
        (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
        written = layoutsolve.convert(source, to="tflite").content("")
        for delegate in (False, True):
            (found,) = litert().run(written, given, delegate=delegate).results
            assert np.abs(np.rint(found / scales[2] - expected / scales[2])).max() <= 1, scales
        monkeypatch.undo()


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("op", ["Div", "Reciprocal", "Log", "Pow"])
def test_infinities_are_the_ends(op: str, dtype: str) -> None:
    """A variance that is rounded to 0 divides by nothing: what is infinite is the last number on its side."""
    shapes = [IMAGE, IMAGE] if op == "Div" else [IMAGE]
    exponent = [np.float32(-1.5)] if op == "Pow" else []
    source = model((op, shapes, None, exponent, False, {}), dtype)
    given = [
        (RANDOM.integers(-100, 100, IMAGE) * np.float32(each)).astype(np.float32) for each in SCALES[: len(shapes)]
    ]
    given[-1] = np.where(RANDOM.random(IMAGE) < 0.5, 0, np.abs(given[-1]) + SCALES[0]).astype(np.float32)
    given[0][given[0] == 0] = SCALES[0] if op == "Div" else 0
    truth = OnnxRuntime(source.SerializeToString(), level="none")
    (expected,) = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
    written = layoutsolve.convert(source, to="tflite").content("")
    for delegate in (False, True):
        (found,) = litert().run(written, given, delegate=delegate).results
        assert np.abs(np.rint((found - expected) / SCALES[2])).max() <= 1


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("op", sorted(COMPARING))
def test_comparisons_of_counted_fractions(op: str, dtype: str) -> None:
    """What LiteRT's kernels count, as models in ONNX that are made of TensorFlow Lite have it, is compared as bytes."""
    kind, zero = {"int8": ("int8", 3), "uint8": ("uint8", 131)}[dtype]
    source = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[4, 50] x, float[4, 50] y) => (bool[4, 50] z)
        <float s = {{0.02}}, float t = {{0.023}}, {kind} o = {{{zero}}}, float parts = {{256}}> {{
            xq = QuantizeLinear(x, s, o) xd = DequantizeLinear(xq, s, o) xm = Mul(xd, parts) xr = Round(xm)
            yq = QuantizeLinear(y, t, o) yd = DequantizeLinear(yq, t, o) ym = Mul(yd, parts) yr = Round(ym)
            z = {op}(xr, yr) }}"""
    )
    given = [(RANDOM.integers(-90, 90, (4, 50)) * np.float32(each)).astype(np.float32) for each in (0.02, 0.023)]
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert names.count("QUANTIZE") == 2 and len(names) == 3
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run(dict(zip("xy", given, strict=True)))
    for delegate in (False, True):
        assert (litert().run(written, given, delegate=delegate).results[0] == expected).all()


LIMITS = {
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def clipped(limits: tuple[float | None, float | None], dtype: str, behind: bool) -> onnx.ModelProto:
    """Bytes that are limited as they are stored, ``behind`` a sum."""
    kind, zero, scale = np.dtype(dtype), ZEROS[dtype], np.float32(0.07)
    held = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(kind.type(zero), "zero")]
    ends = ["" if each is None else f"limit{each}" for each in limits]
    for name, each in zip(ends, limits, strict=True):
        if each is not None:
            held.append(numpy_helper.from_array(kind.type(round(each / scale) + zero), name))
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
    if behind:
        nodes += [
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
            helper.make_node("Add", ["d", "d"], ["sum"]),
            helper.make_node("QuantizeLinear", ["sum", "scale", "zero"], ["q2"]),
        ]
    nodes += [
        helper.make_node("Clip", [nodes[-1].output[0], *ends], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "scale", "zero"], ["y"]),
    ]
    port = helper.make_tensor_value_info("x", 1, (2, 30))
    graph = helper.make_graph(nodes, "one", [port], [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", [*LIMITS, "others"])
def test_limits_of_bytes_are_activations(name: str, behind: bool, dtype: str) -> None:
    """Those that LiteRT has are fused into the operator before, or are one operator; no constant is copied."""
    source = clipped(LIMITS.get(name, (-0.7, 2.1)), dtype, behind)
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    own = ["MAXIMUM", "MINIMUM"] if name == "others" else [name]
    fused = behind and name not in ("others", "RELU_0_TO_1")
    assert names == ["QUANTIZE", *(["ADD"] if behind else []), *([] if fused else own), "DEQUANTIZE"]
    given = np.linspace(-8, 8, 60, dtype=np.float32).reshape(2, 30)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": given})
    (found,) = litert().run(written, [given]).results
    np.testing.assert_allclose(found, expected, atol=0.0701 if behind else 1e-6)


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("step", [1 / 127, 0.0123])
def test_slopes_of_one_step_are_bytes(step: float, dtype: str) -> None:
    """As those that a source in TensorFlow Lite has stored so, with what is added to them to round as LiteRT does."""
    slopes = (RANDOM.integers(-60, 127, (4, 1, 1)) * np.float32(step) * np.float32(1.0005)).astype(np.float32)
    case: Case = ("PRelu", [IMAGE], None, [slopes], False, {})
    source = model(case, dtype)
    written = layoutsolve.convert(source, to="tflite", inputs="nhwc", outputs="nhwc").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert names == ["QUANTIZE", "PRELU", "DEQUANTIZE"]
    given = (RANDOM.integers(-100, 100, IMAGE) * np.float32(SCALES[0])).astype(np.float32)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x0": given})
    (found,) = litert().run(written, [np.ascontiguousarray(given.transpose(0, 2, 3, 1))]).results
    assert np.abs(np.rint((found.transpose(0, 3, 1, 2) - expected) / SCALES[2])).max() <= 1


@pytest.mark.parametrize("axes", [[1, 2], [2, 3]])
def test_images_are_resized_where_they_lie(axes: list[int]) -> None:
    """Channels may come last in ONNX too; no Transpose is needed then."""
    sizes = numpy_helper.from_array(np.array([9, 10], np.int64), "sizes")
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=axes, mode="linear")
    shape = (1, 4, 5, 3) if axes == [1, 2] else (1, 3, 4, 5)
    port = helper.make_tensor_value_info("x", 1, shape)
    graph = helper.make_graph([node], "one", [port], [onnx.ValueInfoProto(name="y")], [sizes])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    ends = "keep" if axes == [1, 2] else "nhwc"
    found = layoutsolve.convert(onnx.shape_inference.infer_shapes(source), to="tflite", inputs=ends, outputs=ends)
    assert found.operators == ["RESIZE_BILINEAR"]  # type: ignore[attr-defined]


def normalising(types: Sequence[str], inverse: Sequence[str]) -> onnx.ModelProto:
    """The inverse root of a squared difference, of operands, a square and a result of some types, as layer
    normalizations have it.
    """
    nodes, held = list[onnx.NodeProto](), list[onnx.TensorProto]()

    def steps(name: str, scale: float, number: int, zero: int) -> str:
        dtype = np.dtype(types[number])
        for part, value in (("scale", np.float32(scale)), ("zero", dtype.type(zero + 128 * (dtype == np.uint8)))):
            held.append(numpy_helper.from_array(value, f"{name}/{part}"))
        told = [f"{name}/scale", f"{name}/zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *told], [f"{name}/q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}/q", *told], [f"{name}/d"]))
        return f"{name}/d"

    operands = [steps(f"x{number}", SCALES[number], 0, 3) for number in range(2)]
    nodes.append(helper.make_node("Sub", operands, ["difference"]))
    nodes.append(helper.make_node("Mul", ["difference", "difference"], ["square"]))
    nodes.append(helper.make_node("Sqrt", [steps("square", 0.06, 1, -128)], ["root"]))
    held.append(numpy_helper.from_array(np.float32(1), "one"))
    nodes.append(helper.make_node(inverse[0], [*inverse[1:], "root"], ["made"]))
    result = steps("made", 0.02, 2, -128)
    ports = [helper.make_tensor_value_info(f"x{number}", 1, (3, 8)) for number in range(2)]
    graph = helper.make_graph(nodes, "one", ports, [helper.make_tensor_value_info(result, 1, (3, 8))], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("inverse", [["Reciprocal"], ["Div", "one"]], ids=lambda each: each[0])
@pytest.mark.parametrize("types", [["int8"] * 3, ["int8", "uint8", "int8"], ["int8", "int8", "uint8"]], ids="-".join)
def test_squares_and_roots_are_computed_in_bytes(types: Sequence[str], inverse: Sequence[str]) -> None:
    """No kernel reads bytes with a sign and writes some without, so all get one."""
    source = normalising(types, inverse)
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [operator.name for operator in parse(written).subgraphs[0].operators]
    assert sorted(names) == ["DEQUANTIZE", "QUANTIZE", "QUANTIZE", "RSQRT", "SQUARED_DIFFERENCE"]
    given = [(RANDOM.integers(-100, 100, (3, 8)) * np.float32(each)).astype(np.float32) for each in SCALES[:2]]
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run(dict(zip(("x0", "x1"), given, strict=True)))
    (found,) = litert().run(written, given).results
    steep = np.abs(expected) > 1  # of a small square the inverse root is another one a step beside it
    assert np.abs(np.rint((found - expected) / 0.02))[~steep].max() <= 1


UNIT, COARSE = 1 / (1 << 15), 3 / (1 << 15)
SHORT: Mapping[str, tuple[str, float]] = {
    "ABS": ("Abs (x)", 1.5 * COARSE),
    "ADD": ("Add (x, y)", 2 * COARSE),
    "BATCH_MATMUL": ("MatMul (x, t)", 10 * COARSE),
    "GELU": ("Gelu (x)", COARSE),
    "LEAKY_RELU": ("LeakyRelu <alpha = 0.1> (x)", COARSE),
    "LOGISTIC": ("Sigmoid (x)", UNIT),
    "MAXIMUM": ("Max (x, y)", COARSE),
    "MEAN": ("ReduceMean (x, axes)", COARSE),
    "MUL": ("Mul (x, y)", 3 * COARSE),
    "REDUCE_MAX": ("ReduceMax (x, axes)", COARSE),
    "RELU": ("Relu (x)", 1.3 * COARSE),
    "RELU6": ("Clip (x, none, six)", COARSE),
    "SOFTMAX": ("Softmax (x)", UNIT),
    "SUB": ("Sub (x, y)", 2 * COARSE),
    "TANH": ("Tanh (x)", UNIT),
}
"""By operator of LiteRT, that of ONNX, and the steps of its result."""


@pytest.mark.parametrize("operator", SHORT)
def test_int16_is_computed_with(operator: str) -> None:
    """Where a kernel is there, with XNNPACK too, within two steps of 65,536."""
    call, scale = SHORT[operator]
    source = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float[5, 5] a, float[5, 5] b, float[5, 5] c) => (float[m, n] z)
        <float s = {{{COARSE}}}, float u = {{{scale}}}, int16 o = {{0}}, int64[1] axes = {{1}}, float none = {{0}},
         float six = {{6}}> {{
            aq = QuantizeLinear(a, s, o) x = DequantizeLinear(aq, s, o)
            bq = QuantizeLinear(b, s, o) y = DequantizeLinear(bq, s, o)
            cq = QuantizeLinear(c, s, o) t = DequantizeLinear(cq, s, o)
            r = {call} rq = QuantizeLinear(r, u, o) z = DequantizeLinear(rq, u, o) }}"""
    )
    given = [(RANDOM.integers(-30000, 30000, (5, 5)) * np.float32(COARSE)).astype(np.float32) for _ in range(3)]
    written = layoutsolve.convert(source, to="tflite").content("")
    names = [each.name for each in parse(written).subgraphs[0].operators]
    assert set(names) == {"QUANTIZE", operator, "DEQUANTIZE"} and names.count("DEQUANTIZE") == 1
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run(dict(zip("abc", given, strict=True)))
    for delegate in (False, True):
        (found,) = litert().run(written, given, delegate=delegate).results
        assert np.abs(np.rint((found - expected) / scale)).max() <= 2


AS_STORED: Mapping[str, str] = {
    **dict.fromkeys(("Abs", "Neg", "Relu", "ReduceMax", "Transpose", "Identity"), "x"),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "GreaterOrEqual"), "xz"),
}
"""Operators on bytes, and what they read."""


SIGNED = ("Abs", "Neg", "Relu")
"""Those that ONNX, or ONNX Runtime, has of signed bytes alone."""


@pytest.mark.parametrize(
    ("op", "dtype"), [each for each in product(AS_STORED, ZEROS) if each[1] == "int8" or each[0] not in SIGNED]
)
def test_bytes_as_they_are_stored(op: str, dtype: str) -> None:
    """What computes with stored integers does, though they are dequantized elsewhere, in equal steps or others."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    feeds = [random.integers(limits.min, limits.max + 1, (4, 6)).astype(dtype) for _ in "xz"]
    feeds[1][feeds[1] == 0] = 1
    for scale in SCALES[:2]:
        steps = {"s": np.float32(0.02), "t": np.float32(scale), "o": np.array(ZEROS[dtype], dtype)}
        nodes = [
            *(helper.make_node("DequantizeLinear", [name, step, "o"], [f"{name}r"]) for name, step in ("xs", "zt")),
            helper.make_node("Mul", ["xr", "zr"], ["product"]),
            helper.make_node(op, [*AS_STORED[op]], ["y"]),
        ]
        made = kind if op not in COMPARING else onnx.TensorProto.BOOL
        if made == kind:
            nodes.append(helper.make_node("DequantizeLinear", ["y", "s", "o"], ["meant"]))
        ports = [helper.make_tensor_value_info(name, kind, (4, 6)) for name in "xz"]
        outputs = [helper.make_tensor_value_info(name, code, None) for name, code in (("y", made), ("product", 1))]
        outputs += [helper.make_tensor_value_info("meant", 1, None)] if made == kind else []
        constants = [numpy_helper.from_array(np.asarray(data), name) for name, data in steps.items()]
        graph = helper.make_graph(nodes, "g", ports, outputs, constants)
        source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
        expected = OnnxRuntime(source, level="none").run(dict(zip("xz", feeds, strict=True)))
        found = litert().run(layoutsolve.convert(source, to="tflite").content(""), feeds).results
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)
