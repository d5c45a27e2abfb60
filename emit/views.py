"""Transposes, Reshapes and MaxPools of bytes behind DequantizeLinear, not before it.

OpenVINO takes a QuantizeLinear and a DequantizeLinear for what they mean only where nothing stands between the two.
Else what reads the numbers is computed in floats. What moves real numbers behind both it computes on bytes itself.
"""

from __future__ import annotations

from collections.abc import Collection

from layoutsolve.graph import CONTROL, Graph, Node

VIEWS = frozenset(("MaxPool", "Reshape", "Transpose"))
"""What gives some of the numbers that it reads, the same ones whether they are stored or what that means."""


def meant(graph: Graph) -> frozenset[str]:
    """What views give of bytes that QuantizeLinear writes, or that are given, for operators on real numbers alone."""
    wanted = set[str]()
    for node in reversed(graph.nodes):
        if node.storage and node.op in VIEWS and node.outputs[0] not in graph.results and _keeps(graph, node):
            readers = graph.readers.get(node.outputs[0], ())
            if readers and all(_is_among(each, wanted) or _computes(graph, each) for each in readers):
                wanted.add(node.outputs[0])
    found = set[str]()
    for node in graph.nodes:
        if _is_among(node, wanted) and (node.inputs[0] in found or _is_quantised(graph, node.inputs[0])):
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
    """Whether an operator reads real numbers, does not only quantise or dequantise them, and is no product of two
    computed matrices: OpenVINO computes that in floats in any case, with all that is around it.
    """
    if node.storage or node.domain or node.op in CONTROL or node.op == "Identity":
        return False
    return node.op != "MatMul" or any(graph.values[name].data is not None for name in node.inputs)


def _is_quantised(graph: Graph, name: str) -> bool:
    """Whether bytes are given, or written by QuantizeLinear as the result of an operator on real numbers."""
    node = graph.producer(name)
    if node is None:
        return graph.values[name].data is None
    return not (node.storage or node.domain or node.op in CONTROL)
