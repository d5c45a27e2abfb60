"""Presolve: the connected components of what there is to choose from. Each is a problem of its own, mostly small."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.base.disjoint_sets import Classes
from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.statement.price import price_of_layouts
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.row import Price


@dataclass(frozen=True)
class Component:
    """A part of the problem that can be solved by itself: operators with a choice, and the variables they share."""

    operators: tuple[int, ...]
    variables: tuple[int, ...]


def price_of_component(problem: LayoutProblem, rows: Sequence[int], component: Component) -> Price:
    """What a component's operators and variables cost."""
    total = Price()
    for number in component.operators:
        total += chosen(problem, rows, number).price
    for variable in component.variables:
        written, *wanted = [chosen(problem, rows, number).layouts[port] for number, port in problem.places(variable)]
        if problem.writers[variable] is not None:
            total += price_of_layouts(problem, variable, written, set(wanted))
    return total


Domains = list[list[int]]
"""For each operator the numbers of the rows that are still open."""


def every_row(problem: LayoutProblem) -> Domains:
    """All alternatives of each operator."""
    return [list(range(len(operator.rows))) for operator in problem.operators]


def components(problem: LayoutProblem, domains: Sequence[Sequence[int]]) -> list[Component]:
    """The connected parts of what is still open; operators meet at a variable if their rows differ there."""
    classes, touched = Classes[int](), dict[int, int]()
    for number, operator in enumerate(problem.operators):
        if len(domains[number]) > 1:
            for port in varying(problem, domains, number):
                classes.join((touched.setdefault(operator.ports[port], number), number))
    members: dict[int, list[int]] = {}
    for number, domain in enumerate(domains):
        if len(domain) > 1:
            members.setdefault(classes.root(number), []).append(number)
    shared: dict[int, list[int]] = {root: [] for root in members}
    for variable, number in sorted(touched.items()):
        shared[classes.root(number)].append(variable)
    return [Component(tuple(operators), tuple(shared[root])) for root, operators in members.items()]


def varying(problem: LayoutProblem, domains: Sequence[Sequence[int]], number: int) -> list[int]:
    """The ports of an operator at which its open rows differ, constants left out."""
    operator = problem.operators[number]
    rows = [operator.rows[row] for row in domains[number]]
    return [
        port
        for port, variable in enumerate(operator.ports)
        if not problem.variables[variable].constant and any(row.layouts[port] != rows[0].layouts[port] for row in rows)
    ]
