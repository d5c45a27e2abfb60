"""Convolutions of stored integers, and a QuantizeLinear by a scale for each channel, are quantized convolutions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.integers(-127, 128, (6, 3, 3, 3)).astype(np.float32)
BIAS = RANDOM.integers(-999, 999, 6).astype(np.float32)
SCALE = RANDOM.uniform(300, 900, 6).astype(np.float32)


def model(
    weights: object = WEIGHTS,
    bias: object = BIAS,
    step: float = 1.0,
    axis: int = 1,
    zero: int = -5,
    scale: object = SCALE,
) -> onnx.ModelProto:
    """A convolution as it is written for kernels on floats."""
    held = {
        "one": np.float32(step), "zero": np.int8(3), "w": weights, "b": bias, "s": scale,
        "zeros": np.full(6, zero, np.int8), "t": np.float32(0.02), "z": np.int8(-5),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "one", "zero"], ["real"]),
        helper.make_node("Conv", ["real", "w", "b"], ["sums"]),
        helper.make_node("QuantizeLinear", ["sums", "s", "zeros"], ["stored"], axis=axis),
        helper.make_node("DequantizeLinear", ["stored", "t", "z"], ["again"]),
        helper.make_node("Relu", ["again"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 6, 6])
    constants = [numpy_helper.from_array(np.asarray(data), name) for name, data in held.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_integers(seed: int) -> None:
    """The kernel on bytes that LiteRT has gives what the floats give, but for halves."""
    source, x = model(), np.random.default_rng(seed).integers(-128, 128, (1, 3, 8, 8)).astype(np.int8)
    found = layoutsolve.convert(source, to="tflite").content("")
    graph = parse(found).subgraphs[0]
    (kernel,) = (each for each in graph.operators if each.name == "CONV_2D")
    assert [graph.tensors[index].dtype for index in kernel.inputs] == ["int8", "int8", "int32"]
    truth = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})[0]
    with LiteRT() as litert:
        result = litert.run(found, [x]).results[0]
    assert np.abs(result - truth).max() <= 0.021
    assert (np.abs(result - truth) > 0.01).mean() < 0.02


def through(step: float, least: int, moved: bool) -> onnx.ModelProto:
    """The same of weights from ``least`` on, with a scale for all channels, or whose result is moved before it means
    something, by one for each; what is multiplied was stored in steps, without a sign where the weights have none.
    """
    kind, middle = (np.int8, 0) if least else (np.uint8, 128)
    held = {
        "one": np.float32(1), "zero": kind(middle + 3), "b": BIAS,
        "w": np.rint(WEIGHTS / 2 + 64 + least).astype(np.float32),
        "s": SCALE if moved else SCALE[0], "z": np.full(6, middle - 5, kind) if moved else kind(middle - 5),
        "t": np.float32(0.02), "z1": kind(middle - 5), "step": np.float32(step),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["real"]),
        helper.make_node("Conv", ["real", "w", "b"], ["sums"]),
        helper.make_node("QuantizeLinear", ["sums", "s", "z"], ["stored"]),
        *([helper.make_node("Concat", ["stored", "stored"], ["both"], axis=2)] if moved else []),
        helper.make_node("DequantizeLinear", ["both" if moved else "stored", "t", "z1"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 12 if moved else 6, 6])
    constants = [numpy_helper.from_array(np.asarray(data), name) for name, data in held.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(("least", "moved"), [(0, False), (-64, False), (-64, True)])
def test_meaning_of_other_tensors(least: int, moved: bool) -> None:
    """Only a kernel on integers is between the two ends, whose steps are those of the source."""
    source, x = through(0.03, least, moved), RANDOM.integers(-120, 120, (1, 3, 8, 8)).astype(np.float32) * 0.03
    found = layoutsolve.convert(source, to="tflite", inputs="nhwc", outputs="nhwc").content("")
    graph = parse(found).subgraphs[0]
    names = [each.name for each in graph.operators]
    assert names == ["QUANTIZE", "CONV_2D", *(["CONCATENATION"] if moved else []), "DEQUANTIZE"]
    truth = OnnxRuntime(source.SerializeToString(), level="none").run({"x": x})[0]
    with LiteRT() as litert:
        result = litert.run(found, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))]).results[0]
    assert np.abs(result.transpose(0, 3, 1, 2) - truth).max() <= 0.021


@pytest.mark.parametrize(
    "source",
    [
        model(WEIGHTS + 0.5),
        model(WEIGHTS * 2),
        model(bias=BIAS + 0.5),
        model(step=0.5),
        model(axis=2),
        model(zero=3),
        model(scale=np.append(SCALE[:5], np.float32(0))),
        model(scale=SCALE * np.float32(1e35)),
    ],
    ids=[
        "weights of no integers",
        "weights above 127",
        "a bias of no integers",
        "another step",
        "another axis",
        "another zero point",
        "a scale of 0",
        "scales too large",
    ],
)
def test_others_stay(source: onnx.ModelProto) -> None:
    found = layoutsolve.convert(source, target="portable").model
    assert sum(len(node.input) > 1 and node.op_type == "QuantizeLinear" for node in found.graph.node) == 1
    kinds = {node.op_type for node in found.graph.node}
    assert "Conv" in kinds and not any(each.data_type == TensorProto.INT32 for each in found.graph.initializer)
    x = RANDOM.integers(-128, 128, (1, 3, 8, 8)).astype(np.int8)
    truth, result = (OnnxRuntime(each.SerializeToString(), level="none").run({"x": x})[0] for each in (source, found))
    np.testing.assert_array_equal(result, truth)
