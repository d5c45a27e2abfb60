"""Weights of few bits: float16 and integers of an ONNX source are stored as small in TensorFlow Lite."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.truth import litert

RANDOM = np.random.default_rng(4)
SHAPES = {"Conv": (32, 16, 3, 3), "ConvTranspose": (16, 32, 3, 3), "Gemm": (32, 64), "MatMul": (64, 32)}
"""By operator, the shape of its weights, which have 32 results."""

LEAST = {"int4": -8, "uint4": 0, "int8": -128, "uint8": 0}
STEP, ZERO = np.float32(0.1), np.int8(-3)


def model(op: str, dtype: str, channels: bool, on_bytes: bool = False) -> tuple[onnx.ModelProto, Array]:
    """An operator by weights of a type, which are quantized for each of the ``channels`` or together; its operand may
    be int8 as well.
    """
    shape = SHAPES[op]
    axis = shape.index(32)
    code = getattr(TensorProto, {"float16": "FLOAT16"}.get(dtype, dtype.upper()))
    x: Array = RANDOM.integers(-80, 80, (1, 16, 6, 7) if len(shape) == 4 else (5, 64)).astype(np.float32) * STEP
    nodes, read = [], "x"
    held = [numpy_helper.from_array(STEP, "step"), numpy_helper.from_array(ZERO, "at")]
    if on_bytes:
        nodes.append(helper.make_node("QuantizeLinear", ["x", "step", "at"], ["q"]))
        nodes.append(helper.make_node("DequantizeLinear", ["q", "step", "at"], ["d"]))
        read = "d"
    if dtype == "float16":
        held.append(numpy_helper.from_array(RANDOM.normal(size=shape).astype(np.float16), "w"))
        nodes.append(helper.make_node("Cast", ["w"], ["real"], to=TensorProto.FLOAT))
    else:
        least, bits = LEAST[dtype], 4 if dtype.endswith("4") else 8
        zero = [0 if on_bytes else least + (3 if channels else 1 << (bits - 1))] * (32 if channels else 1)
        numbers = RANDOM.integers(least, least + (1 << bits), shape)
        scale = RANDOM.uniform(0.01, 0.03, 32 if channels else ()).astype(np.float32)
        held.append(helper.make_tensor("w", code, shape, numbers.reshape(-1).tolist()))
        held.append(helper.make_tensor("zero", code, scale.shape, zero))
        held.append(numpy_helper.from_array(scale, "scale"))
        nodes.append(helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["real"], axis=axis))
    attributes = {"transB": 1} if op == "Gemm" else {}
    nodes.append(helper.make_node(op, [read, "real"], ["made" if on_bytes else "y"], **attributes))
    if on_bytes:
        held.append(numpy_helper.from_array(np.float32(0.5), "coarse"))
        nodes.append(helper.make_node("QuantizeLinear", ["made", "coarse", "at"], ["r"]))
        nodes.append(helper.make_node("DequantizeLinear", ["r", "coarse", "at"], ["y"]))
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph(nodes, "one", [port], [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made), x


@pytest.mark.parametrize("dtype", ["float16", *LEAST])
@pytest.mark.parametrize("op", SHAPES)
def test_weights_stay_small(op: str, dtype: str) -> None:
    """They are dequantized, or widened, where they are read: results are those of ONNX Runtime."""
    for channels in (False, True):
        source, x = model(op, dtype, channels)
        written = layoutsolve.convert(source, to="tflite").content("")
        subgraph = parse(written).subgraphs[0]
        largest = max((each for each in subgraph.tensors if each.data is not None), key=lambda each: each.data.size)  # type: ignore[union-attr]
        assert largest.dtype == ("float16" if dtype == "float16" else "int8")
        assert [each.name for each in subgraph.operators].count("DEQUANTIZE") == 1
        (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
        for delegate in (False, True):
            (found,) = litert().run(written, [x], delegate=delegate).results
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul"])
def test_kernels_multiply_bytes_by_int4(op: str) -> None:
    for channels in (False, True):
        source, x = model(op, "int4", channels, on_bytes=True)
        written = layoutsolve.convert(source, to="tflite").content("")
        subgraph = parse(written).subgraphs[0]
        (layer,) = (each for each in subgraph.operators if each.name in ("CONV_2D", "FULLY_CONNECTED"))
        assert [subgraph.tensors[index].dtype for index in layer.inputs] == ["int8", "int4", "int32"]
        (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
        (found,) = litert().run(written, [x]).results
        assert np.abs(np.rint((found - expected) / 0.5)).max() <= 1


def test_weights_in_blocks_are_refused() -> None:
    weights = helper.make_tensor("w", TensorProto.INT4, (64, 32), RANDOM.integers(-8, 8, 64 * 32).tolist())
    scale = numpy_helper.from_array(RANDOM.uniform(0.1, 0.2, (2, 32)).astype(np.float32), "scale")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["real"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 64))
    graph = helper.make_graph(nodes, "one", [port], [onnx.ValueInfoProto(name="y")], [weights, scale])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedError, match=r"weights in blocks .* quantize them per channel"):
        layoutsolve.convert(source, to="tflite")


def test_transposed_convolutions_by_channels_are_computed_on_bytes() -> None:
    source, x = model("ConvTranspose", "int8", True, on_bytes=True)
    written = layoutsolve.convert(source, to="tflite", inputs="nhwc", outputs="nhwc").content("")
    assert [each.name for each in parse(written).subgraphs[0].operators] == ["QUANTIZE", "TRANSPOSE_CONV", "DEQUANTIZE"]
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    (found,) = litert().run(written, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))]).results
    assert np.abs(np.rint((found.transpose(0, 3, 1, 2) - expected) / 0.5)).max() <= 1


def test_weights_that_are_computed_of_constants() -> None:
    """As a standardisation of them is: XNNPACK has no convolution of others. What is repeated is a product with ones,
    which it has too.
    """
    generator = np.random.default_rng(1)
    source = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y)
        <int64[3] flat = {1, 3, 27}, int64[4] whole = {3, 3, 3, 3}, int64[4] sizes = {1, 3, 8, 8}> {
            f = Reshape(w, flat) m = ReduceMean<keepdims = 1>(f, axes) d = Sub(f, m) s = Mul(d, d)
            v = ReduceMean<keepdims = 1>(s, axes) r = Sqrt(v) n = Div(d, r) k = Reshape(n, whole)
            c = Conv<pads = [1, 1, 1, 1]>(x, k) p = GlobalAveragePool(c) e = Expand(p, sizes) y = Add(c, e) }"""
    )
    held = {"w": generator.normal(size=(3, 3, 3, 3)).astype(np.float32), "axes": np.array([2], np.int64)}
    source.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in held.items())
    found = layoutsolve.convert(source, to="tflite", inputs="nhwc", outputs="nhwc").content("")
    assert [each.name for each in parse(found).subgraphs[0].operators] == ["CONV_2D", "MEAN", "MUL", "ADD"]
    x = generator.normal(size=(1, 3, 8, 8)).astype(np.float32)
    (expected,) = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})
    (result,) = litert().run(found, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))]).results
    np.testing.assert_allclose(result.transpose(0, 3, 1, 2), expected, atol=1e-5)
