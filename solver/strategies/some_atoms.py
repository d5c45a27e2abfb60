"""What is known of the orders of some atoms, where those of all are too many.

A problem in which layouts leave some atoms out has few orders, and its least price is a lower bound
(:mod:`layoutsolve.solver.statement.unseen`). Its cheapest orders are mostly shown by cheap ones of all atoms, so these
are candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.theory.layout import Order, order

ATOMS = 4
"""How many atoms of each variable are seen at first, at the most."""

SHOWN = 8
"""How many layouts a variable may have where it is known what they are to show."""

STATED, SOLVED = 0.15, 0.8
"""The most of what is left of a limit that a problem may take: to be stated, and to be solved."""


def cheapest_of_some_atoms(
    statement: Statement, values: tuple[int, ...], tiers: Tiers, limit: Limit
) -> Solution | None:
    """The cheapest orders of some atoms, of ever more until what is proven is as much as some values, or it takes too
    long; None where there are no atoms to leave out, or not even few can be looked at.
    """
    best: Solution | None = None
    for unseen in _ever_fewer(statement):
        problem = statement.orders(limit.part(STATED), CANDIDATES, without=unseen)
        if problem.capped:
            break
        found = replace(solve(problem, tiers, limit.part(SOLVED)), charged=frozenset(), unseen=unseen)
        if best is None or found.bounds > best.bounds:
            best = found
        if best.bounds >= values or not found.optimal:
            break
    return best


def _ever_fewer(statement: Statement) -> Iterator[frozenset[int]]:
    """Factors to leave out, as long as there are any."""
    known = frozenset[int]()
    for most in count(ATOMS):
        unseen = statement.unseen(most)
        if not unseen:
            return
        if unseen != known:
            yield unseen
        known = unseen


def cheapest_that_shows(statement: Statement, known: Solution, tiers: Tiers, limit: Limit) -> Solution:
    """The cheapest orders of all atoms, among few but those that show the orders of some."""
    shown: list[set[Order]] = [set() for _ in known.problem.variables]
    for operator, row in zip(known.problem.operators, known.chosen, strict=True):
        for variable, layout in zip(operator.ports, row.layouts, strict=True):
            shown[variable].add(order(layout))
    return solve(statement.showing(shown, limit.part(SOLVED), SHOWN), tiers, limit.part(SOLVED))
