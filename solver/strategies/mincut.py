"""Strategy ``mincut``: the layout problem as a minimum cut, where every variable has two orders to choose from.

Each port of an operator is then on one side of the cut, lower or upper. A variable that is written on one side and
read on the other costs once: an edge to an auxiliary node that all such readers hang on. The rows of an operator can be
cut where they are a distributive lattice, which is what edges of infinite capacity between pairs of ports leave; a
variable's lower order is chosen so that this holds. The only file that imports networkx.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, permutations
from math import prod
from typing import Any

from layoutsolve.errors import StrategyError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search.presolve import Component, Domains, components, every_row, varying
from layoutsolve.solver.search.search import Solution, concluded, part_of
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal, Levels, coarse_levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.exact_conversion_costs import STATED
from layoutsolve.solver.strategies.orders_then_groupings import grouped
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Price

Sides = tuple[int, ...]
"""The side of the cut, 0 for the lower and 1 for the upper, of each port at which an operator has a choice."""

LOWER, UPPER = (-1, 0), (-1, 1)
_OVER = "the limit is over before the orders are cut and grouped: raise it, or use strategy 'cpsat'"


def mincut(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit) -> Assignment:
    """The cheapest assignment of a graph: orders by minimum cuts, groupings as :func:`solve_graph` chooses them.

    Raises :class:`StrategyError` where a component has a variable of more than two orders or rows that cannot be cut,
    also for an objective in which orders do not come first.
    """
    coarse = coarse_levels(goal.levels)
    if coarse is None or goal.timed:
        raise StrategyError(f"strategy 'mincut' cannot weigh what '{goal.objective}' does: use strategy 'cpsat'")
    statement = Statement(graph, boundary, goal)
    limit.keep_back()
    orders = _cut_orders(statement, coarse, limit)
    found = grouped(statement, orders, limit)
    if found is None:
        raise StrategyError(_OVER)
    return replace(found, strategy="mincut")


def _cut_orders(statement: Statement, levels: Levels, limit: Limit) -> Solution:
    """The cheapest orders among the candidates; where stops may pay, with the bound that they have no part in."""
    problem = statement.orders(limit.part(STATED))
    found = cut_orders(problem, levels, limit)
    if not problem.uneven or not any(found.values):
        return found
    least = cut_orders(replace(problem, charged=frozenset()), levels, limit)
    best = min(found, least.at_full_price(levels), key=lambda solution: solution.values)
    return replace(best, bounds=least.bounds, parts=least.parts, charged=frozenset())


def cut_orders(problem: LayoutProblem, levels: Levels, limit: Limit | None = None) -> Solution:
    """The cheapest alternatives of a problem over orders. Raises :class:`StrategyError`."""
    limit = limit or unlimited()
    domains = every_row(problem)
    rows = [domain[0] for domain in domains]
    found = components(problem, domains)
    for component in found:
        limit.spend(sum(len(domains[number]) for number in component.operators))
        if limit.expired:
            raise StrategyError(_OVER)
        for number, row in cut(problem, domains, component, levels).rows.items():
            rows[number] = row
    parts = [part_of(problem, domains, rows, component, levels, "min cut") for component in found]
    return concluded(problem, rows, levels, parts)


@dataclass(frozen=True)
class Cut:
    """The rows that a minimum cut gives a component's operators, and the first level of the cut's value."""

    rows: Mapping[int, int]
    value: int


def cut(problem: LayoutProblem, domains: Domains, component: Component, levels: Levels) -> Cut:
    """Solve one component. Raises :class:`StrategyError` where it is not a minimum cut, or networkx is missing."""
    try:
        import networkx
    except ImportError as error:
        raise StrategyError("minimum cuts need networkx: pip install 'layoutsolve[mincut]'") from error
    network = _Network(problem, domains, component, levels, networkx.DiGraph())
    weight, (lower, _) = networkx.minimum_cut(network.graph, LOWER, UPPER)
    rows = {number: choice.row(number, lower, network.graph) for number, choice in network.choices.items()}
    return Cut(rows, (weight + network.constant) // prod(limit + 1 for limit in network.limits[1:]))


@dataclass(frozen=True)
class _Choice:
    """The rows of an operator by the sides of its varying ports, and the row's weight."""

    ports: tuple[int, ...]
    table: Mapping[Sides, int]

    def row(self, number: int, lower: set[tuple[int, int]], graph: Any) -> int:
        """The row that a cut chooses; a node without edges counts as lower."""
        nodes = [(number, port) for port in self.ports]
        return self.table[tuple(int(node in graph and node not in lower) for node in nodes)]


class _Network:
    """The flow network of a component; an edge is cut where it leads from the lower to the upper side."""

    def __init__(
        self, problem: LayoutProblem, domains: Domains, component: Component, levels: Levels, graph: Any
    ) -> None:
        self.problem, self.domains, self.component, self.levels, self.graph = problem, domains, component, levels, graph
        self.graph.add_nodes_from((LOWER, UPPER))
        self.constant = 0
        self.orders = {variable: self._two_orders(variable) for variable in component.variables}
        raw = {number: self._choice(number) for number in component.operators}
        flipped = self._polarity(raw)
        for variable, flip in flipped.items():
            if flip:
                self.orders[variable] = self.orders[variable][::-1]
        self.choices = {number: self._choice(number) for number in component.operators}
        self.limits = self._limits()
        for number, choice in self.choices.items():
            self._relate(number, choice)
            self._price_rows(number, choice)
        for variable in component.variables:
            self._variable(variable)

    def refuse(self, reason: str) -> StrategyError:
        """The error that names this component."""
        titles = [self.problem.operators[number].title for number in self.component.operators[:8]]
        return StrategyError(f"no minimum cut for the component of {', '.join(titles)}: {reason}; use strategy 'cpsat'")

    def _two_orders(self, variable: int) -> list[Layout]:
        found = {
            self.problem.operators[number].rows[row].layouts[port]
            for number, port in self.problem.places(variable)
            for row in self.domains[number]
        }
        if len(found) > 2:
            title = self.problem.variables[variable].title
            raise self.refuse(f"tensor '{title}' has {len(found)} orders to choose from, a cut has two")
        return sorted(found)

    def _side(self, number: int, row: int, port: int) -> int:
        operator = self.problem.operators[number]
        return self.orders[operator.ports[port]].index(operator.rows[row].layouts[port])

    def _choice(self, number: int) -> _Choice:
        """The rows by their sides, the cheapest where they differ in constants only."""
        ports = tuple(varying(self.problem, self.domains, number))
        table: dict[Sides, int] = {}
        rows = self.problem.operators[number].rows
        for row in sorted(self.domains[number], key=lambda row: (ranked(rows[row].price, self.levels), row)):
            table.setdefault(tuple(self._side(number, row, port) for port in ports), row)
        return _Choice(ports, table)

    def _polarity(self, choices: Mapping[int, _Choice]) -> dict[int, bool]:
        """For each variable whether its orders have to swap sides, so that no operator wants opposite sides."""
        links: dict[int, list[tuple[int, bool]]] = {variable: [] for variable in self.component.variables}
        for number, choice in choices.items():
            variables = [self.problem.operators[number].ports[port] for port in choice.ports]
            for (i, left), (j, right) in combinations(enumerate(variables), 2):
                present = {(sides[i], sides[j]) for sides in choice.table}
                if len(present) < 4:
                    opposite = not {(0, 0), (1, 1)} <= present
                    links[left].append((right, opposite))
                    links[right].append((left, opposite))
        flipped: dict[int, bool] = {}
        for start in links:
            flipped.setdefault(start, False)
            queue = [start]
            while queue:
                variable = queue.pop()
                for other, opposite in links[variable]:
                    wanted = flipped[variable] != opposite
                    if other not in flipped:
                        flipped[other] = wanted
                        queue.append(other)
                    elif flipped[other] != wanted:
                        raise self.refuse("its operators cross the two orders of a tensor")
        return flipped

    def _limits(self) -> tuple[int, ...]:
        """For each tier a sum that no solution exceeds, so that levels can be digits of one weight."""
        moves = [
            self.problem.move_price(variable, *ends)
            for variable in self.component.variables
            for ends in permutations(self.orders[variable], 2)
        ]
        rows = self.problem.operators
        prices = [rows[number].rows[row].price for number in self.choices for row in self.domains[number]]
        return ranked(reduce(Price.__add__, [*moves, *prices], Price()), self.levels)

    def _weight(self, cost: Price) -> int:
        weight = 0
        for value, limit in zip(ranked(cost, self.levels), self.limits, strict=True):
            weight = weight * (limit + 1) + value
        return weight

    def _relate(self, number: int, choice: _Choice) -> None:
        """Edges that leave an operator its rows and nothing else."""
        for left, right in combinations(choice.table, 2):
            pairs = list(zip(left, right, strict=True))
            if tuple(map(min, pairs)) not in choice.table or tuple(map(max, pairs)) not in choice.table:
                raise self.refuse(f"the rows of {self.problem.operators[number].title} are not a lattice")
        for (i, first), (j, second) in combinations(enumerate(choice.ports), 2):
            present = {(sides[i], sides[j]) for sides in choice.table}
            if (0, 1) not in present:
                self.graph.add_edge((number, first), (number, second))
            if (1, 0) not in present:
                self.graph.add_edge((number, second), (number, first))

    def _price_rows(self, number: int, choice: _Choice) -> None:
        """Charge the rows' own prices, which have to depend on one port alone."""
        rows = self.problem.operators[number].rows
        weights = {sides: self._weight(rows[row].price) for sides, row in choice.table.items()}
        if len(set(weights.values())) == 1:
            self.constant += next(iter(weights.values()))
            return
        for index, port in enumerate(choice.ports):
            sided = [{weight for sides, weight in weights.items() if sides[index] == side} for side in (0, 1)]
            if all(len(found) == 1 for found in sided):
                node = (number, port)
                for ends, (weight,) in zip(((node, UPPER), (LOWER, node)), sided, strict=True):
                    if weight:
                        self.graph.add_edge(*ends, capacity=weight)
                return
        raise self.refuse(f"the prices of {self.problem.operators[number].title} depend on several ports together")

    def _variable(self, variable: int) -> None:
        """A move where the writer is on one side and some reader on the other, for each of the two directions."""
        place = self.problem.writers[variable]
        if place is None or len(self.orders[variable]) < 2:
            return
        lower, upper = self.orders[variable]
        writer = self._node(*place)
        down, up = (-2, 2 * variable), (-2, 2 * variable + 1)
        self.graph.add_edge(writer, up, capacity=self._weight(self.problem.move_price(variable, lower, upper)))
        self.graph.add_edge(down, writer, capacity=self._weight(self.problem.move_price(variable, upper, lower)))
        for reader in self.problem.readers[variable]:
            self.graph.add_edge(up, self._node(*reader))
            self.graph.add_edge(self._node(*reader), down)

    def _node(self, number: int, port: int) -> tuple[int, int]:
        """The node of a port, one of the two terminals where its side is fixed."""
        choice = self.choices.get(number)
        if choice is not None and port in choice.ports:
            return number, port
        return (LOWER, UPPER)[self._side(number, self.domains[number][0], port)]
