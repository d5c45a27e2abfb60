"""Limits: the same result on any machine, a right one however little is allowed, and no work that is not counted."""

from __future__ import annotations

import _thread
import gc
import subprocess
import sys
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from time import monotonic

import numpy as np
import pytest

from layoutsolve.base.gc_pause import paused
from layoutsolve.emit import apply, serialise
from layoutsolve.frontend import read
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import OBJECTIVES, Assignment, assign
from layoutsolve.solver.limit import LOOK, Limit, unlimited
from layoutsolve.solver.search import formulation
from layoutsolve.solver.search.component_search import solve_component
from layoutsolve.solver.search.presolve import components, price_of_component
from layoutsolve.solver.statement.objective import coarse_levels, ranked
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.strategies import orders
from tests.frontend.tflite.test_signal_library import model, packed, short
from tests.graphs import feeds, run
from tests.solver.enumeration import enumerated
from tests.solver.random_graphs import CONTROL, random_graph
from tests.solver.strategies.test_mincut import TIERS, random_problem
from tests.solver.test_optimality import conflicting_grid

BUDGETS = (0, 1, 100, 1_000, 10_000, 100_000)


def no_clock() -> float:
    raise AssertionError("the clock is looked at")


class Clock:
    """A clock that goes on by a step at each look."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.looks = 0.0, step, 0

    def __call__(self) -> float:
        self.looks += 1
        self.now += self.step
        return self.now


class Watched(Limit):
    """A limit that knows the most work that was done between two looks at the clock."""

    most = 0

    def spend(self, work: int = 1) -> None:
        super().spend(work)
        Watched.most = max(Watched.most, work)


def computes_the_same(graph: Graph, found: Assignment) -> None:
    data = feeds(graph)
    for expected, result in zip(run(graph, data), run(apply(found), data), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_an_attempt_ends_by_itself() -> None:
    """What may find something better and does not come to an end leaves the search complete; what it did counts."""
    whole = Limit(1_000)
    attempt = whole.attempt(100)
    inner = attempt.part(0.5)
    inner.spend(60)
    assert inner.over and inner.ended == attempt.ended == "work"
    assert not whole.over and not whole.ended and whole.work == 940
    attempt.spend(940)
    assert attempt.over and whole.over and whole.ended == "work"


@pytest.mark.parametrize("seed", range(12))
def test_a_complete_search_has_not_ended(seed: int) -> None:
    """However little is done about what nothing is claimed of."""
    found = assign(random_graph(seed, 12, CONTROL))
    assert not found.ended or found.status == "feasible"


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("seed", range(4))
def test_any_work_gives_a_right_model(seed: int) -> None:
    """However little may be done: the model is right, no worse than a Transpose pattern everywhere, the bound holds."""
    graph = random_graph(seed, 12, CONTROL)
    for objective in ("min-executed", "min-nodes"):
        tiers = OBJECTIVES[objective]
        best = assign(graph, objective=objective)
        simple = ranked(assign(graph, objective=objective, strategy="transpose").price, tiers)
        for work in BUDGETS:
            found = assign(graph, objective=objective, limit=Limit(work))
            price = ranked(found.price, tiers)
            assert price[0] <= simple[0]
            assert found.bound <= ranked(best.price, tiers)[0]
            assert best.status == "feasible" or ranked(best.price, tiers)[0] <= price[0]
            assert found.status == "feasible" or price[:3] == ranked(best.price, tiers)[:3]
            assert found.ended == "work" or found.tiers[0].status != "feasible"
            computes_the_same(graph, found)


@pytest.mark.members(3)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(20, 23))
def test_no_strategy_is_better_whatever_the_work(seed: int, objective: str) -> None:
    """Given as little work as the search, heuristics come to nothing that the search does not, but for what is decided
    after the orders.
    """
    graph, tiers = random_graph(seed, 14, CONTROL), OBJECTIVES[objective]
    tiers = coarse_levels(tiers) or tiers
    for work in (0, 10, 300, 3_000, 30_000):
        found = ranked(assign(graph, objective=objective, limit=Limit(work)).price, tiers)
        for strategy in ("push", "propagate", "transpose"):
            other = assign(graph, strategy=strategy, objective=objective, limit=Limit(work))
            assert found <= ranked(other.price, tiers), (work, strategy)


@pytest.mark.slow
def test_solving_leaves_nothing_for_the_collector() -> None:
    """It is paused meanwhile: what is of no more use has to be free as soon as nothing refers to it."""
    solved = partial(assign, objective="min-nodes")
    solved(random_graph(0, 12, CONTROL))  # imports leave cycles of their own
    with paused():
        solved(random_graph(1, 12, CONTROL))
        solved(conflicting_grid(2, 2), limit=Limit(10_000))
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            solved(conflicting_grid(2, 3), limit=Limit(20_000))
            solved(random_graph(7, 20, CONTROL))
            gc.collect()
            assert gc.garbage == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_decided_at_once_is_no_worse_than_in_two_steps(seed: int) -> None:
    """Also where the work is too little for it: orders first, groupings then, takes far less."""
    graph, tiers = random_graph(seed, 25, CONTROL), OBJECTIVES["min-nodes"]
    found = assign(graph, objective="min-nodes", limit=Limit(500_000))
    usual = assign(graph, limit=Limit(50_000))
    assert ranked(found.price, tiers)[0] <= ranked(usual.price, tiers)[0]
    computes_the_same(graph, found)


@pytest.mark.parametrize("work", BUDGETS)
def test_work_needs_no_clock(work: int) -> None:
    """A limit on work is the same twice, and on any machine: it never looks at the clock."""
    graph = conflicting_grid(2, 2)
    first, second = (assign(graph, limit=Limit(work, clock=no_clock)) for _ in range(2))
    assert (first.rows, first.price, first.status) == (second.rows, second.price, second.status)


def test_the_same_bytes_under_load() -> None:
    """A search that work ends gives the same model beside busy processes."""
    graph, found = conflicting_grid(4, 4), []
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        found.append(assign(graph, limit=Limit(60_000)))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    found.append(assign(graph, limit=Limit(60_000)))
    assert {each.ended for each in found} == {"work"}
    first, second = (serialise(apply(each)).SerializeToString(deterministic=True) for each in found)
    assert first == second


@pytest.mark.parametrize("looks", [1, 3, 30, 300])
def test_seconds_end_after_few_looks(looks: int) -> None:
    """Once the clock says so, what is left to do looks at it a few times for each stage at most."""
    graph = random_graph(5, 25)
    clock = Clock(1.0)
    found = assign(graph, limit=Limit(seconds=looks, clock=clock))
    assert clock.looks <= looks + 60
    computes_the_same(graph, found)


def test_steps_between_looks_are_small() -> None:
    """Stating counts its work in steps of a few looks at most."""
    Watched.most = 0
    Statement(conflicting_grid(3, 2)).orders(Watched())
    assert 0 < Watched.most <= 10 * LOOK


def test_part() -> None:
    """A part spends from the whole, ends with it, and the whole says so."""
    whole = Limit(1000)
    part = whole.part(0.5)
    part.spend(499)
    assert not part.over
    part.spend()
    assert part.over and not whole.over
    assert whole.ended == "work"
    whole.spend(500)
    assert whole.over and whole.part(1.0).over


def test_granted() -> None:
    """Work that is granted is what single steps would have done, and counts as they do."""
    for whole, share, spent, asked in ((100, 0.5, 0, 30), (100, 0.5, 0, 80), (100, 1.0, 60, 50), (10, 1.0, 10, 5)):
        limits = [Limit(whole) for _ in range(2)]
        parts = [limit.part(share) for limit in limits]
        for limit in limits:
            limit.spend(spent)
        steps = 0
        while steps < asked and not parts[0].over:
            parts[0].spend()
            steps += 1
        assert parts[1].granted(asked) == steps
        assert parts[1].work == parts[0].work and limits[1].work == limits[0].work
        assert parts[1].over == parts[0].over


def test_interrupt_inside_the_search() -> None:
    """Ctrl-C ends a search at once. Where Python itself ignores one, as in a destructor, the next one does."""
    graph, ended = conflicting_grid(6, 6), Event()

    def interrupt() -> None:
        while not ended.wait(3.0):
            _thread.interrupt_main()

    thread = Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        try:
            while True:
                assign(graph, limit=unlimited())
        finally:
            ended.set()  # before pytest looks at the traceback: on a busy machine that takes until the next interrupt
    thread.join()


def test_huge_sizes() -> None:
    """Bytes beyond 64 bits are no reason for another answer."""
    for seed in range(60):
        problem = random_problem(seed)
        large = replace(problem, variables=tuple(replace(each, bytes=each.bytes * 3**50) for each in problem.variables))
        domains = [list(range(len(operator.rows))) for operator in problem.operators]
        for component in components(large, domains):
            start = [0] * len(domains)
            best = enumerated(large, domains, component, start, TIERS)
            found = solve_component(large, domains, component, start, TIERS, unlimited())
            rows = [found.rows.get(number, 0) for number in range(len(domains))]
            reached = ranked(price_of_component(large, rows, component), TIERS)
            assert reached == found.bounds == ranked(price_of_component(large, best, component), TIERS)


def test_seconds_are_held() -> None:
    graph = conflicting_grid(4, 4)
    began = monotonic()
    found = assign(graph, seconds=1.0)
    assert monotonic() - began < 10
    assert found.ended in ("", "seconds")


@pytest.mark.members(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("largest", "most"), [("CONSTRAINTS", 0), ("CONSTRAINTS", 30), ("CONSTRAINTS", 300), ("TERMS", 60), ("TERMS", 600)]
)
def test_models_that_are_too_large_are_not_searched(
    seed: int, largest: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few constraints, or terms in them, a model may have: a right answer, no worse than any heuristic, and
    nothing claimed.
    """
    graph = random_graph(seed, 12, CONTROL)
    for objective in ("min-executed", "min-nodes"):
        tiers = OBJECTIVES[objective]
        best = assign(graph, objective=objective)
        simple = ranked(assign(graph, objective=objective, strategy="transpose").price, tiers)
        with monkeypatch.context() as patch:
            patch.setattr(formulation, largest, most)
            found = assign(graph, objective=objective)
        assert ranked(found.price, tiers)[0] <= simple[0]
        assert found.bound <= ranked(best.price, tiers)[0]
        for tier, least in zip(found.tiers, ranked(best.price, tiers), strict=True):
            assert tier.status != "optimal" or tier.value == least
        computes_the_same(graph, found)


@pytest.mark.parametrize(("seed", "enough"), [(0, 0), (1, 10), (2, 100), (0, 10)])
def test_more_rows_than_are_of_use_are_not_stated(seed: int, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are enough: a right answer, and nothing claimed of the rows that are left out."""
    graph = random_graph(seed, 12, CONTROL)
    for objective in ("min-executed", "min-transpose"):
        least = ranked(assign(graph, objective=objective).price, OBJECTIVES[objective])
        with monkeypatch.context() as patch:
            for name, number in (("FEW", 1), ("ENOUGH", enough), ("ENOUGH_EACH", 0)):
                patch.setattr(orders, name, number)
            found = assign(graph, objective=objective)
        for tier, best in zip(found.tiers, least, strict=True):
            assert tier.bound <= best
            assert tier.status != "optimal" or tier.value == best
            if tier.status != "optimal":
                break
        computes_the_same(graph, found)


@pytest.mark.slow
def test_rows_of_long_transforms_are_bounded() -> None:
    """A transform in stages cuts a dimension into ever more factors, which may come in any order: its layouts are far
    more than its operators.
    """
    length = 4096
    graph = read(model("SignalRfft", [short(length)], [short(length + 2)], packed(fft_length=length)))
    statement = Statement(graph)
    enough = max(orders.ENOUGH, orders.ENOUGH_EACH * len(statement.entries))
    problem = statement.candidates(unlimited(), CANDIDATES).problem(enough)
    rows = [len(operator.rows) for operator in problem.operators]
    assert problem.capped and all(rows) and enough < sum(rows) < 2 * enough
