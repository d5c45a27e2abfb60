"""Bytes that a LeakyRelu alone reads of a product, as floats that are rounded to the same steps.

OpenVINO computes that in its kernels for products, where bytes between the two are written to memory and read again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.graph import Graph, Node, Value
from layoutsolve.ir.names import Names
from layoutsolve.ir.saturation import SUMMING

ROUNDED = ("Div", "Round", "Clip", "Mul")
"""What gives the nearest step: in steps, whole ones, those that bytes hold, and as real numbers again."""


def rounded(graph: Graph) -> Graph:
    """The same graph with such bytes as floats."""
    readers: dict[str, int] = {}
    for name in (*graph.outputs, *(name for node in graph.nodes for name in node.inputs)):
        readers[name] = readers.get(name, 0) + 1
    chains = {node: chain for node in graph.nodes if (chain := _chain(graph, readers, node))}
    if not chains:
        return graph
    real = {name for chain in chains.values() for name in chain}
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    values |= {name: replace(values[name], dtype="float32", quant=None) for name in real}
    for node in graph.nodes:
        if node in chains:
            steps = _steps(graph.values[node.inputs[0]], values, taken)
            nodes += [replace(step, origin=node.origin, region=node.region) for step in steps]
            node = replace(node, inputs=steps[-1].outputs)
        nodes.append(replace(node, storage=False) if node.outputs[0] in real else node)
    return used(graph, nodes, values)


def _chain(graph: Graph, readers: dict[str, int], node: Node) -> list[str]:
    """What a node reads, behind Transposes alone, of the product that was written for it, the last first."""
    if node.op != "LeakyRelu" or graph.values[node.outputs[0]].quant is None:
        return []
    name, chain = node.inputs[0], list[str]()
    while (index := graph.producers.get(name)) is not None and readers[name] == 1:
        value, before = graph.values[name], graph.nodes[index]
        if not value.in_bytes or before.region is not node.region:
            return []
        chain.append(name)
        if before.op in SUMMING:
            return chain
        if before.op != "Transpose":
            return []
        name = before.inputs[0]
    return []


def _steps(given: Value, values: dict[str, Value], taken: Names) -> list[Node]:
    """What rounds the real numbers of a value that was stored as bytes; new values are entered."""
    limits, zero = np.iinfo(given.dtype), int(given.steps.zero_point[0])
    scale, low, high = (_number(values, taken, given.name, each) for each in (
        given.steps.scale[0], limits.min - zero, limits.max - zero))  # fmt: skip
    nodes, name = list[Node](), given.name
    for operator, others in zip(ROUNDED, ((scale,), (), (low, high), (scale,)), strict=True):
        made = taken.derived(given.name, operator.lower())
        values[made] = Value(made, "float32", given.shape)
        nodes.append(Node(operator, (name, *others), (made,)))
        name = made
    return nodes


def _number(values: dict[str, Value], taken: Names, beside: str, number: float) -> str:
    name = taken.derived(beside, "step")
    values[name] = Value(name, "float32", (), data=np.asarray(number, np.float32))
    return name
