"""Stops: orders between two others, at which one slow Transpose may be made in two faster ones.

Nobody demands a stop. Data that moves from one order to another may be read by an operator in a third one on its way:
that pays where the two moves cost less than the one, or where several moves share the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, pairwise, permutations, product
from operator import le

from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.motion import motion_between, motion_of

Places = tuple[int, ...]
"""An order relative to another one: for each atom, from the outermost to the innermost, where that other has it."""

FEW = 4
"""Of up to so many atoms, or blocks of atoms that stay together, all orders are looked at."""


def places(source: Layout, target: Layout) -> Places:
    """A layout's order relative to that of another one."""
    place = {atom: index for index, atom in enumerate(order(source))}
    return tuple(place[atom] for atom in order(target))


def stops(written: Sequence[Layout], wanted: Sequence[Layout], lost: bytes) -> list[Layout]:
    """The orders to which a move from one of those ``written``, and from which one to one of those ``wanted``, loses
    less than the move between the two. ``lost`` has what each motion loses. Of many atoms the nearest ones alone.
    """
    found: dict[Layout, None] = {}
    for source, target in product(written, wanted):
        atoms = order(source)
        for each in _stops(places(source, target), lost):
            found.setdefault(tuple((atoms[place],) for place in each))
    if all(len(order(stop)) <= FEW for stop in found):
        return list(found)
    around = list(dict.fromkeys((*written, *wanted)))
    losses = [bytes(lost[motion_between(each, stop)[0]] for each in around) for stop in found]
    return _best(list(found), losses)


def _best(found: Sequence[Layout], costs: Sequence[Sequence[int]]) -> list[Layout]:
    """Those of which no other costs at most as much to and from everything around, and less somewhere."""
    best: list[int] = []
    for number in sorted(range(len(found)), key=lambda number: (sum(costs[number]), number)):
        mine = costs[number]
        if not any(costs[other] != mine and all(map(le, costs[other], mine)) for other in best):
            best.append(number)
    return [found[number] for number in best]


@lru_cache(maxsize=4096)
def _stops(target: Places, lost: bytes) -> tuple[Places, ...]:
    most = lost[motion_of(target)[0]]
    if not most:
        return ()
    return tuple(
        found
        for found in _between(target)
        if lost[motion_of(found)[0]] < most and lost[motion_of(_relative(found, target))[0]] < most
    )


def timed_stops(
    written: Sequence[Layout], wanted: Sequence[Layout], spent: Callable[[Layout, Layout], int]
) -> list[Layout]:
    """As :func:`stops`, by the time that moves take."""
    found: dict[Layout, None] = {}
    for source, target in product(written, wanted):
        most, atoms = spent(source, target), order(source)
        for each in _between(places(source, target)):
            stop = tuple((atoms[place],) for place in each)
            if stop not in found and spent(source, stop) < most and spent(stop, target) < most:
                found[stop] = None
    if all(len(order(stop)) <= FEW for stop in found):
        return list(found)
    costs = [[*(spent(each, stop) for each in written), *(spent(stop, each) for each in wanted)] for stop in found]
    return _best(list(found), costs)


def _relative(source: Places, target: Places) -> Places:
    place = {atom: index for index, atom in enumerate(source)}
    return tuple(place[atom] for atom in target)


def _between(target: Places) -> Iterator[Places]:
    """Orders that may be stops: all of them, or all of blocks that stay together on the way, or of very many blocks
    those that differ from either end in two neighbouring blocks that change places, the innermost among them. Any
    motion is such a change of places and one that leaves what is innermost where it is.
    """
    if len(target) <= FEW:
        yield from permutations(range(len(target)))
        return
    starts = [0, *(index for index, (left, right) in enumerate(pairwise(target), 1) if left + 1 != right), len(target)]
    there = [target[start:end] for start, end in pairwise(starts)]
    here = sorted(there)
    if len(here) <= FEW:
        orders: Iterator[Sequence[Places]] = permutations(here)
    else:
        orders = (swapped for blocks in (here, there) for swapped in _swapped(blocks))
    for blocks in orders:
        yield tuple(place for block in blocks for place in block)


def _swapped(blocks: Sequence[Places]) -> Iterator[Sequence[Places]]:
    for first, second in combinations(range(len(blocks)), 2):
        yield (*blocks[:first], *blocks[second:], *blocks[first:second])
