"""Motions: what a Transpose does to the data, as a kernel sees it.

A motion depends on orders of atoms alone: neighbours that stay neighbours count as one, dimensions of size 1 as none,
and a size that is known by name only as one that may be anything. How dimensions are grouped does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

import numpy as np

from layoutsolve.ir.graph import Array, Dim
from layoutsolve.solver.theory.layout import Layout, order


class Motion(IntEnum):
    """``STILL`` moves nothing. ``SWAP``: two neighbouring blocks change places, the innermost dimension among them.
    ``ROWS``: the innermost dimensions stay together, so that blocks are copied. ``GENERAL``: anything else, which moves
    single elements in no simple order.
    """

    STILL = 0
    SWAP = 1
    ROWS = 2
    GENERAL = 3


def motion_of(places: Sequence[int]) -> tuple[Motion, int]:
    """Class of the permutation that makes adjacent what is at ``places``, a permutation of all places.

    The number is how many of the last stay together innermost, which are the blocks of ``ROWS``; 0 for other motions.
    """
    borders = [index for index, (left, right) in enumerate(pairwise([-1, *places])) if left + 1 != right]
    if not borders:
        return Motion.STILL, 0
    if places[-1] == len(places) - 1:
        return Motion.ROWS, len(places) - borders[-1]
    return (Motion.SWAP if len(borders) == 2 else Motion.GENERAL), 0


@lru_cache(maxsize=65536)
def motion_between(source: Layout, target: Layout) -> tuple[Motion, int]:
    """Class of the permutation between two layouts, and how many atoms stay together innermost where it copies
    blocks.
    """
    place = {atom: index for index, atom in enumerate(order(source))}
    return motion_of([place[atom] for atom in order(target)])


def as_layouts(shape: Sequence[Dim], permutation: Sequence[int]) -> tuple[list[Dim], Layout, Layout]:
    """A Transpose of a stored tensor as a move of atoms: their sizes, the layout before and the one after it."""
    atoms = {axis: number for number, axis in enumerate(axis for axis, dim in enumerate(shape) if dim != 1)}
    target = tuple((atoms[axis],) for axis in permutation if axis in atoms)
    return [shape[axis] for axis in atoms], tuple((number,) for number in range(len(atoms))), target


_LOOKED_UP = 64
"""Up to so many pairs of layouts are looked up one by one; more are compared at once."""


def motions_between(sources: Sequence[Layout], targets: Sequence[Layout]) -> list[bytes]:
    """For each source the classes of the permutations to each of the targets, a byte each; all have the same atoms."""
    if len(sources) * len(targets) <= _LOOKED_UP:
        return [bytes(motion_between(source, target)[0] for target in targets) for source in sources]
    found = []
    for places, borders in _places(sources, targets):
        motions = _BY_BORDERS[np.minimum(borders.sum(1), len(_BY_BORDERS) - 1)]
        motions[(places[:, -1:] == places.shape[1] - 1).any(1) & borders.any(1)] = Motion.ROWS
        found.append(motions.tobytes())
    return found


def together_between(sources: Sequence[Layout], targets: Sequence[Layout]) -> list[bytes]:
    """For each source how many atoms stay together innermost on the way to each of the targets, a byte each: 0 where
    that copies no blocks.
    """
    if len(sources) * len(targets) <= _LOOKED_UP:
        return [bytes(motion_between(source, target)[1] for target in targets) for source in sources]
    found = []
    for places, borders in _places(sources, targets):
        together = (borders[:, ::-1].cumsum(1) == 0).sum(1) + 1
        together[(places[:, -1:] != places.shape[1] - 1).any(1) | ~borders.any(1)] = 0
        found.append(together.astype(np.uint8).tobytes())
    return found


def _places(sources: Sequence[Layout], targets: Sequence[Layout]) -> Iterator[tuple[Array, Array]]:
    """For each source where the atoms of each target lie in it, and which of them do not follow those before."""
    given, wanted = (np.array([order(layout) for layout in layouts], np.int16) for layouts in (sources, targets))
    for row in np.argsort(given, axis=1).astype(np.int16):
        places = row[wanted]
        yield places, np.diff(places, axis=1, prepend=np.int16(-1)) != 1


_BY_BORDERS = np.array([Motion.STILL, Motion.SWAP, Motion.SWAP, Motion.GENERAL], np.uint8)
"""The motion by how many places do not follow the one before, where the last does not stay; 1 never occurs."""
