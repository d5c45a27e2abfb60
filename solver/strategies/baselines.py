"""What converters do instead of solving, on the same problem and priced the same way.

Both treat the views of the source model as operators that stop a layout, as the converters they come from do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import FREE, Row


def transpose(graph: Graph, boundary: Boundary, goal: Goal, _: Limit | None = None) -> Assignment:
    """A Transpose pattern around every implicit operator, as tflite2onnx 0.1 wrote it and as tf2onnx starts.

    Every tensor keeps its source layout: the reference graph as it stands. Where no row of an operator has dimensions
    of size 1 at the places of the source, as of a reduction that drops some and of an operand that is repeated, it has
    one Reshape more than that.
    """
    views = {number for number, node in enumerate(graph.nodes) if node.op in ("Transpose", "Reshape")}
    return in_source_order(Statement(graph, boundary, goal, views))


def in_source_order(statement: Statement) -> Assignment:
    """Every tensor as in the source model, at the price of what moves then: there is no quicker answer."""
    problem = statement.source()
    operators = [_as_in_source(statement, problem, number) for number in range(len(problem.operators))]
    problem = replace(problem, operators=tuple(operators))
    rows = [source_row(problem, operator) for operator in operators]
    return assigned(statement, problem, rows, "transpose")


def _as_in_source(statement: Statement, problem: LayoutProblem, number: int) -> Operator:
    """An operator with its row of the source model, to which what it demands by itself does not lead: one that keeps
    dimensions of size 1, or another form.
    """
    operator = problem.operators[number]
    if operator.node < 0:
        return operator
    wanted = source_layouts(problem, operator)
    row = operator.rows[source_row(problem, operator)]
    if not _misses(row, wanted) and row.price == FREE:
        return operator
    more = [row for row in statement.suggested(number, wanted) if row not in operator.rows]
    return replace(operator, rows=(*operator.rows, *more))


def propagate(graph: Graph, boundary: Boundary, goal: Goal, limit: Limit | None = None) -> Assignment:
    """Propagate layouts from the implicit operators through everything that can take them; whichever arrives first
    stays.

    This is tflite2onnx's algorithm (github.com/zhenhuaw-me/tflite2onnx, `Graph.propagate`), except that a Transpose
    is put where two layouts meet.
    """
    nodes = enumerate(graph.nodes)
    views = {number for number, node in nodes if node.op in ("Transpose", "Reshape") and not node.pattern}
    limit, statement = limit or unlimited(), Statement(graph, boundary, goal, views)
    limit.keep_back()
    problem = statement.layouts(limit=limit)
    rows = [source_row(problem, operator) for operator in problem.operators]
    queue: deque[tuple[int, Layout]] = deque()
    settled = {number for number, operator in enumerate(problem.operators) if not operator.follows}
    layouts: dict[int, Layout] = {}
    for number in _implicit(graph, problem):
        settled.add(number)
        _settle(problem, number, rows[number], layouts, queue)
    while queue:
        variable, layout = queue.popleft()
        for number, port in problem.places(variable):
            if number in settled:
                continue
            own = problem.operators[number].rows
            matching = [index for index, row in enumerate(own) if row.layouts[port] == layout]
            if matching:
                settled.add(number)
                rows[number] = matching[0]
                _settle(problem, number, rows[number], layouts, queue)
    return assigned(statement, problem, rows, "propagate")


def assigned(statement: Statement, problem: LayoutProblem, rows: Sequence[int], strategy: str) -> Assignment:
    """The rows that a heuristic has chosen, of which nothing is proven."""
    total, graph, rules = price(problem, rows), statement.graph, statement.rules
    views = statement.opaque_views
    return Assignment(graph, rules, problem, tuple(rows), total, statement.goal, strategy, opaque_views=views)


def _settle(
    problem: LayoutProblem, number: int, choice: int, layouts: dict[int, Layout], queue: deque[tuple[int, Layout]]
) -> None:
    """Give the variables of an operator that have no layout yet those of its row, and let them spread."""
    operator = problem.operators[number]
    for variable, layout in zip(operator.ports, operator.rows[choice].layouts, strict=True):
        if variable not in layouts:
            layouts[variable] = layout
            queue.append((variable, layout))


def _implicit(graph: Graph, problem: LayoutProblem) -> list[int]:
    """The operators that the frontend wrote between Transposes because their data format is fixed: not what is read by
    such a Transpose, or reads it, on its other side.
    """
    origins = {name: node.origin for node in graph.nodes if node.pattern for name in (*node.inputs[:1], *node.outputs)}
    found = []
    for number, operator in enumerate(problem.operators):
        if operator.node < 0 or operator.follows:
            continue
        node = graph.nodes[operator.node]
        if any(name in origins and origins[name] == node.origin for name in (*node.inputs, *node.outputs)):
            found.append(number)
    return found


def source_row(problem: LayoutProblem, operator: Operator) -> int:
    """The row in which every tensor of an operator has its source layout, the cheapest one of several."""
    if operator.node < 0:
        return 0
    wanted = source_layouts(problem, operator)

    def rank(index: int) -> tuple[int, ...]:
        row = operator.rows[index]
        price = row.price
        return _misses(row, wanted), price.transposes + price.hidden, price.reshapes, price.nanoseconds, index

    return min(range(len(operator.rows)), key=rank)


def source_layouts(problem: LayoutProblem, operator: Operator) -> dict[int, Layout]:
    """The layouts of the source model at the ports of an operator, but for constants."""
    return {
        port: problem.variables[variable].readings[name]
        for port, (variable, name) in enumerate(zip(operator.ports, operator.tensors, strict=True))
        if not problem.variables[variable].constant
    }


def _misses(row: Row, wanted: Mapping[int, Layout]) -> int:
    """How many ports of a row have another layout."""
    return sum(row.layouts[port] != layout for port, layout in wanted.items())
