"""The cheapest orders of all that there are: a solver for small graphs that knows no candidates.

Every operator has all rows of its forms: each order of the factors of its index space that the form allows. Every move
between any two orders of a variable has its price. One model of CP-SAT has all of that at once, so nothing is struck
out, pushed or decided before the rest. Groupings are chosen freely for each operator by itself, so that the result is a
lower bound where they cost something.

Of the solver under test it takes what a problem is made of (variables, the relations of operators), and the target's
prices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product

from ortools.sat.python import cp_model

from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Levels, coarse_levels, ranked
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.unenumerated_operators import Entry
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import CONTRIB_TARGET, DEFAULT_TARGET
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.relation import Arranged, Placed, Port
from layoutsolve.solver.theory.row import Arrangement, Price, Row, Slot
from layoutsolve.solver.theory.variable import Variable

ROWS = 2000
"""The most rows of all forms of an operator: with more, a graph is too large."""

SLOTS = 5
"""The most factors of an operator's index space."""

TARGETS = (DEFAULT_TARGET, CONTRIB_TARGET)
"""Those whose forms differ most."""

Orders = tuple[Order, ...]
"""An order for each port, () for constants."""


class TooLargeError(Exception):
    """A graph has more layouts than are enumerated."""


@dataclass(frozen=True)
class Cheapest:
    """The least price, by ``tiers``, the orders of each operator's ports that come to it, and what was ``known``."""

    ranks: tuple[int, ...]
    orders: tuple[Orders, ...]
    known: tuple[int, ...]

    @property
    def beats(self) -> bool:
        """Whether it is less than what was known."""
        return self.ranks < self.known


def tiers_of_orders(tiers: Levels) -> Levels:
    """The tiers that orders decide, or of which they decide a part."""
    coarse = coarse_levels(tiers)
    return tiers if coarse is None else coarse


def cheapest(found: Assignment, boundary: Boundary | None = None, seconds: float = 60.0) -> Cheapest:
    """The cheapest orders of the graph that an assignment is of; if that is called optimal, which cost no more.

    Raises :class:`TooLargeError` where there are too many, or too little time, and ValueError where the orders of an
    optimal assignment are not among all that there are.
    """
    statement = Statement(found.graph, boundary, found.goal)
    tiers = tiers_of_orders(found.goal.levels)
    known = ranked(found.price, tiers)
    rows = [every_row(entry, statement, tiers) for entry in statement.entries]
    return _Model(statement, rows, tiers).solved(known, found.status == "optimal", seconds)


def cheapest_rows(
    found: Assignment, boundary: Boundary | None, tiers: Levels, known: Sequence[int], seconds: float = 60.0
) -> list[set[Orders]]:
    """For each operator the orders of its ports that it has in any assignment that costs no more than ``known``.

    Raises as :func:`cheapest` does, ValueError where nothing costs as little.
    """
    statement = Statement(found.graph, boundary, found.goal)
    rows = [every_row(entry, statement, tiers) for entry in statement.entries]
    return _Model(statement, rows, tiers).all_as_cheap(known, seconds)


def every_row(entry: Entry, statement: Statement, tiers: Levels) -> dict[Orders, Price]:
    """All rows of an operator, told apart by orders, each at the least price of its groupings."""
    variables, target = statement.variables, statement.target
    found: dict[Orders, Price] = {}
    moving = [not variables[variable].constant for variable in entry.ports]
    for layouts, price in _priced(entry, variables, target, statement.goal.timed):
        orders = tuple(order(layout) if moves else () for moves, layout in zip(moving, layouts, strict=True))
        if orders not in found or ranked(price, tiers) < ranked(found[orders], tiers):
            found[orders] = price
        if len(found) > ROWS:
            raise TooLargeError
    return found


def _priced(
    entry: Entry, variables: Sequence[Variable], target: Target, timed: bool
) -> Iterator[tuple[tuple[Layout, ...], Price]]:
    if entry.free:
        whole = range(len(entry.free[0]))
        for axes in permutations(whole):
            yield tuple(tuple(logical[axis] for axis in axes) for logical in entry.free), Price()
    for row in entry.fixed:
        yield row.layouts, row.price
    if entry.rule is None or entry.relation is None:
        return
    kinds = tuple(target.named(entry.op, way) for way in entry.rule.ways)
    size = max((variables[variable].bytes for variable in entry.ports), default=0) if timed else 0
    weigh = target.weigh(entry.op, kinds, size, not any(port.unseen for port in entry.relation.ports))
    outputs = range(entry.inputs, len(entry.ports))
    for number, form in enumerate(entry.rule.forms):
        ports = entry.relation.own.get(number, entry.relation.ports)
        rows = (
            _arranged(ports, form, outputs, weigh is not None) if isinstance(form, Arranged) else _placed(ports, form)
        )
        own = form.price
        for layouts, arrangement in rows:
            price = Price() if weigh is None else weigh(Row(layouts, number, arrangement))
            if price is not None:
                yield layouts, price + own


def _arranged(
    ports: Sequence[Port], form: Arranged, outputs: range, grouped: bool
) -> Iterator[tuple[tuple[Layout, ...], Arrangement]]:
    """Every order of all slots; where their ``grouping`` has a price, in every grouping as well."""
    moving = [port for number, port in enumerate(ports) if number not in form.pinned]
    slots = sorted({slot for port in moving for slot in port.atoms})
    if len(slots) > SLOTS:
        raise TooLargeError
    for sequence in permutations(slots):
        together = [grouped and _share(ports, form, *pair) for pair in pairwise(sequence)]
        for joins in product(*((False, True) if may else (False,) for may in together)):
            arrangement = _cut(sequence, joins)
            yield (
                tuple(_layout(number, port, form, arrangement, number in outputs) for number, port in enumerate(ports)),
                arrangement,
            )


def _share(ports: Sequence[Port], form: Arranged, left: Slot, right: Slot) -> bool:
    """Whether two slots may lie in one stored dimension, one after the other."""
    if {left[0], right[0]} & form.alone or right[0] in form.heads:
        return False
    if left[0] in form.heads and right[0] not in form.tails:
        return False
    return all((left in port.atoms) == (right in port.atoms) for port in ports)


def _cut(sequence: Sequence[Slot], joins: Sequence[bool]) -> Arrangement:
    groups: list[list[Slot]] = []
    for index, slot in enumerate(sequence):
        if index and joins[index - 1]:
            groups[-1].append(slot)
        else:
            groups.append([slot])
    return tuple(map(tuple, groups))


def _layout(number: int, port: Port, form: Arranged, arrangement: Arrangement, written: bool) -> Layout:
    if number in form.pinned:
        return port.logical
    return tuple(
        tuple(atom for slot in group for atom in port.atoms.get(slot, ()))
        for group in arrangement
        if not (written and any(label in form.dropped for label, _ in group))
    )


def _placed(ports: Sequence[Port], form: Placed) -> Iterator[tuple[tuple[Layout, ...], Arrangement]]:
    """Every order of what surrounds the places, with every order of what is free in them."""
    slots = sorted({slot for port in ports for slot in port.atoms})
    own: dict[str, list[Slot]] = defaultdict(list)
    for slot in slots:
        own[slot[0]].append(slot)
    around = [slot for label in form.prefix for slot in own[label]]
    keys = sorted(
        {
            key
            for port in form.places
            for place in port
            for key in ((place,) if form.mixed else ((label,) for label in place))
        }
    )
    ways = []
    for key in keys:
        logical = tuple(slot for label in key for slot in own[label])
        ways.append([*permutations(logical)] if form.free.issuperset(key) else [logical])
        if len(logical) > SLOTS:
            raise TooLargeError
    if len(around) > SLOTS:
        raise TooLargeError
    for sequence in permutations(around):
        for behind in range(len(around) + 1) if form.suffix else (0,):
            cut = len(sequence) - behind
            for orders in product(*ways):
                chosen = dict(zip(keys, orders, strict=True))
                yield (
                    tuple(
                        _place(number, port, form, chosen, sequence[:cut], sequence[cut:])
                        for number, port in enumerate(ports)
                    ),
                    tuple((slot,) for slot in sequence[:cut]),
                )


def _place(
    number: int,
    port: Port,
    form: Placed,
    chosen: Mapping[tuple[str, ...], tuple[Slot, ...]],
    before: Sequence[Slot],
    behind: Sequence[Slot],
) -> Layout:
    inner = [
        slot
        for place in form.places[number]
        for key in ((place,) if form.mixed else ((label,) for label in place))
        for slot in chosen[key]
    ]
    sequence = inner if number in form.columns else [*before, *inner, *behind]
    return tuple(port.atoms.get(slot, ()) for slot in sequence)


class _Model:
    """All rows, and all moves between what is written and what is read."""

    def __init__(self, statement: Statement, rows: Sequence[Mapping[Orders, Price]], tiers: Levels) -> None:
        self.statement, self.rows, self.tiers = statement, rows, tiers
        self.model = cp_model.CpModel()
        self.weights = self._weights()
        self.costs: list[tuple[int, cp_model.IntVar]] = []
        self.chosen = [{orders: self.model.new_bool_var("") for orders in each} for each in rows]
        for choices, each in zip(self.chosen, rows, strict=True):
            self.model.add_exactly_one(choices.values())
            self.costs += [(cost, choices[orders]) for orders, price in each.items() if (cost := self._worth(price))]
        for variable in range(len(statement.variables)):
            if not statement.variables[variable].constant:
                self._moves(variable)

    def _weights(self) -> list[int]:
        """What one of each tier counts, so that a sum compares as the tiers do."""
        most = [1] * len(self.tiers)
        for each in self.rows:
            for place, values in enumerate(zip(*(ranked(price, self.tiers) for price in each.values()), strict=True)):
                most[place] += max(values)
        for entry in self.statement.entries:
            for variable in entry.ports[: entry.inputs]:
                for place, value in enumerate(self._dearest(self.statement.variables[variable])):
                    most[place] += value
        weights = [1]
        for value in reversed(most[1:]):
            weights.insert(0, weights[0] * value)
        return weights

    def _dearest(self, variable: Variable) -> tuple[int, ...]:
        if variable.constant:
            return (0,) * len(self.tiers)
        whole = tuple((atom,) for atom in range(len(variable.sizes)))
        prices = [self._move(variable, order(whole), one) for one in permutations(range(len(whole)))]
        return tuple(map(max, zip(*(ranked(price, self.tiers) for price in prices), strict=True)))

    def _move(self, variable: Variable, source: Order, target: Order) -> Price:
        layouts = (tuple((atom,) for atom in each) for each in (source, target))
        return self.statement.target.move_price(variable, *layouts, self.statement.goal.timed)

    def _worth(self, price: Price) -> int:
        return sum(weight * value for weight, value in zip(self.weights, ranked(price, self.tiers), strict=True))

    def _at(self, number: int, port: int) -> dict[Order, list[cp_model.IntVar]]:
        """The rows of an operator by the order that they have at a port."""
        found: dict[Order, list[cp_model.IntVar]] = defaultdict(list)
        for orders, choice in self.chosen[number].items():
            found[orders[port]].append(choice)
        return found

    def _moves(self, variable: int) -> None:
        """A move to an order costs what it does from the order that is written, as steps above cheaper ones."""
        readers, written = [], dict[Order, list[cp_model.IntVar]]()
        for number, entry in enumerate(self.statement.entries):
            for port, each in enumerate(entry.ports):
                if each == variable and port < entry.inputs:
                    readers.append(self._at(number, port))
                elif each == variable:
                    written = self._at(number, port)
        for wanted in sorted({orders for reader in readers for orders in reader}):
            below = 0
            moved = self.statement.variables[variable]
            costs = {source: self._worth(self._move(moved, source, wanted)) for source in written}
            for level in sorted({*costs.values()} - {0}):
                dear = [choice for source, cost in costs.items() if cost >= level for choice in written[source]]
                paid = self.model.new_bool_var("")
                for reader in readers:
                    if wanted in reader:
                        self.model.add(paid >= sum(dear) + sum(reader[wanted]) - 1)
                self.costs.append((level - below, paid))
                below = level

    def _total(self) -> cp_model.LinearExprT:
        return sum(cost * each for cost, each in self.costs)

    def _bound(self, known: Sequence[int]) -> None:
        """Leave out what costs more than what is known."""
        self.model.add(self._total() <= sum(weight * each for weight, each in zip(self.weights, known, strict=True)))

    def _decided(self, known: Sequence[int], seconds: float) -> cp_model.CpSolver:
        """The solver with an optimal choice of rows. Raises as :func:`cheapest` does."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            raise ValueError(f"no orders cost as little as {known}")
        if status != cp_model.OPTIMAL:
            raise TooLargeError
        return solver

    def all_as_cheap(self, known: Sequence[int], seconds: float) -> list[set[Orders]]:
        """For each operator the rows of all choices that cost as little, as many new ones at a time as there are."""
        self._bound(known)
        found: list[set[Orders]] = [set() for _ in self.chosen]
        while True:
            unseen = [
                choice
                for choices, seen in zip(self.chosen, found, strict=True)
                for orders, choice in choices.items()
                if orders not in seen
            ]
            self.model.maximize(sum(unseen))
            solver = self._decided(known, seconds)
            if not any(map(solver.boolean_value, unseen)):
                return found
            for choices, seen in zip(self.chosen, found, strict=True):
                seen.update(orders for orders, choice in choices.items() if solver.boolean_value(choice))

    def solved(self, known: Sequence[int], bounded: bool, seconds: float) -> Cheapest:
        """The cheapest choice of all rows; ``bounded`` says that it costs no more than what is ``known``."""
        if bounded:
            self._bound(known)
        self.model.minimize(self._total())
        solver = self._decided(known, seconds)
        left, ranks = round(solver.objective_value), []
        for weight in self.weights:
            ranks.append(left // weight)
            left %= weight
        orders = tuple(
            next(orders for orders, choice in choices.items() if solver.boolean_value(choice))
            for choices in self.chosen
        )
        return Cheapest(tuple(ranks), orders, tuple(known))
