"""Images with channels rounded up to whole blocks: the same results, and nothing left to pad within a block."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply, serialise
from layoutsolve.frontend.passes.channel_rounding import rounded
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.storage_options import Storage
from layoutsolve.solver import assign
from layoutsolve.verification.runtimes import optimised
from tests.graphs import GraphBuilder, assert_same, feeds

BLOCK = 16
STORAGE, NARROW = Storage(block=BLOCK), Storage(block=BLOCK, narrow=3)
SIDE = 6

NEAR = (1e-4, 1e-5)
"""How far sums of floats in another order may be apart: relative to the number, and besides."""


class Images(GraphBuilder):
    """Operators on images ``[1, 6, 6, C]`` of floats, or of bytes with parameters of their own."""

    def __init__(self, seed: int, stored: bool) -> None:
        super().__init__(seed)
        self.stored = stored

    def channels(self, x: str) -> int:
        last = self.shape(x)[-1]
        assert isinstance(last, int)
        return last

    def quant(self) -> Quant | None:
        step, zero = self.random.choice([0.02, 0.05]), self.random.integers(-20, 20)
        return Quant(np.array([step], np.float32), np.array([zero], np.int8)) if self.stored else None

    def made(self, op: str, *inputs: str, like: str = "", shape: tuple[int, ...] = (), **attributes: object) -> str:
        quant = self.values[like].quant if like else self.quant()
        output = self.op(
            op, *inputs, shape=shape or self.shape(inputs[0]), dtype="int8" if self.stored else "float32", quant=quant,
            **attributes,
        )  # fmt: skip
        if like and self.stored:
            self.nodes[-1] = replace(self.nodes[-1], storage=True)
        return output

    def first(self, x: str, op: str, count: int, *rest: str, keep: bool = False, **attributes: object) -> str:
        """An operator that works channels-first."""
        x = self.transpose(x, 0, 3, 1, 2, pattern=True)
        y = self.made(op, x, *rest, like=x if keep else "", shape=(1, count, SIDE, SIDE), **attributes)
        return self.transpose(y, 0, 2, 3, 1, pattern=True)

    def parameters(self, *shape: int, step: float = 0.01) -> str:
        if not self.stored:
            return self.weights(*shape)
        scale = np.full(shape[0], step, np.float32) * self.random.choice([1, 2], shape[0]).astype(np.float32)
        return self.constant(self.random.integers(-40, 40, shape), "int8", Quant(scale, np.zeros(shape[0], np.int8), 0))

    def wide(self, x: str, count: int, side: int = 1) -> str:
        weights = self.parameters(count, self.channels(x), side, side)
        return self.first(x, "Conv", count, weights, kernel_shape=(side, side), pads=(side // 2,) * 4)

    def deep(self, x: str) -> str:
        count = self.channels(x)
        weights = self.parameters(count, 1, 3, 3)
        return self.first(x, "Conv", count, weights, kernel_shape=(3, 3), pads=(1, 1, 1, 1), group=count)

    def pooled(self, x: str) -> str:
        return self.first(x, "MaxPool", self.channels(x), keep=True, kernel_shape=(3, 3), pads=(1, 1, 1, 1))

    def grown(self, x: str, by: int) -> str:
        amounts = [0] * 7 + [by]
        quant = self.values[x].quant
        filler = self.constant(0 if quant is None else quant.zero_point[0], "float32" if quant is None else "int8")
        shape = (1, SIDE, SIDE, self.channels(x) + by)
        return self.made("Pad", x, self.constant(amounts, "int64"), filler, like=x, shape=shape, mode="constant")

    def sloped(self, x: str) -> str:
        return x if self.stored else self.made("PRelu", x, self.weights(1, 1, self.channels(x)))

    def raised(self, x: str) -> str:
        """What does not keep zeros."""
        return self.made("Exp", x) if self.stored else self.made("Add", x, self.weights(self.channels(x)))


def network(seed: int, stored: bool) -> Graph:
    """Residual blocks that grow, with a random operator between them now and then."""
    b = Images(seed, stored)
    random = np.random.default_rng(seed)
    count = int(random.choice([8, 12, 20, 24, 28, 40]))
    x = b.wide(b.input(1, SIDE, SIDE, 3, dtype="int8" if stored else "float32", quant=b.quant()), count)
    for _ in range(int(random.integers(1, 4))):
        by = int(random.choice([0, 4, 8, 20]))
        inner = b.wide(b.deep(x), b.channels(x) + by)
        x = b.made("Add", inner, b.grown(x, by) if by else x)
        x = [b.pooled, b.sloped, b.raised, lambda y: b.made("Relu", y), lambda y: y][int(random.integers(5))](x)
    return b.graph(*([b.wide(x, 5)] if random.random() < 0.8 else [b.wide(x, 5), x]))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_results_stay_what_they_are(seed: int, stored: bool) -> None:
    graph = network(seed, stored)
    wider = rounded(graph, STORAGE, Budget())
    assert [wider.values[name].shape for name in wider.outputs] == [graph.values[name].shape for name in graph.outputs]
    assert_same(graph, wider, feeds(graph, seed), *(() if stored else NEAR))


@pytest.mark.parametrize("stored", [False, True])
def test_much_is_changed(stored: bool) -> None:
    """The networks above are of both kinds, and wider images are whole blocks."""
    changed = 0
    for seed in range(60):
        graph = network(seed, stored)
        wider = rounded(graph, STORAGE, Budget())
        changed += wider is not graph
        for name, value in wider.values.items():
            if name in graph.values and value.data is None and value.shape != graph.values[name].shape:
                assert any(dim % BLOCK == 0 for dim in value.shape if isinstance(dim, int))
    assert 20 < changed < 55


def residual(before: int, after: int) -> Graph:
    b = Images(1, stored=False)
    x = b.made("Relu", b.wide(b.input(1, SIDE, SIDE, 3), before))
    y = b.made("Relu", b.made("Add", b.wide(b.deep(x), after), b.grown(x, after - before)))
    return b.graph(b.wide(y, 3))


def test_an_image_that_grows_within_its_block_is_not_padded() -> None:
    """What ONNX Runtime runs has no Pad."""
    plain = residual(24, 28)
    found = []
    for graph in (plain, rounded(plain, STORAGE, Budget())):
        model = serialise(apply(assign(graph))).SerializeToString()
        operators = Counter(node.op_type for node in optimised(model, "all").graph.node)
        found.append(operators["Pad"])
    assert found == [1, 0]


@pytest.mark.parametrize(("before", "after"), [(16, 32), (4, 6), (5, 7)])
def test_what_gains_too_little_stays(before: int, after: int) -> None:
    """Whole blocks already, or so few channels that most of a block would be zeros."""
    graph = residual(before, after)
    assert rounded(graph, STORAGE, Budget()) is graph


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("channels", [2, 3, 5, 7, 8])
def test_narrow_images_of_bytes(channels: int, stored: bool) -> None:
    """Those of bytes are made whole blocks from fewer channels on, where that is asked for; the same numbers."""
    b = Images(channels, stored)
    x = b.input(1, SIDE, SIDE, 3, dtype="int8" if stored else "float32", quant=b.quant())
    graph = b.graph(b.wide(b.deep(b.wide(x, channels)), 5))
    usual, wider = (rounded(graph, storage, Budget()) for storage in (STORAGE, NARROW))
    assert (usual is not graph) == (channels >= 8)
    assert (wider is not graph) == (channels >= (3 if stored else 8))
    assert_same(graph, wider, feeds(graph, 1), *(() if stored else NEAR))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("channels", "wide"), [(2, 2), (8, 16), (12, 16), (15, 16), (16, 16), (18, 20), (24, 24)])
def test_convolutions_of_bytes_have_whole_runs(channels: int, wide: int, stored: bool) -> None:
    """Channels between convolutions of bytes over all of them, where that is asked for; the same numbers."""
    b = Images(channels, stored)
    x = b.wide(b.input(1, SIDE, SIDE, 16, dtype="int8" if stored else "float32", quant=b.quant()), channels, 3)
    graph = b.graph(b.wide(b.pooled(x), 20))
    assert rounded(graph, STORAGE, Budget()) is graph
    wider = rounded(graph, NARROW, Budget())
    assert wider.values[x].shape[-1] == (wide if stored else channels)
    assert_same(graph, wider, feeds(graph, 1), *(() if stored else NEAR))


@pytest.mark.parametrize(("read", "before", "after", "written"), [(3, 3, 1, 20), (16, 1, 3, 20)])
def test_runs_that_cost_more_than_they_gain(read: int, before: int, after: int, written: int) -> None:
    """No convolution gets the kernel for them, as channels of the inputs are given, or many more products are added."""
    b = Images(1, stored=True)
    x = b.wide(b.input(1, SIDE, SIDE, read, dtype="int8", quant=b.quant()), 8, before)
    graph = b.graph(b.wide(x, written, after))
    assert rounded(graph, NARROW, Budget()) is graph


def test_narrow_images_that_meet_floats() -> None:
    """A class of images in which some hold floats is as wide as floats want it."""
    b = Images(1, stored=True)
    x = b.deep(b.wide(b.input(1, SIDE, SIDE, 3, dtype="int8", quant=b.quant()), 5))
    real = b.op("Relu", x, shape=b.shape(x))
    graph = b.graph(b.op("Exp", real, shape=b.shape(x)), b.wide(x, 5))
    assert rounded(graph, NARROW, Budget()) is graph


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 3), ("uint8", 128)])
def test_kernels_on_bytes_that_want_no_blocks(dtype: str, zero: int) -> None:
    """Those by other weights than int8 whose zero is 0."""
    b = Images(1, stored=True)
    x = b.deep(b.wide(b.input(1, SIDE, SIDE, 3, dtype="int8", quant=b.quant()), 24))
    graph = b.graph(b.wide(x, 3))
    assert rounded(graph, STORAGE, Budget()) is not graph
    kernel = next(node.inputs[1] for node in graph.nodes if "group" in node.attributes)
    quant = Quant(np.array([0.01], np.float32), np.array([zero], dtype))
    changed = replace(b.values[kernel], dtype=dtype, quant=quant, data=b.values[kernel].data.astype(dtype))
    other = replace(graph, values={**graph.values, kernel: changed})
    assert rounded(other, STORAGE, Budget()) is other


def test_blocks_are_asked_for() -> None:
    graph = residual(24, 28)
    assert rounded(graph, Storage(), Budget()) is graph
    assert rounded(graph, STORAGE, Budget()) is not graph


def test_constant_images_stay() -> None:
    """A convolution of a constant, and what follows it."""
    b = Images(1, stored=False)
    x = b.wide(b.constant(b.random.normal(size=(1, SIDE, SIDE, 20))), 24)
    y = b.made("Add", b.deep(x), b.input(1, SIDE, SIDE, 24))
    graph = b.graph(b.wide(y, 3))
    assert rounded(graph, STORAGE, Budget()) is graph


def test_channels_that_are_somewhere_else_for_others() -> None:
    """What a convolution takes for channels another one takes for rows: such images stay, and those padded to them."""
    b = Images(1, stored=False)
    x = b.wide(b.input(1, SIDE, SIDE, 3), 24)
    y = b.grown(b.deep(x), 4)
    rows = b.op(
        "Conv", b.transpose(y, 0, 1, 3, 2), b.weights(5, SIDE, 1, 1), shape=(1, 5, 28, SIDE), kernel_shape=(1, 1)
    )
    graph = b.graph(rows, b.wide(y, 3))
    wider = rounded(graph, STORAGE, Budget())
    assert_same(graph, wider, feeds(graph, 1), *NEAR)


def test_images_with_a_step_for_each_channel_stay() -> None:
    b = Images(1, stored=True)
    x = b.wide(b.input(1, SIDE, SIDE, 3, dtype="int8", quant=b.quant()), 24)
    y = b.wide(b.grown(x, 4), 3)
    b.values[x] = replace(b.values[x], quant=Quant(np.full(24, 0.1, np.float32), np.zeros(24, np.int8), 3))
    graph = b.graph(y)
    assert rounded(graph, STORAGE, Budget()).values[x].shape == b.shape(x)


def test_a_pad_of_nothing_at_the_end_keeps_its_name() -> None:
    """Where what is padded gets as many channels as the output has."""
    b = Images(1, stored=False)
    x = b.wide(b.input(1, SIDE, SIDE, 3), 12)
    graph = b.graph(b.grown(b.deep(x), 4))
    wider = rounded(graph, STORAGE, Budget())
    assert wider is not graph and wider.outputs == graph.outputs
    assert_same(graph, wider, feeds(graph, 1), *NEAR)


def test_a_pad_of_nothing_at_the_end_of_a_turn() -> None:
    """What a loop hands on is read before it is written."""
    b = Images(1, stored=False)
    start = b.input(1, SIDE, SIDE, 16)
    graph = b.graph(*b.loop(2, lambda x: [b.grown(b.deep(b.wide(x, 12)), 4)], start))
    wider = rounded(graph, STORAGE, Budget())
    assert wider is not graph
    assert_same(graph, wider, feeds(graph, 1), *NEAR)
