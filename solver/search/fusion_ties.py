"""Moves in front of or behind what a runtime may fuse, not within it, among solutions that cost the same.

Runtimes fuse operators of single elements with what gives their input: the bias and the activation of a product or a
convolution, the parts of GELU or of a normalization. A Transpose or Reshape between two of them costs as much at either
end of such a row, but is in nobody's way there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.search.incremental_price import Changing
from layoutsolve.solver.statement.objective import TIE, Tiers, grouping, ranked
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rules.elementwise import BROADCASTING, UNARY

ELEMENTWISE = frozenset((*BROADCASTING, *UNARY))

Taken = list[tuple[int, int]]
"""Operators, and the rows that they had before."""


class _Rows:
    """A solution in which moves slide along rows of operators of single elements."""

    def __init__(self, graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> None:
        self.graph, self.problem, self.tiers = graph, problem, (*tiers, TIE)
        self.changing = Changing(problem, rows)
        self.seen: Callable[[Layout], object] = (lambda layout: layout) if grouping(tiers) else order

    def within(self, variable: int) -> bool:
        """Whether a variable is handed from one operator to one of single elements alone, and is moved in between."""
        writer, readers = self.problem.writers[variable], self.problem.readers[variable]
        if writer is None or self.problem.operators[writer[0]].node < 0 or len(readers) != 1:
            return False
        return self._is_elementwise(readers[0][0]) and self.is_moved(variable)

    def is_moved(self, variable: int) -> bool:
        """Whether some reader wants a variable in another layout than it is written in."""
        writer = self.problem.writers[variable]
        if writer is None:
            return False
        written = self.seen(self._layout(*writer))
        return any(self.seen(self._layout(*place)) != written for place in self.problem.readers[variable])

    def slide(self, variable: int) -> None:
        """Move behind all operators of single elements that read on from here, or before all that lead here, if that
        costs the same.
        """
        for along in (self._behind, self._before):
            taken: Taken = []
            if along(variable, taken):
                return
            for number, row in reversed(taken):
                self.changing.take(number, row)

    def _behind(self, variable: int, taken: Taken) -> bool:
        spent = [0] * len(self.tiers)
        while self.within(variable):
            writer, (reader, port) = self.problem.writers[variable], self.problem.readers[variable][0]
            assert writer is not None
            if not self._take(reader, port, self._layout(*writer), spent, taken):
                return False
            operator = self.problem.operators[reader]
            if len(operator.ports) != operator.inputs + 1:
                break
            variable = operator.ports[-1]
        return not any(spent) and self._none_within(taken)

    def _before(self, variable: int, taken: Taken) -> bool:
        spent = [0] * len(self.tiers)
        while self.within(variable):
            writer, reader = self.problem.writers[variable], self.problem.readers[variable][0]
            assert writer is not None
            number, port = writer
            operator = self.problem.operators[number]
            if not self._is_elementwise(number) or not self._take(number, port, self._layout(*reader), spent, taken):
                return False
            more = [each for each in operator.ports[: operator.inputs] if self.within(each)]
            if len(more) != 1:
                break
            variable = more[0]
        return not any(spent) and self._none_within(taken)

    def _none_within(self, taken: Taken) -> bool:
        """Whether nothing is moved between the operators that have other rows, and those around them."""
        around = {variable for number, _ in taken for variable in self.problem.operators[number].ports}
        return not any(map(self.within, around))

    def _take(self, number: int, port: int, layout: Layout, spent: list[int], taken: Taken) -> bool:
        """Give an operator the cheapest row with a layout at a port, and add what that costs."""
        operator, present, wanted = self.problem.operators[number], self.changing.rows[number], self.seen(layout)
        fitting = [at for at, row in enumerate(operator.rows) if self.seen(row.layouts[port]) == wanted]
        if not fitting or len(taken) > len(self.problem.operators):
            return False
        before = self._cost(number, present)
        best = min(fitting, key=lambda row: self._cost(number, row))
        spent[:] = [
            total + more - less for total, more, less in zip(spent, self._cost(number, best), before, strict=True)
        ]
        taken.append((number, present))
        return True

    def _cost(self, number: int, row: int) -> tuple[int, ...]:
        """What an operator in a row and the tensors around it cost."""
        self.changing.take(number, row)
        return ranked(self.changing.around(number), self.tiers)

    def _is_elementwise(self, number: int) -> bool:
        node = self.problem.operators[number].node
        return node >= 0 and self.graph.nodes[node].op in ELEMENTWISE

    def _layout(self, number: int, port: int) -> Layout:
        row: Row = chosen(self.problem, self.changing.rows, number)
        return row.layouts[port]


def unbroken(graph: Graph, problem: LayoutProblem, rows: Sequence[int], tiers: Tiers) -> tuple[int, ...]:
    """The rows of a solution with as little as possible moved within rows of operators that a runtime may fuse, where
    that costs nothing.
    """
    found = _Rows(graph, problem.charging(None), rows, tiers)
    for variable in problem.moving():
        if found.within(variable):
            found.slide(variable)
    return tuple(found.changing.rows)
