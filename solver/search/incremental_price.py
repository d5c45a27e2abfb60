"""Rows that are changed one operator at a time, and what that costs around it: for ties that are decided last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from layoutsolve.solver.statement.price import price_of_moves
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import FREE, Price


class Changing:
    """An alternative for each operator. A variable may have very many readers: how many want each layout is kept count
    of.
    """

    def __init__(self, problem: LayoutProblem, rows: Sequence[int]) -> None:
        self.problem, self.rows = problem, list(rows)
        self._counts: dict[int, Counter[Layout]] = {}

    def take(self, number: int, row: int) -> None:
        """Change the alternative of an operator, and what is wanted of the tensors that it reads."""
        operator = self.problem.operators[number]
        if row == self.rows[number]:
            return
        for change, each in ((-1, self.rows[number]), (1, row)):
            for port in range(operator.inputs):
                wanted, layout = self._wanted(operator.ports[port]), operator.rows[each].layouts[port]
                wanted[layout] += change
                if not wanted[layout]:
                    del wanted[layout]
        self.rows[number] = row

    def around(self, number: int) -> Price:
        """What an operator costs in its row, with the moves of all tensors that it reads or writes."""
        total = chosen(self.problem, self.rows, number).price
        for variable in set(self.problem.operators[number].ports):
            writer = self.problem.writers[variable]
            if writer is not None:
                written = chosen(self.problem, self.rows, writer[0]).layouts[writer[1]]
                moved = price_of_moves(self.problem, variable, written, self._wanted(variable).keys())
                total = total if moved is FREE else total + moved
        return total

    def _wanted(self, variable: int) -> Counter[Layout]:
        """How many readers want a tensor in each layout."""
        if variable not in self._counts:
            places = self.problem.readers[variable]
            self._counts[variable] = Counter(
                chosen(self.problem, self.rows, each).layouts[port] for each, port in places
            )
        return self._counts[variable]
