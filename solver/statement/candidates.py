"""Candidate generation: the alternatives of all operators, found by propagating layouts to a fixed point.

It starts at what is fixed: the ends of the graph, explicit layouts, and operators with a fixed data format. Each of
their layouts is pushed through the relations of all operators that touch the variable, until nothing new appears.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from math import factorial

from layoutsolve.errors import OptionError
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.block_orders import BLOCKS, every_order
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.row_cache import Memoised
from layoutsolve.solver.statement.row_enumeration import AT_ONCE, ROWS, Alternatives
from layoutsolve.solver.statement.unenumerated_operators import Entry, Orders
from layoutsolve.solver.theory.layout import Layout, Order, finest, order, permuted
from layoutsolve.solver.theory.row import FREE, Row

PUSHED = 4
"""The work of pushing a layout through an operator that has no more rows for it."""

INTERMEDIATE = 4
"""How many times as many layouts a variable may have where slow moves may be made in two."""


class Candidates:
    """The alternatives of all operators that layouts lead to, each pushed through every operator that touches its
    variable.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        bare: LayoutProblem,
        limit: Limit,
        most: int,
        orders: bool = False,
        kept: Orders | None = None,
    ) -> None:
        """The problem is a ``bare`` one without operators, of layouts or of ``orders`` alone. A variable
        may have so many layouts at ``most``. Groupings are those of orders to be ``kept``, if there are some, which are
        suggested to operators that nothing else leads to them.
        """
        self.entries, self.bare, self.limit, self.most = entries, bare, limit, most
        self.orders, self.kept = orders, kept
        self.moving = [
            [port for port, each in enumerate(entry.ports) if not bare.variables[each].constant] for entry in entries
        ]
        self.wanted: list[set[tuple[Order, ...]]] = []
        self.wanted_orders: list[dict[Order, None]] = [{} for _ in bare.variables]
        for entry, ports, rows in zip(entries, self.moving, kept or (), strict=False):
            self.wanted.append({_orders(row, ports) for row in rows})
            for port in ports:
                self.wanted_orders[entry.ports[port]].update((order(row.layouts[port]), None) for row in rows)
        self.charged: frozenset[int] | None = None
        self.capped = False
        self.enough: int | None = None
        self.count = 0
        self.rows: list[list[Row]] = [[] for _ in entries]
        self.stated: list[Operator | None] = [None for _ in entries]
        self.tuples: dict[tuple[int, ...], tuple[Row, ...]] = {}
        self.memos: dict[Hashable, Memoised] = {}
        self.alternatives = [self._alternatives(number, limit) for number in range(len(entries))]
        self.seen: list[dict[Layout, None]] = [{} for _ in bare.variables]
        self.queue: deque[tuple[int, Layout]] = deque()
        self.touching: list[list[tuple[int, int]]] = [[] for _ in bare.variables]
        for number, entry in enumerate(entries):
            for port, variable in enumerate(entry.ports):
                self.touching[variable].append((number, port))

    def _alternatives(self, number: int, limit: Limit) -> Memoised | None:
        """The rows of an operator, found once for all that are alike; None for one that has no relation."""
        relation = self.entries[number].relation
        if relation is None:
            return None
        key = (limit, relation.alike)
        if key not in self.memos:
            exact = self.kept is not None
            most = ROWS if exact or self.orders else AT_ONCE
            self.memos[key] = Memoised(Alternatives(relation, limit, self.orders, exact, most), limit)
        return self.memos[key].copy(limit)

    def problem(self, enough: int | None = None) -> LayoutProblem:
        """The problem with the rows that all layouts together lead to. One of more rows than are ``enough`` is of no
        use: it ends, ``capped``, where it has them.
        """
        self.enough = enough
        for number, entry in enumerate(self.entries):
            found = self.alternatives[number]
            self._found(number, self._coarse(entry.fixed))
            self._found(number, () if found is None else found.ask(Alternatives.start))
        for variable, each in enumerate(self.bare.variables):
            for logical in each.readings.values():
                self._rearranged(variable, logical)
        self._exhaust()
        if self.kept is not None:
            self._reach(self.kept)
        return self._problem()

    def charging(
        self, charged: Collection[int], limit: Limit, most: int = BLOCKS, enough: int | None = None
    ) -> LayoutProblem:
        """The problem in which moves of some variables alone cost what they do, which have all orders of at ``most`` so
        many blocks. It goes on from the problem that is stated, whose operators it shares but for those that get more
        rows, and ends, ``capped``, where there are more of these than are ``enough``.
        """
        made = copy(self)
        made.limit, made.most = limit, max(self.most, factorial(most)) * INTERMEDIATE
        made.enough = self.enough if enough is None else enough
        made.alternatives = [each and each.copy(limit) for each in self.alternatives]
        made.rows, made.seen = list(map(list, self.rows)), list(map(dict, self.seen))
        made.stated, made.queue = list(self.stated), deque()
        made.charged = made._with_intermediate_orders(sorted(charged), most)
        return made._problem()

    def _problem(self) -> LayoutProblem:
        operators = tuple(self._operator(number) for number in range(len(self.entries)))
        self.capped |= self.limit.over
        return replace(self.bare, operators=operators, capped=self.capped, charged=self.charged)

    def _operator(self, number: int) -> Operator:
        """An operator with its rows and, last, those of the source model, which lead to nothing."""
        stated = self.stated[number]
        if stated is None:
            entry, found, rows = self.entries[number], self.alternatives[number], self.rows[number]
            if found is not None:
                ended = found.copy(self.limit)
                rows = rows + self._keeping(number, ended.ask(Alternatives.source))
                self.capped |= ended.capped
            if not rows and self.kept is None:
                refused = f"target '{self.bare.target.name}' refuses every row of {entry.op} of {entry.title}"
                raise OptionError(f"{refused}: choose another target")
            same = self.tuples.setdefault(tuple(map(id, rows)), tuple(rows))
            stated = self.stated[number] = entry.operator(same)
        return stated

    def _coarse(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows as they are told apart: by orders alone, or by groupings too."""
        return [replace(row, layouts=tuple(map(finest, row.layouts))) for row in rows] if self.orders else rows

    def _reach(self, kept: Orders) -> None:
        """Suggest orders to be kept to operators that no layout leads to them at no loss, or that were not found in
        time. Where every row loses, groupings of them may save Reshapes.
        """
        sure = unlimited()
        for number, rows in enumerate(kept):
            moving, found = self.moving[number], self.rows[number]
            if len(self.wanted[number]) == 1 and any(row.price is FREE or not _loses(row) for row in found):
                continue  # all of them have the one order that is kept
            easy = {_orders(row, moving) for row in found if not _loses(row)}
            lossy = [row for row in rows if _orders(row, moving) not in easy]
            if not lossy:
                continue
            asked = self._alternatives(number, sure) if self.capped else self.alternatives[number]
            for row in lossy:
                for port in moving:
                    for suggested in dict.fromkeys((finest(row.layouts[port]), row.layouts[port])):
                        self._found(number, self._pushed(number, port, suggested, asked))
            self._found(number, () if asked is None else asked.ask(Alternatives.rest))
            self._exhaust()

    def _exhaust(self) -> None:
        while self.queue:
            variable, layout = self.queue.popleft()
            for number, port in self.touching[variable]:
                if self.limit.over or (self.enough is not None and self.count > self.enough):
                    self.capped = True
                    self.queue.clear()
                    return
                self.limit.spend(PUSHED)
                self._found(number, self._pushed(number, port, layout, self.alternatives[number]))

    def _with_intermediate_orders(self, charged: Sequence[int], most: int) -> frozenset[int]:
        """Suggest all orders of some variables, and of what those lead to, of at most so many blocks; the variables
        that now have all of them.
        """
        while not self.capped:
            every = {variable: every_order(self.seen[variable], most) for variable in charged}
            charged = [variable for variable, orders in every.items() if orders is not None]
            fresh = [self._suggest(variable, each) for variable in charged for each in every[variable] or ()]
            if not any(fresh):
                break
            self._exhaust()
        return frozenset(charged)

    def _pushed(self, number: int, port: int, layout: Layout, found: Memoised | None) -> Sequence[Row]:
        if found is None:
            return self._coarse(self.entries[number].following(port, layout))
        return found.ask(Alternatives.push, port, layout)

    def _found(self, number: int, rows: Sequence[Row]) -> None:
        """Add rows to an operator, and suggest their layouts to all others that touch its variables."""
        entry = self.entries[number]
        for row in self._keeping(number, rows) if rows else ():
            self.limit.spend(len(entry.ports))
            if self.alternatives[number] is None and row in self.rows[number]:
                continue
            self.rows[number].append(row)
            self.count += 1
            self.stated[number] = None
            for variable, layout in zip(entry.ports, row.layouts, strict=True):
                self._suggest(variable, layout)

    def _keeping(self, number: int, rows: Iterable[Row]) -> list[Row]:
        """Those rows that have the orders to be kept."""
        kept, moving = self.kept, self.moving[number]
        return [row for row in rows if kept is None or _orders(row, moving) in self.wanted[number]]

    def _suggest(self, variable: int, layout: Layout) -> bool:
        """Have a layout pushed, unless it was, with what a Transpose makes of it; whether it is."""
        fresh = self._noted(variable, layout)
        if fresh:
            self._rearranged(variable, layout)
        return fresh

    def _rearranged(self, variable: int, layout: Layout) -> None:
        """Suggest the stored dimensions of a layout in all orders that are to be kept, if they are several: a Transpose
        that keeps these needs no Reshape.
        """
        orders = self.wanted_orders[variable]
        for wanted in orders if len(orders) > 1 else ():
            if (found := permuted(layout, wanted)) is not None:
                self._noted(variable, found)

    def _noted(self, variable: int, layout: Layout) -> bool:
        """The same of a layout alone, without what a Transpose makes of it."""
        seen = self.seen[variable]
        if self.bare.variables[variable].constant or layout in seen:
            return False
        if len(seen) >= self.most:
            self.capped = True
            return False
        seen[layout] = None
        self.queue.append((variable, layout))
        return True


def _orders(row: Row, ports: Sequence[int]) -> tuple[Order, ...]:
    return tuple(order(row.layouts[port]) for port in ports)


def _loses(row: Row) -> bool:
    """Whether a row costs more than Reshapes by itself."""
    price = row.price
    return bool(price.hidden or price.transposes or price.nanoseconds)
