"""What selects weights of 8 bits while a model is loaded: counted once, as what is left after loading."""

from __future__ import annotations

from collections.abc import Iterator, Set

from layoutsolve.proto.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from layoutsolve.proto.scopes import captures, graphs_of, nodes_of

NAME = "weights_for_this_processor"
"""What the names of the nodes that select begin with."""

_COMPUTING = ("BitwiseXor", "Cast", "Equal", "MatMulInteger")
"""The operators that compute, of constants, what is selected, and which form it has."""


def selects(model: ModelProto) -> int:
    """How many weights a model selects when it is loaded."""
    return sum(len(node.output) for node in nodes_of(model.graph) if _is_selecting(node))


def running(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph, and of branches and loops within it, that run once the model is loaded: what is selected
    counts once, and neither what selects nor what computes that counts.
    """
    yield from _running(graph, _folded(graph) if isinstance(graph, GraphProto) else frozenset())


def _running(graph: GraphProto | FunctionProto, folded: Set[str]) -> Iterator[NodeProto]:
    for node in graph.node:
        selecting = _is_selecting(node)
        if not selecting and folded.isdisjoint(node.output):
            yield node
        branches = [each.g for each in node.attribute if each.name == "then_branch"] if selecting else graphs_of(node)
        for inner in branches:
            yield from _running(inner, folded)


def _is_selecting(node: NodeProto) -> bool:
    return node.op_type == "If" and node.name.startswith(NAME)


def _folded(graph: GraphProto) -> set[str]:
    """What is computed of constants, and read where something is selected."""
    constant = {each.name for each in graph.initializer}.difference(each.name for each in graph.input)
    computed = dict[str, NodeProto]()
    for node in graph.node:
        if node.op_type in _COMPUTING and constant.issuperset(node.input):
            constant.update(node.output)
            computed.update(dict.fromkeys(node.output, node))
    read = {name for node in nodes_of(graph) if _is_selecting(node) for name in (*node.input, *captures(node))}
    for name, node in reversed(computed.items()):
        if name in read:
            read.update(node.input)
    return read.intersection(computed)
