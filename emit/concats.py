"""Concatenations that are written as one: a step of one (:mod:`layoutsolve.solver.statement.concat_steps`) that nothing
is moved after is put together again with the concatenation that it belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import chain

from layoutsolve.ir.graph import Graph, Node
from layoutsolve.solver.statement.concat_steps import is_known


def joined(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph with every Concat left out that only another one along the same axis reads, which reads its operands
    instead; ``kept`` are names of tensors that have to stay.
    """
    reads = graph.reads + Counter([*graph.outputs, *kept])
    single, gone, nodes = dict[str, tuple[Node, Node]](), set[str](), list[Node]()
    for node in graph.nodes:
        if node.op == "Concat" and not node.domain:
            parts = {name for name in node.inputs if name in single and _continues(graph, single[name][0], node)}
            operands = (single[name][1].inputs if name in parts else (name,) for name in node.inputs)
            whole = replace(node, inputs=tuple(chain.from_iterable(operands))) if parts else node
            gone |= parts
            if reads[node.outputs[0]] == 1:
                single[node.outputs[0]] = node, whole
            nodes.append(whole)
        else:
            nodes.append(node)
    if not gone:
        return graph
    values = {name: value for name, value in graph.values.items() if name not in gone}
    return replace(graph, values=values, nodes=tuple(node for node in nodes if gone.isdisjoint(node.outputs)))


def _continues(graph: Graph, first: Node, node: Node) -> bool:
    """Whether a Concat does what another one began, on values that mean the same."""
    if not (is_known(graph, first) and is_known(graph, node)):
        return False
    step, whole = (graph.values[each.outputs[0]] for each in (first, node))
    axes = {each.attributes["axis"] % len(whole.shape) for each in (first, node)}
    same = step.quant.matches(whole.quant) if step.quant else whole.quant is None
    return len(axes) == 1 and same and first.storage == node.storage and first.region is node.region
