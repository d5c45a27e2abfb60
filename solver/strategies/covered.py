"""Whether candidates cover the orders that are in question: all that may cost as little as an assignment.

Operators that share an order which nobody demands border on others, by a move that is saved where they take the order
of these; unless there are no others. What is free at an end demands nothing, so that all its orders have to be
candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Row


def covered(statement: Statement, orders: Solution, found: Assignment) -> bool:
    """Whether all orders that may cost as little as an assignment are candidates of some cheapest ``orders``.

    A proof by some atoms has few candidates of all. Where Reshapes take time, an order that nobody demands takes a move
    more than others, and may still save Reshapes: unless these take less.
    """
    candidates = orders.candidates
    ends = zip(statement.entries, candidates.operators, strict=True)
    if orders.unseen or not all(_whole(entry.free, operator.rows) for entry, operator in ends if entry.free):
        return False
    if not statement.goal.timed:
        return True
    spared = found.price.nanoseconds - orders.bounds[0]
    return all(
        spared < statement.target.least_price(orders.problem.variables[variable], True).nanoseconds
        for variable in orders.problem.moving()
        if not _every_order(candidates, variable)
    )


def _every_order(candidates: LayoutProblem, variable: int) -> bool:
    """Whether all orders that a variable can have are candidates."""
    places = candidates.places(variable)
    found = {order(row.layouts[port]) for number, port in places for row in candidates.operators[number].rows}
    return len(found) == factorial(len(candidates.variables[variable].sizes))


def _whole(free: Sequence[Layout], rows: Sequence[Row]) -> bool:
    """Whether something that keeps whole dimensions has these in all sequences among its rows."""
    return len({tuple(map(order, row.layouts)) for row in rows}) == factorial(sum(map(bool, free[0])))
