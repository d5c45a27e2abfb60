"""Views as places between moves: what a graph can do with them where they stay operators, and more.

A view says which axis is which, and all its tensors are one variable, of which each move is made by itself. Where a
view stays an operator, moves of what it reads end in it, and those of what it writes begin there: several may share
one. An Identity behind the view does the same in any layout, so that a bound for a graph with these is one for all
answers in which views stay operators.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from layoutsolve.graph import Graph, Node, Value
from layoutsolve.names import Names

VIEWS = ("Reshape", "Transpose")
"""The operators that are views of what they read."""


def halting(graph: Graph, views: Collection[int]) -> Graph | None:
    """A graph with an Identity behind each view, at which moves may end and begin; None where not all of some
    ``views``, by their numbers, can have one.
    """
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for number, node in enumerate(graph.nodes):
        if node.op in VIEWS and _plain(graph, node):
            name = node.outputs[0]
            seen = taken.derived(name, "seen")
            values[seen] = replace(values[name], name=seen)
            nodes.append(replace(node, outputs=(seen,)))
            behind = Node("Identity", (seen,), (name,), origin=node.origin, storage=node.storage, region=node.region)
            nodes.append(behind)
        elif number in views:
            return None
        else:
            nodes.append(node)
    return replace(graph, values=values, nodes=tuple(nodes))


def _plain(graph: Graph, node: Node) -> bool:
    """Whether a view is one of a tensor that any operator may have in any layout."""
    values: list[Value] = [graph.values[name] for name in (node.inputs[0], *node.outputs)]
    axes = [value.quant is not None and value.quant.axis is not None for value in values]
    return values[0].data is None and not any(axes) and all(value.foreign is None for value in values)
