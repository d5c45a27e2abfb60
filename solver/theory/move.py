"""Moves: how a stored tensor gets from one layout into another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.theory.layout import Group, Layout, Order, order, whole
from layoutsolve.solver.theory.motion import Motion, motion_of

Pattern = tuple[bool, ...]
"""Which stored dimensions are of more than size 1."""


@dataclass(frozen=True)
class Move:
    """How a stored tensor gets from one layout into another: Reshape to ``split``, Transpose by ``perm``, Reshape to
    ``target``.

    Each step is None where it is not needed. Of a ``hindered`` one the Transpose is slower than what it moves, as
    dimensions of size 1 are in its way.
    """

    split: Layout | None
    perm: tuple[int, ...] | None
    target: Layout | None
    hindered: bool = False

    @property
    def transposes(self) -> int:
        return int(self.perm is not None)

    @property
    def reshapes(self) -> int:
        return int(self.split is not None) + int(self.target is not None)


@lru_cache(maxsize=65536)
def move(source: Layout, target: Layout, rigid: bool = False) -> Move:
    """The cheapest way from ``source`` to ``target``: one Transpose at most, flanked by Reshapes only where an atom is
    hidden, or where dimensions of size 1 would keep a runtime from seeing what is simple about it.

    A ``rigid`` tensor is spared the second kind: its Transpose is hindered instead.
    """
    if source == target:
        return Move(None, None, None)
    if order(source) == order(target):
        return Move(None, None, target)
    split = _split(source, order(target))
    if split is not None:
        solid = whole(target, order(source))
        split = split if solid is None else _with_units(solid, target)
    before = source if split is None else split
    perm = _transposed(before, target)
    slow = hindered(before, perm)
    if _permuted(before, perm) != target or (slow and not rigid):
        return Move(split, _carrying(before, perm), target)
    return Move(split, perm, None, slow)


def _split(source: Layout, wanted: Order) -> Layout | None:
    """``source`` without its unit dimensions, cut wherever ``wanted`` tears a stored dimension; None where it tears
    none.
    """
    following = dict(pairwise(wanted))
    pieces: list[Group] = []
    for group in source:
        start = 0
        for index in range(1, len(group)):
            if following.get(group[index - 1]) != group[index]:
                pieces.append(group[start:index])
                start = index
        if group:
            pieces.append(group[start:])
    return None if sum(map(bool, source)) == len(pieces) else tuple(pieces)


def _with_units(pieces: Layout, target: Layout) -> Layout:
    """The dimensions of size 1 of ``target`` put in, each behind the piece that it follows there."""
    result = list(pieces)
    place = 0
    for group in target:
        if group:
            place = next(index for index, piece in enumerate(result) if group[-1] in piece) + 1
        else:
            result.insert(place, ())
            place += 1
    return tuple(result)


def _transposed(source: Layout, target: Layout) -> tuple[int, ...]:
    """The permutation of whole stored dimensions into the order of ``target``, dimensions of size 1 placed as there,
    and beside their neighbours in ``source`` as far as possible, or wherever they are in no way.
    """
    place = {group[0]: index for index, group in enumerate(source) if group}
    solid = [place[atom] for atom in order(target) if atom in place]
    units = [index for index, group in enumerate(source) if not group]
    perm: list[int] = []
    for group in target:
        if group and solid:
            perm.append(solid.pop(0))
        elif not group and units:
            beside = (perm[-1] + 1 if perm else 0, solid[0] - 1 if solid else -1)
            perm.append(next((index for index in beside if index in units), units[0]))
            units.remove(perm[-1])
    perm += solid + units
    return (hindered(source, perm) and _swapped(source, target)) or tuple(perm)


def _swapped(source: Layout, target: Layout) -> tuple[int, ...] | None:
    """The permutation by which two neighbouring blocks change places, None where that does not make the target."""
    axes = range(len(source))
    starts, ends = _alike(source, target), _alike(source[::-1], target[::-1])
    for first, last in product(range(starts + 1), range(len(source) - ends, len(source) + 1)):
        for cut in range(first + 1, last):
            if source[cut:last] + source[first:cut] == target[first:last]:
                return (*axes[:first], *axes[cut:last], *axes[first:cut], *axes[last:])
    return None


def _alike(source: Layout, target: Layout) -> int:
    """How many dimensions two layouts have in common from the first one on."""
    return next(
        (place for place, pair in enumerate(zip(source, target, strict=False)) if pair[0] != pair[1]), len(source)
    )


def _permuted(source: Layout, perm: Sequence[int]) -> Layout:
    return tuple([source[axis] for axis in perm])


def _carrying(source: Layout, perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation in which each dimension of size 1 stays behind the one that it follows, or in front."""
    carried: list[int] = []
    for axis in [-1, *(axis for axis in perm if source[axis])]:
        carried.append(axis)
        while carried[-1] + 1 < len(source) and not source[carried[-1] + 1]:
            carried.append(carried[-1] + 1)
    return tuple(carried[1:])


def hindered(source: Layout, perm: Sequence[int]) -> bool:
    """Whether dimensions of size 1 keep a runtime from seeing that a Transpose is none that moves single elements in no
    simple order. It sees past those in front and at the end, if they stay.
    """
    if () not in source:
        return False
    axes = list(perm)
    while axes and axes[-1] == len(axes) - 1 and not source[axes[-1]]:
        axes.pop()
    if motion_of(axes)[0] != Motion.GENERAL:
        return False
    solid = [axis for axis in axes if source[axis]]
    ranks = {axis: rank for rank, axis in enumerate(sorted(solid))}
    return motion_of([ranks[axis] for axis in solid])[0] != Motion.GENERAL


def alone(source: Layout, target: Layout) -> bool:
    """Whether a Transpose alone is enough between two layouts of the same dimensions."""
    return alone_in(pattern_of(source), turned(source, target), pattern_of(target))


def pattern_of(layout: Sequence[tuple[int, ...]]) -> Pattern:
    """Which dimensions of a layout are of more than size 1."""
    return tuple(map(bool, layout))


def turned(source: Layout, target: Layout) -> tuple[int, ...]:
    """Where each dimension of more than size 1 of a layout lies among those of another one, which has the same."""
    places = {group: place for place, group in enumerate(filter(None, source))}
    return tuple([places[group] for group in target if group])


def filled(pattern: Pattern, solid: Sequence[Group]) -> Layout:
    """The layout of some dimensions in such places."""
    rest = iter(solid)
    return tuple([next(rest) if each else () for each in pattern])


@lru_cache(maxsize=65536)
def alone_in(given: Pattern, turn: tuple[int, ...], wanted: Pattern) -> bool:
    """Whether a Transpose alone is enough between any layouts whose dimensions of more than size 1 are in such places,
    where those of the second one are ``turn`` among those of the first.
    """
    if all(given) or motion_of(turn)[0] is Motion.GENERAL:  # no dimension of size 1 hinders what is general anyway
        return True
    source = filled(given, [(place,) for place in range(len(turn))])
    return not hindered(source, _transposed(source, filled(wanted, [(place,) for place in turn])))
