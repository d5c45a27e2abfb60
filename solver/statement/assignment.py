"""Assignments: a row for every operator, and what is proven of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from layoutsolve.graph import Graph
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Rule


@dataclass(frozen=True)
class Part:
    """What is known about one component: its operators, how many rows they have to choose from (``booleans``), the
    first tier of its price and a proven lower bound on that.

    ``method`` is what the bound comes from: 'enumeration', 'cp-sat' (or the relaxation that is solved before) or
    'min cut'.
    """

    operators: tuple[int, ...]
    booleans: int
    value: int
    bound: int
    method: str


@dataclass(frozen=True)
class Assignment:
    """A solution: the number of the chosen row of each operator, its price, and what is proven about it.

    ``graph`` is the one that the operators' numbers of nodes are about. It is not always the one that was to be solved:
    concatenations may be in steps (:mod:`layoutsolve.solver.search.concat_steps`). ``rules`` says how its nodes are
    written, by number. Assignments are compared without the two: all else is plain data.
    ``bound`` is a proven lower bound on the first tier of the objective; ``status`` is 'optimal' where every tier is
    proven, else 'feasible'. ``components`` counts the independent parts the problem fell into after presolve,
    ``branched`` the Boolean variables that reached the solver. ``parts`` has what is known about each component; it
    is empty for strategies that prove nothing. ``ended`` is the limit that cut the search off: 'work', 'seconds' or ''
    for none.
    """

    graph: Graph = field(compare=False, repr=False)
    rules: Mapping[int, Rule] = field(compare=False, repr=False)
    problem: LayoutProblem
    rows: tuple[int, ...]
    price: Price
    goal: Goal
    strategy: str
    status: str
    bound: int
    components: int = 0
    branched: int = 0
    parts: tuple[Part, ...] = ()
    ended: str = ""

    @property
    def objective(self) -> str:
        """The objective that was minimised."""
        return self.goal.objective

    @cached_property
    def ends(self) -> dict[tuple[str, bool], tuple[Layout, Layout]]:
        """The logical and the stored layout of each end and each explicit layout, by the tensor's name and whether
        it reads (an output, an explicit layout) or writes (an input).
        """
        found = {}
        for number, operator in enumerate(self.problem.operators):
            if operator.end:
                logical = self.problem.variables[operator.ports[0]].readings[operator.end]
                found[operator.end, bool(operator.inputs)] = logical, self.row(number).layouts[0]
        return found

    def row(self, operator: int) -> Row:
        """The chosen row of an operator."""
        return self.problem.operators[operator].rows[self.rows[operator]]

    def written(self, variable: int) -> Layout | None:
        """The layout in which a variable is produced, None for a constant."""
        writer = self.problem.writers[variable]
        return None if writer is None else self.row(writer[0]).layouts[writer[1]]

    def read(self, variable: int) -> list[Layout]:
        """The layouts in which a variable is read, without repetition, in a fixed order."""
        return sorted({self.row(number).layouts[port] for number, port in self.problem.readers[variable]})
