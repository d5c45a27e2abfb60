"""Pads before convolutions and pools: padded by these where nothing else reads them; the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.frontend import read
from layoutsolve.frontend.passes.pad_absorption import absorbed
from layoutsolve.ir.graph import Graph, Quant
from tests.builder import Builder
from tests.graphs import GraphBuilder, assert_same, feeds

AROUND = (0, 1, 2, 0, 0, 3, 0, 0)
"""Rows and columns around an image, channels last."""


class Padded(GraphBuilder):
    def pad(self, x: str, amounts: tuple[int, ...] = AROUND, filler: float | None = None, **attributes: object) -> str:
        value, rank = self.values[x], len(amounts) // 2
        shape = [size + amounts[axis] + amounts[axis + rank] for axis, size in enumerate(value.shape)]  # type: ignore[operator]
        more = () if filler is None else (self.constant(filler, value.dtype),)
        pads = self.constant(amounts, "int64")
        output = self.op("Pad", x, pads, *more, shape=shape, dtype=value.dtype, quant=value.quant, **attributes)
        self.nodes[-1] = replace(self.nodes[-1], storage=value.quant is not None)
        return output

    def plain(self, x: str, channels: int = 4, **attributes: object) -> str:
        """A convolution of channels-first images without padding."""
        batch, features, *sizes = self.shape(x)
        weights = self.weights(channels, features, 2, 2)  # type: ignore[arg-type]
        shape = (batch, channels, *(size - 1 for size in sizes))  # type: ignore[operator]
        return self.op("Conv", x, weights, shape=shape, **attributes)


def same(graph: Graph) -> list[str]:
    found, data = absorbed(graph), feeds(graph, 1)
    assert_same(graph, found, data, rtol=1e-5, atol=1e-6)
    return [node.op for node in found.nodes]


@pytest.mark.parametrize("seed", range(12))
def test_any_amounts_for_any_convolutions(seed: int) -> None:
    """Of images in either order, read by one or two convolutions, which may pad themselves."""
    b = Padded(seed)
    x = b.input(*b.random.integers(3, 7, 4).tolist())
    sides = b.random.integers(0, 3, 4).tolist()
    if seed % 2:
        y = b.pad(x, (0, *sides[:2], 0, 0, *sides[2:], 0), 0.0 if seed % 3 else None)
        ends = [b.conv(y, 5, 3), *([b.conv(y, 3, 3)] if seed % 5 > 2 else [])]
    else:
        ends = [b.plain(b.pad(x, (0, 0, *sides[:2], 0, 0, *sides[2:])))]
    assert "Pad" not in same(b.graph(*ends))


@pytest.mark.parametrize("seed", range(6))
def test_behind_several_transposes(seed: int) -> None:
    """Exporters turn a padded image around before a convolution that turns it back."""
    b = Padded(seed)
    sides = b.random.integers(0, 3, 4).tolist()
    y = b.pad(b.input(*b.random.integers(3, 7, 4).tolist()), (0, 0, *sides[:2], 0, 0, *sides[2:]))
    turned = b.transpose(y, 0, 2, 3, 1)
    ends = [b.plain(b.transpose(turned, 0, 3, 1, 2, pattern=True))]
    if seed % 3 == 1:
        ends.append(b.plain(y, 3))
    elif seed % 3:
        ends.append(turned)
    assert ("Pad" in same(b.graph(*ends))) == (seed % 3 == 2)


def test_bytes_are_padded_by_their_zero() -> None:
    b = Padded()
    quant = Quant(np.array([0.05], np.float32), np.array([7], np.int8))
    for filler, kept in ((7, False), (0, True), (None, True)):
        x = b.pad(b.input(1, 4, 5, 3, dtype="int8", quant=quant), filler=filler)
        first = b.transpose(x, 0, 3, 1, 2, pattern=True)
        assert ("Pad" in same(b.graph(b.plain(first)))) is kept
        b.inputs.clear(), b.nodes.clear()


def pooled(b: Padded, x: str, op: str, pads: tuple[int, ...] = (0, 0, 0, 0)) -> str:
    """Windows of 3 by 2 of channels-last images, side by side, with ``pads`` of their own."""
    value, inner = b.values[x], b.transpose(x, 0, 3, 1, 2, pattern=True)
    batch, features, *sizes = b.shape(inner)
    windows = [size + one + two - k + 1 for size, one, two, k in zip(sizes, pads[:2], pads[2:], (3, 2), strict=True)]  # type: ignore[operator]
    shape = (batch, features, *windows)
    y = b.op(op, inner, shape=shape, dtype=value.dtype, quant=value.quant, kernel_shape=(3, 2), pads=pads)
    b.nodes[-1] = replace(b.nodes[-1], storage=value.quant is not None)
    return b.transpose(y, 0, 2, 3, 1, pattern=True)


SIDES = (0, 2, 1, 0, 0, 1, 0, 0)
QUANT = Quant(np.array([0.05], np.float32), np.array([-128], np.int8))


@pytest.mark.parametrize("filler", [-np.inf, np.finfo(np.float32).min])
@pytest.mark.parametrize("own", [(0, 0, 0, 0), (0, 0, 1, 1)])
def test_maxima_are_padded_by_the_least(filler: float, own: tuple[int, ...]) -> None:
    b = Padded()
    assert "Pad" not in same(b.graph(pooled(b, b.pad(b.input(1, 4, 5, 3), SIDES, filler), "MaxPool", own)))


def test_maxima_of_what_is_not_negative_are_padded_by_zeros() -> None:
    for dtype, quant in (("float32", None), ("int8", QUANT)):
        b = Padded()
        x = b.input(1, 4, 5, 3, dtype=dtype, quant=quant)
        x = x if quant else b.relu(b.conv(x, 3, 1))
        assert "Pad" not in same(b.graph(pooled(b, b.pad(x, SIDES, -128 if quant else None), "MaxPool")))


def test_averages_count_zeros() -> None:
    b = Padded()
    assert "Pad" not in same(b.graph(pooled(b, b.pad(b.input(1, 4, 5, 3), SIDES), "AveragePool")))


def beside(b: Padded) -> str:
    y = b.pad(b.input(1, 5, 5, 2))
    return b.op("Concat", b.conv(y, 2, 3), b.relu(y), shape=(1, 9, 7, 4), axis=3)


def as_weights(b: Padded) -> str:
    kernel = b.pad(b.input(3, 2, 1, 1), (0, 0, 1, 1, 0, 0, 1, 1))
    return b.op("Conv", b.input(1, 2, 6, 6), kernel, shape=(1, 3, 4, 4))


def alike(b: Padded) -> str:
    y = b.plain(b.pad(b.input(1, 2, 6, 6), (0, 0, 1, 1, 0, 0, 1, 1)), auto_pad="SAME_UPPER")
    b.values[y] = replace(b.values[y], shape=(1, 4, 8, 8))
    return y


OTHERS: dict[str, Callable[[Padded], str]] = {
    "read beside": beside,
    "weights": as_weights,
    "padded alike": alike,
    "one pixel": lambda b: b.conv(b.pad(b.input(1, 5, 5, 2)), 2, 1),
    "channels": lambda b: b.conv(b.pad(b.input(1, 5, 5, 2), (0, 0, 0, 1, 0, 0, 0, 1)), 2, 3),
    "cropped": lambda b: b.conv(b.pad(b.input(1, 5, 5, 2), (0, -1, 0, 0, 0, 0, 1, 0)), 2, 3),
    "ones": lambda b: b.conv(b.pad(b.input(1, 5, 5, 2), filler=1.0), 2, 3),
    "mirrored": lambda b: b.conv(b.pad(b.input(1, 5, 5, 2), (0, 1, 1, 0, 0, 1, 1, 0), mode="reflect"), 2, 3),
    "maxima of any numbers": lambda b: pooled(b, b.pad(b.input(1, 5, 5, 2), SIDES), "MaxPool"),
    "maxima and ones": lambda b: pooled(b, b.pad(b.relu(b.input(1, 5, 5, 2)), SIDES, 1.0), "MaxPool"),
    "more than a window": lambda b: pooled(b, b.pad(b.input(1, 5, 5, 2), (0, 3, 0, 0, 0, 0, 0, 0), -np.inf), "MaxPool"),
    "averages that do not count": lambda b: pooled(b, b.pad(b.input(1, 5, 5, 2), SIDES), "AveragePool", (1, 0, 0, 0)),
    "averages of infinities": lambda b: pooled(b, b.pad(b.relu(b.input(1, 5, 5, 2)), SIDES, -np.inf), "AveragePool"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_alone(name: str) -> None:
    b = Padded()
    graph = b.graph(OTHERS[name](b))
    assert absorbed(graph) is graph and "Pad" in same(graph)


def test_what_is_given_is_padded() -> None:
    b = Padded()
    y = b.pad(b.input(1, 5, 5, 2))
    graph = b.graph(y, b.conv(y, 2, 3))
    assert absorbed(graph) is graph


def test_models_are_read_so() -> None:
    """As exporters write what their framework pads on both sides."""
    builder = Builder()
    x = builder.input("x", (1, 8, 8, 3))
    wide = builder.tensor("wide", (1, 10, 10, 3))
    amounts = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    builder.operator("PAD", [x, builder.constant("amounts", amounts)], [wide])
    y = builder.tensor("y", (1, 4, 4, 2))
    weights = builder.constant("weights", np.ones((2, 3, 3, 3), np.float32))
    bias = builder.constant("bias", np.zeros(2, np.float32))
    builder.operator("CONV_2D", [wide, weights, bias], [y], {"strideH": 2, "strideW": 2, "padding": "VALID"})
    (conv,) = [node for node in read(builder.finish(y)).nodes if node.op == "Conv"]
    assert conv.attributes["pads"] == (1, 1, 1, 1)
    assert not any(node.op == "Pad" for node in read(builder.finish(y)).nodes)
