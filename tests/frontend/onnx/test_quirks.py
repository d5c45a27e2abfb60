"""Random models with what files have and drawn networks lack: their results stay the same, and they load everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import layoutsolve
from experiments.onnx_shared import FailedError, apart
from layoutsolve.errors import ModelError
from layoutsolve.ir.graph import Array
from tests.frontend.onnx.test_random import run
from tests.random_flow import random_flow
from tests.random_onnx import random_model
from tests.random_quirks import given, graphs, quirky, random_older, random_stored

Feeds = Mapping[str, Array]

STORED = ("int8", "uint8", "int16", "uint16", "int32")


def agrees(source: ModelProto, given: Sequence[Feeds], error: float = 0) -> ModelProto:
    """What a source is converted to, which is valid and computes the same at the lowest and the highest level."""
    truths = [run(source, dict(feeds)) for feeds in given]
    found = layoutsolve.convert(source.SerializeToString(), initializer_inputs="keep").model
    if all(port.type.tensor_type.HasField("shape") for port in source.graph.output):
        onnx.checker.check_model(found, full_check=True)
    levels = (False, True) if survives(source, given) else (False,)
    for feeds, truth in zip(given, truths, strict=True):
        for optimised in levels:
            for one, other in zip(truth, run(found, dict(feeds), optimised=optimised), strict=True):
                assert one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6 + error + 1e-4 * np.abs(one).max(initial=0))
    return found


def survives(source: ModelProto, given: Sequence[Feeds]) -> bool:
    """Whether ONNX Runtime loads a source that it optimises, and lives: QDQPropagationTransformer ends the process over
    a view of what is dequantized that branches alone read, and moves QuantizeLinear without its type in others.
    """

    def work() -> None:
        for feeds in given:
            run(source, dict(feeds), optimised=True)

    try:
        apart(work, 60)
    except FailedError:
        return False
    return True


def quantized(model: ModelProto) -> bool:
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    return any(
        node.op_type == "QuantizeLinear" for node in (*nodes, *(node for each in model.functions for node in each.node))
    )


@pytest.mark.members(8)
@pytest.mark.parametrize("seed", range(30))
def test_results_stay(seed: int) -> None:
    kinds = (random_model, random_flow, random_stored)
    writer, plain = kinds[seed % 3](seed)
    source, random = quirky(plain, seed), np.random.default_rng(seed)
    feeds = [writer.feeds(seed), {**writer.feeds(1), **given(source, random)}]
    agrees(source, feeds, 0.12 if quantized(source) else 0)


@pytest.mark.members(10)
@pytest.mark.parametrize("opset", range(7, 18))
@pytest.mark.parametrize("seed", range(4))
def test_older_operator_sets(seed: int, opset: int) -> None:
    x = np.random.default_rng(seed).normal(size=(2, 3, 4, 4)).astype(np.float32)
    agrees(random_older(seed, opset), [{"x": x, "condition": np.array(each)} for each in (False, True)])


def model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int] | None, opset: int = 21, **constants: object
) -> ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in (("x", shape), ("y", None))]
    fixed = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


MOVING: Sequence[tuple[str, Mapping[str, object], Mapping[str, object]]] = [
    ("Transpose", {}, {"perm": [0, 2, 3, 1]}),
    ("Reshape", {"p": np.array([1, 16, 2, 2])}, {}),
    ("DepthToSpace", {}, {"blocksize": 2}),
    ("DepthToSpace", {}, {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", {}, {"blocksize": 2}),
    ("Gather", {"p": np.array([2, 0])}, {"axis": 1}),
    ("Gather", {"p": np.array(1)}, {"axis": 1}),
    ("GatherElements", {"p": np.zeros((1, 4, 4, 4), np.int64)}, {"axis": 2}),
    ("Slice", {"p": np.array([1]), "q": np.array([3]), "r": np.array([2])}, {}),
    ("Concat", {"p": np.ones((1, 4, 4, 4), np.float32)}, {"axis": 1}),
    ("Pad", {"p": np.array([0, 0, 1, 0, 0, 0, 0, 1]), "q": np.float32(0.25)}, {}),
    ("Tile", {"p": np.array([1, 2, 1, 1])}, {}),
    ("Expand", {"p": np.array([2, 4, 4, 4])}, {}),
    ("MaxPool", {}, {"kernel_shape": [2, 2]}),
    ("Clip", {"p": np.float32(-0.1), "q": np.float32(0.2)}, {}),
    ("Clip", {"p": np.float32(-0.1)}, {}),
    ("Max", {"p": np.float32(0.1)}, {}),
    ("Min", {"p": np.float32(0.1)}, {}),
    ("Relu", {}, {}),
    ("Abs", {}, {}),
    ("ReduceMax", {"p": np.array([2])}, {}),
    ("Where", {"p": np.float32(0.5)}, {}),
    ("Flatten", {}, {}),
    ("Unsqueeze", {"p": np.array([1])}, {}),
    ("Squeeze", {"p": np.array([0])}, {}),
    ("Trilu", {}, {}),
    ("Resize", {"none": np.zeros(0, np.float32), "p": np.array([1, 1, 2, 2], np.float32)}, {}),
]


@pytest.mark.members(1)
@pytest.mark.parametrize("dtype", STORED)
def test_what_is_stored_moves_where_a_kernel_moves_it(dtype: str) -> None:
    """Whatever reads dequantized numbers, loads and computes the same for every type that they are stored as; every
    other one is quantized again.
    """
    data = np.random.default_rng(0).normal(size=(1, 4, 4, 4)).astype(np.float32) / 4
    steps = {"s": np.float32(0.01), "z": np.array(7, dtype)}
    for number, (op, constants, attributes) in enumerate(MOVING, STORED.index(dtype)):
        first = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"])]
        if dtype == "int32":
            first = [
                helper.make_node("Mul", ["x", "hundred"], ["m"]),
                helper.make_node("Cast", ["m"], ["a"], to=TensorProto.INT32),
            ]
        nodes = [*first, helper.make_node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2])]
        nodes.append(helper.make_node("DequantizeLinear", ["b", "s", "z"], ["c"]))
        inputs = ["c", *constants]
        if op == "Where":
            nodes.append(helper.make_node("Greater", ["c", "p"], ["test"]))
            inputs = ["test", "c", "p"]
        last = "k" if number % 2 and dtype != "int32" else "y"
        nodes.append(helper.make_node(op, inputs, [last], **attributes))
        if last == "k":
            nodes.append(helper.make_node("QuantizeLinear", ["k", "s", "z"], ["l"]))
            nodes.append(helper.make_node("DequantizeLinear", ["l", "s", "z"], ["y"]))
        agrees(model(nodes, [1, 4, 4, 4], **steps, **constants, hundred=np.float32(100)), [{"x": data}])


UNARY = [
    ("Clip", {"p": np.float32(0), "q": np.float32(0.5)}, {}),
    ("Softmax", {}, {"axis": -1}),
    ("ReduceMean", {"p": np.array([-1])}, {}),
    ("ReduceSum", {"p": np.array([1, 2])}, {}),
    ("Mul", {"p": np.ones(4, np.float32)}, {}),
    ("Slice", {"p": np.array([1]), "q": np.array([3]), "r": np.array([-1])}, {}),
    ("Gather", {"p": np.array([1, 0])}, {"axis": 1}),
    ("Gather", {"p": np.array([0, 1, 2, 3])}, {"axis": -1}),
    ("Transpose", {}, {"perm": [0, 2, 1]}),
    ("Transpose", {}, {}),
    ("Unsqueeze", {"p": np.array([0])}, {}),
    ("Squeeze", {"p": np.array([0])}, {}),
    ("Reshape", {"p": np.array([-1, 2])}, {}),
    ("Flatten", {}, {}),
    ("Pad", {"p": np.array([0, 0, 1, 0, 0, 0])}, {}),
    ("Expand", {"p": np.array([2, 1, 1])}, {}),
    ("Tile", {"p": np.array([1, 1, 2])}, {}),
    ("Concat", {"p": np.ones((1, 3, 4), np.float32)}, {"axis": 0}),
    ("LayerNormalization", {"p": np.ones(4, np.float32)}, {}),
    ("CumSum", {"p": np.array(1)}, {}),
    ("Dropout", {}, {}),
    ("Identity", {}, {}),
    ("MatMul", {"p": np.ones((4, 2), np.float32)}, {}),
    ("TopK", {"p": np.array([2])}, {"axis": 1}),
    ("Split", {"p": np.array([1, 2])}, {"axis": 1}),
]


@pytest.mark.members(20)
@pytest.mark.parametrize("later", ["Transpose", "Relu"])
@pytest.mark.parametrize("case", range(len(UNARY)))
def test_unknown_rank_is_no_rank(case: int, later: str) -> None:
    """What reads a tensor of which it is not known how many dimensions it has computes all that it did, as does what
    moves its result.
    """
    op, constants, attributes = UNARY[case]
    data = np.random.default_rng(0).normal(size=(1, 3, 4)).astype(np.float32)
    outputs = ["a", "rest"][: 1 + (op in ("TopK", "Split"))]
    nodes = [helper.make_node(op, ["x", *constants], outputs, **attributes), helper.make_node(later, ["a"], ["y"])]
    agrees(model(nodes, None, 18, **constants), [{"x": data}])


def normalised(*before: onnx.NodeProto) -> ModelProto:
    """Layer normalisation written out, behind some nodes that give ``t``."""
    nodes = [
        *before,
        helper.make_node("ReduceMean", ["t", "axes"], ["m"]),
        helper.make_node("Sub", ["t", "m"], ["c"]),
        helper.make_node("Mul", ["c", "c"], ["s"]),
        helper.make_node("ReduceMean", ["s", "axes"], ["v"]),
        helper.make_node("Add", ["v", "e"], ["w"]),
        helper.make_node("Sqrt", ["w"], ["r"]),
        helper.make_node("Div", ["c", "r"], ["n"]),
        helper.make_node("Mul", ["n", "g"], ["y"]),
    ]
    numbers = {"axes": np.array([-1]), "e": np.float32(1e-5), "g": np.ones(4, np.float32), "zero": np.array(0)}
    return model(nodes, [2, 3, 4], 18, **numbers)


def test_normalisation_of_unknown_rank() -> None:
    parts = [
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("SequenceInsert", ["none", "x"], ["all"]),
    ]
    source = normalised(*parts, helper.make_node("SequenceAt", ["all", "zero"], ["t"]))
    agrees(source, [{"x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)}])


@pytest.mark.parametrize("seed", range(4))
def test_nodes_in_any_order(seed: int) -> None:
    writer, source = random_model(seed)
    nodes = [source.graph.node[int(at)] for at in np.random.default_rng(seed).permutation(len(source.graph.node))]
    shuffled = ModelProto()
    shuffled.CopyFrom(source)
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(nodes)
    agrees(shuffled, [writer.feeds()], 0.12)


def test_a_cycle_is_told() -> None:
    pairs = [("x", "a", "c"), ("a", "c", "b"), ("b", "b", "a"), ("c", "c", "y")]
    nodes = [helper.make_node("Add", [one, other], [result]) for one, other, result in pairs]
    nodes[0].input[1] = "b"
    with pytest.raises(ModelError, match="cycle"):
        layoutsolve.convert(model(nodes, [2], 18).SerializeToString())


def test_what_nobody_reads_is_not_judged() -> None:
    """Neither an operator that is not known, nor one that cannot be converted, where nothing depends on it."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[0, 2, 1]),
        helper.make_node("Nothing", ["x"], ["dead"], domain="nobody"),
        helper.make_node("MaxPool", ["x"], ["gone"], kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER"),
        helper.make_node("Relu", ["u"], ["y"]),
    ]
    source = model(nodes, [1, 2, 8], 18)
    source.opset_import.add(domain="nobody", version=1)
    assert [node.op_type for node in layoutsolve.convert(source.SerializeToString()).model.graph.node] == ["Relu"]


@pytest.mark.members(14)
@pytest.mark.parametrize("number", [0.0, 1.0, -2.5, 1e30])
@pytest.mark.parametrize("axes", [(0, 2, 3), (0, 1, 2, 3), (1, 2, 3), (2, 3), (3,), (-3, -1)])
def test_normalised_constants(axes: tuple[int, ...], number: float) -> None:
    """Numbers that are all the same have no deviation to be divided by, in whatever layout."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("MeanVarianceNormalization", ["t"], ["u"], axes=axes),
        helper.make_node("Transpose", ["u"], ["y"], perm=[0, 2, 3, 1]),
    ]
    source = model(nodes, [2, 3, 4, 5], 18)
    found = agrees(source, [{"x": np.full((2, 3, 4, 5), number, np.float32)}])
    assert [node.op_type for node in found.graph.node] == ["MeanVarianceNormalization"]
