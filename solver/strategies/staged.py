"""Strategy ``cpsat``: orders and groupings that are searched, component by component, and proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.graph import Graph
from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.search.settle import settled
from layoutsolve.solver.statement.assignment import Assignment, Part
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.copies import shared_rows
from layoutsolve.solver.statement.entry import Orders
from layoutsolve.solver.statement.halts import halting
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, Tiers, coarse_tiers, ranked, without_groupings
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.charged import STATED
from layoutsolve.solver.strategies.heuristics import in_source_order, propagate, transpose
from layoutsolve.solver.strategies.orders import cheapest_orders
from layoutsolve.solver.strategies.widened import widened

FEWEST: Tiers = (("transposes",), ("reshapes",), ("copies",))
"""What is asked of orders where Reshapes count as much as Transposes."""

SEARCHED, ORDERS = 0.8, 0.8
"""The most of what is left of a limit that a stage may use: searching beside heuristics, and choosing orders beside
groupings.
"""

STARTS = ("min-executed", "min-transpose", "min-bytes")
"""Objectives whose orders are tried where orders and groupings were to be chosen at once."""

WIDENED, WIDENED_EACH = 500_000, 2_000
"""The most work that finding out whether other orders need fewer Reshapes may take: so much in any case, and so much
for each Reshape that might be saved.
"""

COMPARED = 5_000
"""The most operators of a graph of which what is proven is compared with heuristics: of many, that takes longer than
the proof.
"""

PUSHED = 500_000
"""The most work that pushing Transposes may take where what is proven is held against it: for few graphs that takes
more, up to several times as much as the proof, and of none of them has it come to less.
"""

CAPPED = 10
"""How many times as much that is where candidates are as many as they may be: of Reshapes nothing is proven then."""

NEEDED, ASKED = 3_500_000, 20_000
"""The most work of finding out which orders cost as little, and of how many Reshapes are needed for them; and the most
operators of a graph of which that is asked: of more, stating the orders takes as long as that and proves nothing.
"""


def solve_graph(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then, and other orders that cost as
    little are looked at for fewer Reshapes. Otherwise both are chosen at once. What is not proven is compared with
    heuristics, each with as much work as it would have by itself, so that none is better; of seconds a share is left
    for them, and the quickest runs in any case. Where both were to be chosen at once, one after the other is among
    them, with the orders of other objectives; and what is proven is compared as well, as it is proven of candidates: a
    view of the source may do with one operator what a move between layouts does with two.
    """
    statement = Statement(graph, boundary, goal)
    limit.keep_back()
    found = _searched(statement, limit.part(SEARCHED))
    sure, at_once = found is not None and found.status == "optimal", coarse_tiers(goal.tiers) is None
    if found is not None and sure and not at_once:
        quick = len(graph.nodes) <= COMPARED and not (limit.timed and limit.expired)
        return _held_against_views(found, boundary, limit) if quick else found
    known = [] if found is None else [found]
    known.append(in_source_order(statement))
    if at_once:
        for first in filter(None, map(coarse_tiers, (OBJECTIVES[name] for name in STARTS))):
            staged = None if limit.expired else _staged(statement, first, limit.part(SEARCHED), 0)
            known += [] if staged is None else [replace(staged, bounds=(), completed=False, parts=())]
    for heuristic in (transpose, _push, propagate):
        if not (limit.timed and limit.expired):
            known.append(heuristic(graph, boundary, goal, limit.again()))
    return _best(known, found)


def _held_against_views(found: Assignment, boundary: Boundary, limit: Limit) -> Assignment:
    """An answer, or a cheaper one in which views of the source stay operators, as strategies leave them.

    Where a slow move is paid, or was avoided, a view between two fast ones may cost less. Moves that end in a view may
    share its Reshape, of which by itself each move of a tensor has its own. What costs less otherwise has Transposes in
    a row, of which a runtime makes one.
    """
    known, prices = list[Assignment](), ("transposes", "hidden", "bytes")
    if found.charged or found.price.hidden or (found.goal.timed and found.price.transposes):
        known.append(_push(found.graph, boundary, found.goal, limit.again().attempt(PUSHED)))
    if found.price.transposes and found.price.reshapes:
        for strategy in (transpose, propagate):
            other = strategy(found.graph, boundary, found.goal, limit.again())
            if all(getattr(other.price, name) >= getattr(found.price, name) for name in prices):
                known.append(other)
    best = _best([found, *known], found)
    shares = best is not found and all(getattr(best.price, name) == getattr(found.price, name) for name in prices)
    return _bounded(best, boundary, limit.again()) if shares and not found.goal.timed and not limit.expired else best


def _bounded(best: Assignment, boundary: Boundary, limit: Limit) -> Assignment:
    """An answer in which moves share Reshapes at views, with the bounds of a graph in which views may be places between
    moves, if these are proven: every such answer is one of that graph.
    """
    graph = halting(best.graph, best.opaque_views)
    found = None if graph is None else _searched(Statement(graph, boundary, best.goal), limit)
    return best if found is None or found.status != "optimal" else replace(best, bounds=found.bounds)


def _push(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    from layoutsolve.solver.strategies.push import push  # what most graphs do not come to

    return push(graph, boundary, goal, limit)


def _best(known: Sequence[Assignment], found: Assignment | None) -> Assignment:
    """The cheapest of some, the first of equals, with what is proven of the one that was found by searching."""
    best = min(known, key=lambda assignment: ranked(assignment.price, assignment.goal.tiers))
    if found is None:
        return replace(best, strategy="cpsat")
    if best is found:
        return found
    proof = {name: getattr(found, name) for name in ("strategy", "bounds", "components", "parts", "charged", "unseen")}
    return replace(best, **proof, relative=found.kept)


def _searched(statement: Statement, limit: Limit) -> Assignment | None:
    """What searching comes to within a limit; None where it does not even come to full layouts."""
    goal = statement.goal
    coarse = coarse_tiers(goal.tiers)
    if coarse is None:
        problem = statement.layouts(None, limit.part(STATED))
        if limit.expired:
            return None
        fine = solve(problem, goal.tiers, limit)
        proof = proven(fine)
        return _assignment(statement, fine, replace(proof, bounds=_bounds_of_orders(statement, fine.values[0], limit)))
    return _staged(statement, coarse, limit, NEEDED if len(statement.graph.nodes) <= ASKED else 0)


def _bounds_of_orders(statement: Statement, value: int, limit: Limit) -> tuple[int, ...]:
    """What is proven where orders and groupings are decided at once, and come to some ``value`` of the first tier: the
    groupings that are candidates are not all that there are.

    Nothing takes fewer operators than the cheapest orders have Transposes. Where all orders with so few need a Reshape
    it takes one more, as do all other orders.
    """
    goal = statement.goal
    least = cheapest_orders(statement, without_groupings(goal.tiers), limit).bounds
    if value == least[0] or limit.expired or len(statement.graph.nodes) > ASKED:
        return least
    other = _staged(
        Statement(statement.graph, statement.boundary, _Fewest(goal.objective, goal.target)), FEWEST[:1], limit, NEEDED
    )
    if other is None or other.tiers[0].status != "optimal" or not other.tiers[1].bound:
        return least
    return (other.tiers[0].value + 1,)


class _Fewest(Goal):
    """The fewest Transposes, and of orders that have as few the fewest Reshapes."""

    @property
    def tiers(self) -> Tiers:
        return FEWEST


def _staged(statement: Statement, coarse: Tiers, limit: Limit, needed: int) -> Assignment | None:
    """Orders first, by the ``coarse`` tiers, and groupings then, by all tiers of the goal; so much work may go into
    what is ``needed`` of the latter.
    """
    orders = cheapest_orders(statement, coarse, limit.part(ORDERS))
    if limit.expired:
        return None
    found = grouped(statement, [[row] for row in orders.chosen], proven(orders), limit)
    if found is None or limit.expired or not found.price.reshapes or not _sure(orders, found, coarse):
        return found
    most = WIDENED + WIDENED_EACH * found.price.reshapes
    if orders.problem.capped:
        return widened(statement, orders, found, limit, CAPPED * most, 0)
    return widened(statement, orders, found, limit, most, needed)


def _sure(orders: Solution, found: Assignment, coarse: Tiers) -> bool:
    """Whether orders are proven to be the cheapest, among capped candidates as they cost nothing, and groupings cost no
    more, but for their time.
    """
    proof = orders.optimal and not (orders.problem.capped and any(orders.values))
    return proof and (found.goal.timed or ranked(found.price, coarse) == orders.values)


def grouped(statement: Statement, kept: Orders, proof: Proof, limit: Limit) -> Assignment | None:
    """The cheapest groupings of orders to choose from, of which ``proof`` tells what is proven; None where the limit
    ends before there are any.
    """
    problem = statement.layouts(kept, limit.part(STATED))
    if not all(operator.rows for operator in problem.operators):
        return None
    tiers = statement.goal.tiers
    fine = solve(problem, tiers, limit)
    if not limit.expired:
        fine = replace(fine, rows=settled(statement.graph, fine.problem, fine.rows, tiers))
    return _assignment(statement, fine, proof, fine.branched)


@dataclass(frozen=True)
class Proof:
    """What a solution proves; the fields are as those of an :class:`Assignment`."""

    bounds: tuple[int, ...]
    branched: int
    parts: tuple[Part, ...]
    charged: frozenset[int] | None
    unseen: frozenset[int]


def proven(solution: Solution) -> Proof:
    """What is proven of a solution, without its problem."""
    return Proof(solution.bounds, solution.branched, solution.parts, solution.charged, solution.unseen)


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
        unseen=tuple(sorted(proof.unseen)),
    )
