"""Models in memory: each kind that is given comes back, says the same, and is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import layoutsolve

onnx_ir = pytest.importorskip("onnx_ir")

KINDS: dict[str, tuple[Callable[[onnx.ModelProto], Any], Callable[[Any], onnx.ModelProto]]] = {
    "proto": (lambda model: model, lambda model: model),
    "ir": (onnx_ir.from_proto, onnx_ir.to_proto),
    "bytes": (lambda model: model.SerializeToString(), onnx.ModelProto.FromString),
}
"""How each kind is made of a message, and how a message is made of it."""


def there_and_back(ops: tuple[str, ...]) -> onnx.ModelProto:
    """Operators of single elements between Transposes that undo each other, and a sum with a constant."""
    names = ["x", "moved", *(f"y{number}" for number in range(len(ops))), "sum", "result"]
    nodes = [helper.make_node("Transpose", ["x"], ["moved"], perm=[0, 2, 1])]
    nodes += [helper.make_node(op, [names[at + 1]], [names[at + 2]]) for at, op in enumerate(ops)]
    nodes += [helper.make_node("Add", [names[-3], "bias"], ["sum"])]
    nodes += [helper.make_node("Transpose", ["sum"], ["result"], perm=[0, 2, 1])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in ("x", "result")]
    bias = numpy_helper.from_array(np.arange(3, dtype=np.float32), "bias")
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], [bias])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", [("Relu",), ("Tanh", "Abs"), ("Neg", "Sigmoid", "Exp")])
def test_the_same_kind_comes_back(kind: str, ops: tuple[str, ...]) -> None:
    wrapped, plain = KINDS[kind]
    source = there_and_back(ops)
    given = wrapped(onnx.ModelProto.FromString(source.SerializeToString()))
    found = layoutsolve.optimize(given, objective="min-transpose")
    assert type(found) is type(given)
    assert plain(given).SerializeToString() == plain(wrapped(source)).SerializeToString()
    result = plain(found)
    assert "Transpose" not in [node.op_type for node in result.graph.node]
    data = {"x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)}
    expected, computed = (ReferenceEvaluator(each).run(None, data)[0] for each in (source, result))
    np.testing.assert_array_equal(computed, expected)
    assert layoutsolve.verify(given, layoutsolve.convert(given)).passed
    assert layoutsolve.convert(given).content("a.onnx") == layoutsolve.convert(plain(given)).content("a.onnx")


def test_a_pass_of_onnx_ir() -> None:
    """It stands in a sequence, and says whether it has changed anything."""
    from layoutsolve.integrations.onnx_ir_pass import LayoutPass

    source = onnx_ir.from_proto(there_and_back(("Relu",)))
    done = onnx_ir.passes.Sequential(LayoutPass(objective="min-transpose"))(source)
    assert done.modified and [node.op_type for node in done.model.graph] == ["Relu", "Add"]
    assert not LayoutPass()(done.model).modified


def test_what_is_no_model(tmp_path: Path) -> None:
    model = there_and_back(("Relu",))
    for wrong in (model.graph, model.graph.node[0], onnx_ir.from_proto(model).graph):
        with pytest.raises(TypeError, match="source must be a path, the bytes of a model, or an ONNX model, not"):
            layoutsolve.convert(wrong)
    with pytest.raises(TypeError, match=r"use convert\(...\).save"):
        layoutsolve.optimize(tmp_path / "a.onnx")  # type: ignore[type-var]
    with pytest.raises(layoutsolve.ModelError):
        layoutsolve.optimize(onnx.ModelProto())
