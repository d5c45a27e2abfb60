"""Whichever size of what an operator reads has a name alone, its rule is not lost."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.emit import serialise
from tests.frontend.onnx.test_flow import alike
from tests.solver.cases import CASES, RELATED, graph_of

NUMBERS = frozenset(("BatchNormalization", "Gemm", "LayerNormalization", "ScatterElements", "ScatterND"))
"""Operators whose other operands say with a number what size an axis has that is open elsewhere."""

REFUSED = frozenset(("StringConcat",))
"""Operators whose types onnx's inference mistakes in a model by themselves."""


def alone(model: ModelProto, node: NodeProto) -> ModelProto:
    """A model of one node of another model, whose results say nothing of their sizes."""
    found = onnx.shape_inference.infer_shapes(model).graph
    kinds = {each.name: each.type for each in (*found.input, *found.output, *found.value_info)}
    read = [name for name in dict.fromkeys(node.input) if name]
    held = [each for each in found.initializer if each.name in read]
    constants = {each.name for each in held}
    inputs = [onnx.ValueInfoProto(name=name, type=kinds[name]) for name in read if name not in constants]
    outputs = [onnx.ValueInfoProto(name=name, type=kinds[name]) for name in node.output if name]
    for each in outputs:
        each.type.tensor_type.ClearField("shape")
    graph = helper.make_graph([node], "alone", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def with_open_sizes(model: ModelProto) -> Iterator[ModelProto]:
    """A model with one size of an input open after the other."""
    for number, port in enumerate(model.graph.input):
        for axis, dim in enumerate(port.type.tensor_type.shape.dim):
            if dim.dim_value > 1:
                made = ModelProto.FromString(model.SerializeToString())
                made.graph.input[number].type.tensor_type.shape.dim[axis].dim_param = "n"
                yield made


def is_kept(model: ModelProto) -> bool:
    """Whether nothing is known of the only node of a model."""
    found, (node,) = layoutsolve.convert(model.SerializeToString()).assignment, model.graph.node
    return any(rule.kept and found.graph.nodes[at].op == node.op_type for at, rule in found.rules.items())


def looked_at(seed: int) -> tuple[set[str], int]:
    """The operators whose rule an open size loses, and how many sizes were opened."""
    lost, tried = set[str](), 0
    for operator in sorted({**CASES, **RELATED}.keys() - REFUSED):
        model = serialise(graph_of(operator, seed)[0])
        node = next((each for each in model.graph.node if each.op_type == operator.rpartition(":")[2]), None)
        if node is None or is_kept(whole := alone(model, node)):
            continue
        opened = [is_kept(made) for made in with_open_sizes(whole)]
        tried += len(opened)
        if any(opened):
            lost.add(operator)
    return lost, tried


@pytest.mark.parametrize("seed", range(2))
def test_an_open_size_loses_no_rule(seed: int) -> None:
    """In a process of its own, which knows the rules and operators that are imported here, and no others."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        lost, tried = pool.apply(looked_at, (seed,))
    assert tried > 200
    assert lost <= NUMBERS


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("computed", [False, True])
def test_the_largest_along_an_open_axis(axis: int, computed: bool) -> None:
    """All other sizes stay as they are, so that Transposes around it cancel out; how many there are may be computed,
    which leaves it where it is.
    """
    perm, shape = (2, 0, 1), ["n", "m", "k"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("TopK", ["t", "count"], ["u", "places"], axis=axis),
        helper.make_node("Transpose", ["u"], ["y"], perm=(1, 2, 0)),
        helper.make_node("Transpose", ["places"], ["z"], perm=(1, 2, 0)),
    ]
    count = numpy_helper.from_array(np.array([2]), "count")
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if computed:
        ends.append(helper.make_tensor_value_info("count", TensorProto.INT64, [1]))
    made = [helper.make_tensor_value_info(*each, None) for each in (("y", TensorProto.FLOAT), ("z", TensorProto.INT64))]
    graph = helper.make_graph(nodes, "largest", ends, made, [] if computed else [count])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = layoutsolve.convert(source.SerializeToString(), objective="min-transpose")
    assert found.price.transposes == (3 if computed else 0)
    assert found.report["kept_operators"] == ({"TopK": 1} if computed else {})
    feeds = {"x": np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)}
    alike(source, found.model, feeds | ({"count": np.array([2])} if computed else {}))
