"""Reshape, Transpose, Reshape become DepthToSpace or SpaceToDepth exactly where they compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutsolve import convert
from layoutsolve.emit import apply, serialise
from layoutsolve.frontend import read
from layoutsolve.frontend.passes.block_moves import recognise
from layoutsolve.ir.graph import Graph, Quant, product, symbol
from layoutsolve.solver import assign
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.graphs import GraphBuilder, assert_same, feeds, run

Sides = tuple[tuple[str, ...], tuple[str, ...]]
"""The dimensions of the deep and of the shallow tensor, each written as its factors: a and b are the block."""

DCR_LAST: Sides = (("n", "h", "w", "abc"), ("n", "ha", "wb", "c"))
CRD_LAST: Sides = (("n", "h", "w", "cab"), ("n", "ha", "wb", "c"))
DCR_FIRST: Sides = (("n", "abc", "h", "w"), ("n", "c", "ha", "wb"))
CRD_FIRST: Sides = (("n", "cab", "h", "w"), ("n", "c", "ha", "wb"))

EXPECTED = {
    DCR_LAST: ("DCR", 2),
    CRD_LAST: ("CRD", 2),
    DCR_FIRST: ("DCR", 0),
    CRD_FIRST: ("CRD", 0),
    (("n", "h", "w", "abc"), ("n", "c", "ha", "wb")): ("DCR", 1),
    (("cab", "n", "w", "h"), ("ha", "c", "n", "wb")): ("CRD", 2),
    (("n", "h", "w", "bac"), ("n", "ha", "wb", "c")): ("DCR", 2),
}
"""The mode, and the Transposes that are left around the operator. In the last, width and height change places."""

MISSES: dict[str, Sides] = {
    "block outermost": (("n", "h", "w", "abc"), ("n", "ah", "wb", "c")),
    "depth in the middle": (("n", "h", "w", "acb"), ("n", "ha", "wb", "c")),
    "depth for space": (("n", "h", "w", "abc"), ("n", "ca", "wb", "h")),
    "both blocks together": (("n", "h", "w", "abc"), ("n", "ab", "hc", "w")),
    "space split": (("n", "h", "w", "abc"), ("n", "hw", "ab", "c")),
}


def view(b: GraphBuilder, x: str, before: Sequence[str], after: Sequence[str], sizes: dict[str, Any]) -> str:
    """A tensor's factors rearranged from the dimensions ``before`` to the dimensions ``after``."""
    source, target = "".join(before), "".join(after)
    split = b.reshape(x, *(sizes[letter] for letter in source))
    moved = b.transpose(split, *(source.index(letter) for letter in target))
    return b.reshape(moved, *(product(sizes[letter] for letter in dim) for dim in after))


def by_hand(sides: Sides, deepening: bool, sizes: dict[str, Any], dtype: str = "float32", quant: Any = None) -> Graph:
    """A graph of one such view; ``deepening`` goes from space to depth."""
    b = GraphBuilder()
    before, after = sides[::-1] if deepening else sides
    x = b.input(*(product(sizes[letter] for letter in dim) for dim in before), dtype=dtype, quant=quant)
    return b.graph(view(b, x, before, after, sizes))


def random_sizes(seed: int, low: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    block = int(random.integers(2, 4))
    return {letter: int(random.integers(low, 4)) for letter in "nhwc"} | {"a": block, "b": block}


def same(graph: Graph, other: Graph) -> None:
    """Two graphs have the same ends and compute the same bits."""
    assert graph.outputs == other.outputs
    for name in graph.outputs:
        assert str(graph.values[name]) == str(other.values[name])
    data = feeds(graph)
    for name, values in zip(graph.inputs, data, strict=True):
        if graph.values[name].dtype != "float32":
            values[...] = np.arange(values.size).reshape(values.shape) % 100
    assert_same(graph, other, data)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sides", EXPECTED, ids=str)
def test_depth_to_space(sides: Sides, seed: int) -> None:
    graph = by_hand(sides, False, random_sizes(seed, 2))
    found = recognise(graph)
    same(graph, found)
    (node,) = (node for node in found.nodes if node.op == "DepthToSpace")
    turns = [node for node in found.nodes if node.op == "Transpose" and node.pattern]
    assert (node.attributes["mode"], len(turns)) == EXPECTED[sides]
    assert len(found.nodes) == len(turns) + 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sides", EXPECTED, ids=str)
def test_sizes_of_one(sides: Sides, seed: int) -> None:
    """Dimensions of size 1 leave several readings, all of them right."""
    sizes = {**random_sizes(seed), "nhwc"[seed]: 1}
    graph = by_hand(sides, False, sizes)
    found = recognise(graph)
    same(graph, found)
    assert set(operators(found)) <= {"Transpose", "DepthToSpace"}


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sides", EXPECTED, ids=str)
def test_space_to_depth(sides: Sides, seed: int, depth: int) -> None:
    """ONNX's operator puts the block outermost; for the other order channels are shuffled behind it, unless the depth
    is 1.
    """
    graph = by_hand(sides, True, {**random_sizes(seed, 2), "c": depth})
    found = recognise(graph)
    same(graph, found)
    shuffled = EXPECTED[sides][0] == "CRD" and depth > 1
    assert operators(found).count("SpaceToDepth") == 1
    assert operators(found).count("Transpose") == EXPECTED[sides][1] + shuffled
    assert len(found.nodes) - 1 == EXPECTED[sides][1] + 3 * shuffled


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("deepening", [False, True])
@pytest.mark.parametrize("name", MISSES)
def test_near_misses(name: str, deepening: bool, seed: int) -> None:
    graph = by_hand(MISSES[name], deepening, random_sizes(seed, 2))
    assert recognise(graph) is graph


@pytest.mark.parametrize("deepening", [False, True])
def test_exchanged_factors(deepening: bool) -> None:
    """With two factors exchanged it may be a block again, or one because sizes are 1: the result is always the same."""
    random = np.random.default_rng(deepening)
    recognised = 0
    for _ in range(120):
        sizes = {letter: int(random.choice([1, 2, 2, 3])) for letter in "nhwc"} | {"a": 2, "b": 2}
        one, other = random.choice(list("nhwcab"), 2, replace=False)
        exchange = str.maketrans({one: other, other: one})
        deep, shallow = list(EXPECTED)[int(random.integers(len(EXPECTED)))]
        graph = by_hand((deep, tuple(dim.translate(exchange) for dim in shallow)), deepening, sizes)
        found = recognise(graph)
        same(graph, found)
        recognised += found is not graph
    assert 5 < recognised < 100


@pytest.mark.parametrize(("high", "wide"), [(2, 3), (1, 1)])
def test_block_sizes(high: int, wide: int) -> None:
    """A block is square and larger than 1."""
    sizes = {"n": 2, "h": 3, "w": 2, "c": 5, "a": high, "b": wide}
    for deepening in (False, True):
        graph = by_hand(DCR_LAST, deepening, sizes)
        assert recognise(graph) is graph


@pytest.mark.parametrize("letter", "nhwc")
@pytest.mark.parametrize("deepening", [False, True])
def test_symbolic_sizes(letter: str, deepening: bool) -> None:
    sizes = random_sizes(1, 2)
    graph = by_hand(DCR_LAST, deepening, {**sizes, letter: symbol("size")})
    found = recognise(graph)
    assert set(operators(found)) == {"Transpose", "SpaceToDepth" if deepening else "DepthToSpace"}
    assert str(found.values[found.outputs[0]]) == str(graph.values[graph.outputs[0]])
    data = feeds(by_hand(DCR_LAST, deepening, sizes))
    np.testing.assert_array_equal(run(found, data)[0], run(graph, data)[0])


def test_symbolic_block() -> None:
    """A block of unknown size is none."""
    block = symbol("block")
    graph = by_hand(DCR_LAST, False, {"n": 1, "h": 2, "w": 3, "c": 5, "a": block, "b": block})
    assert recognise(graph) is graph


@pytest.mark.parametrize("deepening", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantized(dtype: str, deepening: bool) -> None:
    """Stored integers stay views, which every runtime moves; not all have the operator for them."""
    quant = Quant(np.array([0.5], np.float32), np.array([3], dtype))
    for annotation in (quant, None):
        graph = by_hand(DCR_LAST, deepening, random_sizes(2, 2), dtype, annotation)
        assert recognise(graph) is graph


def test_quantized_anew() -> None:
    """A view between two meanings is left alone."""
    quant, other = (Quant(np.array([scale], np.float32), np.array([3], "int8")) for scale in (0.5, 0.25))
    graph = by_hand(DCR_LAST, False, random_sizes(2, 2), "int8", quant)
    (name,) = graph.outputs
    result = replace(graph.values[name], quant=other)
    changed = replace(graph, values={**graph.values, name: result})
    assert recognise(changed) is changed


def test_models_are_read_so() -> None:
    """RESHAPE, TRANSPOSE, RESHAPE of a model become the operator, which comes from the TRANSPOSE."""
    model = Builder()
    tensors = [
        model.tensor("t0", shape) for shape in ((1, 3, 5, 8), (1, 3, 5, 2, 2, 2), (1, 3, 2, 5, 2, 2), (1, 6, 10, 2))
    ]
    shapes = [model.constant("t1", shape, "int32") for shape in ((1, 3, 5, 2, 2, 2), (0, 1, 3, 2, 4, 5), (1, 6, 10, 2))]
    for place, name in enumerate(("RESHAPE", "TRANSPOSE", "RESHAPE")):
        model.operator(name, [tensors[place], shapes[place]], [tensors[place + 1]])
    graph = read(model.finish(*tensors[-1:], inputs=tensors[:1]))
    assert operators(graph) == ["Transpose", "DepthToSpace", "Transpose"]
    assert {str(node.origin) for node in graph.nodes} == {"TRANSPOSE#1"}


def test_patterns_stay() -> None:
    """A Transpose that the frontend wrote around an operator belongs to that operator."""
    graph = by_hand(DCR_LAST, False, random_sizes(2, 2))
    first, turn, last = graph.nodes
    marked = replace(graph, nodes=(first, replace(turn, pattern=True), last))
    assert recognise(marked) is marked


def test_other_readers() -> None:
    """What lies in between is neither read by others nor an output; the result may be."""
    sizes = random_sizes(3, 2)
    graph = by_hand(DCR_LAST, False, sizes)
    for node in graph.nodes[:2]:
        shown = Graph(graph.name, graph.values, graph.nodes, graph.inputs, (*graph.outputs, *node.outputs))
        assert recognise(shown) is shown
    twice = Graph(graph.name, graph.values, graph.nodes, graph.inputs, graph.outputs * 2)
    assert "DepthToSpace" in operators(recognise(twice))


@pytest.mark.parametrize("sides", [DCR_LAST, CRD_LAST])
def test_minimum_between_convolutions(sides: Sides) -> None:
    """Only the Transposes of the ends are left; by views there is one more."""
    b = GraphBuilder()
    sizes = {"n": 1, "h": 4, "w": 4, "c": 2, "a": 2, "b": 2}
    graph = b.graph(b.conv(view(b, b.conv(b.input(1, 4, 4, 3), 8, 3), *sides, sizes), 4, 3))
    counts = []
    for each in (graph, recognise(graph)):
        found = assign(each, objective="min-transpose")
        data = feeds(graph)
        np.testing.assert_allclose(run(apply(found), data)[0], run(graph, data)[0], rtol=1e-4, atol=1e-5)
        counts.append((found.tiers[0].status, found.price.transposes))
    assert counts == [("optimal", 3), ("optimal", 2)]


@pytest.mark.members(6)
@pytest.mark.parametrize("open_batch", [False, True])
@pytest.mark.parametrize("deepening", [False, True])
@pytest.mark.parametrize("sides", [DCR_FIRST, CRD_FIRST, DCR_LAST, CRD_LAST], ids=str)
def test_shuffled_pixels_in_onnx_need_no_transpose(sides: Sides, deepening: bool, open_batch: bool) -> None:
    """Between convolutions, as exporters write pixels that are shuffled, or shuffled back, by views."""
    for seed in range(3):
        sizes = {**random_sizes(seed, 2), "n": 1}
        b, channels = GraphBuilder(seed), sizes["c"] * (1 if deepening else sizes["a"] ** 2)
        space = [sizes[letter] * (sizes["a"] if deepening else 1) for letter in "hw"]
        batch = symbol("batch") if open_batch else 2
        sizes["n"] = batch
        conv = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
        x = b.op(
            "Conv", b.input(batch, 3, *space), b.weights(channels, 3, 3, 3), shape=(batch, channels, *space), **conv
        )
        last = sides in (DCR_LAST, CRD_LAST)
        y = view(b, b.transpose(x, 0, 2, 3, 1) if last else x, *(sides[::-1] if deepening else sides), sizes)
        y = b.transpose(y, 0, 3, 1, 2) if last else y
        shape = b.shape(y)
        y = b.op("Conv", y, b.weights(4, int(shape[1]), 3, 3), shape=(batch, 4, *shape[2:]), **conv)
        source = serialise(b.graph(y)).SerializeToString()
        for objective in ("min-transpose", "min-nodes"):
            found = convert(source, objective=objective)
            assert found.price.transposes == 0 and found.assignment.status == "optimal", (sides, seed)
            data = np.random.default_rng(seed).standard_normal((2, 3, *space)).astype(np.float32)
            one, other = (
                session(each).run({b.inputs[0]: data})[0] for each in (source, found.model.SerializeToString())
            )
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def session(model: bytes) -> OnnxRuntime:
    return OnnxRuntime(model, threads=1, level="none")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("deepening", [False, True])
@pytest.mark.parametrize("sides", EXPECTED, ids=str)
def test_never_more_transposes(sides: Sides, deepening: bool, seed: int) -> None:
    """The operator may still run as views."""
    graph = by_hand(sides, deepening, random_sizes(seed))
    before, after = (assign(each, objective="min-transpose") for each in (graph, recognise(graph)))
    assert after.price.transposes <= before.price.transposes
    same(graph, apply(after))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("deepening", [False, True])
@pytest.mark.parametrize("sides", EXPECTED, ids=str)
def test_several_transposes_are_one(sides: Sides, deepening: bool, seed: int) -> None:
    """As editors of models leave them in a row."""
    random, sizes = np.random.default_rng(seed), random_sizes(seed, 2)
    b, (before, after) = GraphBuilder(), sides[::-1] if deepening else sides
    source, target = "".join(before), "".join(after)
    y = b.reshape(b.input(*(product(sizes[letter] for letter in dim) for dim in before)), *map(sizes.get, source))
    for _ in range(int(random.integers(1, 3))):
        perm = list(map(int, random.permutation(6)))
        y, source = b.transpose(y, *perm), "".join(source[axis] for axis in perm)
    y = b.transpose(y, *(source.index(letter) for letter in target))
    graph = b.graph(b.reshape(y, *(product(sizes[letter] for letter in dim) for dim in after)))
    found = recognise(graph)
    same(graph, found)
    assert ("SpaceToDepth" if deepening else "DepthToSpace") in operators(found)
