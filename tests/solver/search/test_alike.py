"""Readers that are alike: merged or not, the same least price, and thousands of them are no trouble."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.search import alike
from layoutsolve.solver.search.search import presolved, solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_tiers
from layoutsolve.solver.statement.statement import Statement
from tests.graphs import GraphBuilder
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph

PERMS = ((0, 3, 1, 2), (0, 2, 3, 1), (0, 1, 3, 2), (0, 2, 1, 3))


def star(seed: int, readers: int) -> Graph:
    """Readers of one tensor, of a few kinds, and what reads two of them."""
    random, b = np.random.default_rng(seed), GraphBuilder()
    x = b.relu(b.input(2, 3, 4, 5))
    kinds = [(random.choice(["Softmax", "Relu"]), random.integers(4), PERMS[random.integers(4)]) for _ in range(3)]
    results = []
    for _ in range(readers):
        op, axis, perm = kinds[random.integers(len(kinds))]
        shape = b.shape(x)
        made = b.relu(x) if op == "Relu" else b.op("Softmax", x, shape=shape, axis=int(axis))
        results.append(b.transpose(made, *perm) if random.random() < 0.9 else b.add(x, made))
    return b.graph(*results)


@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes", "min-latency"])
def test_merging_changes_no_price(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = coarse_tiers(OBJECTIVES[objective]) or ()
    graphs = [star(seed, 9) for seed in range(12)]
    graphs += [*(random_graph(seed, 14, CONTROL) for seed in range(6)), *map(mixed_graph, range(6))]
    merged = 0
    for graph in graphs:
        for charged in (None, frozenset[int]()):
            problem = Statement(graph, goal=Goal(objective)).orders().charging(charged)
            monkeypatch.setattr(alike, "MANY", 2**62)
            each = solve(problem, tiers)
            monkeypatch.setattr(alike, "MANY", 0)
            once = solve(problem, tiers)
            assert once.values == each.values and once.bounds == each.bounds
            merged += len(presolved(problem, tiers).leaders)
    assert merged


@pytest.mark.parametrize("kinds", [1, 3])
def test_many_readers_cost_no_more_than_few(kinds: int) -> None:
    """Each order is moved once, however many read it."""
    b = GraphBuilder()
    x = b.input(2, 3, 4, 5)
    found = assign(b.graph(*(b.transpose(b.relu(x), *PERMS[number % kinds]) for number in range(3000))))
    assert (found.status, found.ended, found.price.transposes) == ("optimal", "", kinds)
