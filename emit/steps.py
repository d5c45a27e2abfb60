"""Concatenations in steps, put together again where nothing was moved between the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from layoutsolve.graph import Graph, Node


def joined(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph with every Concat left out that only another one along the same axis reads, which reads its operands
    instead; ``kept`` are names of tensors that have to stay.
    """
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update([*graph.outputs, *kept])
    single: dict[str, Node] = {}
    gone: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == "Concat":
            parts = {name for name in node.inputs if name in single and _continues(graph, single[name], node)}
            operands = (single[name].inputs if name in parts else (name,) for name in node.inputs)
            node = replace(node, inputs=tuple(each for group in operands for each in group))
            gone |= parts
            if reads[node.outputs[0]] == 1:
                single[node.outputs[0]] = node
        nodes.append(node)
    if not gone:
        return graph
    values = {name: value for name, value in graph.values.items() if name not in gone}
    return replace(graph, values=values, nodes=tuple(node for node in nodes if not gone.intersection(node.outputs)))


def _continues(graph: Graph, first: Node, node: Node) -> bool:
    """Whether a Concat does what another one began, on values that mean the same."""
    step, whole = (graph.values[each.outputs[0]] for each in (first, node))
    axes = {each.attributes["axis"] % len(whole.shape) for each in (first, node)}
    same = step.quant.matches(whole.quant) if step.quant else whole.quant is None
    return len(axes) == 1 and same and first.storage == node.storage and first.region is node.region
