"""Regions that are known: the same answers, and each kind of block searched once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver.search import search
from layoutsolve.solver.search.known import Answer, Known
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_tiers
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph

OBJECTIVE = "min-executed"


class Counted(Known):
    """What is known, and how often it was of use."""

    hits = 0

    def get(self, key: object) -> Answer | None:
        answer = super().get(key)
        self.hits += answer is not None
        return answer


def repeated(problem: LayoutProblem, times: int) -> LayoutProblem:
    """Copies of a problem side by side."""
    size = len(problem.variables)
    operators = tuple(
        replace(operator, ports=tuple(port + size * copy for port in operator.ports))
        for copy in range(times)
        for operator in problem.operators
    )
    return replace(problem, variables=problem.variables * times, operators=operators)


def family() -> list[Graph]:
    return [*(random_graph(seed, 14, CONTROL) for seed in range(100, 112)), *map(mixed_graph, range(100, 112))]


def test_what_is_known_changes_no_answer() -> None:
    """One store for all problems of a target, with moves that are charged and moves that are not."""
    tiers = coarse_tiers(OBJECTIVES[OBJECTIVE]) or ()
    known = Counted()
    for graph in family():
        problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
        for stated in (problem, replace(problem, charged=frozenset()), problem):
            fresh, answered = solve(stated, tiers), solve(stated, tiers, known=known)
            assert answered == fresh
    assert known.hits


@pytest.mark.parametrize("graph", family()[::3])
def test_a_block_is_searched_once(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = coarse_tiers(OBJECTIVES[OBJECTIVE]) or ()
    problem = Statement(graph, goal=Goal(OBJECTIVE)).orders()
    searched: list[object] = []
    inner = search._component
    monkeypatch.setattr(search, "_component", lambda *given: searched.append(given) or inner(*given))
    once = solve(problem, tiers)
    several, searched[:] = len(searched), []
    five = solve(repeated(problem, 5), tiers)
    assert five.values == tuple(5 * value for value in once.values)
    assert five.rows == once.rows * 5 and len(searched) == several


def test_unseen_atoms_are_no_atoms() -> None:
    """Problems that leave some atoms out have layouts with gaps."""
    tiers = coarse_tiers(OBJECTIVES[OBJECTIVE]) or ()
    known, tried = Known(), 0
    for graph in family():
        statement = Statement(graph, goal=Goal(OBJECTIVE))
        for atoms in (1, 2):
            if unseen := statement.unseen(atoms):
                problem = statement.orders(without=unseen)
                assert solve(problem, tiers, known=known) == solve(problem, tiers)
                tried += 1
    assert tried
