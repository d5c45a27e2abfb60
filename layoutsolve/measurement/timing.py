"""Times of models that run in turn, so that a machine whose speed changes slows all of them.

Only times of one round are compared: a ratio is the median over the rounds. On one thread the time is the processor's,
which what else the machine does hardly changes; on several it is the clock's, as they share one model's work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from statistics import median, quantiles
from typing import Generic, Protocol, TypeVar

import numpy as np

from layoutsolve.base.platforms import processor_clock
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.runnable_sizes import called, shape_of, tries
from layoutsolve.verification.runtimes import Level, OnnxRuntime, element

SLICE = 1e-3
"""Seconds of one turn: models that are faster run several times in it."""

ROUNDS, LEAST, MOST = 15, 0.3, 4.0
"""Rounds, and the fewest and most seconds that each model runs in all. Where they collide, the most seconds hold."""

FEWEST = 5
"""Rounds that even the slowest models get."""

SIZES = (64, 1, 4096)
"""What dynamic dimensions but the first are tried with, until the runtime accepts one. The first is 1."""

UNSTEADY = 0.1
"""From which spread on rounds disagree too much for a ratio to tell something."""

_Key = TypeVar("_Key", bound=Hashable)


class Subject(Protocol):
    """A model that is loaded, with its input."""

    def turn(self, repeats: int) -> float:
        """Run it some times; the seconds that took."""


_Subject = TypeVar("_Subject", bound=Subject)
_Subject_co = TypeVar("_Subject_co", bound=Subject, covariant=True)


@dataclass(frozen=True)
class Runner(Generic[_Subject_co]):
    """A loaded model, and how many runs make a slice."""

    subject: _Subject_co
    repeats: int = 1

    def seconds(self) -> float:
        """The time of one run, the mean over a slice. A run before it is not counted: it fills caches."""
        self.subject.turn(1)
        return self.subject.turn(self.repeats) / self.repeats


@dataclass(frozen=True)
class Session:
    """A model in ONNX Runtime."""

    runtime: OnnxRuntime
    feeds: Mapping[str, Array]
    clock: Callable[[], float]

    def turn(self, repeats: int) -> float:
        """Run it some times; the seconds that took."""
        start = self.clock()
        for _ in range(repeats):
            self.runtime.run(self.feeds)
        return self.clock() - start


def clock_of(threads: int) -> Callable[[], float]:
    """Clock for models that run on so many threads."""
    return processor_clock() if threads == 1 else time.perf_counter


def warm(subject: _Subject) -> Runner[_Subject]:
    """A model that has run, with as many runs in a slice as last for :data:`SLICE`."""
    subject.turn(1)
    first = min(subject.turn(1) for _ in range(2))
    return Runner(subject, max(ceil(SLICE / max(first, 1e-7)), 1))


def loaded(files: Mapping[str, bytes], threads: int, needed: str) -> dict[str, Runner[Session]]:
    """A warm session for each file, all with the same input; those that ONNX Runtime refuses are left out, but for the
    one that is ``needed``, of which that is an error.
    """
    runners: dict[str, Runner[Session]] = {}
    feeds: Mapping[str, Array] | None = None
    for way, file in files.items():
        try:
            runtime = OnnxRuntime(file, threads=threads)
            feeds = feeds_of(runtime) if feeds is None else feeds
            runners[way] = warm(Session(runtime, feeds, clock_of(threads)))
        except VerifyError:
            if way == needed:
                raise
    return runners


def feeds_of(runtime: OnnxRuntime) -> Mapping[str, Array]:
    """Smooth input, with the first sizes of dynamic dimensions that the model runs with: one for all but the first ones
    of inputs, else what is found by trying.
    """
    open_ = [
        (called(name, axis, dim), axis)
        for name, _, shape in runtime.inputs
        for axis, dim in enumerate(shape)
        if not isinstance(dim, int)
    ]
    plain = [{name: size if axis else 1 for name, axis in open_} for size in SIZES]
    for sizes in chain(plain, tries(runtime.inputs)) if open_ else plain[:1]:
        feeds = _sample(runtime, sizes)
        try:
            runtime.run(feeds)
        except VerifyError as error:
            refused = error
        else:
            return feeds
    raise refused


def _sample(runtime: OnnxRuntime, sizes: Mapping[str, int]) -> Mapping[str, Array]:
    generator = np.random.default_rng(0)
    feeds = {}
    for name, dtype, shape in runtime.inputs:
        data = smooth(element(dtype), shape_of(name, shape, sizes), generator)
        feeds[name] = data.astype(str).astype(object) if data.dtype.kind == "S" else data
    return feeds


def rounds_of(runners: Sequence[Runner[_Subject]], most: float = MOST) -> int:
    """How many rounds give each model its seconds."""
    turn = max(median(runner.seconds() * runner.repeats for runner in runners), 1e-7)
    return max(min(max(ROUNDS, ceil(LEAST / turn)), int(most / turn)), FEWEST)


def timed(runners: Mapping[_Key, Runner[_Subject]], rounds: int) -> Mapping[_Key, Sequence[float]]:
    """Seconds of one run by model and round.

    Every round starts with another model. When all have been first the order is turned round, so that none always has
    the same before it.
    """
    ways = list(runners)
    times: dict[_Key, list[float]] = {way: [] for way in ways}
    for turn in range(rounds):
        start = turn % len(ways)
        order = [*ways[start:], *ways[:start]]
        for way in reversed(order) if turn // len(ways) % 2 else order:
            times[way].append(runners[way].seconds())
    return times


def ratio(times: Sequence[float], first: Sequence[float]) -> float:
    """The median over the rounds of a model's time by the first one's."""
    return median(_ratios(times, first))


def spread(times: Sequence[float], first: Sequence[float]) -> float:
    """How far apart the middle half of the rounds' ratios lies, by their median. Needs two rounds."""
    ratios = _ratios(times, first)
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return (high - low) / median(ratios)


def _ratios(times: Sequence[float], first: Sequence[float]) -> list[float]:
    """Ratios by round. A turn that a coarse clock sees as nothing counts as a nanosecond."""
    return [max(own, 1e-9) / max(other, 1e-9) for own, other in zip(times, first, strict=True)]


def setting(level: Level, threads: int) -> dict[str, object]:
    """What a measurement ran with, as it is reported."""
    return {"level": level, "threads": threads, "clock": "process" if threads == 1 else "wall"}
