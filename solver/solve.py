"""Solving: from a graph to an assignment of layouts, by one of several strategies."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from time import monotonic

from layoutsolve.errors import OptionError
from layoutsolve.graph import Graph
from layoutsolve.solver.boundary import Boundary
from layoutsolve.solver.contract import Contraction, contract
from layoutsolve.solver.copies import shared_rows
from layoutsolve.solver.dominance import dominate
from layoutsolve.solver.heuristics import propagate, transpose
from layoutsolve.solver.presolve import Component, Domains, components, open_rows
from layoutsolve.solver.price import price, price_of_variable
from layoutsolve.solver.problem import (
    DEFAULT_OBJECTIVE,
    OBJECTIVES,
    Assignment,
    Goal,
    LayoutProblem,
    Part,
    Price,
    Tiers,
    chosen,
    coarse_tiers,
    ranked,
)
from layoutsolve.solver.push import push
from layoutsolve.solver.runs import settled
from layoutsolve.solver.state import Statement

STRATEGIES = ("cpsat", "mincut", "push", "propagate", "transpose")
DEFAULT_SECONDS = 30.0
ENUMERATED = 4096
"""A component with at most so many combinations of rows is enumerated: quicker than to load a solver."""


def assign(
    graph: Graph,
    boundary: Boundary | None = None,
    *,
    strategy: str = "cpsat",
    objective: str = DEFAULT_OBJECTIVE,
    contrib: bool = False,
    seconds: float = DEFAULT_SECONDS,
) -> Assignment:
    """Choose a layout for every tensor of a graph.

    With ``contrib`` operators of ONNX Runtime's own domain, which other runtimes do not have, may save Transposes.
    ``seconds`` limits the search; the best that is known by then, heuristics included, is returned with status
    'feasible' and a bound. Raises :class:`OptionError` for an unknown strategy or objective, :class:`StrategyError`
    where 'mincut' cannot solve the graph, :class:`LayoutError` for explicit layouts that do not fit.
    """
    if objective not in OBJECTIVES:
        raise OptionError(f"unknown objective '{objective}': use one of {', '.join(OBJECTIVES)}")
    if not seconds > 0:
        raise OptionError(f"a time limit of {seconds} seconds is not positive")
    with _collector_paused():
        return _assigned(graph, boundary or Boundary(), strategy, Goal(objective, contrib), seconds)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without cyclic garbage collection: a problem is millions of small objects, none of which is garbage yet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _assigned(graph: Graph, fixed: Boundary, strategy: str, goal: Goal, seconds: float) -> Assignment:
    if strategy == "transpose":
        return transpose(graph, fixed, goal)
    if strategy == "propagate":
        return propagate(graph, fixed, goal)
    if strategy == "push":
        return push(graph, fixed, goal)
    if strategy == "mincut":
        from layoutsolve.solver.mincut import mincut

        return mincut(graph, fixed, goal, seconds)
    if strategy == "cpsat":
        found = solve_graph(graph, fixed, goal, seconds)
        return found if found.status == "optimal" else _best(graph, fixed, goal, found)
    raise OptionError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")


def _best(graph: Graph, boundary: Boundary, goal: Goal, found: Assignment) -> Assignment:
    """What was found in time, or a heuristic's assignment where that is cheaper; the bound holds for both."""
    tiers = goal.tiers
    heuristics = [heuristic(graph, boundary, goal) for heuristic in (push, propagate, transpose)]
    best = min([found, *heuristics], key=lambda assignment: ranked(assignment.price, tiers))
    if best is found:
        return found
    return replace(best, strategy=found.strategy, bound=found.bound, components=found.components, parts=found.parts)


def solve_graph(graph: Graph, boundary: Boundary, goal: Goal, seconds: float = DEFAULT_SECONDS) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then: the Reshapes are the fewest
    for the chosen orders. Otherwise both are chosen at once.
    """
    deadline = monotonic() + seconds
    statement, tiers = Statement(graph, boundary, goal), goal.tiers
    coarse = coarse_tiers(tiers)
    if coarse is None:
        return _assignment(solve(statement.layouts(), tiers, deadline - monotonic()), goal)
    orders = solve(statement.orders(), coarse, deadline - monotonic())
    kept = [chosen(orders.problem, orders.rows, number) for number in range(len(orders.rows))]
    fine = solve(statement.layouts(kept), tiers, deadline - monotonic())
    return _assignment(replace(fine, rows=settled(graph, fine.problem, fine.rows, tiers)), goal, orders)


def _assignment(fine: Solution, goal: Goal, coarse: Solution | None = None) -> Assignment:
    """The public form of a solution; what is proven is what the coarse problem proves, where there was one."""
    proven = coarse or fine
    fine = replace(fine, rows=shared_rows(fine.problem, fine.rows))
    total = price(fine.problem, fine.rows)
    bound = ranked(total, goal.tiers)[0] - proven.gap
    status = "optimal" if proven.optimal and fine.optimal else "feasible"
    branched = fine.branched + (coarse.branched if coarse else 0)
    return Assignment(
        fine.problem, fine.rows, total, goal, "cpsat", status, bound, proven.components, branched, proven.parts
    )


@dataclass(frozen=True)
class Solution:
    """Rows chosen for a problem.

    ``optimal`` says that every tier is proven, ``gap`` how far the first one may be above its bound, ``components`` how
    many parts had to be searched, ``branched`` how many Booleans they had, ``parts`` what each of them came to.
    """

    problem: LayoutProblem
    rows: tuple[int, ...]
    optimal: bool
    gap: int
    components: int
    branched: int
    parts: tuple[Part, ...] = ()


def solve(problem: LayoutProblem, tiers: Tiers, seconds: float = DEFAULT_SECONDS) -> Solution:
    """The cheapest rows of a problem: component by component, small ones by enumeration, others with CP-SAT."""
    contraction = presolved(problem, tiers)
    found = _search(contraction.problem, contraction.domains, tiers, seconds)
    return replace(found, problem=problem, rows=contraction.expand(found.rows))


def presolved(problem: LayoutProblem, tiers: Tiers) -> Contraction:
    """The problem as it is searched, whatever searches it: without rows that are no choice."""
    contraction = contract(problem, open_rows(problem), tiers)
    orders = not any("reshapes" in tier for tier in tiers)
    return replace(contraction, domains=dominate(contraction.problem, contraction.domains, tiers, orders))


def _search(problem: LayoutProblem, domains: Domains, tiers: Tiers, seconds: float) -> Solution:
    rows = [domain[0] for domain in domains]
    found = components(problem, domains)
    parts: list[Part] = []
    optimal, gap, branched = not problem.capped, 0, 0
    deadline = monotonic() + seconds
    for component in found:
        if prod(len(domains[number]) for number in component.operators) <= ENUMERATED:
            enumerate_into(rows, problem, domains, component, tiers)
            parts.append(part_of(problem, domains, rows, component, tiers, "enumeration"))
            continue
        from layoutsolve.solver.cpsat import solve_component

        outcome = solve_component(problem, domains, component, rows, tiers, deadline)
        for number, row in outcome.rows.items():
            rows[number] = row
        optimal &= outcome.optimal
        branched += outcome.branched
        parts.append(part_of(problem, domains, rows, component, tiers, "cp-sat", outcome.bound))
        gap += parts[-1].value - parts[-1].bound
    return Solution(problem, tuple(rows), optimal, gap, len(parts), branched, tuple(parts))


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

    def extend(depth: int, before: Price) -> None:
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
                extend(depth + 1, total)
            else:
                best, lowest = [rows[each] for each in operators], cost

    extend(0, Price())
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
