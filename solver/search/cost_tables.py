"""What rows and moves cost, as tables over the rows of operators, by level, and how all levels are one number.

What a variable costs depends on the layout that it is written in and on those that its readers want. Where orders
alone count each order that is wanted costs by itself, else all that are wanted have one price together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.objective import Levels, grouping, ranked
from layoutsolve.solver.statement.price import price_of_layouts
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Price

Array = NDArray[np.int64]

Numbers = NDArray[np.intp]

PRICED, PRICE = 2**12, 8
"""The most combinations of layouts of a variable that have a price where groupings count, also the most entries of a
table of prices that is kept for all variables that are alike; and the work of a price.
"""

MOVE, PAIRS = 3, 25
"""The work of a layout of others, and the moves that have a price in a unit of work."""

TOTAL = 2**62
"""How large a number may become that has all levels."""

Scope = tuple[int, ...]
"""Operators in the sequence in which they are eliminated."""


@dataclass(frozen=True, eq=False)
class Paid:
    """What is paid by level, source and target."""

    paid: Array

    @cached_property
    def facts(self) -> list[tuple[int, int, int]]:
        """By level the greatest divisor, the most that is paid, and for how many targets of a source."""
        most, targets = self.paid.max((1, 2)), np.count_nonzero(self.paid, 2).max(1)
        return [*zip(np.gcd.reduce(self.paid, (1, 2)).tolist(), most.tolist(), targets.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class Costs:
    """What is paid for the alternatives of the operators in a ``scope``: what is ``paid`` from the source that is
    ``written``, for each target that is ``wanted``, unless it was wanted before. Both are numbers along the axes of the
    operators.
    """

    scope: Scope
    paid: Paid
    written: Numbers
    wanted: Sequence[Numbers]

    def table(self, paid: Array) -> Array:
        """What is paid for all alternatives, by source and target in one number."""
        total = paid[self.written, self.wanted[0]]
        for at, own in enumerate(self.wanted[1:], 1):
            fresh = np.all(np.broadcast_arrays(*(own != other for other in self.wanted[:at])), 0)
            total = total + paid[self.written, own] * fresh
        return total


class Stated:
    """States what rows and moves cost, by level."""

    def __init__(
        self, problem: LayoutProblem, domains: Mapping[int, Sequence[int]], levels: Levels, limit: Limit
    ) -> None:
        self.problem, self.domains, self.limit = problem, domains, limit
        self.levels, self.reshapes = levels, grouping(levels)
        self.known = problem.tables.setdefault(levels, {})

    def of_rows(self, number: int) -> Costs:
        """What the alternatives of an operator cost."""
        rows, domain = self.problem.operators[number].rows, self.domains[number]
        if (key := (id(rows), *domain)) not in self.known:
            self.known[key] = Paid(self._by_level([[rows[row].price for row in domain]]))
        return Costs((number,), self.known[key], np.zeros((), np.intp), [np.arange(len(domain))])

    def of_variable(self, variable: int, scope: Scope) -> Costs | None:
        """What moving a variable costs, from where it is written to what its readers want; None where that is too much
        to price. Where groupings count, what all readers want together is one target.
        """
        places = self.problem.places(variable)
        known: list[dict[Layout, int]] = [{} for _ in places]
        if not self.reshapes:
            known[1:] = [known[1]] * (len(places) - 1)
        written, *wanted = [self._numbered(*each, scope, own) for each, own in zip(places, known, strict=True)]
        if self.reshapes:
            sizes = list(map(len, known[1:]))
            if len(known[0]) * prod(sizes) > PRICED:
                return None
            wanted = [np.asarray(np.ravel_multi_index(np.broadcast_arrays(*wanted), sizes))]
        each = self.problem.variables[variable]
        key = (each.sizes, each.bytes, each.turns, each.joined, self.problem.charges(variable), *map(tuple, known))
        paid = self.known.get(key) or Paid(self._priced(variable, *map(list, known)))
        if paid.paid.size <= PRICED:
            self.known[key] = paid
        return Costs(scope, paid, written, wanted)

    def _numbered(self, number: int, port: int, scope: Scope, numbers: dict[Layout, int]) -> Numbers:
        """The number of the layout that each row of an operator has at a port, along the operator's axis of a table."""
        rows = self.problem.operators[number].rows
        found = [numbers.setdefault(rows[row].layouts[port], len(numbers)) for row in self.domains[number]]
        if number not in scope:
            found = found[:1]
        return np.array(found, np.intp).reshape([-1 if each == number else 1 for each in scope])

    def _priced(self, variable: int, sources: Sequence[Layout], *wanted: Sequence[Layout]) -> Array:
        """What each source costs for each target, or for each combination of those that readers want, by level."""
        if self.reshapes:
            targets = [set(each) for each in product(*wanted)]
            self.limit.spend(PRICE * len(sources) * len(targets))
            return self._by_level(
                [[price_of_layouts(self.problem, variable, each, every) for every in targets] for each in sources]
            )
        self.limit.spend(MOVE * (len(sources) + len(wanted[0])) + len(sources) * len(wanted[0]) // PAIRS)
        prices, numbers = self.problem.move_classes(variable, sources, wanted[0])
        paid = self._by_level([prices])[:, 0, numbers]
        parted = ranked(Price(regrouped=int(self.problem.variables[variable].joined)), self.levels)
        return paid + np.multiply.outer(parted, [[each != other for other in wanted[0]] for each in sources])

    def _by_level(self, prices: Sequence[Sequence[Price]]) -> Array:
        """What prices come to, by level: few are different, and these are told apart by what they are in memory."""
        known = {id(price): price for each in prices for price in each}
        place = {each: at for at, each in enumerate(known)}
        paid = np.array([ranked(price, self.levels) for price in known.values()], np.int64)
        at = np.array([[place[id(price)] for price in each] for each in prices])
        return np.moveaxis(paid[at], 2, 0)


def in_one(costs: Sequence[Costs]) -> Mapping[Paid, Array] | None:
    """What is paid as one number, in which each level counts more than all that come after it, in parts of what it is
    counted in; None where that is too large.
    """
    stated = dict.fromkeys(each.paid for each in costs)
    paid = ([most * min(targets, len(each.wanted)) for _, most, targets in each.paid.facts] for each in costs)
    most = [*map(sum, zip(*paid, strict=True))]
    scales = [
        gcd(*(level[0] for level in levels)) or 1 for levels in zip(*(each.facts for each in stated), strict=True)
    ]
    counted, total = list[int](), 1
    for scale, each in zip(reversed(scales), reversed(most), strict=True):
        counted.insert(0, total)
        total *= 1 + each // scale
    if total > TOTAL:
        return None
    weights, parts = np.array(counted, np.int64), np.array(scales, np.int64)[:, None, None]
    return {each: np.einsum("l,lst->st", weights, each.paid // parts) for each in stated}
