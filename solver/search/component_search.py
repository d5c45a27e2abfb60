"""Solving one component: which engine is asked in which sequence, and the bounds that it proves.

Where few operators hang together they are eliminated (:mod:`layoutsolve.solver.search.bucket_elimination`), for which
nothing has to be loaded. Else, level by level, the LP relaxation gives a bound, rows are read off it, and its dual
values strike out what no solution at that bound has (reduced-cost fixing). Where no rows meet the bound, CP-SAT
minimises the level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.bucket_elimination import eliminated
from layoutsolve.solver.search.formulation import Formulation
from layoutsolve.solver.search.integer_program import DualBound, Level, Program, dual_bound, limited
from layoutsolve.solver.search.large_neighbourhood import improved_together
from layoutsolve.solver.search.presolve import Component, price_of_component
from layoutsolve.solver.statement.objective import Levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem

if TYPE_CHECKING:
    from layoutsolve.solver.search.glop import Optimum

NEARBY, STEP, EARLY = 0.5, 0.35, 0.1
"""The most of what is left of a limit that improving, a look at what a relaxation leaves, and an early one take."""

LARGE = 3_000
"""Where alternatives are more CP-SAT hardly finds better ones: what hangs together is improved before. Where some are
left out, so that nothing is proven, that is all that is done.
"""

SEARCHED = 0.6
"""The same of searching one level with CP-SAT: what it does not come to an end with then, it hardly ever does."""


@dataclass(frozen=True)
class Outcome:
    """The rows found for a component's operators, and for each level of the objective a proven lower bound.

    It holds where the levels before it are as low as their bounds, and is 0 where nothing is known. ``method`` is what
    they come from, as for :class:`Part`.
    """

    rows: Mapping[int, int]
    bounds: tuple[int, ...]
    method: str = "cp-sat"


def solve_component(
    problem: LayoutProblem,
    domains: Sequence[Sequence[int]],
    component: Component,
    start: list[int],
    levels: Levels,
    limit: Limit,
) -> Outcome:
    """Minimise the levels one after the other. Once the limit is over the best rows found are returned, at worst
    ``start``, as they are of a component that makes too large a program. They are put in its place.
    """
    search = _Search(problem, domains, component, start, levels, limit)
    if not limit.expired and search.eliminates():
        return search.outcome(search.price, "elimination")
    large = problem.capped and sum(map(len, search.open.values())) > LARGE
    if large or limit.expired or not search.stated.complete:
        limit.searched(0.0, finished=False)
        search.improve_nearby(1.0)
        return search.outcome((), "none")
    return search.minimised()


@plain_dataclass(eq=False)
class _Search:
    """A search for the rows of a component: the best that are known, and the ``names`` of what they cost by levels."""

    problem: LayoutProblem
    domains: Sequence[Sequence[int]]
    component: Component
    rows: list[int]
    names: Levels
    limit: Limit
    first: dict[int, int] | None = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.best

    @property
    def best(self) -> dict[int, int]:
        """The best rows, by operator."""
        return {number: self.rows[number] for number in self.component.operators}

    @property
    def price(self) -> tuple[int, ...]:
        """What the best rows cost."""
        return ranked(price_of_component(self.problem, self.rows, self.component), self.names)

    @property
    def open(self) -> dict[int, Sequence[int]]:
        """The rows of the operators to choose from."""
        return {number: self.domains[number] for number in self.component.operators}

    @cached_property
    def stated(self) -> Formulation:
        """The component as a program, which may be too large."""
        return Formulation(self.problem, self.domains, self.component, self.names, self.limit)

    def outcome(self, bounds: Sequence[int], method: str = "cp-sat") -> Outcome:
        """The best rows, and bounds that are proven for the first levels."""
        return Outcome(self.best, (*bounds, *(0 for _ in self.names[len(bounds) :])), method)

    def _take(self, found: Mapping[int, int]) -> None:
        """Rows in place of the best so far, if that is better."""
        price, before = self.price, {number: self.rows[number] for number in found}
        self._put(found)
        if self.price >= price:
            self._put(before)

    def _put(self, rows: Mapping[int, int]) -> None:
        for number, row in rows.items():
            self.rows[number] = row

    def eliminates(self) -> bool:
        """Whether operators are eliminated, if tables do not become too large: no rows are cheaper than those then."""
        at = (number for variable in self.component.variables for number, _ in self.problem.places(variable))
        around = {number: self.domains[number] for number in at}
        found = eliminated(self.problem, {**around, **self.open}, self.component, self.names, self.limit)
        self._put(found or {})
        return found is not None

    def minimised(self) -> Outcome:
        """The best rows, level by level: those before are at their bounds in all that is left of the program."""
        program, bounds = self.stated.program(), list[int]()
        for place, names in enumerate(self.names):
            level = program.level(names)
            proven = self._relaxed(program, level) if level.terms or not place else None
            least = -sum(max(0, -weight) for _, weight in level.terms) if proven is None else proven.least
            if level.total(self.price[place]) > least and level.terms:
                least = self._searched(place, program, level, proven, least)
            bounds.append(max(0, level.value(least)))
            if level.total(self.price[place]) > least:
                break
            program = limited(program, level, least) if proven is None else proven.restricted(least)
        return self.outcome(bounds)

    def _relaxed(self, program: Program, level: Level) -> DualBound | None:
        """What the relaxation of a level proves, if there is time for it; the best rows may be read off it."""
        from layoutsolve.solver.search.lp_relaxation import relaxed  # with what solves linear programs

        found = relaxed(program, level, self.limit)
        if found is None:
            return None
        self._round(program, found)
        return dual_bound(program, level, found.duals)

    def _round(self, program: Program, found: Optimum) -> None:
        """Rows by a relaxation: of each operator the one of which there is most."""
        most: dict[int, tuple[float, int]] = {}
        for (number, row), literal in program.choices.items():
            most[number] = max(most.get(number, (-1.0, 0)), (found.values[literal], -row))
        self._take({**program.fixed, **{number: -row for number, (_, row) in most.items()}})

    def improve_nearby(self, share: float = NEARBY) -> None:
        """Improve what lies together, once: of the first rows, and of the best if they are others. What a relaxation
        far below is rounded to leads astray as often as it helps.
        """
        first, self.first = self.first, None
        for start in () if first is None else (first,) if first == self.best else (first, self.best):
            most = self.limit.attempt(int(share * self.limit.work))
            rows = [start.get(number, row) for number, row in enumerate(self.rows)]
            improved_together(self.problem, rows, self.open, self.component, self.names, most)
            self._take({number: rows[number] for number in start})

    def _searched(self, place: int, program: Program, level: Level, proven: DualBound | None, least: int) -> int:
        """The least that CP-SAT proves of a level, whose best rows it may better: first among what is left at the bound
        of the relaxation, which is little, then among all that is no dearer than the best rows. These are improved
        before: where operators are many CP-SAT hardly finds better ones.
        """
        from layoutsolve.solver.search.cpsat import searched

        for near, share in ((True, STEP), (False, EARLY), (False, SEARCHED)):
            if near and proven is None:
                continue
            if not near and (share > EARLY or len(program.choices) > LARGE) and level.total(self.price[place]) > least:
                self.improve_nearby()
            if self.limit.expired or level.total(self.price[place]) <= least:
                break
            known = level.total(self.price[place])
            among = program if proven is None else proven.restricted(least if near else known, told=near)
            sought = among.level(self.names[place])
            tried = searched(among, sought, sought.total(level.value(least)), self.limit.part(share))
            if tried.rows is not None:
                self._take(tried.rows)
            if not tried.empty:
                least = max(least, level.total(sought.value(tried.bound)))
            elif near:
                least += 1
        return least
