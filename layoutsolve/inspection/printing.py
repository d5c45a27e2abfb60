"""What each stage of a conversion makes, as text: the same for the same model, to be read and compared.

A stored dimension is written as the atoms that it is made of, ``b*c`` for one of two and ``1`` for one of none. Atoms
are letters, and each variable has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from string import ascii_lowercase
from typing import Any

import numpy as np

from layoutsolve.base.wording import printable
from layoutsolve.emit import apply
from layoutsolve.ir.graph import OPENING, Array, Graph, Node, Quant, Region, Value
from layoutsolve.solver import Boundary
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.objective import coarse_levels
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Rule
from layoutsolve.solver.theory.variable import Variable

Rules = Mapping[int, Rule]
"""The rule of each node, by number."""

STAGES = ("graph", "problem", "assignment", "applied")
"""What there is to print: the reference graph, the problem as it is searched first, the assignment, and the graph with
the assignment applied.
"""

INLINE = 8
"""Constants of at most so many integers are written out where they are read."""


def stage_text(stage: str, graph: Graph, assignment: Assignment, boundary: Boundary) -> str:
    """Text of one of the :data:`STAGES` of a conversion."""
    if stage == "graph":
        return graph_text(graph)
    if stage == "applied":
        return graph_text(apply(assignment))
    if stage == "assignment":
        return assignment_text(assignment)
    statement = Statement(assignment.graph, boundary, assignment.goal)
    problem = statement.layouts if coarse_levels(statement.goal.levels) is None else statement.orders
    return problem_text(statement.graph, problem(limit=Limit()), statement.rules)


def graph_text(graph: Graph) -> str:
    """Text of a graph: its inputs and outputs, the subgraphs of control flow, and one line per node with its outputs
    and its source operator.
    """
    regions = _regions(graph)
    lines = [f"graph {graph.name}"]
    lines += [f"input {_value(graph.values[name])}{_public(graph, name)}" for name in graph.inputs]
    lines += [f"output {_value(graph.values[name])}{_public(graph, name)}" for name in graph.outputs]
    for region, name in regions.items():
        outer = f" in {regions[region.parent]}" if region.parent is not None else ""
        lines.append(f"subgraph {name}: {region.role}{outer}")
    return _text([*lines, *(_node(graph, node, regions) for node in graph.nodes)])


def problem_text(graph: Graph, problem: LayoutProblem, rules: Rules) -> str:
    """A layout problem: its variables with the layouts of their readings, and its operators with all their rows. Where
    a rule has several ways to run an operator, a row that is not of the first one names its own.
    """
    lines = [f"problem{' (capped)' if problem.capped else ''}"]
    for number, variable in enumerate(problem.variables):
        lines += _variable(number, variable)
    for number, operator in enumerate(problem.operators):
        lines.append(f"p{number} {_operator(graph, operator)}")
        lines += [f"  {_row(row, operator, rules)}" for row in operator.rows]
    return _text(lines)


def assignment_text(assignment: Assignment) -> str:
    """An assignment: what is proven, what it costs, the alternative of each operator, and the moves of each
    variable.
    """
    problem, rows = assignment.problem, assignment.rows
    lines = [
        f"assignment by {assignment.strategy} for {assignment.objective}",
        f"status: {assignment.status}, bound {assignment.bound}",
        *(f"  {tier}" for tier in assignment.tiers),
        f"price: {_price(assignment.price) or 'nothing'}",
    ]
    for number, operator in enumerate(problem.operators):
        lines += [
            f"p{number} {_operator(assignment.graph, operator)}",
            f"  {_row(assignment.row(number), operator, assignment.rules)}",
        ]
    for number in problem.moving():
        written, cost = assignment.written(number), _price(price_of_variable(problem, rows, number))
        for wanted in assignment.read(number):
            if written is not None and wanted != written:
                moved = f"{_layout(written)} to {_layout(wanted)}"
                lines.append(f"move v{number} {problem.variables[number].title}: {moved}")
        if cost:
            lines.append(f"  {cost}")
    return _text(lines)


def _text(lines: Iterable[str]) -> str:
    """The lines, none of which a name in the model can break."""
    return "\n".join(map(printable, lines))


def _regions(graph: Graph) -> dict[Region, str]:
    """A name for each region, in the order in which they are opened."""
    opened = (region for node in graph.nodes if node.op in OPENING for region in node.regions)
    return {region: f"r{number}" for number, region in enumerate(opened)}


def _public(graph: Graph, name: str) -> str:
    return f" as {graph.names[name]}" if name in graph.names else ""


def _value(value: Value) -> str:
    return f"{value.name}: {_kind(value)}"


def _kind(value: Value) -> str:
    quantized = f" {_quant(value.quant)}" if value.quant is not None else ""
    return f"{value.dtype}[{','.join(map(str, value.shape))}]{quantized}"


def _quant(quant: Quant) -> str:
    if quant.axis is not None:
        blocks = f" in blocks of {quant.block}" if quant.block else ""
        return f"scales along {quant.axis}{blocks}"
    return f"scale {quant.scale.item():g} zero {quant.zero_point.item()}"


def _node(graph: Graph, node: Node, regions: dict[Region, str]) -> str:
    where = f"{regions[node.region]} " if node.region is not None else ""
    given = ", ".join(_value(graph.values[name]) if name else "-" for name in node.outputs) or "-"
    operands = [_operand(graph, name) for name in node.inputs]
    operands += [f"{key}={_attribute(value)}" for key, value in sorted(node.attributes.items())]
    opened = "".join(f" {regions[region]}" for region in node.regions)
    facts = [word for word, holds in (("storage", node.storage), ("pattern", node.pattern)) if holds]
    facts += [str(node.origin)] if node.origin is not None else []
    operator = f"{node.domain}:{node.op}" if node.domain else node.op
    remark = f"  # {', '.join(facts)}" if facts else ""
    return f"  {where}{given} = {operator}{opened}({', '.join(operands)}){remark}"


def _operand(graph: Graph, name: str) -> str:
    if not name:
        return "-"
    value = graph.values[name]
    if value.data is None:
        return name
    if _is_short(value.data):
        return f"{value.dtype} {_attribute(value.data.tolist())}"
    return f"constant {_value(value)}"


def _is_short(data: Array) -> bool:
    """Whether numbers are written out: single ones, and the few integers of a shape or of axes."""
    return data.dtype.kind in "biuf" and data.size <= (1 if data.dtype.kind == "f" else INLINE)


def _attribute(value: Any) -> str:
    if isinstance(value, np.ndarray):
        written = _attribute(value.tolist()) if _is_short(value) else f"[{','.join(map(str, value.shape))}]"
        return f"{value.dtype} {written}"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_attribute, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _variable(number: int, variable: Variable) -> Iterator[str]:
    sizes = "".join(f" {_atom(atom)}={size}" for atom, size in enumerate(variable.sizes))
    kind = "constant" if variable.constant else f"{variable.bytes} bytes"
    yield f"v{number} {variable.title}:{sizes} ({kind})"
    yield from (f"  {name}: {_layout(layout)}" for name, layout in variable.readings.items())


def _operator(graph: Graph, operator: Operator) -> str:
    read, written = operator.ports[: operator.inputs], operator.ports[operator.inputs :]
    kind = f"{graph.nodes[operator.node].op} of {operator.title}" if operator.node >= 0 else operator.title
    return f"{kind}: {_ports(read)} -> {_ports(written)}"


def _ports(variables: Iterable[int]) -> str:
    return ", ".join(f"v{variable}" for variable in variables) or "-"


def _row(row: Row, operator: Operator, rules: Rules) -> str:
    inputs = operator.inputs
    remarks = [_way(row, rules[operator.node])] if row.form else []
    remarks += [_price(row.price)] if _price(row.price) else []
    text = f"{_layouts(row.layouts[:inputs])} -> {_layouts(row.layouts[inputs:])}"
    return f"{text}  # {', '.join(remarks)}" if remarks else text


def _way(row: Row, rule: Rule) -> str:
    kind = rule.ways[row.form].kind
    return kind if isinstance(kind, str) and kind else f"way {row.form}"


def _layouts(layouts: Sequence[Layout]) -> str:
    return ", ".join(map(_layout, layouts)) or "-"


def _layout(layout: Layout) -> str:
    return " ".join("*".join(map(_atom, group)) or "1" for group in layout) or "scalar"


def _atom(number: int) -> str:
    letter, round_ = ascii_lowercase[number % 26], number // 26
    return f"{letter}{round_}" if round_ else letter


def _price(price: Price) -> str:
    return ", ".join(f"{name} {number}" for name, number in asdict(price).items() if number)
