"""Which orders that nobody demands may pay where Transposes alone are minimised first, or bytes.

Take operators that share such orders, and of which none has a layout that is demanded, at any port. Whatever they
border on, data is moved there: if they take a neighbour's order that move is saved, and no other one is added. So they
are in no assignment of the least price, however fast moves are. What is left is *tied*: its operator has a layout that
is demanded at another port, as a reduction whose input may lie in any order that its output shows, or shares such an
order with one that is tied.
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row

Place = tuple[int, Layout]
"""A variable and a layout of it."""


def tied(problem: LayoutProblem, demanded: LayoutProblem) -> LayoutProblem:
    """A problem over orders without the rows that are tied to nothing that some row of the ``demanded`` one has."""
    places = [[_places(problem, operator, row) for row in operator.rows] for operator in problem.operators]
    having: dict[Place, list[tuple[int, int]]] = {}
    for number, rows in enumerate(places):
        for row, ports in enumerate(rows):
            for place in ports:
                having.setdefault(place, []).append((number, row))
    kept = [{row for row, ports in enumerate(rows) if not ports} for rows in places]
    known = {place for each in demanded.operators for row in each.rows for place in _places(demanded, each, row)}
    waiting = list(known)
    while waiting:
        for number, row in having.get(waiting.pop(), ()):
            if row not in kept[number]:
                kept[number].add(row)
                fresh = [place for place in places[number][row] if place not in known]
                known.update(fresh)
                waiting += fresh
    made: dict[tuple[int, ...], tuple[Row, ...]] = {}
    operators = list(problem.operators)
    for number, operator in enumerate(operators):
        if len(kept[number]) < len(operator.rows):
            some = tuple(operator.rows[row] for row in sorted(kept[number]))
            operators[number] = replace(operator, rows=made.setdefault(tuple(map(id, some)), some))
    return replace(problem, operators=tuple(operators))


def _places(problem: LayoutProblem, operator: Operator, row: Row) -> list[Place]:
    """The layouts of a row that hold an operator to an order: not those of constants, or of less than two atoms."""
    return [
        (variable, layout)
        for variable, layout in zip(operator.ports, row.layouts, strict=True)
        if len(layout) > 1 and not problem.variables[variable].constant
    ]
