"""Views of the source may share Reshapes that moves of a tensor make one by one: no strategy is better for it."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.graph import Graph
from layoutsolve.solver import OBJECTIVES, assign
from layoutsolve.solver.statement.halts import halting
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.target_file import shipped
from tests.graphs import GraphBuilder, assert_same, feeds
from tests.solver.every_grouping import fewest_reshapes

FEASIBLE = {"min-executed": 4, "min-transpose": 2, "min-bytes": 2, "min-nodes": 40, "min-latency": 40}
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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_strategy_needs_fewer(objective: str) -> None:
    feasible = 0
    for seed in range(60):
        graph = viewed(seed)
        found = assign(graph, objective=objective)
        for strategy in ("transpose", "propagate"):
            other = assign(graph, strategy=strategy, objective=objective)
            assert ranked(found.price, found.goal.tiers) <= ranked(other.price, found.goal.tiers), (seed, strategy)
        assert all(tier.bound <= tier.value for tier in found.tiers)
        feasible += found.status == "feasible"
    assert feasible < FEASIBLE[objective]


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_what_is_shared_is_proven(target: str) -> None:
    """Of answers in which views stay operators: nothing has fewer Reshapes where moves may end at any view."""
    shared = 0
    for seed in range(60):
        graph = viewed(seed)
        found = assign(graph, objective="min-executed", target=shipped(target))
        if not found.opaque_views or found.tiers[3].status != "optimal":
            continue
        halting_graph = halting(graph, found.opaque_views)
        assert halting_graph is not None
        other = assign(halting_graph, objective="min-executed", target=shipped(target))
        assert ranked(other.price, other.goal.tiers) == ranked(found.price, found.goal.tiers), seed
        assert fewest_reshapes(other) == found.price.reshapes, seed
        shared += 1
    assert shared > 2


def test_halts_change_nothing() -> None:
    """A graph in which moves may end at views computes the same, and costs no more."""
    for seed in range(30):
        graph = viewed(seed)
        made = halting(graph, ())
        assert made is not None
        found, other = assign(graph, target=shipped("onnx")), assign(made, target=shipped("onnx"))
        assert ranked(other.price, other.goal.tiers) <= ranked(found.price, found.goal.tiers)
        assert_same(graph, apply(other), feeds(graph, seed))
