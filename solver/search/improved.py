"""Improving rows one operator at a time: what is good enough where nothing better is known, and quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, chosen

SWEEPS = 10
"""The most times that all operators are visited."""


def improved(
    problem: LayoutProblem, rows: list[int], domains: Mapping[int, Sequence[int]], tiers: Tiers, limit: Limit
) -> None:
    """Give every operator, in turn, the row of its domain that costs the least with all others as they are, the first
    of equals, in place, until nothing changes or the limit is over.
    """
    around = {
        number: [
            each for each in dict.fromkeys(problem.operators[number].ports) if not problem.variables[each].constant
        ]
        for number in domains
    }

    def cost(number: int, row: int) -> tuple[int, ...]:
        rows[number] = row
        total = chosen(problem, rows, number).price
        for variable in around[number]:
            total += price_of_variable(problem, rows, variable)
        return ranked(total, tiers)

    for _ in range(SWEEPS):
        changed = False
        for number, domain in domains.items():
            if limit.over:
                return
            present = rows[number]
            limit.spend(10 * len(domain) * len(around[number]))
            best = min((present, *domain), key=lambda row: (cost(number, row), row))
            rows[number] = best
            changed |= best != present
        if not changed:
            return
