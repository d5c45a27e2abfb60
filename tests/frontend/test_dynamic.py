"""Sizes that are known by name only: arithmetic on shapes survives, and vanishes where it comes to one Reshape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import layoutsolve
from layoutsolve.verification import verify
from tests.builder import Builder

Sizes = Callable[[Builder, Sequence[int]], list[int]]
"""From the scalars batch, height and width to the entries of the shape that is reshaped to."""


def multiplied(builder: Builder, left: int, right: int) -> int:
    result = builder.tensor("product", (), "int32")
    builder.operator("MUL", [left, right], [result], {})
    return result


def number(builder: Builder, value: int) -> int:
    return builder.constant("number", np.int32(value))


def reshaped(entries: Sizes, rank: int) -> bytes:
    """A convolution over images of any number and size, reshaped to what is computed from its own shape."""
    builder = Builder()
    x = builder.input("x", (1, 1, 1, 4), signature=(-1, -1, -1, 4))
    weights = np.random.default_rng(0).normal(size=(6, 3, 3, 4)).astype(np.float32)
    bias = builder.constant("b", np.zeros(6, np.float32))
    y = builder.tensor("y", (1, 1, 1, 6), signature=(-1, -1, -1, 6))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    builder.operator("CONV_2D", [x, builder.constant("w", weights), bias], [y], options)
    shape = builder.tensor("shape", (4,), "int32")
    builder.operator("SHAPE", [y], [shape], {"out_type": 2})
    scalars = []
    for axis in range(3):
        bounds = [builder.constant("bound", np.array([each], np.int32)) for each in (axis, axis + 1, 1)]
        scalars.append(builder.tensor("size", (), "int32"))
        builder.operator("STRIDED_SLICE", [shape, *bounds], [scalars[-1]], {"shrink_axis_mask": 1})
    wanted = builder.tensor("wanted", (rank,), "int32")
    builder.operator("PACK", entries(builder, scalars), [wanted], {"values_count": rank})
    result = builder.tensor("result", (1,) * rank, signature=(-1,) * rank)
    builder.operator("RESHAPE", [y, wanted], [result], {})
    return builder.finish(result)


def pixels(builder: Builder, sizes: Sequence[int]) -> list[int]:
    batch, height, width = sizes
    return [batch, multiplied(builder, height, width), number(builder, 2), number(builder, 3)]


def torn(builder: Builder, sizes: Sequence[int]) -> list[int]:
    batch, height, width = sizes
    return [multiplied(builder, height, width), multiplied(builder, batch, number(builder, 2)), number(builder, 3)]


def test_arithmetic_on_shapes_vanishes() -> None:
    conversion = layoutsolve.convert(reshaped(pixels, 4))
    assert [node.op for node in conversion.graph.nodes] == ["Transpose", "Conv", "Transpose", "Reshape"]


@pytest.mark.parametrize(("entries", "rank"), [(pixels, 4), (torn, 3)])
@pytest.mark.parametrize("ends", ["keep", "free"])
@pytest.mark.parametrize("shape", [(1, 5, 7, 4), (3, 2, 2, 4)])
def test_any_size(entries: Sizes, rank: int, ends: str, shape: tuple[int, ...]) -> None:
    """Two sizes of one Reshape that are products are computed at run time."""
    source = reshaped(entries, rank)
    conversion = layoutsolve.convert(source, inputs=ends, outputs=ends)
    inputs, outputs = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
    moved = {"shapes": {"x": shape}, "input_permutations": inputs, "output_permutations": outputs}
    assert verify(source, conversion.model, **moved).passed
