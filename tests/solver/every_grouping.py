"""The fewest Reshapes of all orders and groupings: a solver for small graphs that knows no candidates.

As :mod:`tests.solver.every_layout`, which finds the orders that cost as little as an answer. In these every operator
has all rows of its forms: each grouping of its factors into stored dimensions, with dimensions of size 1 wherever they
may be. Every move between any two layouts of a variable has its price, as :mod:`layoutsolve.solver.statement.price`
shares them among readers. One model of CP-SAT has all of that at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, permutations, product

from ortools.sat.python import cp_model

from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.placed_rows import Frame, Placements
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.unenumerated_operators import Entry
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Arrangement, Price, Row
from tests.solver.every_layout import SLOTS, Orders, TooLargeError, cheapest_rows

ROWS = 1500
"""The most rows of all forms of an operator: with more, a graph is too large."""

Layouts = tuple[Layout, ...]


def lower_first(found: Assignment, limit: int, boundary: Boundary | None = None, seconds: float = 60.0) -> int | None:
    """The least of the first tier of all orders and groupings if it is below a limit, else None.

    The answer's bound as the limit is asked for quickly: few graphs have orders that come as low. Raises
    :class:`TooLargeError` where there are too many layouts, or too little time.
    """
    if limit <= 0:
        return None
    first = found.goal.levels[:1]
    try:
        return _Model(found, boundary, first, (limit - 1,), seconds).least(first[0], seconds)
    except ValueError:
        return None


def every_row(entry: Entry, statement: Statement, kept: set[Orders]) -> dict[Layouts, set[Price]]:
    """All rows of an operator in some orders, told apart by the layouts of what is no constant."""
    moving = [not statement.variables[variable].constant for variable in entry.ports]
    found: dict[Layouts, set[Price]] = defaultdict(set)
    for row in _rows(entry, statement, kept):
        layouts = tuple(layout if moves else () for moves, layout in zip(moving, row.layouts, strict=True))
        if tuple(map(order, layouts)) in kept:
            found[layouts].add(row.price)
            if len(found) > ROWS:
                raise TooLargeError
    return found


def _rows(entry: Entry, statement: Statement, kept: set[Orders]) -> Iterator[Row]:
    if entry.free:
        for axes in permutations(range(len(entry.free[0]))):
            yield Row(tuple(tuple(logical[axis] for axis in axes) for logical in entry.free))
    yield from entry.fixed
    if (relation := entry.relation) is None:
        return
    weigh, alternatives = relation.weigh, Alternatives(relation, unlimited())
    for maker in alternatives.makers:
        rows = _placed(maker, kept) if isinstance(maker, Placements) else _arranged(maker, kept)
        for row in rows:
            price = Price() if weigh is None else weigh(row)
            if price is not None and all(map(alternatives.candidate, range(len(entry.ports)), row.layouts)):
                yield replace(row, price=price + row.price)


def _arranged(maker, kept: set[Orders]) -> Iterator[Row]:
    if len(maker.slots) > SLOTS:
        raise TooLargeError
    most = max((port.units for port in maker.ports), default=0)
    for sequence in permutations(sorted(maker.slots)):
        finest = tuple((slot,) for slot in sequence)
        if not any(_orders(maker.ports, row) in kept for row in maker.rows(finest)):
            continue
        for groups in _cuts(sequence, maker.border):
            for arrangement in _with_units(groups, most):
                yield from maker.rows(arrangement)


def _placed(maker: Placements, kept: set[Orders]) -> Iterator[Row]:
    form = maker.form
    ways = []
    for key in maker.runs:
        slots = maker.logical(key)
        if len(slots) > SLOTS:
            raise TooLargeError
        ways.append(list(permutations(slots)) if form.free.issuperset(key) else [slots])
    if len(maker.around) > SLOTS:
        raise TooLargeError
    most = max((port.units for port in maker.ports), default=0)
    for sequence in permutations(sorted(maker.around)):
        for behind in range(len(sequence) + 1) if form.suffix else (0,):
            before, after = sequence[: len(sequence) - behind], sequence[len(sequence) - behind :]
            finest = tuple((slot,) for slot in before)
            for orders in product(*ways):
                if _orders(maker.ports, maker.row((Frame(finest, after), *orders))) not in kept:
                    continue
                for groups in _cuts(
                    before,
                    lambda left, right: any((left in port.atoms) != (right in port.atoms) for port in maker.ports),
                ):
                    for prefix in _with_units(groups, most) if form.prefix else (groups,):
                        yield maker.row((Frame(prefix, after), *orders))


def _orders(ports, row: Row) -> Orders:
    return tuple(() if port.constant else order(layout) for port, layout in zip(ports, row.layouts, strict=True))


def _cuts(sequence, border) -> Iterator[Arrangement]:
    """All ways to cut a sequence of slots that have every border."""
    may = [(True,) if border(*pair) else (False, True) for pair in pairwise(sequence)]
    for cuts in product(*may):
        groups: list[list] = []
        for index, slot in enumerate(sequence):
            if index and not cuts[index - 1]:
                groups[-1].append(slot)
            else:
                groups.append([slot])
        yield tuple(map(tuple, groups))


def _with_units(groups: Arrangement, most: int) -> Iterator[Arrangement]:
    """Some groups with up to so many dimensions of size 1 anywhere among them."""
    for count in range(most + 1):
        for places in combinations_with_replacement(range(len(groups) + 1), count):
            made: list = []
            for place in range(len(groups) + 1):
                made += [()] * places.count(place)
                made += groups[place : place + 1]
            yield tuple(made)


class _Model:
    """All rows of orders that cost no more than an answer's, and all moves between what is written and what is read, at
    most at some price.
    """

    def __init__(
        self, found: Assignment, boundary: Boundary | None, tiers: Levels, known: Sequence[int], seconds: float
    ) -> None:
        self.statement = statement = Statement(found.graph, boundary, found.goal)
        kept = zip(statement.entries, cheapest_rows(found, boundary, tiers, known, seconds), strict=True)
        rows = [every_row(entry, statement, orders) for entry, orders in kept]
        self.model = cp_model.CpModel()
        self.costs: list[tuple[Price, cp_model.IntVar]] = []
        self.chosen: list[list[tuple[Layouts, cp_model.IntVar]]] = []
        for each in rows:
            choices = []
            for layouts, prices in each.items():
                for price in prices:
                    choice = self.model.new_bool_var("")
                    choices.append((layouts, choice))
                    self.costs.append((price, choice))
            self.model.add_exactly_one(choice for _, choice in choices)
            self.chosen.append(choices)
        self.places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, entry in enumerate(statement.entries):
            for port, variable in enumerate(entry.ports):
                self.places[variable].append((number, port))
        for variable, each in enumerate(statement.variables):
            if not each.constant:
                self._moves(variable)
        for tier, value in zip(tiers, known, strict=True):
            self.model.add(self._total(tier) <= value)

    def _total(self, tier: Iterable[str]):
        names = tuple(tier)
        return sum(sum(getattr(price, name) for name in names) * paid for price, paid in self.costs)

    def _at(self, number: int, port: int) -> dict[Layout, cp_model.IntVar]:
        """Whether an operator has some layout at a port."""
        found: dict[Layout, list[cp_model.IntVar]] = defaultdict(list)
        for layouts, choice in self.chosen[number]:
            found[layouts[port]].append(choice)
        return {layout: sum(choices) for layout, choices in found.items()}

    def _moves(self, variable: int) -> None:
        """What a layout that is wanted costs: a move from what is written, where it is the first one of its order that
        is not written, else a Reshape.
        """
        statement, model = self.statement, self.model
        moved, timed = statement.variables[variable], statement.goal.timed
        written: dict[Layout, cp_model.IntVar] = {}
        wanted: dict[Layout, cp_model.IntVar] = {}
        for number, port in self.places[variable]:
            at = self._at(number, port)
            if port >= statement.entries[number].inputs:
                written = at
                continue
            for layout, choice in at.items():
                if layout not in wanted:
                    wanted[layout] = model.new_bool_var("")
                model.add(wanted[layout] >= choice)
        orders: dict[tuple[int, ...], list[Layout]] = defaultdict(list)
        for layout in wanted:
            orders[order(layout)].append(layout)
        for atoms, layouts in orders.items():
            first = {layout: model.new_bool_var("") for layout in layouts}
            apart = sum(choice for source, choice in written.items() if order(source) != atoms)
            for layout in layouts:
                model.add(first[layout] <= wanted[layout])
                model.add(sum(first.values()) >= wanted[layout] + apart - 1)
                again = model.new_bool_var("")
                model.add(again >= wanted[layout] - first[layout] - written.get(layout, 0))
                self.costs.append((statement.target.reshape_price(1, moved.turns, timed), again))
                prices: dict[Price, list[cp_model.IntVar]] = defaultdict(list)
                for source, choice in written.items():
                    if source != layout:
                        prices[statement.target.move_price(moved, source, layout, timed)].append(choice)
                for price, sources in prices.items():
                    paid = model.new_bool_var("")
                    model.add(paid >= first[layout] + sum(sources) - 1)
                    self.costs.append((price, paid))

    def least(self, tier: Iterable[str], seconds: float) -> int:
        """The least total of a tier."""
        self.model.minimize(self._total(tier))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            raise ValueError("no layouts cost as little as the answer")
        if status != cp_model.OPTIMAL:
            raise TooLargeError
        return round(solver.objective_value)
