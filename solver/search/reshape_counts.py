"""How many Reshapes are beside the Transposes between many layouts of one variable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise

from layoutsolve.solver.theory.layout import Layout, Order, order, permuted
from layoutsolve.solver.theory.move import Pattern, alone_in, pattern_of, turned

Dimensions = tuple[Layout, int]
"""Stored dimensions, and how many more are of size 1."""

Near = tuple[int, int, Sequence[Layout] | None, Sequence[Layout]]
"""A number of Reshapes, what the Transpose loses as it is hindered, the layouts from which it does, None for all, and
those to which it does.
"""


def near(
    written: Iterable[Layout], wanted: Collection[Layout], rigid: bool, hindrance: Callable[[Layout, Layout], int]
) -> list[Near]:
    """How many Reshapes are beside the Transpose from some layouts, by default all, to some of one order; of a
    ``rigid`` tensor it may be hindered instead.

    A move takes none where whole dimensions change places, one where a layout has no dimension that the other's order
    tears, else two (:func:`~layoutsolve.solver.theory.move.move`). So which take none is looked up by what dimensions
    there are, and not each layout compared with each.
    """
    atoms = order(next(iter(wanted)))
    groups = by_order(written)
    groups.pop(atoms, None)
    beside = {each: frozenset(pairwise(each)) for each in (*groups, atoms)}
    sources = [*chain(*groups.values())]
    whole_dimensions = (source for source in sources if joined(source) <= beside[atoms])
    untorn = {source: stored for source in whole_dimensions if (stored := permuted(source, atoms)) is not None}
    alike: dict[Dimensions, list[tuple[Layout, Pattern, tuple[int, ...]]]] = {}
    for source, stored in untorn.items():
        alike.setdefault(_dimensions(stored), []).append((source, pattern_of(source), turned(source, stored)))
    found: list[Near] = []
    within = dict[tuple[Order, ...], list[Layout]]()
    for target in wanted:
        pattern, turns = pattern_of(target), alike.get(_dimensions(target), ())
        whole = dict[int, list[Layout]]()
        for source, given, turn in turns:
            free = alone_in(given, turn, pattern)
            if free or rigid:
                whole.setdefault(0 if free else hindrance(source, target), []).append(source)
        found += [(0, lost, some, [target]) for lost, some in whole.items()]
        if sum(map(len, whole.values())) < len(sources):
            pairs = joined(target)
            within.setdefault(tuple([each for each in groups if pairs <= beside[each]]), []).append(target)
    far: list[Layout] = []
    for orders, targets in within.items():
        reached = dict.fromkeys(chain(untorn, *(groups[each] for each in orders)))
        found.append((1, 0, None if len(reached) == len(sources) else list(reached), targets))
        far += targets if len(reached) < len(sources) else []
    return [*found, (2, 0, None, far)] if far else found


@lru_cache(maxsize=65536)
def joined(layout: Layout) -> frozenset[tuple[int, int]]:
    """The atoms that lie one after the other in one dimension: an order in which some of them do not tears it."""
    return frozenset(pair for group in layout for pair in pairwise(group))


def _dimensions(layout: Layout) -> Dimensions:
    """What is stored in the dimensions of a layout, and how many are of size 1."""
    return tuple(filter(None, layout)), layout.count(())


def by_order(layouts: Iterable[Layout]) -> dict[Order, list[Layout]]:
    """Layouts by their order."""
    found: dict[Order, list[Layout]] = {}
    for layout in layouts:
        found.setdefault(order(layout), []).append(layout)
    return found
