"""Strategy ``cpsat``: orders and groupings that are searched, component by component, and proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.duplicated_initializers import shared_rows
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, Levels, coarse_levels, ranked, without_groupings
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.baselines import in_source_order, propagate, transpose
from layoutsolve.solver.strategies.exact_conversion_costs import STATED
from layoutsolve.solver.strategies.orders import cheapest_orders
from layoutsolve.solver.strategies.push_down import push

SEARCHED, ORDERS = 0.8, 0.8
"""The most of what is left of a limit that a stage may use: searching beside heuristics, and choosing orders beside
groupings.
"""

GROUPED = 3_000_000
"""The least work that groupings may take: they move nothing, so that they take no more than orders did beyond it."""

STARTS = ("min-executed", "min-transpose", "min-bytes")
"""Objectives whose orders are tried where orders and groupings were to be chosen at once."""

COMPARED = 1_000
"""The most operators of a graph of which what is proven is compared with heuristics: of many, that takes longer than
the proof.
"""

PUSHED = 500_000
"""The most work that pushing Transposes may take where what is proven is held against it: for few graphs that takes
more, up to several times as much as the proof, and of none of them has it come to less.
"""


def solve_graph(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then. Otherwise both are chosen
    at once. What is not proven is compared with heuristics, each with as much work as it would have by itself, so
    that none is better; of seconds a share is left for them, and the quickest runs in any case. Where both were to
    be chosen at once, one after the other is among them, with the orders of other objectives.
    """
    statement = Statement(graph, boundary, goal)
    limit.keep_back()
    found = _searched(statement, limit.part(SEARCHED))
    at_once = coarse_levels(goal.levels) is None
    if found is not None and found.status == "optimal" and not at_once:
        return _held_against_views(found, boundary, limit)
    known = [] if found is None else [found]
    known.append(in_source_order(statement))
    if at_once:
        for first in filter(None, map(coarse_levels, (OBJECTIVES[name] for name in STARTS))):
            staged = None if limit.expired else _staged(statement, first, limit.part(SEARCHED))
            known += [] if staged is None else [replace(staged, bounds=(), completed=False, parts=())]
    for heuristic in (transpose, push, propagate):
        if not (limit.timed and limit.expired):
            known.append(heuristic(graph, boundary, goal, limit.again()))
    return _best(known, found)


def _held_against_views(found: Assignment, boundary: Boundary, limit: Limit) -> Assignment:
    """A proven answer, or a cheaper one in which views of the source stay operators, as heuristics leave them: it is
    proven of candidates. Where a slow move is paid, or was avoided, a view between two fast ones may cost less; moves
    that end in a view may share its Reshape, of which by itself each move of a tensor has its own.
    """
    graph, goal, paid, known = found.graph, found.goal, found.price, [found]
    if len(graph.nodes) > COMPARED or (limit.timed and limit.expired):
        return found
    if found.charged or paid.hidden or (goal.timed and paid.transposes):
        known.append(push(graph, boundary, goal, limit.again().attempt(PUSHED)))
    views = 0 if goal.timed else sum(node.op == "Transpose" for node in graph.nodes)
    if paid.reshapes and views <= paid.transposes and paid.transposes:
        other = transpose(graph, boundary, goal)
        known += [other] if _may_be(other, found) else []
    return _best(known, found)


def _may_be(other: Assignment, found: Assignment) -> bool:
    """Whether an answer costs no less than orders without Transposes in a row do, of which a runtime makes one."""
    if found.goal.timed:
        return other.price.nanoseconds >= found.bound
    names = ("transposes", "hidden", "bytes")
    return all(getattr(other.price, name) >= getattr(found.price, name) for name in names)


def _best(known: Sequence[Assignment], found: Assignment | None) -> Assignment:
    """The cheapest of some, the first of equals, with what is proven of the one that was found by searching."""
    best = min(known, key=lambda assignment: ranked(assignment.price, assignment.goal.levels))
    if found is None:
        return replace(best, strategy="cpsat")
    if best is found:
        return found
    names = ("strategy", "bounds", "completed", "components", "parts", "charged", "unseen")
    return replace(best, **{name: getattr(found, name) for name in names}, relative=found.kept)


def _searched(statement: Statement, limit: Limit) -> Assignment | None:
    """What searching comes to within a limit; None where it does not even come to full layouts."""
    goal = statement.goal
    coarse = coarse_levels(goal.levels)
    if coarse is None:
        problem = statement.layouts(None, limit.part(STATED))
        if limit.expired:
            return None
        fine, orders = solve(problem, goal.levels, limit), without_groupings(goal.levels)
        bounds = cheapest_orders(statement, orders, limit).bounds
        return _assignment(statement, fine, replace(fine, bounds=bounds))
    return _staged(statement, coarse, limit)


def _staged(statement: Statement, coarse: Levels, limit: Limit) -> Assignment | None:
    """Orders first, by the ``coarse`` levels, and groupings then, by all levels of the goal; None where the limit ends
    before there are any.
    """
    left = limit.work
    orders = cheapest_orders(statement, coarse, limit.part(ORDERS))
    share = 1.0 if limit.timed else min(1.0, max(GROUPED, left - limit.work) / max(1, limit.work))
    return None if limit.expired else grouped(statement, orders, limit.part(share))


def grouped(statement: Statement, orders: Solution, limit: Limit) -> Assignment | None:
    """Cheapest groupings of orders, with the proof of these; None where the limit ends before there are any."""
    problem = statement.layouts([[row] for row in orders.chosen], limit.part(STATED))
    if not all(operator.rows for operator in problem.operators):
        return None
    fine = solve(problem, statement.goal.levels, limit)
    return _assignment(statement, fine, orders, fine.branched)


def _assignment(statement: Statement, fine: Solution, proof: Solution, branched: int = 0) -> Assignment:
    """The public form of a solution, with what another one proves of it; ``branched`` are its own Booleans where the
    proof is that of the orders alone.
    """
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
        unseen=tuple(sorted(proof.unseen)),
    )
