"""A limit on seconds bounds a conversion, not its search alone, and is no error where it is too short."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time, sleep

import pytest

import layoutsolve
from layoutsolve import api
from layoutsolve.io.source import Content, Source, load
from layoutsolve.solver import OBJECTIVES, Assignment
from layoutsolve.solver.limit import Limit
from tests.families import LINEAR, many_orders
from tests.random_models import network

AT_ONCE = 1e-6
"""Seconds in which nothing can be searched: what a conversion takes then cannot be shortened."""

LOAD, TRIES = 2.0, 5
"""How much longer the same may take at another time, beside busy processes, and how often it is tried."""

HARD: dict[str, Callable[[], bytes]] = {
    **{f"orders of rank {rank}": partial(many_orders, rank, 4) for rank in (4, 8, 12)},
    **{name: partial(LINEAR[name][0], LINEAR[name][1]) for name in ("joined_in_turn", "readers", "calls", "views")},
    **{f"network {seed}": lambda seed=seed: network(seed).source for seed in range(2)},  # type: ignore[misc]
}


def spent(source: bytes, seconds: float, objective: str, strategy: str = "cpsat") -> tuple[float, Assignment]:
    """The processor's seconds that a conversion takes, in which other processes' do not count."""
    began = process_time()
    found = layoutsolve.convert(source, time_limit=seconds, objective=objective, strategy=strategy)
    return process_time() - began, found.assignment


@pytest.mark.members(2)
@pytest.mark.parametrize("name", HARD)
def test_held_through_all_stages(name: str) -> None:
    source = HARD[name]()
    for objective, strategy in [*((objective, "cpsat") for objective in OBJECTIVES), ("min-executed", "push")]:
        spent(source, AT_ONCE, objective, strategy)  # what is imported and cached at first
        least, _ = spent(source, AT_ONCE, objective, strategy)
        for seconds in (0.05, 0.2):
            found = (spent(source, seconds, objective, strategy) for _ in range(TRIES))
            held = (
                took <= max(1.1 * seconds + 0.2, LOAD * least) and done.ended in ("", "seconds") for took, done in found
            )
            assert any(held), (objective, strategy, seconds)


@pytest.mark.parametrize("strategy", ["cpsat", "push", "propagate"])
def test_reading_is_charged(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where reading takes as long as the limit nothing is searched; the model is right all the same."""

    def slow(source: Source) -> Content:
        sleep(0.5)
        return load(source)

    source = network(3).source
    monkeypatch.setattr(api, "load", slow)
    found = layoutsolve.convert(source, time_limit=0.5, strategy=strategy)
    assert (found.assignment.status, found.assignment.ended) == ("feasible", "seconds")
    assert layoutsolve.verify(source, found).passed


def test_what_writing_takes_is_set_aside() -> None:
    """As much as reading took, and half as much again; a part of a limit begins when it is made."""
    now = 100.0
    limit = Limit(seconds=10.0, clock=lambda: now)
    now = 102.0
    limit.keep_back()
    assert limit.seconds == pytest.approx(10 - 2 - 3)
    part = limit.part(0.5)
    now = 103.0
    part.keep_back()
    assert part.seconds == pytest.approx(2.5 - 1 - 1.5, abs=0.01)
