"""Variables with exact conversion costs: those whose conversions cost more than in a lower bound, and those around."""

from __future__ import annotations

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.block_orders import BLOCKS, FEW_BLOCKS, every_order
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.row import FREE

MANY = 2
"""How many times as many rows a problem may have in which whole components have exact conversion costs: one that is
larger is solved sooner than several that are small.
"""

STATED = 0.6
"""The most of what is left of a limit that finding candidates may use."""


def wider(
    problem: LayoutProblem, candidates: Candidates, least: Solution, reach: int, limit: Limit
) -> LayoutProblem | None:
    """Problem in which more variables have exact conversion costs than in another one, among them those whose
    conversions cost more in its solution than there, of no more blocks than it takes: with all of their components
    where that takes few more rows, else with those so near (``reach``). None where no conversion costs more, or one of
    those would have too many orders.
    """
    dearer, charged = _dearer(least), problem.charged or frozenset()
    if not dearer:
        return None
    rows = sum(len(operator.rows) for operator in problem.operators)
    sought = {
        _components(problem, least, dearer) | charged: MANY * rows,
        around(problem, dearer | charged, reach): None,
    }
    for count in range(FEW_BLOCKS, BLOCKS + 1):
        if not all(every_order(candidates.seen[variable], count) for variable in dearer):
            continue
        for near, enough in list(sought.items()):
            found = candidates.charging(near, limit.part(STATED), count, enough)
            if found.capped:
                del sought[near]
            elif found.charged is not None and dearer <= found.charged:
                return found
    return None


def _dearer(least: Solution) -> frozenset[int]:
    """The variables whose moves cost more than the problem has it."""
    problem, full = least.problem, least.problem.charging(None)
    prices = ((variable, price_of_variable(problem, least.rows, variable)) for variable in problem.moving())
    return frozenset(
        variable
        for variable, mine in prices
        if mine is not FREE and mine != price_of_variable(full, least.rows, variable)
    )


def _components(problem: LayoutProblem, least: Solution, variables: frozenset[int]) -> frozenset[int]:
    """Variables with those of the components that they are in."""
    ports = [{port for each in part.operators for port in problem.operators[each].ports} for part in least.parts]
    found = variables.union(*(each for each in ports if not variables.isdisjoint(each)))
    return frozenset(variable for variable in found if not problem.variables[variable].constant)


def around(problem: LayoutProblem, variables: frozenset[int], reach: int) -> frozenset[int]:
    """Variables with those that so many operators at most lie between."""
    found = set(variables)
    for _ in range(reach):
        touched = [operator.ports for operator in problem.operators if not found.isdisjoint(operator.ports)]
        found.update(*touched)
    return frozenset(variable for variable in found if not problem.variables[variable].constant)
