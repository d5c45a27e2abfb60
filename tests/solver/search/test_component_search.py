"""Searching a component: what is known already saves work and changes no price."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search import component_search, cpsat, formulation, lp_relaxation, search
from layoutsolve.solver.search.component_search import Outcome
from layoutsolve.solver.search.cpsat import Found
from layoutsolve.solver.search.large_neighbourhood import improved_together
from layoutsolve.solver.search.presolve import components, every_row
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, TIE, Goal, coarse_levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph
from tests.solver.test_optimality import conflicting_grid

OBJECTIVE = "min-executed"
TIERS = coarse_levels(OBJECTIVES[OBJECTIVE]) or ()


def family() -> list[Graph]:
    grids = [conflicting_grid(2, 1), conflicting_grid(3, 1)]
    return [*(random_graph(seed, 14, CONTROL) for seed in range(12)), *map(mixed_graph, range(12)), *grids]


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> list[Any]:
    """A list that grows by one whenever a function is called."""
    calls: list[Any] = []
    inner: Callable[..., object] = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given, **named: calls.append(given) or inner(*given, **named))
    return calls


def test_no_relaxation_is_solved_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component_search, "eliminated", lambda *given: None)
    asked, found = counted(monkeypatch, lp_relaxation, "relaxed"), 0
    for graph in family():
        solve(Statement(graph, goal=Goal(OBJECTIVE)).orders(), TIERS, Limit(1_000_000))
        given = [each[:2] for each in asked]
        assert not any(each in given[:place] for place, each in enumerate(given))
        found += len(given)
        del asked[:]
    assert found


def test_each_component_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much one of them spends, each has as much work as the others."""
    given, inner = list[int](), search.solve_component

    def greedy(*asked: Any) -> Outcome:
        limit = asked[-1]
        given.append(limit.work)
        limit.spend(limit.work)
        return inner(*asked)

    monkeypatch.setattr(search, "solve_component", greedy)
    several = 0
    for graph in family():
        solve(Statement(graph, goal=Goal(OBJECTIVE)).orders(), TIERS, Limit(1_000_000))
        assert not given or 0.99 * 1_000_000 / len(given) < min(given) <= max(given) < 1.01 * 1_000_000 / len(given)
        several += len(given) > 1
        del given[:]
    assert several


def test_what_makes_too_large_a_program_is_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as operators near each other can be."""
    monkeypatch.setattr(component_search, "eliminated", lambda *given: None)
    monkeypatch.setattr(formulation, "CONSTRAINTS", 0)
    better = 0
    for graph in family():
        problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
        found, domains = solve(problem, TIERS), every_row(problem)
        rows = [domain[0] for domain in domains]
        first = ranked(price(problem, rows), TIERS)
        for component in components(problem, domains):
            improved_together(problem, rows, dict(enumerate(domains)), component, (*TIERS, TIE), unlimited())
        assert found.values == ranked(price(problem, rows), TIERS) <= first
        better += found.values < first
    assert better


def test_the_first_rows_are_improved_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a relaxation is rounded to, what is found is no dearer than what the first rows become."""
    monkeypatch.setattr(component_search, "eliminated", lambda *given: None)
    monkeypatch.setattr(cpsat, "searched", lambda *given: Found(None, 0, False))
    for graph in (conflicting_grid(3, 2), conflicting_grid(4, 3)):
        problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
        found, domains = solve(problem, TIERS), every_row(problem)
        rows = [domain[0] for domain in domains]
        for component in components(problem, domains):
            improved_together(problem, rows, dict(enumerate(domains)), component, (*TIERS, TIE), unlimited())
        assert found.values <= ranked(price(problem, rows), TIERS)
