"""Memoised rows: operators of a network repeat, and so do their neighbours; rows of what is alike are found once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.theory.row import Row

Method = Callable[..., list[Row]]
"""A method of :class:`Alternatives` that leads to rows."""

Request = tuple[Method, tuple[object, ...]]
"""A method and its arguments."""


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
    """The rows of one operator. What was asked before of any that is alike, one a :meth:`copy` of another, is looked up
    in a tree of requests, which begins with alternatives that were asked nothing. New rows spend from a ``limit``.
    """

    def __init__(
        self, first: Alternatives, limit: Limit, state: _State | None = None, asked: Iterable[Request] = ()
    ) -> None:
        self._first, self._limit, self._state, self._asked = first, limit, state or _State(), [*asked]

    def copy(self, limit: Limit) -> Memoised:
        """Another operator of which the same was asked, and whose new rows spend from a limit."""
        return Memoised(self._first, limit, self._state, self._asked)

    @property
    def capped(self) -> bool:
        """Whether rows were left out because there were too many."""
        return self._state.capped

    def ask(self, method: Method, *given: object) -> Sequence[Row]:
        """The rows that a method leads to after all that was asked before."""
        state, request = self._state, (method, given)
        if (step := state.steps.get(request)) is None:
            alternatives = state.alternatives or self._replayed()
            state.alternatives = None
            alternatives.spend_from(self._limit)
            rows = tuple(method(alternatives, *given))
            step = state.steps[request] = _State(alternatives, alternatives.capped), rows
        self._state, known = step
        self._asked.append(request)
        return known

    def _replayed(self) -> Alternatives:
        alternatives = self._first.copy()
        for method, given in self._asked:
            method(alternatives, *given)
        return alternatives
