"""Solving: from a graph to an assignment of layouts, by one of several strategies."""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.errors import OptionError
from layoutsolve.graph import Graph
from layoutsolve.solver.boundary import Boundary
from layoutsolve.solver.heuristics import propagate, transpose
from layoutsolve.solver.presolve import Component, Domains, components, open_rows
from layoutsolve.solver.price import price, price_of_variable
from layoutsolve.solver.problem import OBJECTIVES, Assignment, LayoutProblem, Price, orders_first, tiers
from layoutsolve.solver.state import Statement

STRATEGIES = ("cpsat", "propagate", "transpose")
DEFAULT_SECONDS = 30.0


def assign(
    graph: Graph,
    boundary: Boundary | None = None,
    *,
    strategy: str = "cpsat",
    objective: str = "min-transpose",
    seconds: float = DEFAULT_SECONDS,
) -> Assignment:
    """Choose a layout for every tensor of a graph.

    ``seconds`` limits the search; what is found by then is returned with status 'feasible'. Raises
    :class:`OptionError` for an unknown strategy or objective, :class:`LayoutError` for explicit layouts that do not
    fit.
    """
    if objective not in OBJECTIVES:
        raise OptionError(f"unknown objective '{objective}': use one of {', '.join(OBJECTIVES)}")
    fixed = boundary or Boundary()
    if strategy == "transpose":
        return transpose(graph, fixed, objective)
    if strategy == "propagate":
        return propagate(graph, fixed, objective)
    if strategy == "cpsat":
        return solve_graph(graph, fixed, objective, seconds)
    raise OptionError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")


def solve_graph(graph: Graph, boundary: Boundary, objective: str, seconds: float = DEFAULT_SECONDS) -> Assignment:
    """The cheapest assignment of a graph.

    Where Reshapes come last in the objective, orders are chosen first and groupings then: the Reshapes are the fewest
    for the chosen orders. Otherwise both are chosen at once.
    """
    statement = Statement(graph, boundary)
    if not orders_first(objective):
        return solve(statement.layouts(), objective, seconds)
    coarse = solve(statement.orders(), objective, seconds)
    kept = [coarse.row(number) for number in range(len(coarse.rows))]
    fine = solve(statement.layouts(kept), objective, seconds)
    status = "optimal" if coarse.status == "optimal" else "feasible"
    return replace(
        fine, status=status, bound=coarse.bound, components=coarse.components, branched=coarse.branched + fine.branched
    )


def solve(problem: LayoutProblem, objective: str = "min-transpose", seconds: float = DEFAULT_SECONDS) -> Assignment:
    """The cheapest assignment of a problem, proven where the status is 'optimal'."""
    domains = open_rows(problem)
    rows = [domain[0] for domain in domains]
    parts = components(problem, domains)
    optimal, slack, branched = not problem.capped, 0, 0
    for component in parts:
        rows = improve(problem, domains, component, rows, objective)
        from layoutsolve.solver.cpsat import solve_component

        outcome = solve_component(problem, domains, component, rows, objective, seconds)
        for number, row in outcome.rows.items():
            rows[number] = row
        optimal &= outcome.optimal
        slack += outcome.gap
        branched += outcome.branched
    total = price(problem, rows)
    bound = tiers(total, objective)[0] - slack
    status = "optimal" if optimal else "feasible"
    return Assignment(problem, tuple(rows), total, objective, "cpsat", status, bound, len(parts), branched)


def improve(
    problem: LayoutProblem, domains: Domains, component: Component, start: list[int], objective: str
) -> list[int]:
    """A local optimum: each operator of a component in turn takes its best row, until nothing changes."""
    rows = list(start)
    for _ in range(8):
        before = list(rows)
        for number in component.operators:
            priced = [(_local(problem, rows, number, row, objective), row) for row in domains[number]]
            rows[number] = min(priced)[1]
        if rows == before:
            break
    return rows


def _local(problem: LayoutProblem, rows: list[int], number: int, choice: int, objective: str) -> tuple[int, ...]:
    """The price of everything that one operator's row touches."""
    before, rows[number] = rows[number], choice
    row = problem.operators[number].rows[choice]
    total = Price(row.transposes, row.slow, row.reshapes, row.bytes)
    for variable in sorted(set(problem.operators[number].ports)):
        if not problem.variables[variable].constant:
            total += price_of_variable(problem, rows, variable)
    rows[number] = before
    return tiers(total, objective)
