"""What has been searched already: regions that consist of the same rows are solved once.

Networks repeat their blocks, and a problem that is stated again with more candidates is the same in most places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from layoutsolve.records import dataclass
from layoutsolve.solver.search.presolve import Component, Domains
from layoutsolve.solver.statement.assignment import Part
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Row


@dataclass(frozen=True)
class Answer:
    """What a region came to: for each of its operators the place of a row among the open ones, and the components that
    are left of it, which have places for operators.
    """

    places: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, region: Component, rows: Sequence[int], domains: Domains, parts: Iterable[Part]) -> Answer:
        """What rows and components of a region are for all that are alike."""
        at = {number: place for place, number in enumerate(region.operators)}
        moved = (replace(part, operators=tuple(at[number] for number in part.operators)) for part in parts)
        return cls(tuple(domains[number].index(rows[number]) for number in region.operators), tuple(moved))

    def put(self, region: Component, rows: list[int], domains: Domains) -> Iterator[Part]:
        """Give the rows to a region that is alike; its components."""
        for number, place in zip(region.operators, self.places, strict=True):
            rows[number] = domains[number][place]
        for part in self.parts:
            yield replace(part, operators=tuple(region.operators[place] for place in part.operators))


class Known:
    """Answers of regions, of problems that have one target."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Answer] = {}
        self._numbers: dict[Hashable, int] = {}
        self._met: dict[Hashable, tuple[tuple[Row, ...], int]] = {}

    def key(self, problem: LayoutProblem, domains: Domains, region: Component, *wanted: object) -> Hashable:
        """All that the answer of a region depends on, with its variables numbered as they come; ``wanted`` is what
        is asked of it.
        """
        local: dict[int, int] = {}
        inside = set(region.operators)
        operators = []
        for number in region.operators:
            operator = problem.operators[number]
            ports = tuple([local.setdefault(variable, len(local)) for variable in operator.ports])
            operators.append((operator.inputs, ports, self._rows(operator.rows, domains[number])))
        shared = set(region.variables)
        variables = []
        for each in local:
            variable = problem.variables[each]
            seen = self._variable(problem, domains, each, inside) if each in shared else ()
            variables.append((variable.constant or (variable.sizes, variable.bytes, variable.turns), seen))
        return tuple(operators), tuple(variables), wanted

    def _variable(self, problem: LayoutProblem, domains: Domains, number: int, inside: set[int]) -> Hashable:
        """What the price of a variable depends on but for the rows of operators inside, and whether what writes it
        comes behind what reads it.
        """
        outside, writer = list[tuple[bool, Layout]](), problem.writers[number]
        for place in problem.places(number):
            if place[0] not in inside:
                first = problem.operators[place[0]].rows[domains[place[0]][0]]
                outside.append((place != writer, first.layouts[place[1]]))
        behind = writer is not None and any(place[0] < writer[0] for place in problem.readers[number])
        exact = problem.charges(number) or problem.exact(number, *_open(problem, domains, number))
        return exact, behind, tuple(outside)

    def _rows(self, rows: tuple[Row, ...], domain: Sequence[int]) -> int:
        """The same number for equal rows that are open; most are the very same, which is quicker to see."""
        key = id(rows), *domain
        met = self._met.get(key)
        if met is None:
            number = self._numbers.setdefault(tuple([rows[row] for row in domain]), len(self._numbers))
            met = self._met[key] = rows, number
        return met[1]

    def get(self, key: Hashable) -> Answer | None:
        """The answer of a region with this key."""
        return self._answers.get(key)

    def keep(self, key: Hashable, answer: Answer) -> None:
        """Remember an answer that no limit has cut short."""
        self._answers[key] = answer


def _open(problem: LayoutProblem, domains: Domains, number: int) -> tuple[list[Layout], list[Layout]]:
    """The layouts in which a variable may be written, and in which it may be read."""
    writer, found = problem.writers[number], (dict[Layout, None](), dict[Layout, None]())
    for place in (writer, *problem.readers[number]):
        if place is not None:
            rows = problem.operators[place[0]].rows
            found[place != writer].update(dict.fromkeys(rows[row].layouts[place[1]] for row in domains[place[0]]))
    return list(found[0]), list(found[1])
