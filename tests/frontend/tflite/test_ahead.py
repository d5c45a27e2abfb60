"""Operators on constants are computed while a model is converted: what LiteRT computes, and nothing is left of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.tflite.constant_kernels import NUMBERS
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import LEVELS
from tests.builder import Builder, Quant
from tests.truth import litert, same

Case = tuple[list[Any], tuple[int, ...], Mapping[str, Any]]
"""The constants that an operator reads, the shape of its result, and its options."""

SINGLE = (
    "CEIL", "COS", "FLOOR", "LOG", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "SIN", "SQUARE",
    "TANH",
)  # fmt: skip

OTHERS = {"QUANTIZE", "REDUCE_ALL", "REDUCE_ANY"}
"""Of other types, which have tests of their own."""


def _floats(random: np.random.Generator, *shape: int, low: float = -7) -> Array:
    return random.uniform(low, 7, shape).astype(np.float32)


def _singles(random: np.random.Generator) -> Case:
    return [_floats(random, 3, 5)], (3, 5), {}


def _reduced(random: np.random.Generator) -> Case:
    axes = random.permutation(3)[: random.integers(1, 4)].astype(np.int32)
    keep = bool(random.integers(2))
    shape = [2, 3, 4]
    for axis in axes:
        shape[axis] = 1 if keep else 0
    return [_floats(random, 2, 3, 4), axes], tuple(size for size in shape if size), {"keep_dims": keep}


def _resized(random: np.random.Generator) -> Case:
    sizes = random.integers(1, 9, 2)
    corners, halves = [(False, False), (True, False), (False, True)][int(random.integers(3))]
    options = {"align_corners": corners, "half_pixel_centers": halves}
    image = _floats(random, 2, *random.integers(1, 7, 2), 3)
    return [image, sizes.astype(np.int32)], (2, *map(int, sizes), 3), options


def _dense(random: np.random.Generator) -> Case:
    keep = bool(random.integers(2))
    given = [_floats(random, 2, 3, 4), _floats(random, 5, 4), _floats(random, 5)][: int(random.integers(2, 4))]
    return given, (2, 3, 5) if keep else (6, 5), {"keep_num_dims": keep}


def _multiplied(random: np.random.Generator) -> Case:
    x, y = (bool(random.integers(2)) for _ in range(2))
    a, b = _floats(random, 2, *((4, 3) if x else (3, 4))), _floats(random, 2, *((5, 4) if y else (4, 5)))
    return [a, b], (2, 3, 5), {"adj_x": x, "adj_y": y}


def _cumulated(random: np.random.Generator) -> Case:
    axis = int(random.integers(-2, 2))
    options = {"exclusive": bool(random.integers(2)), "reverse": bool(random.integers(2))}
    return [_floats(random, 3, 4), np.int32(axis)], (3, 4), options


def _gathered(random: np.random.Generator) -> Case:
    return [_floats(random, 4, 5, 2), random.integers(0, 4, (3, 2)).astype(np.int32)], (3, 2), {}


def _looked_up(random: np.random.Generator) -> Case:
    return [random.integers(0, 4, 6).astype(np.int32), _floats(random, 4, 3)], (6, 3), {}


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    **dict.fromkeys(SINGLE, _singles),
    "BATCH_MATMUL": _multiplied,
    "CUMSUM": _cumulated,
    "EMBEDDING_LOOKUP": _looked_up,
    "FULLY_CONNECTED": _dense,
    "GATHER_ND": _gathered,
    "POW": lambda random: ([_floats(random, 3, 1, low=0.1), _floats(random, 4)], (3, 4), {}),
    "RESIZE_BILINEAR": _resized,
    "RESIZE_NEAREST_NEIGHBOR": _resized,
    "SOFTMAX": lambda random: ([_floats(random, 3, 5)], (3, 5), {"beta": float(random.uniform(0.5, 2))}),
    "SQUARED_DIFFERENCE": lambda random: ([_floats(random, 3, 1), _floats(random, 4)], (3, 4), {}),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), _reduced),
}


def test_each_operator_has_a_case() -> None:
    assert {*NUMBERS} <= {*CASES, *OTHERS}


@pytest.mark.members(112)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("operator", sorted(CASES))
def test_constants_are_what_litert_computes(operator: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    given, shape, options = CASES[operator](random)
    builder = Builder()
    x = builder.input("x", shape)
    made, result = builder.tensor("made", shape), builder.tensor("result", shape)
    builder.operator(operator, [builder.constant(f"c{n}", each) for n, each in enumerate(given)], [made], options)
    builder.operator("MUL", [x, made], [result], {})
    found = same(builder.finish(result), [np.ones(shape, np.float32)], 2e-6)
    assert [node.op_type for node in found.model.graph.node] in (["Mul"], [])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_constants_are_quantized_as_litert_does(dtype: str) -> None:
    zero = {"int8": -3, "uint8": 120, "int16": 0}[dtype]
    quant = Quant([0.125], [zero])
    numbers = np.concatenate([np.arange(-40, 40) / 16, [-1e4, 1e4]]).astype(np.float32)  # halves of steps among them
    builder = Builder()
    x = builder.input("x", numbers.shape, "bool")
    made, other, result = (
        builder.tensor(name, numbers.shape, dtype, quant=quant) for name in ("made", "other", "result")
    )
    builder.operator("QUANTIZE", [builder.constant("numbers", numbers)], [made], {})
    builder.operator("QUANTIZE", [builder.constant("zeros", np.zeros_like(numbers))], [other], {})
    builder.operator("SELECT_V2", [x, made, other], [result], {})
    same(builder.finish(result), [np.ones(numbers.shape, bool)])


@pytest.mark.parametrize("operator", ["REDUCE_ALL", "REDUCE_ANY"])
@pytest.mark.parametrize("seed", range(4))
def test_truths_are_reduced_as_litert_does(operator: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    builder = Builder()
    x = builder.input("x", (3,), "bool")
    made, result = builder.tensor("made", (3,), "bool"), builder.tensor("result", (3,), "bool")
    truths = builder.constant("truths", random.random((3, 2)) < 0.6)
    builder.operator(operator, [truths, builder.constant("axis", np.array([1], np.int32))], [made], {})
    builder.operator("LOGICAL_AND", [x, made], [result], {})
    same(builder.finish(result), [np.ones(3, bool)])


def test_products_that_would_take_long_are_left_to_the_model() -> None:
    """And so are others, when as many numbers have been computed as the size of the file allows."""
    builder, shape = Builder(), (256, 256)
    x, a = builder.input("x", shape), builder.constant("a", np.full(shape, 1 / 256, np.float32))
    made = a
    for number in range(60):
        product = builder.tensor(f"made{number}", shape)
        builder.operator("BATCH_MATMUL", [made, a], [product], {})
        made = product
    result = builder.tensor("result", shape)
    builder.operator("ADD", [x, made], [result], {})
    found = same(builder.finish(result), [np.ones(shape, np.float32)], 1e-5)
    assert 0 < [node.op_type for node in found.model.graph.node].count("MatMul") < 60


def _sources() -> dict[str, bytes]:
    """Small files whose constants could become large, or take long."""
    found = {}
    for name, sizes in (
        ("RESIZE_BILINEAR", (1000, 1)),
        ("RESIZE_NEAREST_NEIGHBOR", (1000, 1)),
        ("FULLY_CONNECTED", ()),
    ):
        builder, wide = Builder(), 1 << 14
        if name == "FULLY_CONNECTED":
            bias = builder.constant("bias", np.zeros((wide, 1, 1), np.float32))
            given = [*(builder.constant(n, np.ones((64, 2), np.float32)) for n in "ab"), bias]
            shape: tuple[int, ...] = (64, 64)
        else:
            image = builder.constant("image", np.zeros((1, 1, wide, 1), np.float32))
            given, shape = [image, builder.constant("sizes", np.array(sizes, np.int32))], (1, *sizes, 1)
        x, made, result = (builder.input("x", shape), builder.tensor("made", shape), builder.tensor("result", shape))
        builder.operator(name, given, [made], {})
        builder.operator("ADD", [x, made], [result], {})
        found[name] = builder.finish(result)
    return found


@pytest.mark.parametrize("operator", ["FULLY_CONNECTED", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_nothing_on_the_way_is_much_larger_than_the_file(operator: str) -> None:
    source = _sources()[operator]
    tracemalloc.start()
    with suppress(layoutsolve.ConversionError):
        layoutsolve.convert(source)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 16 << 20


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("middle", [np.inf, np.nan, 3.4e38, 1e15])
def test_exclusive_sums_are_those_of_what_comes_before(middle: float, reverse: bool) -> None:
    builder = Builder()
    numbers = builder.constant("numbers", np.array([0.3, middle, 0.3], np.float32))
    x, made, result = builder.input("x", (3,), "bool"), builder.tensor("made", (3,)), builder.tensor("result", (3,))
    axis = builder.constant("axis", np.int32(0))
    builder.operator("CUMSUM", [numbers, axis], [made], {"exclusive": True, "reverse": reverse})
    builder.operator("SELECT_V2", [x, made, builder.constant("none", np.zeros(3, np.float32))], [result], {})
    same(builder.finish(result), [np.ones(3, bool)], 1e-6)


def test_exact_bytes_are_left_to_exact_arithmetic() -> None:
    """LiteRT rounds halves in two ways, by where they lie."""
    builder, quant = Builder(), Quant([1.0], [-3])
    numbers = builder.constant("numbers", (np.arange(60) - 30 + 0.5).astype(np.float32))
    x, made, result = (
        builder.input("x", (60,), "int8", quant=quant),
        builder.tensor("made", (60,), "int8", quant=quant),
        builder.tensor("result", (60,), "int8", quant=quant),
    )
    builder.operator("QUANTIZE", [numbers], [made], {})
    builder.operator("MAXIMUM", [x, made], [result], {})
    source, given = builder.finish(result), np.full(60, -128, np.int8)
    found = layoutsolve.convert(source, quant="exact").session().run({"x": given})
    (truth,) = litert().run(source, [given]).results
    assert all(np.array_equal(each, truth) for each in found.values())


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("operator", ["SOFTMAX", "LEAKY_RELU", "CUMSUM"])
def test_operators_without_options(operator: str, constant: bool) -> None:
    """LiteRT takes each option to be 0 where a file has none."""
    builder, numbers = Builder(), np.linspace(-2, 3, 6, dtype=np.float32)
    x = builder.input("x", (6,))
    read = builder.constant("numbers", numbers) if constant else x
    axis = [builder.constant("axis", np.int32(0))] if operator == "CUMSUM" else []
    made, result = builder.tensor("made", (6,)), builder.tensor("result", (6,))
    builder.operator(operator, [read, *axis], [made], None)
    for each in builder.subgraph.operators:
        each.builtinOptions, each.builtinOptionsType = None, 0
    builder.operator("ADD", [x, made], [result], {})
    same(builder.finish(result), [numbers[::-1].copy()], 1e-6)


@pytest.mark.parametrize(
    ("indices", "folded"),
    [
        *(([1], True), ([1, 2], True), ([[0], [2]], True), ([[[0, 1]], [[2, 3]]], True)),
        *(([[1]] * 6, True), ([[1]] * 7, False)),
    ],
)
def test_elements_are_gathered_where_they_are_not_many(indices: Any, folded: bool) -> None:
    """No more than twice as many as there are, or a few thousand."""
    data = np.random.default_rng(0).uniform(-1, 1, (3, 4, 2000 if len(indices) > 5 else 2)).astype(np.float32)
    places = np.array(indices, np.int32)
    shape = data[tuple(np.moveaxis(places, -1, 0))].shape
    builder = Builder()
    x, made, result = (builder.input("x", shape), builder.tensor("made", shape), builder.tensor("result", shape))
    builder.operator("GATHER_ND", [builder.constant("data", data), builder.constant("places", places)], [made], {})
    builder.operator("ADD", [x, made], [result], {})
    found = same(builder.finish(result), [np.ones(shape, np.float32)], levels=LEVELS[:1])
    assert any(node.op_type == "GatherND" for node in found.model.graph.node) != folded
