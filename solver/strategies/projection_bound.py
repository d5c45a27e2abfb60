"""A lower bound by the orders of some atoms: all that is proven where those of all atoms are too many to state.

A problem in which layouts leave some atoms out has few orders, and its least price is a lower bound
(:mod:`layoutsolve.solver.statement.atom_selection`).
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.statement import CANDIDATES, Statement

ATOMS = 4
"""How many atoms of each variable are seen at first, at the most."""

IDLE = 2
"""After so many problems in a row that prove no more than those before, no larger one is looked at."""

STATED = 0.15
"""The most of what is left of a limit that stating a problem of some atoms may take: those of more are far larger."""


def projection_bound(statement: Statement, levels: Levels, values: tuple[int, ...], limit: Limit) -> Solution | None:
    """The solution that proves the most, whose bounds are those of all atoms; None where there is none.

    More atoms are looked at until that proves no more, it takes too long, or what is proven is as much as ``values``
    that are known.
    """
    proof: Solution | None = None
    atoms, idle, before = ATOMS, 0, frozenset[int]()
    while idle < IDLE and not limit.expired and (proof is None or proof.bounds < values):
        unseen = statement.unseen(atoms)
        if not unseen:
            break
        if unseen != before:
            problem = statement.projected(unseen, limit.part(STATED), CANDIDATES)
            if problem.capped:
                break
            found = replace(solve(problem, levels, limit), charged=frozenset(), unseen=unseen)
            idle += 1
            if proof is None or found.bounds > proof.bounds:
                proof, idle = found, 0
            if not found.optimal:
                break
        atoms, before = atoms + 1, unseen
    return proof
