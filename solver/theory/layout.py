"""Layouts: how the elements of a tensor lie in memory.

A tensor is a product of *atoms*, numbered from 0. A :data:`Layout` lists its stored dimensions from the outermost to
the innermost, each a group of atoms in row-major order. An atom never has size 1, so a stored dimension of size 1 is
the empty group, and size-1 dimensions carry no order. With atoms N=0, H=1, W=2, C=3::

    ((0,), (1,), (2,), (3,))    NHWC
    ((0,), (3,), (1,), (2,))    NCHW
    ((0,), (3, 1, 2))           NCHW, flattened to two dimensions
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from layoutsolve.ir.graph import Dim, Shape, product

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


def whole(layout: Layout, wanted: Order) -> Layout | None:
    """The stored dimensions of a layout in another order of atoms, without those of size 1; None where it tears one."""
    starts = {group[0]: group for group in layout if group}
    solid, place, size = [], 0, len(wanted)
    while place < size:
        group = starts.get(wanted[place], ())
        end = place + len(group)
        if not group or wanted[place:end] != group:
            return None
        solid.append(group)
        place = end
    return tuple(solid) if len(solid) == len(starts) else None


def whole_dimensions(logical: Layout, wanted: Layout) -> Layout | None:
    """The permutation of whole logical dimensions that comes in the order of ``wanted``, None where it tears one.

    Dimensions of size 1 go where ``wanted`` has them if it has as many, else first.
    """
    solid = whole(logical, order(wanted))
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
    solid = whole(layout, wanted)
    return None if solid is None else in_place(layout, solid)


def in_place(layout: Layout, solid: Layout) -> Layout:
    """The stored dimensions of a layout replaced by others, one after the other, but for those of size 1."""
    if len(solid) == len(layout):
        return solid
    rest = iter(solid)
    return tuple([next(rest) if group else () for group in layout])


def permutation(logical: Layout, stored: Layout) -> tuple[int, ...]:
    """The permutation of whole dimensions that makes ``stored`` of ``logical``; equal ones keep their order."""
    rest: list[tuple[int, ...] | None] = list(logical)
    axes = []
    for group in stored:
        axes.append(rest.index(group))
        rest[axes[-1]] = None
    return tuple(axes)
