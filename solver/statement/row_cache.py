"""Memoised rows: the operators of a network repeat, and so do their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row

Request = tuple[object, ...]
"""The name of a method of :class:`Alternatives`, and its arguments."""


@dataclass(slots=True)
class _State:
    """What some requests lead to, and the alternatives that have answered just these, if they have not gone on.

    A state does not refer back to that before it: a cycle would stay in memory, as solving does without the collector
    of garbage.
    """

    alternatives: Alternatives | None = None
    capped: bool = False
    steps: dict[Request, tuple[_State, tuple[Row, ...]]] = field(default_factory=dict)


class Memoised:
    """The rows of one operator, which answers as :class:`Alternatives` do. What was asked before of any that is alike,
    one a :meth:`copy` of another, is looked up in a tree of requests. New rows spend from a ``limit``.
    """

    def __init__(
        self, make: Callable[[], Alternatives], limit: Limit, state: _State | None = None, asked: Iterable[Request] = ()
    ) -> None:
        self._make, self._limit, self._state, self._asked = make, limit, state or _State(), [*asked]

    def copy(self, limit: Limit) -> Memoised:
        """Another operator of which the same was asked, and whose new rows spend from a limit."""
        return Memoised(self._make, limit, self._state, self._asked)

    @property
    def capped(self) -> bool:
        """Whether rows were left out because there were too many."""
        return self._state.capped

    def start(self) -> Sequence[Row]:
        return self._ask("start")

    def push(self, port: int, layout: Layout) -> Sequence[Row]:
        return self._ask("push", port, layout)

    def rest(self) -> Sequence[Row]:
        return self._ask("rest")

    def source(self) -> Sequence[Row]:
        return self._ask("source")

    def _ask(self, *request: object) -> Sequence[Row]:
        state = self._state
        if request not in state.steps:
            alternatives = state.alternatives or self._replayed()
            state.alternatives = None
            alternatives.spend_from(self._limit)
            rows = _answer(alternatives, request)
            state.steps[request] = _State(alternatives, alternatives.capped), tuple(rows)
        self._state, known = state.steps[request]
        self._asked.append(request)
        return known

    def _replayed(self) -> Alternatives:
        alternatives = self._make()
        for request in self._asked:
            _answer(alternatives, request)
        return alternatives


def _answer(alternatives: Alternatives, request: Request) -> list[Row]:
    name, *given = request
    rows: list[Row] = getattr(alternatives, str(name))(*given)
    return rows
