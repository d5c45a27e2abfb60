"""Looking up rows instead of finding them again: the operators of a network repeat, and so do their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.generator import Generator
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row


class Shared:
    """The rows of all operators that are alike: what is found for one is looked up for the next.

    Operators of a network repeat, and so do the layouts that are suggested to them. Each operator walks a tree of
    requests from the root; a step that was taken before gives the same rows, a new one is made by a generator that
    has taken the same steps. Nothing in the tree refers back to where it comes from: a cycle would stay in memory, as
    solving does without the collector of garbage.
    """

    def __init__(self, make: Callable[[], Generator]) -> None:
        self.make = make
        self.root = _Stop(None)

    def walker(self, limit: Limit) -> Walker:
        """One operator, at the root, of which new steps spend from a limit."""
        return Walker(self, limit, self.root, [])


Request = tuple[str, int, Layout]
"""A method of :class:`Generator` and its arguments."""


@dataclass(slots=True)
class _Stop:
    """A place in the tree, and the generator that has taken all steps to it, if it has not gone on."""

    generator: Generator | None
    capped: bool = False
    steps: dict[Request, _Step] = field(default_factory=dict)


_Step = tuple[_Stop, tuple[Row, ...], Request]
"""Where a request leads to, the rows that it gives, and itself: one object for all that take the step."""


@dataclass(slots=True)
class Walker:
    """An operator on its way through the tree of a :class:`Shared`; it answers as a :class:`Generator` does."""

    _shared: Shared
    _limit: Limit
    _stop: _Stop
    _steps: list[Request]

    def copy(self, limit: Limit) -> Walker:
        """Another operator that has come as far, of which new steps spend from a limit."""
        return Walker(self._shared, limit, self._stop, list(self._steps))

    @property
    def capped(self) -> bool:
        """Whether rows were left out because there were too many."""
        return self._stop.capped

    def start(self) -> tuple[Row, ...]:
        """See :meth:`Generator.start`."""
        return self._step(("start", -1, ()))

    def push(self, port: int, layout: Layout) -> tuple[Row, ...]:
        """See :meth:`Generator.push`."""
        return self._step(("push", port, layout))

    def exactly(self, wanted: Row) -> list[Row]:
        """See :meth:`Generator.exactly`; nothing of it is shared."""
        return self._shared.make().exactly(wanted)

    def rest(self) -> tuple[Row, ...]:
        """See :meth:`Generator.rest`."""
        return self._step(("rest", -1, ()))

    def source(self) -> tuple[Row, ...]:
        """See :meth:`Generator.source`."""
        return self._step(("source", -1, ()))

    def _step(self, request: Request) -> tuple[Row, ...]:
        stop = self._stop
        if request not in stop.steps:
            generator = stop.generator or self._replayed()
            stop.generator = None
            generator.spend_from(self._limit)
            rows = tuple(_asked(generator, request))
            stop.steps[request] = (_Stop(generator, generator.capped), rows, request)
        self._stop, rows, known = stop.steps[request]
        self._steps.append(known)
        return rows

    def _replayed(self) -> Generator:
        generator = self._shared.make()
        for request in self._steps:
            _asked(generator, request)
        return generator


def _asked(generator: Generator, request: Request) -> list[Row]:
    name, port, layout = request
    if name == "push":
        return generator.push(port, layout)
    return {"start": generator.start, "rest": generator.rest, "source": generator.source}[name]()
