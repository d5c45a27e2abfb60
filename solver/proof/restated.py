"""A layout problem stated anew for rows that somebody recorded, with everything that can be said without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from layoutsolve.errors import CertificateError, StrategyError
from layoutsolve.graph import Graph
from layoutsolve.solver.search.concat_steps import in_steps
from layoutsolve.solver.search.presolve import Component, Domains, components, price_of_component
from layoutsolve.solver.search.search import presolved
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal, Tiers, coarse_tiers, ranked
from layoutsolve.solver.statement.price import price, price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, Operator, chosen
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.mincut import cut
from layoutsolve.solver.theory.layout import Layout, finest, order
from layoutsolve.solver.theory.row import Price, Row

Layouts = tuple[Layout, ...]


@dataclass(frozen=True)
class Restated:
    """The problem over layouts, ``fine``, with the ``price`` of the recorded rows, and the one that proofs are about.

    ``inside`` are those of the price's hidden transpositions that kernels make, so that no file shows them.
    That one, ``coarse``, is over orders where Reshapes come last in the objective (``over_orders``), and contracted.
    ``rows`` are the recorded ones in it, ``domains`` those that are open; ``tiers`` are what it minimises.
    """

    fine: LayoutProblem
    price: Price
    inside: int
    coarse: LayoutProblem
    domains: Domains
    rows: tuple[int, ...]
    components: tuple[Component, ...]
    tiers: Tiers
    over_orders: bool

    @property
    def fixed(self) -> int:
        """The first tier of what operators and variables cost that are in no component."""
        inside = {number for component in self.components for number in component.operators}
        shared = {variable for component in self.components for variable in component.variables}
        total = Price()
        for number in range(len(self.coarse.operators)):
            if number not in inside:
                total += chosen(self.coarse, self.rows, number).price
        for variable in self.coarse.moving():
            if variable not in shared:
                total += price_of_variable(self.coarse, self.rows, variable)
        return ranked(total, self.tiers)[0]

    def first_tier(self, rows: Sequence[int], component: Component) -> int:
        """The first tier of what a component costs."""
        return ranked(price_of_component(self.coarse, rows, component), self.tiers)[0]

    def min_cut(self, component: Component) -> int | None:
        """The first tier of a component's minimum cut; None where it is none, or networkx is missing.

        A cut counts moves, so it says nothing of time.
        """
        if not self.over_orders or self.coarse.timed:
            return None
        try:
            return cut(self.coarse, self.domains, component, self.tiers).value
        except StrategyError:
            return None


def restate(graph: Graph, boundary: Boundary, goal: Goal, rows: Sequence[Layouts]) -> Restated:
    """State the problem of a graph with its concatenations in steps, and find the rows with the recorded layouts in it.

    Rows that cost nothing have no components: nothing is cheaper, whatever else there is to choose. Raises
    :class:`CertificateError` where there are none.
    """
    tiers = goal.tiers
    coarse_only = coarse_tiers(tiers)
    statement = Statement(in_steps(graph), boundary, goal)
    _check_shapes(statement.source(), rows)
    kept = None if coarse_only is None else [Row(tuple(map(finest, layouts))) for layouts in rows]
    fine = statement.layouts(kept)
    numbers = [_row(operator, layouts, tiers) for operator, layouts in zip(fine.operators, rows, strict=True)]
    total, over_orders = price(fine, numbers), kept is not None
    own = [chosen(fine, numbers, number).price for number in range(len(numbers))]
    inside = sum(each.hidden for each in own if not each.transposes)
    if not any(ranked(total, coarse_only or tiers)):
        free = replace(fine, capped=False)
        return Restated(fine, total, inside, free, [], tuple(numbers), (), coarse_only or tiers, over_orders)
    whole = statement.orders() if over_orders else fine
    contraction = presolved(whole, coarse_only or tiers)
    coarse = [
        0
        if number in contraction.follows
        else _open_row(whole, contraction.domains, number, rows[number], not over_orders)
        for number in range(len(rows))
    ]
    return Restated(
        fine,
        total,
        inside,
        contraction.problem,
        contraction.domains,
        tuple(coarse),
        tuple(components(contraction.problem, contraction.domains)),
        coarse_only or tiers,
        over_orders,
    )


def _check_shapes(problem: LayoutProblem, rows: Sequence[Layouts]) -> None:
    """Every operator needs a row, with a layout of the right atoms for every port."""
    if len(rows) != len(problem.operators):
        raise CertificateError(f"the source has {len(problem.operators)} operators, the certificate {len(rows)}")
    for operator, layouts in zip(problem.operators, rows, strict=True):
        atoms = [list(range(len(problem.variables[variable].sizes))) for variable in operator.ports]
        if [sorted(order(layout)) for layout in layouts] != atoms:
            raise _unknown(operator)


def _unknown(operator: Operator) -> CertificateError:
    return CertificateError(f"operator '{operator.title}' cannot run in the layouts that the certificate records")


def _row(operator: Operator, layouts: Layouts, tiers: Tiers) -> int:
    """The cheapest row with the recorded layouts: several ways to run an operator may have the same."""
    found = [number for number, row in enumerate(operator.rows) if row.layouts == layouts]
    if not found:
        raise _unknown(operator)
    return min(found, key=lambda number: ranked(operator.rows[number].price, tiers))


def _open_row(problem: LayoutProblem, domains: Domains, number: int, layouts: Layouts, exact: bool) -> int:
    """The open row with the recorded layouts, or with their orders unless ``exact``; constants do not matter then."""
    operator = problem.operators[number]
    ports = [port for port, variable in enumerate(operator.ports) if not problem.variables[variable].constant]
    wanted = [layouts[port] if exact else finest(layouts[port]) for port in ports]
    for row in domains[number]:
        if [operator.rows[row].layouts[port] for port in ports] == wanted:
            return row
    raise _unknown(operator)
