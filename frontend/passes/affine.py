"""Chains of sums and products with constants, as one product and one sum.

Normalisations with constants that no convolution could take are exported as a difference, two products and a sum.
Runtimes that know a normalisation compute it as a product and a sum, with constants made of all of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live import live, used
from layoutsolve.graph import Array, Graph, Node, Value
from layoutsolve.names import Names
from layoutsolve.records import dataclass

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
    ends = {node: chain for node, chain in _chains(graph).items() if len(chain) >= LENGTH}
    made = {node: found for node, chain in ends.items() if (found := _composed(graph, chain)) is not None}
    if not made:
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for node in graph.nodes:
        if node not in made:
            nodes.append(node)
            continue
        given, result = _operand(graph, ends[node][0]), node.outputs[0]
        steps = [(op, numbers) for op, numbers, none in (("Mul", made[node].factor, 1), ("Add", made[node].offset, 0))
                 if (numbers != none).any() or (op == "Mul" and not made[node].offset.any())]  # fmt: skip
        for op, numbers in steps:
            constant = taken.derived(result, "factor" if op == "Mul" else "offset")
            values[constant] = Value(constant, "float32", numbers.shape, data=np.asarray(numbers, np.float32))
            target = result
            if op != steps[-1][0]:
                target = taken.derived(result, "scaled")
                values[target] = replace(values[result], name=target)
            nodes.append(replace(node, op=op, inputs=(given, constant), outputs=(target,), attributes={}))
            given = target
    return used(graph, live(nodes, graph.outputs, values, graph.formulas), values)


def _chains(graph: Graph) -> dict[Node, list[Node]]:
    """The operators with one constant that end a row of such, each with all of its row."""
    reads, chains = graph.reads + Counter(graph.outputs), dict[Node, list[Node]]()
    by_result = dict[str, Node]()
    for node in graph.nodes:
        if node.op in _OPERATORS and not node.domain and not node.storage and _affine(graph, node) is not None:
            before = by_result.get(_operand(graph, node))
            alone = before is not None and reads[before.outputs[0]] == 1 and before.region == node.region
            chain = chains.pop(before, []) if before is not None and alone else []
            chain.append(node)
            chains[node] = chain
            by_result[node.outputs[0]] = node
    return chains


def _operand(graph: Graph, node: Node) -> str:
    """What a node with one constant computes with."""
    return next(name for name in node.inputs if graph.values[name].data is None)


def _affine(graph: Graph, node: Node) -> _Affine | None:
    """What a node of floats with one constant computes; None for others, and what is larger than its operand."""
    left, right, result = (graph.values[name] for name in (*node.inputs, node.outputs[0]))
    x, constant = (right, left) if right.data is None else (left, right)
    real = all(each.dtype == "float32" and each.quant is None for each in (left, right, result))
    if not real or x.data is not None or constant.data is None or x.shape != result.shape:
        return None
    if node.op == "Div" and constant is left:
        return None
    numbers = constant.data.astype(np.float64)
    one, none = np.ones(()), np.zeros(())
    if node.op == "Add":
        return _Affine(one, numbers)
    if node.op == "Sub":
        return _Affine(one, -numbers) if constant is right else _Affine(-one, numbers)
    with np.errstate(all="ignore"):
        return _Affine(numbers if node.op == "Mul" else 1 / numbers, none)


def _composed(graph: Graph, chain: list[Node]) -> _Affine | None:
    """What a row computes as a whole; None where its constants would be larger than those that it has, not finite, or
    where too much would cancel.
    """
    parts = [part for node in chain if (part := _affine(graph, node)) is not None]
    found = parts[0]
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            found = found.then(part)
    largest = max(max(part.factor.size, part.offset.size) for part in parts)
    alone = max(found.factor.size, found.offset.size) <= largest
    numbers = np.concatenate([found.factor.reshape(-1), found.offset.reshape(-1)]).astype(np.float32)
    return found if alone and np.isfinite(numbers).all() and found.moved <= FAR else None
