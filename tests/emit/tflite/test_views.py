"""What is left of views, of products and sums behind layers, and of more dimensions than LiteRT has."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime


class Chain:
    """A model of operators one after the other, from ``x`` to ``y``."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.shape, self.first = list(shape), list(shape)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(seed)

    @property
    def last(self) -> str:
        return f"v{len(self.nodes)}" if self.nodes else "x"

    def constant(self, data: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def add(self, op: str, shape: Sequence[int], *constants: Array, **attributes: object) -> None:
        inputs = [self.last, *map(self.constant, constants)]
        self.nodes.append(helper.make_node(op, inputs, [f"v{len(self.nodes) + 1}"], **attributes))
        self.shape = list(shape)

    def real(self, *shape: int) -> Array:
        return self.random.uniform(0.5, 1.5, shape).astype(np.float32)

    def quantize(self, stored: bool) -> None:
        """Round to bytes, and back, where that is asked for."""
        steps = [self.constant(np.array(0.02, np.float32)), self.constant(np.array(3, np.int8))] if stored else []
        for op in ("QuantizeLinear", "DequantizeLinear") if stored else ():
            self.nodes.append(helper.make_node(op, [self.last, *steps], [f"v{len(self.nodes) + 1}"]))

    def reshape(self, *shape: int) -> None:
        self.add("Reshape", shape, np.array(shape, np.int64))

    def model(self) -> onnx.ModelProto:
        ends = (("x", self.first), (self.last, self.shape))
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends]
        graph = helper.make_graph(self.nodes, "chain", ports[:1], ports[1:], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def operators(chain: Chain, litert: LiteRT, far: float = 1e-5) -> Counter[str]:
    """The operators that a chain is written as, which LiteRT computes as ONNX Runtime does, also with XNNPACK."""
    model = chain.model()
    written = layoutsolve.convert(model, to="tflite").content("")
    x = np.random.default_rng(1).uniform(-1, 1, chain.first).astype(np.float32)
    truth = OnnxRuntime(model.SerializeToString(), level="none").run({"x": x})[0]
    for delegate in (False, True):
        found = litert.run(written, [x], delegate=delegate).results[0]
        assert found.shape == truth.shape
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=far)
    graph = parse(written).subgraphs[0]
    used = {index for each in graph.operators for index in (*each.inputs, *each.outputs)} | {*graph.inputs}
    assert used - {-1} == {*range(len(graph.tensors))}, "no tensor is there for nothing"
    return Counter(each.name for each in graph.operators)


@pytest.fixture(scope="module")
def litert() -> LiteRT:
    return LiteRT()


@pytest.mark.parametrize("seed", range(24))
def test_many_dimensions(seed: int, litert: LiteRT) -> None:
    """Elementwise operators, sums and expansions on up to eleven dimensions between views."""
    choose = random.Random(seed)
    rank = choose.randint(7, 11)
    sizes = [choose.choice((1, 2, 2, 3)) for _ in range(rank)]
    chain = Chain([int(np.prod(sizes[:4])), int(np.prod(sizes[4:]))], seed)
    chain.reshape(*sizes)
    for _ in range(choose.randint(2, 4)):
        op = choose.choice(("Mul", "Exp", "ReduceSum", "Expand", "Max"))
        if op in ("Mul", "Max"):
            cut = choose.randrange(rank)
            few = [1] * cut + chain.shape[cut:]
            chain.add(op, chain.shape, chain.real(*few))
        elif op == "Exp":
            chain.add("Tanh", chain.shape)
        elif op == "ReduceSum":
            axis = choose.randrange(rank)
            shape = [1 if each == axis else size for each, size in enumerate(chain.shape)]
            chain.add(op, shape, np.array([axis], np.int64), keepdims=1)
        else:
            shape = [2 if size == 1 and choose.random() < 0.5 else size for size in chain.shape]
            chain.add(op, shape, np.array(shape, np.int64))
    chain.reshape(int(np.prod(chain.shape)))
    assert operators(chain, litert)["RESHAPE"] <= 2 * len(chain.nodes)


@pytest.mark.parametrize("stored", [False, True], ids=["floats", "bytes"])
@pytest.mark.parametrize("rank", [6, 7, 8, 9])
@pytest.mark.parametrize("op", ["Split", "Split of parts", "ReduceSum", "ReduceMax", "Clip"])
def test_parts_and_sums_of_many_dimensions(op: str, rank: int, stored: bool, litert: LiteRT) -> None:
    """XNNPACK takes SPLIT and SUM of more dimensions than its tensors have, and fails to prepare them."""
    for axis in range(0, rank, 3):
        chain = Chain([2] * rank)
        chain.quantize(stored)
        if op.startswith("Split"):
            sizes = [np.array([1, 1], np.int64)] if op == "Split of parts" else []
            part = [1 if each == axis else 2 for each in range(rank)]
            given, equal = [chain.last, *map(chain.constant, sizes)], {} if sizes else {"num_outputs": 2}
            chain.nodes.append(helper.make_node("Split", given, ["a", "b"], axis=axis, **equal))
            chain.nodes.append(helper.make_node("Identity", ["b"], [f"v{len(chain.nodes) + 1}"]))
            chain.shape = part
        elif op == "Clip":
            chain.add("Clip", chain.shape, np.array(-0.3, np.float32), np.array(0.4, np.float32))
        else:
            axes = {axis, rank - 1}
            chain.add(op, [2] * (rank - len(axes)), np.array([*axes], np.int64), keepdims=0)
        chain.quantize(stored)
        operators(chain, litert, 0.021 if stored else 1e-5)


@pytest.mark.parametrize("steps", [("Mul", "Add"), ("Add", "Mul"), ("Mul",), ("Add", "Add"), ("HardSigmoid",)])
@pytest.mark.parametrize("layer", ["Conv", "depthwise", "MatMul"])
@pytest.mark.parametrize("wide", [False, True])
def test_what_a_layer_computes_as_well(layer: str, steps: Sequence[str], wide: bool, litert: LiteRT) -> None:
    """Products and sums with a number, or one for each channel."""
    chain = Chain((1, 6, 5, 4) if layer != "MatMul" else (3, 6))
    each = (6, 1, 1)
    if layer == "MatMul":
        chain.add("MatMul", (3, 7), chain.real(6, 7))
        each = (7,)
    else:
        groups = 6 if layer == "depthwise" else 1
        weights = chain.real(6, 6 // groups, 1, 1)
        chain.add("Conv", chain.shape, weights, chain.real(6), group=groups)
    for op in steps:
        constants = [] if op == "HardSigmoid" else [chain.real(*each) if wide else np.array(0.7, np.float32)]
        chain.add(op, chain.shape, *constants)
    found = operators(chain, litert)
    assert found["MUL"] + found["ADD"] == steps.count("HardSigmoid")


def test_what_others_read_stays(litert: LiteRT) -> None:
    """A layer whose result is read as it is too has its product behind it."""
    chain = Chain((3, 6))
    chain.add("MatMul", (3, 7), chain.real(6, 7))
    chain.add("Mul", (3, 7), np.array(0.7, np.float32))
    chain.nodes.append(helper.make_node("Sub", ["v2", "v1"], ["v3"]))
    assert operators(chain, litert) == {"FULLY_CONNECTED": 1, "MUL": 1, "SUB": 1}


def test_views_of_views(litert: LiteRT) -> None:
    """Of two RESHAPE in a row one is left, and none before a fully-connected layer."""
    chain = Chain((2, 3, 4))
    chain.reshape(6, 4)
    chain.add("Tanh", (6, 4))
    chain.reshape(2, 12)
    chain.reshape(4, 6)
    chain.add("MatMul", (4, 5), chain.real(6, 5))
    assert operators(chain, litert)["RESHAPE"] <= 1


def test_what_changes_nothing(litert: LiteRT) -> None:
    """Casts to the same type, slices of everything, and expansions to the same sizes are left out."""
    chain = Chain((1, 6, 5))
    chain.add("Tanh", (1, 6, 5))
    chain.add("Cast", (1, 6, 5), to=TensorProto.FLOAT)
    chain.add("Slice", (1, 6, 5), *(np.array([each], np.int64) for each in (0, 99, 1)))
    chain.add("Expand", (1, 6, 5), np.array([1, 6, 5], np.int64))
    chain.add("Exp", (1, 6, 5))
    assert operators(chain, litert) == {"TANH": 1, "EXP": 1}


def test_one_view_for_all_that_read_it(litert: LiteRT) -> None:
    chain = Chain((2, 3, 4))
    chain.add("Tanh", (2, 3, 4))
    for number in (2, 3):
        chain.nodes.append(helper.make_node("Reshape", ["v1", chain.constant(np.array([6, 4]))], [f"v{number}"]))
    chain.nodes.append(helper.make_node("Exp", ["v2"], ["v4"]))
    chain.nodes.append(helper.make_node("MatMul", ["v4", chain.constant(chain.real(4, 4))], ["v5"]))
    chain.nodes.append(helper.make_node("Add", ["v5", "v3"], ["v6"]))
    chain.shape = [6, 4]
    assert operators(chain, litert)["RESHAPE"] <= 1
