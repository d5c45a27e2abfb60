"""The cheapest orders of tensors, and what is proven of all orders that there are.

Candidates are what somebody demands. Where some moves cost more than others, two of them may be cheaper than one, with
a stop in an order that nobody demands; only variables at which that could pay get all their orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.known import Known
from layoutsolve.solver.search.presolve import uneven
from layoutsolve.solver.search.search import Solution, bounds, solve
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, FEW, Statement
from layoutsolve.solver.statement.stops import every_order

NARROW, STATED = 0.8, 0.6
"""The most of what is left of a limit that a stage may use: choosing among few candidates, and finding them."""


def cheapest_orders(statement: Statement, tiers: Tiers, limit: Limit) -> Solution:
    """The cheapest orders: among few candidates first, then, if more of them could be cheaper, among all.

    What all of them prove is what is known of the few as well, should those have led to more in their time.
    """
    first, known = limit.part(NARROW), Known()
    few = _cheapest(statement, tiers, first, FEW, known)
    if few.optimal or not few.problem.capped or limit.expired:
        return few
    wide = _cheapest(statement, tiers, limit, CANDIDATES, known, few)
    return wide if wide.values <= few.values else _known_by(wide, few)


def _cheapest(
    statement: Statement, tiers: Tiers, limit: Limit, most: int, known: Known, before: Solution | None = None
) -> Solution:
    """The cheapest orders among at most so many candidates per variable, those found ``before`` where none of the
    candidates are cheaper.
    """
    problem = statement.orders(limit.part(STATED), most)
    if before is not None and bounds(problem, tiers, limit.part(NARROW), known) == before.values:
        found = replace(before, bounds=before.values)
    else:
        found = solve(problem, tiers, limit.part(NARROW), known)
    if problem.capped or not any(found.values) or not uneven(problem):
        return found
    return _with_stops(statement, problem, found, tiers, limit, most, known)


def _with_stops(
    statement: Statement,
    problem: LayoutProblem,
    found: Solution,
    tiers: Tiers,
    limit: Limit,
    most: int,
    known: Known,
) -> Solution:
    """The cheapest orders, where two moves may be cheaper than one.

    Where every move costs the least that one of its variable may, no order pays that nobody demands, so that the least
    price is a lower bound. Where an answer costs more, those variables are charged whose moves are dearer in it, and
    those around them, at which such a move might be made as well. They have all orders: what is cheapest then is a
    lower bound again, and mostly an answer.
    """
    charged, reach = frozenset[int](), 1
    problem = replace(problem, charged=charged)
    least = replace(found, problem=problem)
    proofs: list[Solution] = []
    while True:
        dearer = _dearer(least)
        wider = _wider(statement, problem, dearer, charged, reach, limit, most) if dearer else None
        if wider is not None:
            problem, charged, reach = wider, wider.charged or charged, 2 * reach
        elif proofs:
            break
        least = replace(solve(problem, tiers, limit, known), charged=charged)
        proofs.append(least)
        found = _least([found, least.at_full_price(tiers)])
        if limit.expired or found.values == least.values:
            break
    if charged and found.values != least.values and not limit.expired:
        found = _least([found, solve(replace(problem, charged=None), tiers, limit, known)])
    return _known_by(max(proofs, key=lambda proof: proof.bounds), found)


def _wider(
    statement: Statement,
    problem: LayoutProblem,
    dearer: frozenset[int],
    charged: frozenset[int],
    reach: int,
    limit: Limit,
    most: int,
) -> LayoutProblem | None:
    """The problem in which more variables are charged: those whose moves are dearer, and what is around them. None
    where one of those would have too many orders.
    """
    if not all(_chargeable(problem, each) for each in dearer):
        return None
    wider = statement.orders(limit.part(STATED), most, _around(problem, dearer | charged, reach))
    return None if wider.capped or wider.charged is None or not dearer <= wider.charged else wider


def _least(found: Sequence[Solution]) -> Solution:
    """The cheapest of some solutions, the first of equals."""
    return min(found, key=lambda solution: solution.values)


def _known_by(proof: Solution, found: Solution) -> Solution:
    """Rows with what another solution proves of them."""
    problem = replace(found.problem, capped=proof.problem.capped)
    return replace(found, problem=problem, bounds=proof.bounds, parts=proof.parts, charged=proof.charged)


def _dearer(least: Solution) -> frozenset[int]:
    """The variables whose moves cost more than the problem has it."""
    problem, full = least.problem, replace(least.problem, charged=None)
    prices = ([price_of_variable(each, least.rows, variable) for variable in each.moving()] for each in (problem, full))
    return frozenset(
        variable for variable, mine, all_of_it in zip(problem.moving(), *prices, strict=True) if mine != all_of_it
    )


def _chargeable(problem: LayoutProblem, variable: int) -> bool:
    """Whether a variable has few enough orders to have all of them."""
    places = [place for place in (problem.writers[variable], *problem.readers[variable]) if place]
    layouts = (row.layouts[port] for number, port in places for row in problem.operators[number].rows)
    return every_order(layouts) is not None


def _around(problem: LayoutProblem, variables: frozenset[int], reach: int) -> frozenset[int]:
    """Variables with those that so many operators at most lie between."""
    found = set(variables)
    for _ in range(reach):
        touched = [operator.ports for operator in problem.operators if not found.isdisjoint(operator.ports)]
        found.update(*touched)
    return frozenset(variable for variable in found if not problem.variables[variable].constant)
