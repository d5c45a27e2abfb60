"""What rows and moves cost, as tables over the rows of operators, by level, and how all levels are one number.

What a variable costs depends on the layout that it is written in and on those that its readers want. Where orders
alone count each order that is wanted costs by itself, else all that are wanted have one price together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import product
from math import gcd, prod
from typing import Any

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

PRICED, PRICE, KEPT = 2**12, 8, 2**16
"""The most combinations of layouts of a variable that have a price where groupings count, the work of a price, and the
most entries of a table of prices that is kept for all variables that are alike.
"""

MOVE, PAIRS = 3, 25
"""The work of a layout of others, and the moves that have a price in a unit of work."""

TOTAL = 2**62
"""How large a number may become that has all levels."""

Scope = tuple[int, ...]
"""Operators in the sequence in which they are eliminated."""


@dataclass(frozen=True, eq=False)
class Paid:
    """A few ``prices`` by level, and the number of that which is paid, by source and target."""

    prices: Array
    numbers: Numbers

    @cached_property
    def facts(self) -> list[tuple[int, int, int]]:
        """By level the greatest divisor, the most that is paid, and for how many targets of a source."""
        targets = (int(np.count_nonzero(level[self.numbers], 1).max()) for level in self.prices)
        return [*zip(np.gcd.reduce(self.prices, 1).tolist(), self.prices.max(1).tolist(), targets, strict=True)]


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
            fresh = reduce(np.logical_and, (own != other for other in self.wanted[:at]))
            total = total + paid[self.written, own] * fresh
        return total


@dataclass(eq=False)
class Places:
    """The operators with several layouts of a variable, and by place the layouts and the number of that of each row."""

    scope: frozenset[int]
    layouts: Sequence[tuple[Layout, ...]]
    numbers: Sequence[Numbers]
    paid: Paid | None = None


class Stated:
    """States what rows and moves cost, by level."""

    def __init__(
        self, problem: LayoutProblem, domains: Mapping[int, Sequence[int]], levels: Levels, limit: Limit
    ) -> None:
        self.problem, self.domains, self.limit = problem, domains, limit
        self.levels, self.reshapes = levels, grouping(levels)
        self.known = problem.tables.setdefault(levels, {})

    def _open(self, number: int) -> object:
        """What tells apart the rows of an operator that are open: one or all of them, mostly."""
        domain = self.domains[number]
        return tuple(domain) if 1 < len(domain) < len(self.problem.operators[number].rows) else (domain[0], len(domain))

    def of_rows(self, number: int) -> Costs:
        """What the alternatives of an operator cost."""
        rows, domain = self.problem.operators[number].rows, self.domains[number]
        if (key := (id(rows), self._open(number))) not in self.known:
            self.known[key] = self._by_level([[rows[row].price for row in domain]])
        return Costs((number,), self.known[key], np.zeros((), np.intp), [np.arange(len(domain))])

    def at(self, variable: int) -> Places:
        """What is at a variable: where it is written, if it is, and then its readers."""
        places = self.problem.places(variable)
        key = (variable, self.problem.charges(variable), *(self._open(number) for number, _ in places))
        if key not in self.known:
            shared: dict[Layout, int] = {}
            layouts = [{} if self.reshapes or not at else shared for at in range(len(places))]
            numbers = list[Numbers]()
            for (number, port), own in zip(places, layouts, strict=True):
                rows = map(self.problem.operators[number].rows.__getitem__, self.domains[number])
                numbers.append(np.array([own.setdefault(row.layouts[port], len(own)) for row in rows], np.intp))
            scope = (number for (number, _), own in zip(places, numbers, strict=True) if (own != own[0]).any())
            self.known[key] = Places(frozenset(scope), [*map(tuple, layouts)], numbers)
        found: Places = self.known[key]
        return found

    def of_variable(self, variable: int, at: Places, scope: Scope) -> Costs | None:
        """What moving a variable costs, from where it is written to what its readers want; None where that is too much
        to price. Where groupings count, what all readers want together is one target.
        """
        written, *wanted = [
            (own if number in scope else own[:1]).reshape([-1 if each == number else 1 for each in scope])
            for (number, _), own in zip(self.problem.places(variable), at.numbers, strict=True)
        ]
        if self.reshapes:
            sizes = list(map(len, at.layouts[1:]))
            if len(at.layouts[0]) * prod(sizes) > PRICED:
                return None
            wanted = [np.asarray(np.ravel_multi_index(np.broadcast_arrays(*wanted), sizes))]
        return Costs(scope, at.paid or self._paid(variable, at), written, wanted)

    def _paid(self, variable: int, at: Places) -> Paid:
        """What moves cost between the layouts that there are at a variable, found once for all that are alike."""
        each, layouts = self.problem.variables[variable], at.layouts if self.reshapes else at.layouts[:2]
        alike = (each.sizes, each.bytes, each.turns, each.joined, self.problem.charges(variable))
        key = (*alike, *layouts)
        paid = self.known.get(key) or self._priced(variable, self.known.setdefault(alike, {}), *layouts)
        if paid.numbers.size <= KEPT:
            self.known[key] = at.paid = paid
        return paid

    def _priced(self, variable: int, known: Any, sources: Sequence[Layout], *wanted: Sequence[Layout]) -> Paid:
        """What each source costs for each target, or for each combination that readers want; prices are ``known``."""
        if self.reshapes:
            targets = [frozenset(each) for each in product(*wanted)]
            self.limit.spend(PRICE * len(sources) * len(targets))
            for each in ((source, target) for target in {*targets} for source in sources):
                if each not in known:
                    known[each] = price_of_layouts(self.problem, variable, *each)
            return self._by_level([[known[source, target] for target in targets] for source in sources])
        self.limit.spend(MOVE * (len(sources) + len(wanted[0])) + len(sources) * len(wanted[0]) // PAIRS)
        prices, numbers = self.problem.move_classes(variable, sources, wanted[0])
        if self.problem.variables[variable].joined:
            numbers += len(prices) * np.array([[each != other for other in wanted[0]] for each in sources])
            prices += [price + Price(regrouped=1) for price in prices]
        return Paid(self._levels(prices), numbers)

    def _by_level(self, prices: Sequence[Sequence[Price]]) -> Paid:
        """What prices come to, by level: few are different, and these are told apart by what they are in memory."""
        known = {id(price): price for each in prices for price in each}
        place = dict(zip(known, range(len(known)), strict=True))
        return Paid(self._levels(known.values()), np.array([[place[id(price)] for price in each] for each in prices]))

    def _levels(self, prices: Iterable[Price]) -> Array:
        return np.array([ranked(price, self.levels) for price in prices], np.int64).T


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
    weights, parts = np.array(counted, np.int64), np.array(scales, np.int64)[:, None]
    return {each: (weights @ (each.prices // parts))[each.numbers] for each in stated}
