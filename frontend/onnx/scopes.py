"""Which names stand for what: graphs of ONNX lie within each other, and see what is around them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from layoutsolve.errors import ModelError
from layoutsolve.names import Names
from layoutsolve.protos import GraphProto, NodeProto, graphs_in


def captures(node: NodeProto) -> list[str]:
    """What the graphs within a node read from around it, in order, each once."""
    found: dict[str, None] = {}
    for attribute in node.attribute:
        for inner in graphs_in(attribute):
            found.update(dict.fromkeys(outer(inner)))
    return list(found)


def outer(graph: GraphProto) -> list[str]:
    """What a graph reads that is not its own."""
    own = {*_given(graph), ""}
    found: dict[str, None] = {}
    for node in graph.node:
        for name in (*node.input, *captures(node)):
            if name not in own:
                found[name] = None
        own.update(node.output)
    found.update(dict.fromkeys(port.name for port in graph.output if port.name not in own))
    return list(found)


def _given(graph: GraphProto) -> list[str]:
    """What a graph has before its first node."""
    names = [port.name for port in graph.input]
    names += (each.name for each in graph.initializer)
    return names + [each.values.name for each in graph.sparse_initializer]


def ordered(graph: GraphProto, known: Collection[str] = ()) -> list[tuple[int, NodeProto]]:
    """All nodes with their numbers. Raises :class:`ModelError` where a tensor is computed twice, or too late: what the
    graph reads from around it is ``known``.
    """
    seen = {*known, *_given(graph), ""}
    for index, node in enumerate(graph.node):
        for name in (*node.input, *captures(node)):
            if name not in seen:
                raise ModelError(f"operator {index} {node.op_type} reads '{name}', which nothing before it computes")
        for name in filter(None, node.output):
            if name in seen:
                raise ModelError(f"operator {index} {node.op_type} computes '{name}', which is there already")
            seen.add(name)
    for port in graph.output:
        if port.name not in seen or not port.name:
            raise ModelError(f"nothing computes the output '{port.name}'")
    return list(enumerate(graph.node))


def renamed(graph: GraphProto, taken: Names) -> GraphProto:
    """A copy of a graph in which all that it computes or is given has names that are not taken yet."""
    made = GraphProto()
    made.CopyFrom(graph)
    own = dict.fromkeys([*_given(graph), *(name for node in graph.node for name in node.output if name)])
    others = {name: other for name in own if (other := taken.unique(name)) != name}
    if others:
        _rename(made, others)
    return made


def _rename(graph: GraphProto, others: Mapping[str, str]) -> None:
    """Give tensors of a graph other names, and in the graphs within it."""
    for described in (graph.input, graph.output, graph.value_info, graph.initializer):
        for each in described:
            each.name = others.get(each.name, each.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = others.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        for ends in (node.input, node.output):
            ends[:] = [others.get(name, name) for name in ends]
        for attribute in node.attribute:
            for inner in graphs_in(attribute):
                hidden = {*_given(inner), *(name for each in inner.node for name in each.output)}
                _rename(inner, {name: other for name, other in others.items() if name not in hidden})
