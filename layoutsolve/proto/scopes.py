"""The nodes of graphs in ONNX, the graphs within nodes, and what names stand for: these see what is around them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush

from layoutsolve.base.wording import printable
from layoutsolve.errors import ModelError
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import FunctionProto, GraphProto, NodeProto, graphs_in

REMEDY = "the file is broken: repair it, or export the model again"
"""What is said behind each fault of a graph."""


def broken(fault: str) -> ModelError:
    """The error of a graph with a fault, on one line."""
    return ModelError(printable(f"{fault}; {REMEDY}"))


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs of a node: branches, or the body of a loop."""
    return (graph for attribute in node.attribute for graph in graphs_in(attribute))


def nodes_of(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """All nodes of a graph, or of a function, those of branches and loops included."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from nodes_of(inner)


def numbered(graph: GraphProto) -> dict[tuple[int, int, str], int]:
    """The numbers of all graphs within a graph, whose own is 0, by those of the graph and of the node that they are in,
    and the name of the attribute.
    """
    found: dict[tuple[int, int, str], int] = {}
    waiting = [(0, graph)]
    while waiting:
        number, current = waiting.pop(0)
        for index, node in enumerate(current.node):
            for attribute in node.attribute:
                key = number, index, attribute.name
                for inner in graphs_in(attribute)[:1]:
                    if key not in found:
                        found[key] = len(found) + 1
                        waiting.append((found[key], inner))
    return found


def read_in(graph: GraphProto) -> set[str]:
    """The names of all that is read or given in a graph and those within it."""
    found = {port.name for port in graph.output}
    for node in nodes_of(graph):
        found.update(node.input)
        found.update(port.name for inner in graphs_of(node) for port in inner.output)
    return found - {""}


def captures(node: NodeProto) -> list[str]:
    """What the graphs within a node read from around it, in order, each once."""
    return list(dict.fromkeys(name for inner in graphs_of(node) for name in outer(inner)))


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


def check(graph: GraphProto, known: Collection[str] = ()) -> None:
    """Raise :class:`ModelError` where a tensor is computed twice, too late or never. ``known`` is what the graph reads
    from around it.
    """
    seen = {*known, *_given(graph), ""}
    for index, node in enumerate(graph.node):
        for name in (*node.input, *captures(node)):
            if name not in seen:
                raise broken(f"operator {index} {node.op_type} reads '{name}', which nothing before it computes")
        for name in filter(None, node.output):
            if name in seen:
                raise broken(f"operator {index} {node.op_type} computes '{name}', which is there already")
            seen.add(name)
    for port in graph.output:
        if port.name not in seen or not port.name:
            raise broken(f"nothing computes the output '{port.name}'")


def ordered(graph: GraphProto, known: Collection[str] = ()) -> list[tuple[int, NodeProto]]:
    """The nodes that results depend on with their numbers, checked as :func:`check` does it."""
    check(graph, known)
    return [(index, graph.node[index]) for index in sorted(needed(graph))]


def needed(graph: GraphProto) -> set[int]:
    """The numbers of the nodes that the results of a graph depend on; the nodes are in topological order."""
    wanted, found = {port.name for port in graph.output}, set[int]()
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if any(name in wanted for name in node.output if name):
            found.add(index)
            wanted.update(node.input)
            wanted.update(captures(node))
    return found


def sort(graph: GraphProto | FunctionProto) -> None:
    """Bring the nodes of a graph into topological order, and those of the graphs within it: stably, so that those that
    are in such an order stay as they are. Raises :class:`ModelError` for a cycle.
    """
    for node in graph.node:
        for inner in graphs_of(node):
            sort(inner)
    producers = {name: index for index, node in reversed([*enumerate(graph.node)]) for name in node.output if name}
    needs = [{producers[name] for name in (*node.input, *captures(node)) if name in producers} for node in graph.node]
    if all(need < index for index, each in enumerate(needs) for need in each):
        return
    readers: list[list[int]] = [[] for _ in needs]
    for index, each in enumerate(needs):
        for need in each:
            readers[need].append(index)
    missing = list(map(len, needs))
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(index := heappop(ready))
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    if len(order) < len(needs):
        index, passed = next(index for index, count in enumerate(missing) if count), set[int]()
        while index not in passed:
            passed.add(index)
            index = next(need for need in sorted(needs[index]) if missing[need])
        raise broken(f"operator {index} {graph.node[index].op_type} depends on its own result: nodes form a cycle")
    nodes = [graph.node[index] for index in order]
    del graph.node[:]
    graph.node.extend(nodes)


def renamed(graph: GraphProto, taken: Names, wishes: Mapping[str, str]) -> GraphProto:
    """A copy of a graph in which all that it computes or is given has names that are not taken yet. What it computes
    has the name that is wished for it, unless something deeper has that.
    """
    made = GraphProto()
    made.CopyFrom(graph)
    deeper = {name for node in graph.node for inner in graphs_of(node) for name in names_in(inner)}
    wishes = {name: wish for node in graph.node for name in node.output if (wish := wishes.get(name, "")) not in deeper}
    others = {name: wishes.get(name) or _free(name, taken, deeper) for name in _own(graph)}
    others = {name: other for name, other in others.items() if other != name}
    if others:
        _rename(made, others)
    return made


def apart(graph: GraphProto, taken: Names) -> GraphProto:
    """A copy of a graph in which nothing that it computes or is given, at any depth, has a name that is taken."""
    made = GraphProto()
    made.CopyFrom(graph)
    inside = names_in(graph)
    others = {name: _free(name, taken, inside) for name in _own(graph) if name in taken}
    if others:
        _rename(made, others)
    for node in made.node:
        for inner in graphs_of(node):
            inner.CopyFrom(apart(inner, taken))
    return made


def _own(graph: GraphProto) -> dict[str, None]:
    """What a graph is given and computes, in order."""
    return dict.fromkeys([*_given(graph), *(name for node in graph.node for name in node.output if name)])


def names_in(graph: GraphProto) -> set[str]:
    """The names of what a graph is given and computes, and of those within it."""
    return set(_own(graph)).union(*(names_in(inner) for node in graph.node for inner in graphs_of(node)))


def _free(name: str, taken: Names, others: Collection[str]) -> str:
    """A name that neither is taken nor one of others."""
    found = taken.unique(name)
    while found in others:
        found = taken.unique(name)
    return found


def rename(graph: GraphProto, others: Mapping[str, str]) -> None:
    """Give what a graph reads from around it other names; those of its own that are among these stay its own."""
    own = _own(graph)
    _rename(graph, {name: other for name, other in others.items() if name not in own})


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
        for inner in graphs_of(node):
            rename(inner, others)
