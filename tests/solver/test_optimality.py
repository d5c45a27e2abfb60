"""The solver against everything that can check it: brute force, an independent price, the written file, heuristics."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layoutsolve.emit import apply
from layoutsolve.errors import StrategyError
from layoutsolve.solver import OBJECTIVES, STRATEGIES, assign
from layoutsolve.solver.contract import contract
from layoutsolve.solver.presolve import open_rows
from layoutsolve.solver.price import price
from layoutsolve.solver.problem import LayoutProblem, Tiers, coarse_tiers, ranked
from layoutsolve.solver.solve import solve
from layoutsolve.solver.state import Statement
from tests.graphs import feeds, run
from tests.solver.random_graphs import random_graph

COMBINATIONS = 30_000
small_graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(1, 7))
larger_graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(5, 25))
checked = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def brute_force(problem: LayoutProblem, tiers: Tiers) -> tuple[int, ...] | None:
    """The lowest price over all rows of all operators, demanded or not; None where there are too many."""
    counts = [len(operator.rows) for operator in problem.operators]
    if prod(counts) > COMBINATIONS:
        return None
    return min(ranked(price(problem, rows), tiers) for rows in product(*map(range, counts)))


@checked
@given(small_graphs)
def test_orders_equal_brute_force(graph) -> None:
    tiers = coarse_tiers(OBJECTIVES["min-transpose"])
    assert tiers is not None
    problem = Statement(graph).orders()
    lowest = brute_force(problem, tiers)
    found = solve(problem, tiers)
    assert found.optimal
    if lowest is not None:
        assert ranked(price(problem, found.rows), tiers) == lowest


@checked
@given(small_graphs, st.sampled_from(["min-nodes", "min-bytes", "min-transpose"]))
def test_layouts_equal_brute_force(graph, objective: str) -> None:
    """Solving orders first loses nothing on the tiers that it proves, against all layouts at once."""
    problem = Statement(graph).layouts()
    lowest = brute_force(problem, OBJECTIVES[objective])
    found = assign(graph, objective=objective)
    assert found.status == "optimal"
    if lowest is None:
        return
    proven = ranked(found.price, OBJECTIVES[objective])
    if objective == "min-nodes":
        assert proven == lowest
    else:
        assert proven[:3] == lowest[:3]
        assert proven[3] >= lowest[3]


@checked
@given(larger_graphs)
def test_contraction_loses_nothing(graph) -> None:
    tiers = coarse_tiers(OBJECTIVES["min-transpose"])
    assert tiers is not None
    problem = Statement(graph).orders()
    contraction = contract(problem, open_rows(problem), tiers)
    rows = tuple(domain[0] for domain in contraction.domains)
    expanded = contraction.expand(rows)
    assert ranked(price(problem, expanded), tiers) == ranked(price(contraction.problem, rows), tiers)


@checked
@given(larger_graphs)
def test_file_price_and_heuristics(graph) -> None:
    """Every strategy's file has what its price says and computes the same; none beats the solver."""
    data = feeds(graph)
    truth = run(graph, data)
    ranks = {}
    for strategy in STRATEGIES:
        try:
            found = assign(graph, strategy=strategy, objective="min-transpose")
        except StrategyError:
            assert strategy == "mincut"
            continue
        assert found.price == price(found.problem, found.rows)
        applied = apply(graph, found)
        operators = [node.op for node in applied.nodes]
        assert operators.count("Transpose") == found.price.transposes
        assert operators.count("Reshape") == found.price.reshapes
        for expected, result in zip(truth, run(applied, data), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        ranks[strategy] = ranked(found.price, OBJECTIVES["min-transpose"])[:3]
    assert ranks["cpsat"] <= min(ranks.values())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_same_input_same_rows(objective: str) -> None:
    graph = random_graph(7, 20)
    assert assign(graph, objective=objective).rows == assign(graph, objective=objective).rows
