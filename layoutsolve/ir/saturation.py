"""Sums of int8 products that saturate on some processors.

Processors for x86 without VNNI multiply activations without a sign by weights with one two at a time, and add both
products in 16 bits. That is exact where no two weights that lie next to each other are too large.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Value

SUMMING = frozenset(("Conv", "Gemm", "MatMul"))
"""The operators with kernels on bytes that add products of several weights."""

_INTEGERS: Mapping[str, tuple[int, int, int]] = {
    "ConvInteger": (0, 1, 3),
    "MatMulInteger": (0, 1, 3),
    "QLinearConv": (0, 3, 5),
    "QLinearMatMul": (0, 3, 5),
    "com.microsoft:DynamicQuantizeMatMul": (0, 1, 3),
    "com.microsoft:MatMulIntegerToFloat": (0, 1, 5),
    "com.microsoft:QAttention": (0, 1, 7),
    "com.microsoft:QGemm": (0, 3, 5),
}
"""The products of integers, whose weights are of the type that the model says, and at which of their inputs they have
what is multiplied, the weights, and the zero of these.
"""

_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv")

_LARGEST = 32767 // 255
"""The largest sum of two weights whose products with 255 fit into 16 bits."""


def may_saturate(graph: Graph, node: Node) -> bool:
    """Whether an int8 kernel computes a product, and adds more than one weight at a time."""
    if not may_have_kernel(graph, node):
        return False
    weights = graph.values[node.inputs[1]]
    return not _is_depthwise(node, weights, None if weights.quant is None else weights.quant.zero_point)


def may_have_kernel(graph: Graph, node: Node) -> bool:
    """Whether a node is a product that an int8 kernel may compute."""
    if node.op not in SUMMING or node.domain or node.storage:
        return False
    given, result = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    if given.quant is None or given.dtype not in BYTES:
        return False
    return result.quant is None or result.dtype in BYTES  # no kernel gives integers of another size


def places_of(op: str, domain: str) -> tuple[int, int, int] | None:
    """At which inputs a product of integers has what is multiplied, the weights and their zero; None for others."""
    return _INTEGERS.get(f"{domain}:{op}" if domain else op)


def of_integers(graph: Graph, node: Node) -> tuple[Value, Array] | None:
    """The weights of a product of integers, and their zero, where its sums may saturate: of numbers unsigned by
    constants with one; None for all other nodes.
    """
    places = places_of(node.op, node.domain)
    if places is None or len(node.inputs) <= places[1]:
        return None
    given, weights = (graph.values[node.inputs[place]] for place in places[:2])
    named = node.inputs[places[2]] if len(node.inputs) > places[2] else ""
    zero = graph.values[named].data if named else np.zeros((), np.int8)
    if given.dtype == "int8" or weights.dtype != "int8" or weights.data is None or zero is None or zero.ndim > 1:
        return None
    saturates = not _is_depthwise(node, weights, zero) and _saturate(node, weights.data)
    return (weights, zero) if saturates else None


def _is_depthwise(node: Node, weights: Value, zero: Array | None) -> bool:
    """Whether each channel is multiplied by weights of its own, all with one zero point: no kernel adds pairs of such
    products. Where zero points differ a product of matrices computes each channel.
    """
    groups = node.attributes.get("group", 1)
    one = zero is None or zero.size == 0 or bool((zero == zero.flat[0]).all())
    return groups != 1 and one and tuple(weights.shape[:2]) == (groups, 1)


def _saturate(node: Node, weights: Array) -> bool:
    found = (too_large(row[np.newaxis])[0] for way in ways(node, weights) for row in way)
    return any(found)  # most do in one of the first rows


def saturating(graph: Graph) -> list[str]:
    """Constant int8 weights with which sums of products may saturate, in the order of their readers."""
    found = dict[str, None]()
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if name in found or not may_saturate(graph, node):
            continue
        weights = graph.values[name]
        if weights.data is None or weights.dtype != "int8" or weights.quant is None or weights.quant.block:
            continue
        if _saturate(node, weights.data):
            found[name] = None
    return [*found]


def ways(node: Node, weights: Array) -> tuple[Array, ...]:
    """The weights of a product with a row for each result, in the orders in which kernels read them: those of images
    that lie channels-last read pixels, then channels, others the other way round.
    """
    if node.op in _CONVOLUTIONS:
        return np.moveaxis(weights, 1, -1).reshape(len(weights), -1), weights.reshape(len(weights), -1)
    by_column = not node.attributes.get("transB", 0)
    return (weights.reshape(-1, weights.shape[-1]).T if by_column else weights,)


def too_large(row: Array) -> tuple[int, int]:
    """How many pairs of neighbours in rows of int8 weights could saturate, and how many there are.

    Kernels pair weights from the first one on, or from the first of each pixel: all neighbours count.
    """
    wide = row.astype(np.int16)
    first, second = wide[:, :-1], wide[:, 1:]
    above = np.maximum(first, 0) + np.maximum(second, 0) > _LARGEST
    below = np.minimum(first, 0) + np.minimum(second, 0) < -_LARGEST
    return int((above | below).sum()), above.size
