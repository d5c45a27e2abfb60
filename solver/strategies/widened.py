"""The fewest Reshapes over all orders that cost as little, where a solution has the fewest for some of these.

Orders are chosen first and groupings then, so that other orders may need fewer Reshapes, or less time with them. What
other orders there are is known from the proof that nothing costs less (:mod:`layoutsolve.solver.search.alternatives`).
Their groupings are searched for where these matter (:mod:`layoutsolve.solver.search.zone`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.alternatives import alternatives
from layoutsolve.solver.search.known import Known
from layoutsolve.solver.search.presolve import Component, price_of_component
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.search.settle import settled
from layoutsolve.solver.search.zone import Zone, Zones
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.copies import shared_rows
from layoutsolve.solver.statement.objective import ranked, searched_tiers
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.covered import covered, least_beyond
from layoutsolve.solver.strategies.pieces import Scope, fewest, needed
from layoutsolve.solver.theory.layout import Order, order
from layoutsolve.solver.theory.row import Price, Row

STATED, SEARCHED = 200, 70
"""The least work of finding the groupings of one row of orders, and of searching among them for each."""

STATED_ORDERS = 0.3
"""The most of what is left of a limit that may go into stating orders which nobody demands."""

FEWEST = 0.9
"""The most of what is left of that which a part of the zone may take as a whole."""


def widened(
    statement: Statement, orders: Solution, found: Assignment, whole: Limit, work: int, needed: int
) -> Assignment:
    """An assignment with the fewest Reshapes over all cheapest orders, as far as so much work allows to find out, and
    how many of them are proven to be ``needed``, which may take as much again, or nothing where it is not asked.

    ``orders`` are some of the cheapest, proven among all candidates, and ``found`` has the fewest
    Reshapes for these. Where time counts, what is least is the time with that of Reshapes.
    """
    limit = whole.attempt(max(work, needed))
    among = covered(statement, orders, limit.part(STATED_ORDERS)) if needed else None
    orders = among or orders
    scope = _scope(statement, orders, found, limit)
    if scope is None:
        return found
    if among:
        scope, parts = _proven(scope, whole.attempt(needed))
        bounds = (
            _with_time(statement, orders, scope.found, parts)
            if statement.goal.timed
            else (*found.bounds, _reshapes(parts))
        )
        found = replace(scope.found, bounds=bounds)
        scope = replace(scope, found=found)
    if ranked(found.price, found.goal.tiers)[:-1] == found.bounds:
        return found
    zone = scope.zone()
    solution = _among_some(scope, zone, whole.attempt(work))
    return found if solution is None else _best(scope, solution, zone)


def _scope(statement: Statement, orders: Solution, found: Assignment, limit: Limit) -> Scope | None:
    """What Reshapes depend on over all orders that cost as little; None where finding out takes too much."""
    kept: list[Sequence[Row]] = [operator.rows for operator in orders.candidates.operators]
    scope = Scope(statement, found, kept, range(len(statement.variables)))
    zone = scope.zone()
    if not _several(scope, zone):
        return scope
    left = _alternatives(statement, orders, found, zone, limit)
    if left is None:
        return None
    for number, rows in left[0].items():
        kept[number] = rows
    return replace(scope, moved=left[1])


@dataclass(frozen=True)
class _Part:
    """What is known of a part of a zone: the least ``values`` of its tiers, else how many Reshapes are ``needed``."""

    zone: Zone
    values: tuple[int, ...] | None
    needed: int = 0


def _proven(scope: Scope, limit: Limit) -> tuple[Scope, list[_Part]]:
    """What is proven of the parts of the zone, and what has the fewest Reshapes where that was found: what is chosen in
    one part is no concern of the others.
    """
    parts, known, found = list[_Part](), Known(), scope.found
    tiers = found.goal.tiers
    for zone in Zones(scope.statement.entries, found.problem, scope.kept).parts(found.rows):
        solution = fewest(scope, zone, limit.part(FEWEST), known)
        made = ranked(_paid(scope.found.problem, scope.found.rows, zone), tiers)
        if solution is None:
            free = not any(made[: len(searched_tiers(tiers))])
            parts.append(_Part(zone, None, needed(scope, zone, free, limit, known)))
        else:
            parts.append(_Part(zone, solution.values))
            scope = replace(scope, found=_best(scope, solution, zone)) if solution.values < made else scope
    return scope, parts


def _reshapes(parts: Sequence[_Part]) -> int:
    """How many Reshapes are needed."""
    return sum(part.needed if part.values is None else part.values[-2] for part in parts)


def _with_time(statement: Statement, orders: Solution, found: Assignment, parts: Sequence[_Part]) -> tuple[int, ...]:
    """The bounds of the tiers where Reshapes take time: orders that take more than the least are in question as well.

    Where an answer takes as much as is proven of the time, its orders are the cheapest, or those of the parts are the
    least of all.
    """
    least, target = orders.bounds[0], found.goal.target
    for part in parts:
        if part.values is None:
            least += part.needed * target.reshape_price(1, timed=True).nanoseconds
        else:
            least += part.values[0] - _paid(orders.problem, orders.rows, part.zone).nanoseconds
    tiers, beyond = ranked(found.price, found.goal.tiers)[:-1], least_beyond(statement, orders)
    if tiers[0] > min(least, beyond):
        return (min(least, beyond),)
    sure = tiers[0] < beyond and (all(part.values for part in parts) or tiers[1:-1] == orders.bounds[1:])
    return tiers if sure else tiers[:1]


def _paid(problem: LayoutProblem, rows: Sequence[int], zone: Zone) -> Price:
    """What a zone costs, its borders left out."""
    return price_of_component(problem, rows, Component(zone.free, zone.variables))


def _among_some(scope: Scope, zone: Zone, limit: Limit) -> Solution | None:
    """The fewest Reshapes of the groupings that closure leads to; None where these are too many, or there is nothing to
    choose.
    """
    free = scope.rows(zone.free)
    if not _several(scope, zone) or STATED * sum(map(len, free.values())) > limit.work:
        return None
    most = limit.work // SEARCHED
    problem = scope.statement.part(free, scope.fixed(zone.fixed), scope.moved, limit, most)
    rows = [len(operator.rows) for operator in problem.operators]
    if limit.expired or SEARCHED * sum(rows) > limit.work or not all(rows):
        return None
    solution = solve(problem, scope.found.goal.tiers, limit)
    return solution if solution.optimal else None


def _alternatives(
    statement: Statement, orders: Solution, found: Assignment, zone: Zone, limit: Limit
) -> tuple[dict[int, Sequence[Row]], Collection[int]] | None:
    """The rows of all orders that cost as little, by operator of a zone, and the variables that may be moved in these;
    None where finding out takes too much.
    """
    tiers = searched_tiers(statement.goal.tiers)
    paid = _of_zone(found.problem, [[found.row(number)] for number in zone.operators], zone)
    values = ranked(price(paid, [0] * len(zone.operators)), tiers)
    free, own, kept = frozenset(zone.free), orders.candidates.operators, orders.chosen
    rows = [own[number].rows if number in free else [kept[number]] for number in zone.operators]
    part = _of_zone(orders.candidates, rows, zone)
    left = alternatives(part, tiers, values[: 1 if statement.goal.timed else None], limit)
    if left is None:
        return None
    domains = zip(zone.operators, part.operators, left.rows, strict=True)
    return {number: tuple(operator.rows[row] for row in domain) for number, operator, domain in domains}, left.moved


def _of_zone(problem: LayoutProblem, rows: Sequence[Sequence[Row]], zone: Zone) -> LayoutProblem:
    """The problem of a zone, whose operators have some rows."""
    operators = [
        replace(problem.operators[number], rows=tuple(some)) for number, some in zip(zone.operators, rows, strict=True)
    ]
    return replace(problem, operators=tuple(operators), constants=())


def _several(scope: Scope, zone: Zone) -> bool:
    """Whether there is anything to choose in a zone but groupings."""
    return any(_differ(scope.found.problem, number, scope.kept[number]) for number in zone.free)


def _differ(problem: LayoutProblem, number: int, rows: Sequence[Row]) -> bool:
    """Whether rows of an operator differ in the order of something that moves."""
    ports = [port for port, each in enumerate(problem.operators[number].ports) if not problem.variables[each].constant]
    found: set[tuple[Order, ...]] = {tuple(order(row.layouts[port]) for port in ports) for row in rows}
    return len(found) > 1


def _best(scope: Scope, solution: Solution, zone: Zone) -> Assignment:
    """The better one of an assignment and what it is with the solution of a zone."""
    found = scope.found
    operators, rows, tiers = list[Operator](found.problem.operators), list(found.rows), found.goal.tiers
    fixed = frozenset(zone.fixed)
    for place, number in enumerate(zone.operators):
        if number not in fixed:
            operators[number] = replace(operators[number], rows=solution.problem.operators[place].rows)
            rows[number] = solution.rows[place]
    problem = replace(found.problem, operators=tuple(operators))
    cost = ranked(price(problem, rows), tiers)[:-1]
    known = ranked(found.price, tiers)[:-1]
    if cost >= known:
        return found
    chosen_rows = shared_rows(problem, settled(scope.statement.graph, problem, rows, tiers))
    branched = found.branched + solution.branched
    total = price(problem, chosen_rows)
    return replace(found, problem=problem, rows=chosen_rows, price=total, branched=branched)
