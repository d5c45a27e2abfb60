"""Concatenations in steps, put together again where nothing was moved between the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from layoutsolve.graph import Graph, Node


def joined(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph with every Concat left out that only another one along the same axis reads, which reads its operands
    instead; ``kept`` are names of tensors that have to stay.
    """
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update([*graph.outputs, *kept])
    single: dict[str, Node] = {}
    gone: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "Concat":
            parts = {name for name in node.inputs if name in single and _continues(graph, single[name], node)}
            gone.update({name: single[name] for name in parts})
            if reads[node.outputs[0]] == 1:
                single[node.outputs[0]] = node
    if not gone:
        return graph
    values = {name: value for name, value in graph.values.items() if name not in gone}
    left = (node for node in graph.nodes if not (node.op == "Concat" and node.outputs[0] in gone))
    return replace(graph, values=values, nodes=tuple(_whole(node, gone) for node in left))


def _whole(node: Node, gone: Mapping[str, Node]) -> Node:
    """A node that reads the operands of concatenations that are left out instead of their results."""
    if gone.keys().isdisjoint(node.inputs):
        return node
    operands: list[str] = []
    stack = list(node.inputs)[::-1]
    while stack:
        name = stack.pop()
        if name in gone:
            stack.extend(gone[name].inputs[::-1])
        else:
            operands.append(name)
    return replace(node, inputs=tuple(operands))


def _continues(graph: Graph, first: Node, node: Node) -> bool:
    """Whether a Concat does what another one began, on values that mean the same."""
    step, whole = (graph.values[each.outputs[0]] for each in (first, node))
    axes = {each.attributes["axis"] % len(whole.shape) for each in (first, node)}
    same = step.quant.matches(whole.quant) if step.quant else whole.quant is None
    return len(axes) == 1 and same and first.storage == node.storage and first.region is node.region
