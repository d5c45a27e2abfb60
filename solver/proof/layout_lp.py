"""LP relaxation of a layout problem, whose dual values are those of :mod:`layoutsolve.solver.proof.dual_bound`.

There is a share for each row of an operator, and all of an operator's are 1 together. Where a variable is read in an
order that it is not written in, a Transpose is made: each order has a share for every group of layouts from which such
Transposes cost the same, no more than the shares of the rows that write one of them. What is written in the order and
what is transposed to it come, together, to what any reader reads in it. This is how facilities are located, and hardly
ever leaves a gap. Where Reshapes count, each grouping of an order has shares as well: of the layouts that a Transpose
ends in, and of those that are regrouped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TypeVar

from layoutsolve.solver.proof.dual_bound import DualValues, Open, Place
from layoutsolve.solver.search.glop import Linear, Optimum
from layoutsolve.solver.statement.objective import Levels, grouping, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import Price

What = TypeVar("What")

Costs = tuple[int, ...]
"""What a share of 1 costs, by level."""

Reads = Mapping[Layout, Sequence[int]]
"""The shares of the rows in which an operator has each layout at a port."""

PARAMETERS = "max_deterministic_time: 10"
"""What solving may take is counted by GLOP."""

NONE = 1e-9
"""A share or a dual value that is no more counts as none."""


@dataclass(frozen=True)
class _Wanted:
    """An order in which a variable is read, in some ``layouts``: the shares of what writes the variable and of its
    readers, by layout.
    """

    variable: int
    atoms: Order
    layouts: Sequence[Layout]
    written: Reads
    readers: Sequence[tuple[Place, Reads]]


@dataclass(frozen=True)
class Relaxed:
    """The optimum of a relaxation: its ``value``, how much each ``earlier`` level counts in it, the dual values of
    readers for ``layouts`` and for ``orders``, and the share of each operator's row that is ``chosen``.
    """

    value: float
    earlier: tuple[float, ...]
    layouts: dict[tuple[Place, Layout], float]
    orders: dict[tuple[Place, Order], float]
    chosen: dict[tuple[int, int], float]

    def dual_values(self, unit: int) -> DualValues:
        """The dual values in parts of a unit, those that come to none left out."""
        return DualValues(_whole(self.layouts, unit), _whole(self.orders, unit))


class Relaxation:
    """The relaxation of a problem for some levels, which are minimised one at a time (:meth:`solve`)."""

    def __init__(self, problem: LayoutProblem, levels: Levels) -> None:
        self.problem, self.levels, self.model = problem, levels, Linear()
        self.ranked = cache(lambda price: ranked(price, levels))
        self.costs: list[dict[int, float]] = [{} for _ in levels]
        self.layouts: dict[int, tuple[Place, Layout]] = {}
        self.orders: dict[int, tuple[Place, Order]] = {}
        self.shares: list[dict[int, int]] = []
        self.free = (0,) * len(levels)
        self.reshapes = grouping(levels)
        for number in range(len(problem.operators)):
            self._operator(number)
        for variable in problem.moving():
            if problem.writers[variable] is not None and problem.readers[variable]:
                self._variable(variable)
        self.caps = [self.model.row(costs.items()) for costs in self.costs]

    @property
    def size(self) -> int:
        """The number of shares."""
        return self.model.variables

    def solve(self, level: int, values: Sequence[int], opened: Open) -> Relaxed | None:
        """Minimise a level, where the ones before it are no higher than some ``values``, over rows that are ``opened``.

        None where that is impossible, or takes too long.
        """
        for number, rows in opened.items():
            self._limit(number, rows)
        for place, cap in enumerate(self.caps):
            self.model.limit(cap, values[place] if place < level else inf)
        found = self.model.minimised(self.costs[level], PARAMETERS, alone=False)
        for number in opened:
            self._limit(number, self.shares[number])
        return None if found is None else self._relaxed(level, found)

    def _limit(self, number: int, rows: Iterable[int]) -> None:
        wanted = set(rows)
        for row, share in self.shares[number].items():
            self.model.bound(share, inf if row in wanted else 0.0)

    def _relaxed(self, level: int, found: Optimum) -> Relaxed:
        return Relaxed(
            found.value,
            tuple(-found.duals[cap] for cap in self.caps[:level]),
            {key: found.duals[at] for at, key in self.layouts.items() if found.duals[at] > NONE},
            {key: found.duals[at] for at, key in self.orders.items() if found.duals[at] > NONE},
            {
                (number, row): found.values[share]
                for number, shares in enumerate(self.shares)
                for row, share in shares.items()
            },
        )

    def _operator(self, number: int) -> None:
        """The shares of an operator's rows, but for rows that differ from others in constants alone."""
        operator = self.problem.operators[number]
        moving = [port for port, variable in enumerate(operator.ports) if not self.problem.variables[variable].constant]
        known: set[object] = set()
        shares: dict[int, int] = {}
        for at, row in enumerate(operator.rows):
            cost = ranked(row.price, self.levels)
            alike = (tuple([row.layouts[port] for port in moving]), cost)
            if alike not in known:
                known.add(alike)
                shares[at] = self._share(cost)
        self.shares.append(shares)
        self.model.row(((share, 1.0) for share in shares.values()), 1.0, 1.0)

    def _share(self, cost: Costs) -> int:
        share = self.model.variable()
        for costs, each in zip(self.costs, cost, strict=True):
            if each:
                costs[share] = each
        return share

    def _sum(self, more: Iterable[int], less: Iterable[int], least: float, most: float = inf) -> int:
        """Keep some shares, which may be named several times, without others between two bounds."""
        total = Counter(more)
        total.subtract(Counter(less))
        return self.model.row(total.items(), least, most)

    def _at_most(self, shares: Iterable[int], most: Iterable[int]) -> None:
        """Some shares are no more, together, than others."""
        self._sum(shares, most, -inf, 0.0)

    def _covered(self, wanted: Iterable[int], given: Iterable[int]) -> int:
        """What is wanted is given."""
        return self._sum(given, wanted, 0.0)

    def _at(self, number: int, port: int) -> Reads:
        found: dict[Layout, list[int]] = {}
        for row, share in self.shares[number].items():
            found.setdefault(self.problem.operators[number].rows[row].layouts[port], []).append(share)
        return found

    def _variable(self, variable: int) -> None:
        """The moves of one variable, order by order."""
        problem, writer = self.problem, self.problem.writers[variable]
        written = {} if writer is None else self._at(*writer)
        readers = [(place, self._at(*place)) for place in problem.readers[variable]]
        wanted: dict[Order, set[Layout]] = {}
        for _, reads in readers:
            for layout in reads:
                wanted.setdefault(order(layout), set()).add(layout)
        regrouping = ranked(
            problem.target.reshape_price(1, problem.variables[variable].turns, problem.timed), self.levels
        )
        given: dict[Order, set[Layout]] = {}
        for layout in written:
            given.setdefault(order(layout), set()).add(layout)
        plain = list[_Wanted]()
        for atoms, layouts in sorted(wanted.items()):
            each = _Wanted(variable, atoms, sorted(layouts), written, readers)
            if regrouping == self.free or (len(layouts) == 1 and given.get(atoms, set()) <= layouts):
                plain.append(each)
            else:
                self._groupings(each, regrouping)
        moves = problem.move_prices(variable, list(written), [each.layouts[0] for each in plain], self.reshapes)
        for each, prices in zip(plain, zip(*moves, strict=True), strict=True):
            self._order(each, prices)

    def _order(self, wanted: _Wanted, prices: Sequence[Price]) -> None:
        """One order in which no Reshape is paid: Transposes to it, from groups of sources, which have these ``prices``.

        Those that cost the most need no limit of their own.
        """
        layouts, given, groups = wanted.layouts, list[int](), dict[Costs, list[int]]()
        for (source, shares), price in zip(wanted.written.items(), prices, strict=True):
            if order(source) == wanted.atoms:
                given += shares
            else:
                groups.setdefault(self.ranked(price), []).extend(shares)
        moved = {cost: self._share(cost) for cost in sorted(groups)}
        for cost, share in moved.items():
            if not all(_no_less(cost, other) for other in groups):
                self._at_most([share], groups[cost])
        for place, reads in wanted.readers:
            shares = [share for layout in layouts for share in reads.get(layout, ())]
            if shares:
                covered = self._covered(shares, [*given, *moved.values()])
                if len(layouts) == 1:
                    self.layouts[covered] = (place, layouts[0])
                else:
                    self.orders[covered] = (place, wanted.atoms)

    def _groupings(self, wanted: _Wanted, regrouping: Costs) -> None:
        """One order in which Reshapes are paid: a Transpose ends in one layout, others are regrouped from there."""
        layouts = wanted.layouts
        delivered: dict[Layout, list[int]] = {layout: [] for layout in layouts}
        used: list[int] = []
        for source, shares in wanted.written.items():
            if order(source) == wanted.atoms:
                used.append(self._used(shares))
                for layout in layouts:
                    regrouped = self._share(self.free if layout == source else regrouping)
                    self._at_most([regrouped], used[-1:])
                    delivered[layout].append(regrouped)
        for costs, shares in self._by_costs(wanted, layouts).items():
            used.append(self._used(shares))
            ends = [self._share(cost) for cost in costs]
            self._sum(ends, used[-1:], 0.0, 0.0)
            for layout, end in zip(layouts, ends, strict=True):
                regrouped = self._share(regrouping)
                self._at_most([end, regrouped], used[-1:])
                delivered[layout] += [end, regrouped]
        for place, reads in wanted.readers:
            for layout in layouts:
                if layout in reads:
                    self.layouts[self._covered(reads[layout], delivered[layout])] = (place, layout)
            every = [share for layout in layouts for share in reads.get(layout, ())]
            if every:
                self.orders[self._covered(every, used)] = (place, wanted.atoms)

    def _used(self, sources: Iterable[int]) -> int:
        """The share of a group of sources that serves an order: no more than is written in it."""
        use = self._share(self.free)
        self._at_most([use], sources)
        return use

    def _by_costs(self, wanted: _Wanted, layouts: Sequence[Layout]) -> Mapping[tuple[Costs, ...], list[int]]:
        """The shares of the sources of another order, by what Transposes to each of some layouts cost."""
        found: dict[tuple[Costs, ...], list[int]] = {}
        sources = [source for source in wanted.written if order(source) != wanted.atoms]
        moves = self.problem.move_prices(wanted.variable, sources, layouts, self.reshapes)
        for source, prices in zip(sources, moves, strict=True):
            key = tuple(ranked(price, self.levels) for price in prices)
            found.setdefault(key, []).extend(wanted.written[source])
        return found


def _whole(duals: Mapping[tuple[Place, What], float], unit: int) -> dict[Place, dict[What, int]]:
    found: dict[Place, dict[What, int]] = {}
    for (place, what), dual in duals.items():
        if amount := round(dual * unit):
            found.setdefault(place, {})[what] = amount
    return found


def _no_less(cost: Costs, other: Costs) -> bool:
    return all(each >= least for each, least in zip(cost, other, strict=True))
