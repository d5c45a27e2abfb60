"""The fewest Reshapes over all orders that cost as little, where a solution has the fewest for some of these.

Orders are chosen first and groupings then, so that other orders may need fewer Reshapes, or less time with them. What
other orders there are is known from the proof that nothing costs less (:mod:`layoutsolve.solver.search.alternatives`).
Their groupings are searched for where these matter (:mod:`layoutsolve.solver.search.zone`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.alternatives import alternatives
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.search.settle import settled
from layoutsolve.solver.search.zone import Zone, zone_of
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.copies import shared_rows
from layoutsolve.solver.statement.objective import ranked, searched_tiers
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator, chosen
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Order, order
from layoutsolve.solver.theory.row import Row

STATED, SEARCHED = 200, 70
"""The least work of finding the groupings of one row of orders, and of searching among them for each."""

ALL_STATED, ALL_STATED_EACH, ALL_SEARCHED = 4_000, 250, 10
"""The most work of finding all groupings: so much in any case, and so much for each Reshape; and as above the least of
searching among them.
"""

MOST_CHOICES = 80
"""The most rows of orders of which all groupings are looked for."""


def widened(statement: Statement, orders: Solution, found: Assignment, whole: Limit, work: int) -> Assignment:
    """An assignment with the fewest Reshapes over all cheapest orders, as far as so much work allows to find out. Where
    all groupings of them are looked at, which is tried first, that is proven; else nothing more is claimed of it.

    ``orders`` are some of the cheapest, proven without stops among all candidates, and ``found`` has the fewest
    Reshapes for these. Where time counts, what is least is the time with that of Reshapes.
    """
    limit = whole.attempt(work)
    kept: list[Sequence[Row]] = [operator.rows for operator in orders.problem.operators]
    zone = zone_of(statement.entries, found.problem, found.rows, kept)
    moved: Collection[int] = range(len(statement.variables))
    several = any(_several(found.problem, number, kept[number]) for number in zone.free)
    if several:
        left = _alternatives(statement, orders, found, zone, limit)
        if left is None:
            return found
        for number, rows in left[0].items():
            kept[number] = rows
        moved = left[1]
        zone = zone_of(statement.entries, found.problem, found.rows, kept)
        several = any(_several(found.problem, number, kept[number]) for number in zone.free)
    free = {number: kept[number] for number in zone.free}
    fixed = {number: found.row(number) for number in zone.fixed}
    choices = sum(map(len, free.values()))
    if _claimable(statement, orders) and choices <= MOST_CHOICES and STATED * choices <= limit.work:
        stating = whole.attempt(min(work, ALL_STATED + ALL_STATED_EACH * found.price.reshapes))
        problem = statement.part(free, fixed, moved, stating, complete=True)
        if not problem.capped and (solution := _solved(problem, statement, ALL_SEARCHED, limit)) is not None:
            return _proven(_best(statement, found, solution, zone), solution)
    if several and STATED * choices <= limit.work:
        problem = statement.part(free, fixed, moved, limit)
        if not limit.expired and (solution := _solved(problem, statement, SEARCHED, limit)) is not None:
            return _best(statement, found, solution, zone)
    return found


def _claimable(statement: Statement, orders: Solution) -> bool:
    """Whether all orders that cost as little as proven ones are candidates, and Reshapes come after all they cost.

    What is free at an end demands no order, so that others which nobody demands may cost as little. A proof by some
    atoms has few candidates of all.
    """
    free = any(entry.free for entry in statement.entries)
    return not (free or orders.unseen or statement.goal.timed)


def _solved(problem: LayoutProblem, statement: Statement, each: int, limit: Limit) -> Solution | None:
    """The solution of a problem, given so much work for each row; None if that is too much, or it is not proven."""
    rows = [len(operator.rows) for operator in problem.operators]
    if each * sum(rows) > limit.work or not all(rows):
        return None
    solution = solve(problem, statement.goal.tiers, limit)
    return solution if solution.optimal else None


def _proven(found: Assignment, solution: Solution) -> Assignment:
    """An assignment whose Reshapes are those of the solution of a zone, which has the fewest that there are."""
    proven = found.price.reshapes == solution.values[-2]
    return replace(found, bounds=(*found.bounds, found.price.reshapes)) if proven else found


def _alternatives(
    statement: Statement, orders: Solution, found: Assignment, zone: Zone, limit: Limit
) -> tuple[dict[int, Sequence[Row]], Collection[int]] | None:
    """The rows of all orders that cost as little, by operator of a zone, and the variables that may be moved in these;
    None where finding out takes too much.
    """
    tiers = searched_tiers(statement.goal.tiers)
    paid, _ = _part(found.problem, found.rows, zone)
    values = ranked(price(paid, [0] * len(paid.operators)), tiers)
    part, numbers = _part(orders.problem, orders.rows, zone, whole=True)
    left = alternatives(part, tiers, values[: 1 if statement.goal.timed else None], limit)
    if left is None:
        return None
    domains = zip(numbers, part.operators, left.rows, strict=True)
    return {number: tuple(operator.rows[row] for row in domain) for number, operator, domain in domains}, left.moved


def _part(
    problem: LayoutProblem, rows: Sequence[int], zone: Zone, whole: bool = False
) -> tuple[LayoutProblem, list[int]]:
    """The problem of a zone, and the numbers of its operators: the chosen row of each, with ``whole`` all rows of those
    that are free.
    """
    free = frozenset(zone.free if whole else ())
    operators = [
        problem.operators[number]
        if number in free
        else replace(problem.operators[number], rows=(chosen(problem, rows, number),))
        for number in zone.operators
    ]
    return replace(problem, operators=tuple(operators), constants=()), zone.operators


def _several(problem: LayoutProblem, number: int, rows: Sequence[Row]) -> bool:
    """Whether rows of an operator differ in the order of something that moves."""
    ports = [port for port, each in enumerate(problem.operators[number].ports) if not problem.variables[each].constant]
    found: set[tuple[Order, ...]] = {tuple(order(row.layouts[port]) for port in ports) for row in rows}
    return len(found) > 1


def _best(statement: Statement, found: Assignment, solution: Solution, zone: Zone) -> Assignment:
    """The better one of an assignment and what it is with the solution of a zone."""
    operators, rows, tiers = list[Operator](found.problem.operators), list(found.rows), statement.goal.tiers
    fixed = frozenset(zone.fixed)
    for place, number in enumerate(zone.operators):
        if number not in fixed:
            operators[number] = solution.problem.operators[place]
            rows[number] = solution.rows[place]
    problem = replace(found.problem, operators=tuple(operators))
    cost = ranked(price(problem, rows), tiers)[:-1]
    known = ranked(found.price, tiers)[:-1]
    if cost >= known:
        return found
    chosen_rows = shared_rows(problem, settled(statement.graph, problem, rows, tiers))
    branched = found.branched + solution.branched
    total = price(problem, chosen_rows)
    return replace(found, problem=problem, rows=chosen_rows, price=total, branched=branched)
