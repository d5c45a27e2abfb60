"""How much a search may do: a limit that every stage of the solver spends from and asks whether it is over.

By default work is counted, so that the same input gives the same result on any machine and under any load. Where the
user asks for seconds the clock decides instead, and nothing else in the solver looks at it.

A unit of work is about a microsecond: what a stage spends for a row that it looks at, or a term of a model, is as many
as that takes. CP-SAT counts its own work in deterministic seconds, of which each takes about a second.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

WORK, WORK_EACH = 12_000_000, 2_000
"""The work that a search may do: so much whatever the graph, and so much for each of its nodes."""

LOOK = 2_000
"""The most work that is done between two looks at the clock by stages that spend in small steps."""

DETERMINISTIC_SECOND = 1_000_000
"""The work that one deterministic second of CP-SAT counts as."""

KEPT_BACK = 1.5
"""What is set aside of a limit on seconds for writing down the result, against the time that has gone by before the
search.
"""

LEAST = 1e-3
"""The least seconds that CP-SAT is asked to take: it refuses none at all."""


class Limit:
    """A limit on work, or on seconds where they are given. :meth:`part` limits a stage to a share of what is left."""

    def __init__(self, work: int = WORK, seconds: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        """``clock`` gives seconds as :func:`time.monotonic` does; the limit begins where it is made."""
        self._clock, self._began = clock, clock() if seconds is not None else 0.0
        self._ends = None if seconds is None else self._began + seconds
        self._work = work
        self._spent = self._unseen = 0
        self._parent: Limit | None = None
        self._late = False
        self._told = True
        self.ended = ""
        """What ended a stage: 'work' or 'seconds', '' while nothing had to be left out."""

    @classmethod
    def of(cls, nodes: int, seconds: float | None = None) -> Limit:
        """The limit of a graph with so many nodes; ``seconds`` takes the place of work."""
        return cls(WORK + WORK_EACH * nodes, seconds)

    @property
    def timed(self) -> bool:
        """Whether the clock decides rather than work."""
        return self._ends is not None

    def part(self, share: float) -> Limit:
        """A limit on a share of what is left of this one; what is spent of it is spent of this one as well."""
        made = Limit(self._work, None, self._clock)
        made._parent = self
        if self._ends is None:
            made._work = max(0, int((self._work - self._spent) * share))
        else:
            made._began = now = self._clock()
            made._ends = now + max(0.0, self._ends - now) * share
        return made

    def attempt(self, work: int) -> Limit:
        """A part for so much work, of seconds the same share, in which something better may be found and nothing is
        proven: a search that is complete without it has not ended where this does.
        """
        made = self.part(min(1.0, work / max(1, self.work)))
        made._told = False
        return made

    def again(self) -> Limit:
        """What work this one allowed at first, for something that is to get as far as it does by itself; where the
        clock decides what is left.
        """
        return self.part(1.0) if self.timed else Limit(self._work, None, self._clock)

    def keep_back(self) -> None:
        """Set aside what is needed to write down the result, against the time since the limit began: that of reading
        the model, where the limit is one on that as well, and of stating the graph.
        """
        if self._ends is not None:
            self._ends -= (self._clock() - self._began) * KEPT_BACK

    def spend(self, work: int = 1) -> None:
        """Count work that is done."""
        limit: Limit | None = self
        while limit is not None:
            limit._spent += work
            limit._unseen += work
            limit = limit._parent

    def granted(self, work: int) -> int:
        """How much of some work may be done, which counts as done."""
        if not work or self.over:
            return 0
        granted = min(work, self.work)
        self.spend(granted)
        return granted

    @property
    def over(self) -> bool:
        """Whether nothing is left. Once it is over a limit stays so."""
        if not self._late and not self._plenty:
            if self._ends is None:
                self._late = self._spent >= self._work
            elif self._unseen >= LOOK or not self._spent:
                self._unseen = 0
                self._late = self._clock() >= self._ends
            if self._parent is not None and not self._late:
                self._late = self._parent.over
            if self._late:
                self._end()
        return self._late

    @property
    def _plenty(self) -> bool:
        """Whether work is left here and in all that this is a part of: what is asked for most often."""
        limit: Limit | None = self
        while limit is not None:
            if limit._late or limit._ends is not None or limit._spent >= limit._work:
                return False
            limit = limit._parent
        return True

    def _end(self) -> None:
        self.ended = "work" if self._ends is None else "seconds"
        if self._parent is not None and self._told:
            self._parent._end()

    @property
    def expired(self) -> bool:
        """As :attr:`over`, with a look at the clock in any case: for stages that spend in large steps."""
        self._unseen = LOOK
        return self.over

    @property
    def deterministic_seconds(self) -> float:
        """The deterministic seconds that are left for CP-SAT, infinite where the clock decides."""
        left = float("inf") if self._ends is not None else (self._work - self._spent) / DETERMINISTIC_SECOND
        return max(LEAST, left if self._parent is None else min(left, self._parent.deterministic_seconds))

    @property
    def work(self) -> int:
        """The work that is left; all that a search may do where the clock decides."""
        left = WORK if self._ends is not None else max(0, self._work - self._spent)
        return left if self._parent is None else min(left, self._parent.work)

    @property
    def seconds(self) -> float:
        """The seconds that are left, infinite where work decides."""
        left = float("inf") if self._ends is None else self._ends - self._clock()
        return max(LEAST, left if self._parent is None else min(left, self._parent.seconds))

    def searched(self, deterministic_seconds: float, finished: bool) -> None:
        """Count the work of CP-SAT, and record whether it completed."""
        self.spend(int(deterministic_seconds * DETERMINISTIC_SECOND))
        if not finished:
            self._end()


def unlimited() -> Limit:
    """A limit that is never over, for problems known to be small."""
    return Limit(2**62)
