"""Bucket elimination of a component's operators: exact where its treewidth is small.

What a variable costs is a table over the rows of all operators at it, in one number for all levels
(:mod:`layoutsolve.solver.search.cost_tables`). To eliminate an operator, all tables that have it are added, and what is
left is a table of the least that its rows come to, for all rows of the others. Where these are too large nothing is
done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.cost_tables import TOTAL, Array, Costs, Paid, Scope, Stated, in_one
from layoutsolve.solver.search.presolve import Component
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.problem import LayoutProblem

LARGEST, MOST = 2**22, 2**24
"""The most entries of a table, and of all tables."""

ENTRIES, EACH = 200, 400
"""The entries that are added up in a unit of work, and the work of a table, however small."""


def eliminated(
    problem: LayoutProblem,
    domains: Mapping[int, Sequence[int]],
    component: Component,
    levels: Levels,
    limit: Limit,
) -> dict[int, int] | None:
    """The cheapest alternatives of a component's operators among those in ``domains``, which has all that touch its
    variables; None where that takes tables that are too large, or no time is left.
    """
    moved = sum(problem.variables[each].bytes * len(problem.readers[each]) for each in component.variables)
    if moved > TOTAL:
        return None
    sizes = {number: len(domains[number]) for number in component.operators if len(domains[number]) > 1}
    stated = Stated(problem, domains, levels, limit)
    places = {variable: stated.at(variable) for variable in component.variables}
    scopes = {variable: at.scope & sizes.keys() for variable, at in places.items()}
    plan = _planned(sizes, scopes.values())
    entries = MOST + 1 if plan is None else sum(prod(sizes[each] for each in scope) for scope in plan.values())
    if plan is None or entries > MOST:
        return None
    limit.spend(entries // ENTRIES + EACH * len(plan))
    place = {number: at for at, number in enumerate(plan)}
    costs = [stated.of_rows(number) for number in plan]
    for variable, scope in scopes.items():
        if scope and problem.writers[variable] and problem.readers[variable]:
            found = stated.of_variable(variable, places[variable], tuple(sorted(scope, key=place.__getitem__)))
            if found is None or limit.over:
                return None
            costs.append(found)
    costs = [each for each in costs if any(most for _, most, _ in each.paid.facts)]
    counted = None if limit.over else in_one(costs)
    if counted is None:
        return None
    choices = _solved(plan, costs, counted)
    return {number: domains[number][choices.get(number, 0)] for number in component.operators}


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


def _solved(plan: dict[int, Scope], costs: Iterable[Costs], counted: Mapping[Paid, Array]) -> dict[int, int]:
    """The place of the cheapest row of each operator among the open ones, the first of equals.

    A table is made when the first of its operators is eliminated: all of them together would take much memory.
    """
    own: dict[int, list[Costs]] = {number: [] for number in plan}
    left: dict[int, list[tuple[Scope, Array]]] = {number: [] for number in plan}
    summed, choices = dict[int, Any](), dict[int, int]()
    for each in costs:
        if each.scope:
            own[each.scope[0]].append(each)
    for number, scope in plan.items():
        paid = np.zeros([1] * len(scope), np.int64)
        tables = ((each.scope, each.table(counted[each.paid])) for each in own.pop(number))
        for among, table in chain(tables, left.pop(number)):
            sizes = dict(zip(among, table.shape, strict=True))
            more = table.reshape([sizes.get(each, 1) for each in scope])
            paid = np.add(paid, more, paid if paid.shape == np.broadcast_shapes(paid.shape, more.shape) else None)
        summed[number] = paid
        if scope[1:]:
            left[scope[1]].append((scope[1:], paid.min(0)))
    for number, scope in reversed(plan.items()):
        paid = summed[number]
        at = [choices[each] if size > 1 else 0 for each, size in zip(scope[1:], paid.shape[1:], strict=True)]
        choices[number] = int(paid[(slice(None), *at)].argmin())
    return choices
