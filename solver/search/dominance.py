"""Striking out rows that another row of the same operator can replace at no loss, whatever the neighbours do.

Let a variable be read in several layouts: every one that it is not written in costs one move, shared by all who want
it. So a reader that changes from layout A to layout B pays at most one move for B, none if B is there *for certain*
(written, or wanted by a reader without a choice), and saves the one for A if nobody else can want A. A writer that
changes from A to B pays at most one move to those who still want A, none if B is wanted for certain, since that move
is saved.

A move also costs what its Transpose loses in the runtime's kernel: the most that may be of the moves that are paid, the
least of those that are saved. This counts Transposes where layouts stand for orders. Where all layouts of a variable
have one order it counts Reshapes; where orders differ, groupings can cost more than one move, and nothing is struck
out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.presolve import Domains
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Price, Row

Place = tuple[int, int]
"""An operator and one of its ports."""

AROUND = 8
"""Of what more operators touch none is found to be alike."""


_Losses = dict[Place, tuple[int, tuple[dict[Layout, int], ...]]]
"""Which moves at a place lose at least so much, for each level of losses and each layout that is open there: a bit for
each move; and all of these bits.
"""


def dominate(problem: LayoutProblem, domains: Domains, tiers: Tiers, orders: bool, limit: Limit) -> Domains:
    """The rows that are left, at the latest when the limit is over; ``orders`` says that layouts stand for orders.
    Time is not counted by moves: it keeps all.
    """
    if problem.timed:
        return domains
    return _Dominance(problem, domains, tiers, orders, limit).result()


class _Tally:
    """How many places of a variable may have each layout, how many of those that read it, and how many must have it."""

    def __init__(self) -> None:
        self.places = 0
        self.possible: Counter[Layout] = Counter()
        self.wanted: Counter[Layout] = Counter()
        self.certain: Counter[Layout] = Counter()

    def count(self, layouts: frozenset[Layout], reads: bool, change: int) -> None:
        """Add a place with these layouts, or take one away."""
        self.places += change
        counters = [self.possible, *([self.wanted] if reads else []), *([self.certain] if len(layouts) == 1 else [])]
        for counter in counters:
            for layout in layouts:
                counter[layout] += change
                if not counter[layout]:
                    del counter[layout]

    def seen(self) -> object:
        """What there is to see of it from one of the places: that there are none, one or more."""
        sure = {layout: (min(count, 2), min(self.places - count, 2)) for layout, count in self.certain.items()}
        return sure, {layout: min(count, 2) for layout, count in self.possible.items()}, set(self.wanted)


class _Dominance:
    def __init__(self, problem: LayoutProblem, domains: Domains, tiers: Tiers, orders: bool, limit: Limit) -> None:
        self.problem, self.tiers, self.orders, self.limit = problem, tiers, orders, limit
        self.domains = [list(domain) for domain in domains]
        self.levels = _levels(problem.target.levels)
        self.most = problem.target.levels[-1] if problem.target.levels else 0
        self.places: list[list[Place]] = [list(readers) for readers in problem.readers]
        for variable, writer in enumerate(problem.writers):
            if writer is not None:
                self.places[variable].append(writer)
        self.open: dict[Place, frozenset[Layout]] = {}
        self.tallies: dict[int, _Tally] = {}
        self.sets: dict[object, list[frozenset[Layout]]] = {}
        self.equal: dict[frozenset[Layout], frozenset[Layout]] = {}
        self.kept: dict[object, list[int]] = {}
        for number in range(len(problem.operators)):
            self._refresh(number)

    def result(self) -> Domains:
        queue = deque(number for number, domain in enumerate(self.domains) if len(domain) > 1)
        queued = set(queue)
        while queue and not self.limit.over:
            number = queue.popleft()
            queued.discard(number)
            if not self._strike(number):
                continue
            for variable in self._refresh(number):
                for neighbour, _ in self.places[variable]:
                    if neighbour not in queued and len(self.domains[neighbour]) > 1:
                        queue.append(neighbour)
                        queued.add(neighbour)
        return self.domains

    def _refresh(self, number: int) -> list[int]:
        """Note what is open at the ports of an operator; returns the variables for whose other places that matters."""
        operator = self.problem.operators[number]
        before: dict[int, object] = {}
        for port, (variable, found) in enumerate(zip(operator.ports, self._left(number), strict=True)):
            known = self.open.get((number, port))
            if found == known:
                continue
            if known is not None:
                before.setdefault(variable, self._seen(variable))
            self.open[number, port] = found
            if known is not None:
                self._tally(variable).count(known, port < operator.inputs, -1)
                self._tally(variable).count(found, port < operator.inputs, 1)
        return [variable for variable, seen in before.items() if seen != self._seen(variable)]

    def _left(self, number: int) -> list[frozenset[Layout]]:
        """The layouts that an operator has left at each port; alike operators have the very same rows."""
        operator, domain = self.problem.operators[number], self.domains[number]
        key = (id(operator.rows), len(operator.ports), *domain)
        if key not in self.sets:
            rows = [operator.rows[row] for row in domain]
            found = [frozenset([row.layouts[port] for row in rows]) for port in range(len(operator.ports))]
            self.sets[key] = [self.equal.setdefault(each, each) for each in found]
        return self.sets[key]

    def _seen(self, variable: int) -> object:
        """All that the operators at a variable look at of each other's choices."""
        writer = self.problem.writers[variable]
        return self._tally(variable).seen(), self.open.get(writer) if writer else None

    def _tally(self, variable: int) -> _Tally:
        """What the places of a variable have open; it is made where an operator has a choice there."""
        if variable not in self.tallies:
            self.tallies[variable] = tally = _Tally()
            for number, port in self.places[variable]:
                tally.count(self.open[number, port], port < self.problem.operators[number].inputs, 1)
        return self.tallies[variable]

    def _strike(self, number: int) -> bool:
        """Remove the rows that the most promising one dominates; of operators that are alike, all around, the same."""
        domain = self.domains[number]
        if len(domain) < 2:
            return False
        ports = self._ports(number)
        if ports is None:
            return False
        if all(len(self.places[self._at(place)]) <= AROUND for place in ports):
            key = (id(self.problem.operators[number].rows), *domain, *map(self._around, ports))
            if key not in self.kept:
                self.kept[key] = self._undominated(number, ports)
            kept = self.kept[key]
        else:
            kept = self._undominated(number, ports)
        if len(kept) == len(domain):
            return False
        self.domains[number] = list(kept)
        return True

    def _around(self, place: Place) -> object:
        """All that matters of a port beside the rows of its operator: what the places of its variable have open."""
        variable, writer = self._at(place), self.problem.writers[self._at(place)]
        readers = sorted(id(self.open[each]) for each in self.problem.readers[variable])
        writes = None if writer is None else id(self.open[writer])
        size, charged = self.problem.variables[variable].bytes, self.problem.charges(variable)
        return place[1], place == writer, writes, *readers, size, charged

    def _undominated(self, number: int, ports: Sequence[Place]) -> list[int]:
        """The rows of an operator but for those that the most promising one dominates."""
        domain, rows = self.domains[number], self.problem.operators[number].rows
        self.limit.spend(len(domain) * (len(ports) + 1))
        costs = self._costs(ports, [(row, rows[row].layouts) for row in domain])
        best = min(
            domain,
            key=lambda row: (
                ranked(rows[row].price, self.tiers),
                sum(most for most, _ in costs[row]),
                rows[row].price.regrouped,
                row,
            ),
        )
        losses: _Losses = {}
        return [row for row in domain if row == best or not self._dominates(rows, best, row, ports, costs, losses)]

    def _ports(self, number: int) -> list[Place] | None:
        """One port for every variable at which the rows differ; None where their moves are not counted by layouts."""
        found: dict[int, Place] = {}
        for port, variable in enumerate(self.problem.operators[number].ports):
            if self.problem.variables[variable].constant or len(self.open[number, port]) < 2:
                continue
            if not self.orders and len(set(map(order, self._tally(variable).possible))) > 1:
                return None
            if found.setdefault(variable, (number, port)) != (number, port):
                return None
        return list(found.values())

    def _at(self, place: Place) -> int:
        return self.problem.operators[place[0]].ports[place[1]]

    def _costs(
        self, ports: Sequence[Place], rows: Sequence[tuple[int, tuple[Layout, ...]]]
    ) -> dict[int, list[tuple[int, int]]]:
        """For each row and port the most that having its layout there may cost against another, and the least that
        not having it saves.
        """
        found: dict[int, list[tuple[int, int]]] = {row: [] for row, _ in rows}
        for place in ports:
            number, port = place
            tally, own = self._tally(self._at(place)), self.open[place]
            writes = port >= self.problem.operators[number].inputs
            for row, layouts in rows:
                layout = layouts[port]
                sure = tally.certain[layout] - (own == {layout})
                if writes:
                    alone = sure > 0 or sure == tally.places - 1
                    found[row].append((0 if alone else 1, 0))
                else:
                    possible = tally.possible[layout] > (layout in own)
                    found[row].append((0 if sure > 0 else 1, 0 if possible else 1))
        return found

    def _dominates(
        self,
        rows: Sequence[Row],
        best: int,
        other: int,
        ports: Sequence[Place],
        costs: dict[int, list[tuple[int, int]]],
        losses: _Losses,
    ) -> bool:
        mine, theirs = rows[best].price, rows[other].price
        moves = moved = lost = 0
        differing = [
            (place, most, least)
            for place, (most, _), (_, least) in zip(ports, costs[best], costs[other], strict=True)
            if rows[best].layouts[place[1]] != rows[other].layouts[place[1]]
        ]
        for place, most, least in differing:
            moves += most - least
            moved += (most - least) * self.problem.variables[self._at(place)].bytes
        change = Price(
            (moves if self.orders else 0) + mine.transposes - theirs.transposes,
            mine.hidden - theirs.hidden,
            (0 if self.orders else moves) + mine.reshapes - theirs.reshapes,
            (moved if self.orders else 0) + mine.bytes - theirs.bytes,
        )
        free = (0,) * len(self.tiers)
        if not self.orders or self.problem.even:
            return ranked(change, self.tiers) <= free
        saved = sum(least for _, _, least in differing)
        if ranked(change + Price(hidden=-saved * self.most), self.tiers) > free:
            return False
        for place, most, least in differing:
            if place not in losses:
                losses[place] = self._losses(place)
            every, levels = losses[place]
            self.limit.spend(2 * every.bit_count())
            for (step, _), ways in zip(self.levels, levels, strict=True):
                ours, others = (ways[rows[row].layouts[place[1]]] for row in (best, other))
                if place[1] >= self.problem.operators[place[0]].inputs:
                    lost += step * (ours & ~others).bit_count()
                else:
                    lost += step * (most * (ours > 0) - least * (others == every > 0))
        return ranked(change + Price(hidden=lost), self.tiers) <= free

    def _losses(self, place: Place) -> tuple[int, tuple[dict[Layout, int], ...]]:
        """See :data:`_Losses`: the moves are those to layouts that are read, or from layouts that are written."""
        own, variable = list(self.open[place]), self._at(place)
        writer = self.problem.writers[variable]
        if place[1] >= self.problem.operators[place[0]].inputs:
            ways = self.problem.losses(variable, own, list(self._tally(variable).wanted))
        elif writer is None:
            ways = [b""] * len(own)
        else:
            moves = self.problem.losses(variable, list(self.open[writer]), own)
            ways = [bytes(column) for column in zip(*moves, strict=True)]
        every = int.from_bytes(b"\1" * len(ways[0]), "little")
        return every, tuple(
            {layout: int.from_bytes(way.translate(above), "little") for layout, way in zip(own, ways, strict=True)}
            for _, above in self.levels
        )


def _levels(losses: Sequence[int]) -> list[tuple[int, bytes]]:
    """For each level of losses how far it is above the one below, and which losses reach it, as a table of bytes.

    A loss is the sum of the steps up to its level, so that what may be lost is counted level by level.
    """
    return [(level - below, bytes(loss >= level for loss in range(256))) for below, level in pairwise([0, *losses])]
