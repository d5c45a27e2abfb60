"""Images of few channels that lie channels-first, with channels of zeros behind the others.

Kernels on bytes that read some channels of a pixel at once are twice as fast as those that gather each by itself. Where
an image comes channels-first, as PyTorch has it, a channel more is one block of memory; among the others it would cost
more than it gains.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.budget import Budget
from layoutsolve.frontend.passes.live import used
from layoutsolve.graph import BYTES, Graph, Node, Value
from layoutsolve.names import Names

CHANNELS = 1
"""The dimension of channels in what convolutions read, and in their kernels."""

IMAGE = 4
"""The dimensions of an image."""

RESULTS = 16
"""How many results of a pixel such kernels give at once."""


def filled(graph: Graph, channels: int, budget: Budget) -> Graph:
    """The same graph whose convolutions of bytes by weights with a sign read so many channels at least, where an image
    lies channels-first. What is written anew counts in the ``budget``.
    """
    found = {node: _image(graph, node) for node in graph.nodes if channels and _fits(graph, node, channels)}
    if not any(found.values()):
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for node in graph.nodes:
        image = found.get(node, "")
        if image:
            wider, more = values[image], channels - _channels(values[image])
            weights, name = _widened(values[node.inputs[1]], more, taken), taken.derived(image, "filled")
            pads = np.array([0, 0, 0, 0, 0, more, 0, 0], np.int64)
            zero = wider.quant.zero_point[:1].reshape(()) if wider.quant is not None else np.zeros((), wider.dtype)
            amounts, filler = taken.derived(name, "pads"), taken.derived(name, "zero")
            values[weights.name] = weights
            values[amounts] = Value(amounts, "int64", pads.shape, data=pads)
            values[filler] = Value(filler, wider.dtype, (), wider.quant, zero)
            values[name] = replace(wider, name=name, shape=(wider.shape[0], channels, *wider.shape[2:]))
            pad = (image, amounts, filler), (name,), {"mode": "constant"}, node.origin
            nodes.append(Node("Pad", *pad, storage=True, region=node.region))
            node = replace(node, inputs=(name, weights.name, *node.inputs[2:]))
            if weights.data is not None:
                budget.keep(weights.data)
        nodes.append(node)
    return used(graph, nodes, values)


def _fits(graph: Graph, node: Node, channels: int) -> bool:
    """Whether a node is a convolution of bytes of fewer channels, for which there is such a kernel."""
    if node.op != "Conv" or node.domain or node.attributes.get("group", 1) != 1:
        return False
    given, weights = (graph.values[name] for name in node.inputs[:2])
    quant = weights.quant
    if len(given.shape) != IMAGE or given.dtype not in BYTES or given.quant is None or given.quant.axis is not None:
        return False
    if weights.data is None or weights.dtype != "int8" or quant is None or quant.axis not in (None, 0):
        return False
    return not quant.zero_point.any() and weights.data.shape[1] < channels and len(weights.data) >= RESULTS


def _image(graph: Graph, node: Node) -> str:
    """The image that a convolution reads behind Transposes that undo each other; '' where they do not."""
    name, order = node.inputs[0], tuple(range(IMAGE))
    while (index := graph.producers.get(name)) is not None and graph.nodes[index].op == "Transpose":
        before = graph.nodes[index]
        name, order = before.inputs[0], tuple(before.attributes["perm"][axis] for axis in order)
    computed = graph.values[name].data is None and graph.region(name) is node.region
    return name if computed and order == tuple(range(IMAGE)) else ""


def _channels(image: Value) -> int:
    size = image.shape[CHANNELS]
    if not isinstance(size, int):
        raise TypeError(f"'{image.name}' has {size} channels")
    return size


def _widened(weights: Value, more: int, taken: Names) -> Value:
    """Weights that are zero for so many channels more."""
    if weights.data is None:
        raise TypeError(f"'{weights.name}' is no constant")
    data = np.pad(weights.data, [(0, 0), (0, more), (0, 0), (0, 0)])
    return replace(weights, name=taken.derived(weights.name, "filled"), shape=data.shape, data=data)
