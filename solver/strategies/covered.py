"""Whether candidates cover the orders that are in question: all that may cost as little as the cheapest.

Operators that share an order which nobody demands border on others, by a move that is saved where they take the order
of these; unless there are no others. What is free at an end demands nothing, so that all its orders have to be
candidates, and so does what lies between operators alone
(:mod:`layoutsolve.solver.strategies.undemanded`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from math import factorial

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.strategies.undemanded import every_order, undemanded
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Row


def covered(statement: Statement, orders: Solution, limit: Limit) -> Solution | None:
    """The cheapest ``orders`` among candidates that cover all which may cost as little: some more than they were found
    among. None where these are too many, or ends lack some.

    A proof by some atoms has few candidates of all.
    """
    candidates = orders.candidates
    ends = zip(statement.entries, candidates.operators, strict=True)
    if orders.unseen or not all(_whole(entry.free, operator.rows) for entry, operator in ends if entry.free):
        return None
    more = undemanded(statement.entries, candidates, limit)
    if not more:
        return None if more is None else orders
    closure = statement.candidates(limit, CANDIDATES)
    closure.problem()
    stated = closure.ordering(more, limit)
    return None if stated.capped else replace(orders, among=_joined(candidates, stated))


def _joined(candidates: LayoutProblem, more: LayoutProblem) -> LayoutProblem:
    """A problem with the rows of two."""
    operators = tuple(
        replace(operator, rows=tuple(dict.fromkeys((*operator.rows, *other.rows))))
        for operator, other in zip(candidates.operators, more.operators, strict=True)
    )
    return replace(candidates, operators=operators)


def least_beyond(statement: Statement, orders: Solution) -> int:
    """The least time of what has orders that are no candidates, in nanoseconds: where Reshapes take time these may save
    some, but take a move more than the cheapest orders do.
    """
    candidates, target = orders.candidates, statement.target
    moves = (
        target.least_price(candidates.variables[variable], True).nanoseconds
        for variable in candidates.moving()
        if not every_order(candidates, variable)
    )
    return orders.bounds[0] + min(moves, default=sys.maxsize)


def _whole(free: Sequence[Layout], rows: Sequence[Row]) -> bool:
    """Whether something that keeps whole dimensions has these in all sequences among its rows."""
    return len({tuple(map(order, row.layouts)) for row in rows}) == factorial(sum(map(bool, free[0])))
