"""What is left of a graph that a pass has rewritten: the nodes that something depends on, and their values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from layoutsolve.ir.graph import OPENING, Graph, Node, Size, Value
from layoutsolve.ir.names import Names
from layoutsolve.ir.symbolic_sizes import Formula, free_symbols


def live(
    nodes: Sequence[Node], outputs: Sequence[str], values: Mapping[str, Value], formulas: Mapping[str, Formula]
) -> tuple[Node, ...]:
    """The nodes on which the outputs and the states depend, with what opens the subgraph that each of them is in, and
    the nodes that tell sizes which others ask for.
    """
    producers = {output: node for node in nodes for output in node.outputs}
    owners = {region: node for node in nodes if node.op in OPENING for region in node.regions}
    elements = [node for node in nodes if node.op == "Element"]
    sources = _size_sources(nodes, values) if any(node.op == "Sizes" for node in nodes) else {}
    kept: set[Node] = set()
    told: set[str] = set()
    stack = [producers[name] for name in outputs if name in producers] + [node for node in nodes if node.op == "State"]
    while stack:
        node = stack.pop()
        if node in kept:
            continue
        kept.add(node)
        stack += [producers[name] for name in node.inputs if name in producers]
        stack += [owners[region] for region in (node.region, *node.regions) if region is not None]
        if node.op == "Scan":  # which runs as often as these have elements
            stack += [element for element in elements if element.regions == node.regions]
        if node.op == "Sizes":
            symbols = [name for dim in node.attributes["dims"] if isinstance(dim, Size) for name in dim.symbols]
            stack += [sources[name] for name in free_symbols(symbols, formulas, told) if name in sources]
    return tuple(node for node in nodes if node in kept)


def used(graph: Graph, nodes: Sequence[Node], values: Mapping[str, Value]) -> Graph:
    """Graph with other nodes, and those of some values that these, its inputs or its outputs use."""
    ends = (*graph.inputs, *graph.outputs)
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}.union(ends)
    return replace(graph, nodes=tuple(nodes), values={name: each for name, each in values.items() if name in names})


def rewritten(graph: Graph, nodes: Sequence[Node], values: Mapping[str, Value]) -> Graph:
    """Graph with those of other nodes on which its outputs depend, and the values that these use."""
    return used(graph, live(nodes, graph.outputs, values, graph.formulas), values)


Found = TypeVar("Found")


def substituted(
    graph: Graph,
    found: Mapping[Node, Found],
    nodes_for: Callable[[Node, Found, dict[str, Value], Names], Iterable[Node]],
) -> Graph:
    """The same graph with other nodes in place of some: ``nodes_for`` each, and what was found of it, which enters
    values and takes names.
    """
    if not found:
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for node in graph.nodes:
        nodes += nodes_for(node, found[node], values, taken) if node in found else [node]
    return rewritten(graph, nodes, values)


def unlike(name: str, taken: Container[str]) -> str:
    """A name that is not taken, made from another one."""
    while name in taken:
        name += "_"
    return name


def _size_sources(nodes: Sequence[Node], values: Mapping[str, Value]) -> dict[str, Node]:
    """By symbol, the first node whose output has it as a dimension."""
    found: dict[str, Node] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            for dim in values[name].shape:
                for symbol in dim.symbols if isinstance(dim, Size) else ():
                    found.setdefault(symbol, node)
    return found
