"""A component of a layout problem as a weighted constraint satisfaction problem whose constraints are between two
variables: the PBQP, with one more variable for each order in which a tensor may be read.

A variable is an operator, whose values are its alternatives, or an *order* of a tensor. Its values say how it is had:
it is not read, it is as the tensor is written, or it is moved, from the layouts from which a Transpose costs alike.
Pairs of values that exclude each other state that an order that an operator reads is had, and from what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.compare.formulations import Task
from layoutsolve.solver.search.formulation import by_order
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.theory.layout import Layout, order

FORMAT, VERSION = "layout-assignment", 1

Vector = tuple[int, ...]
"""What something costs, by level: vectors are compared lexicographically."""


@dataclass(frozen=True)
class Variable:
    """A variable and what each of its values costs."""

    name: str
    costs: Sequence[Vector]


@dataclass(frozen=True)
class Never:
    """Values of one variable and values of another, which no assignment has at once."""

    first: int
    values: Sequence[int]
    second: int
    others: Sequence[int]


@dataclass(frozen=True)
class Instance:
    """Variables, the pairs of values that exclude each other, and the names of the levels of what they cost."""

    name: str
    levels: Sequence[str]
    variables: Sequence[Variable]
    never: Sequence[Never]

    @property
    def values(self) -> int:
        """How many values all variables have."""
        return sum(len(variable.costs) for variable in self.variables)

    def cost(self, values: Sequence[int]) -> Vector | None:
        """What an assignment costs, None of one that has a pair which excludes each other."""
        if any(values[each.first] in each.values and values[each.second] in each.others for each in self.never):
            return None
        costs = [variable.costs[value] for variable, value in zip(self.variables, values, strict=True)]
        return tuple(map(sum, zip(*costs, strict=True)))

    def document(self) -> dict[str, Any]:
        """The instance as JSON has it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "levels": list(self.levels),
            "variables": [{"name": each.name, "costs": [list(cost) for cost in each.costs]} for each in self.variables],
            "never": [[each.first, list(each.values), each.second, list(each.others)] for each in self.never],
        }


@dataclass
class Statement:
    """States a component. ``operators`` are the places of its operators among the variables, ``orders`` what the values
    of the other variables stand for.
    """

    task: Task
    variables: list[Variable] = field(default_factory=list)
    never: list[Never] = field(default_factory=list)
    operators: dict[int, int] = field(default_factory=dict)
    orders: dict[int, tuple[int, Mapping[int, Sequence[int]], Sequence[frozenset[Layout]]]] = field(
        default_factory=dict
    )

    def instance(self, name: str) -> Instance:
        """The whole component."""
        for number in self.task.component.operators:
            self._operator(number)
        for variable in self.task.component.variables:
            if self.task.problem.writers[variable] is not None:
                self._tensor(variable)
        return Instance(name, [" + ".join(level) for level in self.task.levels], self.variables, self.never)

    def assignment(self, rows: Mapping[int, int]) -> list[int]:
        """The values of all variables, given the row of each operator."""
        values = [0] * len(self.variables)
        for number, place in self.operators.items():
            values[place] = list(self.task.domains[number]).index(rows[number])
        for place, (tensor, wants, ways) in self.orders.items():
            if not wants or any(values[each] in wanted for each, wanted in wants.items()):
                written = self._written(tensor, rows)
                values[place] = next(number for number, way in enumerate(ways) if written in way)
        return values

    def _written(self, tensor: int, rows: Mapping[int, int]) -> Layout:
        writer = self.task.problem.writers[tensor]
        assert writer is not None, "constants have no variables"
        number, port = writer
        row = rows.get(number, self.task.domains[number][0])
        return self.task.problem.operators[number].rows[row].layouts[port]

    def _operator(self, number: int) -> None:
        operator = self.task.problem.operators[number]
        costs = [ranked(operator.rows[row].price, self.task.levels) for row in self.task.domains[number]]
        self.operators[number] = len(self.variables)
        self.variables.append(Variable(f"operator {number}", costs))

    def _layouts(self, place: tuple[int, int]) -> list[Layout]:
        """The layouts of an operator's port, by value."""
        number, port = place
        return [self.task.problem.operators[number].rows[row].layouts[port] for row in self.task.domains[number]]

    def _tensor(self, tensor: int) -> None:
        """The orders in which a tensor may be read."""
        problem = self.task.problem
        writer = problem.writers[tensor]
        assert writer is not None, "constants have no variables"
        sources, readers = self._layouts(writer), problem.readers[tensor]
        layouts = sorted({layout for place in readers for layout in self._layouts(place)})
        for atoms, members in sorted(by_order(layouts).items()):
            wants = [
                (number, [value for value, each in enumerate(self._layouts((number, port))) if order(each) == atoms])
                for number, port in readers
            ]
            (prices,) = zip(*problem.move_prices(tensor, sources, members[:1], reshapes=False), strict=True)
            ways: dict[Vector, set[Layout]] = {}
            for source, price in zip(sources, prices, strict=True):
                cost = (0,) * len(self.task.levels) if order(source) == atoms else ranked(price, self.task.levels)
                ways.setdefault(cost, set()).add(source)
            self._order(tensor, writer[0], sources, [each for each in wants if each[1]], ways)

    def _order(
        self,
        tensor: int,
        writer: int,
        sources: Sequence[Layout],
        wants: Sequence[tuple[int, Sequence[int]]],
        ways: Mapping[Vector, set[Layout]],
    ) -> None:
        """One order of a tensor: value 0 where it is not read, unless it always is, then one for each cost."""
        place = len(self.variables)
        always = any(number not in self.operators for number, _ in wants)
        costs = [] if always else [(0,) * len(self.task.levels)]
        sets = [] if always else [frozenset[Layout]()]
        choosing = {} if always else {self.operators[number]: list[int]() for number, _ in wants}
        for number, values in wants if not always else ():
            choosing[self.operators[number]] += values
        for cost, layouts in sorted(ways.items()):
            costs.append(cost)
            sets.append(frozenset(layouts))
        self.variables.append(Variable(f"order {place - len(self.operators)} of tensor {tensor}", costs))
        self.orders[place] = (tensor, choosing, sets)
        for reader, values in choosing.items():
            self.never.append(Never(reader, sorted(set(values)), place, [0]))
        for value, layouts in enumerate(sets):
            others = [each for each, source in enumerate(sources) if source not in layouts]
            if layouts and others and writer in self.operators:
                self.never.append(Never(self.operators[writer], others, place, [value]))
