"""Convolutions by small groups, with several groups as one whose weights are zero between them.

ONNX Runtime's kernels on bytes take each group by itself, and longer than floats where it has few channels. Up to 32
channels a group of several takes no longer than one of them, although most of its products are zero. Those on floats
keep channels in blocks if groups have whole ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.frontend.passes.wider_images import IMAGE
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import BYTES, Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

BLOCK = 16
"""The channels that are kept together where floats are convolved."""

FEWEST = {"int8": 4, "uint8": 8}
"""The channels of a group from which on that takes less time than floats, by the type of the weights."""


def joined(graph: Graph, channels: int, budget: Budget) -> Graph:
    """The same graph with as many groups as one as have so many channels together at most, a block where they are of
    floats; 0 leaves all alone. What is written anew counts in the ``budget``.
    """
    together = {node: count for node in graph.nodes if channels and (count := _together(graph, node, channels)) > 1}

    def widened(node: Node, count: int, values: dict[str, Value], taken: Names) -> list[Node]:
        weights = _widened(values[node.inputs[1]], node.attributes["group"], count, taken)
        budget.keep(weights.constant)
        values[weights.name] = weights
        attributes = {**node.attributes, "group": node.attributes["group"] // count}
        return [replace(node, inputs=(node.inputs[0], weights.name, *node.inputs[2:]), attributes=attributes)]

    return substituted(graph, together, widened)


def _together(graph: Graph, node: Node, channels: int) -> int:
    """How many groups of a convolution may be one; 1 where it has none."""
    groups = node.attributes.get("group", 1) if node.op == "Conv" and not node.domain else 1
    if groups <= 1:
        return 1
    given, weights, result = (graph.values[name] for name in (*node.inputs[:2], node.outputs[0]))
    quant, data = weights.quant, weights.data
    if data is None or data.ndim != IMAGE or len(data) % groups or not (quant is None or _is_by_result(quant)):
        return 1
    read, written = data.shape[1], len(data) // groups
    if given.in_floats and result.in_floats:
        count = BLOCK // read if 1 < read < BLOCK and weights.dtype in ("float32", *BYTES) else 1
        return count if groups % count == 0 and read * count == BLOCK and written * count % BLOCK == 0 else 1
    if quant is None or not (given.in_bytes and result.in_bytes) or read < FEWEST.get(weights.dtype, channels):
        return 1
    return max((count for count in range(2, channels // read + 1) if groups % count == 0), default=1)


def _is_by_result(quant: Quant) -> bool:
    """Whether there are steps of one size, or one for each channel that is given."""
    return quant.axis in (None, 0) and not quant.block


def _widened(weights: Value, groups: int, count: int, taken: Names) -> Value:
    """Weights that are zero for the channels of the other groups that are one with theirs."""
    data = weights.constant
    given, read, *kernel = data.shape
    apart = data.reshape(groups // count, count, given // groups, read, *kernel)
    zero = np.zeros(1) if weights.quant is None else weights.quant.zero_point
    zeros = zero.astype(data.dtype).reshape(-1, 1, 1, 1)
    shape = (given, count * read, *kernel)
    found = np.broadcast_to(zeros, shape).reshape(groups // count, count, given // groups, count, read, *kernel).copy()
    for place in range(count):
        found[:, place, :, place] = apart[:, place]
    return replace(weights, name=taken.derived(weights.name, "joined"), shape=shape, data=found.reshape(shape))
