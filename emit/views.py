"""Transposes, Reshapes and MaxPools of quantized tensors, behind DequantizeLinear, not before it.

OpenVINO takes a QuantizeLinear and a DequantizeLinear for what they mean only where nothing stands between the two.
Else what reads the numbers is computed in floats. What moves real numbers behind both it computes on bytes itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from layoutsolve.ir.graph import CONTROL, Graph, Node, Value, static_elements
from layoutsolve.ir.names import Names

VIEWS = frozenset(("MaxPool", "Reshape", "Transpose"))
"""What gives some of the numbers that it reads, the same ones whether they are stored or what that means."""

IMAGE = 4
"""The dimensions of an image."""

CHANNELS_FIRST = (0, 3, 1, 2)
"""The order of an image's dimensions, channels-last, that puts channels first."""


def meant(graph: Graph) -> frozenset[str]:
    """Results of views of what QuantizeLinear writes, or of quantized inputs, for float operators alone."""
    wanted = set[str]()
    for node in reversed(graph.nodes):
        if node.storage and node.op in VIEWS and node.outputs[0] not in graph.results and _keeps(graph, node):
            readers = graph.readers.get(node.outputs[0], ())
            if readers and all(_is_among(each, wanted) or _computes(graph, each) for each in readers):
                wanted.add(node.outputs[0])
    found = set[str]()
    for node in graph.nodes:
        if _is_among(node, wanted) and (node.inputs[0] in found or _is_quantized(graph, node.inputs[0])):
            found.add(node.outputs[0])
    return frozenset(found)


def _is_among(node: Node, names: Collection[str]) -> bool:
    """Whether a node gives one of some values first."""
    return bool(node.outputs) and node.outputs[0] in names


def _keeps(graph: Graph, node: Node) -> bool:
    """Whether a view is one of bytes that are computed, and gives bytes that mean the same."""
    before, after = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
    if len(node.outputs) > 1 or not (before.in_bytes and after.in_bytes) or before.dtype != after.dtype:
        return False
    return before.quant is not None and after.quant is not None and after.quant.matches(before.quant)


def _computes(graph: Graph, node: Node) -> bool:
    """Whether an operator reads real numbers, does not only quantize or dequantize them, and is no product of two
    computed matrices: OpenVINO computes that in floats in any case, with all that is around it.
    """
    if node.storage or node.domain or node.op in CONTROL or node.op == "Identity":
        return False
    return node.op != "MatMul" or any(graph.values[name].data is not None for name in node.inputs)


def _is_quantized(graph: Graph, name: str) -> bool:
    """Whether bytes are given, or written by QuantizeLinear as the result of an operator on real numbers."""
    node = graph.producer(name)
    if node is None:
        return graph.values[name].data is None
    return not (node.storage or node.domain or node.op in CONTROL)


def as_images(graph: Graph) -> Graph:
    """The same graph in which what becomes an image of floats, channels-first, is one, channels-last, before it
    is transposed. OpenVINO takes that for another order of the same bytes, where it moves those of a matrix one by one.
    """
    real = meant(graph)
    pairs = {node.outputs[0]: _image(graph, node) for node in graph.nodes if _is_turned(graph, node)}
    found = {name: reader for name, reader in pairs.items() if reader is not None and reader.outputs[0] in real}
    if not found:
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    last = {reader.outputs[0]: name for name, reader in found.items()}
    for node in graph.nodes:
        name = node.outputs[0] if node.outputs else ""
        if name in found:
            batch, channels, *space = graph.values[found[name].outputs[0]].shape
            sizes = (batch, *space, channels)
            made, vector = taken.derived(name, "image"), taken.derived(name, "sizes")
            values[made] = replace(graph.values[name], name=made, shape=sizes)
            values[vector] = Value(vector, "int64", (IMAGE,), data=np.array(sizes, np.int64))
            nodes.append(replace(node, op="Reshape", inputs=(node.inputs[0], vector), outputs=(made,), attributes={}))
            last[found[name].outputs[0]] = made
            del values[name]
        elif name in last:
            turn = {"perm": CHANNELS_FIRST}
            nodes.append(replace(node, op="Transpose", inputs=(last[name],), attributes=turn))
        else:
            nodes.append(node)
    return replace(graph, values=values, nodes=tuple(nodes))


def _is_turned(graph: Graph, node: Node) -> bool:
    """Whether a node gives matrices of bytes that are transposed, for one reader."""
    if not (node.storage and node.op == "Transpose") or node.outputs[0] in graph.results:
        return False
    *outer, rows, columns = range(len(node.attributes["perm"]))
    turned = tuple(node.attributes["perm"]) == (*outer, columns, rows)
    return turned and graph.values[node.outputs[0]].in_bytes and graph.reads[node.outputs[0]] == 1


def _image(graph: Graph, node: Node) -> Node | None:
    """The Reshape that makes images of transposed matrices, channels-first."""
    (reader,) = graph.readers[node.outputs[0]]
    if not (reader.storage and reader.op == "Reshape") or reader.region is not node.region:
        return None
    *_, channels, pixels = graph.values[node.outputs[0]].shape
    made = graph.values[reader.outputs[0]].shape
    if len(made) != IMAGE or not all(isinstance(size, int) for size in (*made, channels, pixels)):
        return None
    return reader if made[1] == channels and static_elements(made[2:]) == pixels else None
