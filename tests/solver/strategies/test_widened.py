"""Other orders that cost as little are looked at for fewer Reshapes, and nothing is claimed that is not so."""

from __future__ import annotations

from collections import Counter

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver import OBJECTIVES, Assignment, Boundary, assign
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.proof.restated import restate
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.search.zone import zone_of
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import orders, some_atoms, staged
from tests.graphs import GraphBuilder
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph

ALWAYS, NEVER = 3_000_000, 0
"""The work of looking at other orders that is enough, and that is too little."""

STAGED = ("min-executed", "min-transpose", "min-bytes")
"""The objectives with which something is claimed of Reshapes."""

LARGEST = 2500
"""The most rows of a problem that is solved for comparison."""


def found_with(work: int, graph: Graph, objective: str, monkeypatch: pytest.MonkeyPatch) -> Assignment:
    """An answer, given so much work to look at other orders."""
    monkeypatch.setattr(staged, "WIDENED", work)
    monkeypatch.setattr(staged, "WIDENED_EACH", 0)
    monkeypatch.setattr(staged, "NEEDED", work)
    return assign(graph, objective=objective)


def at_once(found: Assignment) -> list[tuple[int, ...]]:
    """What orders and groupings come to that are decided together: among the layouts that closure finds by itself, and
    among all groupings of all orders that are candidates.
    """
    statement, tiers = Statement(found.graph, goal=found.goal), found.goal.tiers
    every = [operator.rows for operator in statement.orders().operators]
    least = []
    for problem in (statement.layouts(), statement.layouts(every, Limit(4_000_000), seeded=True)):
        if not problem.capped and sum(len(operator.rows) for operator in problem.operators) <= LARGEST:
            least.append(solve(problem, tiers, Limit(3_000_000)).values)
    return least


@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes", "min-latency"])
@pytest.mark.parametrize("mixed", [False, True])
def test_no_proven_tier_is_beaten(objective: str, mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for seed in range(11):
        graph = mixed_graph(seed) if mixed else random_graph(seed, 1 + seed % 9, CONTROL)
        found = found_with(ALWAYS, graph, objective, monkeypatch)
        proven = [tier for tier in found.tiers[:-1] if tier.status == "optimal"]
        values = tuple(tier.value for tier in proven)
        for least in at_once(found):
            assert values <= least[: len(values)], seed
            counts["compared"] += 1
            counts["reached"] += ranked(found.price, OBJECTIVES[objective])[:-1] <= least[:-1]
        counts["reshapes"] += found.price.reshapes
    assert counts["compared"] > 14
    assert counts["reached"] >= 0.95 * counts["compared"]
    assert counts["reshapes"] > 0


@pytest.mark.parametrize(("seed", "known", "fewest"), [(44, 4, 2), (125, 2, 1), (134, 3, 2), (341, 5, 2)])
def test_other_orders_need_fewer(seed: int, known: int, fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of graphs whose first orders need more Reshapes; what is written has as many, and is found again."""
    graph = random_graph(seed, 1 + seed % 9, CONTROL)
    first, best = (found_with(work, graph, "min-executed", monkeypatch) for work in (NEVER, ALWAYS))
    assert (first.price.reshapes, best.price.reshapes) == (known, fewest)
    for found, status in ((first, "conditional"), (best, "optimal")):
        assert [tier.status for tier in found.tiers[:4]] == ["optimal", "optimal", "optimal", status]
    assert ranked(first.price, first.goal.tiers)[:3] == ranked(best.price, best.goal.tiers)[:3]
    assert price(best.problem, best.rows) == best.price
    recorded = [best.row(number).layouts for number in range(len(best.rows))]
    stated = restate(best.graph, Boundary(), best.goal, recorded)
    ways = stated.ways([best.row(number) for number in range(len(best.rows))])
    assert stated.assignment(ways).price == best.price


def flattened() -> Graph:
    """Convolutions, of which the last gives a single pixel that is flattened: that takes a Reshape."""
    b = GraphBuilder()
    x = b.input(1, 8, 8, 4)
    for _ in range(3):
        x = b.relu(b.conv(x, 4, 3))
    x = b.op("ReduceMean", x, b.constant([1, 2], "int64"), shape=(1, 1, 1, 4), keepdims=1)
    return b.graph(b.reshape(b.conv(x, 4, 3), 1, 4))


def test_convolutions_are_borders() -> None:
    """Reshapes behind a convolution do not depend on what is before it."""
    found = assign(flattened())
    statement = Statement(found.graph)
    kept = [operator.rows for operator in statement.orders().operators]
    zone = zone_of(statement.entries, found.problem, found.rows, kept)
    assert found.price.reshapes == 1
    assert len(zone.operators) < len(found.rows) / 2


def test_work_decides_how_far_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """More work never leaves more Reshapes, whatever the orders are."""
    graph = random_graph(44, 1 + 44 % 9, CONTROL)
    counts = [
        found_with(work, graph, "min-executed", monkeypatch).price.reshapes for work in (0, 1_000, 30_000, ALWAYS)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def claimed(found: Assignment) -> bool:
    """Whether Reshapes that are left are said to be the fewest of all orders."""
    tier = found.tiers[-2]
    return tier.value > 0 and tier.status == "optimal"


@pytest.mark.parametrize("objective", STAGED)
def test_nothing_is_claimed_where_some_atoms_prove_the_orders(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are those that show the cheapest orders of these, and few others."""
    monkeypatch.setattr(orders, "FEW", 1)
    monkeypatch.setattr(orders, "CANDIDATES", 1)
    monkeypatch.setattr(some_atoms, "ATOMS", 1)
    open_tiers = 0
    for seed in range(100, 140):
        found = assign(
            mixed_graph(seed) if seed % 2 else random_graph(seed, 3 + seed % 9, CONTROL), objective=objective
        )
        assert not (found.unseen and claimed(found)), seed
        open_tiers += bool(found.unseen) and found.tiers[-2].status == "conditional"
    assert open_tiers > 5


def shuffled(blocks: int, channels: int = 16) -> Graph:
    """Half of the channels go through a convolution, again and again, and all of them are shuffled."""
    builder, half = GraphBuilder(), channels // 2

    def conv(x: str, count: int) -> str:
        weights = builder.weights(count, count, 3, 3)
        return builder.op("Conv", x, weights, shape=(1, count, 4, 4), pads=[1] * 4)

    x = conv(builder.input(1, channels, 4, 4), channels)
    for _ in range(blocks):
        sizes = builder.constant([half, half], "int64")
        one, other = builder.many("Split", x, sizes, shapes=[(1, half, 4, 4)] * 2, axis=1)
        joined = builder.op("Concat", one, conv(other, half), shape=(1, channels, 4, 4), axis=1)
        apart = builder.transpose(builder.reshape(joined, 1, 2, half, 4, 4), 0, 2, 1, 3, 4)
        x = builder.reshape(apart, 1, channels, 4, 4)
    return builder.graph(conv(x, channels))


@pytest.mark.parametrize("blocks", [4, 6])
def test_capped_candidates_are_looked_at_where_they_cost_nothing(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [assign(shuffled(blocks))]
    monkeypatch.setattr(staged, "CAPPED", 0)
    found.append(assign(shuffled(blocks)))
    assert found[0].price.reshapes < found[1].price.reshapes
    for each in found:
        assert each.price.transposes == each.price.hidden == 0
        assert [tier.status for tier in each.tiers if "reshapes" in tier.names] == ["conditional"]
