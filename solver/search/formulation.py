"""One component of a layout problem as a linear program in zeros and ones.

A variable per open row of an operator, exactly one of which is 1. For each variable of the problem and each order in
which it is read there are *moves*, one for all sources from which it costs alike, which is 1 only where one of these is
written: each reader that wants the order needs that it is written, or one of the moves. This is the formulation of
facility location: its linear relaxation is nearly always integral.

Where groupings count, ``given[layout]`` is 1 where a move delivers a layout. One of these is what the Transpose ends
in: there is a ``first`` for all to which it takes so many Reshapes from the same layouts, which is 1 only where one of
them is delivered and one of those is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from layoutsolve.ir.graph import Array
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.integer_program import FIELDS, Literals, Program, Row, Terms
from layoutsolve.solver.search.presolve import Component
from layoutsolve.solver.statement.objective import Levels, grouping
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import Price

Reads = Mapping[Layout, Literals | None]
"""The literals under which a place has each of its layouts; None where it always has."""

LOOKED_AT, TERM, PRICE = 5, 3, 5
"""How many layouts are looked at in a unit of work, and the work of stating a term of a constraint, and of a price."""

CONSTRAINTS, TERMS = 30_000, 600_000
"""The most constraints of a program that is stated, and terms in them: CP-SAT takes 5 to 8 kB for each constraint of a
few terms, and its relaxation 0.2 kB for each term where layouts are many.
"""


class Formulation:
    """States the program of a component."""

    def __init__(
        self,
        problem: LayoutProblem,
        domains: Sequence[Sequence[int]],
        component: Component,
        levels: Levels,
        limit: Limit,
    ) -> None:
        self.problem, self.domains, self.limit = problem, domains, limit
        self.reshapes = grouping(levels)
        self.count = self.size = 0
        self.choices: dict[tuple[int, int], int] = {}
        self.exactly: list[Literals] = []
        self.rows: list[Row] = []
        self.terms: dict[str, Terms] = {name: [] for name in FIELDS}
        for number in component.operators:
            self._operator(number)
        for variable in component.variables:
            if not self.complete:
                break
            self._variable(variable)

    def program(self) -> Program:
        """The program."""
        return Program(self.count, self.choices, self.exactly, self.rows, self.terms)

    @property
    def complete(self) -> bool:
        """Whether it has all that it is of: neither is the limit over, nor is it too large to be solved."""
        small = len(self.rows) + len(self.exactly) <= CONSTRAINTS and self.size <= TERMS
        return small and not self.limit.over

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def _row(self, terms: Terms, least: int) -> None:
        """A sum is at least a number."""
        self.limit.spend(TERM * len(terms))
        self.size += len(terms)
        total = dict(terms)
        if len(total) < len(terms):
            total = dict.fromkeys(total, 0)
            for literal, weight in terms:
                total[literal] += weight
        self.rows.append((list(total.items()), least, False))

    def _operator(self, number: int) -> None:
        literals = []
        for row in self.domains[number]:
            literal = self.choices[number, row] = self._new()
            literals.append(literal)
            self._charge(literal, self.problem.operators[number].rows[row].price)
        self.exactly.append(literals)

    def _variable(self, variable: int) -> None:
        """The moves of one variable, given the layouts in which it may be written and read."""
        written = self._literals([self.problem.writers[variable]])[0]
        readers = self._literals(self.problem.readers[variable])
        layouts = sorted({layout for reader in readers for layout in reader})
        self.limit.spend((len(layouts) * len(readers) + sum(map(len, readers))) // LOOKED_AT)
        supplies, demands = by_order(written), sorted(by_order(layouts).items())
        prices, numbers = self.problem.move_classes(variable, list(written), [members[0] for _, members in demands])
        ones = {layout: None if each is None else [(one, 1) for one in each] for layout, each in written.items()}
        for (atoms, members), column in zip(demands, numbers.T, strict=True):
            self.limit.spend(len(members) * len(written) // LOOKED_AT)
            if not self.complete:
                return
            supply = [written[layout] for layout in supplies.get(atoms, ())]
            moves = self._moves(variable, _needs(readers, members), supply, [*ones.values()], prices, column)
            if self.reshapes:
                given = {layout: self._given(variable, readers, written, layout) for layout in members}
                sources = {each: prices[number].hidden for each, number in zip(ones, column, strict=True) if number}
                self._group(variable, ones, given, moves, sources)

    def _literals(self, places: Sequence[tuple[int, int] | None]) -> list[Reads]:
        """What each place (an operator's port) has its layouts by."""
        result: list[Reads] = []
        for place in places:
            if place is None:
                continue
            number, port = place
            found: dict[Layout, Literals | None] = {}
            rows = self.problem.operators[number].rows
            for row in self.domains[number]:
                literal = self.choices.get((number, row))
                known = found.setdefault(rows[row].layouts[port], [] if literal is not None else None)
                if known is not None and literal is not None:
                    known.append(literal)
            result.append({next(iter(found)): None} if len(found) == 1 else found)
        return result

    def _moves(
        self,
        variable: int,
        needs: Sequence[Literals | None],
        supply: Sequence[Literals | None],
        written: Sequence[Terms | None],
        prices: Sequence[Price],
        column: Array,
    ) -> Literals:
        """The moves of a variable into an order that some readers need, each charged for its Transpose; none where it
        is always written or never wanted. ``column`` has the number of the price from each layout that is ``written``,
        0 from those of the order, which ``supply`` it.
        """
        if not needs or None in supply or not column.any():
            return []
        costs = {number: (prices[number].hidden, prices[number].nanoseconds) for number in {*column.tolist()} - {0}}
        moves, dearest = list[int](), tuple(map(max, zip(*costs.values(), strict=True)))
        for number, cost in sorted(costs.items()):
            moves.append(move := self._new())
            if self.reshapes or cost != dearest:
                self._only(move, [written[place] for place in np.flatnonzero(column == number).tolist()])
            self._charge(move, prices[number])
            self._part(move, variable, not self.reshapes)
        self._serve([*(literal for some in supply for literal in some or ()), *moves], needs)
        return moves

    def _charge(self, literal: int, price: Price) -> None:
        for name, terms in self.terms.items():
            if weight := getattr(price, name):
                terms.append((literal, weight))

    def _part(self, literal: int, variable: int, counts: bool = True) -> None:
        """Charge what parts something that is better left joined, where prices tie."""
        self._charge(literal, Price(regrouped=int(counts and self.problem.variables[variable].joined)))

    def _only(self, literal: int, sources: Sequence[Terms | None]) -> None:
        """A literal is 1 only where one of some layouts is written."""
        if None not in sources:
            self._row([*(term for each in sources for term in each or ()), (literal, -1)], 0)

    def _serve(self, served: Literals, needs: Iterable[Literals | None]) -> None:
        """Whatever is needed has to be served."""
        for need in needs:
            wanted = [] if need is None else [(literal, -1) for literal in need]
            self._row([*((literal, 1) for literal in served), *wanted], int(need is None))

    def _group(
        self,
        variable: int,
        written: Mapping[Layout, Terms | None],
        given: Mapping[Layout, int | None],
        moves: Literals,
        sources: Mapping[Layout, int],
    ) -> None:
        """Charge the groupings of one order of a variable: a Reshape for every one that is ``given`` but that which the
        Transpose ends in, and those beside the Transpose, which may lose more than the price of its order has it.
        """
        delivered = [literal for literal in given.values() if literal is not None]
        self._regrouped(variable, [(literal, 1) for literal in delivered])
        if not moves:
            return
        moved = [(move, -1) for move in moves]
        self._regrouped(variable, moved)
        self._row([*((literal, 1) for literal in delivered), *moved], 0)
        ends: dict[tuple[int, int, tuple[Layout, ...]], list[Layout]] = {}
        for target in given:
            for cost, near in self._beside(variable, target, sources).items():
                ends.setdefault((*cost, tuple(near)), []).append(target)
        firsts = []
        for (reshapes, hidden, near), targets in ends.items() if any(each[:2] != (0, 0) for each in ends) else ():
            literal, whole = self._new(), [given[target] for target in targets]
            firsts.append(literal)
            if None not in whole:
                self._row([*((each, 1) for each in whole if each is not None), (literal, -1)], 0)
            if len(near) < len(sources):
                self._only(literal, [written[source] for source in near])
            if reshapes:
                self._regrouped(variable, [(literal, reshapes)])
            self._charge(literal, Price(hidden=hidden))
        if firsts:
            self._row([*((literal, 1) for literal in firsts), *moved], 0)

    def _beside(
        self, variable: int, target: Layout, sources: Mapping[Layout, int]
    ) -> Mapping[tuple[int, int], Sequence[Layout]]:
        """The Reshapes beside a Transpose to a layout and what it loses beyond the price of its order, each with the
        layouts from which it does.
        """
        found: dict[tuple[int, int], list[Layout]] = {}
        self.limit.spend(PRICE * len(sources))
        for source, alone in sources.items():
            price = self.problem.move_price(variable, source, target)
            found.setdefault((price.reshapes, price.hidden - alone), []).append(source)
        return found

    def _regrouped(self, variable: int, terms: Terms) -> None:
        """Charge Reshapes of a variable, and their time."""
        self.terms["reshapes"] += terms
        moved = self.problem.variables[variable]
        each = self.problem.target.reshape_price(1, moved.turns, self.problem.timed).nanoseconds
        if each:
            self.terms["nanoseconds"] += [(literal, weight * each) for literal, weight in terms]

    def _given(self, variable: int, readers: Sequence[Reads], written: Reads, layout: Layout) -> int | None:
        """A literal that is 1 where some reader wants a layout that is not written; None where that is never so."""
        needs = _needs(readers, [layout])
        supply = written.get(layout, [])
        if not needs or supply is None:
            return None
        literal = self._new()
        self._part(literal, variable)
        self._serve([*supply, literal], needs)
        return literal


def _needs(readers: Iterable[Reads], members: Sequence[Layout]) -> list[Literals | None]:
    """What each reader that may want one of some layouts wants it by; None for one that always does: that is enough."""
    found: list[Literals | None] = []
    for reader in readers:
        wants = [reader[layout] for layout in members if layout in reader]
        if None in wants:
            return [None]
        if wants:
            found.append([literal for literals in wants for literal in literals or ()])
    return found


def by_order(layouts: Iterable[Layout]) -> dict[Order, list[Layout]]:
    """Layouts by their order."""
    found: dict[Order, list[Layout]] = {}
    for layout in layouts:
        found.setdefault(order(layout), []).append(layout)
    return found
