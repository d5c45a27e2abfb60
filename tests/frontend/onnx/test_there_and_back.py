"""Operators of models in ONNX between Transposes that cancel out: none is left, whatever a file says of sizes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.verification.runtimes import OnnxRuntime
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


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", ["none", "constant", "computed"])
def test_triangles_of_transposed_matrices(diagonal: str, upper: int) -> None:
    """The other triangle of the matrix as it is, whose diagonals count the other way."""
    given = {"none": "", "constant": ", one", "computed": ", k"}[diagonal]
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[3, 4] x, int64 k) => (float[3, 4] y)
        <int64 one = {{1}}> {{
            a = Transpose<perm = [1, 0]>(x) b = Trilu<upper = {upper}>(a{given}) y = Transpose<perm = [1, 0]>(b) }}"""
    )
    found = layoutsolve.convert(model.SerializeToString()).model
    assert not any(node.op_type == "Transpose" for node in found.graph.node)
    x, k = np.arange(1, 13, dtype=np.float32).reshape(3, 4), {"none": 0}.get(diagonal, 1)
    (result,) = OnnxRuntime(found.SerializeToString(), level="none").run({"x": x, "k": np.array(k)})
    np.testing.assert_array_equal(result, (np.triu if upper else np.tril)(x.T, k).T)
