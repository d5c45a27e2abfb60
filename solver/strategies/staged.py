"""Strategy ``cpsat``: orders and groupings that are searched, component by component, and proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from layoutsolve.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.presolve import uneven
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.search.settle import settled
from layoutsolve.solver.statement.assignment import Assignment, Part
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.copies import shared_rows
from layoutsolve.solver.statement.objective import (
    DEFAULT_OBJECTIVE,
    OBJECTIVES,
    Goal,
    Tiers,
    coarse_tiers,
    ranked,
)
from layoutsolve.solver.statement.price import price, price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, FEW, Statement
from layoutsolve.solver.statement.stops import every_order
from layoutsolve.solver.strategies.heuristics import in_source_order, propagate, transpose
from layoutsolve.solver.theory.row import Row

SEARCHED, ORDERS, NARROW, STATED = 0.8, 0.7, 0.5, 0.4
"""The most of what is left of a limit that a stage may use: searching beside heuristics, choosing orders beside
groupings, choosing among few of them, and finding candidates.
"""


def solve_graph(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then: the Reshapes are the fewest
    for the chosen orders. Otherwise both are chosen at once. What is not proven is compared with heuristics, each with
    as much work as it would have by itself, so that none is better; of seconds a share is left for them, and the
    quickest runs in any case. Where both were to be chosen at once, one after the other is among them, with the orders
    of the default objective.
    """
    statement = Statement(graph, boundary, goal)
    limit.keep_back()
    found = _searched(statement, limit.part(SEARCHED))
    if found is not None and found.status == "optimal":
        return found
    known = [] if found is None else [found]
    known.append(in_source_order(statement))
    if coarse_tiers(goal.tiers) is None and not goal.timed and not limit.expired:
        first = coarse_tiers(OBJECTIVES[DEFAULT_OBJECTIVE])
        staged = None if first is None else _staged(statement, first, limit.part(SEARCHED))
        known += [] if staged is None else [replace(staged, bounds=(), completed=False, parts=())]
    from layoutsolve.solver.strategies.push import push  # what most graphs do not come to

    if not (limit.timed and limit.expired):
        known += [heuristic(graph, boundary, goal, limit.again()) for heuristic in (transpose, push, propagate)]
    best = min(known, key=lambda assignment: ranked(assignment.price, goal.tiers))
    if found is None:
        return replace(best, strategy="cpsat")
    if best is found:
        return found
    proof = {name: getattr(found, name) for name in ("strategy", "bounds", "components", "parts", "charged")}
    return replace(best, **proof)


def _searched(statement: Statement, limit: Limit) -> Assignment | None:
    """What searching comes to within a limit; None where it does not even come to full layouts."""
    goal = statement.goal
    coarse = coarse_tiers(goal.tiers)
    if coarse is None:
        problem = statement.layouts(None, limit.part(STATED))
        if limit.expired:
            return None
        fine = solve(problem, goal.tiers, limit)
        return _assignment(statement, fine, proven(fine))
    return _staged(statement, coarse, limit)


def _staged(statement: Statement, coarse: Tiers, limit: Limit) -> Assignment | None:
    """Orders first, by the ``coarse`` tiers, and groupings then, by all tiers of the goal."""
    orders = _orders(statement, coarse, limit.part(ORDERS))
    if limit.expired:
        return None
    kept, proof = orders.chosen, proven(orders)
    del orders  # a problem takes as much memory as all that the graph is
    return grouped(statement, kept, proof, limit)


def grouped(statement: Statement, kept: Sequence[Row], proof: Proof, limit: Limit) -> Assignment | None:
    """The cheapest groupings of chosen orders, of which ``proof`` tells what is proven; None where the limit ends
    before there are any.
    """
    problem = statement.layouts(kept, limit.part(STATED))
    if not all(operator.rows for operator in problem.operators):
        return None
    tiers = statement.goal.tiers
    fine = solve(problem, tiers, limit)
    if not limit.expired:
        fine = replace(fine, rows=settled(statement.graph, fine.problem, fine.rows, tiers))
    return _assignment(statement, fine, proof, fine.branched)


def _orders(statement: Statement, tiers: Tiers, limit: Limit) -> Solution:
    """The cheapest orders: among few candidates first, then, if more of them could be cheaper, among all.

    What all of them prove is what is known of the few as well, should those have led to more in their time.
    """
    first = limit.part(NARROW)
    few = _cheapest(statement, tiers, first, FEW)
    if few.optimal or not few.problem.capped or limit.expired:
        return few
    wide = _cheapest(statement, tiers, limit, CANDIDATES)
    return wide if wide.values <= few.values else _known_by(wide, few)


def _cheapest(statement: Statement, tiers: Tiers, limit: Limit, most: int) -> Solution:
    """The cheapest orders among at most so many candidates per variable, and what is proven of all orders that there
    are.
    """
    problem = statement.orders(limit.part(STATED), most)
    found = solve(problem, tiers, limit)
    if problem.capped or not any(found.values) or not uneven(problem):
        return found
    return _with_stops(statement, found, tiers, limit, most)


def _with_stops(statement: Statement, found: Solution, tiers: Tiers, limit: Limit, most: int) -> Solution:
    """The cheapest orders, where two moves may be cheaper than one.

    Where every move costs the least that one of its variable may, no order pays that nobody demands, so that the least
    price is a lower bound. Where an answer costs more, those variables are charged whose moves are dearer in what is
    cheapest then, and those around them, at which such a move might be made as well. They have all orders: what is
    cheapest then is a lower bound again, and mostly an answer.
    """
    charged, reach = frozenset[int](), 1
    problem = replace(found.problem, charged=charged)
    proofs: list[Solution] = []
    while True:
        least = replace(solve(problem, tiers, limit), charged=charged)
        proofs.append(least)
        found = _least([found, least.at_full_price(tiers)])
        dearer = _dearer(least)
        if limit.expired or found.values == least.values or not all(_chargeable(problem, each) for each in dearer):
            break
        wider = statement.orders(limit.part(STATED), most, _around(problem, dearer | charged, reach))
        if wider.capped or wider.charged is None or not dearer <= wider.charged:
            break
        problem, charged, reach = wider, wider.charged, 2 * reach
    if charged and found.values != least.values and not limit.expired:
        found = _least([found, solve(replace(problem, charged=None), tiers, limit)])
    return _known_by(max(proofs, key=lambda proof: proof.bounds), found)


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


@dataclass(frozen=True)
class Proof:
    """What a solution proves; the fields are as those of an :class:`Assignment`."""

    bounds: tuple[int, ...]
    branched: int
    parts: tuple[Part, ...]
    charged: frozenset[int] | None


def proven(solution: Solution) -> Proof:
    """What is proven of a solution, without its problem."""
    return Proof(solution.bounds, solution.branched, solution.parts, solution.charged)


def _assignment(statement: Statement, fine: Solution, proof: Proof, branched: int = 0) -> Assignment:
    """The public form of a solution; ``branched`` are its Booleans where the proof is that of the orders alone."""
    rows = shared_rows(fine.problem, fine.rows)
    return Assignment(
        statement.graph,
        statement.rules,
        fine.problem,
        rows,
        price(fine.problem, rows),
        statement.goal,
        "cpsat",
        proof.bounds,
        fine.optimal,
        len(proof.parts),
        proof.branched + branched,
        proof.parts,
        charged=tuple(sorted(proof.charged or ())),
    )
