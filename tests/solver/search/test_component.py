"""Searching a component: what is known already saves work and changes no price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search import component, relaxed
from layoutsolve.solver.search.changing import Changing
from layoutsolve.solver.search.component import _Search
from layoutsolve.solver.search.improved import SWEEPS, improved
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, Tiers, coarse_tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph
from tests.solver.test_optimality import conflicting_grid

OBJECTIVE = "min-executed"
TIERS = coarse_tiers(OBJECTIVES[OBJECTIVE]) or ()


def family() -> list[Graph]:
    grids = [conflicting_grid(2, 1), conflicting_grid(3, 1)]
    return [*(random_graph(seed, 14, CONTROL) for seed in range(12)), *map(mixed_graph, range(12)), *grids]


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> list[Any]:
    """A list that grows by one whenever a function is called."""
    calls: list[Any] = []
    inner: Callable[..., object] = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given, **named: calls.append(given) or inner(*given, **named))
    return calls


def test_rows_that_are_optimal_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that begins at the cheapest rows gives these, and rounds nothing where a relaxation proves them."""
    monkeypatch.setattr(component, "eliminated", lambda *given: None)
    rounded = counted(monkeypatch, _Search, "_round")
    fresh = begun = 0
    for graph in family():
        problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
        before = len(rounded)
        found = solve(problem, TIERS)
        between = len(rounded)
        again = solve(problem, TIERS, start=found)
        fresh, begun = fresh + between - before, begun + len(rounded) - between
        assert again.values == again.bounds == found.values
    assert begun < fresh / 2


def test_rows_of_other_problems_are_a_start() -> None:
    """Whatever rows a search begins with, it comes to the same price, also where operators have other rows."""
    for graph in family():
        statement = Statement(graph, goal=Goal(OBJECTIVE))
        problem = statement.orders()
        least = solve(problem, TIERS)
        for stated in (replace(problem, charged=frozenset()), statement.orders(charged=problem.moving()[:2])):
            start = solve(stated, TIERS)
            assert solve(problem, TIERS, start=start).values == least.values
            assert solve(stated, TIERS, start=least).values == start.values


def test_no_relaxation_is_solved_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where tiers are searched one after the other either, since no rows meet all bounds."""
    monkeypatch.setattr(component, "eliminated", lambda *given: None)
    asked, searches = counted(monkeypatch, relaxed, "relaxed"), counted(monkeypatch, _Search, "searched")
    for graph in family():
        del asked[:]
        solve(Statement(graph, goal=Goal(OBJECTIVE)).orders(), TIERS, Limit(1_000_000))
        given = [each[:2] for each in asked]
        assert not any(each in given[:place] for place, each in enumerate(given))
    assert searches


def swept(problem: LayoutProblem, rows: list[int], tiers: Tiers) -> int:
    """As :func:`improved`, with a look at every operator in every sweep; how many there were."""
    changing = Changing(problem, rows)

    def cost(number: int, row: int) -> tuple[int, ...]:
        changing.take(number, row)
        return ranked(changing.around(number), tiers)

    for sweep in range(1, SWEEPS + 1):
        before = list(rows)
        for number, operator in enumerate(problem.operators):
            choices = (rows[number], *range(len(operator.rows)))
            rows[number] = min(choices, key=lambda row: (cost(number, row), row))
            changing.take(number, rows[number])
        if rows == before:
            return sweep
    return SWEEPS


def test_only_what_is_beside_a_change_is_visited_again() -> None:
    spent = whole = 0
    for graph in family():
        problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
        domains = {number: list(range(len(operator.rows))) for number, operator in enumerate(problem.operators)}
        once = sum(10 * len(domain) * len(problem.operators[number].ports) for number, domain in domains.items())
        rows, expected = [len(domain) - 1 for domain in domains.values()], [len(each) - 1 for each in domains.values()]
        limit = Limit(10**9)
        improved(problem, rows, domains, TIERS, limit)
        whole += once * swept(problem, expected, TIERS)
        assert rows == expected
        spent += 10**9 - limit.work
    assert spent < 0.8 * whole
