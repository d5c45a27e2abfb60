"""All orders of blocks, as candidates for intermediate orders: on the way between two others one slow Transpose
may be made as two faster ones.

Nobody demands an intermediate order. Data that moves from one order to another may be read by an operator in a third
one on its way: that pays where the two moves cost less than the one, or where several moves share the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, permutations

from layoutsolve.solver.theory.layout import Layout, finest, order

FEW_BLOCKS, BLOCKS = 4, 6
"""Of so few blocks all orders are candidates wherever they might help; there are 24. Of up to so many they are where
nothing else does; there are 720. Others get no exact conversion costs.
"""


def blocks(layouts: Iterable[Layout]) -> list[tuple[int, ...]]:
    """The atoms that stay together, and in one order, in all of some layouts of the same atoms."""
    orders = [order(layout) for layout in layouts]
    together = set.intersection(*(set(pairwise(atoms)) for atoms in orders)) if orders else set()
    found: list[tuple[int, ...]] = []
    for atom in orders[0] if orders else ():
        if found and (found[-1][-1], atom) in together:
            found[-1] = (*found[-1], atom)
        else:
            found.append((atom,))
    return found


def every_order(layouts: Iterable[Layout], most: int = BLOCKS) -> list[Layout] | None:
    """All orders of what stays together in some layouts, None where there are more than ``most`` blocks.

    No other order pays. Take one in which a block is apart, and put its atoms next to the one of them that is innermost
    there, if any is. Seen from an order in which the block is whole, that leaves the motion what it is, or makes it a
    simpler one with blocks as large.
    """
    found = blocks(layouts)
    return None if len(found) > most else [finest(each) for each in permutations(found)]
