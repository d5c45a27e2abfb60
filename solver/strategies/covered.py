"""Whether candidates cover the orders that are in question: all that may cost as little as the cheapest.

Operators that share an order which nobody demands border on others, by a move that is saved where they take the order
of these; unless there are no others. What is free at an end demands nothing, so that all its orders have to be
candidates.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import factorial

from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Row


def covered(statement: Statement, orders: Solution) -> bool:
    """Whether all orders that may cost as little as the cheapest ``orders`` are candidates of them.

    A proof by some atoms has few candidates of all.
    """
    ends = zip(statement.entries, orders.candidates.operators, strict=True)
    return not orders.unseen and all(_whole(entry.free, operator.rows) for entry, operator in ends if entry.free)


def least_beyond(statement: Statement, orders: Solution) -> int:
    """The least time of what has orders that are no candidates, in nanoseconds: where Reshapes take time these may save
    some, but take a move more than the cheapest orders do.
    """
    candidates, target = orders.candidates, statement.target
    moves = (
        target.least_price(candidates.variables[variable], True).nanoseconds
        for variable in candidates.moving()
        if not _every_order(candidates, variable)
    )
    return orders.bounds[0] + min(moves, default=sys.maxsize)


def _every_order(candidates: LayoutProblem, variable: int) -> bool:
    """Whether all orders that a variable can have are candidates."""
    places = candidates.places(variable)
    found = {order(row.layouts[port]) for number, port in places for row in candidates.operators[number].rows}
    return len(found) == factorial(len(candidates.variables[variable].sizes))


def _whole(free: Sequence[Layout], rows: Sequence[Row]) -> bool:
    """Whether something that keeps whole dimensions has these in all sequences among its rows."""
    return len({tuple(map(order, row.layouts)) for row in rows}) == factorial(sum(map(bool, free[0])))
