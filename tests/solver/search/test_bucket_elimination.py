"""Elimination of operators: it finds what enumeration does, and knows when tables become too large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search import bucket_elimination, formulation
from layoutsolve.solver.search import component_search as solving
from layoutsolve.solver.search.bucket_elimination import eliminated
from layoutsolve.solver.search.presolve import Component, Domains, components, price_of_component
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.solver.enumeration import enumerated
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph
from tests.solver.test_optimality import conflicting_grid, narrow_graph

TIERS = coarse_levels(OBJECTIVES["min-executed"]) or ()


def family(objective: str, groupings: bool = False) -> Iterator[tuple[LayoutProblem, Domains, Component]]:
    """Components of random graphs, with some rows of their operators, all moves at their price or, of orders, some."""
    for seed in range(12 if groupings else 24):
        random = np.random.default_rng(seed)
        made = (mixed_graph, narrow_graph, lambda each: random_graph(each, 9, CONTROL))[seed % 3]
        statement = Statement(made(seed), goal=Goal(objective))
        problem = statement.layouts() if groupings else statement.orders()
        charged = frozenset(each for each in problem.moving() if random.random() < 0.5)
        problem = problem.charging(charged if seed % 2 and not groupings else None)
        domains = [
            sorted(random.choice(len(operator.rows), min(4, len(operator.rows)), replace=False).tolist())
            for operator in problem.operators
        ]
        for component in components(problem, domains):
            if len(component.operators) <= 7:
                yield problem, domains, component


@pytest.mark.members(3)
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes", "min-latency"])
def test_rows_equal_enumeration(objective: str) -> None:
    """The least of all tiers, wherever what is open at a variable comes from."""
    tiers, compared = coarse_levels(OBJECTIVES[objective]) or (), 0
    for problem, domains, component in family(objective):
        start = [domain[0] for domain in domains]
        best = enumerated(problem, domains, component, start, tiers)
        found = eliminated(problem, dict(enumerate(domains)), component, tiers, unlimited())
        assert found is not None
        assert all(row in domains[number] for number, row in found.items())
        rows = [found.get(number, row) for number, row in enumerate(start)]
        least = ranked(price_of_component(problem, best, component), tiers)
        assert ranked(price_of_component(problem, rows, component), tiers) == least
        compared += any(least)
    assert compared > 12


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("objective", ["min-executed", "min-bytes", "min-nodes", "min-latency"])
def test_groupings_equal_enumeration(objective: str) -> None:
    """The same where Reshapes count, which readers of one order share; or alone, as in pieces of a problem."""
    compared = shared = 0
    for problem, domains, component in family(objective, groupings=True):
        start = [domain[0] for domain in domains]
        for tiers in (OBJECTIVES[objective][:-1], (("reshapes",),)):
            best = enumerated(problem, domains, component, start, tiers)
            found = eliminated(problem, dict(enumerate(domains)), component, tiers, unlimited())
            assert found is not None
            rows = [found.get(number, row) for number, row in enumerate(start)]
            least = ranked(price_of_component(problem, best, component), tiers)
            assert ranked(price_of_component(problem, rows, component), tiers) == least
            compared += bool(least[-1])
            shared += any(len(problem.readers[variable]) > 1 for variable in component.variables)
    assert compared > 5
    assert shared > 5


def test_what_is_too_large_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By entries, by work, and by how large a number all tiers are together."""
    refused = 0
    for problem, domains, component in family("min-executed"):
        given = problem, dict(enumerate(domains)), component, TIERS
        assert eliminated(*given, Limit(0)) is None
        for size in (2**56, 2**62):
            huge = tuple(replace(each, bytes=size + number) for number, each in enumerate(problem.variables))
            refused += eliminated(replace(problem, variables=huge), *given[1:], unlimited()) is None
        with monkeypatch.context() as small:
            small.setattr(bucket_elimination, "LARGEST", 1)
            assert eliminated(*given, unlimited()) is None
    assert refused > 20


@pytest.mark.parametrize("objective", ["min-executed", "min-bytes"])
def test_components_of_too_many_constraints_are_solved(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is: their relaxations would take too much memory."""
    tiers, searched = coarse_levels(OBJECTIVES[objective]) or (), 0
    for problem, domains, component in family(objective):
        start = [domain[0] for domain in domains]
        best = enumerated(problem, domains, component, start, tiers)
        least = ranked(price_of_component(problem, best, component), tiers)
        with monkeypatch.context() as small:
            small.setattr(formulation, "CONSTRAINTS", 0)
            found = solving.solve_component(problem, domains, component, start, tiers, unlimited())
        rows = [found.rows.get(number, row) for number, row in enumerate(start)]
        assert found.bounds == ranked(price_of_component(problem, rows, component), tiers) == least
        searched += 1
    assert searched > 12


def test_searches_with_and_without_it_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is conflicting leaves a gap, which is closed by elimination among what multipliers leave, tier by tier, at
    the price that CP-SAT comes to.
    """
    answers: list[bool] = []

    def noted(*given: Any) -> dict[int, int] | None:
        found = eliminated(*given)
        answers.append(found is not None)
        return found

    graphs = [conflicting_grid(2, 1), conflicting_grid(2, 2), conflicting_grid(3, 1)]
    for graph in (*graphs, *map(mixed_graph, range(20))):
        problem = Statement(graph).orders()
        monkeypatch.setattr(solving, "eliminated", noted)
        found = solve(problem, TIERS)
        monkeypatch.setattr(solving, "eliminated", lambda *given: None)
        other = solve(problem, TIERS)
        assert found.values == found.bounds == other.values == other.bounds
    assert any(answers)
