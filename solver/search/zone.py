"""The part of a problem whose choices Reshapes depend on.

A solution that makes Reshapes in some variables only has none elsewhere, which is the fewest there can be. What is
chosen elsewhere matters where layouts lead from there to those variables: through operators that pass a grouping on.
Many do not. A convolution has each of its dimensions stored apart, so that whatever lies behind it is no concern of
what lies before it. An operator is a *border* at a port where all rows that it has to choose from have one layout. On
either side of borders the cheapest choices are made independently of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.records import dataclass
from layoutsolve.solver.statement.entry import Entry, Orders
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.layout import Group, Layout, Order, order
from layoutsolve.solver.theory.relation import Placed, Port

Place = tuple[int, int]
"""An operator and one of its ports."""


@dataclass(frozen=True)
class Zone:
    """Operators whose choices count, ``free``, and those that are borders to them, ``fixed``, in ascending order, and
    the variables between them.
    """

    free: tuple[int, ...]
    fixed: tuple[int, ...]
    variables: tuple[int, ...]

    @property
    def operators(self) -> list[int]:
        """All operators of the zone, in ascending order."""
        return sorted((*self.free, *self.fixed))


def zone_of(entries: Sequence[Entry], problem: LayoutProblem, rows: Sequence[int], kept: Orders) -> Zone:
    """The zone of the Reshapes that a solution makes, where each operator has the orders of some rows to choose from.

    ``entries`` are what the problem was stated from.
    """
    parts = Zones(entries, problem, kept).parts(rows)
    free = {number for part in parts for number in part.free}
    fixed = {number for part in parts for number in part.fixed} - free
    variables = {variable for part in parts for variable in part.variables}
    return Zone(tuple(sorted(free)), tuple(sorted(fixed)), tuple(sorted(variables)))


class Zones:
    """Variables that are connected by operators which are no borders between them.

    Each operator has the orders of some rows to choose from, ``kept``; ``entries`` are what the problem is stated from.
    """

    def __init__(self, entries: Sequence[Entry], problem: LayoutProblem, kept: Orders) -> None:
        self.entries, self.problem, self.kept = entries, problem, kept
        self.borders: dict[Place, bool] = {}

    def parts(self, rows: Sequence[int]) -> list[Zone]:
        """The zones of the Reshapes that a solution makes: what is chosen in one is no concern of the others."""
        begun = [
            (number, self._passes(number))
            for number in range(len(self.problem.operators))
            if chosen(self.problem, rows, number).price.reshapes
        ]
        moved = ([each] for each in self.problem.moving() if price_of_variable(self.problem, rows, each).reshapes)
        found, known = list[Zone](), set[int]()
        for number, variables in [*begun, *((None, each) for each in moved)]:
            if not variables or known.isdisjoint(variables):
                found.append(self._part(number, variables))
                known.update(found[-1].variables)
        return found

    def _part(self, number: int | None, variables: Sequence[int]) -> Zone:
        """What is connected with some variables, and an operator that they are at."""
        free = set[int]() if number is None else {number}
        found, waiting = dict.fromkeys(variables), list(variables)
        while waiting:
            for number, port in self.problem.places(waiting.pop()):
                if number not in free and not self._border(number, port):
                    free.add(number)
                    fresh = [variable for variable in self._passes(number) if variable not in found]
                    found.update(dict.fromkeys(fresh))
                    waiting += fresh
        touching = {number for variable in found for number, _ in self.problem.places(variable)}
        return Zone(tuple(sorted(free)), tuple(sorted(touching - free)), tuple(sorted(found)))

    def neighbours(self, number: int) -> set[int]:
        """The operators whose choices have to do with those of this one, by some variable between the two."""
        places = (place for variable in self._passes(number) for place in self.problem.places(variable))
        return {other for other, port in places if not self._border(other, port)} - {number}

    def _passes(self, number: int) -> list[int]:
        """The variables of an operator whose layouts depend on each other."""
        variables = self.problem.variables
        return [
            variable
            for port, variable in enumerate(self.problem.operators[number].ports)
            if not variables[variable].constant and not self._border(number, port)
        ]

    def _border(self, number: int, port: int) -> bool:
        if (number, port) not in self.borders:
            self.borders[number, port] = self._single(number, port)
        return self.borders[number, port]

    def _single(self, number: int, port: int) -> bool:
        """Whether an operator has one layout at a port: one order, in dimensions that all forms with it have there."""
        entry = self.entries[number]
        if entry.rule is None or entry.relations is None:
            return not entry.free and len({row.layouts[port] for row in entry.fixed}) == 1
        orders = {order(row.layouts[port]) for row in self.kept[number]}
        if entry.fixed or entry.own or len(orders) != 1:
            return False
        (atoms,), forms = orders, entry.rule.forms
        placed = [form for form in forms if isinstance(form, Placed) and not form.prefix]
        if len(placed) < len(forms):
            return False
        return len({_placed(form, entry.relations[port], port, atoms) for form in placed} - {None}) == 1


def _placed(form: Placed, relation: Port, number: int, atoms: Order) -> Layout | None:
    """The layout that a fixed form without a prefix has at a port in an order; None where it does not have that."""
    found, at = list[Group](), 0
    for place in form.places[number]:
        end = at
        while end < len(atoms) and relation.slots[atoms[end]][0] in place:
            end += 1
        found.append(atoms[at:end])
        at = end
    return tuple(found) if at == len(atoms) else None
