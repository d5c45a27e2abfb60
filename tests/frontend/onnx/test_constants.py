"""Transposes of constants are a gain of their own: no file keeps them that is worse in nothing without them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.proto.data_movement import of_constants
from tests.frontend.onnx.test_flow import alike


def dense(layers: int, way: str, shared: bool) -> onnx.ModelProto:
    """Dense layers whose weights are transposed while the model is loaded; ``shared`` ones are read as they are too."""
    random, nodes, constants, last = np.random.default_rng(layers), [], [], "x"
    for at in range(layers):
        stored = random.normal(size=(8, 8)).astype({"cast": np.float16}.get(way, np.float32))
        if way == "quantized":
            stored = random.integers(-100, 100, (8, 8)).astype(np.int8)
            constants.append(numpy_helper.from_array(np.float32(0.01), f"s{at}"))
            nodes.append(helper.make_node("DequantizeLinear", [f"w{at}", f"s{at}"], [f"d{at}"]))
        elif way == "cast":
            nodes.append(helper.make_node("Cast", [f"w{at}"], [f"d{at}"], to=TensorProto.FLOAT))
        constants.append(numpy_helper.from_array(stored, f"w{at}"))
        weight = f"w{at}" if way == "plain" else f"d{at}"
        nodes.append(helper.make_node("Transpose", [weight], [f"t{at}"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [last, f"t{at}"], [f"m{at}"]))
        if shared:
            nodes.append(helper.make_node("MatMul", [f"m{at}", weight], [f"n{at}"]))
        nodes.append(helper.make_node("Relu", [f"n{at}" if shared else f"m{at}"], [f"r{at}"]))
        last = f"r{at}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", ["ReduceMin", "ReduceMax", "ReduceSum", "ReduceMean", "ReduceProd"])
@pytest.mark.parametrize("objective", ["min-transpose", "min-executed", "min-nodes"])
def test_a_view_in_place_of_another_operator_is_no_loss(op: str, objective: str) -> None:
    """A reduction of a dimension of size 1 is read as a Reshape, which the source does not have."""
    weights = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([0]), "axes")]
    nodes = [
        helper.make_node(op, ["x", "axes"] if op == "ReduceSum" else ["x"], ["r"], keepdims=0),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Gemm", ["r", "t"], ["y"], transB=1),
    ]
    if op != "ReduceSum":
        nodes[0].attribute.add(name="axes", type=onnx.AttributeProto.INTS, ints=[0])
    ends = [helper.make_tensor_value_info(*each) for each in (("x", 1, [1, 6, 5]), ("y", 1, [6, 4]))]
    read = constants if op == "ReduceSum" else constants[:1]
    graph = helper.make_graph(nodes, "reduced", ends[:1], ends[1:], read)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = layoutsolve.convert(source.SerializeToString(), objective=objective)
    alike(source, found.model, {"x": np.random.default_rng(1).normal(size=(1, 6, 5)).astype(np.float32)})
    assert not found.kept
    assert not any(node.op_type == "Transpose" for node in found.model.graph.node)


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("way", ["plain", "cast", "quantized"])
@pytest.mark.parametrize("shared", [False, True])
def test_transposes_of_constants_are_folded(layers: int, way: str, shared: bool) -> None:
    source = dense(layers, way, shared)
    found = layoutsolve.convert(source.SerializeToString())
    alike(source, found.model, {"x": np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)})
    if not shared:  # else a weight would be stored twice
        assert of_constants(found.model) == 0
        assert not found.kept
        assert len(found.model.graph.node) <= len(source.graph.node)
    again = layoutsolve.convert(found.model.SerializeToString())
    assert of_constants(again.model) == of_constants(found.model)
