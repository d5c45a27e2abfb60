"""The solver against everything that can check it: brute force, an independent price, the written file, heuristics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from layoutsolve.emit import apply, serialise
from layoutsolve.errors import StrategyError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, STRATEGIES, assign
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import Goal, Levels, coarse_levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target_file import default_target
from tests.audited import audited
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.random_graphs import CONTROL, LAYERS, random_graph

COMBINATIONS = 30_000
layers = st.sampled_from([LAYERS, CONTROL])
small_graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(1, 7), layers)
larger_graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(5, 25), layers)
checked = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@dataclass
class BruteForce:
    """All combinations of rows, of problems in which there are not too many; it counts both kinds of problems."""

    tried: int = 0
    skipped: int = 0

    def lowest(self, problem: LayoutProblem, tiers: Levels) -> tuple[int, ...] | None:
        """The lowest price over all rows of all operators, demanded or not; None where there are too many."""
        counts = [len(operator.rows) for operator in problem.operators]
        if prod(counts) > COMBINATIONS:
            self.skipped += 1
            return None
        self.tried += 1
        return min(ranked(price(problem, rows), tiers) for rows in product(*map(range, counts)))

    def check(self, problem: LayoutProblem, tiers: Levels) -> None:
        """The solver comes to the lowest price."""
        lowest = self.lowest(problem, tiers)
        found = solve(problem, tiers)
        assert found.optimal
        if lowest is not None:
            assert ranked(price(problem, found.rows), tiers) == lowest

    def covers(self, share: float) -> bool:
        """Whether at least such a share of the problems was small enough."""
        return self.tried >= share * (self.tried + self.skipped) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "graphs"), [("min-transpose", 40), ("min-latency", 20)])
def test_orders_equal_brute_force(objective: str, graphs: int) -> None:
    """In numbers of Transposes and, as the table of a target prices moves by where they start and end, in time."""
    tiers, force = coarse_levels(OBJECTIVES[objective]), BruteForce()
    assert tiers is not None

    @settings(checked, max_examples=graphs)
    @given(small_graphs)
    def check(graph: Graph) -> None:
        force.check(Statement(graph, goal=Goal(objective)).orders(), tiers)

    check()
    assert force.covers(0.9), force


def test_layouts_equal_brute_force() -> None:
    """Solving orders first loses nothing on the tiers that it proves, against all layouts that closure leads to. All
    groupings may need fewer Reshapes than these (:mod:`tests.solver.test_every_grouping`). Under min-nodes a view of
    the source may do with fewer operators than any of these: then nothing is proven.
    """
    force = BruteForce()

    @settings(checked, max_examples=24)
    @given(small_graphs, st.sampled_from(["min-nodes", "min-bytes", "min-transpose", "min-executed"]))
    def check(graph: Graph, objective: str) -> None:
        lowest = force.lowest(Statement(graph, goal=Goal(objective)).layouts(), OBJECTIVES[objective])
        found = assign(graph, objective=objective)
        if lowest is None:
            assert found.status == "optimal" or found.problem.capped or objective == "min-nodes"
            return
        proven = ranked(found.price, OBJECTIVES[objective])
        if objective == "min-nodes":
            assert proven <= lowest
            lower = next((value for value, least in zip(proven, lowest, strict=True) if value < least), 0)
            assert lower == 0 or found.status == "feasible"  # nothing is lower than 0, whatever was searched
            assert lower > 0 or found.tiers[0].status != "feasible"
        else:
            assert found.status == "optimal"
            assert proven[:3] <= lowest[:3]

    check()
    assert force.covers(0.5), force


@settings(checked, max_examples=4)
@given(larger_graphs, st.integers(1, 4))
def test_few_candidates_first_lose_nothing(graph, few: int) -> None:
    tiers = OBJECTIVES["min-executed"]
    with pytest.MonkeyPatch.context() as patch:
        expected = assign(graph)
        assume(not expected.ended)
        patch.setattr("layoutsolve.solver.strategies.orders.FEW", few)
        found = assign(graph)
    if found.ended:  # it looked at some candidates twice
        assert found.bound <= ranked(expected.price, tiers)[0] <= ranked(found.price, tiers)[0]
        return
    assert (found.status, found.bound) == (expected.status, expected.bound)
    assert ranked(found.price, tiers)[:3] == ranked(expected.price, tiers)[:3]


@pytest.mark.members(2)
@pytest.mark.parametrize(
    ("seed", "size", "objective"),
    [
        (506716, 8, "min-executed"),
        (506716, 8, "min-transpose"),
        (506716, 8, "min-bytes"),
        (900590, 7, "min-executed"),
    ],
)
def test_a_view_between_fast_transposes_may_beat_a_slow_one(seed: int, size: int, objective: str) -> None:
    """Views are no operators of the problem, so that no answer with one there is looked for; what strategies leave of
    them is taken where it costs less, and called optimal no further than it is.
    """
    graph, tiers = random_graph(seed, size), OBJECTIVES[objective]
    found, pushed = (assign(graph, objective=objective, strategy=strategy) for strategy in ("cpsat", "push"))
    assert ranked(found.price, tiers)[:3] <= ranked(pushed.price, tiers)[:3]
    claimed = [tier.names for tier in found.tiers if tier.status == "optimal" and tier.value]
    assert claimed in ([], [("transposes",)], [("bytes",)])  # of these chains take no fewer
    expected, results = run(graph, feeds(graph)), run(apply(found), feeds(graph))
    for each, result in zip(expected, results, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@settings(checked, max_examples=5)
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
        applied = apply(found)
        audited(serialise(applied), found, graph)
        for expected, result in zip(truth, run(applied, data), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        ranks[strategy] = ranked(found.price, OBJECTIVES["min-transpose"])[:3]
    assert ranks["cpsat"] <= min(ranks.values())


@pytest.mark.parametrize("objective", ["min-executed", "min-transpose"])
def test_groupings_reach_the_price_of_orders(objective: str) -> None:
    """A softmax along an axis of size 1 is slow by where that axis is stored, of which orders tell nothing: among the
    groupings there has to be the one in which it is fast.
    """
    b = GraphBuilder()
    x = b.transpose(b.input(1, 4, 2, 4), 3, 2, 1, 0)
    graph = b.graph(b.add(b.relu(x), b.op("Softmax", x, shape=b.shape(x), axis=3)))
    tiers = OBJECTIVES[objective]
    best, known = (assign(graph, strategy=strategy, objective=objective) for strategy in ("cpsat", "transpose"))
    assert (best.status, best.bound) == ("optimal", ranked(best.price, tiers)[0])
    assert ranked(best.price, tiers)[:3] <= ranked(known.price, tiers)[:3]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_same_input_same_rows(objective: str) -> None:
    graph = random_graph(7, 8)
    assert assign(graph, objective=objective).rows == assign(graph, objective=objective).rows


def conflicting_grid(size: int, steps: int) -> Graph:
    """A grid of additions of tensors and their transposes: every cell demands other orders than its neighbours."""
    b = GraphBuilder()
    rows = [[b.input(3, 3, 3) for _ in range(size)] for _ in range(size)]
    for step in range(steps):
        for i in range(size):
            for j in range(size):
                perms = [(1, 0, 2), (0, 2, 1), (2, 1, 0)]
                other = b.transpose(rows[i][(j + 1) % size], *perms[(i + j + step) % 3])
                below = b.transpose(rows[(i + 1) % size][j], *perms[(i * j + step) % 3])
                rows[i][j] = b.relu(b.add(b.add(rows[i][j], other), below))
    return b.graph(*(name for row in rows for name in row))


def test_time_limit() -> None:
    """Out of time, the result is valid, no worse than the quickest heuristic, and its bound holds."""
    graph = conflicting_grid(2, 2)
    best = assign(graph, seconds=120)
    hurried = assign(graph, seconds=0.02)
    tiers = OBJECTIVES[best.objective]
    assert best.status == "optimal"
    audited(serialise(apply(hurried)), hurried, graph)
    assert hurried.bound <= ranked(best.price, tiers)[0] <= ranked(hurried.price, tiers)[0]
    assert ranked(hurried.price, tiers) <= ranked(assign(graph, strategy="transpose").price, tiers)
    for expected, result in zip(run(graph, feeds(graph)), run(apply(hurried), feeds(graph)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.members(1)
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes"])
def test_any_losses_equal_brute_force(objective: str) -> None:
    """Whatever the motions of a target lose, nothing that is left out before the search is a loss."""
    tiers, force = coarse_levels(OBJECTIVES[objective]) or (), BruteForce()

    @settings(checked, max_examples=40)
    @given(small_graphs, st.dictionaries(st.sampled_from(["swap", "rows", "general"]), st.integers(0, 4)))
    def check(graph: Graph, losing: dict[str, int]) -> None:
        hidden = {**default_target().hidden, **{("Transpose", motion): lost for motion, lost in losing.items()}}
        target = replace(default_target(), hidden=hidden)
        force.check(Statement(graph, goal=Goal(objective, target)).orders(), tiers)

    check()
    assert force.covers(0.9), force


def narrow_graph(seed: int) -> Graph:
    """Sums and transpositions of a tensor whose innermost dimension is short: blocks of two elements take long to copy,
    and a move in two may take less time.
    """
    random, b = np.random.default_rng(seed), GraphBuilder()
    names = [b.input(200, 300, 2)]
    for _ in range(int(random.integers(2, 6))):
        x = names[int(random.integers(len(names)))]
        if random.random() < 0.5:
            names.append(b.relu(b.transpose(x, *random.permutation(3).tolist())))
        else:
            alike = [name for name in names if b.shape(name) == b.shape(x)]
            names.append(b.add(x, alike[int(random.integers(len(alike)))]))
    return b.graph(*dict.fromkeys([names[-1], names[int(random.integers(1, len(names)))]]))


@pytest.mark.parametrize("part", range(4))
def test_a_stop_that_nobody_demands_may_save_time(part: int) -> None:
    tiers, force = coarse_levels(OBJECTIVES["min-latency"]) or (), BruteForce()
    for seed in range(part, 240, 4):
        force.check(Statement(narrow_graph(seed), goal=Goal("min-latency")).orders(), tiers)
    assert force.tried > 40


def test_a_view_may_do_with_one_operator_what_a_move_does_with_two() -> None:
    """A Transpose of the source that carries dimensions of size 1: a move of the same gets a Reshape, to be fast."""
    b = GraphBuilder()
    x = b.op("ReduceMean", b.input(3, 10, 9, 5), b.constant([1, 2], "int64"), shape=(3, 1, 1, 5), keepdims=1)
    graph = b.graph(b.transpose(x, 3, 1, 0, 2), b.op("Softmax", x, shape=(3, 1, 1, 5), axis=-1))
    nodes = OBJECTIVES["min-nodes"]
    found = assign(graph, objective="min-nodes")
    for strategy in ("transpose", "push", "propagate"):
        other = assign(graph, strategy=strategy, objective="min-nodes")
        assert ranked(found.price, nodes) <= ranked(other.price, nodes)
    assert all(tier.bound <= tier.value for tier in found.tiers)
