"""Layouts: how the elements of a tensor lie in memory.

A tensor is a product of *atoms*, numbered from 0. A :data:`Layout` lists its stored dimensions from the outermost to
the innermost, each a group of atoms in row-major order. An atom never has size 1, so a stored dimension of size 1 is
the empty group, and size-1 dimensions carry no order. With atoms N=0, H=1, W=2, C=3::

    ((0,), (1,), (2,), (3,))    NHWC
    ((0,), (3,), (1,), (2,))    NCHW
    ((0,), (3, 1, 2))           NCHW, flattened to two dimensions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations_with_replacement, pairwise
from typing import TypeVar

from layoutsolve.graph import Dim, Shape, product
from layoutsolve.records import dataclass

Group = tuple[int, ...]
Layout = tuple[Group, ...]
Order = tuple[int, ...]
Item = TypeVar("Item")


def order(layout: Layout) -> Order:
    """The atoms from the outermost to the innermost; what a Transpose changes and a Reshape does not."""
    return tuple(chain.from_iterable(layout))


def finest(layout: Layout) -> Layout:
    """The layout of the same order in which every atom is a stored dimension of its own: what stands for an order."""
    return tuple([_ALONE[atom] for group in layout for atom in group])


class _Alone(dict[int, Group]):
    """The group of each atom by itself: one object for all layouts, which a search has a great many of."""

    def __missing__(self, atom: int) -> Group:
        return self.setdefault(atom, (atom,))


_ALONE = _Alone()


def stored_shape(layout: Layout, sizes: Sequence[Dim]) -> Shape:
    """The shape of the stored tensor, given the size of every atom."""
    return tuple(product(sizes[atom] for atom in group) for group in layout)


def grouped(atoms: Iterable[int], counts: Iterable[int]) -> Layout:
    """The layout that cuts a sequence of atoms into stored dimensions of the given numbers of atoms."""
    rest = iter(atoms)
    return tuple(tuple(next(rest) for _ in range(count)) for count in counts)


@dataclass(frozen=True)
class Move:
    """How a stored tensor gets from one layout into another: Reshape to ``split``, Transpose by ``perm``, Reshape to
    ``target``.

    Each step is None where it is not needed.
    """

    split: Layout | None
    perm: tuple[int, ...] | None
    target: Layout | None

    @property
    def transposes(self) -> int:
        return int(self.perm is not None)

    @property
    def reshapes(self) -> int:
        return int(self.split is not None) + int(self.target is not None)


@lru_cache(maxsize=65536)
def move(source: Layout, target: Layout, rigid: bool = False) -> Move:
    """The cheapest way from ``source`` to ``target``: one Transpose at most, flanked by Reshapes only where an atom is
    hidden, or where dimensions of size 1 would keep a runtime from seeing that two blocks change places.

    A ``rigid`` tensor has so many symbolic sizes that a Reshape cannot state them: it is spared the second kind.
    """
    if source == target:
        return Move(None, None, None)
    if order(source) == order(target):
        return Move(None, None, target)
    split = _split(source, order(target))
    if split is None:
        perm = _transposed(source, target)
        if not rigid and _blocks(source, perm) > _fewest_blocks(order(source), order(target)):
            split = _with_units(tuple(filter(None, source)), target)
            if tuple(split[axis] for axis in _transposed(split, target)) == target:
                perm = _transposed(split, target)
            else:
                split, perm = None, _carrying(source, perm)
    else:
        split = _with_units(_whole(target, order(source)) or split, target)
        perm = _transposed(split, target)
    before = source if split is None else split
    moved = tuple(before[axis] for axis in perm)
    return Move(split, perm, None if moved == target else target)


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


def _whole(layout: Layout, wanted: Order) -> Layout | None:
    """The stored dimensions of a layout in another order of atoms, without those of size 1; None where it tears one."""
    rank = {atom: index for index, atom in enumerate(wanted)}
    solid = tuple(sorted(filter(None, layout), key=lambda group: rank[group[0]]))
    return solid if order(solid) == wanted else None


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
    and beside their neighbours in ``source`` as far as possible.
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
    return (*perm, *solid, *units)


def _carrying(source: Layout, perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation in which each dimension of size 1 stays behind the one that it follows, or in front."""
    carried: list[int] = []
    for axis in [-1, *(axis for axis in perm if source[axis])]:
        carried.append(axis)
        while carried[-1] + 1 < len(source) and not source[carried[-1] + 1]:
            carried.append(carried[-1] + 1)
    return tuple(carried[1:])


def _blocks(source: Sequence[Group], perm: Sequence[int]) -> int:
    """How many blocks a permutation moves, dimensions in front or of size 1 at the end not counted if they stay."""
    axes = list(perm)
    while axes and axes[-1] == len(axes) - 1 and not source[axes[-1]]:
        axes.pop()
    while axes and axes[0] == len(perm) - len(axes):
        axes.pop(0)
    return sum(left + 1 != right for left, right in pairwise(axes)) + 1


@lru_cache(maxsize=4096)
def _fewest_blocks(source: Order, target: Order) -> int:
    """How many blocks change places between two orders."""
    return _blocks([(atom,) for atom in source], [source.index(atom) for atom in target])


def whole_dimensions(logical: Layout, wanted: Layout) -> Layout | None:
    """The permutation of whole logical dimensions that comes in the order of ``wanted``, None where it tears one.

    Dimensions of size 1 go where ``wanted`` has them if it has as many, else first.
    """
    solid = _whole(logical, order(wanted))
    if solid is None:
        return None
    units = logical.count(())
    if tuple(filter(None, wanted)) == solid and wanted.count(()) == units:
        return wanted
    return ((),) * units + solid


def permuted(layout: Layout, wanted: Order) -> Layout | None:
    """The stored dimensions of a layout in another order of atoms, None where it tears one.

    Dimensions of size 1 stay at their places.
    """
    solid = _whole(layout, wanted)
    if solid is None:
        return None
    rest = iter(solid)
    return tuple(next(rest) if group else () for group in layout)


def with_units(layout: Layout) -> Iterator[Layout]:
    """The stored dimensions of a layout with those of size 1 anywhere among the others."""
    yield from interspersed([group for group in layout if group], layout.count(()))


@lru_cache(maxsize=65536)
def transposed_alone(source: Layout, target: Layout) -> tuple[Layout, ...]:
    """The layouts, beside ``target`` all that have its dimensions of size 1 elsewhere, between which and ``source`` a
    Transpose alone is enough one way or the other. The two have the same dimensions.
    """
    return tuple(each for each in with_units(target) if alone(source, each) or alone(each, source))


def alone(source: Layout, target: Layout) -> bool:
    """Whether a Transpose alone is enough between two layouts of the same dimensions."""
    places = {group: place for place, group in enumerate(filter(None, source))}
    return _alone(tuple(map(bool, source)), tuple(places.get(group, -1) for group in target))


@lru_cache(maxsize=65536)
def _alone(solid: tuple[bool, ...], wanted: tuple[int, ...]) -> bool:
    """The same for which dimensions are of more than size 1, and where each of these is wanted; -1 is of size 1."""
    numbers = iter(range(len(solid)))
    source = tuple((next(numbers),) if each else () for each in solid)
    target = tuple((each,) if each >= 0 else () for each in wanted)
    return _blocks(source, _transposed(source, target)) <= _fewest_blocks(order(source), order(target))


def interspersed(groups: Sequence[tuple[Item, ...]], count: int) -> Iterator[tuple[tuple[Item, ...], ...]]:
    """Some groups in their sequence, with so many empty ones anywhere among them."""
    for places in combinations_with_replacement(range(len(groups) + 1), count):
        found: list[tuple[Item, ...]] = []
        for place in range(len(groups) + 1):
            found += [()] * places.count(place)
            found += groups[place : place + 1]
        yield tuple(found)


def permutation(logical: Layout, stored: Layout) -> tuple[int, ...]:
    """The permutation of whole dimensions that makes ``stored`` of ``logical``; equal ones keep their order."""
    rest: list[tuple[int, ...] | None] = list(logical)
    axes = []
    for group in stored:
        axes.append(rest.index(group))
        rest[axes[-1]] = None
    return tuple(axes)
