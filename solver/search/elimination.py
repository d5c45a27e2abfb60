"""Solving a component by eliminating its operators one after the other: exact where few of them hang together.

What a variable costs is a table over the rows of the operators at it. To eliminate an operator, all tables that have it
are added, and what is left is a table of the least that its rows come to, for all rows of the others. How large tables
become depends on how many operators lie between those that are eliminated and the rest. Where they are too large
nothing is done. All tiers are one number, in which each counts more than all that come after it.

Only for orders: what groupings cost is not told by one move after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import prod

import numpy as np
from numpy.typing import NDArray

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.presolve import Component
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout

Array = NDArray[np.int64]

LARGEST, MOST = 2**22, 2**26
"""The most entries of a table, and of all tables."""

ENTRIES, EACH = 50, 100
"""The entries that are added up in a unit of work, and the work of a table, however small."""

MOVE = 3
"""The work of finding out what a move costs."""

TOTAL = 2**62
"""How large a number may become that has all tiers."""


Scope = tuple[int, ...]
"""Operators in the sequence in which they are eliminated."""

Table = tuple[Scope, Array]
"""What is paid for each choice of rows of some operators."""


def eliminated(
    problem: LayoutProblem,
    domains: Mapping[int, Sequence[int]],
    component: Component,
    tiers: Tiers,
    limit: Limit,
    most: int = MOST,
) -> dict[int, int] | None:
    """The cheapest rows of a component's operators among those in ``domains``, which has all that touch its variables;
    None where finding out takes more than so many entries of tables.
    """
    moved = sum(problem.variables[each].bytes * len(problem.readers[each]) for each in component.variables)
    if any("reshapes" in tier for tier in tiers) or moved > TOTAL:
        return None
    sizes = {number: len(domains[number]) for number in component.operators if len(domains[number]) > 1}
    if not sizes:
        return {number: domains[number][0] for number in component.operators}
    scopes = {variable: _scope(problem, domains, variable).intersection(sizes) for variable in component.variables}
    plan = _planned(sizes, scopes.values())
    if plan is None:
        return None
    entries = sum(prod(sizes[each] for each in scope) for scope in plan.values())
    if entries > most:
        return None
    limit.spend(entries // ENTRIES + EACH * len(plan))
    if limit.over:
        return None
    stated = _Stated(problem, domains, tiers, limit)
    place = {number: at for at, number in enumerate(plan)}
    costs = [stated.of_rows(number) for number in plan]
    for variable, scope in scopes.items():
        if scope and problem.writers[variable] and problem.readers[variable] and not limit.over:
            costs.append(stated.of_variable(variable, tuple(sorted(scope, key=place.__getitem__))))
    counted = None if limit.over else _in_one(costs)
    if counted is None:
        return None
    choices = _solved(plan, (each.table(*counted) for each in costs))
    return {number: domains[number][choices.get(number, 0)] for number in component.operators}


def _scope(problem: LayoutProblem, domains: Mapping[int, Sequence[int]], variable: int) -> set[int]:
    """The operators of which a variable may have several layouts."""
    found = set()
    for number, port in problem.places(variable):
        rows = problem.operators[number].rows
        if len({rows[row].layouts[port] for row in domains[number]}) > 1:
            found.add(number)
    return found


def _planned(sizes: Mapping[int, int], scopes: Iterable[Collection[int]]) -> dict[int, Scope] | None:
    """The operators in a sequence in which tables stay small, each with all that its table has, itself first; None
    where one becomes too large.
    """
    around = {number: {number} for number in sizes}
    for scope in scopes:
        if len(scope) >= LARGEST.bit_length():  # each has two rows at least
            return None
        for number in scope:
            around[number].update(scope)
    waiting = [(prod(sizes[each] for each in near), number) for number, near in around.items()]
    heapify(waiting)
    plan: dict[int, set[int]] = {}
    while waiting:
        size, number = heappop(waiting)
        if number in plan or size != prod(sizes[each] for each in around[number]):
            continue
        if size > LARGEST:
            return None
        plan[number] = around[number]
        for other in sorted(plan[number] - {number}):
            around[other] = (around[other] | plan[number]) - {number}
            heappush(waiting, (prod(sizes[each] for each in around[other]), other))
    place = {number: at for at, number in enumerate(plan)}
    return {number: tuple(sorted(scope, key=place.__getitem__)) for number, scope in plan.items()}


@dataclass(frozen=True, eq=False)
class _Costs:
    """What is paid for the rows of the operators in a ``scope``, by tier, source and target: for each target that is
    ``wanted``, unless it was wanted before, from the source that is ``written``. Both are numbers along the axes of the
    operators.
    """

    scope: Scope
    paid: Array
    written: NDArray[np.intp]
    wanted: Sequence[NDArray[np.intp]]

    @property
    def most(self) -> Array:
        """No less than what may be paid, by tier."""
        targets = np.count_nonzero(self.paid, 2).max(1)
        most: Array = np.minimum(targets, len(self.wanted)) * self.paid.max((1, 2))
        return most

    def table(self, scales: Array, counted: Array) -> Table:
        """What is paid for all rows in one number: each tier in parts of a scale, so many times."""
        paid = np.tensordot(counted, (self.paid.T // scales).T, 1)
        total = np.zeros((), np.int64)
        for at, own in enumerate(self.wanted):
            fresh = np.ones((), bool)
            for other in self.wanted[:at]:
                fresh = fresh & (own != other)
            total = total + paid[self.written, own] * fresh
        return self.scope, total


class _Stated:
    """What rows and moves cost, by tier."""

    def __init__(
        self, problem: LayoutProblem, domains: Mapping[int, Sequence[int]], tiers: Tiers, limit: Limit
    ) -> None:
        self.problem, self.domains, self.tiers, self.limit = problem, domains, tiers, limit
        self.known: dict[object, Array] = {}

    def of_rows(self, number: int) -> _Costs:
        """What the rows of an operator cost."""
        rows = self.problem.operators[number].rows
        paid = np.array([ranked(rows[row].price, self.tiers) for row in self.domains[number]], np.int64)
        return _Costs((number,), paid.T[:, None], np.zeros((), np.intp), [np.arange(len(paid))])

    def of_variable(self, variable: int, scope: Scope) -> _Costs:
        """What moving a variable costs, from where it is written to what its readers want."""
        writer, readers = self.problem.writers[variable], self.problem.readers[variable]
        assert writer is not None
        sources, targets = dict[Layout, int](), dict[Layout, int]()
        written = self._numbered(writer, scope, sources)
        wanted = {_key(each): each for each in (self._numbered(place, scope, targets) for place in readers)}
        return _Costs(scope, self._costs(variable, list(sources), list(targets)), written, list(wanted.values()))

    def _numbered(self, place: tuple[int, int], scope: Scope, numbers: dict[Layout, int]) -> NDArray[np.intp]:
        """The number of the layout that each row of an operator has at a port, along the operator's axis of a table."""
        rows = self.problem.operators[place[0]].rows
        found = [numbers.setdefault(rows[row].layouts[place[1]], len(numbers)) for row in self.domains[place[0]]]
        if place[0] not in scope:
            found = found[:1]
        return np.array(found, np.intp).reshape([-1 if number == place[0] else 1 for number in scope])

    def _costs(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> Array:
        """What a move from each source to each target costs, by tier."""
        each, charged = self.problem.variables[variable], self.problem.charges(variable)
        key = (each.sizes, each.bytes, each.turns, charged, *sources, None, *targets)
        if key not in self.known:
            self.limit.spend(MOVE * len(sources) * len(targets))
            moves = np.array([[source != target for target in targets] for source in sources], np.int64)
            lost = np.frombuffer(b"".join(self.problem.losses(variable, sources, targets)), np.uint8)
            paid = {
                "transposes": moves,
                "bytes": moves * each.bytes,
                "hidden": moves * lost.reshape(moves.shape),
                "nanoseconds": moves * self.problem.times(variable, sources, targets),
            }
            self.known[key] = np.array([sum(paid.get(name, 0 * moves) for name in tier) for tier in self.tiers])
        return self.known[key]


def _key(numbers: NDArray[np.intp]) -> object:
    return numbers.shape, numbers.tobytes()


def _in_one(costs: Sequence[_Costs]) -> tuple[Array, Array] | None:
    """In parts of what each tier is counted, and how often, so that all are one number in which each counts more than
    all that come after it; None where that is too large.
    """
    most = np.sum([each.most.astype(object) for each in costs], 0).tolist()
    scales = np.gcd.reduce([np.gcd.reduce(each.paid, (1, 2)) for each in costs]).clip(1).tolist()
    counted, total = list[int](), 1
    for scale, each in zip(reversed(scales), reversed(most), strict=True):
        counted.insert(0, total)
        total *= 1 + each // scale
    return None if total > TOTAL else (np.array(scales, np.int64), np.array(counted, np.int64))


def _solved(plan: dict[int, Scope], tables: Iterable[Table]) -> dict[int, int]:
    """The place of the cheapest row of each operator among the open ones, the first of equals."""
    waiting: dict[int, list[Table]] = {number: [] for number in plan}
    for scope, paid in tables:
        if scope:
            waiting[scope[0]].append((scope, paid))
    best: dict[int, NDArray[np.intp]] = {}
    for number, scope in plan.items():
        paid = np.zeros((), np.int64)
        for among, own in waiting.pop(number):
            sizes = dict(zip(among, own.shape, strict=True))
            paid = paid + own.reshape([sizes.get(each, 1) for each in scope])
        best[number], rest = paid.argmin(0), paid.min(0)
        if len(scope) > 1:
            waiting[scope[1]].append((scope[1:], rest))
    choices: dict[int, int] = {}
    for number, scope in reversed(plan.items()):
        choices[number] = int(best[number][tuple(choices[each] for each in scope[1:])])
    return choices
