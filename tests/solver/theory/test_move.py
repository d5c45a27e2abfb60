"""Moves between layouts take as few Reshapes as there can be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest

from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.move import alone, hindered, move


def groupings(atoms: Order) -> Iterator[Layout]:
    """An order cut into stored dimensions in every way."""
    for cuts in product((False, True), repeat=len(atoms) - 1):
        ends = [0, *(place for place, cut in enumerate(cuts, 1) if cut), len(atoms)]
        yield tuple(atoms[start:end] for start, end in pairwise(ends))


def interspersed(groups: Layout, count: int) -> Iterator[Layout]:
    """Some dimensions in their sequence, with so many of size 1 anywhere among them."""
    for places in combinations_with_replacement(range(len(groups) + 1), count):
        found = list[tuple[int, ...]]()
        for place in range(len(groups) + 1):
            found += [()] * places.count(place)
            found += groups[place : place + 1]
        yield tuple(found)


def some_layouts(random: np.random.Generator, atoms: int, count: int) -> list[Layout]:
    """Layouts of a few orders, with up to three dimensions of size 1."""
    orders = [tuple(map(int, random.permutation(atoms))) for _ in range(3)]
    found = []
    for _ in range(count):
        ways = list(groupings(orders[random.integers(len(orders))]))
        units = list(interspersed(ways[random.integers(len(ways))], int(random.integers(4))))
        found.append(units[random.integers(len(units))])
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("atoms", [2, 3, 4])
def test_moves_take_the_fewest_reshapes(atoms: int) -> None:
    """Of all ways with one Transpose: a Reshape on neither side, on one, or on both."""
    source_order = tuple(range(atoms))
    sources = list(groupings(source_order))
    for wanted in permutations(source_order):
        targets = list(groupings(wanted)) if wanted != source_order else []
        for source, target in product(sources, targets):
            by_one = any(sorted(each) == sorted(target) for each in sources) or any(
                sorted(source) == sorted(each) for each in targets
            )
            fewest = 0 if sorted(source) == sorted(target) else 1 if by_one else 2
            steps = move(source, target)
            assert steps.reshapes == fewest, (source, target)
            stored = steps.split or source
            moved = tuple(stored[axis] for axis in steps.perm or ())
            assert (order(stored), order(moved), steps.target or moved) == (source_order, wanted, target)


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(20))
def test_transposes_are_as_fast_as_what_they_move_allows(seed: int) -> None:
    """Nothing of size 1 is in the way of what a move writes, however it is grouped."""
    random = np.random.default_rng(seed)
    sources, targets = some_layouts(random, 4, 30), some_layouts(random, 4, 30)
    for source, target in product(sources, targets):
        steps = move(source, target)
        assert steps.perm is None or not hindered(steps.split or source, steps.perm), (source, target)
        rigid = move(source, target, rigid=True)
        assert rigid.perm is None or rigid.hindered == hindered(rigid.split or source, rigid.perm), (source, target)
        assert rigid.reshapes + rigid.hindered <= steps.reshapes <= rigid.reshapes + 2 * rigid.hindered


@pytest.mark.parametrize("atoms", [2, 3])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_a_transpose_is_enough_wherever_there_is_one(atoms: int, units: int) -> None:
    """Of all permutations that have dimensions of size 1 where they are wanted."""
    finest = tuple((atom,) for atom in range(atoms))
    sources = list(interspersed(finest, units))
    perms = [(perm, source) for source in sources for perm in permutations(range(atoms + units))]
    known = {(source, tuple(source[axis] for axis in perm)) for perm, source in perms if not hindered(source, perm)}
    for source, wanted in product(sources, permutations(finest)):
        for target in interspersed(wanted, units):
            if order(source) != order(target):
                assert alone(source, target) == (move(source, target).reshapes == 0) == ((source, target) in known)
