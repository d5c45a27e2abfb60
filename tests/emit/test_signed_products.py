"""Products of bytes that saturate without VNNI are right on every processor, wherever they stand in ONNX sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend import read
from layoutsolve.ir.graph import Array
from layoutsolve.proto.weight_selection import selects
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.emit.test_selecting import forced

OWN = "com.microsoft"

FLOATS = ("DequantizeLinear x s z > a", "DequantizeLinear w s wz > b", "{} a b > c", "QuantizeLinear c ys z > y")
READ = "x s z w s wz"
AS_GIVEN = ("ReduceMax x > m", "BitwiseXor m m > n", "Cast n > o", "BitwiseXor w o > v")
STEP = ("ReduceMax x > m", "DequantizeLinear m s z > f", "Sub f f > g", "Add g s > t")


@dataclass(frozen=True)
class Product:
    """Nodes from x to y, the shapes of x and of the weights w, and the types of x and y."""

    nodes: Sequence[str]
    given: tuple[int, ...] = (4, 16)
    weights: tuple[int, ...] = (16, 8)
    types: tuple[str, str] = ("uint8", "uint8")


def matched(op: str, w: str = "w", s: str = "s", wz: str = "wz") -> list[str]:
    """A product between DequantizeLinear and QuantizeLinear: by weights, their step and zero."""
    return [
        "DequantizeLinear x s z > a",
        f"DequantizeLinear {w} {s} {wz} > b",
        *(each.format(op) for each in FLOATS[2:]),
    ]


IMAGES = (1, 4, 6, 6), (8, 4, 3, 3)
ROWS = (3, 2, 16), (1, 16, 32)
LSTM = f"{OWN}:DynamicQuantizeLSTM x w r - - - - - rs rz rs rz > y"
PRODUCTS: Mapping[str, Product] = {
    "MatMulInteger": Product(["MatMulInteger x w z wz > y"], types=("uint8", "int32")),
    "ConvInteger": Product(["ConvInteger x w z wz > y"], *IMAGES, ("uint8", "int32")),
    "QLinearMatMul": Product([f"QLinearMatMul {READ} ys z > y"]),
    "QLinearConv": Product([f"QLinearConv {READ} ys z > y"], *IMAGES),
    "own QLinearConv": Product([f"{OWN}:QLinearConv {READ} ys z > y"], *IMAGES),
    "QGemm": Product([f"{OWN}:QGemm {READ} - ys z > y"]),
    "ToFloat": Product([f"{OWN}:MatMulIntegerToFloat x w s s z > y"], types=("uint8", "float32")),
    "Dynamic": Product([f"{OWN}:DynamicQuantizeMatMul x w s wz > y"], types=("float32", "float32")),
    "LSTM": Product([LSTM], *ROWS, ("float32", "float32")),
    "MatMul": Product([each.format("MatMul") for each in FLOATS]),
    "Conv": Product([each.format("Conv") for each in FLOATS], *IMAGES),
    "own Conv": Product([each.replace("Qu", f"{OWN}:Qu").replace("De", f"{OWN}:De").format("Conv") for each in FLOATS],
                        *IMAGES),
    "computed weights": Product(
        ["ReduceMax x > m", "BitwiseXor m m > n", "Cast n > o", "Add w o > v", "MatMulInteger x v z wz > y"],
        types=("uint8", "int32"),
    ),
    "computed MatMul": Product([*AS_GIVEN, *matched("MatMul", w="v")]),
    "computed Conv": Product([*AS_GIVEN, *matched("Conv", w="v")], *IMAGES),
    "computed Gemm": Product([*AS_GIVEN, *matched("Gemm", w="v")]),
    "computed columns": Product([*AS_GIVEN, *matched("MatMul", w="v", s="cs", wz="cz")]),
    "computed, in floats": Product([*AS_GIVEN, *matched("MatMul", w="v")[:2], "MatMul a b > y"],
                                   types=("uint8", "float32")),
    "computed step of w": Product([*STEP, *matched("MatMul", s="t")]),
    "computed step of a kernel": Product([*STEP, *matched("Conv", s="t")], *IMAGES),
}  # fmt: skip

CONTAINERS = ("main", "function", "loop", "sequences", "map", "open")
"""Where products stand. Sequences stay as they are, as nothing is known of how many dimensions they have; and so does
what is given something of which that is open.
"""


CASES = [
    each
    for each in product(PRODUCTS, CONTAINERS)
    if not (AS_GIVEN[0] in PRODUCTS[each[0]].nodes and each[1] == "open" and "step" not in each[0])
]
"""Each product in each place; of weights that are computed of what is open nobody knows the type."""


def node(line: str) -> NodeProto:
    """A node of its operator, inputs and output; - is an input left out."""
    (called, *inputs), output = line.split(" > ")[0].split(), line.split(" > ")[1]
    domain, _, op = called.rpartition(":")
    attributes: dict[str, dict[str, Any]] = {
        "Cast": {"to": 3},
        "DynamicQuantizeLSTM": {"hidden_size": 8},
        "ReduceMax": {"keepdims": 0},
    }
    given = ["" if name == "-" else name for name in inputs]
    return helper.make_node(op, given, [output], domain=domain, **attributes.get(op, {}))


def constants(shape: tuple[int, ...]) -> dict[str, Array]:
    """Weights of which two next to each other are too large, and all else that products and loops read."""
    random = np.random.default_rng(0)
    large = [random.integers(90, 128, size).astype(np.int8) for size in (shape, (1, 8, 32))]
    numbers = {
        "s": np.float32(0.01),
        "ys": np.float32(0.6),
        "z": np.uint8(128),
        "wz": np.int8(0),
        "cs": np.linspace(0.01, 0.02, 8, dtype="f4"),
        "cz": np.zeros(8, "i1"),
        "zero": np.int64(0),
    }
    more = {"rs": np.array([3e-4], "f4"), "rz": np.zeros(1, "i1"), "yes": np.bool_(True), "turns": np.int64(2)}
    return {"w": large[0], "r": large[1], **{name: np.asarray(each) for name, each in {**numbers, **more}.items()}}


def source(made: Product, container: str) -> onnx.ModelProto:
    """A product in a container; its constants are where it is."""
    kinds = [int(helper.np_dtype_to_tensor_dtype(np.dtype(each))) for each in made.types]
    x = helper.make_tensor_value_info("x", kinds[0], made.given)
    y, inner = (helper.make_tensor_value_info(name, kinds[1], None) for name in ("y", "inner"))
    port, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    turn, on, off = port("turn", 7, []), port("on", 9, []), port("off", 9, [])
    imports = [helper.make_opsetid(domain, version) for domain, version in (("", 18), (OWN, 1), ("own", 1))]
    nodes, functions = [node(line) for line in made.nodes], []
    needed = {name for each in nodes for name in each.input}
    all_held = {name: numpy_helper.from_array(data, name) for name, data in constants(made.weights).items()}
    held = [each for name, each in all_held.items() if name in needed]
    around = [each for name, each in all_held.items() if name not in needed]
    if container == "open":
        x.type.tensor_type.ClearField("shape")
    if container in ("main", "function", "open"):
        around = [*held, *around]
    if container == "function":
        names = ["x", *(each.name for each in held)]
        functions = [helper.make_function("own", "F", names, ["y"], nodes, imports)]
        nodes = [helper.make_node("F", names, ["y"], domain="own")]
    elif container not in ("main", "open"):
        nodes[-1].output[0] = "inner"
        going = helper.make_node("Identity", ["on"], ["off"])
    if container == "loop":
        body = helper.make_graph([*nodes, going], "body", [turn, on], [off, inner], held)
        nodes = [helper.make_node("Loop", ["turns", "yes"], ["y"], body=body)]
    elif container == "sequences":
        before, after = (sequence(name, kinds[1], None) for name in ("before", "after"))
        more = helper.make_node("SequenceInsert", ["before", "inner"], ["after"])
        body = helper.make_graph([*nodes, more, going], "body", [turn, on, before], [off, after], held)
        nodes = [
            helper.make_node("SequenceEmpty", [], ["none"], dtype=kinds[1]),
            helper.make_node("Loop", ["turns", "yes", "none"], ["every"], body=body),
            helper.make_node("SequenceAt", ["every", "zero"], ["y"]),
        ]
    elif container == "map":
        nodes[0].input[0] = "each"
        for each in nodes[1:]:
            each.input[:] = ["each" if name == "x" else name for name in each.input]
        body = helper.make_graph(nodes, "body", [port("each", kinds[0], made.given)], [inner], held)
        nodes = [
            helper.make_node("SequenceConstruct", ["x"], ["one"]),
            helper.make_node("SequenceMap", ["one"], ["every"], body=body),
            helper.make_node("SequenceAt", ["every", "zero"], ["y"]),
        ]
    graph = helper.make_graph(nodes, "g", [x], [y], around)
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)


def given(made: Product) -> dict[str, Array]:
    """What models run on: all bytes, or numbers around 0."""
    random = np.random.default_rng(1)
    of_bytes = made.types[0] == "uint8"
    return {
        "x": random.integers(0, 256, made.given, np.uint8) if of_bytes else random.normal(size=made.given).astype("f4")
    }


@pytest.mark.parametrize(("name", "container"), CASES)
def test_products_are_selected(name: str, container: str) -> None:
    """Each is counted and selected once, and both forms give what the source does."""
    model = source(PRODUCTS[name], container).SerializeToString()
    assert read(model).figures.saturating == 1
    found = layoutsolve.convert(model)
    assert not found.kept and selects(found.model) == 1
    plain = OnnxRuntime(model, level="none")
    feeds = given(PRODUCTS[name])
    (expected,) = plain.run(feeds)
    for exact in (True, False):
        (got,) = OnnxRuntime(forced(found.model, exact).SerializeToString(), level="all").run(feeds)
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "container"), [each for each in CASES if each[0] in ("ConvInteger", "Conv", "LSTM")])
def test_products_without_a_sign(name: str, container: str) -> None:
    """Targets that store all weights without a sign have no others there."""
    model = source(PRODUCTS[name], container).SerializeToString()
    found = layoutsolve.convert(model, target="portable").model.SerializeToString()
    assert read(found).figures.saturating == 0
    before, after = OnnxRuntime(model, level="none"), OnnxRuntime(found, level="none")
    feeds = given(PRODUCTS[name])
    np.testing.assert_allclose(after.run(feeds)[0], before.run(feeds)[0], rtol=1e-5)
