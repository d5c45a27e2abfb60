"""Enumeration of the rows of one operator: layouts that are suggested at its ports lead to rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cache, partial
from itertools import chain

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.arranged_rows import Arrangements
from layoutsolve.solver.statement.placed_rows import Placements
from layoutsolve.solver.statement.unenumerated_operators import Relation
from layoutsolve.solver.theory.layout import Group, Layout, finest
from layoutsolve.solver.theory.relation import Arranged
from layoutsolve.solver.theory.row import FREE, Price, Row

ROWS = 4096
"""The most rows that one operator gets; a relation with more is cut off, and the problem says so."""

ROW = 9
"""The work of a row, for each of its layouts."""

MERGED = 16
"""What a merged dimension counts where prices tie: more than a conversion of what is better left joined."""

AT_ONCE = 256
"""The same where orders and groupings are decided at once."""


class Alternatives:
    """Enumerates the rows of one operator: each layout that is suggested at a port is pushed through all its forms.

    Rows of the same orders are one candidate where ``orders`` alone are told apart. With ``exact`` a fixed form is
    offered where its very layout is suggested; else, or where another form may have the same orders at another price,
    where its order is. The ``limit`` cuts rows off when it is over, and they are ``most`` at most.
    """

    def __init__(
        self,
        relation: Relation,
        limit: Limit,
        orders: bool = False,
        exact: bool = False,
        most: int = ROWS,
    ) -> None:
        self.relation, self.ports, self.weigh, self.limit = relation, relation.ports, relation.weigh, limit
        self.orders, self._most, self.capped = orders, most, False
        self._free: set[tuple[Layout, ...]] = set()
        self._priced: set[tuple[tuple[Layout, ...], Price]] = set()
        self._paid: dict[tuple[int, Layout], Price] = {}
        exact = exact and not (self.weigh and any(isinstance(form, Arranged) for form in relation.forms))
        self.makers = [
            Arrangements(relation, number, form, limit)
            if isinstance(form, Arranged)
            else Placements(relation, number, form, limit, exact)
            for number, form in enumerate(relation.forms)
        ]
        self.arranged = [maker for maker in self.makers if isinstance(maker, Arrangements)]
        self.placed = [maker for maker in self.makers if isinstance(maker, Placements)]
        estimated = self.ports if self.orders and self.placed else ()
        self._within = [cache(partial(_within, [*map(frozenset, port.logical)])) for port in estimated]
        source = [row.layouts for maker in self.arranged for row in maker.rows(maker.logical)]
        if isinstance(first := self.makers[0], Placements):
            source.append(first.row(first.source).layouts)
        self.units = [
            max(port.units, min((layouts[number].count(()) for layouts in source), default=0))
            for number, port in enumerate(self.ports)
        ]

    def copy(self) -> Alternatives:
        """The same, of which nothing was asked, as of this one."""
        made = copy(self)
        made._free, made._priced, made._paid = set(), set(), {}
        made.makers = [maker.copy() for maker in self.makers]
        made.arranged = [maker for maker in made.makers if isinstance(maker, Arrangements)]
        made.placed = [maker for maker in made.makers if isinstance(maker, Placements)]
        return made

    def spend_from(self, limit: Limit) -> None:
        """Have what follows spend from a limit, and be cut off when it is over."""
        self.limit = limit
        for maker in self.makers:
            maker.limit = limit

    def start(self) -> list[Row]:
        """The rows that the operator demands by itself: those of its first form, where that is fixed or priced."""
        maker = self.makers[0]
        demands = isinstance(maker, Placements) or self.weigh is not None
        return self.fresh(maker.start() if demands else ())

    def push(self, port: int, layout: Layout) -> list[Row]:
        """The rows that a layout suggested at a port makes possible, without those known already."""
        readings = tuple(self.ports[port].readings(layout))
        own = {number: tuple(ports[port].readings(layout)) for number, ports in self.relation.own.items()}
        pushed = (maker.push(port, layout, own.get(number, readings)) for number, maker in enumerate(self.makers))
        fresh = self.fresh(chain.from_iterable(pushed))
        return fresh if self.weigh is None else fresh + self.fresh(self._cheaper(port, layout))

    def _cheaper(self, port: int, layout: Layout) -> Iterator[Row]:
        """The rows of fixed forms that a layout has led to, but that have others, and lose less than what has it."""
        paid = self._paid.get((port, finest(layout) if self.orders else layout))
        if paid is None or paid == FREE:
            return
        for maker in self.placed:
            yield from maker.others(partial(self._beats, paid))

    def _beats(self, paid: Price, row: Row) -> bool:
        """Whether a row loses less inside than what is paid."""
        price = None if self.weigh is None else self.weigh(row)
        return price is not None and paid.slower(price)

    def rest(self) -> list[Row]:
        """The rows of fixed forms that are known, but that no layout has asked for."""
        return self.fresh(row for maker in self.placed for row in maker.start())

    def exactly(self, wanted: Row) -> list[Row]:
        """The row that is as a wanted one, if there is one. Rows that differ in their arrangement alone, by dimensions
        of size 1, are otherwise taken to be one: whichever is first.
        """
        if not 0 <= wanted.form < len(self.makers):
            return []
        return self.fresh([row for row in self.makers[wanted.form].exactly(wanted) if row.same(wanted)][:1])

    def source(self) -> list[Row]:
        """The rows in which every port has its logical order of dimensions, as the source model has them."""
        return self.fresh(row for maker in self.arranged for row in maker.rows(maker.logical))

    def fresh(self, rows: Iterable[Row]) -> list[Row]:
        """Those rows that are candidates and not known already, with their prices."""
        fresh: list[Row] = []
        for row in rows:
            self.limit.spend(ROW * (len(self.ports) + 1))
            layouts = self._key(row)
            if layouts in self._free:
                continue
            if len(self._free) + len(self._priced) >= self._most:
                self.capped = True
                return fresh
            if not self._fits(row):
                row = next(filter(self._fits, self._joined(row)), row)
                if (layouts := self._key(row)) in self._free or not self._fits(row):
                    continue
            price = FREE if self.weigh is None else self.weigh(row)
            if price is None:
                continue
            price = price if row.price is FREE else row.price + price
            if self.orders and isinstance(self.makers[row.form], Placements):
                price = self._estimated(row, price)
            if price == FREE:
                self._free.add(layouts)
            elif (layouts, price) in self._priced:
                continue
            else:
                self._priced.add((layouts, price))
            fresh.append(Row(layouts, row.form, row.arrangement, price))
            self._note(fresh[-1])
        return fresh

    def _key(self, row: Row) -> tuple[Layout, ...]:
        """What a row is told apart by."""
        return tuple([finest(layout) for layout in row.layouts]) if self.orders else row.layouts

    def _fits(self, row: Row) -> bool:
        return all(map(self.candidate, range(len(self.ports)), row.layouts))

    def _joined(self, row: Row) -> Iterator[Row]:
        """The rows with the order of one in as few dimensions as it can be stored in."""
        maker = self.makers[row.form]
        return maker.rows(maker.joined(row.arrangement)) if isinstance(maker, Arrangements) else iter(())

    def _note(self, row: Row) -> None:
        """Remember the least that a row with a layout loses inside."""
        hidden, nanoseconds = row.price.hidden, row.price.nanoseconds
        for place in enumerate(() if self.weigh is None else row.layouts):
            known = self._paid.get(place, row.price)
            if known is not FREE:
                least = min(known.hidden, hidden), min(known.nanoseconds, nanoseconds)
                self._paid[place] = Price(hidden=least[0], nanoseconds=least[1]) if any(least) else FREE

    def _estimated(self, row: Row, price: Price) -> Price:
        """The price with the ports at which a row of a fixed number of dimensions merges some that the source has."""
        merged = sum(
            not port.constant and not all(map(within, layout))
            for port, within, layout in zip(self.ports, self._within, row.layouts, strict=True)
        )
        return price + Price(regrouped=MERGED * merged) if merged else price

    def candidate(self, number: int, layout: Layout) -> bool:
        """Whether a layout is one for a port: no more dimensions of size 1 than there or in the source order's row."""
        port = self.ports[number]
        few = port.constant or layout.count(()) <= self.units[number]
        return few and port.expressible(layout)


def _within(logical: Sequence[frozenset[int]], group: Group) -> bool:
    """Whether a stored dimension lies within one of the source."""
    return any(whole.issuperset(group) for whole in logical)
