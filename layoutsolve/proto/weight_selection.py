"""What selects weights of 8 bits while a model is loaded: counted once, as what is left after loading."""

from __future__ import annotations

from collections.abc import Iterator

from layoutsolve.proto.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from layoutsolve.proto.scopes import graphs_of, nodes_of

NAME = "weights_for_this_processor"
"""What the names of the nodes that select, and of those that compute what they select, begin with."""


def selects(model: ModelProto) -> int:
    """How many weights a model selects when it is loaded."""
    nodes = (node for node in nodes_of(model.graph) if node.op_type == "If" and node.name.startswith(NAME))
    return sum(len(node.output) for node in nodes)


def running(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph, and of branches and loops within it, that run once the model is loaded: what is selected
    counts once, and what selects does not count.
    """
    for node in graph.node:
        selecting = node.name.startswith(NAME)
        if not selecting:
            yield node
        branches = [each.g for each in node.attribute if each.name == "then_branch"] if selecting else graphs_of(node)
        for inner in branches:
            yield from running(inner)
