"""Constants in other layouts mean the same, element by element, whatever their parameters are along."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit.constants import rearranged
from layoutsolve.ir.graph import Array, Quant, Value
from layoutsolve.solver.theory.layout import Layout, order


def drawn(random: np.random.Generator) -> tuple[Layout, Layout, list[int]]:
    """Two layouts of the same atoms, with dimensions of one, several or no atoms."""
    sizes = [int(size) for size in random.integers(2, 4, random.integers(1, 5))]

    def grouped(atoms: list[int]) -> Layout:
        cuts = np.sort(random.integers(0, len(atoms) + 1, random.integers(0, 4)))
        return tuple(tuple(map(int, part)) for part in np.split(np.array(atoms), cuts))

    logical = grouped(list(range(len(sizes))))
    stored = logical if random.random() < 0.2 else grouped([int(atom) for atom in random.permutation(len(sizes))])
    return logical, stored, sizes


def meant(value: Value) -> Array:
    """The real numbers of a constant."""
    assert value.data is not None
    return value.data if value.quant is None else value.quant.real(value.data)


def spread(data: Array, layout: Layout, sizes: list[int]) -> Array:
    """Elements by their atoms in order."""
    atoms = order(layout)
    return data.reshape([sizes[atom] for atom in atoms]).transpose(np.argsort(atoms))


@pytest.mark.members(60)
@pytest.mark.parametrize("kind", ["real", "whole", "axis", "block"])
@pytest.mark.parametrize("seed", range(60))
def test_rearranged(seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    logical, stored, sizes = drawn(random)
    shape = [int(np.prod([sizes[atom] for atom in group], initial=1)) for group in logical]
    data: Array = random.integers(-128, 128, shape).astype(np.int8)
    axis = int(random.integers(len(shape)))
    parameters = {"whole": [1], "axis": [shape[axis]], "block": shape}.get(kind)
    quant = None
    if parameters is not None:
        scale, zero = random.uniform(0.1, 1, parameters).astype(np.float32), random.integers(-5, 5, parameters)
        quant = Quant(scale, zero.astype(np.int8), None if kind == "whole" else axis, int(kind == "block"))
    value = Value("x", "int8", tuple(shape), quant, data)
    found = rearranged(value, logical, stored, sizes)
    assert found.data is not None
    assert (found.shape, str(found.data.dtype)) == (found.data.shape, found.dtype)
    assert len(found.shape) == len(stored)
    np.testing.assert_array_equal(spread(meant(found), stored, sizes), spread(meant(value), logical, sizes))
    assert found.dtype == "int8" or (found.quant is None and kind in ("axis", "block"))
    if stored == logical:
        assert found is value
