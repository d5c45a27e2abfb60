"""The cheapest orders of tensors, and what is proven of all orders that there are.

Candidates are what somebody demands. Where some moves cost more than others, two of them may be cheaper than one, with
through an intermediate order, which nobody demands; only variables at which that could pay get all their orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, FEW, Statement
from layoutsolve.solver.strategies.exact_conversion_costs import STATED, wider
from layoutsolve.solver.strategies.projection_bound import projection_bound

NARROW, CAPPED, BOUNDED = 0.8, 0.6, 0.25
"""The most of what is left of a limit that choosing among few candidates takes; where there are more; projections."""

ENOUGH, ENOUGH_EACH, SMALL = 11_000, 10, 100
"""The most rows of a problem that is of use, twice that of few operators, or so many for each."""


def cheapest_orders(statement: Statement, levels: Levels, limit: Limit) -> Solution:
    """The cheapest orders: among few candidates, then, if more could be cheaper than a projection proves, among all."""
    first = limit.part(NARROW)
    candidates = statement.candidates(first.part(STATED), FEW)
    count = len(statement.entries)
    enough = max(ENOUGH if count > SMALL else 2 * ENOUGH, ENOUGH_EACH * count)
    problem = candidates.problem(enough)
    few = _cheapest(problem, candidates, levels, first.part(CAPPED) if problem.capped else first)
    cut = candidates.count > enough
    del candidates
    if few.optimal or not few.problem.capped or limit.expired:
        return few
    some = projection_bound(statement, levels, few.values, limit.part(BOUNDED))
    if (some is not None and some.bounds >= few.values) or limit.expired or cut:
        return _known_by(some, few)
    candidates = statement.candidates(limit.part(STATED), CANDIDATES)
    problem = candidates.problem(enough)
    if candidates.count > enough:
        return _known_by(some, few)
    wide = _cheapest(problem, candidates, levels, limit)
    return _known_by(max(wide, some or wide, key=lambda each: each.bounds), _least([wide, few]))


def _cheapest(problem: LayoutProblem, candidates: Candidates, levels: Levels, limit: Limit) -> Solution:
    """The cheapest orders of a problem, among its ``candidates``."""
    found = solve(problem, levels, limit.part(NARROW))
    if problem.capped or not any(found.values) or not problem.uneven:
        return found
    return _with_intermediate_orders(candidates, found, levels, limit)


def _with_intermediate_orders(candidates: Candidates, found: Solution, levels: Levels, limit: Limit) -> Solution:
    """The cheapest orders, where two moves may be cheaper than one.

    Where every move costs the least that one of its variable may, no order pays that nobody demands, so that the least
    price is a lower bound. Where an answer costs more, variables whose moves are dearer in it, and those around, get
    exact conversion costs, and all orders: what is cheapest then is a lower bound again, and mostly an answer.
    """
    reach, problem = 1, found.problem.charging(frozenset())
    least = replace(found, problem=problem)
    proofs: list[Solution] = []
    while True:
        more = wider(problem, candidates, least, reach, limit)
        if more is not None:
            problem, reach = more, 2 * reach
        elif proofs:
            break
        least = replace(solve(problem, levels, limit, None if proofs or more else found), charged=problem.charged)
        proofs.append(least)
        found = _least([found, least.at_full_price(levels)])
        if limit.expired or found.values == least.values:
            break
    if problem.charged and found.values != least.values and not limit.expired:
        found = _least([found, solve(problem.charging(None), levels, limit)])
    return _known_by(max(proofs, key=lambda proof: proof.bounds), found)


def _least(found: Sequence[Solution]) -> Solution:
    """The cheapest of some solutions, the first of equals."""
    return min(found, key=lambda solution: solution.values)


def _known_by(proof: Solution | None, found: Solution) -> Solution:
    """Rows with what another solution, if there is any, proves of them."""
    if proof is None:
        return found
    problem = replace(found.problem, capped=proof.problem.capped)
    known = {name: getattr(proof, name) for name in ("bounds", "parts", "charged", "unseen")}
    return replace(found, problem=problem, **known)
