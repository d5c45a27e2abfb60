"""What a source in ONNX says of itself is in the result: texts, names of axes, sizes of outputs, versions."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest
from onnx import TensorProto, helper

import layoutsolve
from layoutsolve.proto.scopes import nodes_of
from tests.random_onnx import random_model


def told(model: onnx.ModelProto) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Texts of a model and of what is in it, by kind and name."""
    graph = model.graph
    yield "model", "", model.doc_string, ()
    yield "graph", graph.name, graph.doc_string, tuple(f"{each.key}={each.value}" for each in graph.metadata_props)
    kinds = {"input": graph.input, "output": graph.output, "initializer": graph.initializer, "node": nodes_of(graph)}
    for kind, items in kinds.items():
        for each in items:
            yield kind, each.name, each.doc_string, tuple(f"{each.key}={each.value}" for each in each.metadata_props)


def with_texts(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with a text for everything that may have one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.ir_version, made.doc_string, made.graph.doc_string = 10, "of the model", "of the graph"
    items = [made.graph, *made.graph.input, *made.graph.output, *made.graph.initializer, *made.graph.node]
    for number, each in enumerate(items):
        each.doc_string = f"text {number}"
        each.metadata_props.add(key="number", value=str(number))
        if isinstance(each, onnx.NodeProto):
            each.name = f"node_{number}"
    return made


@pytest.mark.parametrize("seed", range(12))
def test_texts(seed: int) -> None:
    """Inputs, outputs and initializers of a name keep theirs; nodes have that of the one they come from, or none."""
    source = with_texts(random_model(seed)[1])
    conversion = layoutsolve.convert(source.SerializeToString())
    written = conversion.model
    before = {(kind, name): (text, facts) for kind, name, text, facts in told(source)}
    assert written.ir_version == 10
    for kind, name, text, facts in told(written):
        origin = conversion.origins.get(name)
        called = origin.name if kind == "node" and origin is not None else name
        wanted = before.get((kind, called), ("", ()))
        moves = kind == "node" and not text
        assert (text, facts) == (("", ()) if moves else wanted), (kind, name)
    nodes = [text for kind, _, text, _ in told(written) if kind == "node"]
    assert not nodes or sum(map(bool, nodes)) * 2 >= len(nodes)


def test_a_node_that_becomes_another_keeps_its_text() -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4, 1, 1], [0.1] * 16, False)
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], "t", perm=[0, 3, 1, 2], doc_string="there"),
        helper.make_node("Conv", ["a", "w"], ["b"], "conv", doc_string="a product"),
        helper.make_node("Transpose", ["b"], ["y"], "u", perm=[0, 2, 3, 1]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8, 8, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = layoutsolve.convert(model.SerializeToString()).model
    assert [(node.op_type, node.doc_string) for node in found.graph.node] == [("MatMul", "a product")]
    assert found.ir_version == 9


def sizes(ports: object) -> list[list[int | str]]:
    return [[dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in ports]  # type: ignore[attr-defined]


@pytest.mark.parametrize("swapped", [False, True])
def test_names_of_axes(swapped: bool) -> None:
    """Two sizes that have to be equal are called as an input calls its own, not as what is found within."""
    add = "y = Add(e, x)" if swapped else "y = Add(x, e)"
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[batch, 4] x, int64[k] s) => (float[batch, 4] y)
        {{ f = Expand(x, s) g = NonZero(f) c = Cast<to = 1>(g) r = Transpose<perm = [1, 0]>(c)
        w = Constant<value = float[2, 4] {{1, 1, 1, 1, 1, 1, 1, 1}}>() e = MatMul(r, w) {add} }}"""
    found = layoutsolve.convert(onnx.parser.parse_model(text).SerializeToString()).model
    assert sizes(found.graph.input)[0] == ["batch", 4] and sizes(found.graph.output) == [["batch", 4]]


def test_sizes_of_outputs_that_nobody_infers() -> None:
    """They stay as stated, but where the output is stored otherwise than in the source."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[1, 4, 8, 8] x, int64[4] s) => (float[n, 4, 8, 3] y)
        { a = Relu(x) y = Reshape(a, s) }"""
    source = onnx.parser.parse_model(text).SerializeToString()
    assert sizes(layoutsolve.convert(source).model.graph.output) == [["n", 4, 8, 3]]
    moved = layoutsolve.convert(source, outputs="nhwc").model
    assert sizes(moved.graph.output)[0] != ["n", 4, 8, 3]
    wrong = text.replace("float[n, 4, 8, 3] y", "float[7, 4, 8, 3] y").replace(
        "y = Reshape(a, s)", "b = Transpose<perm = [0, 2, 3, 1]>(a) y = Transpose<perm = [0, 3, 1, 2]>(b)"
    )
    assert sizes(layoutsolve.convert(onnx.parser.parse_model(wrong).SerializeToString()).model.graph.output) == [
        [1, 4, 8, 8]
    ]
