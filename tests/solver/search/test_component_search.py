"""Searching a component: what is known already saves work and changes no price."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search import component_search, lp_relaxation
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_levels
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
