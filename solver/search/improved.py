"""Improving rows one operator at a time: what is good enough where nothing better is known, and quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.changing import Changing
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem

SWEEPS = 10
"""The most times that all operators are visited."""


def improved(
    problem: LayoutProblem, rows: list[int], domains: Mapping[int, Sequence[int]], tiers: Tiers, limit: Limit
) -> None:
    """Give every operator, in turn, the row of its domain that costs the least with all others as they are, the first
    of equals, in place, until nothing changes or the limit is over.
    """
    changing = Changing(problem, rows)
    changes = 0
    last, visited = dict[int, int](), dict[int, int]()

    def cost(number: int, row: int) -> tuple[int, ...]:
        changing.take(number, row)
        return ranked(changing.around(number), tiers)

    for _ in range(SWEEPS):
        before = changes
        for number, domain in domains.items():
            if limit.over:
                return
            ports = problem.operators[number].ports
            if number in visited and all(last.get(variable, 0) <= visited[number] for variable in ports):
                continue  # nothing around it has changed
            present = changing.rows[number]
            limit.spend(10 * len(domain) * len(ports))
            best = min((present, *domain), key=lambda row: (cost(number, row), row))
            changing.take(number, best)
            if best != present:
                rows[number] = best
                changes += 1
                last.update(dict.fromkeys(ports, changes))
            visited[number] = changes
        if changes == before:
            return
