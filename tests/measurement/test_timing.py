"""Ratios of given times, and turns of models that only count."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from layoutsolve.measurement.timing import FEWEST, Runner, clock_of, ratio, rounds_of, spread, timed


@dataclass
class Fake:
    """A model whose run takes a time that is told; ``log`` has all that ran."""

    name: int
    log: list[int] = field(default_factory=list)
    seconds: float = 1.0

    def turn(self, repeats: int) -> float:
        self.log.append(self.name)
        return self.seconds * repeats


def test_ratios_are_of_one_round() -> None:
    """A machine that slows down for all changes no ratio."""
    first, slowdown = [1.0, 2.0, 3.0, 4.0, 5.0], [1, 7, 2, 9, 3]
    times = [2 * each for each in first]
    assert ratio(times, first) == 2
    assert spread(times, first) == 0
    first, times = ([each * slow for each, slow in zip(row, slowdown, strict=True)] for row in (first, times))
    assert ratio(times, first) == 2
    assert spread(times, first) == 0
    assert spread([1, 2, 3, 4], [1, 1, 1, 1]) > 0


def test_a_clock_that_stands_still_is_no_error() -> None:
    assert ratio([0.0, 0.0], [0.0, 0.0]) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rounds_start_with_every_model(count: int) -> None:
    log: list[int] = []
    runners = {name: Runner(Fake(name, log), 3) for name in range(count)}
    times = timed(runners, 4 * count)
    assert {name: len(each) for name, each in times.items()} == dict.fromkeys(range(count), 4 * count)
    assert all(seconds == 1 for each in times.values() for seconds in each)
    rounds = [log[2 * count * turn : 2 * count * (turn + 1)] for turn in range(4 * count)]
    assert all(sorted(each[::2]) == list(range(count)) and each[::2] == each[1::2] for each in rounds)
    assert len({tuple(each) for each in rounds}) >= count


def test_slow_models_get_few_rounds() -> None:
    slow, fast = Runner(Fake(0, seconds=100.0)), Runner(Fake(0, seconds=1e-3))
    assert rounds_of([slow]) == FEWEST < rounds_of([fast])


def test_clocks() -> None:
    assert clock_of(1) is time.process_time
    assert clock_of(2) is time.perf_counter
