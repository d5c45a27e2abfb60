"""The formulations that are compared: all of them are of the same problem, and what they prove of it is true."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from experiments.compare.formulations import WAYS, Facilities, Pairs, Task, Tasks, relaxation, rounded, solved
from experiments.make.hard_networks import FAMILIES
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.formulation import Formulation
from layoutsolve.solver.search.lp_relaxation import relaxed
from layoutsolve.solver.search.presolve import components
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_levels
from layoutsolve.solver.statement.statement import Statement
from tests.solver.enumeration import enumerated
from tests.solver.random_graphs import CONTROL, random_graph

SECONDS = 60.0


@cache
def tasks(objective: str) -> tuple[Task, ...]:
    """Components of random graphs, small enough to be enumerated, with a few rows of each operator."""
    return tuple(_tasks(objective))


def _tasks(objective: str) -> Iterator[Task]:
    tiers = coarse_levels(OBJECTIVES[objective])
    assert tiers is not None
    for seed in range(60):
        problem = Statement(random_graph(seed, 9, CONTROL), goal=Goal(objective)).orders()
        domains = [list(range(min(3, len(operator.rows)))) for operator in problem.operators]
        for component in components(problem, domains):
            if 2 < len(component.operators) < 8:
                yield Task(problem, domains, component, [0] * len(domains), tiers)


@pytest.mark.parametrize("objective", ["min-executed", "min-bytes", "min-latency"])
def test_all_ways_come_to_the_least(objective: str) -> None:
    """Branch and bound and CP-SAT prove what enumeration comes to; rounding is no better, and its bounds hold."""
    compared = 0
    for task in tasks(objective):
        rows = enumerated(task.problem, task.domains, task.component, task.start, task.levels)
        least = task.values({number: rows[number] for number in task.component.operators})
        for way in WAYS:
            found = solved(task, way, SECONDS)
            assert found.stated
            if way == "rounding":
                assert found.bounds <= least <= found.values
            else:
                assert found.bounds == found.values == least, way
        compared += 1
    assert compared >= 15


def test_relaxations_bound_the_least() -> None:
    """Facilities are no weaker than pairs, and one literal for all moves that cost the same is as strong."""
    stronger = 0
    for task in tasks("min-executed"):
        rows = enumerated(task.problem, task.domains, task.component, task.start, task.levels)
        least = task.values({number: rows[number] for number in task.component.operators})[0]
        found = [relaxation(task, each, SECONDS) for each in (Pairs, Facilities, Formulation)]
        pairs, facilities, classes = (each.bound for each in found if each is not None)
        assert pairs <= facilities == classes <= least
        stronger += pairs < facilities
    assert stronger


def test_rounding_takes_the_row_of_which_there_is_most() -> None:
    """Every operator has a row that is open, and one that is 1 in the relaxation."""
    for task in tasks("min-executed"):
        program = task.program(Facilities, unlimited())
        assert program is not None
        found = relaxed(program, program.level(task.levels[0]), unlimited())
        assert found is not None
        rows = rounded(program, found)
        assert all(rows[number] in task.domains[number] for number in task.component.operators)
        ones = {key for key, literal in program.choices.items() if found.values[literal] > 0.5}
        assert all(rows[number] == row for number, row in ones)


def _repeated(times: int) -> Graph:
    made = FAMILIES["ladder"][0](24 * times)
    assert isinstance(made, Graph)
    return made


def test_components_that_are_alike_are_taken_once() -> None:
    every = Tasks("min-executed")
    first = list(every.of(_repeated(2)))
    assert first and not list(every.of(_repeated(2)))
    assert list(every.of(_repeated(3)))
    assert all(
        np.prod([len(task.domains[each]) for each in task.component.operators], dtype=float) > 4096 for task in first
    )
