"""Strategy ``push``: Transposes are pushed through operators, as ONNX Runtime's transpose optimiser does it.

Every operator starts in its source layout. One sweep in the order of execution looks at each operator that can follow
a layout: where an input is produced in another order than it is read in, a Transpose is in front of it. It is pushed
through to the outputs if the estimate of ONNX Runtime says that this is likely to pay off:

* an input costs what it moves if it would then need a Transpose, saves that if a Transpose that only such operators
  read would go away, and is free if one Transpose replaces another;
* where the inputs save something, outputs cost the most that one of them moves, unless a path leads from an output to
  another Transpose, with which it may meet.

As there, a tensor moves as much as it has dimensions other than 1; a move counts once. What differs from ONNX Runtime
(onnxruntime/core/optimizer/transpose_optimization):

* Sweeps are repeated until nothing moves, ten at most, as often as ONNX Runtime runs its optimisers by default.
* Views that keep the sequence of dimensions other than 1 are no obstacle; atoms of dimensions are told apart.
* Quantized tensors are moved in their stored form, so that nothing has to be repaired around DequantizeLinear.
"""

from __future__ import annotations

from layoutsolve.ir.graph import Graph, Node
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.baselines import assigned, source_row
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import Row

SWEEPS = 10


def push(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit | None = None) -> Assignment:
    """Push every Transpose as far as it seems to pay off, while the limit lasts."""
    limit = limit or unlimited()
    stops = {
        number for number, node in enumerate(graph.nodes) if node.op == "Reshape" and not _keeps_dimensions(graph, node)
    }
    statement = Statement(graph, boundary, goal, stops)
    limit.keep_back()
    problem = statement.layouts(limit=limit)
    sweep = _Sweep(problem, [source_row(problem, operator) for operator in problem.operators])
    for _ in range(SWEEPS):
        if limit.over or not sweep.run():
            break
    return assigned(statement, problem, sweep.rows, "push")


def _keeps_dimensions(graph: Graph, node: Node) -> bool:
    """Whether a Reshape only adds, drops or shifts dimensions of size 1."""
    shapes = (graph.values[node.inputs[0]].shape, graph.values[node.outputs[0]].shape)
    before, after = ([dim for dim in shape if dim != 1] for shape in shapes)
    return before == after


class _Sweep:
    """The rows that the operators have at the moment, and one sweep over them after the other."""

    def __init__(self, problem: LayoutProblem, rows: list[int]) -> None:
        self.problem, self.rows = problem, rows
        self.handled = [operator.follows for operator in problem.operators]
        self.kept = self._kept()
        self.leading: set[int] = set()
        self.written: dict[int, Layout] = {}
        for number in range(len(rows)):
            self._choose(number, rows[number])

    def run(self) -> bool:
        """Visit every operator once, in the order of execution; whether anything changed."""
        self.leading = self._leading_to_transposes()
        changed = False
        for number, operator in enumerate(self.problem.operators):
            if not self.handled[number]:
                continue
            for port in range(operator.inputs):
                if self._moved(number, port) and self._push(number, port):
                    changed = True
                    break
        return changed

    def _push(self, number: int, port: int) -> bool:
        """Push the Transpose in front of a port through the operator if that is likely to pay off."""
        wanted = self.written[self.problem.operators[number].ports[port]]
        rows = self.problem.operators[number].rows
        fitting = [index for index, row in enumerate(rows) if row.layouts[port] == wanted]
        best = min(fitting, key=lambda index: (self._estimate(number, rows[index]), index), default=None)
        if best is None or self._estimate(number, rows[best]) >= 0:
            return False
        self._choose(number, best)
        return True

    def _choose(self, number: int, row: int) -> None:
        """Run an operator in a row."""
        operator = self.problem.operators[number]
        self.rows[number], outputs = row, slice(operator.inputs, None)
        self.written.update(zip(operator.ports[outputs], operator.rows[row].layouts[outputs], strict=True))

    def _estimate(self, number: int, row: Row) -> int:
        """ONNX Runtime's cost of running an operator in another row, negative where that is beneficial."""
        operator, present = self.problem.operators[number], chosen(self.problem, self.rows, number)
        cost = 0
        for port in range(operator.inputs):
            if not self.problem.variables[operator.ports[port]].constant:
                cost += self._input(operator.ports[port], present.layouts[port], row.layouts[port])
        outputs = operator.ports[operator.inputs :]
        if cost < 0 and not self.leading.intersection(outputs):
            cost += max(self._dimensions(variable) for variable in outputs)
        return cost

    def _input(self, variable: int, present: Layout, wanted: Layout) -> int:
        written = order(self.written[variable])
        if order(present) == order(wanted):
            return 0
        if written == order(wanted):
            removable = (variable, order(present)) not in self.kept  # only what a Transpose passes reads it so
            return -self._dimensions(variable) if removable else 0
        return self._dimensions(variable) if written == order(present) else 0

    def _kept(self) -> set[tuple[int, Order]]:
        """The variables with the orders in which operators read them that no Transpose can be pushed through."""
        return {
            (variable, order(layout))
            for number, operator in enumerate(self.problem.operators)
            if not self.handled[number]
            for variable, layout in zip(
                operator.ports[: operator.inputs], chosen(self.problem, self.rows, number).layouts, strict=False
            )
        }

    def _leading_to_transposes(self) -> set[int]:
        """The variables from which a path through operators that follow a layout leads to a Transpose."""
        leading: set[int] = set()
        for number in reversed(range(len(self.problem.operators))):
            operator = self.problem.operators[number]
            follows = self.handled[number] and leading.intersection(operator.ports[operator.inputs :])
            leading.update(
                variable
                for port, variable in enumerate(operator.ports[: operator.inputs])
                if follows or self._moved(number, port)
            )
        return leading

    def _moved(self, number: int, port: int) -> bool:
        """Whether a Transpose is in front of an input."""
        variable = self.problem.operators[number].ports[port]
        if self.problem.variables[variable].constant:
            return False
        read = chosen(self.problem, self.rows, number).layouts[port]
        return order(self.written[variable]) != order(read)

    def _dimensions(self, variable: int) -> int:
        return len(self.problem.variables[variable].sizes)
