"""Large neighbourhood search: adjacent operators are re-optimised, some at a time, where all at once are too many."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.bucket_elimination import eliminated
from layoutsolve.solver.search.presolve import Component, price_of_component
from layoutsolve.solver.statement.objective import Levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem

TOGETHER = (40, 20, 8)
"""How many operators are chosen anew at a time: as many as have tables that are small enough."""


def improved_together(
    problem: LayoutProblem,
    rows: list[int],
    domains: Mapping[int, Sequence[int]],
    component: Component,
    levels: Levels,
    limit: Limit,
) -> None:
    """Give the operators around each one the cheapest alternatives of their ``domains`` with all others as they are, in
    place, until that changes nothing or the limit is over. Operators are eliminated.
    """
    waiting, inside = dict.fromkeys(component.operators), (set(component.operators), set(component.variables))
    while waiting and not limit.expired:
        first = next(iter(waiting))
        del waiting[first]
        for count in TOGETHER:
            around = _around(problem, first, count, *inside)
            variables = {each for one in around for each in problem.operators[one].ports}
            part = Component(tuple(sorted(around)), tuple(sorted(variables & inside[1])))
            at = {number for variable in part.variables for number, _ in problem.places(variable)}
            open_rows = {number: [rows[number]] for number in at} | {number: domains[number] for number in around}
            found = eliminated(problem, open_rows, part, levels, limit)
            if found is not None:
                break
        else:
            continue
        for number in around[: count // 2]:
            waiting.pop(number, None)
        tried = list(rows)
        for number, row in found.items():
            tried[number] = row
        prices = (ranked(price_of_component(problem, each, part), levels) for each in (tried, rows))
        if tried != rows and next(prices) < next(prices):
            rows[:] = tried
            waiting.update(dict.fromkeys(around))


def _around(problem: LayoutProblem, first: int, count: int, operators: set[int], variables: set[int]) -> list[int]:
    """So many of some operators nearest to one, that one first, by the variables that they share."""
    found, queue = {first: None}, deque([first])
    while queue and len(found) < count:
        for variable in sorted(variables.intersection(problem.operators[queue.popleft()].ports)):
            for other, _ in problem.places(variable):
                if other in operators and other not in found and len(found) < count:
                    found[other] = None
                    queue.append(other)
    return list(found)
