"""Which rows the cheapest orders can have: all that cost as little, not those alone that a search has found."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.presolve import Domains
from layoutsolve.solver.statement.bound import Offers, Weights, prices, weighted
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, order

UNIT = 5040
"""The parts in which multipliers are rounded to whole numbers: most of them are small fractions."""

ROWS = 20_000
"""The most rows of a problem that a relaxation is solved for."""

EACH = 20
"""The work of solving a relaxation for one tier, for each row."""


@dataclass(frozen=True)
class Alternatives:
    """For each operator the ``rows`` that it may have, and the variables that may be ``moved`` to another order."""

    rows: Domains
    moved: frozenset[int]


def alternatives(problem: LayoutProblem, tiers: Tiers, values: Sequence[int], limit: Limit) -> Alternatives | None:
    """What an assignment can have whose first tiers are no higher than some ``values``, of which all but the last are
    the least that there are.

    None where finding out takes too much. There may be more than such assignments have.
    """
    domains = [list(range(len(operator.rows))) for operator in problem.operators]
    moved = frozenset[int]()
    if any(values):
        size = sum(map(len, domains))
        if size > ROWS:
            return None
        limit.spend(EACH * size * len(values) + _moves(problem))
        priced = None if limit.over else _priced(problem, domains, tiers[: len(values)], values, limit)
        if priced is None:
            return None
        moved = priced
    else:
        _free(problem, domains, tiers[: len(values)], limit)
    return None if limit.over else Alternatives(domains, moved)


def _moves(problem: LayoutProblem) -> int:
    """How many moves of variables a relaxation tells apart."""
    found = 0
    for variable in problem.moving():
        if (writer := problem.writers[variable]) is not None:
            operators = [problem.operators[number].rows for number, _ in problem.readers[variable]]
            found += len(problem.operators[writer[0]].rows) * sum(map(len, operators))
    return found


def _free(problem: LayoutProblem, domains: Domains, tiers: Tiers, limit: Limit) -> None:
    """Keep the rows of assignments that cost nothing: nothing is moved, so every variable has one order."""
    for operator, domain in zip(problem.operators, domains, strict=True):
        domain[:] = [row for row in domain if not any(ranked(operator.rows[row].price, tiers))]
    touching = {variable: problem.places(variable) for variable in problem.moving()}
    waiting = deque(variable for variable, places in touching.items() if places)
    queued = set(waiting)
    while waiting and not limit.over:
        variable = waiting.popleft()
        queued.discard(variable)
        places = touching[variable]
        limit.spend(sum(len(domains[number]) for number, _ in places))
        common = set.intersection(*(_orders(problem, domains[number], number, port) for number, port in places))
        for number, port in places:
            rows = problem.operators[number].rows
            left = [row for row in domains[number] if order(rows[row].layouts[port]) in common]
            if len(left) < len(domains[number]):
                domains[number] = left
                fresh = [each for each in problem.operators[number].ports if each in touching and each not in queued]
                waiting.extend(fresh)
                queued.update(fresh)


def _orders(problem: LayoutProblem, domain: Sequence[int], number: int, port: int) -> set[Order]:
    return {order(problem.operators[number].rows[row].layouts[port]) for row in domain}


def _priced(
    problem: LayoutProblem, domains: Domains, tiers: Tiers, values: Sequence[int], limit: Limit
) -> frozenset[int] | None:
    """Keep the rows whose price, with the offers of a relaxation, leaves room for the others' at these values, and find
    the variables of which that is true of a move; None where the relaxation cannot be solved.
    """
    from layoutsolve.solver.search.relaxation import Relaxation

    relaxation = Relaxation(problem, tiers)
    moved = [variable for variable in problem.moving() if problem.writers[variable] and problem.readers[variable]]
    for tier in range(len(tiers)):
        opened = dict(enumerate(domains))
        relaxed = relaxation.solve(tier, values, opened)
        if relaxed is None:
            return None
        counts = [*(max(0, round(each * UNIT)) for each in relaxed.earlier), UNIT]
        weights: dict[str, int] = {}
        for names, count in zip(tiers, counts, strict=False):
            for name in names:
                weights[name] = weights.get(name, 0) + count
        offers = relaxed.offers(UNIT)
        found = prices(problem, weights, offers, opened)
        most = sum(count * value for count, value in zip(counts, values, strict=False))
        spare = most - sum(min(each.values()) for each in found)
        for number, each in enumerate(found):
            domains[number] = [row for row, cost in each.items() if cost <= min(each.values()) + spare]
        moved = [each for each in moved if _may_move(problem, domains, each, weights, offers, spare, limit)]
    return frozenset(moved)


def _may_move(
    problem: LayoutProblem,
    domains: Domains,
    variable: int,
    weights: Weights,
    offers: Offers,
    spare: int,
    limit: Limit,
) -> bool:
    """Whether some move of a variable costs no more than all that is offered for its order, and what is to spare."""
    writer = problem.writers[variable]
    if writer is None:
        return False
    offered = _offered(problem, domains, variable, offers)
    number, port = writer
    sources = list(dict.fromkeys(problem.operators[number].rows[row].layouts[port] for row in domains[number]))
    limit.spend(len(sources) * len(offered))
    if limit.over:
        return True
    cost = cache(lambda price: weighted(price, weights))
    moves = problem.move_prices(variable, sources, list(offered), "reshapes" in weights)
    return any(
        source != target and cost(price) - amount <= spare
        for source, prices in zip(sources, moves, strict=True)
        for (target, amount), price in zip(offered.items(), prices, strict=True)
    )


def _offered(problem: LayoutProblem, domains: Domains, variable: int, offers: Offers) -> dict[Layout, int]:
    """What the readers of a variable offer for each of the layouts that they may read."""
    found: dict[Layout, int] = {}
    for number, port in problem.readers[variable]:
        layouts, orders = offers.layouts.get((number, port), {}), offers.orders.get((number, port), {})
        for layout in dict.fromkeys(problem.operators[number].rows[row].layouts[port] for row in domains[number]):
            found[layout] = found.get(layout, 0) + layouts.get(layout, 0) + orders.get(order(layout), 0)
    return found
