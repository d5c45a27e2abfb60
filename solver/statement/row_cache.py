"""Memoised rows: the operators of a network repeat, and so do their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row

Request = tuple[str, int, Layout]
"""A method of :class:`Alternatives` and its arguments, if it has some."""


@dataclass(slots=True)
class _State:
    """What some requests lead to, and the alternatives that have answered just these, if they have not gone on.

    A state does not refer back to that before it: a cycle would stay in memory, as solving does without the collector
    of garbage.
    """

    alternatives: Alternatives | None
    capped: bool = False
    steps: dict[Request, tuple[_State, tuple[Row, ...], Request]] = field(default_factory=dict)


class Memo:
    """The rows of all operators that are alike, as a tree of requests: what was asked before is looked up."""

    def __init__(self, make: Callable[[], Alternatives]) -> None:
        self.make = make
        self.root = _State(None)

    def operator(self, limit: Limit) -> Memoised:
        """One operator, of which nothing is asked yet; new rows spend from a limit."""
        return Memoised(self, limit, self.root, [])


@dataclass(slots=True)
class Memoised:
    """The rows of one operator; it answers as :class:`Alternatives` do."""

    _memo: Memo
    _limit: Limit
    _state: _State
    _asked: list[Request]

    def copy(self, limit: Limit) -> Memoised:
        """Another operator of which the same was asked, and whose new rows spend from a limit."""
        return Memoised(self._memo, limit, self._state, list(self._asked))

    @property
    def capped(self) -> bool:
        """Whether rows were left out because there were too many."""
        return self._state.capped

    def start(self) -> tuple[Row, ...]:
        return self._ask(("start", -1, ()))

    def push(self, port: int, layout: Layout) -> tuple[Row, ...]:
        return self._ask(("push", port, layout))

    def rest(self) -> tuple[Row, ...]:
        return self._ask(("rest", -1, ()))

    def source(self) -> tuple[Row, ...]:
        return self._ask(("source", -1, ()))

    def _ask(self, request: Request) -> tuple[Row, ...]:
        state = self._state
        if request not in state.steps:
            alternatives = state.alternatives or self._replayed()
            state.alternatives = None
            alternatives.spend_from(self._limit)
            rows = tuple(_answer(alternatives, request))
            state.steps[request] = (_State(alternatives, alternatives.capped), rows, request)
        self._state, rows, known = state.steps[request]
        self._asked.append(known)
        return rows

    def _replayed(self) -> Alternatives:
        alternatives = self._memo.make()
        for request in self._asked:
            _answer(alternatives, request)
        return alternatives


def _answer(alternatives: Alternatives, request: Request) -> list[Row]:
    name, port, layout = request
    if name == "push":
        return alternatives.push(port, layout)
    return {"start": alternatives.start, "rest": alternatives.rest, "source": alternatives.source}[name]()
