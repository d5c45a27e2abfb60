"""Operators of models in ONNX between Transposes that cancel out: none is left, whatever a file says of sizes."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.emit import serialise
from tests.solver.theory.test_hidden_transposes import OPERATORS, hidden

COMPUTED = frozenset(("Slice", "ai.onnx.ml:OneHotEncoder"))
"""Operators of whose results nothing but the file says the sizes: where their bounds are computed, or as the inference
of some versions of onnx ends the process.
"""


@pytest.mark.members(71)
@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in COMPUTED])
def test_transposes_around_an_operator_vanish(operator: str) -> None:
    """As the file says sizes of its ends alone, those of all else are inferred."""
    for _, around in [each for seed in range(2) for each in hidden(operator, seed)][:2]:
        model = onnx.ModelProto.FromString(serialise(around).SerializeToString())
        model.graph.ClearField("value_info")
        found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
        assert (found.report["transposes"], found.report["status"]) == (0, "optimal")
        assert found.report["kept_operators"] == {}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.DOUBLE])
def test_the_type_of_another_tensor_is_a_cast(kind: int, constant: bool) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("CastLike", ["turned", "like"], ["cast"]),
        helper.make_node("Transpose", ["cast"], ["y"], perm=[0, 2, 1]),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])]
    ports += [] if constant else [helper.make_tensor_value_info("like", kind, [1])]
    given = [helper.make_tensor("like", kind, [1], [0])] if constant else []
    results = [helper.make_tensor_value_info("y", kind, [2, 3, 4])]
    graph = helper.make_graph(nodes, "cast", ports, results, given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    written = layoutsolve.convert(model.SerializeToString()).model
    assert [node.op_type for node in written.graph.node] == ["Cast"]
    assert written.graph.output[0].type.tensor_type.elem_type == kind
