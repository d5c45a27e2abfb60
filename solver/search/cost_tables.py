"""What rows and moves cost, as tables over the rows of operators, in which all levels are one number.

What a variable costs depends on the layout that it is written in and on those that its readers want. Of the layouts
that are wanted in one order the nearest is what a Transpose ends in, and each other one is a Reshape of that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.reshape_counts import by_order, near
from layoutsolve.solver.statement.objective import Levels, grouping, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, order

Array = NDArray[np.int64]

Numbers = NDArray[np.intp]

MOVE = 3
"""The work of finding out what a move costs."""

PAIRS, TIMED = 25, 2
"""The moves that are told at once in a unit of work: where their time counts these are fewer."""

TOTAL = 2**62
"""How large a number may become that has all levels."""

Scope = tuple[int, ...]
"""Operators in the sequence in which they are eliminated."""


@dataclass(frozen=True, eq=False)
class Moves:
    """What a move from each source to each target costs, by level: ``paid``. Where groupings count, ``again`` is what a
    target costs if another one of its order is delivered, ``given`` and ``asked`` number the orders of sources and
    targets.
    """

    paid: Array
    again: Array
    given: Numbers | None = None
    asked: Numbers | None = None


@dataclass(frozen=True, eq=False)
class Costs:
    """What is paid for the alternatives of the operators in a ``scope``: for each target that is ``wanted``, unless it
    was wanted before, from the source that is ``written``. Both are numbers along the axes of the operators.
    """

    scope: Scope
    moves: Moves
    written: Numbers
    wanted: Sequence[Numbers]

    @property
    def most(self) -> Array:
        """No less than what may be paid, by level."""
        paid = self.moves.paid
        if self.moves.asked is not None:
            most: Array = np.maximum(paid.max((1, 2)), self.moves.again) * len(self.wanted)
        else:
            most = np.minimum(np.count_nonzero(paid, 2).max(1), len(self.wanted)) * paid.max((1, 2))
        return most

    @property
    def scale(self) -> Array:
        """What all that may be paid is a multiple of, by level; 0 where nothing is."""
        scale: Array = np.gcd(np.gcd.reduce(self.moves.paid, (1, 2)), self.moves.again)
        return scale

    def table(self, scales: Array, counted: Array) -> Array:
        """What is paid for all rows in one number: each level in parts of a scale, so many times."""
        paid = np.tensordot(counted, (self.moves.paid.T // scales).T, 1)
        if self.moves.given is not None and self.moves.asked is not None:
            again = int(counted @ (self.moves.again // scales))
            return self._grouped(paid, again, self.moves.given, self.moves.asked)
        total = np.zeros((), np.int64)
        for at, own in enumerate(self.wanted):
            total = total + paid[self.written, own] * _fresh(own, self.wanted[:at])
        return total

    def _grouped(self, paid: Array, again: int, given: Numbers, asked: Numbers) -> Array:
        """The same where targets may have one order: the first reader that wants an order pays for its Transpose, to
        the nearest of all that are wanted of it, and who wants something else of the order for a Reshape.
        """
        total, written = np.zeros((), np.int64), given[self.written]
        for at, own in enumerate(self.wanted):
            atoms, least = asked[own], paid[self.written, own]
            alone, first = least, _fresh(atoms, [asked[other] for other in self.wanted[:at]])
            for other in self.wanted[at + 1 :]:
                least = np.where(atoms == asked[other], np.minimum(least, paid[self.written, other]), least)
            moved = np.where(written == atoms, alone, np.where(first, least, again))
            total = total + moved * _fresh(own, self.wanted[:at])
        return total


def _fresh(own: Numbers, before: Iterable[Numbers]) -> NDArray[np.bool_]:
    """Where a number is none of those before."""
    fresh = np.ones((), bool)
    for other in before:
        fresh = fresh & (own != other)
    return fresh


class Stated:
    """States what rows and moves cost, by level."""

    def __init__(
        self, problem: LayoutProblem, domains: Mapping[int, Sequence[int]], levels: Levels, limit: Limit
    ) -> None:
        self.problem, self.domains, self.levels, self.limit = problem, domains, levels, limit
        self.reshapes = grouping(levels)
        self.known: dict[Hashable, Moves] = {}

    def of_rows(self, number: int) -> Costs:
        """What the alternatives of an operator cost."""
        rows = self.problem.operators[number].rows
        paid = np.array([ranked(rows[row].price, self.levels) for row in self.domains[number]], np.int64)
        moves = Moves(paid.T[:, None], np.zeros(len(self.levels), np.int64))
        return Costs((number,), moves, np.zeros((), np.intp), [np.arange(len(paid))])

    def of_variable(self, variable: int, scope: Scope) -> Costs:
        """What moving a variable costs, from where it is written to what its readers want."""
        writer, readers = self.problem.writers[variable], self.problem.readers[variable]
        assert writer is not None
        sources, targets = dict[Layout, int](), dict[Layout, int]()
        written = self._numbered(writer, scope, sources)
        wanted = {_key(each): each for each in (self._numbered(place, scope, targets) for place in readers)}
        return Costs(scope, self._moves(variable, list(sources), list(targets)), written, list(wanted.values()))

    def _numbered(self, place: tuple[int, int], scope: Scope, numbers: dict[Layout, int]) -> Numbers:
        """The number of the layout that each row of an operator has at a port, along the operator's axis of a table."""
        rows = self.problem.operators[place[0]].rows
        found = [numbers.setdefault(rows[row].layouts[place[1]], len(numbers)) for row in self.domains[place[0]]]
        if place[0] not in scope:
            found = found[:1]
        return np.array(found, np.intp).reshape([-1 if number == place[0] else 1 for number in scope])

    def _moves(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> Moves:
        each, charged = self.problem.variables[variable], self.problem.charges(variable)
        key = (each.sizes, each.bytes, each.turns, each.joined, charged, *sources, None, *targets)
        if key not in self.known:
            stated = self._of_groupings if self.reshapes else self._of_orders
            self.known[key] = stated(variable, sources, targets)
        return self.known[key]

    def _of_orders(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> Moves:
        """What a move from each source to each target costs, by level, where layouts stand for orders."""
        several = TIMED if self.problem.timed else PAIRS
        self.limit.spend(MOVE * (len(sources) + len(targets)) + len(sources) * len(targets) // several)
        paid = self._transposes(variable, sources, targets, _changed(sources, targets))
        return Moves(self._by_level(paid), np.zeros(len(self.levels), np.int64))

    def _of_groupings(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> Moves:
        """The same with Reshapes. A Transpose depends on the orders alone, of which there are far fewer."""
        each, numbers = self.problem.variables[variable], dict[Order, int]()
        given, asked = (
            np.array([numbers.setdefault(order(layout), len(numbers)) for layout in layouts], np.intp)
            for layouts in (sources, targets)
        )
        self.limit.spend(MOVE * (len(numbers) ** 2 + len(sources) + len(targets)) + given.size * asked.size // PAIRS)
        orders = list(map(_alone, numbers))
        transposed = self._transposes(variable, orders, orders, _changed(orders, orders))
        paid = {name: between[given[:, None], asked] for name, between in transposed.items()}
        once = self.problem.target.reshape_price(1, each.turns, self.problem.timed)
        reshapes, hindered = self._beside(variable, sources, targets)
        paid["regrouped"] = _changed(sources, targets) * each.joined
        paid |= {"reshapes": reshapes, "hidden": paid["hidden"] + hindered}
        paid["nanoseconds"] = paid["nanoseconds"] + reshapes * once.nanoseconds
        return Moves(self._by_level(paid), np.array(ranked(once, self.levels), np.int64), given, asked)

    def _transposes(
        self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout], moves: Array
    ) -> dict[str, Array]:
        """What Transposes cost, where there is one."""
        lost = np.frombuffer(b"".join(self.problem.losses(variable, sources, targets)), np.uint8)
        return {
            "transposes": moves,
            "bytes": moves * self.problem.variables[variable].bytes,
            "hidden": moves * lost.reshape(moves.shape),
            "nanoseconds": moves * self.problem.times(variable, sources, targets),
            "regrouped": moves * self.problem.variables[variable].joined,
        }

    def _by_level(self, paid: Mapping[str, Array]) -> Array:
        nothing = 0 * paid["transposes"]
        return np.array([sum((paid.get(name, nothing) for name in level), nothing) for level in self.levels])

    def _beside(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> tuple[Array, Array]:
        """The Reshapes of a move from each source to each target, beside a Transpose or without one; and what it loses
        as it is hindered.
        """
        found = _changed(sources, targets)
        hindered = 0 * found
        rows, columns = ({layout: place for place, layout in enumerate(layouts)} for layouts in (sources, targets))
        for members in by_order(targets).values():
            atoms = order(members[0])
            others = [place for source, place in rows.items() if order(source) != atoms]
            counts = near(sources, members, *self.problem.hindrance(variable))
            for count, lost, some, near_by in sorted(counts, key=lambda each: -each[0]):
                at = others if some is None else [rows[source] for source in some]
                places = np.ix_(at, [columns[target] for target in near_by])
                found[places], hindered[places] = count, lost
        return found, hindered


def _changed(sources: Sequence[Layout], targets: Sequence[Layout]) -> Array:
    """1 for each source and target that are not the same layout."""
    numbers = {layout: number for number, layout in enumerate(sources)}
    asked = np.array([numbers.get(target, -1) for target in targets])
    changed: Array = (np.arange(len(sources))[:, None] != asked).astype(np.int64)
    return changed


def _alone(atoms: Order) -> Layout:
    """The layout of an order in which each atom is a dimension."""
    return tuple((atom,) for atom in atoms)


def _key(numbers: Numbers) -> Hashable:
    return numbers.shape, numbers.tobytes()


def in_one(costs: Sequence[Costs]) -> tuple[Array, Array] | None:
    """In parts of what each level is counted, and how often, so that all are one number in which each counts more than
    all that come after it; None where that is too large.
    """
    most = np.sum([each.most.astype(object) for each in costs], 0).tolist()
    scales = np.gcd.reduce([each.scale for each in costs]).clip(1).tolist()
    counted, total = list[int](), 1
    for scale, each in zip(reversed(scales), reversed(most), strict=True):
        counted.insert(0, total)
        total *= 1 + each // scale
    return None if total > TOTAL else (np.array(scales, np.int64), np.array(counted, np.int64))
