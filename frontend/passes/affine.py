"""Chains of sums and products with constants, as one product and one sum.

Normalisations with constants that no convolution could take are exported as a difference, two products and a sum.
Runtimes that know a normalisation compute it as a product and a sum, with constants made of all of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.ir.graph import Array, Graph, Node, Value
from layoutsolve.ir.names import Names

LENGTH = 3
"""The operators from which on two in their place are fewer."""

FAR = 64.0
"""How many times its own scale a number may be moved by before it is scaled: what is left of it loses as many parts."""

_OPERATORS = frozenset(("Add", "Div", "Mul", "Sub"))


@dataclass(frozen=True)
class _Affine:
    """``factor * x + offset``, in numbers of 64 bits; ``moved`` is the most that ``x`` was moved by when it was first
    scaled, 0 before.
    """

    factor: Array
    offset: Array
    moved: float = 0.0

    def then(self, other: _Affine) -> _Affine:
        factor, offset = other.factor * self.factor, other.factor * self.offset
        moved = self.moved or (float(np.abs(offset).max(initial=0)) if (other.factor != 1).any() else 0.0)
        return _Affine(factor, offset + other.offset, moved)


def folded(graph: Graph) -> Graph:
    """The same graph with a product and a sum in place of rows of three operators and more on floats, each of which has
    one constant.
    """
    rows = [(given, row) for given, row in _rows(graph) if len(row) >= LENGTH]
    made = {row[-1]: (given, whole) for given, row in rows if (whole := _composed(graph, row)) is not None}
    return substituted(graph, made, _nodes_of)


def _nodes_of(last: Node, found: tuple[str, _Affine], values: dict[str, Value], taken: Names) -> Iterator[Node]:
    """The product and the sum in place of the last operator of a row, as far as they change what is given."""
    (given, whole), result = found, last.outputs[0]
    steps = [("Add", "offset", whole.offset)] if whole.offset.any() else []
    if (whole.factor != 1).any() or not steps:
        steps.insert(0, ("Mul", "factor", whole.factor))
    for number, (op, title, numbers) in enumerate(steps, 1):
        constant = taken.derived(result, title)
        values[constant] = Value(constant, "float32", numbers.shape, data=np.asarray(numbers, np.float32))
        target = result
        if number < len(steps):
            target = taken.derived(result, "scaled")
            values[target] = replace(values[result], name=target)
        yield replace(last, op=op, inputs=(given, constant), outputs=(target,), attributes={})
        given = target


def _rows(graph: Graph) -> Iterable[tuple[str, list[Node]]]:
    """The rows of operators with one constant each, as long as they are, with what each row computes with."""
    reads, rows = graph.reads + Counter(graph.outputs), dict[str, tuple[str, list[Node]]]()
    for node in graph.nodes:
        if name := _operand(graph, node):
            before = graph.producer(name)
            alone = before is not None and reads[name] == 1 and before.region == node.region
            given, row = rows.pop(name, (name, [])) if alone else (name, [])
            row.append(node)
            rows[node.outputs[0]] = given, row
    return rows.values()


def _operand(graph: Graph, node: Node) -> str:
    """What a node of floats computes with, as large as its result, where a constant is beside it; '' for others."""
    if node.op not in _OPERATORS or node.domain or node.storage:
        return ""
    left, right, result = (graph.values[name] for name in (*node.inputs, node.outputs[0]))
    x, constant = (right, left) if right.data is None else (left, right)
    real = all(each.in_floats for each in (left, right, result))
    if not real or x.data is not None or constant.data is None or x.shape != result.shape:
        return ""
    return "" if node.op == "Div" and constant is left else x.name


def _affine(graph: Graph, node: Node) -> _Affine:
    """What a node with one constant computes."""
    (numbers,) = (data.astype(np.float64) for name in node.inputs if (data := graph.values[name].data) is not None)
    one, none = np.ones(()), np.zeros(())
    if node.op == "Add":
        return _Affine(one, numbers)
    if node.op == "Sub":
        return _Affine(one, -numbers) if graph.values[node.inputs[0]].data is None else _Affine(-one, numbers)
    with np.errstate(all="ignore"):
        return _Affine(numbers if node.op == "Mul" else 1 / numbers, none)


def _composed(graph: Graph, row: list[Node]) -> _Affine | None:
    """What a row computes as a whole; None where its constants would be larger than those that it has, not finite, or
    where too much would cancel.
    """
    parts = [_affine(graph, node) for node in row]
    with np.errstate(all="ignore"):
        found = reduce(_Affine.then, parts)
    largest = max(max(part.factor.size, part.offset.size) for part in parts)
    alone = max(found.factor.size, found.offset.size) <= largest
    numbers = np.concatenate([found.factor.reshape(-1), found.offset.reshape(-1)]).astype(np.float32)
    return found if alone and np.isfinite(numbers).all() and found.moved <= FAR else None
