"""Comparisons of int8 and uint8 as LiteRT computes them, by whole numbers of fractions: on what is stored itself.

An ONNX model that is made of TensorFlow Lite counts 256ths, rounded, of what both operands mean, as LiteRT's kernels
count them (``comparisons.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layoutsolve.emit.tflite.gelus import float_number
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
    gone = set[Node]()
    for _ in range(2):  # what rounds, then what counts
        for node in (each for done in made for each in _before(graph, done)):
            readers = graph.readers.get(node.outputs[0], ())
            if node.outputs[0] not in graph.results and all(each in made or each in gone for each in readers):
                gone.add(node)
    nodes = tuple(made.get(node, node) for node in graph.nodes if node not in gone)
    return replace(graph, nodes=nodes) if made else graph


def _before(graph: Graph, node: Node) -> Iterator[Node]:
    """What rounds and what counts the operands of a comparison."""
    for name in node.inputs:
        rounded = graph.producer(name)
        counted = None if rounded is None else graph.producer(rounded.inputs[0])
        yield from (each for each in (rounded, counted) if each is not None)


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
