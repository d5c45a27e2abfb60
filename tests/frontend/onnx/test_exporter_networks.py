"""Networks as exporters write them are no slower for what ONNX Runtime does by itself, and give the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import layoutsolve
from experiments.make.exporter_networks import FAMILIES, network
from layoutsolve.ir.graph import Array
from layoutsolve.proto.messages import integers
from tests.frontend.onnx.test_random import run

NAMED = {family.__name__: family for family in FAMILIES}


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Random images, tokens and states; what is open is 5 long."""
    rng, found = np.random.default_rng(seed), dict[str, Array]()
    for port in model.graph.input:
        shape: Sequence[int] = [dim.dim_value or 5 for dim in port.type.tensor_type.shape.dim]
        found[port.name] = rng.standard_normal(shape).astype(np.float32)
    return found


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(40, 60))
def test_bytes_are_read_as_images(seed: int) -> None:
    """ONNX Runtime has 8-bit images channels-last: a Transpose before a convolution is none there. It is not spared by
    reading a row as one long line, with an activation that is written out between it and its QuantizeLinear.
    """
    written = layoutsolve.convert(network(NAMED["quantized"], seed)).model
    convolutions = [node for node in written.graph.node if node.op_type == "Conv"]
    assert convolutions
    for node in convolutions:
        assert {*integers(node, "strides")} <= {1}


@pytest.mark.parametrize("seed", range(40, 60, 4))
def test_narrow_images_are_multiplied_in_floats(seed: int) -> None:
    """Kernels on bytes gather fewer than four channels one by one: behind a Relu that is written out as well."""
    rng, make = np.random.default_rng(seed), onnx.helper.make_node
    results = int(rng.choice([4, 8, 12]))
    arrays = {
        "s": np.float32(0.05), "z": np.uint8(0), "ws": np.float32(0.01), "wz": np.int8(0),
        "w": rng.integers(-127, 128, (results, 3, 3, 3)).astype(np.int8),
        "v": rng.integers(-127, 128, (16, results, 3, 3)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["xq"]), make("DequantizeLinear", ["xq", "s", "z"], ["xr"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wr"]), make("DequantizeLinear", ["v", "ws", "wz"], ["vr"]),
        make("Conv", ["xr", "wr"], ["c"], pads=[1] * 4), make("Relu", ["c"], ["r"]),
        make("QuantizeLinear", ["r", "s", "z"], ["rq"]), make("DequantizeLinear", ["rq", "s", "z"], ["rr"]),
        make("Conv", ["rr", "vr"], ["d"]), make("QuantizeLinear", ["d", "s", "z"], ["dq"]),
        make("DequantizeLinear", ["dq", "s", "z"], ["e"]), make("Transpose", ["e"], ["t"], perm=[0, 2, 3, 1]),
        make("Abs", ["t"], ["u"]), make("Transpose", ["u"], ["y"], perm=[0, 3, 1, 2]),
    ]  # fmt: skip
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy")
    x.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in (1, 3, 16, 16))
    constants = [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "narrow", [x], [y], constants)
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    written = layoutsolve.convert(onnx.shape_inference.infer_shapes(source)).model
    assert "Transpose" not in [node.op_type for node in written.graph.node]
    makers = {name: node for node in written.graph.node for name in node.output}
    first = next(node for node in written.graph.node if node.op_type == "Conv")
    weights = first.input[1]
    while weights in makers:
        assert makers[weights].op_type in ("Cast", "Mul", "Sub")
        weights = makers[weights].input[0]
    given = feeds(source, seed)
    for truth, result in zip(run(source, given), run(written, given), strict=True):
        assert np.abs(truth - result).max() <= 0.051


@pytest.mark.members(9)
@pytest.mark.parametrize("name", sorted(NAMED.keys() - {"quantized", "windows"}))
@pytest.mark.parametrize("seed", [60, 61])
def test_results_stay(name: str, seed: int) -> None:
    source = network(NAMED[name], seed)
    found = layoutsolve.convert(source).model
    given = feeds(source, seed)
    for truth, result in zip(run(source, given), run(found, given, optimised=True), strict=True):
        assert np.allclose(truth, result, rtol=1e-4, atol=1e-4)
