"""Sums of products of bytes that saturate on some processors.

Processors for x86 without VNNI multiply activations without a sign by weights with one two at a time, and add both
products in 16 bits. That is exact where no two weights that lie next to each other are too large.
"""

from __future__ import annotations

import numpy as np

from layoutsolve.graph import BYTES, Array, Graph, Node

SUMMING = frozenset(("Conv", "Gemm", "MatMul"))
"""The operators with kernels on bytes that add products of several weights."""

_LARGEST = 32767 // 255
"""The largest sum of two weights whose products with 255 fit into 16 bits."""


def may_saturate(graph: Graph, node: Node) -> bool:
    """Whether a kernel on bytes computes a product, and adds more than one weight at a time."""
    if node.op not in SUMMING or node.domain or node.storage:
        return False
    given, weights = (graph.values[name] for name in node.inputs[:2])
    result = graph.values[node.outputs[0]]
    if given.quant is None or given.dtype not in BYTES:
        return False
    if result.quant is not None and result.dtype not in BYTES:
        return False  # no kernel gives integers of another size
    groups = node.attributes.get("group", 1)
    return groups == 1 or tuple(weights.shape[:2]) != (groups, 1)


def saturating(graph: Graph) -> list[str]:
    """The constant weights with a sign with which sums of products may saturate, in the order of their readers."""
    found = dict[str, None]()
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if name in found or not may_saturate(graph, node):
            continue
        weights = graph.values[name]
        if weights.data is None or weights.dtype != "int8" or weights.quant is None or weights.quant.block:
            continue
        if any(too_large(row[np.newaxis])[0] for row in rows(node, weights.data)):  # most do in one of the first rows
            found[name] = None
    return [*found]


def rows(node: Node, weights: Array) -> Array:
    """The weights of a product with a row for each result, in the order in which kernels read them: pixels, then
    channels.
    """
    if node.op == "Conv":
        return np.moveaxis(weights, 1, -1).reshape(len(weights), -1)
    by_column = node.op == "MatMul" or not node.attributes.get("transB", 0)
    return weights.reshape(-1, weights.shape[-1]).T if by_column else weights


def too_large(row: Array) -> tuple[int, int]:
    """How many pairs of neighbours in rows of weights of 8 bits with a sign could saturate, and how many there are.

    Kernels pair weights from the first one on, or from the first of each pixel: all neighbours count.
    """
    wide = row.astype(np.int16)
    first, second = wide[:, :-1], wide[:, 1:]
    above = np.maximum(first, 0) + np.maximum(second, 0) > _LARGEST
    below = np.minimum(first, 0) + np.minimum(second, 0) < -_LARGEST
    return int((above | below).sum()), above.size
