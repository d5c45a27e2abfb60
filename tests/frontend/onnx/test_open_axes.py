"""Whichever size of what an operator reads has a name alone, its rule is not lost."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.emit import serialise
from tests.frontend.onnx.test_flow import alike
from tests.solver import siblings, standard
from tests.solver.cases import CASES, RELATED, graph_of

assert siblings.PRIVATE and standard.RELATED is RELATED, "both add cases to these"

LOST: Mapping[str, str] = {
    "Gemm": "a bias of an open size may be repeated along the result",
    "QuantizeLinear": "an open size is not known to be so many blocks",
    "Resize": "a size that is given as a number does not say whether an open one is resampled",
    "com.microsoft:TransposeMatMul": "an open batch may be repeated along one that is a number",
}
"""Operators that an open size costs their rule, and why it matters to them."""

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


def with_equal_sizes_open(model: ModelProto) -> Iterator[ModelProto]:
    """A model with all sizes of inputs open that are the same number, one number after the other."""
    for size in {dim.dim_value for port in model.graph.input for dim in port.type.tensor_type.shape.dim} - {0, 1}:
        made = ModelProto.FromString(model.SerializeToString())
        for port in made.graph.input:
            for dim in port.type.tensor_type.shape.dim:
                if dim.dim_value == size:
                    dim.dim_param = f"n{size}"
        yield made


def is_kept(model: ModelProto) -> bool:
    """Whether nothing is known of the only node of a model."""
    found, (node,) = layoutsolve.convert(model.SerializeToString()).assignment, model.graph.node
    return any(rule.kept and found.graph.nodes[at].op == node.op_type for at, rule in found.rules.items())


WAYS: Mapping[str, Callable[[ModelProto], Iterator[ModelProto]]] = {
    "one": with_open_sizes,
    "equal": with_equal_sizes_open,
}


def looked_at(seed: int, way: str, among: Collection[str]) -> tuple[set[str], int]:
    """The operators whose rule an open size loses, and how many models were made."""
    lost, tried = set[str](), 0
    for operator in among:
        model = serialise(graph_of(operator, seed)[0])
        node = next((each for each in model.graph.node if each.op_type == operator.rpartition(":")[2]), None)
        if node is None or is_kept(whole := alone(model, node)):
            continue
        opened = [is_kept(made) for made in WAYS[way](whole)]
        tried += len(opened)
        if any(opened):
            lost.add(operator)
    return lost, tried


@pytest.mark.members(1)
@pytest.mark.slow
@pytest.mark.parametrize("cases", [CASES, RELATED])
@pytest.mark.parametrize(("seed", "way"), [*enumerate(WAYS)])
def test_an_open_size_loses_no_rule(seed: int, way: str, cases: Mapping[str, object]) -> None:
    """In a process of its own, which knows the rules and operators that are imported here, and no others."""
    among = sorted(cases.keys() - REFUSED)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        lost, tried = pool.apply(looked_at, (seed, way, among))
    assert tried > 70
    assert lost <= LOST.keys()


def pair(op: str, shapes: Sequence[Sequence[int | str]], domain: str = "", **attributes: object) -> ModelProto:
    """A model of one operator that reads inputs of some shapes."""
    names = [f"x{number}" for number in range(len(shapes))]
    ports = [
        helper.make_tensor_value_info(*each, shape) for each, shape in zip(((n, 1) for n in names), shapes, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", 1, None)])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


EQUAL = [
    pair("MatMul", [["b", "m", "n"], [5, 4]]), pair("MatMul", [["b", "m", 5], ["k", 4]]),
    pair("Gemm", [["m", "n"], [4, 5]], transB=1), pair("LayerNormalization", [["b", "m", "n"], [5]]),
    pair("BatchNormalization", [["b", "n", 4, 4], *[[5]] * 4]),
    pair("InstanceNormalization", [["b", "n", 4, 4], [5], [5]]), pair("Conv", [["b", "n", "h", "w"], [4, 5, 3, 3]]),
    pair("GroupNormalization", [["b", "n", 4, 4], [5], [5]], num_groups=1),
    pair("ConvTranspose", [["b", "n", "h", "w"], [5, 4, 3, 3]]),
    pair("BiasGelu", [["b", "m", "n"], [5]], "com.microsoft"),
    pair("SkipLayerNormalization", [["b", "m", "n"], ["b", "m", 5], [5]], "com.microsoft"),
    pair("GatedAdd", [["b", "m", "n"], ["b", "m", 5], ["b", "m", 1]], "com.microsoft"),
    pair("MultiHeadAttention", [["b", "m", 4], ["n", "m", 4], [5, "m", 4]], "com.microsoft", num_heads=2),
    pair("FusedConv", [["b", "n", "h", "w"], [4, 5, 3, 3]], "com.microsoft", activation="Relu"),
]  # fmt: skip
"""Operators whose other operands say that ``n`` or ``k`` is 5."""

REPEATED = [
    pair("MatMul", [["b", 2, 4], [3, 4, 4]]), pair("LayerNormalization", [[2, 3, 4], ["n"]]),
    pair("PRelu", [[2, 3, 4], ["n", 1]]), pair("PRelu", [["b", "n", 4], [5, 1]]),
    pair("LayerNormalization", [["b", "m", "n"], [1]]),
]  # fmt: skip
"""Operators that may repeat what has an open size, so that it may be 1."""


@pytest.mark.parametrize("model", EQUAL, ids=lambda model: model.graph.node[0].op_type)
def test_numbers_elsewhere_say_what_sizes_are(model: ModelProto) -> None:
    found = layoutsolve.convert(model.SerializeToString()).assignment.graph
    dims = [str(dim) for name in found.inputs for dim in found.values[name].shape]
    assert not {"n", "k"} & set(dims)
    assert "5" in dims


@pytest.mark.parametrize("model", REPEATED, ids=lambda model: model.graph.node[0].op_type)
def test_what_may_be_repeated_stays_open(model: ModelProto) -> None:
    found = layoutsolve.convert(model.SerializeToString()).assignment.graph
    before = [len({dim.dim_param} - {""}) for port in model.graph.input for dim in port.type.tensor_type.shape.dim]
    after = [dim for name in found.inputs for dim in found.values[name].shape if not isinstance(dim, int)]
    assert sum(before) == len(after)


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


HEADED = {
    "Attention": ("", {"q_num_heads": 2, "kv_num_heads": 2}, 3),
    "MultiHeadAttention": ("com.microsoft", {"num_heads": 2}, 3),
    "RotaryEmbedding": ("com.microsoft", {"num_heads": 2}, 1),
}
"""Operators with heads in their features: domain, attributes and how many inputs have these."""


@pytest.mark.parametrize("features", ["f", 8])
@pytest.mark.parametrize("op", HEADED)
def test_features_of_an_open_size_stay_whole(op: str, features: str | int) -> None:
    """Batches take any order all the same."""
    domain, attributes, count = HEADED[op]
    names, nodes, whole = [f"x{number}" for number in range(count)], [], np.array([6, 5, -1])
    for name in names:
        nodes.append(helper.make_node("Transpose", [name], [f"{name}t"], perm=(1, 0, 2, 3)))
        nodes.append(helper.make_node("Reshape", [f"{name}t", "whole"], [f"{name}r"]))
    held = {"whole": whole, "parts": np.array([2, 3, 5, -1]), "place": np.array([1])}
    held |= {name: np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32) for name in ("cos", "sin")}
    tables = ["place", "cos", "sin"] if op == "RotaryEmbedding" else []
    nodes.append(helper.make_node(op, [*(f"{name}r" for name in names), *tables], ["u"], domain=domain, **attributes))
    nodes.append(helper.make_node("Reshape", ["u", "parts"], ["v"]))
    nodes.append(helper.make_node("Transpose", ["v"], ["y"], perm=(1, 0, 2, 3)))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 2, 5, features]) for name in names]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    known = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "headed", ends, [made], known)
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    source = helper.make_model(graph, opset_imports=imports, ir_version=11)
    found = layoutsolve.convert(source.SerializeToString(), objective="min-transpose")
    assert (found.price.transposes, found.report["kept_operators"]) == (0, {})
    random = np.random.default_rng(0)
    alike(source, found.model, {name: random.normal(size=(3, 2, 5, 8)).astype(np.float32) for name in names})
