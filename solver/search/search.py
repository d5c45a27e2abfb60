"""Searching a problem, component by component: small ones by enumeration, others with CP-SAT."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search.contract import Contraction, contract
from layoutsolve.solver.search.dominance import dominate
from layoutsolve.solver.search.presolve import Component, Domains, components, open_rows, price_of_component
from layoutsolve.solver.statement.assignment import Part
from layoutsolve.solver.statement.copies import copied_bytes
from layoutsolve.solver.statement.objective import TIE, Tiers, ranked
from layoutsolve.solver.statement.price import price, price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.row import Price, Row

ENUMERATED = 4096
"""A component with at most so many combinations of rows is enumerated: quicker than to load a solver."""

LOADING = 0.1
"""The seconds that have to be left to load CP-SAT, where nothing has done so yet: about what that takes."""

PRESOLVED = 0.3
"""The most of what is left of a limit that striking out what is no choice may use."""


@dataclass(frozen=True)
class Solution:
    """Rows chosen for a problem.

    ``values`` are the tiers of what they cost, but for constants that several operators share: how those are stored is
    decided later. ``bounds`` are proven lower bounds on them, as for :class:`Part`, 0 where candidates were left out;
    ``parts`` is what each component came to that had to be searched. ``charged`` are the variables whose moves the
    bounds have at their price, None for all; ``unseen`` are the factors that they leave out.
    """

    problem: LayoutProblem
    rows: tuple[int, ...]
    values: tuple[int, ...]
    bounds: tuple[int, ...]
    parts: tuple[Part, ...]
    charged: frozenset[int] | None = None
    unseen: frozenset[int] = frozenset()

    @property
    def optimal(self) -> bool:
        """Whether every tier is proven."""
        return self.values == self.bounds

    @property
    def branched(self) -> int:
        """How many Booleans CP-SAT had to choose from."""
        return sum(part.booleans for part in self.parts if part.method == "cp-sat")

    @property
    def chosen(self) -> list[Row]:
        """The row of each operator."""
        return [chosen(self.problem, self.rows, number) for number in range(len(self.rows))]

    def at_full_price(self, tiers: Tiers) -> Solution:
        """The same rows with every move at its price; the bounds are those of the problem that was solved."""
        problem = self.problem.charging(None)
        return replace(self, problem=problem, values=_values(problem, self.rows, tiers))


def solve(
    problem: LayoutProblem,
    tiers: Tiers,
    limit: Limit | None = None,
    start: Solution | None = None,
    least: Solution | None = None,
) -> Solution:
    """The cheapest rows of a problem: component by component, small ones by enumeration, others with CP-SAT.

    A ``start`` is a solution of a problem with the same operators, whose rows are taken where they prove to be the
    cheapest. ``least`` is one of this very problem with no move at more than it may cost:
    what costs no more here is proven.
    """
    return _answered(problem, tiers, limit or unlimited(), start or least, least)


def bounds(problem: LayoutProblem, tiers: Tiers, limit: Limit) -> tuple[int, ...]:
    """What relaxations prove of the tiers, as the bounds of a :class:`Solution`, without looking for one."""
    return _answered(problem, tiers, limit, bounded=True).bounds


def _answered(
    problem: LayoutProblem,
    tiers: Tiers,
    limit: Limit,
    start: Solution | None = None,
    least: Solution | None = None,
    bounded: bool = False,
) -> Solution:
    """What is asked of a problem. Operators without a choice keep regions apart, which are answered by themselves, but
    where a start cannot be improved.
    """
    opened = open_rows(problem, not _grouping(tiers))
    rows, regions = _begun(problem, opened, start), components(problem, opened)
    limit.spend(sum(len(region.operators) for region in regions))
    stand = _free(problem, rows, regions, tiers, start) | _proven(problem, rows, regions, least)
    asked = {number for region in regions if region not in stand for number in region.operators}
    domains = [domain if number in asked else [rows[number]] for number, domain in enumerate(opened)]
    contraction = presolved(problem, tiers, limit.part(PRESOLVED), domains)
    begun = _begun(problem, contraction.domains, start)
    parts = list(_search(begun, contraction.problem, contraction.domains, tiers, limit, bounded))
    parts += [part for each in stand.values() for part in each]
    return concluded(problem, contraction.expand(begun), tiers, sorted(parts, key=lambda part: part.operators))


def _free(
    problem: LayoutProblem, rows: Sequence[int], regions: Sequence[Component], tiers: Tiers, start: Solution | None
) -> dict[Component, list[Part]]:
    """The regions in which rows of a start cost nothing, with their components."""
    if start is None:
        return {}
    nothing = (0,) * len(tiers)
    found = {}
    for region, parts in _parts(regions, start):
        if ranked(price_of_component(problem, rows, region), tiers) == nothing:
            found[region] = [replace(part, values=nothing, bounds=nothing) for part in parts]
    return found


def _proven(
    problem: LayoutProblem, rows: Sequence[int], regions: Sequence[Component], least: Solution | None
) -> dict[Component, list[Part]]:
    """The regions in which rows cost what is proven where no move costs more than it may, with their components."""
    if least is None:
        return {}
    return {
        region: parts
        for region, parts in _parts(regions, least)
        if all(part.values == part.bounds for part in parts)
        and price_of_component(problem, rows, region) == price_of_component(least.problem, least.rows, region)
    }


def _parts(regions: Sequence[Component], solution: Solution) -> Iterator[tuple[Component, list[Part]]]:
    """The components of a solution that lie in each of some regions."""
    at = {number: place for place, region in enumerate(regions) for number in region.operators}
    found: list[list[Part]] = [[] for _ in regions]
    for part in solution.parts:
        if part.operators[0] in at:
            found[at[part.operators[0]]].append(part)
    return zip(regions, found, strict=True)


def _begun(problem: LayoutProblem, domains: Domains, start: Solution | None) -> list[int]:
    """Rows to begin with: of each operator that of a solution, if it is open, else the first one that is."""
    rows = [domain[0] for domain in domains]
    if start is None:
        return rows
    for number, (operator, before) in enumerate(zip(problem.operators, start.problem.operators, strict=True)):
        row = start.rows[number]
        if before is not operator and len(domains[number]) > 1:
            row = operator.rows.index(before.rows[row]) if before.rows[row] in operator.rows else rows[number]
        if row in domains[number]:
            rows[number] = row
    return rows


def concluded(problem: LayoutProblem, rows: Sequence[int], tiers: Tiers, parts: Sequence[Part]) -> Solution:
    """What rows come to, given what is known of the components: all else had no choice."""
    values = _values(problem, rows, tiers)
    gaps = [sum(part.values[tier] - part.bounds[tier] for part in parts) for tier in range(len(tiers))]
    bounds = tuple(0 if problem.capped else value - gap for value, gap in zip(values, gaps, strict=True))
    return Solution(problem, tuple(rows), values, bounds, tuple(parts))


def _values(problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> tuple[int, ...]:
    total = price(problem, rows)
    return ranked(replace(total, copies=total.copies - copied_bytes(problem, rows)), tiers)


def presolved(
    problem: LayoutProblem, tiers: Tiers, limit: Limit | None = None, domains: Domains | None = None
) -> Contraction:
    """The problem as it is searched, whatever searches it: without rows that are no choice, by default of all that are
    open.
    """
    limit, orders = limit or unlimited(), not _grouping(tiers)
    contraction = contract(problem, open_rows(problem, orders) if domains is None else domains, tiers, limit)
    left = dominate(contraction.problem, contraction.domains, tiers, orders, limit)
    return replace(contraction, domains=left)


def _grouping(tiers: Tiers) -> bool:
    """Whether groupings are chosen, not orders alone."""
    return any("reshapes" in tier for tier in tiers)


def _search(
    rows: list[int],
    problem: LayoutProblem,
    domains: Domains,
    tiers: Tiers,
    limit: Limit,
    bounded: bool,
) -> Sequence[Part]:
    """Put the cheapest rows in place, and tell what is known of each component; those that are too large to be
    enumerated are solved, or only ``bounded``.

    Small components come first, so that what is hard keeps nothing else from being solved.
    """
    found = components(problem, domains)
    parts: dict[int, Part] = {}
    sizes = [prod(len(domains[number]) for number in component.operators) for component in found]
    for place in sorted(range(len(found)), key=lambda place: sizes[place]):
        component = found[place]
        if limit.expired or not (sizes[place] <= ENUMERATED or _loaded(limit)):
            parts[place] = part_of(problem, domains, rows, component, tiers, "none", (0,) * len(tiers))
            continue
        bounds, method = _component(rows, problem, domains, component, tiers, limit, bounded)
        parts[place] = part_of(problem, domains, rows, component, tiers, method, bounds)
    return [parts[place] for place in range(len(found))]


def _component(
    rows: list[int],
    problem: LayoutProblem,
    domains: Domains,
    component: Component,
    tiers: Tiers,
    limit: Limit,
    bounded: bool,
) -> tuple[tuple[int, ...] | None, str]:
    """Put the cheapest rows of a component in place; what is proven of its tiers, None for all, and the method."""
    size = prod(len(domains[number]) for number in component.operators)
    ties = (*tiers, TIE)
    if size <= ENUMERATED:
        limit.spend(size)
        enumerate_into(rows, problem, domains, component, ties)
        return None, "enumeration"
    from layoutsolve.solver.search.component import bound_component, solve_component

    search, wanted = (bound_component, tiers) if bounded else (solve_component, ties)
    outcome = search(problem, domains, component, rows, wanted, limit)
    for number, row in outcome.rows.items():
        rows[number] = row
    return outcome.bounds[: len(tiers)], "cp-sat"


def _loaded(limit: Limit) -> bool:
    """Whether CP-SAT is loaded, or may be; otherwise the limit has ended the search."""
    if "layoutsolve.solver.search.cpsat" in sys.modules or limit.seconds > LOADING:
        return True
    limit.searched(0.0, finished=False)
    return False


def part_of(
    problem: LayoutProblem,
    domains: Domains,
    rows: Sequence[int],
    component: Component,
    tiers: Tiers,
    method: str,
    bounds: tuple[int, ...] | None = None,
) -> Part:
    """What a component comes to with the chosen rows; ``bounds`` are proven for its tiers, by default its values."""
    values = ranked(price_of_component(problem, rows, component), tiers)
    booleans = sum(len(domains[number]) for number in component.operators)
    return Part(component.operators, booleans, values, values if bounds is None else bounds, method)


def enumerated(
    problem: LayoutProblem, domains: Domains, component: Component, start: Sequence[int], tiers: Tiers
) -> list[int]:
    """The rows ``start`` with a component's replaced by the best of all their combinations."""
    rows = list(start)
    enumerate_into(rows, problem, domains, component, tiers)
    return rows


def enumerate_into(
    rows: list[int], problem: LayoutProblem, domains: Domains, component: Component, tiers: Tiers
) -> None:
    """Replace a component's rows by the best of all their combinations, the first of equals, in place.

    What a beginning of a combination costs already only grows: one that is no better than the best is not continued.
    """
    operators = component.operators
    closing = _closing(problem, component)
    best: list[int] = []
    lowest: tuple[int, ...] | None = None

    def extend(depth: int, before: Price, further: Callable[..., None]) -> None:
        nonlocal best, lowest
        number = operators[depth]
        for row in domains[number]:
            rows[number] = row
            total = before + problem.operators[number].rows[row].price
            for variable in closing[depth]:
                total += price_of_variable(problem, rows, variable)
            cost = ranked(total, tiers)
            if lowest is not None and cost >= lowest:
                continue
            if depth + 1 < len(operators):
                further(depth + 1, total, further)
            else:
                best, lowest = [rows[each] for each in operators], cost

    extend(0, Price(), extend)  # one that refers to itself would be a cycle, and keep the problem in memory
    for number, row in zip(operators, best, strict=True):
        rows[number] = row


def _closing(problem: LayoutProblem, component: Component) -> list[list[int]]:
    """For each operator of a component, in order, the variables whose price is known once its row is chosen."""
    place = {number: index for index, number in enumerate(component.operators)}
    closing: list[list[int]] = [[] for _ in component.operators]
    for variable in component.variables:
        closing[max(place.get(number, 0) for number, _ in problem.places(variable))].append(variable)
    return closing
