"""No Reshapes that are called optimal are beaten by other orders or groupings, asked for or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver import Boundary, assign
from layoutsolve.solver.statement.target_file import shipped
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.every_grouping import fewest_reshapes
from tests.solver.every_layout import TARGETS, TooLargeError
from tests.solver.mixed_graphs import mixed_graph

GRAPHS = 30
"""The random graphs of each family for each objective and target."""

OBJECTIVES = ("min-executed", "min-transpose", "min-bytes")
"""Those of which something is claimed."""

FAMILIES: tuple[Callable[[int], Graph], ...] = (mixed_graph, broadcast_graph)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_optimal_is_fewest_of_all_groupings(objective: str, target: str, family: Callable[[int], Graph]) -> None:
    """Where some are left; that nothing has fewer than none needs no proof."""
    compared = 0
    first = GRAPHS * (2 * OBJECTIVES.index(objective) + TARGETS.index(target))
    for seed in range(first, first + GRAPHS):
        found = assign(family(seed), objective=objective, target=shipped(target))
        if found.tiers[3].status != "optimal" or not found.price.reshapes:
            continue
        try:
            fewest = fewest_reshapes(found)
        except TooLargeError:
            continue
        assert (seed, fewest) == (seed, found.price.reshapes)
        compared += 1
    assert compared > GRAPHS / 10


def test_free_ends_demand_no_order() -> None:
    """Orders that nobody demands may cost as little there, and need fewer Reshapes: nothing is claimed above 0."""
    boundary, beaten, open_tiers = Boundary(inputs="free", outputs="free"), 0, 0
    for seed in range(30, 50):
        found = assign(broadcast_graph(seed), boundary=boundary)
        tier = found.tiers[3]
        assert not tier.value or tier.status != "optimal"
        if tier.value and tier.status == "conditional":
            open_tiers += 1
            try:
                beaten += fewest_reshapes(found, boundary) < tier.value
            except TooLargeError:
                continue
    assert open_tiers > beaten > 0


def test_time_with_reshapes_is_not_claimed() -> None:
    """Where Reshapes take time, what they cost is a part of what comes first."""
    for seed in range(20):
        tier = assign(mixed_graph(seed), objective="min-latency").tiers[3]
        assert not tier.value or tier.status != "optimal"
