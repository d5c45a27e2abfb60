"""Sums and products of integers that are larger than their type wrap, as LiteRT's do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder import Builder
from tests.truth import same

SHAPE = (3, 7, 5)


def _any(dtype: str) -> np.ndarray:
    """Odd numbers of all sizes: products of even ones are soon 0."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(3).integers(limits.min, limits.max, SHAPE, dtype, endpoint=True) | np.array(1, dtype)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", ["MEAN", "REDUCE_PROD", "SUM"])
def test_reductions(name: str, dtype: str, axes: tuple[int, ...]) -> None:
    made = Builder()
    inputs = [made.input("x", SHAPE, dtype), made.constant("axes", np.array(axes, np.int32))]
    result = made.tensor("y", [size for axis, size in enumerate(SHAPE) if axis not in axes], dtype)
    made.operator(name, inputs, [result], {"keep_dims": False})
    same(made.finish(result), [_any(dtype)])


@pytest.mark.members(18)
@pytest.mark.parametrize("window", [(1, 2, 1), (2, 3, 1), (3, 7, 5)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("function", ["ADD", "MUL"])
def test_windows(function: str, dtype: str, window: tuple[int, ...]) -> None:
    made = Builder()
    sizes = (window, (1, 1, 1), (1, 1, 1))
    inputs = [made.input("x", SHAPE, dtype), made.constant("start", np.array(3, dtype))]
    inputs += [made.constant(f"c{number}", np.array(each, np.int64)) for number, each in enumerate(sizes)]
    result = made.tensor("y", [size - each + 1 for size, each in zip(SHAPE, window, strict=True)], dtype)
    made.operator("REDUCE_WINDOW", inputs, [result], {"reduce_function": function})
    same(made.finish(result), [_any(dtype)])


@pytest.mark.parametrize("small", ["int8", "uint16", "int32"])
def test_parts_that_are_put_together(small: str) -> None:
    made = Builder()
    x = np.random.default_rng(3).integers(0, 256, (5, 8), np.uint8).view(small)
    result = made.tensor("y", (5,), "int64")
    made.operator("BITCAST", [made.input("x", x.shape, small)], [result], {})
    same(made.finish(result), [x])
