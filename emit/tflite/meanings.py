"""What stored integers mean, where a graph states it for some of the tensors that hold the same ones.

A source in ONNX has scales and zero points beside its tensors, so that one that is only moved may have none. LiteRT has
them in each tensor, and its kernels want those of what they read in what they write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from layoutsolve.ir.graph import Graph, Node, Quant

_STORED = ("int8", "uint8", "int16")
_MOVING = frozenset(
    (
        *("Concat", "DepthToSpace", "Expand", "Gather", "GatherND", "Identity", "Pad", "Reshape", "Slice"),
        *("SpaceToDepth", "Split", "Tile", "Transpose"),
    )
)
"""Operators that move elements, whatever these mean."""


def annotated(graph: Graph) -> Graph:
    """The same graph in which what is moved has the meaning of what it is moved from, or else to. What anything else
    computes with keeps the meaning that it has, or none.
    """
    moving = [node for node in graph.nodes if _moves(graph, node)]
    fixed = {name for node in graph.nodes if not _moves(graph, node) for name in (*node.inputs, *node.outputs)}
    meanings: dict[str, Quant] = {name: value.quant for name, value in graph.values.items() if value.quant is not None}
    for node in moving:
        _pass_on(graph, node, meanings, fixed, forwards=True)
    for node in reversed(moving):
        _pass_on(graph, node, meanings, fixed, forwards=False)
    values = {
        name: replace(graph.values[name], quant=quant)
        for name, quant in meanings.items()
        if graph.values[name].quant is None
    }
    nodes = tuple(
        replace(node, storage=True) if node.op in _MOVING and _moves(graph, node) else node for node in graph.nodes
    )
    return replace(graph, values={**graph.values, **values}, nodes=nodes) if values else graph


def _moves(graph: Graph, node: Node) -> bool:
    """Whether a node moves what is stored: as it says, or because it moves plain integers."""
    if node.storage or node.op not in _MOVING or node.domain:
        return node.storage and bool(node.outputs)
    values = [graph.values[name] for name in (*moved_by(graph, node), *node.outputs) if name]
    return all(value.quant is None and value.dtype in _STORED for value in values)


def _pass_on(graph: Graph, node: Node, meanings: dict[str, Quant], fixed: Collection[str], forwards: bool) -> None:
    sides = list(moved_by(graph, node)), [name for name in node.outputs if name]
    known, others = sides if forwards else sides[::-1]
    found = [meanings.get(name) for name in known]
    if not found or found[0] is None or not all(found[0].matches(each) for each in found):
        return
    for name in others:
        value = graph.values[name]
        if name not in meanings and name not in fixed and value.dtype in _STORED and found[0].axis is None:
            meanings[name] = found[0]


def moved_by(graph: Graph, node: Node) -> Iterator[str]:
    """What a node moves: its inputs of the type of its result."""
    dtype = graph.values[node.outputs[0]].dtype
    for name in node.inputs if node.op == "Concat" else node.inputs[:1]:
        if name and graph.values[name].dtype == dtype:
            yield name
