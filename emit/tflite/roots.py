"""Squares of differences and inverse roots, for which LiteRT has operators, where a source has what these are computed
of: layer normalizations have both.
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.emit.tflite.gelus import float_number
from layoutsolve.ir.graph import Graph, Node


def recognised(graph: Graph) -> Graph:
    """The same graph in which each of them is one operator."""
    made, gone = dict[Node, Node](), set[Node]()
    for node in graph.nodes:
        kinds = ((_squared(graph, node), "Sub", "SquaredDifference"), (_inverted(graph, node), "Sqrt", "Rsqrt"))
        for inner, op, whole in kinds:
            before = None if inner is None else graph.producer(inner)
            if before is not None and before.op == op and _is_inner(graph, before, node):
                made[node] = replace(node, op=whole, inputs=before.inputs, attributes={})
                gone.add(before)
    nodes = tuple(made.get(node, node) for node in graph.nodes if node not in gone)
    return replace(graph, nodes=nodes) if made else graph


def _is_inner(graph: Graph, before: Node, node: Node) -> bool:
    """Whether a node computes floats for another one alone."""
    name, *others = before.outputs
    alone = not others and all(reader is node for reader in graph.readers.get(name, ())) and name not in graph.results
    plain = not before.domain and not before.storage and before.region is node.region
    return alone and plain and graph.values[name].in_floats


def _squared(graph: Graph, node: Node) -> str | None:
    """What a node gives the square of."""
    if node.domain or node.storage:
        return None
    if node.op == "Mul" and node.inputs[0] == node.inputs[1]:
        return node.inputs[0]
    return node.inputs[0] if node.op == "Pow" and float_number(graph, node.inputs[1]) == 2.0 else None


def _inverted(graph: Graph, node: Node) -> str | None:
    """What a node gives the inverse of."""
    if node.domain or node.storage:
        return None
    if node.op == "Reciprocal":
        return node.inputs[0]
    return node.inputs[1] if node.op == "Div" and float_number(graph, node.inputs[0]) == 1.0 else None
