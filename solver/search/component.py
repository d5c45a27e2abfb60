"""Solving one component that is too large to be enumerated.

Where few operators hang together they are eliminated (:mod:`layoutsolve.solver.search.elimination`), for which nothing
has to be loaded. Else, tier by tier, the linear relaxation gives a bound, and multipliers that strike out what no
solution at that bound has. In what is left after the last tier a solution is mostly read off: where it meets all bounds
it is optimal, and nothing is searched. Else operators are eliminated by larger tables. Else CP-SAT looks for a solution
among what is left; if there is none, it minimises tier by tier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.elimination import eliminated
from layoutsolve.solver.search.formulation import Formulation
from layoutsolve.solver.search.improved import improved
from layoutsolve.solver.search.nearby import improved_together
from layoutsolve.solver.search.presolve import Component, price_of_component
from layoutsolve.solver.search.program import Multipliers, Program, Tier, limited, multiplied
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem

if TYPE_CHECKING:
    from layoutsolve.solver.search.relaxed import Relaxed

STEP = 0.2
"""The most of what is left of a limit that trying a few totals may use."""

NEARBY = 0.25
"""The same of improving what hangs together, where nothing is proven by it."""

WIDTHS = (1, 4)
"""How many totals are tried at a time, before all."""

FAR, ANYWAY = 2, 16
"""Where the least that is known is more than so many times a bound, and more than so much above it, solutions near the
bound are not looked for.
"""

SURE = 1 - 1e-6
"""There is as much of a variable that is 1."""


@dataclass(frozen=True)
class Outcome:
    """The rows found for a component's operators, and for each tier of the objective a proven lower bound.

    It holds where the tiers before it are as low as their bounds, and is 0 where nothing is known.
    """

    rows: Mapping[int, int]
    bounds: tuple[int, ...]


def solve_component(
    problem: LayoutProblem,
    domains: Sequence[Sequence[int]],
    component: Component,
    start: Sequence[int],
    tiers: Tiers,
    limit: Limit,
) -> Outcome:
    """Minimise the tiers one after the other. Once the limit is over the best rows found are returned, at worst
    ``start``, as they are of a component that makes too large a program.
    """
    if limit.expired:
        return Outcome({number: start[number] for number in component.operators}, (0,) * len(tiers))
    search = _Search(problem, domains, component, start, tiers, limit)
    found = search.eliminated(limit)
    if found is not None:
        return found
    if limit.expired or not search.stated.complete:
        limit.searched(0.0, finished=False)
        return search.outcome(())
    return search.read(limit) or search.searched(limit)


def bound_component(
    problem: LayoutProblem,
    domains: Sequence[Sequence[int]],
    component: Component,
    start: Sequence[int],
    tiers: Tiers,
    limit: Limit,
) -> Outcome:
    """What relaxations prove of the tiers, without looking for rows other than ``start``."""
    stated = Formulation(problem, domains, component, tiers, limit)
    proven = _relaxations(stated.program(), tiers, limit) if stated.complete else ()
    bounds = [each.tier.value(each.least) for _, each in proven]
    rows = {number: start[number] for number in component.operators}
    return Outcome(rows, (*bounds, *(0 for _ in tiers[len(bounds) :])))


def _relaxations(program: Program, tiers: Tiers, limit: Limit) -> Iterator[tuple[Relaxed | None, Multipliers]]:
    """The relaxation of each tier among what is left of a program at the bounds of those before it, and what it proves,
    as far as the limit allows. A later tier of which nothing is left to choose needs none.
    """
    from layoutsolve.solver.search.relaxed import relaxed  # with what solves linear programs

    for place, names in enumerate(tiers):
        tier = program.tier(names)
        if place and not tier.terms:
            yield None, multiplied(program, tier, [0.0] * len(program.rows))
            continue
        found = relaxed(program, tier, limit)
        if found is None:
            return
        proven = multiplied(program, tier, found.duals)
        yield found, proven
        program = proven.restricted(proven.least)


class _Search:
    """A search for the rows of a component: the best that are known, and what they cost by tiers."""

    def __init__(
        self,
        problem: LayoutProblem,
        domains: Sequence[Sequence[int]],
        component: Component,
        start: Sequence[int],
        tiers: Tiers,
        limit: Limit,
    ) -> None:
        self.problem, self.component, self.names, self.limit, self._every = problem, component, tiers, limit, domains
        self.domains = {number: domains[number] for number in component.operators}
        at = (number for variable in component.variables for number, _ in problem.places(variable))
        self.around = {number: domains[number] for number in at}
        self.rows = list(start)
        self.price = self._priced(self.rows)
        self.proven: list[Multipliers] = []

    @cached_property
    def stated(self) -> Formulation:
        """The component as a program, which may be too large."""
        return Formulation(self.problem, self._every, self.component, self.names, self.limit)

    @cached_property
    def program(self) -> Program:
        """The program."""
        return self.stated.program()

    def _priced(self, rows: Sequence[int]) -> tuple[int, ...]:
        return ranked(price_of_component(self.problem, rows, self.component), self.names)

    def outcome(self, bounds: Sequence[int]) -> Outcome:
        """The best rows, and bounds that are proven for the first tiers."""
        self._settle()
        rows = {number: self.rows[number] for number in self.component.operators}
        return Outcome(rows, (*bounds, *(0 for _ in self.names[len(bounds) :])))

    def _settle(self) -> None:
        """Of rows that cost the same the first: what demands lead to soonest is shared most."""
        earlier = {}
        for number, domain in self.domains.items():
            own = self.problem.operators[number].rows
            present = self.rows[number]
            alike = [row for row in domain if row < present and own[row].price == own[present].price]
            if alike:
                earlier[number] = alike
        improved(self.problem, self.rows, earlier, self.names, self.limit)

    def _improve(self, found: Mapping[int, int], domains: Mapping[int, Sequence[int]], limit: Limit) -> None:
        """Rows that may be better than the best so far, at the latest with others of some domains in their place."""
        rows = list(self.rows)
        for number, row in found.items():
            rows[number] = row
        improved(self.problem, rows, domains, self.names, limit)
        self._keep(rows)

    def _keep(self, rows: list[int]) -> None:
        price = self._priced(rows)
        if price < self.price:
            self.rows, self.price = rows, price

    def _left(self, program: Program) -> Mapping[int, Sequence[int]]:
        """The rows that a program has left."""
        left: dict[int, list[int]] = {number: [] for number in self.component.operators}
        for number, row in (*program.fixed.items(), *program.choices):
            left[number].append(row)
        return left

    def _eliminated(self, left: Mapping[int, Sequence[int]], limit: Limit) -> bool:
        """Whether no rows of those that are left are cheaper than the best ones are now."""
        if not all(left.values()):
            return True
        found = eliminated(self.problem, {**self.around, **left}, self.component, self.names, limit)
        if found is None:
            return False
        rows = list(self.rows)
        for number, row in found.items():
            rows[number] = row
        self._keep(rows)
        return True

    def read(self, limit: Limit) -> Outcome | None:
        """Rows that meet the bounds of all tiers, read off a relaxation or found by CP-SAT; None where neither is."""
        bounds: tuple[int, ...] = ()
        for found, proven in _relaxations(self.program, self.names, limit):
            self.proven.append(proven)
            bounds = (*bounds, proven.tier.value(proven.least))
            if found is not None and self.price[: len(bounds)] != bounds:
                self._round(proven.program, found, limit)
            if self._far:
                return None
        if len(bounds) < len(self.names):
            return None
        last = self.proven[-1]
        if self.price != bounds and not limit.expired:
            from layoutsolve.solver.search.cpsat import searched

            tried = searched(last.restricted(last.least), None, 0, limit.part(STEP))
            if tried.rows is not None:
                self._improve(tried.rows, {}, limit)
        return self.outcome(bounds) if self.price == bounds else None

    @property
    def _far(self) -> bool:
        """Whether what is known of the first tier is far above the bound of its relaxation."""
        bound = self.proven[0].tier.value(self.proven[0].least) if self.proven else self.price[0]
        return self.price[0] > FAR * bound + ANYWAY

    def eliminated(self, limit: Limit) -> Outcome | None:
        """The cheapest rows, where operators can be eliminated; None where they cannot."""
        return self.outcome(self.price) if self._eliminated(self.domains, limit) else None

    def _narrowed(self, place: int, proven: Multipliers, limit: Limit) -> bool:
        """Whether the best rows are the cheapest now, those before a tier being at their bounds: operators are
        eliminated among what is left at its bound, where that is little, and at ever larger totals.
        """
        total, width = proven.least, 1
        while self._eliminated(self._left(proven.restricted(total)), limit):
            if proven.tier.total(self.price[place]) <= total:
                return True
            total, width = total + width, 2 * width
        return False

    def _round(self, program: Program, found: Relaxed, limit: Limit) -> None:
        """Rows by a relaxation: of each operator the one of which there is most, then what improves on that."""
        rows, unsure = dict(program.fixed), list[int]()
        choices: dict[int, list[tuple[float, int]]] = {}
        for (number, row), literal in program.choices.items():
            choices.setdefault(number, []).append((found.values[literal], row))
        for number, each in choices.items():
            most, rows[number] = max(each, key=lambda pair: (pair[0], -pair[1]))
            if most < SURE:
                unsure.append(number)
        self._improve(rows, {number: [row for _, row in choices[number]] for number in unsure}, limit)

    def searched(self, limit: Limit) -> Outcome:
        """The best rows that elimination or CP-SAT finds tier by tier, within a part of the limit where these are far
        from what is proven.
        """
        self._improve({}, self.domains, limit)
        most = limit.attempt(int(NEARBY * limit.work))
        improved_together(self.problem, self.rows, self.domains, self.component, self.names, most)
        self.price = self._priced(self.rows)
        limit = limit.part(STEP) if self._far else limit
        program, known, bounds = self.program, list(self.proven), list[int]()
        for place, names in enumerate(self.names):
            tier = program.tier(names)
            proven = known[place] if place < len(known) else self._relaxed(place, program, tier, limit)
            if proven is not None and self._narrowed(place, proven, limit):
                return self.outcome(self.price)
            least, optimal = self._least(place, program, tier, proven, limit)
            bounds.append(max(0, tier.value(least)))
            if not optimal:
                break
            if proven is not None and least != proven.least:
                del known[place + 1 :]
            if place + 1 < len(known):
                program = known[place + 1].program
            else:
                program = limited(program, tier, least) if proven is None else proven.restricted(least)
        return self.outcome(bounds)

    def _relaxed(self, place: int, program: Program, tier: Tier, limit: Limit) -> Multipliers | None:
        """What the relaxation of a tier proves; of the first one it is known that there is none within the limit."""
        from layoutsolve.solver.search.relaxed import relaxed  # with what solves linear programs

        found = relaxed(program, tier, limit) if place else None
        return None if found is None else multiplied(program, tier, found.duals)

    def _least(
        self, place: int, program: Program, tier: Tier, proven: Multipliers | None, limit: Limit
    ) -> tuple[int, bool]:
        """The least that is proven of a tier, and whether the best rows have it.

        The nearer to the bound of the relaxation, the fewer solutions are left, and what can be had is seldom far from
        it: so totals at and just above the bound are tried before all others.
        """
        from layoutsolve.solver.search.cpsat import searched

        least = -sum(max(0, -weight) for _, weight in tier.terms)
        if proven is not None:
            least = max(least, proven.least)
        for width in (*(WIDTHS if proven is not None else ()), None):
            known = tier.total(self.price[place])
            if least >= known or limit.expired:
                break
            whole = width is None or least + width > known
            most = known if whole or width is None else least + width - 1
            among = program if proven is None else proven.restricted(most, told=not whole)
            sought = among.tier(self.names[place])
            part = limit if whole else limit.part(STEP)
            tried = searched(among, sought, sought.total(tier.value(least)), part)
            if tried.rows is not None:
                self._improve(tried.rows, {}, limit)
            if tried.empty and not whole:
                least = most + 1
                continue
            if not tried.empty:
                least = max(least, tier.total(sought.value(tried.bound)))
            if tried.optimal or whole:
                return least, tried.optimal
        return least, least >= tier.total(self.price[place])
