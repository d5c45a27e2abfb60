"""The fewest steps of concatenations (:mod:`layoutsolve.solver.statement.concat_steps`) among solutions that cost the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from layoutsolve.graph import Graph
from layoutsolve.solver.statement.objective import Tiers, ranked
from layoutsolve.solver.statement.price import price_of_moves
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import FREE, Price


class _Steps:
    """The steps of concatenations in a solution, and the operators that take part in them."""

    def __init__(self, graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> None:
        self.problem, self.rows, self.tiers = problem, list(rows), tiers
        self.wanted: dict[int, Counter[Layout]] = {}
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
        present = self.rows[number]
        others = [row for row in range(len(self.problem.operators[number].rows)) if row != present]
        if others:
            self._take(number, min([present, *others], key=lambda row: self._cost(number, row)))

    def _take(self, number: int, row: int) -> None:
        """Change the row of an operator, and what is wanted of the tensors that it reads."""
        operator = self.problem.operators[number]
        for change, each in ((-1, self.rows[number]), (1, row)):
            for port in range(operator.inputs):
                wanted, layout = self._wanted(operator.ports[port]), operator.rows[each].layouts[port]
                wanted[layout] += change
                if not wanted[layout]:
                    del wanted[layout]
        self.rows[number] = row

    def _wanted(self, variable: int) -> Counter[Layout]:
        """How many readers want a tensor in each layout."""
        if variable not in self.wanted:
            places = self.problem.readers[variable]
            self.wanted[variable] = Counter(
                chosen(self.problem, self.rows, each).layouts[port] for each, port in places
            )
        return self.wanted[variable]

    def _price(self, variable: int) -> Price:
        writer = self.problem.writers[variable]
        if writer is None:
            return FREE
        written = chosen(self.problem, self.rows, writer[0]).layouts[writer[1]]
        return price_of_moves(self.problem, variable, written, self._wanted(variable).keys())

    def _cost(self, number: int, row: int) -> tuple[int, ...]:
        """What an operator and the tensors around it cost in a row, and how many steps are left there."""
        rows, problem = self.rows, self.problem
        self._take(number, row)
        around = [variable for variable in set(problem.operators[number].ports) if problem.writers[variable]]
        total = sum((self._price(each) for each in around), chosen(problem, rows, number).price)
        return (*ranked(total, self.tiers), sum(self._stays(rows, each) for each in self.between.intersection(around)))

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
    return tuple(steps.rows)
