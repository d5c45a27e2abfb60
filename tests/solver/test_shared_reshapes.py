"""Views of the source may share Reshapes that moves of a tensor make one by one: no strategy is better for it."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, assign
from layoutsolve.solver.statement.objective import ranked
from tests.graphs import GraphBuilder

FEASIBLE = {"min-executed": 0, "min-transpose": 0, "min-bytes": 0, "min-nodes": 60, "min-latency": 40}
"""How many of the graphs may have less than a proven answer: where orders come last or time counts, much is open."""


def viewed(seed: int) -> Graph:
    """A tensor with a dimension of size 1 more or less, what is computed of it, and Transposes of it."""
    random = np.random.default_rng(seed)
    b = GraphBuilder()
    sizes = [int(size) for size in random.permutation([2, 3, 4, 5])[: random.integers(2, 4)]]
    x = b.input(*sizes) if random.random() < 0.5 else b.relu(b.input(*sizes))
    sizes.insert(int(random.integers(len(sizes) + 1)), 1)
    view = b.reshape(x, *sizes)
    ends = [b.relu(view)] if random.random() < 0.7 else []
    for _ in range(int(random.integers(1, 3))):
        perm = random.permutation(len(sizes)).tolist()
        if perm != sorted(perm):
            ends.append(b.transpose(view, *perm))
    return b.graph(*ends or [b.relu(view)])


@pytest.mark.members(2)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_strategy_needs_fewer(objective: str) -> None:
    feasible = 0
    for seed in range(60):
        graph = viewed(seed)
        found = assign(graph, objective=objective)
        for strategy in ("transpose", "propagate"):
            other = assign(graph, strategy=strategy, objective=objective)
            assert ranked(found.price, found.goal.levels) <= ranked(other.price, found.goal.levels), (seed, strategy)
        assert all(tier.bound <= tier.value for tier in found.tiers)
        feasible += found.status == "feasible"
    assert feasible <= FEASIBLE[objective]
