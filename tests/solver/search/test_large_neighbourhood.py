"""Improving some operators at a time: never dearer, nothing else touched; and all at a time are the optimum."""

from __future__ import annotations

import pytest

from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search import large_neighbourhood
from layoutsolve.solver.search.large_neighbourhood import improved_together
from layoutsolve.solver.search.presolve import components, every_row, price_of_component
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, coarse_levels, ranked
from layoutsolve.solver.statement.statement import Statement
from tests.solver.test_optimality import conflicting_grid

TIERS = coarse_levels(OBJECTIVES["min-executed"]) or ()


def improved(size: int, depth: int, limit: Limit) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """What the components of a grid cost at first, and when they are improved."""
    problem = Statement(conflicting_grid(size, depth)).orders()
    domains = every_row(problem)
    first = [domain[0] for domain in domains]
    before, after = [], []
    for component in components(problem, domains):
        rows = list(first)
        improved_together(problem, rows, dict(enumerate(domains)), component, TIERS, limit)
        inside = set(component.operators)
        assert all(row in domain for row, domain in zip(rows, domains, strict=True))
        assert all(rows[number] == first[number] for number in range(len(rows)) if number not in inside)
        before.append(ranked(price_of_component(problem, first, component), TIERS))
        after.append(ranked(price_of_component(problem, rows, component), TIERS))
    return before, after


@pytest.mark.parametrize("size", [2, 3])
def test_nothing_becomes_dearer(size: int) -> None:
    before, after = improved(size, 3, unlimited())
    assert after < before and all(now <= then for now, then in zip(after, before, strict=True))
    assert improved(size, 3, unlimited())[1] == after


def test_without_work_nothing_changes() -> None:
    before, after = improved(3, 2, Limit(0))
    assert after == before


def test_all_at_once_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many are chosen anew as there are, what is left is what the search proves."""
    monkeypatch.setattr(large_neighbourhood, "TOGETHER", (2**62,))
    problem = Statement(conflicting_grid(2, 2)).orders()
    found = solve(problem, TIERS)
    assert found.optimal
    assert [sum(values) for values in zip(*improved(2, 2, unlimited())[1], strict=True)] == [
        sum(values) for values in zip(*(part.values for part in found.parts), strict=True)
    ]
