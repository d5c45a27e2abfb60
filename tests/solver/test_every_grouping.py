"""Bounds on what Reshapes are part of are beaten by no orders or groupings, asked for or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.every_grouping import lower_first
from tests.solver.every_layout import TooLargeError
from tests.solver.mixed_graphs import mixed_graph

GRAPHS = 4
"""The random graphs of each family for each objective."""

FAMILIES: tuple[Callable[[int], Graph], ...] = (mixed_graph, broadcast_graph)


@pytest.mark.parametrize("objective", ["min-latency", "min-nodes"])
@pytest.mark.parametrize("family", FAMILIES)
def test_first_tiers_with_reshapes_are_the_least_of_all(family: Callable[[int], Graph], objective: str) -> None:
    """What is said of the time, or the operators, that Reshapes are part of: orders that need more than the least may
    save some.
    """
    compared = 0
    for seed in range(GRAPHS // 2, 3 * GRAPHS // 2):
        found = assign(family(seed), objective=objective)
        tier = found.tiers[0]
        if not found.price.reshapes:
            continue
        try:
            assert lower_first(found, tier.bound, seconds=2.0) is None, seed
        except TooLargeError:
            continue
        compared += 1
    assert compared > GRAPHS / 4
