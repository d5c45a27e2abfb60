"""What stored integers mean, whatever their parameters are for."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.ir.graph import Quant, Value
from layoutsolve.ir.names import Names

SHAPE = (6, 2, 4, 6)


@pytest.mark.parametrize("rank", range(len(SHAPE) + 1))
def test_parameters_are_those_of_each_element(rank: int) -> None:
    """One for all, one for each index of an axis, or one for each block of these; and as many numbers as elements."""
    random, shape = np.random.default_rng(rank), SHAPE[:rank]
    data = np.asarray(random.integers(-100, 100, shape), np.int8)
    for axis, block in [(None, 0), *((axis, block) for axis in range(rank) for block in (0, 1, 2))]:
        grid = tuple(size // block if place == axis and block else size for place, size in enumerate(shape))
        sizes = (1,) if axis is None else grid if block else (shape[axis],)
        scale = random.uniform(0.1, 1, sizes).astype(np.float32)
        quant = Quant(scale, random.integers(-5, 5, sizes, np.int8), axis, block)
        found = quant.real(data)
        assert (found.shape, found.dtype) == (shape, np.float32)
        for place in np.ndindex(shape):
            own = (0,) if axis is None else (place[axis],)
            if axis is not None and block:
                own = tuple(at // block if each == axis else at for each, at in enumerate(place))
            meant = np.float32(int(data[place]) - int(quant.zero_point[own])) * scale[own]
            assert found[place] == meant


def test_what_a_value_means() -> None:
    """A constant by its steps, or as it is; what is computed, or has none, is told so."""
    steps, data = Quant(np.array([0.5], np.float32), np.array([2], np.int8)), np.array([1, 4], np.int8)
    assert Value("x", "int8", (2,), steps, data).real.tolist() == [-0.5, 1.0]
    assert Value("x", "int8", (2,), None, data).real.tolist() == [1, 4]
    with pytest.raises(TypeError, match="'x' is no constant"):
        _ = Value("x", "int8", (2,), steps).constant
    with pytest.raises(TypeError, match="'x' is not quantized"):
        _ = Value("x", "int8", (2,)).steps


def test_names_that_are_taken() -> None:
    """A new name is none that is in use, whoever uses it."""
    names = Names(["a"])
    names.take(["b", "a_1"])
    assert [names.unique(name) for name in ("a", "b", "b", "c")] == ["a_2", "b_1", "b_2", "c"]
