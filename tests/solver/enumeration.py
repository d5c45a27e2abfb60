"""All combinations of a component's rows: what any search of it has to come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from layoutsolve.solver.search.presolve import Component, Domains
from layoutsolve.solver.statement.objective import Levels, ranked
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.row import Price


def enumerated(
    problem: LayoutProblem, domains: Domains, component: Component, start: Sequence[int], tiers: Levels
) -> list[int]:
    """The rows ``start`` with a component's replaced by the best of all their combinations."""
    rows = list(start)
    _enumerate_into(rows, problem, domains, component, tiers)
    return rows


def _enumerate_into(
    rows: list[int], problem: LayoutProblem, domains: Domains, component: Component, tiers: Levels
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
        closing[max(place.get(number, 0) for number, _ in problem.places(variable))].append(variable)
    return closing
