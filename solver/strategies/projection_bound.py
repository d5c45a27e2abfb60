"""What is known of the orders of some atoms, where those of all are too many.

A problem in which layouts leave some atoms out has few orders, and its least price is a lower bound
(:mod:`layoutsolve.solver.statement.atom_selection`).
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import CANDIDATES, Statement

ATOMS = 4
"""How many atoms of each variable are seen at first, at the most."""

IDLE = 2
"""After so many problems in a row that prove no more than those before, no larger one is looked at."""

STATED = 0.15
"""The most of what is left of a limit that stating a problem of some atoms may take: those of more are far larger."""


class SomeAtoms:
    """What is known of a statement's orders by those of some atoms, of ever more.

    ``proof`` is the solution that proves the most, None while there is none. Its bounds are those of all atoms.
    """

    def __init__(self, statement: Statement, levels: Levels) -> None:
        self.statement, self.levels = statement, levels
        self.proof: Solution | None = None
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
                problem = self.statement.projected(unseen, limit.part(STATED), CANDIDATES)
                if problem.capped or not self._solve(problem, unseen, limit):
                    return
            self._atoms, self._unseen = self._atoms + 1, unseen

    def _solve(self, problem: LayoutProblem, unseen: frozenset[int], limit: Limit) -> bool:
        """Solve a problem of some atoms; whether there was time for all of it."""
        found = replace(solve(problem, self.levels, limit), charged=frozenset(), unseen=unseen)
        self._idle += found.optimal
        if self.proof is None or found.bounds > self.proof.bounds:
            self.proof, self._idle = found, 0
        return found.optimal

    def proves(self, values: tuple[int, ...]) -> bool:
        """Whether nothing costs less."""
        return self.proof is not None and self.proof.bounds >= values
