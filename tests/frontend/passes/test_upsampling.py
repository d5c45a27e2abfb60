"""Pixels repeated by views: written as a Resize where they are those of an image, else left alone; the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.frontend import read
from layoutsolve.frontend.passes.upsampling import recognise
from layoutsolve.ir.graph import Graph, Quant, symbol
from tests.builder import Builder
from tests.graphs import GraphBuilder, assert_same, feeds, run

QUANT = Quant(np.array([0.1], np.float32), np.array([7], np.int8))


class Images(GraphBuilder):
    """Images whose axes are given a dimension of size 1 and repeated along it."""

    def moved(self, op: str, x: str, *more: str, shape: list[object], **attributes: object) -> str:
        value = self.values[x]
        output = self.op(op, x, *more, shape=shape, dtype=value.dtype, quant=value.quant, **attributes)
        self.nodes[-1] = replace(self.nodes[-1], storage=value.quant is not None)
        return output

    def repeated(self, x: str, axis: int, times: int, kind: str) -> str:
        """The dimension of size 1 at ``axis``, that many times."""
        before = list(self.shape(x))
        shape: list[object] = [*before[:axis], times, *before[axis + 1 :]]
        if kind == "Tile":
            counts = [times if each == axis else 1 for each in range(len(before))]
            return self.moved("Tile", x, self.constant(counts, "int64"), shape=shape)
        if kind == "Expand":
            counts = [times if each == axis else 1 for each in range(len(before))]
            return self.moved("Expand", x, self.constant(counts, "int64"), shape=shape)
        if kind == "Mul":
            ones = self.constant(np.ones([times if each == axis else 1 for each in range(len(before))]))
            return self.op("Mul", *self.random.permutation([x, ones]), shape=shape)
        return self.moved("Concat", *[x] * times, shape=shape, axis=axis)

    def along(self, x: str, axis: int, times: int, kind: str, inner: bool = True) -> str:
        """Every element along ``axis`` that many times, or with ``inner`` false all of them in rounds."""
        shape = list(self.shape(x))
        place = axis + 1 if inner else axis
        wide = self.repeated(self.reshape(x, *shape[:place], 1, *shape[place:]), place, times, kind)
        return self.reshape(wide, *shape[:axis], shape[axis] * times, *shape[axis + 1 :])


KINDS = ("Tile", "Expand", "Mul", "Concat")


def same(graph: Graph) -> Graph:
    found, data = recognise(graph), feeds(graph, 1)
    assert_same(graph, found, data)
    return found


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_pixels_of_images(kind: str, seed: int) -> None:
    """Along one or two axes, one after another or at once, of one image in bytes or floats."""
    b = Images(seed)
    dtype = "float32" if kind == "Mul" or seed % 2 else "int8"
    x = b.input(*b.random.integers(2, 5, 4).tolist(), dtype=dtype, quant=None if dtype == "float32" else QUANT)
    first, second = b.random.choice(4, 2, replace=False).tolist()
    y = b.along(x, first, int(b.random.integers(2, 4)), kind)
    if seed % 3:
        y = b.along(y, second, int(b.random.integers(2, 4)), kind)
    found = same(b.graph(y))
    assert ops(found) == ["Resize"]
    assert found.values[y].shape == b.shape(y)


def test_both_axes_in_one_view() -> None:
    b = Images()
    x = b.input(2, 3, 4, 5)
    wide = b.reshape(x, 2, 3, 1, 4, 1, 5)
    wide = b.op("Tile", wide, b.constant([1, 1, 2, 1, 3, 1], "int64"), shape=(2, 3, 2, 4, 3, 5))
    assert ops(same(b.graph(b.reshape(wide, 2, 6, 12, 5)))) == ["Resize"]


def test_two_views_of_one_image_are_stacked() -> None:
    b = Images()
    x = b.input(2, 3, 4, 5)
    parts = [b.reshape(x, 2, 3, 1, 4, 5) for _ in range(2)]
    wide = b.op("Concat", *parts, shape=(2, 3, 2, 4, 5), axis=2)
    assert ops(same(b.graph(b.reshape(wide, 2, 6, 4, 5)))) == ["Resize"]


def test_what_is_read_on_the_way_stays() -> None:
    b = Images()
    x = b.input(1, 3, 4, 2)
    once = b.along(x, 1, 2, "Tile")
    twice = b.along(b.relu(once), 2, 2, "Tile")
    found = same(b.graph(once, twice))
    assert ops(found) == ["Resize", "Relu", "Resize"]


def test_a_batch_of_any_size() -> None:
    b = Images()
    x = b.input(symbol("batch"), 3, 4, 2)
    found = recognise(b.graph(b.along(x, 1, 2, "Tile")))
    data = np.random.default_rng(0).normal(size=(3, 3, 4, 2)).astype(np.float32)
    assert ops(found) == ["Resize"]
    np.testing.assert_array_equal(run(found, [data])[0], data.repeat(2, 1))


def stacked(b: Images) -> str:
    """Two images, row by row."""
    parts = [b.reshape(b.input(1, 3, 4, 2), 1, 3, 1, 4, 2) for _ in range(2)]
    return b.reshape(b.op("Concat", *parts, shape=(1, 3, 2, 4, 2), axis=2), 1, 6, 4, 2)


def scaled(b: Images) -> str:
    view = b.reshape(b.input(1, 3, 4, 2), 1, 3, 1, 8)
    return b.reshape(b.op("Mul", view, b.weights(1, 1, 2, 1), shape=(1, 3, 2, 8)), 1, 6, 4, 2)


OTHERS: dict[str, Callable[[Images], str]] = {
    "rounds": lambda b: b.along(b.input(1, 3, 4, 2), 1, 2, "Tile", inner=False),
    "no image": lambda b: b.along(b.input(3, 4, 2), 1, 2, "Tile"),
    "once": lambda b: b.along(b.input(1, 3, 4, 2), 1, 1, "Tile"),
    "broadcast": lambda b: b.along(b.input(2, 1, 4, 2), 1, 3, "Expand"),
    "columns of rows": lambda b: b.reshape(
        b.repeated(b.reshape(b.input(1, 4, 4, 2), 1, 4, 1, 4, 2), 2, 2, "Tile"), 1, 4, 8, 2
    ),
    "two images": stacked,
    "factors": scaled,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_alone(name: str) -> None:
    b = Images()
    graph = b.graph(OTHERS[name](b))
    assert "Resize" not in ops(same(graph))


def test_doubles_are_left_alone() -> None:
    """ONNX Runtime has no Resize for them."""
    b = Images()
    graph = b.graph(b.along(b.input(1, 3, 4, 2, dtype="float64"), 1, 2, "Tile"))
    assert recognise(graph) is graph


def test_in_a_branch_of_what_lies_outside() -> None:
    """A view begins where its image is."""
    b = Images()
    x = b.relu(b.input(1, 3, 4, 2))
    y = b.branch(b.input(dtype="bool"), lambda: b.along(x, 1, 2, "Tile"), lambda: b.along(b.relu(x), 1, 2, "Tile"))
    assert ops(recognise(b.graph(y))).count("Resize") == 1


def test_models_are_read_so() -> None:
    """As Keras repeats rows and columns."""
    builder = Builder()
    x = builder.input("x", (1, 3, 4, 8))
    shapes, repeats = [(1, 3, 1, 4, 8), (1, 6, 4, 1, 8)], [(1, 1, 2, 1, 1), (1, 1, 1, 2, 1)]
    for number, (shape, counts) in enumerate(zip(shapes, repeats, strict=True)):
        wide = builder.tensor(f"wide{number}", shape)
        builder.operator("RESHAPE", [x, builder.constant(f"s{number}", np.array(shape, np.int32))], [wide])
        x = builder.tensor(f"tiled{number}", [a * b for a, b in zip(shape, counts, strict=True)])
        builder.operator("TILE", [wide, builder.constant(f"r{number}", np.array(counts, np.int32))], [x])
    y = builder.tensor("y", (1, 6, 8, 8))
    builder.operator("RESHAPE", [x, builder.constant("s", np.array((1, 6, 8, 8), np.int32))], [y])
    assert ops(read(builder.finish(y))) == ["Resize"]
