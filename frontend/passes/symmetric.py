"""The nearest weights of convolutions whose zero is 0, in place of others: int8 kernels have less to do.

Files of the first quantizers have weights without a sign, whose zero lies anywhere. Less it, most fit into 8 bits with
a sign as they are; a channel of which one does not has steps of its own, so much larger, in which all of its weights
are rounded. This is the only pass that changes what a model computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

LOWEST, HIGHEST = -128, 127

BIAS = 2
"""The input of a convolution that is added."""


def rounded(graph: Graph) -> Graph:
    """The graph with weights of int8 convolutions whose zero is 0, where nothing else reads them."""
    values, taken, biases = dict(graph.values), Names(graph.values), dict[Node, str]()
    for name, readers in _read_by(graph).items():
        if not (_is_askew(graph.values[name]) and all(_fits(graph, node, name) for node in readers)):
            continue
        values[name], coarser = _centred(graph.values[name])
        for node in readers if (coarser > 1).any() else ():
            if node is not None and len(node.inputs) > BIAS and node.inputs[BIAS]:
                bias = _rescaled(graph.values[node.inputs[BIAS]], coarser, taken.derived(node.outputs[0], "bias"))
                biases[node], values[bias.name] = bias.name, bias
    nodes = [
        replace(node, inputs=(*node.inputs[:BIAS], biases[node])) if node in biases else node for node in graph.nodes
    ]
    return used(graph, nodes, values)


def _read_by(graph: Graph) -> Mapping[str, Sequence[Node | None]]:
    """By constant, what reads it; None where it is an output of the graph."""
    readers: dict[str, list[Node | None]] = {name: [] for name, value in graph.values.items() if value.data is not None}
    for node in (*graph.nodes, None):
        for name in dict.fromkeys(node.inputs if node else graph.outputs):
            if name in readers:
                readers[name].append(node)
    return readers


def _fits(graph: Graph, node: Node | None, name: str) -> bool:
    """Whether a node is a convolution of bytes by weights of that name, with a constant bias in steps, or none."""
    if node is None or node.op != "Conv" or node.domain or [*node.inputs].index(name) != 1:
        return False
    given = graph.values[node.inputs[0]]
    bias = graph.values[node.inputs[BIAS]] if len(node.inputs) > BIAS and node.inputs[BIAS] else None
    kept = bias is None or (bias.data is not None and bias.quant is not None and not bias.quant.zero_point.any())
    return given.dtype in BYTES and given.quant is not None and kept


def _is_askew(weights: Value) -> bool:
    """Whether constants are bytes with a zero that is not 0, by one step or by one for each channel."""
    quant = weights.quant
    if weights.data is None or weights.dtype not in BYTES or quant is None or quant.block:
        return False
    return quant.axis in (None, 0) and bool(quant.zero_point.any())


def _centred(weights: Value) -> tuple[Value, Array]:
    """The weights with 0 as their zero, and how many times as large the steps of each channel are."""
    quant, data = weights.steps, weights.constant
    whole = data.astype(np.int16) - quant.spread(quant.zero_point.astype(np.int16), data.ndim)
    rows = whole.reshape(len(whole), -1)
    coarser = np.maximum(np.maximum(rows.max(1, initial=0) / HIGHEST, rows.min(1, initial=0) / LOWEST), 1.0)
    beyond = np.flatnonzero(coarser > 1)
    found = rows.astype(np.int8)
    found[beyond] = np.rint(rows[beyond] / coarser[beyond, None])
    scale, axis = quant.scale, quant.axis
    if beyond.size:
        scale, axis = (scale * coarser).astype(np.float32), 0
    steps = Quant(scale, np.zeros(len(scale), np.int8), axis)
    return replace(weights, dtype="int8", quant=steps, data=found.reshape(data.shape)), coarser


def _rescaled(bias: Value, coarser: Array, name: str) -> Value:
    """A bias of another name in the steps of weights that are so many times as large."""
    quant, data = bias.steps, bias.constant
    scale = (quant.scale * coarser).astype(np.float32)
    steps = Quant(scale, np.zeros(len(scale), quant.zero_point.dtype), 0)
    return replace(bias, name=name, quant=steps, data=np.rint(data / coarser).astype(data.dtype))
