"""Strategy ``cpsat``: orders and groupings that are searched, component by component, and proven."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from layoutsolve.graph import Graph
from layoutsolve.solver.boundary import Boundary
from layoutsolve.solver.contract import Contraction, contract
from layoutsolve.solver.copies import shared_rows
from layoutsolve.solver.dominance import dominate
from layoutsolve.solver.heuristics import in_source_order, propagate
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.presolve import Component, Domains, components, open_rows
from layoutsolve.solver.price import price, price_of_variable
from layoutsolve.solver.problem import (
    DEFAULT_OBJECTIVE,
    OBJECTIVES,
    TIE,
    Assignment,
    Goal,
    LayoutProblem,
    Part,
    Price,
    Row,
    Tiers,
    chosen,
    coarse_tiers,
    ranked,
)
from layoutsolve.solver.push import push
from layoutsolve.solver.runs import settled
from layoutsolve.solver.state import FEW, Statement

ENUMERATED = 4096
"""A component with at most so many combinations of rows is enumerated: quicker than to load a solver."""

LOADING = 0.1
"""The seconds that have to be left to load CP-SAT, where nothing has done so yet: about what that takes."""

SEARCHED, ORDERS, NARROW, STATED, PRESOLVED = 0.8, 0.7, 0.5, 0.4, 0.3
"""The most of what is left of a limit that a stage may use: searching beside heuristics, choosing orders beside
groupings, choosing among few of them, finding candidates, and striking out what is no choice.
"""


def solve_graph(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then: the Reshapes are the fewest
    for the chosen orders. Otherwise both are chosen at once. What is not proven is compared with heuristics, for which
    a share of the limit is left; the quickest of them runs in any case. Where both were to be chosen at once, one after
    the other is among them, with the orders of the default objective.
    """
    statement = Statement(graph, boundary, goal)
    limit.keep_back()
    found = _searched(graph, statement, goal, limit.part(SEARCHED))
    if found is not None and found.status == "optimal":
        return found
    known = [] if found is None else [found]
    known.append(in_source_order(graph, statement, goal))
    if coarse_tiers(goal.tiers) is None and not goal.timed and not limit.expired:
        first = coarse_tiers(OBJECTIVES[DEFAULT_OBJECTIVE])
        staged = None if first is None else _staged(graph, statement, goal, first, limit.part(SEARCHED))
        known += [] if staged is None else [replace(staged, status="feasible", bound=0, parts=())]
    known += [heuristic(graph, boundary, goal, limit.part(1.0)) for heuristic in (push, propagate) if not limit.expired]
    best = min(known, key=lambda assignment: ranked(assignment.price, goal.tiers))
    if found is None:
        return replace(best, strategy="cpsat", bound=0)
    if best is found:
        return found
    return replace(best, strategy=found.strategy, bound=found.bound, components=found.components, parts=found.parts)


def _searched(graph: Graph, statement: Statement, goal: Goal, limit: Limit) -> Assignment | None:
    """What searching comes to within a limit; None where it does not even come to full layouts."""
    tiers, coarse = goal.tiers, coarse_tiers(goal.tiers)
    if coarse is None:
        problem = statement.layouts(None, limit.part(STATED))
        if limit.expired:
            return None
        fine = solve(problem, tiers, limit)
        return _assignment(fine, goal, proven(fine, goal))
    return _staged(graph, statement, goal, coarse, limit)


def _staged(graph: Graph, statement: Statement, goal: Goal, coarse: Tiers, limit: Limit) -> Assignment | None:
    """Orders first, by the ``coarse`` tiers, and groupings then, by all tiers of the goal."""
    orders = _orders(statement, coarse, limit.part(ORDERS))
    if limit.expired:
        return None
    kept, proof = orders.chosen, proven(orders, goal)
    del orders  # a problem takes as much memory as all that the graph is
    return grouped(graph, statement, goal, kept, proof, limit)


def grouped(
    graph: Graph, statement: Statement, goal: Goal, kept: Sequence[Row], proof: Proof, limit: Limit
) -> Assignment | None:
    """The cheapest groupings of chosen orders, of which ``proof`` tells what is proven; None where the limit ends
    before there are any.
    """
    problem = statement.layouts(kept, limit.part(STATED))
    if not all(operator.rows for operator in problem.operators):
        return None
    fine = solve(problem, goal.tiers, limit)
    if not limit.expired:
        fine = replace(fine, rows=settled(graph, fine.problem, fine.rows, goal.tiers))
    return _assignment(fine, goal, proof, fine.branched)


def _orders(statement: Statement, tiers: Tiers, limit: Limit) -> Solution:
    """The cheapest orders: among few candidates first, then, if more of them could be cheaper, among all.

    What all of them prove is what is known of the few as well, should those have led to more in their time.
    """
    first = limit.part(NARROW)
    few = solve(statement.orders(first.part(STATED), FEW), tiers, first)
    if few.optimal or not few.capped or limit.expired:
        return few
    wide = solve(statement.orders(limit.part(STATED)), tiers, limit)
    least, known = wide.price(tiers), few.price(tiers)
    if least <= known:
        return wide
    return replace(wide, problem=few.problem, rows=few.rows, gap=known[0] - least[0] + wide.gap)


@dataclass(frozen=True)
class Proof:
    """What a solution proves; the fields are as those of an :class:`Assignment`."""

    optimal: bool
    bound: int
    components: int
    branched: int
    parts: tuple[Part, ...]


def proven(solution: Solution, goal: Goal) -> Proof:
    """What is proven of a solution: nothing of its bound where candidates were left out."""
    bound = 0 if solution.capped else solution.price(goal.tiers)[0] - solution.gap
    return Proof(solution.optimal, bound, solution.components, solution.branched, solution.parts)


def _assignment(fine: Solution, goal: Goal, proof: Proof, branched: int = 0) -> Assignment:
    """The public form of a solution; ``branched`` are its Booleans where the proof is that of the orders alone."""
    fine = replace(fine, rows=shared_rows(fine.problem, fine.rows))
    total = price(fine.problem, fine.rows)
    status = "optimal" if proof.optimal and fine.optimal else "feasible"
    branched += proof.branched
    return Assignment(
        fine.problem, fine.rows, total, goal, "cpsat", status, proof.bound, proof.components, branched, proof.parts
    )


@dataclass(frozen=True)
class Solution:
    """Rows chosen for a problem.

    ``optimal`` says that every tier is proven, ``gap`` how far the first one may be above its bound, ``components`` how
    many parts had to be searched, ``branched`` how many Booleans they had, ``parts`` what each of them came to.
    ``capped`` says that candidates were left out.
    """

    problem: LayoutProblem
    rows: tuple[int, ...]
    optimal: bool
    gap: int
    components: int
    branched: int
    parts: tuple[Part, ...] = ()
    capped: bool = False

    @property
    def chosen(self) -> list[Row]:
        """The row of each operator."""
        return [chosen(self.problem, self.rows, number) for number in range(len(self.rows))]

    def price(self, tiers: Tiers) -> tuple[int, ...]:
        """What the rows cost, by tiers."""
        return ranked(price(self.problem, self.rows), tiers)


def solve(problem: LayoutProblem, tiers: Tiers, limit: Limit | None = None) -> Solution:
    """The cheapest rows of a problem: component by component, small ones by enumeration, others with CP-SAT.

    Nothing is cheaper than what costs nothing, whatever candidates were left out.
    """
    limit = limit or unlimited()
    contraction = presolved(problem, tiers, limit.part(PRESOLVED))
    found = _search(contraction.problem, contraction.domains, (*tiers, TIE), limit)
    found = replace(found, problem=problem, rows=contraction.expand(found.rows))
    if not found.optimal and not any(found.price(tiers)):
        return replace(found, optimal=True)
    return found


def presolved(problem: LayoutProblem, tiers: Tiers, limit: Limit | None = None) -> Contraction:
    """The problem as it is searched, whatever searches it: without rows that are no choice."""
    limit = limit or unlimited()
    contraction = contract(problem, open_rows(problem), tiers, limit)
    orders = not any("reshapes" in tier for tier in tiers)
    domains = dominate(contraction.problem, contraction.domains, tiers, orders, limit)
    return replace(contraction, domains=domains)


def _search(problem: LayoutProblem, domains: Domains, tiers: Tiers, limit: Limit) -> Solution:
    """Small components come first, so that what is hard keeps nothing else from being solved."""
    rows = [domain[0] for domain in domains]
    found = components(problem, domains)
    parts: dict[int, Part] = {}
    optimal, branched = not problem.capped, 0
    sizes = [prod(len(domains[number]) for number in component.operators) for component in found]
    for place in sorted(range(len(found)), key=lambda place: sizes[place]):
        component = found[place]
        if limit.expired or not (sizes[place] <= ENUMERATED or _loaded(limit)):
            optimal = False
            parts[place] = part_of(problem, domains, rows, component, tiers, "none", 0)
        elif sizes[place] <= ENUMERATED:
            limit.spend(sizes[place])
            enumerate_into(rows, problem, domains, component, tiers)
            parts[place] = part_of(problem, domains, rows, component, tiers, "enumeration")
        else:
            from layoutsolve.solver.cpsat import solve_component

            outcome = solve_component(problem, domains, component, rows, tiers, limit)
            for number, row in outcome.rows.items():
                rows[number] = row
            optimal &= outcome.optimal
            branched += outcome.branched
            parts[place] = part_of(problem, domains, rows, component, tiers, "cp-sat", outcome.bound)
    ordered = tuple(parts[place] for place in range(len(found)))
    gap = sum(part.value - part.bound for part in ordered)
    return Solution(problem, tuple(rows), optimal, gap, len(ordered), branched, ordered, problem.capped)


def _loaded(limit: Limit) -> bool:
    """Whether CP-SAT is loaded, or may be; otherwise the limit has ended the search."""
    if "layoutsolve.solver.cpsat" in sys.modules or limit.seconds > LOADING:
        return True
    limit.searched(0.0, finished=False)
    return False


def part_of(
    problem: LayoutProblem,
    domains: Domains,
    rows: Sequence[int],
    component: Component,
    tiers: Tiers,
    method: str,
    bound: int | None = None,
) -> Part:
    """What a component comes to with the chosen rows; ``bound`` is proven for its first tier, by default its value."""
    value = ranked(price_of_component(problem, rows, component), tiers)[0]
    booleans = sum(len(domains[number]) for number in component.operators)
    return Part(component.operators, booleans, value, value if bound is None else bound, method)


def price_of_component(problem: LayoutProblem, rows: Sequence[int], component: Component) -> Price:
    """What a component's operators and variables cost."""
    total = Price()
    for number in component.operators:
        total += chosen(problem, rows, number).price
    for variable in component.variables:
        total += price_of_variable(problem, rows, variable)
    return total


def enumerated(
    problem: LayoutProblem, domains: Domains, component: Component, start: Sequence[int], tiers: Tiers
) -> list[int]:
    """The rows ``start`` with a component's replaced by the best of all their combinations."""
    rows = list(start)
    enumerate_into(rows, problem, domains, component, tiers)
    return rows


def enumerate_into(
    rows: list[int], problem: LayoutProblem, domains: Domains, component: Component, tiers: Tiers
) -> None:
    """Replace a component's rows by the best of all their combinations, the first of equals, in place.

    What a beginning of a combination costs already only grows: one that is no better than the best is not continued.
    """
    operators = component.operators
    closing = _closing(problem, component)
    best: list[int] = []
    lowest: tuple[int, ...] | None = None

    def extend(depth: int, before: Price, further: Callable[..., None]) -> None:
        nonlocal best, lowest
        number = operators[depth]
        for row in domains[number]:
            rows[number] = row
            total = before + problem.operators[number].rows[row].price
            for variable in closing[depth]:
                total += price_of_variable(problem, rows, variable)
            cost = ranked(total, tiers)
            if lowest is not None and cost >= lowest:
                continue
            if depth + 1 < len(operators):
                further(depth + 1, total, further)
            else:
                best, lowest = [rows[each] for each in operators], cost

    extend(0, Price(), extend)  # one that refers to itself would be a cycle, and keep the problem in memory
    for number, row in zip(operators, best, strict=True):
        rows[number] = row


def _closing(problem: LayoutProblem, component: Component) -> list[list[int]]:
    """For each operator of a component, in order, the variables whose price is known once its row is chosen."""
    place = {number: index for index, number in enumerate(component.operators)}
    closing: list[list[int]] = [[] for _ in component.operators]
    for variable in component.variables:
        touching = [problem.writers[variable], *problem.readers[variable]]
        closing[max(place.get(each[0], 0) for each in touching if each is not None)].append(variable)
    return closing
