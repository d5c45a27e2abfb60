"""Linear programs in zeros and ones: what CP-SAT and the solver of their relaxation are given.

The dual values of a program's rows prove a bound on a sum, and what no solution at that bound has. A solution pays the
sum. For any dual values, none negative, that sum is a bound, and what each variable that is 1 costs beyond it, and the
dual value of each row for all by which it exceeds its least. This is counted in whole numbers, so that nothing rests on
the accuracy of what the dual values come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, fields
from itertools import chain
from math import gcd

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.theory.row import Price

FIELDS = tuple(each.name for each in fields(Price))
"""The fields of a price that levels add up."""

UNIT = 720_720
"""The parts of one that dual values are whole numbers of: halves, thirds, .. and sixteenths are exact."""

Literals = list[int]
"""Variables, of which at most one is 1."""

Terms = list[tuple[int, int]]
"""Variables and their weights in a sum."""

Row = tuple[Terms, int, bool]
"""A sum, the least that it may be, and whether it is no more than that."""


@dataclass(frozen=True)
class Program:
    """Variables are numbered from 0 to ``count``, of which ``choices`` are rows of operators.

    ``exactly`` lists sets of variables of which exactly one is 1. ``terms`` are what a solution costs, by field of its
    price, beside what it costs in any case. A solution that costs the least has no variable above 1, so that of those
    that are not ``choices`` it is enough to know that they are not negative. ``fixed`` are rows that are chosen.
    """

    count: int
    choices: Mapping[tuple[int, int], int]
    exactly: Sequence[Literals]
    rows: Sequence[Row]
    terms: Mapping[str, Terms]
    costs: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[int, int] = field(default_factory=dict)

    def without(self, gone: Collection[int], tight: Collection[int], more: Sequence[Row] = ()) -> Program:
        """What is left where some variables are 0, some rows are no more than their least, and there are ``more``."""
        ones, dropped = set(), set(gone)
        for literals in self.exactly:
            left = [literal for literal in literals if literal not in dropped]
            if len(left) == 1:
                ones.update(left)
        places, count = [-1] * self.count, 0
        for literal in range(self.count):
            if literal not in dropped and literal not in ones:
                places[literal] = count
                count += 1
        exactly = [[places[each] for each in literals if places[each] >= 0] for literals in self.exactly]
        chosen = {literal: key for key, literal in self.choices.items() if literal in ones}
        empty = [literals for literals in self.exactly if dropped.issuperset(literals)]
        rows: list[Row] = [([], 1, False)] * len(empty)
        for number, (terms, least, equal) in enumerate(chain(self.rows, more)):
            kept = [(places[literal], weight) for literal, weight in terms if places[literal] >= 0]
            if ones and len(kept) < len(terms):
                least -= sum([weight for literal, weight in terms if literal in ones])
            equal |= number in tight
            if equal or least > 0 or any(weight < 0 for _, weight in kept):
                rows.append((kept, least, equal))
        return Program(
            count,
            {key: places[literal] for key, literal in self.choices.items() if places[literal] >= 0},
            [literals for literals in exactly if literals],
            rows,
            {
                name: [(places[literal], weight) for literal, weight in terms if places[literal] >= 0]
                for name, terms in self.terms.items()
            },
            {
                name: self.costs.get(name, 0) + sum(weight for literal, weight in terms if literal in ones)
                for name, terms in self.terms.items()
            },
            {**self.fixed, **dict(chosen.values())},
        )

    def level(self, names: Sequence[str]) -> Level:
        """The sum of some fields."""
        weights: dict[int, int] = {}
        for name in names:
            for literal, weight in self.terms[name]:
                weights[literal] = weights.get(literal, 0) + weight
        scale = gcd(*weights.values()) or 1
        terms = [(literal, weight // scale) for literal, weight in weights.items() if weight]
        return Level(terms, scale, sum(self.costs.get(name, 0) for name in names))


@dataclass(frozen=True)
class Level:
    """A sum that is minimised: ``terms``, whole numbers without a common divisor, each of which counts ``scale``, and
    what is paid in any case.
    """

    terms: Terms
    scale: int
    cost: int

    def total(self, value: int) -> int:
        """The most that the terms come to where all of it comes to no more than a value."""
        return (value - self.cost) // self.scale

    def value(self, total: int) -> int:
        """What all of it comes to with the terms."""
        return total * self.scale + self.cost


@dataclass(frozen=True)
class DualBound:
    """A ``bound`` on a level's sum, in parts, with the ``reduced_costs`` of all variables, and the dual values of the
    ``rows``; ``exact`` says that these are all that a sum may exceed the bound by.
    """

    program: Program
    level: Level
    bound: int
    reduced_costs: Sequence[int]
    rows: Sequence[int]
    exact: bool

    @property
    def least(self) -> int:
        """The least whole number that the sum may be."""
        return -(-self.bound // UNIT)

    def restricted(self, total: int, told: bool = True) -> Program:
        """Reduced-cost fixing: the program without variables that only solutions with a sum above a total have;
        ``told`` is whether a constraint may have to exclude other such solutions.
        """
        spare = total * UNIT - self.bound
        gone = [literal for literal, cost in enumerate(self.reduced_costs) if cost > spare]
        tight = {row for row, dual in enumerate(self.rows) if dual > spare}
        sure = self.exact and not spare
        sure &= all(cost > spare or not cost for cost in self.reduced_costs)
        sure &= all(dual > spare or not dual for dual in self.rows)
        more = [] if sure or not told else [_at_most(self.level, total)]
        return self.program.without(gone, tight, more)


def _at_most(level: Level, total: int) -> Row:
    return [(literal, -weight) for literal, weight in level.terms], -total, False


def limited(program: Program, level: Level, total: int) -> Program:
    """The program with a row that keeps a level's sum from being above a total."""
    return program.without((), (), [_at_most(level, total)])


def dual_bound(program: Program, level: Level, duals: Sequence[float]) -> DualBound:
    """What dual values of a program's rows prove. They are rounded to parts, and only those of rows that are equalities
    may be negative.
    """
    reduced_costs = [0] * program.count
    for literal, weight in level.terms:
        reduced_costs[literal] = weight * UNIT
    bound, rows, exact = 0, [0] * len(program.rows), True
    for number, ((terms, least, equal), dual) in enumerate(zip(program.rows, duals, strict=True)):
        parts = round(dual * UNIT)
        if not equal:
            parts = rows[number] = max(0, parts)
        if parts:
            bound += parts * least
            for literal, weight in terms:
                reduced_costs[literal] -= parts * weight
    for literals in program.exactly:
        lowest = min(reduced_costs[literal] for literal in literals)
        bound += lowest
        for literal in literals:
            reduced_costs[literal] -= lowest
    for literal, cost in enumerate(reduced_costs):
        if cost < 0:
            bound, exact, reduced_costs[literal] = bound + cost, False, 0
    return DualBound(program, level, bound, reduced_costs, rows, exact)
