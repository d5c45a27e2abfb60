"""The nodes of ONNX graphs, and the graphs within nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from layoutsolve.protos import GraphProto, NodeProto, graphs_in


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """All nodes of a graph, those of branches and loops included."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from nodes_of(inner)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs of a node: branches, or the body of a loop."""
    return (graph for attribute in node.attribute for graph in graphs_in(attribute))


def outer_names(graph: GraphProto) -> set[str]:
    """The names that a graph reads and does not define."""
    read = {name for node in graph.node for name in node.input} | {port.name for port in graph.output}
    read.update(name for node in graph.node for inner in graphs_of(node) for name in outer_names(inner))
    defined = {name for node in graph.node for name in node.output}
    return read - defined - {port.name for port in graph.input} - {item.name for item in graph.initializer}


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give what a graph reads from around it other names; those of its own that are among these stay its own."""
    own = {port.name for port in graph.input} | {each.name for each in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    left = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [left.get(name, name) for name in node.input]
        for inner in graphs_of(node):
            rename(inner, left)
    for port in graph.output:
        port.name = left.get(port.name, port.name)
