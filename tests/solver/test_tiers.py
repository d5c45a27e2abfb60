"""What is claimed of each tier of an objective holds, however early the search ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, Assignment, Goal, Price, Tier, assign
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search import component_search
from layoutsolve.solver.search import lp_relaxation as relaxation
from layoutsolve.solver.statement.statement import Statement
from tests.graphs import GraphBuilder
from tests.solver.random_graphs import CONTROL, random_graph
from tests.solver.statement.test_duplicated_initializers import two_orders
from tests.solver.test_optimality import BruteForce, conflicting_grid


def claims(found: Assignment, least: Sequence[int]) -> Counter[str]:
    """How many tiers have each status, given the least values that there are: no tier claims more than is true.

    A heuristic may need fewer Reshapes, with a Transpose of the source that dimensions of size 1 make slower. ``least``
    is that of closure, among whose groupings are not all.
    """
    proven = True
    for tier, lowest in zip(found.tiers, least, strict=True):
        assert 0 <= tier.bound <= min(tier.value, lowest)
        assert proven or tier.status != "optimal"
        proven = tier.status == "optimal"
        assert not proven or tier.value == tier.bound
        assert not proven or tier.value == lowest or "reshapes" in tier.names
    assert found.bound == found.tiers[0].bound
    first, *others = (tier.status for tier in found.tiers)
    assert found.status == ("optimal" if first == "optimal" and "feasible" not in others else "feasible")
    return Counter(tier.status for tier in found.tiers)


@pytest.mark.members(2)
@pytest.mark.parametrize("relaxed", [True, False])
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes", "min-nodes"])
def test_tiers_equal_brute_force(objective: str, relaxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it may take, and with little; with the relaxation's bounds, and by CP-SAT alone."""
    monkeypatch.setattr(component_search, "eliminated", lambda *given: None)
    if not relaxed:
        monkeypatch.setattr(relaxation, "relaxed", lambda *_: None)
    force, counts = BruteForce(), Counter[str]()
    for seed in range(14):
        graph = random_graph(seed, 1 + seed % 7, CONTROL)
        least = force.lowest(Statement(graph, goal=Goal(objective)).layouts(), OBJECTIVES[objective])
        if least is not None:
            for work in (100, 1_000, 3_000, 10_000, 10_000_000):
                counts += claims(assign(graph, objective=objective, limit=Limit(work)), least)
    assert force.covers(0.4), force
    assert counts["optimal"] > counts["feasible"] > 0


@pytest.mark.slow
def test_the_first_tier_is_proven_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where operators cannot be eliminated, a search that work ends proves more
    and more of them, the first one first.
    """
    monkeypatch.setattr(component_search, "eliminated", lambda *given: None)
    graph, seen = conflicting_grid(3, 1), set[tuple[str, str]]()
    for objective in ("min-executed", "min-transpose"):
        best = assign(graph, objective=objective)
        assert {tier.status for tier in best.tiers} == {"optimal"}
        least = [tier.value for tier in best.tiers]
        wanted = {(objective, "bounded"), ("some", "optimal")}
        for work in range(20_000, 1_020_000, 200_000):
            found = assign(graph, objective=objective, limit=Limit(work))
            if 0 < claims(found, least)["optimal"] < len(least):
                seen.add(("some", "optimal"))
            if found.tiers[0].status == "feasible" and found.bound > 0:
                seen.add((objective, "bounded"))
            if wanted <= seen:
                break
    assert seen == {("some", "optimal"), ("min-executed", "bounded"), ("min-transpose", "bounded")}


def known(graph: Graph, objective: str = "min-executed") -> list[str]:
    return [str(tier) for tier in assign(graph, objective=objective).tiers]


def split() -> Graph:
    """An image in rows of pixels, of which a Reshape cannot be spared: a softmax runs over parts of its channels."""
    b = GraphBuilder()
    x = b.reshape(b.input(2, 3, 8), 2, 3, 4, 2)
    return b.graph(b.op("Softmax", x, shape=b.shape(x), axis=3))


def test_reshapes_depend_on_the_orders() -> None:
    """They are the fewest for the orders that were chosen: others may need fewer."""
    assert known(split())[3] == "reshapes 1 (conditional)"
    assert known(split(), "min-nodes") == [
        "transposes + reshapes 1 (conditional)",
        "layout penalty 0 (conditional)",
        "bytes 0 (conditional)",
        "copies 0 (conditional)",
    ]


@pytest.mark.parametrize("objective", ["min-executed", "min-nodes"])
def test_copies_depend_on_the_layouts(objective: str) -> None:
    """Those of a constant that is wanted in two orders come after all that is searched."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    *searched, copies = known(b.graph(*two_orders(b, image, image)), objective)
    assert copies == f"copies {4 * 4 * 8 * 20} (conditional)"
    assert all(tier.endswith("(optimal)") for tier in searched)


def test_nothing_is_claimed_behind_an_open_tier() -> None:
    """A bound says nothing of what comes after it where it is not reached, and none holds that is above the price."""
    found = replace(assign(split()), price=Price(transposes=3, bytes=8), completed=True)
    for bounds, expected in (
        ((3, 3, 8), ["optimal 3", "optimal 3", "optimal 8", "optimal 0", "optimal 0"]),
        ((2, 3, 8), ["feasible 2", "feasible 0", "feasible 0", "feasible 0", "feasible 0"]),
        ((4, 3, 8), ["feasible 0", "feasible 0", "feasible 0", "feasible 0", "feasible 0"]),
        ((3, 2, 8), ["optimal 3", "feasible 2", "feasible 0", "feasible 0", "feasible 0"]),
        ((3, 3), ["optimal 3", "optimal 3", "feasible 0", "feasible 0", "feasible 0"]),
        ((), ["feasible 0", "feasible 0", "feasible 0", "feasible 0", "feasible 0"]),
    ):
        made = replace(found, bounds=bounds)
        assert [f"{tier.status} {tier.bound}" for tier in made.tiers] == expected
        assert made.status == ("optimal" if bounds == (3, 3, 8) else "feasible")
    for completed, expected in ((True, "conditional"), (False, "feasible")):
        made = replace(found, price=Price(reshapes=2), completed=completed)
        assert [tier.status for tier in made.tiers] == ["optimal"] * 3 + [expected] * 2


def test_what_a_tier_is_printed_as() -> None:
    assert str(Tier(("transposes", "reshapes"), 12, 9, "feasible")) == "transposes + reshapes 12 (feasible, at least 9)"
    assert str(Tier(("bytes",), 12, 0, "feasible")) == "bytes 12 (feasible)"
