"""All groupings of an operator's slots, in one sequence that these have, and those with a given layout at a port.

What a port shows leaves open how slots lie together that it does not have: only that they take the dimensions of size 1
which are where these slots belong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import comb

from layoutsolve.solver.statement.arranger import Arranger
from layoutsolve.solver.statement.placer import Key, Placer
from layoutsolve.solver.theory.layout import Group, Layout, interspersed
from layoutsolve.solver.theory.relation import parted
from layoutsolve.solver.theory.row import Arrangement, Row, Slot

Slots = tuple[Slot, ...]
"""Slots one after the other."""


class Filling(ABC):
    """A form with its slots in one sequence: those of an Arranged one, of a Placed one those before its places.

    ``number`` is the form's. An *even* one may have each slot by itself at no loss, and shows all of them at each port.
    """

    def __init__(self, number: int, slots: Slots, even: bool) -> None:
        self.number, self.slots, self.even = number, slots, even
        self.finest: Arrangement = tuple((slot,) for slot in slots)
        self._known: dict[tuple[int, int], list[tuple[Slots, tuple[Group, ...]]]] = {}

    @abstractmethod
    def rows(self, grouping: Arrangement) -> Iterator[Row]:
        """The rows of a grouping."""

    @abstractmethod
    def shown(self, port: int, layout: Layout) -> Layout | None:
        """The part of a layout at a port that the grouping makes up; None where the form does not have the rest."""

    @abstractmethod
    def opens(self, port: int) -> bool:
        """Whether the layout at a port has to do with the grouping at all."""

    @abstractmethod
    def stored(self, port: int, run: Slots) -> tuple[Group, ...]:
        """The dimensions in which a port stores slots that lie together."""

    @abstractmethod
    def joined(self, left: Slot, right: Slot) -> bool:
        """Whether two slots, one after the other, may lie together."""

    def short(self, port: int) -> bool:
        """Whether a port may leave out leading dimensions of size 1."""
        return False

    def count(self, extra: int) -> int:
        """No fewer than :meth:`groupings` gives."""
        joins = sum(self.joined(*pair) for pair in pairwise(self.slots))
        return int(2**joins) * comb(len(self.slots) + 1 + extra, extra)

    def groupings(self, extra: int) -> Iterator[Arrangement]:
        """All groupings, with up to so many dimensions of size 1 that no slot is in."""
        return self._groupings(self.slots, extra)

    def having(self, port: int, layout: Layout, most: int) -> Iterator[Arrangement]:
        """The groupings with a layout at a port; at most so many dimensions of size 1 are in what it leaves out."""
        wanted = self.shown(port, layout)
        if wanted is None:
            return
        yield from self._from(port, wanted, 0, 0)
        if not self.short(port) or (wanted and not wanted[0]):
            return
        for count in range(len(self.slots) + 1):
            if count and self.stored(port, self.slots[count - 1 : count]) != ((),):
                break
            for rest in self._from(port, wanted, 0, count):
                if not rest or any(self.stored(port, rest[0])):
                    leading = self._groupings(self.slots[:count], most)
                    yield from ((*before, *rest) for before in leading if before)

    def _from(self, port: int, wanted: Layout, at: int, first: int) -> Iterator[Arrangement]:
        """The groupings of the slots from the first one on that are stored as the dimensions from one on."""
        if first == len(self.slots):
            if not any(wanted[at:]):
                yield ((),) * (len(wanted) - at)
            return
        if at < len(wanted) and not wanted[at]:
            yield from (((), *rest) for rest in self._from(port, wanted, at + 1, first))
        for run, stored in self._runs(port, first):
            if wanted[at : at + len(stored)] == stored:
                rests = self._from(port, wanted, at + len(stored), first + len(run))
                yield from ((run, *rest) for rest in rests)

    def _runs(self, port: int, first: int) -> Sequence[tuple[Slots, tuple[Group, ...]]]:
        """What may lie together from a slot on, and the dimensions in which a port stores it."""
        found = self._known.get((port, first))
        if found is None:
            found = self._known[port, first] = []
            for end in range(first + 1, len(self.slots) + 1):
                run = self.slots[first:end]
                if len(run) > 1 and not self.joined(run[-2], run[-1]):
                    break
                found.append((run, self.stored(port, run)))
        return found

    def _groupings(self, slots: Slots, extra: int) -> Iterator[Arrangement]:
        may = [self.joined(*pair) for pair in pairwise(slots)]
        for joins in product(*((False, True) if each else (False,) for each in may)):
            starts = [0, *(place for place, join in enumerate(joins, 1) if not join), len(slots)]
            groups = [slots[start:end] for start, end in pairwise(starts)] if slots else []
            for count in range(extra + 1):
                yield from interspersed(groups, count)


class ArrangedFilling(Filling):
    """A form whose slots may come in any arrangement."""

    def __init__(self, number: int, slots: Slots, even: bool, maker: Arranger) -> None:
        super().__init__(number, slots, even)
        self.maker = maker

    def rows(self, grouping: Arrangement) -> Iterator[Row]:
        return self.maker.rows(grouping)

    def shown(self, port: int, layout: Layout) -> Layout | None:
        return layout if self.opens(port) else None

    def opens(self, port: int) -> bool:
        return port not in self.maker.form.pinned

    def stored(self, port: int, run: Slots) -> tuple[Group, ...]:
        return self.maker.stored(port, run)

    def joined(self, left: Slot, right: Slot) -> bool:
        return not self.maker.border(left, right)

    def short(self, port: int) -> bool:
        return self.maker.short(port)


class PlacedFilling(Filling):
    """A form with something before its places, in any arrangement, in front of places with some orders, and with
    ``behind`` after them.
    """

    def __init__(
        self,
        number: int,
        before: Slots,
        behind: Slots,
        orders: Mapping[Key, Slots],
        moving: Collection[int],
        maker: Placer,
    ) -> None:
        super().__init__(number, before, even=not maker.form.prefix)
        self.behind, self.orders, self.maker = behind, orders, maker
        self._places = next(self.rows(())).layouts
        self._open = frozenset(moving) - maker.form.columns if maker.form.prefix else frozenset[int]()

    def rows(self, grouping: Arrangement) -> Iterator[Row]:
        yield self.maker.row(grouping, self.behind, self.orders)

    def shown(self, port: int, layout: Layout) -> Layout | None:
        cut = len(layout) - len(self._places[port])
        return layout[:cut] if self.opens(port) and cut >= 0 and layout[cut:] == self._places[port] else None

    def opens(self, port: int) -> bool:
        return port in self._open

    def stored(self, port: int, run: Slots) -> tuple[Group, ...]:
        return (self.maker.ports[port].expand(run),)

    def joined(self, left: Slot, right: Slot) -> bool:
        return not parted(self.maker.ports, left, right)
