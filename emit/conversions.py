"""Activations that are stored anew, int8 as uint8 or the other way round, beside operators that compute in floats all
the same: these take them, and give them, as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from layoutsolve.emit import slow_int8_kernels
from layoutsolve.emit.slow_int8_kernels import ACTIVATIONS, VIEWS
from layoutsolve.ir.graph import Graph, Node
from layoutsolve.ir.storage_options import Storage


def left_out(graph: Graph, storage: Storage, kept: Collection[str]) -> Graph:
    """The graph without conversions between int8 and uint8 that only operators in floats want; ``kept`` are names of
    tensors that have to stay.
    """
    anew = [node for node in graph.nodes if _is_anew(graph, node)]
    slow = slow_int8_kernels.convolutions(graph) | slow_int8_kernels.of_target(graph, storage) if anew else ()
    held = graph.results.union(kept)
    for node in anew if slow else ():
        if graph.producer(node.outputs[0]) is not node:  # of two in a row
            continue
        graph = _given(graph, node, slow, held) or _read(graph, node, slow, held) or graph
    return graph


def _is_anew(graph: Graph, node: Node) -> bool:
    """Whether a node stores bytes as those of the other type which mean the same."""
    if node.op != "Identity" or node.storage or node.domain:
        return False
    before, after = (graph.values[name] for name in (*node.inputs, *node.outputs))
    if not (before.in_bytes and after.in_bytes) or before.dtype == after.dtype or before.data is not None:
        return False
    one, other = before.steps, after.steps
    if one.scale.size != 1 or other.scale.size != 1 or one.scale[0] != other.scale[0]:
        return False
    lowest = {"int8": -128, "uint8": 0}
    return int(one.zero_point[0]) - lowest[before.dtype] == int(other.zero_point[0]) - lowest[after.dtype]


def _read(graph: Graph, node: Node, slow: Collection[str], held: Collection[str]) -> Graph | None:
    """The graph in which all that reads such a value, behind views too, reads what is stored anew; None where some of
    it does not compute in floats.
    """
    views, waiting = list[str](), [node.outputs[0]]
    while waiting:
        name = waiting.pop()
        if name in held or not graph.readers.get(name):
            return None
        for reader in graph.readers[name]:
            if _is_view(reader):
                views.append(reader.outputs[0])
                waiting.append(reader.outputs[0])
            elif reader.storage or reader.outputs[0] not in slow:
                return None
    return _without(graph, node, node.outputs[0], node.inputs[0], views)


def _given(graph: Graph, node: Node, slow: Collection[str], held: Collection[str]) -> Graph | None:
    """The graph in which what computes such a value in floats gives it as it is stored anew; None where none does."""
    views, (name,) = list[str](), node.inputs
    while name not in held and graph.reads[name] == 1:
        maker = graph.producer(name)
        if maker is None or maker.region is not node.region:
            return None
        if _is_view(maker):
            views.append(name)
            (name, *_) = maker.inputs
        elif any(each in slow for each in _computed(graph, maker)):
            return _without(graph, node, node.inputs[0], node.outputs[0], [*views, name])
        else:
            return None
    return None


def _computed(graph: Graph, node: Node) -> Iterator[str]:
    """What a node gives, and what the activation reads alone that it is."""
    yield node.outputs[0]
    if node.op in ACTIVATIONS and graph.reads[node.inputs[0]] == 1 and graph.values[node.inputs[0]].quant is None:
        yield node.inputs[0]


def _is_view(node: Node) -> bool:
    return node.storage and node.op in VIEWS


def _without(graph: Graph, node: Node, old: str, new: str, retyped: Collection[str]) -> Graph:
    """The graph without a node: one of its two values takes the place of the other, and views of that its type."""
    like, values = graph.values[new], dict(graph.values)
    for name in retyped:
        values[name] = replace(values[name], dtype=like.dtype, quant=like.quant)
    del values[old]

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if name == old else name for name in names)

    rest = (each for each in graph.nodes if each is not node)
    changed = (
        replace(each, inputs=renamed(each.inputs), outputs=renamed(each.outputs))
        if old in each.inputs or old in each.outputs
        else each
        for each in rest
    )
    return replace(graph, values=values, nodes=tuple(changed))
