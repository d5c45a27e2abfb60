"""Fewer Reshapes by other orders that cost as little, where those of the chosen orders leave some."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.bucket_elimination import tied
from layoutsolve.solver.search.decomposition import Component, components
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.unenumerated_operators import Grain, Orders
from layoutsolve.solver.strategies.exact_conversion_costs import STATED, around
from layoutsolve.solver.theory.row import Row

UNITS = 60_000
"""The most work in which dimensions of size 1 are propagated further: in most graphs that takes few candidates more, in
some very many.
"""

REACH = 2
"""How many operators around a Reshape may get other orders."""


def with_tied_orders(statement: Statement, orders: Solution, tiers: Tiers, found: Solution, limit: Limit) -> Solution:
    """The groupings that were ``found`` for the chosen orders, or cheaper ones of orders that tie with these by their
    own ``tiers``.

    Where Reshapes are left, the operators around them get all orders that are in any of the cheapest assignments; so do
    those around what is left then, until that changes nothing or the limit is over. At last dimensions of size 1 are
    propagated further.
    """
    opened: frozenset[int] = frozenset()
    kept: list[Sequence[Row]] = [[row] for row in orders.chosen]
    while not limit.expired and not (near := _around_reshapes(found)) <= opened:
        opened |= near
        kept = _tied(orders, opened, tiers, limit)
        other = _cheaper(statement, kept, found, limit)
        if other is None:
            break
        found = other
    rest = limit.attempt(UNITS)
    while _around_reshapes(found):
        other = _cheaper(statement, kept, found, rest, Grain.UNITS)
        if other is None:
            break
        found = other
    return found


def _cheaper(
    statement: Statement, kept: Orders, found: Solution, limit: Limit, grain: Grain = Grain.GROUPINGS
) -> Solution | None:
    """Groupings of orders to be kept that are cheaper than those that were found, None where there are none."""
    if grain is Grain.GROUPINGS and all(len(rows) == 1 for rows in kept):
        return None
    problem = statement.layouts(kept, limit.part(STATED), grain)
    if limit.expired or problem.capped:
        return None
    other = solve(problem, statement.goal.tiers, limit, found)
    return other if other.values < found.values else None


def _around_reshapes(found: Solution) -> frozenset[int]:
    """The operators that Reshapes lie between or that have some of their own, and those around."""
    problem = found.problem
    ports = (problem.operators[number].ports for number, row in enumerate(found.chosen) if row.price.reshapes)
    reshaped = {each for each in problem.moving() if price_of_variable(problem, found.rows, each).reshapes}
    near = around(problem, frozenset(reshaped.union(*ports)), REACH)
    return frozenset(number for number, each in enumerate(problem.operators) if not near.isdisjoint(each.ports))


def _tied(orders: Solution, opened: Collection[int], tiers: Tiers, limit: Limit) -> list[Sequence[Row]]:
    """For each operator the rows of all orders that tie where those of some operators are free."""
    problem = orders.problem.charging(None)
    every = [range(len(each.rows)) if number in opened else () for number, each in enumerate(problem.operators)]
    domains = [list(rows) or [row] for rows, row in zip(every, orders.rows, strict=True)]
    kept: list[Sequence[Row]] = [[row] for row in orders.chosen]
    for component in components(problem, domains):
        alone = [Component((number,), component.variables) for number in component.operators]
        for part in (component, *alone):
            at = (number for variable in part.variables for number, _ in problem.places(variable))
            still = {number: [orders.rows[number]] for number in at}
            among = still | {number: domains[number] for number in part.operators}
            ties = tied(problem, among, part, tiers, limit)
            for number, rows in (ties or {}).items():
                kept[number] = [problem.operators[number].rows[row] for row in rows]
            if part is component and ties is not None:
                break
    return kept
