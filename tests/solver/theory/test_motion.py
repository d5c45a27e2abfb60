"""Motions, against what a Transpose does to numbered elements."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.ir.graph import Dim, symbol
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.motion import Motion, as_layouts, motion_between, motions_between, together_between
from layoutsolve.solver.theory.move import move


def done_by(shape: tuple[int, ...], permutation: tuple[int, ...]) -> tuple[Motion, int]:
    """What a Transpose does, seen from the elements alone, and how many of them stay together."""
    moved = np.arange(np.prod(shape)).reshape(shape).transpose(permutation).ravel()
    count = len(moved)
    together = next((size for size in range(1, count) if moved[size] != moved[0] + size), count)
    if np.array_equal(moved, np.arange(count)):
        return Motion.STILL, count
    if moved[1] == moved[0] + 1:
        return Motion.ROWS, together
    swaps = [
        np.arange(count).reshape(outer, first, -1).transpose(0, 2, 1).ravel()
        for outer in range(1, count + 1)
        if count % outer == 0
        for first in range(2, count // outer)
        if (count // outer) % first == 0
    ]
    return (Motion.SWAP if any(np.array_equal(moved, swap) for swap in swaps) else Motion.GENERAL), 1


def random_layout(random: np.random.Generator, atoms: int) -> Layout:
    """Any order and grouping of so many atoms, dimensions of size 1 among them."""
    sequence = random.permutation(atoms).tolist()
    cuts = sorted(random.integers(0, atoms + 1, int(random.integers(0, atoms + 2))).tolist())
    return tuple(tuple(sequence[start:end]) for start, end in zip([0, *cuts], [*cuts, atoms], strict=True))


def test_dimensions_of_size_1_are_no_atoms() -> None:
    assert as_layouts((2, 1, 3), (2, 1, 0)) == ([2, 3], ((0,), (1,)), ((1,), (0,)))


@pytest.mark.parametrize("atoms", range(9))
def test_many_pairs_at_once_are_as_one_by_one(atoms: int) -> None:
    random = np.random.default_rng(atoms)
    layouts = [random_layout(random, atoms) for _ in range(40)]
    for sources, targets in ((layouts, layouts), (layouts[:3], layouts), (layouts[:2], layouts[:2]), ([], layouts)):
        expected = [bytes(motion_between(source, target)[0] for target in targets) for source in sources]
        assert motions_between(sources, targets) == expected
        expected = [bytes(motion_between(source, target)[1] for target in targets) for source in sources]
        assert together_between(sources, targets) == expected


@pytest.mark.members(100)
@pytest.mark.parametrize("seed", range(400))
def test_what_the_written_transpose_does(seed: int) -> None:
    """Whatever sizes larger than 1 symbols stand for, and whether a shape or a move of atoms is looked at."""
    random = np.random.default_rng(seed)
    atoms = int(random.integers(0, 6))
    source, target = random_layout(random, atoms), random_layout(random, atoms)
    sizes: list[Dim] = [symbol(f"n{atom}") if random.random() < 0.4 else 2 + atom % 2 for atom in range(atoms)]
    put_in = [size if isinstance(size, int) else int(random.integers(2, 4)) for size in sizes]
    steps = move(source, target, rigid=bool(seed % 2))
    motion, together = motion_between(source, target)
    if steps.perm is None:
        assert motion == Motion.STILL
        return
    before = steps.split or source
    block = int(np.prod([put_in[atom] for atom in order(target)[atoms - together :]]))
    shape = tuple(int(size) for size in stored_shape(before, put_in))  # type: ignore[arg-type]
    assert done_by(shape, steps.perm) == (motion, block)
    _, first, second = as_layouts(stored_shape(before, sizes), steps.perm)
    assert motion_between(first, second)[0] == motion


@pytest.mark.parametrize(
    ("shape", "permutation", "motion", "block"),
    [
        ((2, 5, 5, 3), (0, 1, 2, 3), Motion.STILL, 150),
        ((1, 5, 1, 3), (2, 1, 0, 3), Motion.STILL, 15),
        ((1, 5, 6, 3), (0, 3, 1, 2), Motion.SWAP, 1),
        ((7, 5, 6, 3), (0, 2, 3, 1), Motion.SWAP, 1),
        ((7, 5, 6, 3), (2, 3, 0, 1), Motion.SWAP, 1),
        ((1, 5, 4, 3), (0, 2, 1, 3), Motion.ROWS, 3),
        ((2, 5, 4, 3, 6), (0, 2, 1, 3, 4), Motion.ROWS, 18),
        ((2, 5, 4, 1), (0, 2, 1, 3), Motion.SWAP, 1),
        ((4, 5, 6), (2, 1, 0), Motion.GENERAL, 1),
        ((2, 4, 5, 6, 7), (0, 1, 4, 2, 3), Motion.SWAP, 1),
        ((2, 4, 5, 6, 7), (1, 0, 3, 2, 4), Motion.ROWS, 7),
        ((2, 4, 5, 6), (1, 0, 3, 2), Motion.GENERAL, 1),
    ],
)
def test_motions_of_shapes(shape: tuple[int, ...], permutation: tuple[int, ...], motion: Motion, block: int) -> None:
    assert done_by(shape, permutation) == (motion, block)
    _, source, target = as_layouts(shape, permutation)
    assert motion_between(source, target)[0] == motion


def test_a_size_that_is_known_by_name_is_no_unit() -> None:
    """A batch that is known by name moves like any other dimension."""
    for permutation, motion in (((3, 0, 1, 2), Motion.SWAP), ((1, 0, 3, 2), Motion.GENERAL)):
        for batch in (symbol("batch"), 7):
            _, source, target = as_layouts((batch, 3, 4, 5), permutation)
            assert motion_between(source, target)[0] == motion
