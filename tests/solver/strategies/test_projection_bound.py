"""Where candidates are too few, what is known of some atoms bounds the price of all, and shows where it may be had."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, Boundary, assign
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.proof.prover import prove
from layoutsolve.solver.proof.restatement import restate
from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import Goal, coarse_levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import orders, projection_bound
from layoutsolve.solver.strategies.exact_conversion_costs import around
from layoutsolve.solver.strategies.orders import cheapest_orders
from layoutsolve.solver.theory.variable import Variable
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph

STAGED = [name for name, tiers in OBJECTIVES.items() if coarse_levels(tiers) is not None]


def graph_of(seed: int) -> Graph:
    return mixed_graph(seed) if seed % 2 else random_graph(seed, 3 + seed % 9, CONTROL)


def with_few(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let there be so few candidates that mostly some are left out."""
    monkeypatch.setattr(orders, "FEW", most)
    monkeypatch.setattr(orders, "CANDIDATES", most)
    monkeypatch.setattr(projection_bound, "ATOMS", 1)


@cache
def best_of(seed: int, objective: str) -> Solution:
    """The cheapest orders among all candidates."""
    return cheapest(graph_of(seed), objective)


def cheapest(graph: Graph, objective: str) -> Solution:
    goal = Goal(objective)
    return cheapest_orders(Statement(graph, goal=goal), coarse_levels(goal.levels) or (), Limit(6_000_000))


@pytest.mark.members(2)
@pytest.mark.parametrize("objective", STAGED)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_claimed_with_few_candidates(objective: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tier is proven to be no lower than it is with all candidates, as long as those before it are as low."""
    counts: Counter[str] = Counter()
    for seed in range(22):
        best = best_of(seed, objective)
        assert not best.problem.capped
        with monkeypatch.context() as patched:
            with_few(patched, most)
            found = cheapest(graph_of(seed), objective)
        assert found.values >= best.bounds
        counts["capped"] += found.unseen != frozenset()
        counts["proven"] += bool(found.unseen) and found.optimal
        for value, bound, least in zip(found.values, found.bounds, best.values, strict=True):
            assert bound <= least, seed
            if value != bound or value != least:
                break
    assert min(counts["capped"], counts["proven"]) > 1


def test_rows_cost_what_they_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of all atoms, whatever the bound is proven of."""
    tiers = coarse_levels(OBJECTIVES["min-executed"]) or ()
    with_few(monkeypatch, 2)
    for seed in range(40):
        found = cheapest(graph_of(seed), "min-executed")
        assert found.problem.charged is None
        assert ranked(price(found.problem, found.rows), tiers) == found.values


@pytest.mark.members(2)
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes"])
def test_bounds_are_proven_again(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By offers alone, in the problem that leaves out the same."""
    with_few(monkeypatch, 2)
    left_out = 0
    for seed in range(12):
        graph = graph_of(seed)
        found = assign(graph, objective=objective)
        if not found.unseen or len(found.rows) != len(Statement(in_steps(graph)).entries):
            continue  # nothing is left out, or a heuristic is better that has other operators
        layouts = [found.row(number).layouts for number in range(len(found.rows))]
        stated = restate(graph, Boundary(), found.goal, layouts, found.charged, found.unseen)
        values = ranked(found.price, stated.claimed)
        bounds = [bound for bound, _ in prove(stated.questions(found.price), values, found.bound)]
        assert bounds[0] == found.bound, seed
        for tier, bound in zip(found.tiers, bounds, strict=False):
            assert bound == tier.value or tier.status != "optimal", seed
        left_out += found.bound > 0
    assert left_out > 0


@pytest.mark.parametrize("reach", range(5))
def test_what_is_near(reach: int) -> None:
    """Of a chain those variables that no more operators lie between, but for constants."""
    variables = tuple(Variable(f"v{number}", (2, 3), 1, {}, constant=number == 5) for number in range(9))
    steps = tuple(Operator(f"step {number}", -1, (number, number + 1), 1, ()) for number in range(8))
    near = around(LayoutProblem(variables, steps), frozenset({3}), reach)
    assert near == {number for number in range(9) if abs(number - 3) <= reach} - {5}
