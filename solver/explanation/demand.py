"""Demands: which operators a layout comes from, found by walking away from the place where data is moved.

A move stands between two layouts of one variable. Whoever is on one side of it might take the other side's layout
instead, if it has a row for that; then its other tensors would change with it, and their neighbours would have to
follow. The walk goes on until it meets operators that cannot follow: those make the demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout, finest
from layoutsolve.solver.theory.row import Row

Place = tuple[int, int]
"""An operator and one of its ports."""


@dataclass(frozen=True, eq=False, slots=True)
class _Visit:
    """A port on a walk, the layout that it should have, and where the walk came from."""

    place: Place
    wanted: Layout
    before: _Visit | None


@dataclass(frozen=True)
class Found:
    """An operator's port that keeps its layout, found by a visit to it.

    ``costly`` says that the operator could take the other layout, but would transpose inside or lose as much time.
    """

    operator: int
    port: int
    costly: bool
    visit: _Visit

    @property
    def through(self) -> tuple[int, ...]:
        """The operators between it and the move, the nearest to it first."""
        found, visit = list[int](), self.visit.before
        while visit is not None:
            found.append(visit.place[0])
            visit = visit.before
        return tuple(found)


class Walk:
    """Walk over the alternatives of a solved problem, which compares layouts (``orders`` False) or orders alone
    (True).
    """

    def __init__(self, boundary: Boundary, assignment: Assignment, orders: bool) -> None:
        self.problem, self.orders = assignment.problem, orders
        self.levels = assignment.goal.levels
        chosen = [assignment.row(number) for number in range(len(self.problem.operators))]
        self.chosen = [tuple(map(self.seen, row.layouts)) for row in chosen]
        self.prices = [ranked(row.price, self.levels)[0] for row in chosen]
        stated = (
            Statement(assignment.graph, boundary, assignment.goal, _kept_views(assignment)).orders()
            if orders
            else self.problem
        )
        self.rows = [operator.rows for operator in stated.operators]
        self.followed: dict[tuple[Place, Layout], list[tuple[Place, Layout]] | bool] = {}

    def seen(self, layout: Layout) -> Layout:
        """Projection of a layout that the walk compares."""
        return finest(layout) if self.orders else layout

    def places(self, variable: int, layout: Layout) -> list[Place]:
        """The operators and ports that write or read a variable in a layout."""
        places = self.problem.places(variable)
        return [(number, port) for number, port in places if self.chosen[number][port] == self.seen(layout)]

    def demands(self, start: Sequence[Place], wanted: Layout) -> Iterator[Found]:
        """The operators that keep the places of ``start`` from having the layout ``wanted``, the nearest first."""
        visits = [_Visit(place, self.seen(wanted), None) for place in start]
        visited = {number for number, _ in start}
        for visit in visits:  # which grows
            following = self._following(visit.place, visit.wanted)
            if isinstance(following, bool):
                yield Found(*visit.place, following, visit)
                continue
            for place, wish in following:
                if place[0] not in visited:
                    visited.add(place[0])
                    visits.append(_Visit(place, wish, visit))

    def _following(self, place: Place, wanted: Layout) -> list[tuple[Place, Layout]] | bool:
        """The places that have to change, and to what, where a port takes the layout ``wanted``; whether it could do so
        at a price, where it does not.
        """
        known = self.followed.get((place, wanted))
        if known is None:
            known = self.followed[place, wanted] = self._followed(*place, wanted)
        return known

    def _followed(self, number: int, port: int, wanted: Layout) -> list[tuple[Place, Layout]] | bool:
        matching = [row for row in self.rows[number] if self.seen(row.layouts[port]) == wanted]
        cheap = [row for row in matching if ranked(row.price, self.levels)[0] <= self.prices[number]]
        if not cheap:
            return bool(matching)
        row = min(cheap, key=lambda row: len(self._changed(number, row)))
        ports = self.problem.operators[number].ports
        return [
            (place, self.seen(row.layouts[changed]))
            for changed in self._changed(number, row)
            for place in self.places(ports[changed], self.chosen[number][changed])
        ]

    def _changed(self, number: int, row: Row) -> list[int]:
        """The ports at which a row differs from the chosen one, constants left out."""
        return [
            port
            for port, variable in enumerate(self.problem.operators[number].ports)
            if not self.problem.variables[variable].constant
            and self.seen(row.layouts[port]) != self.chosen[number][port]
        ]


def _kept_views(assignment: Assignment) -> set[int]:
    """The Transposes and Reshapes of the graph that were stated as opaque operators."""
    nodes = assignment.graph.nodes
    operators = {operator.node: operator for operator in assignment.problem.operators if operator.node >= 0}
    return {
        number
        for number, operator in operators.items()
        if nodes[number].op in ("Transpose", "Reshape") and not operator.follows
    }
