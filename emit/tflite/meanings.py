"""What stored integers mean, where a graph states it for some of the tensors that hold the same ones.

A source in ONNX has scales and zero points beside its tensors, so that one that is only moved may have none. LiteRT has
them in each tensor, and its kernels want those of what they read in what they write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.ir.functions import PLAN
from layoutsolve.ir.graph import LATE, Graph, Node, Quant, Value

STRETCH = 2.0**-10
"""A factor this near to 1 is no more than a way to round."""

_THEMSELVES = Quant(np.ones(1, np.float32), np.zeros(1, np.int8))
"""What integers mean that stand for themselves."""

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
    for steps in (False, True):
        known = -1
        while len(meanings) > known:
            known = len(meanings)
            for node in moving:
                _pass_on(graph, node, meanings, fixed, True, steps)
            for node in reversed(moving):
                _pass_on(graph, node, meanings, fixed, False, steps)
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


def _pass_on(
    graph: Graph, node: Node, meanings: dict[str, Quant], fixed: Collection[str], forwards: bool, steps: bool
) -> None:
    """Let what a node reads or writes mean what the other side does; with ``steps`` also integers themselves, which is
    rather a way to compute than a meaning.
    """
    sides = list(moved_by(graph, node)), [name for name in node.outputs if name]
    known, others = sides if forwards else sides[::-1]
    found = [meanings.get(name) for name in known]
    if not found or found[0] is None or not all(found[0].matches(each) for each in found):
        return
    if not steps and found[0].axis is None and nearly(found[0], _THEMSELVES):
        return
    for name in others:
        value = graph.values[name]
        if name not in meanings and name not in fixed and value.dtype in _STORED and found[0].axis is None:
            meanings[name] = found[0]


def moved_by(graph: Graph, node: Node) -> Iterator[str]:
    """What a node moves: its inputs of the type of its result."""
    dtype = graph.values[next(filter(None, node.outputs))].dtype
    for name in node.inputs if node.op == "Concat" else node.inputs[:1]:
        if name and graph.values[name].dtype == dtype:
            yield name


def united(graph: Graph) -> Graph:
    """The same graph in which what is computed, and then stored anew in nearly the same steps, is stored so at once."""
    names = dict[str, str]()
    for node in graph.nodes:
        if node.op == "Identity" and not node.domain and node.inputs[0] not in names and _is_anew(graph, node):
            names[node.inputs[0]] = node.outputs[0]
    nodes = tuple(
        replace(
            node,
            inputs=tuple(names.get(name, name) for name in node.inputs),
            outputs=tuple(names.get(name, name) for name in node.outputs),
        )
        for node in graph.nodes
        if node.op != "Identity" or names.get(node.inputs[0]) != node.outputs[0]
    )
    return replace(graph, nodes=nodes) if names else graph


def _is_anew(graph: Graph, node: Node) -> bool:
    """Whether an Identity stores what one operator on floats gives in nearly the same steps."""
    (before,), (after,) = node.inputs, node.outputs
    maker = graph.producer(before)
    one, other = graph.values[before], graph.values[after]
    if maker is None or maker.storage or maker.region is not node.region or before in graph.results:
        return False
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.dtype in _STORED
        and nearly(one.quant, other.quant)
    )


_AVERAGING = frozenset(("AveragePool", "GlobalAveragePool", "ReduceMean", "Resize"))
"""Operators whose results are the same integers whatever these mean, if results mean what operands do."""


def direct(graph: Graph) -> Graph:
    """The same graph in which integers that have other meanings for a while keep theirs: where they are only moved, and
    where they are averaged, as sources do that round as LiteRT does.
    """
    roots = _roots(graph)
    if not roots:
        return graph
    values, nodes, anew = dict(graph.values), list[Node](), set[str]()
    for node in graph.nodes:
        if node.storage and not anew.isdisjoint(node.inputs[:1]) and _hands_on(graph, node):
            made = node.outputs[0]
            values[made] = replace(values[made], quant=values[node.inputs[0]].quant)
            anew.add(made)
        moved = {name for name in moved_by(graph, node) if name in roots} if node.storage and node.outputs else ()
        inputs = tuple(roots[name] if name in moved else name for name in node.inputs)
        op = graph.functions[node.op].op if node.domain == PLAN else node.op
        if op in _AVERAGING and not node.storage and node.inputs[0] in roots and _keeps(graph, node):
            inputs, made = (roots[node.inputs[0]], *node.inputs[1:]), node.outputs[0]
            values[made] = replace(values[made], quant=values[inputs[0]].quant)
            anew.add(made)
        nodes.append(replace(node, inputs=inputs))
    nodes = live(graph, nodes, lambda node: not roots.keys().isdisjoint(node.outputs))
    return replace(graph, values=values, nodes=tuple(nodes))


def _roots(graph: Graph) -> dict[str, str]:
    """What each value is a copy of that is the same integers, whatever they mean."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        same = node.op == "Identity" or (node.storage and node.op == "Gather" and _takes_all(graph, node))
        if same and not node.domain and node.region is None and _is_copy(graph, node):
            found[node.outputs[0]] = found.get(node.inputs[0], node.inputs[0])
    return found


def _is_copy(graph: Graph, node: Node) -> bool:
    """Whether an Identity gives the integers that it reads, or those that are stored anew in nearly the same steps."""
    one, other = (graph.values[name] for name in (node.inputs[0], *node.outputs))
    if one.dtype != other.dtype or one.data is not None:
        return False
    return node.storage or (one.dtype in _STORED and nearly(one.quant, other.quant))


def _hands_on(graph: Graph, node: Node) -> bool:
    """Whether what a node moves means the same before and after it, and nothing but moves reads that."""
    moved = node.op in _MOVING and len([*moved_by(graph, node)]) == 1
    plain = moved and all(each.storage and each.op in _MOVING for each in graph.readers.get(node.outputs[0], ()))
    return plain and nearly(*(graph.values[name].quant for name in (node.inputs[0], node.outputs[0])))


def _takes_all(graph: Graph, node: Node) -> bool:
    """Whether a Gather gives all that it reads, as it lies."""
    shape, taken = graph.values[node.inputs[0]].shape, graph.values[node.inputs[1]].data
    same = taken is not None and shape == graph.values[node.outputs[0]].shape
    return same and np.array_equal(taken, np.arange(shape[node.attributes.get("axis", 0)]))  # type: ignore[arg-type]


def _keeps(graph: Graph, node: Node) -> bool:
    """Whether what is averaged means nearly what is made of it, and nothing but moves reads that."""
    made = node.outputs[0]
    readers = graph.readers.get(made, ())
    moved = all(each.storage and each.op in _MOVING for each in readers)
    return moved and nearly(graph.values[node.inputs[0]].quant, graph.values[made].quant)


def live(graph: Graph, nodes: Sequence[Node], may_go: Callable[[Node], bool]) -> list[Node]:
    """The nodes without those that may go whose results nothing reads. The ends of branches and iterations read what
    stands behind them in the order of nodes.
    """
    read, kept = {*graph.results, *(name for node in nodes if node.op in LATE for name in node.inputs)}, list[Node]()
    for node in reversed(nodes):
        if not may_go(node) or not read.isdisjoint(node.outputs):
            kept.append(node)
            read.update(node.inputs)
    return kept[::-1]


def only_number(value: Value) -> float | None:
    """The only number that a constant means, None for one of several and for what is computed."""
    if value.data is None or value.data.size != 1:
        return None
    return float(value.real.reshape(-1)[0])


def in_steps(value: Value) -> bool:
    """Whether kernels on integers take how a tensor is stored: in steps of one size, as bytes, or int16 around zero."""
    if value.dtype != "int16":
        return value.in_bytes
    return value.quant is not None and value.quant.axis is None and not value.quant.zero_point.any()


def same_steps(one: Value, other: Value) -> bool:
    """Whether equal stored integers of two tensors mean the same."""
    return one.quant is not None and one.dtype == other.dtype and one.quant.matches(other.quant)


def nearly(one: Quant | None, other: Quant | None) -> bool:
    """Whether integers mean the same, but for what only rounds halves."""
    if one is None or other is None or one.axis is not None or other.axis is not None:
        return False
    same = np.array_equal(one.zero_point, other.zero_point)
    return same and bool(abs(one.scale[0] - other.scale[0]) <= STRETCH * other.scale[0])
