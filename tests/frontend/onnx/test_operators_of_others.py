"""Operators that are not of ONNX stay as they stand."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx.test_files import FLOAT, converted, operators, text
from tests.frontend.onnx.test_random import run


def test_unknown_operators_stay_as_they_are() -> None:
    model = text(
        """<ir_version: 8, opset_import: ["" : 18, "of.mine" : 4]> g (float[1, 3, 4, 5] x) => (y) {
            a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b)
            d = of.mine.Mystery<depth = 3, way = "up">(c) e = Relu(d) y = of.mine.Other(e, x) }"""
    )
    result = converted(model)
    kept = [node for node in result.graph.node if node.domain == "of.mine"]
    assert [node.op_type for node in kept] == ["Mystery", "Other"] and operators(result).count("Transpose") == 0
    assert {each.name: helper.get_attribute_value(each) for each in kept[0].attribute} == {"depth": 3, "way": b"up"}
    assert {each.domain: each.version for each in result.opset_import} == {"": 18, "of.mine": 4}


@pytest.mark.parametrize("told", [None, (), (2, 3)])
@pytest.mark.parametrize("last", ["r = com.microsoft.QuickGelu(c)", "s = com.microsoft.QuickGelu(c) r = Neg(s)"])
def test_operators_of_others_in_branches(told: tuple[int, ...] | None, last: str) -> None:
    model = text(
        f"""<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
        g (float[2, 3] x, bool test) => (float[2, 3] y) {{
            a = Transpose<perm = [1, 0]>(x) b = Relu(a) c = Transpose<perm = [1, 0]>(b)
            y = If(test) <then_branch = t () => (r) {{ {last} }}, else_branch = e () => (q) {{ q = Neg(c) }}> }}"""
    )
    if told is not None:
        info = helper.make_tensor_value_info("s", FLOAT, told or None)
        model.graph.node[3].attribute[0].g.value_info.append(info)
    result = converted(model)
    assert operators(result) == ["Relu", "If"]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for test in (False, True):
        feeds = {"x": x, "test": np.array(test)}
        assert np.array_equal(*run(model, feeds), *run(result, feeds))


@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
def test_operators_that_onnx_does_not_know_stay(opset: int) -> None:
    """In ONNX's own domain as well, where converters leave some of their own: whatever the operator set is."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node("TFL_Special", ["c"], ["d"], name="mine", tuned=3),
        helper.make_node("Transpose", ["c"], ["e"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["e"], ["y"], perm=[0, 3, 1, 2]),
    ]
    ports = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("d", None), ("y", (1, 3, 4, 5)))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, (1, 3, 4, 5))], ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = converted(model)
    (mine,) = (node for node in found.graph.node if node.op_type == "TFL_Special")
    assert (mine.name, mine.domain, mine.attribute) == ("mine", "", nodes[3].attribute)
    assert "Transpose" not in operators(found)


@pytest.mark.parametrize("domain", ["", "nobody", "com.microsoft"])
@pytest.mark.parametrize(
    "name", ["Transpose", "Reshape", "Flatten", "State", "Join", "Carry", "Stack", "Turn", "Sizes"]
)
def test_operators_that_are_called_as_others_stay(name: str, domain: str) -> None:
    """Operators of other domains are no views, and none ties graphs together that ONNX does not know."""
    if not domain and name in ("Transpose", "Reshape", "Flatten"):
        return
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node(name, ["c"], ["d"], name="mine", domain=domain),
        helper.make_node("Neg", ["d"], ["e"]),
    ]
    ports = [helper.make_tensor_value_info(each, FLOAT, (1, 3, 4, 5)) for each in ("x", "d", "e")]
    imports = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=imports, ir_version=8)
    found = converted(model)
    assert [(node.op_type, node.domain) for node in found.graph.node] == [("Relu", ""), (name, domain), ("Neg", "")]
