"""What is known of the orders of some atoms, where those of all are too many.

A problem in which layouts leave some atoms out has few orders, and its least price is a lower bound
(:mod:`layoutsolve.solver.statement.unseen`). Its cheapest orders are mostly shown by cheap ones of all atoms, so these
are candidates.
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.statement.stops import BLOCKS
from layoutsolve.solver.strategies.charged import wider
from layoutsolve.solver.theory.layout import Order, order

ATOMS = 4
"""How many atoms of each variable are seen at first, at the most."""

SHOWN = 8
"""How many layouts a variable may have where it is known what they are to show."""

IDLE = 2
"""After so many problems in a row that prove no more than those before, no larger one is looked at."""

STATED = 0.15
"""The most of what is left of a limit that stating a problem of some atoms may take: those of more are far larger."""


class SomeAtoms:
    """What is known of a statement's orders by those of some atoms, of ever more.

    ``proof`` is the solution that proves the most, None while there is none. Its bounds are those of all atoms.
    """

    def __init__(self, statement: Statement, tiers: Tiers) -> None:
        self.statement, self.tiers = statement, tiers
        self.proof: Solution | None = None
        self._solved: Solution | None = None
        self._atoms, self._idle = ATOMS, 0
        self._unseen = frozenset[int]()

    def look(self, values: tuple[int, ...] | None, limit: Limit) -> None:
        """Look at more atoms until that proves no more, it takes too long, or what is proven is as much as values that
        are known.
        """
        while self._idle < IDLE and not limit.expired and not (values and self.proves(values)):
            unseen = self.statement.unseen(self._atoms)
            if not unseen:
                return
            if unseen != self._unseen:
                problem = self.statement.orders(limit.part(STATED), CANDIDATES, without=unseen)
                if problem.capped or not self._solve(problem, unseen, limit):
                    return
            self._atoms, self._unseen = self._atoms + 1, unseen

    def _solve(self, problem: LayoutProblem, unseen: frozenset[int], limit: Limit) -> bool:
        """Solve a problem of some atoms; whether there was time for all of it."""
        found = replace(solve(problem, self.tiers, limit), charged=frozenset(), unseen=unseen)
        self._idle += found.optimal
        if self.proof is None or found.bounds > self.proof.bounds:
            self.proof, self._idle = found, 0
        if found.optimal or self._solved is None:
            self._solved = found
        return found.optimal

    def charge(self, values: tuple[int, ...], limit: Limit) -> None:
        """Have the dearer moves of the last solution cost what they do, and more and more of those around, until what
        is proven is as much as values that are known.
        """
        least, timed = self._solved, self.statement.goal.timed
        if least is None or timed or limit.expired or self.proves(values):
            return
        unseen, reach = least.unseen, 1
        candidates = self.statement.without(unseen).candidates(limit.part(STATED), CANDIDATES)
        more: LayoutProblem | None = replace(candidates.problem(), charged=frozenset(), partial=True)
        while more is not None and not more.capped and not limit.expired and not self.proves(values):
            more, reach = wider(more, candidates, least, reach, limit, BLOCKS), 2 * reach
            if more is not None:
                least = solve(self.statement.marked(more, unseen), self.tiers, limit)
                least = replace(least, charged=more.charged, unseen=unseen)
                self.proof = max(self.proof or least, least, key=lambda each: each.bounds)

    def proves(self, values: tuple[int, ...]) -> bool:
        """Whether nothing costs less."""
        return self.proof is not None and self.proof.bounds >= values

    def shown(self, limit: Limit) -> list[Solution]:
        """The cheapest orders of all atoms, among few but those that show the cheapest of some; nothing where these are
        not known.
        """
        known = self._solved
        if known is None or limit.expired:
            return []
        orders: list[set[Order]] = [set() for _ in known.problem.variables]
        for operator, row in zip(known.problem.operators, known.chosen, strict=True):
            for variable, layout in zip(operator.ports, row.layouts, strict=True):
                orders[variable].add(order(layout))
        return [solve(self.statement.showing(orders, limit.part(STATED), SHOWN), self.tiers, limit)]
