"""No Reshapes that are called optimal are beaten by other orders or groupings, asked for or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver import Assignment, Boundary, assign
from layoutsolve.solver.statement.halts import halting
from layoutsolve.solver.statement.target_file import shipped
from layoutsolve.solver.strategies import widened
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.every_grouping import fewest_reshapes, lower_first
from tests.solver.every_layout import TARGETS, TooLargeError
from tests.solver.inner_graphs import inner_graph
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.turned_graphs import turned_graph

GRAPHS = 10
"""The random graphs of each family for each objective and target."""

OBJECTIVES = ("min-executed", "min-transpose", "min-bytes")
"""Those of which something is claimed."""

FAMILIES: tuple[Callable[[int], Graph], ...] = (mixed_graph, broadcast_graph)


def agrees(seed: int, found: Assignment) -> bool:
    """Whether Reshapes that are left are called optimal, and are few enough to be found to be the fewest: where moves
    share some at views, of the graph in which moves may end there.
    """
    if found.tiers[3].status != "optimal" or not found.price.reshapes:
        return False
    every = found
    if found.opaque_views:
        graph = halting(found.graph, found.opaque_views)
        assert graph is not None
        every = assign(graph, objective=found.objective, target=found.goal.target)
    try:
        fewest = fewest_reshapes(every)
    except TooLargeError:
        return False
    assert (seed, fewest) == (seed, found.price.reshapes)
    return True


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_optimal_is_fewest_of_all_groupings(objective: str, target: str, family: Callable[[int], Graph]) -> None:
    """Where some are left; that nothing has fewer than none needs no proof."""
    compared = 0
    first = GRAPHS * (2 * OBJECTIVES.index(objective) + TARGETS.index(target))
    for seed in range(first, first + GRAPHS):
        found = assign(family(seed), objective=objective, target=shipped(target))
        compared += agrees(seed, found)
    assert compared > GRAPHS / 10


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_pieces_need_no_more_than_all(
    objective: str, family: Callable[[int], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven piece by piece, where no part of a zone is looked at as a whole, is no more than is needed."""
    monkeypatch.setattr(widened, "fewest", lambda *given: None)
    compared = reached = 0
    for seed in range(200, 200 + GRAPHS):
        found = assign(family(seed), objective=objective)
        tier = found.tiers[3]
        if not tier.bound:
            continue
        try:
            fewest = fewest_reshapes(found)
        except TooLargeError:
            continue
        assert tier.bound <= fewest, seed
        compared += 1
        reached += tier.bound == fewest
    assert compared >= reached > GRAPHS / 10


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_proven_with_stops_is_fewest_of_all(objective: str) -> None:
    """The proof of the orders has all that a stop may be among its candidates, so that of Reshapes has them too."""
    compared = 0
    for seed in range(12):
        found = assign(turned_graph(seed), objective=objective)
        compared += bool(found.charged) and agrees(seed, found)
    assert compared > 3


def test_free_ends_demand_no_order() -> None:
    """Orders that nobody demands may cost as little there, and need fewer Reshapes: what is claimed is not beaten."""
    boundary, beaten, claimed = Boundary(inputs="free", outputs="free"), 0, 0
    for seed in range(30, 50):
        found = assign(broadcast_graph(seed), boundary=boundary)
        tier = found.tiers[3]
        if not tier.value:
            continue
        try:
            fewest = fewest_reshapes(found, boundary)
        except TooLargeError:
            continue
        assert tier.bound <= fewest, seed
        beaten += fewest < tier.value
        claimed += tier.status == "optimal"
    assert beaten > 0


@pytest.mark.parametrize("objective", ["min-latency", "min-nodes"])
@pytest.mark.parametrize("family", FAMILIES)
def test_first_tiers_with_reshapes_are_the_least_of_all(family: Callable[[int], Graph], objective: str) -> None:
    """What is said of the time, or the operators, that Reshapes are part of: orders that need more than the least may
    save some.
    """
    compared = proven = 0
    for seed in range(GRAPHS // 2, 3 * GRAPHS // 2):
        found = assign(family(seed), objective=objective)
        tier = found.tiers[0]
        if not found.price.reshapes:
            continue
        try:
            assert lower_first(found, tier.bound, seconds=2.0) is None, seed
            if tier.status == "optimal" and not found.opaque_views:  # at which moves share Reshapes
                assert lower_first(found, tier.value + 1, seconds=2.0) == tier.value, seed
        except TooLargeError:
            continue
        compared += 1
        proven += tier.status == "optimal"
    assert compared > GRAPHS / 4 and (proven or objective == "min-nodes")


def test_dimensions_that_nobody_else_knows() -> None:
    """What one operator adds and another one takes away may lie anywhere: no end or window demands an order of it."""
    compared = 0
    for seed in range(1442, 1450):
        compared += agrees(seed, assign(inner_graph(seed), objective="min-transpose"))
    assert compared > 3
