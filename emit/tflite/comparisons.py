"""Comparisons of int8 and uint8 as LiteRT computes them, by whole numbers of fractions: on what is stored itself.

An ONNX model that is made of TensorFlow Lite counts 256ths, rounded, of what both operands mean, as LiteRT's kernels
count them (``comparisons.cc``).
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.emit.tflite.gelus import float_number
from layoutsolve.emit.tflite.meanings import live
from layoutsolve.ir.graph import Graph, Node

FRACTION = 256.0
"""How many of them are 1."""

COUNTED = "fractions"
"""The attribute of such a comparison."""

COMPARING = frozenset(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"))


def recognised(graph: Graph) -> Graph:
    """The same graph in which comparisons of counted fractions read what is stored, with an attribute."""
    made = dict[Node, Node]()
    for node in graph.nodes:
        if node.op not in COMPARING or node.domain or node.storage:
            continue
        names = [found for name in node.inputs if (found := _counted(graph, node, name)) is not None]
        if len(names) == 2 and graph.values[names[0]].dtype == graph.values[names[1]].dtype:
            made[node] = replace(node, inputs=tuple(names), attributes={COUNTED: int(FRACTION)})
    if not made:
        return graph
    nodes = live(graph, [made.get(node, node) for node in graph.nodes], lambda node: node.op in ("Mul", "Round"))
    return replace(graph, nodes=tuple(nodes))


def _counted(graph: Graph, node: Node, name: str) -> str | None:
    """The bytes of which an operand counts fractions, that are smaller than 1; None where it does not."""
    rounded = graph.producer(name)
    counted = None if rounded is None or rounded.op != "Round" else graph.producer(rounded.inputs[0])
    if rounded is None or counted is None or counted.op != "Mul" or rounded.domain or counted.domain:
        return None
    if counted.region is not node.region or rounded.region is not node.region or counted.storage or rounded.storage:
        return None
    source, factor = counted.inputs
    value = graph.values[source]
    counts = float_number(graph, factor) == FRACTION and value.in_bytes and value.quant is not None
    return source if counts and value.quant is not None and float(value.quant.scale[0]) < 1 else None
