"""Squares of differences and inverse roots, for which LiteRT has operators, where a source has what these are computed
of: layer normalizations have both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from layoutsolve.emit.tflite.gelus import only_number
from layoutsolve.ir.graph import Graph, Node


def recognised(graph: Graph) -> Graph:
    """The same graph in which each of them is one operator."""
    made, gone = dict[Node, Node](), set[Node]()
    for node in graph.nodes:
        inner = _squared(graph, node) or _inverted(graph, node)
        before = None if inner is None else graph.producer(inner)
        if before is None or inner is None or not _is_inner(graph, before, node):
            continue
        op = _WHOLE.get((before.op, "square" if _squared(graph, node) else "inverse"))
        if op is not None:
            made[node] = replace(node, op=op, inputs=before.inputs, attributes={})
            gone.add(before)
    nodes = tuple(made.get(node, node) for node in graph.nodes if node not in gone)
    return replace(graph, nodes=nodes) if made else graph


_WHOLE: Mapping[tuple[str, str], str] = {("Sqrt", "inverse"): "Rsqrt", ("Sub", "square"): "SquaredDifference"}
"""The operator that another one and what is made of it are."""


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
    return node.inputs[0] if node.op == "Pow" and only_number(graph, node.inputs[1]) == 2.0 else None


def _inverted(graph: Graph, node: Node) -> str | None:
    """What a node gives the inverse of."""
    if node.domain or node.storage:
        return None
    if node.op == "Reciprocal":
        return node.inputs[0]
    return node.inputs[1] if node.op == "Div" and only_number(graph, node.inputs[0]) == 1.0 else None
