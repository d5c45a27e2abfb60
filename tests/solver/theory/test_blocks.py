"""Operators written so that images stay in blocks of channels: the same numbers, and fewer moves in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Graph
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target
from layoutsolve.verification.runtimes import optimised
from tests.graphs import GraphBuilder, run
from tests.solver.theory.test_idioms import with_edges

PLAIN = replace(default_target(), idioms={})


def limited(b: GraphBuilder, x: str, channels: int) -> str:
    """A Max or Min with one number, on either side."""
    limit = b.constant(np.full((1,) * int(b.random.integers(5)), b.random.normal()), "float32")
    operands = (x, limit) if b.random.random() < 0.5 else (limit, x)
    return b.op(str(b.random.choice(["Max", "Min"])), *operands, shape=(1, 6, 5, channels))


def scaled(b: GraphBuilder, x: str, channels: int) -> str:
    """A factor for each channel, or one for all, behind a Concat perhaps."""
    if b.random.random() < 0.5:
        x, channels = b.op("Concat", x, x, shape=(1, 6, 5, 2 * channels), axis=3), 2 * channels
    else:
        x = b.op("HardSwish", x, shape=(1, 6, 5, channels))
    factors = b.weights(*[(channels,), (1, 1, 1, channels), ()][b.random.integers(3)])
    return b.add(b.op("Mul", *b.random.permutation([x, factors]), shape=(1, 6, 5, channels)), b.weights(channels))


def averaged(b: GraphBuilder, x: str, channels: int) -> str:
    """The mean of all pixels of a gated image, repeated."""
    gated = b.op("Mul", x, b.op("Sigmoid", x, shape=b.shape(x)), shape=b.shape(x))
    mean = b.op("ReduceMean", gated, b.constant([1, 2], "int64"), shape=(1, 1, 1, channels))
    return b.add(x, mean)


def grown(b: GraphBuilder, x: str, channels: int) -> str:
    """Channels of zeros, before and behind."""
    before, behind = 16 * b.random.integers(3, size=2)
    pads = b.constant([0, 0, 0, before, 0, 0, 0, behind + 16], "int64")
    return b.op("Pad", x, pads, shape=(1, 6, 5, channels + int(before + behind) + 16))


def network(seed: int, layer: Callable[[GraphBuilder, str, int], str]) -> Graph:
    """The layer behind a convolution and perhaps an activation, and before another convolution."""
    b = GraphBuilder(seed)
    channels = 16 * int(b.random.integers(1, 4))
    x = b.conv(b.input(1, 6, 5, 3), channels, 3)
    if b.random.random() < 0.5:
        x = b.op("Relu", x, shape=(1, 6, 5, channels))
    return b.graph(b.conv(layer(b, x, channels), 16, 1))


def kinds(graph: Graph, target: Target | None = None) -> list[str]:
    return [node.op for node in apply(assign(graph, target=target)).nodes]


LAYERS = {limited: "Clip", grown: "Conv", scaled: "Conv", averaged: "GlobalAveragePool"}
"""What is written in place of each."""


@pytest.mark.parametrize(("layer", "written"), LAYERS.items())
@pytest.mark.parametrize("seed", range(20))
def test_same_numbers(seed: int, layer: Callable[[GraphBuilder, str, int], str], written: str) -> None:
    graph = network(seed, layer)
    data = np.random.default_rng(seed).normal(size=(1, 6, 5, 3)).astype(np.float32)
    data = with_edges(data, np.random.default_rng(seed)) if layer in (limited, scaled) else data
    plain, found = (apply(assign(graph, target=target)) for target in (PLAIN, None))
    assert [node.op for node in found.nodes].count(written) > [node.op for node in plain.nodes].count(written)
    results = run(found, [data])[0], run(plain, [data])[0]
    if layer is averaged:
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("layer", LAYERS)
def test_fewer_reorders(layer: Callable[[GraphBuilder, str, int], str]) -> None:
    """Of the graph that ONNX Runtime runs, between convolutions of whole blocks."""
    b = GraphBuilder(0)
    x = b.conv(b.input(1, 6, 5, 32), 32, 3)
    graph = b.graph(b.conv(layer(b, x, 32), 32, 3))
    moves = [
        executed(optimised(serialise(apply(assign(graph, target=target))).SerializeToString())).reorders
        for target in (PLAIN, None)
    ]
    assert moves[1] < moves[0] or moves[0] == 0  # of processors without such blocks


def affine(b: GraphBuilder, x: str, channels: int, steps: int, single: bool = False) -> str:
    """Products and sums with constants, one number or one for each channel, on either side."""
    shapes = [(), (1,), (1, 1, 1, 1), *([] if single else [(channels,), (1, 1, 1, channels)])]
    for _ in range(steps):
        constant = b.weights(*shapes[b.random.integers(len(shapes))])
        op = str(b.random.choice(["Add", "Mul"]))
        x = b.op(op, *b.random.permutation([x, constant]), shape=(1, 6, 5, channels))
    return x


def simple(graph: Graph, target: Target) -> list[str]:
    """The operators that ONNX Runtime runs."""
    written = serialise(apply(assign(graph, target=target))).SerializeToString()
    return [node.op_type for node in optimised(written).graph.node]


@pytest.mark.members(16)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_constants_are_folded(seed: int, single: bool) -> None:
    """Of any channels, in any number, directly behind a convolution: its weights and its bias take them."""
    b = GraphBuilder(seed)
    channels = int(b.random.choice([3, 8, 16, 32]))
    convolved = b.conv(b.input(1, 6, 5, 3), channels, 3)
    graph = b.graph(b.conv(b.relu(affine(b, convolved, channels, int(b.random.integers(1, 5)), single)), 16, 3))
    data = np.random.default_rng(seed).normal(size=(1, 6, 5, 3)).astype(np.float32)
    data = with_edges(data, np.random.default_rng(seed))
    plain, found = (apply(assign(graph, target=target)) for target in (PLAIN, None))
    np.testing.assert_array_equal(run(found, [data])[0], run(plain, [data])[0])
    assert not {"Add", "Mul"} & set(simple(graph, default_target()))
    assert not single or {"Add", "Mul"} & set(simple(graph, PLAIN))


@pytest.mark.parametrize("seed", range(10))
def test_constants_behind_what_becomes_a_convolution(seed: int) -> None:
    """A product in blocks takes the sum behind it as its bias, and blocks go on behind the two."""
    b = GraphBuilder(seed)
    x = b.conv(b.input(1, 6, 5, 16), 16, 3)
    for _ in range(2):
        x = b.op("HardSwish", x, shape=(1, 6, 5, 16))
        constants = (b.weights(*[(), (1,), (16,)][b.random.integers(3)]) for _ in range(2))
        x = b.add(b.op("Mul", x, next(constants), shape=(1, 6, 5, 16)), next(constants))
    graph = b.graph(b.conv(x, 16, 3))
    runs = simple(graph, default_target())
    assert runs.count("Conv") == 4
    assert "Add" not in runs


@pytest.mark.parametrize("spelling", ["product first", "half first", "half last"])
@pytest.mark.parametrize("channels", [16, 24])
def test_activations_that_are_written_out_are_fused(spelling: str, channels: int) -> None:
    """A factor within one is no scale of channels."""
    b, image = GraphBuilder(1), (1, 6, 5, channels)

    def product(*operands: str) -> str:
        return b.op("Mul", *operands, shape=image)

    x = b.conv(b.input(*image), channels, 3)
    root, one, half = b.constant(np.float32(2**0.5)), b.constant(np.float32(1)), b.constant(np.float32(0.5))
    error = b.add(b.op("Erf", b.op("Div", x, root, shape=image), shape=image), one)
    y = (
        product(product(x, error), half)
        if spelling == "product first"
        else product(*((product(x, half), error) if spelling == "half first" else (x, product(error, half))))
    )
    graph = b.graph(b.conv(y, 16, 3))
    found, plain = simple(graph, default_target()), simple(graph, PLAIN)
    assert found.count("Gelu") == plain.count("Gelu")
    assert sorted(found) == sorted(plain)


@pytest.mark.parametrize("case", ["read twice", "result", "computed", "by pixel", "behind"])
def test_constants_that_no_convolution_takes(case: str) -> None:
    """Theirs whose weights are computed, whose result others read, and such as are no number for each channel."""
    b = GraphBuilder(3)
    x, image = b.input(1, 6, 5, 16), (1, 6, 5, 16)
    weights = b.input(16, 16, 1, 1) if case == "computed" else b.weights(16, 16, 1, 1)
    y = b.channels_last("Conv", x, weights, shape=image, kernel_shape=(1, 1))
    if case == "behind":
        y = b.relu(y)
    factor = b.weights(*((6, 5, 1) if case == "by pixel" else ()))
    scaled = b.add(y, factor)
    ends = {"read twice": [b.add(scaled, y)], "result": [scaled, y]}.get(case, [scaled])
    written = apply(assign(b.graph(*ends)))
    node = next(node for node in written.nodes if node.op == "Add")
    constants = (written.values[name] for name in node.inputs if written.values[name].data is not None)
    assert max(value.data.size for value in constants if value.data is not None) == (30 if case == "by pixel" else 1)


@pytest.mark.parametrize("shape", [(2, 1, 1, 16), (2, 6, 5, 1), (1, 1, 5, 16)])
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_constants_that_vary_along_more_than_channels(op: str, shape: tuple[int, ...]) -> None:
    b = GraphBuilder(0)
    x = b.conv(b.input(2, 6, 5, 16), 16, 3)
    y = b.op(op, b.op("HardSwish", b.op(op, x, b.weights(*shape), shape=(2, 6, 5, 16)), shape=(2, 6, 5, 16)),
             b.weights(*shape), shape=(2, 6, 5, 16))  # fmt: skip
    graph = b.graph(b.conv(y, 16, 3))
    data = np.random.default_rng(0).normal(size=(2, 6, 5, 16)).astype(np.float32)
    plain, found = (run(apply(assign(graph, target=target)), [data])[0] for target in (PLAIN, None))
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("number", [np.inf, 1e30, np.nan])
def test_numbers_that_weights_cannot_take(number: float) -> None:
    """Zeros that a convolution pads with, times infinity, are none."""
    b = GraphBuilder(0)
    y = b.op("Mul", b.conv(b.input(1, 6, 5, 16), 8, 3), b.constant(np.float32(number)), shape=(1, 6, 5, 8))
    written = apply(assign(b.graph(b.conv(y, 16, 3))))
    (node,) = (node for node in written.nodes if node.op == "Mul")
    assert all(written.values[name].shape == () for name in node.inputs if written.values[name].data is not None)


def test_long_chains_take_no_longer() -> None:
    """Each operator looks back at a few others, whatever these are."""
    b = GraphBuilder(0)
    x = b.op("Sigmoid", b.input(1, 6, 5, 16), shape=(1, 6, 5, 16))
    written = apply(assign(b.graph(affine(b, x, 16, 400, single=True))))
    assert [node.op for node in written.nodes].count("Conv") == 0


def other(change: Callable[[GraphBuilder, str], str], convolved: bool = True) -> list[str]:
    b = GraphBuilder(0)
    x = b.input(1, 6, 5, 16)
    return kinds(b.graph(b.conv(change(b, b.conv(x, 16, 3) if convolved else x), 16, 3)))


def test_what_is_left_alone() -> None:
    """No convolution before it, other dimensions than channels, another number than zero, a limit that is none."""
    pads = [0, 0, 0, 0, 0, 0, 0, 16]

    def padded(b: GraphBuilder, x: str, *more: str, amounts: tuple[int, ...] = tuple(pads)) -> str:
        shape = tuple(size + amounts[axis] + amounts[axis + 4] for axis, size in enumerate((1, 6, 5, 16)))
        return b.op("Pad", x, b.constant(list(amounts), "int64"), *more, shape=shape)

    assert "Pad" not in other(padded)
    assert "Pad" in other(padded, convolved=False)
    assert "Pad" in other(lambda b, x: padded(b, x, amounts=(0, 1, 0, 0, 0, 1, 0, 16)))
    assert "Pad" in other(lambda b, x: padded(b, x, b.constant(1.0, "float32")))
    assert "Pad" not in other(lambda b, x: padded(b, x, b.constant(0.0, "float32")))
    assert "Max" in other(lambda b, x: b.op("Max", x, b.constant(np.nan, "float32"), shape=(1, 6, 5, 16)))
