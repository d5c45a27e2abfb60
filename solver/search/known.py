"""What has been searched already: components that consist of the same rows are solved once.

Networks repeat their blocks, and a problem that is stated again with more candidates is the same in most places.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from layoutsolve.solver.search.presolve import Component, Domains
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row


@dataclass(frozen=True)
class Answer:
    """What a component came to: for each of its operators the place of a row among the open ones, the bounds of its
    tiers, and the method.
    """

    places: tuple[int, ...]
    bounds: tuple[int, ...] | None
    method: str


class Known:
    """Answers of components, of problems that have one target."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Answer] = {}
        self._numbers: dict[Row, int] = {}
        self._met: dict[int, tuple[Row, int]] = {}

    def key(self, problem: LayoutProblem, domains: Domains, component: Component, *wanted: object) -> Hashable:
        """All that the answer of a component depends on, with its variables numbered as they come; ``wanted`` is what
        is asked of it.
        """
        local: dict[int, int] = {}
        inside = set(component.operators)
        operators = []
        for number in component.operators:
            operator = problem.operators[number]
            ports = tuple(local.setdefault(variable, len(local)) for variable in operator.ports)
            rows = tuple(self._number(operator.rows[row]) for row in domains[number])
            operators.append((operator.inputs, ports, rows))
        variables = [(local[each], self._variable(problem, domains, each, inside)) for each in component.variables]
        constants = tuple(place for variable, place in local.items() if problem.variables[variable].constant)
        return tuple(operators), tuple(variables), constants, wanted

    def _variable(self, problem: LayoutProblem, domains: Domains, number: int, inside: set[int]) -> Hashable:
        """What the price of a variable depends on but for the rows of operators inside."""
        variable, outside = problem.variables[number], list[tuple[bool, Layout]]()
        for place in problem.places(number):
            if place[0] not in inside:
                first = problem.operators[place[0]].rows[domains[place[0]][0]]
                outside.append((place != problem.writers[number], first.layouts[place[1]]))
        exact = problem.charges(number) or problem.exact(number, *_open(problem, domains, number))
        return variable.sizes, variable.bytes, variable.turns, exact, tuple(outside)

    def _number(self, row: Row) -> int:
        """The same number for equal rows; most are the very same, which is quicker to see."""
        met = self._met.get(id(row))
        if met is None:
            met = self._met[id(row)] = row, self._numbers.setdefault(row, len(self._numbers))
        return met[1]

    def get(self, key: Hashable) -> Answer | None:
        """The answer of a component with this key."""
        return self._answers.get(key)

    def keep(self, key: Hashable, answer: Answer) -> None:
        """Remember an answer that no limit has cut short."""
        self._answers[key] = answer


def places(rows: Sequence[int], domains: Domains, component: Component) -> tuple[int, ...]:
    """Where the rows of a component's operators are among the open ones."""
    return tuple(domains[number].index(rows[number]) for number in component.operators)


def _open(problem: LayoutProblem, domains: Domains, number: int) -> tuple[list[Layout], list[Layout]]:
    """The layouts in which a variable may be written, and in which it may be read."""
    writer, found = problem.writers[number], (dict[Layout, None](), dict[Layout, None]())
    for place in (writer, *problem.readers[number]):
        if place is not None:
            rows = problem.operators[place[0]].rows
            found[place != writer].update(dict.fromkeys(rows[row].layouts[place[1]] for row in domains[place[0]]))
    return list(found[0]), list(found[1])
