"""The fewest steps of concatenations (:mod:`layoutsolve.solver.statement.concat_steps`) among solutions that cost the
same.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.search.incremental_price import Changing
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.problem import LayoutProblem, chosen


class _Steps:
    """The steps of concatenations in a solution, and the operators that take part in them."""

    def __init__(self, graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> None:
        self.problem, self.tiers = problem, tiers
        self.changing = Changing(problem, rows)
        self.between: set[int] = set()
        self.involved: dict[int, None] = {}
        joins = {
            number
            for number, operator in enumerate(problem.operators)
            if operator.node >= 0 and graph.nodes[operator.node].op == "Concat"
        }
        for number in sorted(joins):
            variable = problem.operators[number].ports[-1]
            if [reader in joins for reader, _ in problem.readers[variable]] == [True]:
                self.between.add(variable)
                self.involved.update({number: None, problem.readers[variable][0][0]: None})

    def settle(self, number: int) -> None:
        """Give an operator the row with the fewest steps around it among the cheapest."""
        present = self.changing.rows[number]
        others = [row for row in range(len(self.problem.operators[number].rows)) if row != present]
        if others:
            self.changing.take(number, min([present, *others], key=lambda row: self._cost(number, row)))

    def _cost(self, number: int, row: int) -> tuple[int, ...]:
        """What an operator and the tensors around it cost in a row, and how many steps are left there."""
        self.changing.take(number, row)
        between = self.between.intersection(self.problem.operators[number].ports)
        steps = sum(self._stays(self.changing.rows, each) for each in between)
        return (*ranked(self.changing.around(number), self.tiers), steps)

    def _stays(self, rows: Sequence[int], variable: int) -> bool:
        """Whether something is moved after a step."""
        places = (self.problem.writers[variable], self.problem.readers[variable][0])
        layouts = {chosen(self.problem, rows, place[0]).layouts[place[1]] for place in places if place}
        return len(layouts) > 1


def settled(graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> tuple[int, ...]:
    """The rows of a solution with fewer steps that are operators of their own, where that costs nothing."""
    steps = _Steps(graph, problem, rows, tiers)
    for number in steps.involved:
        steps.settle(number)
    return tuple(steps.changing.rows)
