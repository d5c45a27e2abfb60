"""Rows that somebody names: by their form, their arrangement and their layouts, without a search for others.

A closure tells rows apart by their layouts. Where dimensions have size 1, several arrangements of an operator are in
the same layouts, and it has the one that is found first. What is written depends on which.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.statement.closure import Closure
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.theory.layout import order
from layoutsolve.solver.theory.row import Row


def exactly(statement: Statement, wanted: Sequence[Row]) -> LayoutProblem:
    """The problem over layouts in which each operator has the row that is wanted of it and no other; none, where it
    cannot have that.
    """
    target, timed, kept = statement.target, statement.goal.timed, [[row] for row in wanted]
    closure = Closure(statement.variables, statement.entries, target, timed, unlimited(), CANDIDATES, kept=kept)
    operators = []
    for number, (entry, row) in enumerate(zip(statement.entries, wanted, strict=True)):
        found = _rows(closure, number, row) if _fits(statement, number, row) else []
        operators.append(entry.operator(tuple([each for each in found if each.same(row)][:1])))
    return LayoutProblem(
        tuple(statement.variables), tuple(operators), False, target, timed, constants=statement.constants()
    )


def _fits(statement: Statement, number: int, row: Row) -> bool:
    """Whether a row has a layout for each port, of just the atoms that are there."""
    ports = statement.entries[number].ports
    atoms = [list(range(len(statement.variables[variable].sizes))) for variable in ports]
    return [sorted(order(layout)) for layout in row.layouts] == atoms


def _rows(closure: Closure, number: int, row: Row) -> list[Row]:
    """Rows of an operator, the wanted one among them if there is one."""
    entry, generator = closure.entries[number], closure.generators[number]
    found = entry.following(0, row.layouts[0]) if generator is None else generator.exactly(row)
    return [*entry.fixed, *found]
