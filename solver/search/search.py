"""Searching a problem, component by component, small ones first, and adding up what is proven of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search.component_search import solve_component
from layoutsolve.solver.search.presolve import Component, Domains, components, every_row, price_of_component
from layoutsolve.solver.statement.assignment import Part
from layoutsolve.solver.statement.duplicated_initializers import copied_bytes
from layoutsolve.solver.statement.objective import TIE, Levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.row import Row


@dataclass(frozen=True)
class Solution:
    """Rows chosen for a problem.

    ``values`` are the levels of what they cost, but for constants that several operators share: how those are stored is
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
        """Whether every level is proven."""
        return self.values == self.bounds

    @property
    def branched(self) -> int:
        """How many Booleans CP-SAT had to choose from."""
        return sum(part.booleans for part in self.parts if part.method == "cp-sat")

    @property
    def chosen(self) -> list[Row]:
        """The alternative of each operator."""
        return [chosen(self.problem, self.rows, number) for number in range(len(self.rows))]

    def at_full_price(self, levels: Levels) -> Solution:
        """The same rows with every move at its price; the bounds are those of the problem that was solved."""
        problem = self.problem.charging(None)
        return replace(self, problem=problem, values=_values(problem, self.rows, levels))


def solve(problem: LayoutProblem, levels: Levels, limit: Limit | None = None, dear: Solution | None = None) -> Solution:
    """The cheapest alternatives of a problem: component by component. What costs nothing in the solution of a ``dear``
    one, whose operators are the same and cost no less, stays as it is there.
    """
    domains, free = every_row(problem), list[Part]()
    if dear is not None:
        free = [part for part in dear.parts if not any(part.values)]
        for number in chain.from_iterable(part.operators for part in free):
            domains[number] = [dear.rows[number]]
    rows = [domain[0] for domain in domains]
    parts = _search(rows, problem, domains, levels, limit or unlimited())
    return concluded(problem, rows, levels, sorted((*parts, *free), key=lambda part: part.operators))


def concluded(problem: LayoutProblem, rows: Sequence[int], levels: Levels, parts: Sequence[Part]) -> Solution:
    """What rows come to, given what is known of the components: all else had no choice."""
    values = _values(problem, rows, levels)
    gaps = [sum(part.values[level] - part.bounds[level] for part in parts) for level in range(len(levels))]
    bounds = tuple(0 if problem.capped else value - gap for value, gap in zip(values, gaps, strict=True))
    return Solution(problem, tuple(rows), values, bounds, tuple(parts))


def _values(problem: LayoutProblem, rows: Sequence[int], levels: Levels) -> tuple[int, ...]:
    total = price(problem, rows)
    return ranked(replace(total, copies=total.copies - copied_bytes(problem, rows)), levels)


def _search(rows: list[int], problem: LayoutProblem, domains: Domains, levels: Levels, limit: Limit) -> Sequence[Part]:
    """Put the cheapest rows in place, and tell what is known of each component.

    Small components come first, and each has its share of what is left of the limit, so that what is hard keeps nothing
    else from being solved.
    """
    found = components(problem, domains)
    parts: dict[int, Part] = {}
    sizes = [prod(len(domains[number]) for number in component.operators) for component in found]
    for left, place in zip(range(len(found), 0, -1), sorted(range(len(found)), key=sizes.__getitem__), strict=True):
        component = found[place]
        outcome = solve_component(problem, domains, component, rows, (*levels, TIE), limit.part(1 / left))
        bounds = outcome.bounds[: len(levels)]
        parts[place] = part_of(problem, domains, rows, component, levels, outcome.method, bounds)
    return [parts[place] for place in range(len(found))]


def part_of(
    problem: LayoutProblem,
    domains: Domains,
    rows: Sequence[int],
    component: Component,
    levels: Levels,
    method: str,
    bounds: tuple[int, ...] | None = None,
) -> Part:
    """What a component comes to with the chosen alternatives; ``bounds`` are proven for its levels, by default its
    values.
    """
    exact = bounds if method == "elimination" else None
    values = exact or ranked(price_of_component(problem, rows, component), levels)
    booleans = sum(len(domains[number]) for number in component.operators)
    return Part(component.operators, booleans, values, values if bounds is None else bounds, method)
