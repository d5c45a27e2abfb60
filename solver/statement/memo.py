"""Looking up rows instead of finding them again: the operators of a network repeat, and so do their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from layoutsolve.solver.statement.filler import Filler
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

    def __init__(self, make: Callable[[], Generator | Filler]) -> None:
        self.make = make
        self.root = _Stop(None)

    def walker(self) -> Walker:
        """One operator, at the root."""
        return Walker(self)


Request = tuple[str, int, Layout]
"""A method of :class:`Generator` and its arguments."""


@dataclass(slots=True)
class _Stop:
    """A place in the tree, and the generator that has taken all steps to it, if it has not gone on."""

    generator: Generator | Filler | None
    capped: bool = False
    steps: dict[Request, tuple[_Stop, tuple[Row, ...]]] = field(default_factory=dict)


class Walker:
    """An operator on its way through the tree of a :class:`Shared`; it answers as a :class:`Generator` does."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._stop = shared.root
        self._steps: list[Request] = []

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
            rows = tuple(_asked(generator, request))
            stop.steps[request] = (_Stop(generator, generator.capped), rows)
        self._steps.append(request)
        self._stop, rows = stop.steps[request]
        return rows

    def _replayed(self) -> Generator | Filler:
        generator = self._shared.make()
        for request in self._steps:
            _asked(generator, request)
        return generator


def _asked(generator: Generator | Filler, request: Request) -> list[Row]:
    name, port, layout = request
    if name == "push":
        return generator.push(port, layout)
    return {"start": generator.start, "rest": generator.rest, "source": generator.source}[name]()
