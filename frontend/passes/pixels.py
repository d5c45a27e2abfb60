"""Images of few channels that lie channels-first, with channels of zeros behind the others.

Kernels on bytes that read some channels of a pixel at once are twice as fast as those that gather each by itself. Where
an image comes channels-first, as PyTorch has it, a channel more is one block of memory; among the others it would cost
more than it gains. So would products by many zeros, and any channel for few results.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.frontend.passes.wider_images import CHANNELS, IMAGE
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Node, Value, static_elements
from layoutsolve.ir.names import Names

RESULTS = 16
"""How many results of a pixel such kernels give at once."""

PLACES = 100
"""From so many windows on they gain more than the padding takes."""

ZEROS = {1: 27, 64: 49}
"""By how many channels of results at least: the zeros among the weights of one that cost no more than they gain."""


def filled(graph: Graph, channels: int, budget: Budget) -> Graph:
    """Pad int8 convolutions by int8 weights to so many input channels at least, where an image is channels-first. New
    initializers count in the ``budget``.
    """
    fitting = [node for node in graph.nodes if channels and _fits(graph, node, channels)]
    images = {node: image for node in fitting if (image := _image(graph, node)) and not _is_turned(graph, image)}

    def widened(node: Node, image: str, values: dict[str, Value], taken: Names) -> list[Node]:
        weights, pad = _widened(values[node.inputs[1]], channels, taken), _pad(values, image, channels, taken)
        budget.keep(weights.constant)
        values[weights.name] = weights
        placed = replace(pad, origin=node.origin, region=node.region)
        return [placed, replace(node, inputs=(*pad.outputs, weights.name, *node.inputs[2:]))]

    return substituted(graph, images, widened)


def _pad(values: dict[str, Value], name: str, channels: int, taken: Names) -> Node:
    """What puts zeros behind the channels of an image; its values are entered."""
    image, made = values[name], taken.derived(name, "filled")
    before = image.shape[CHANNELS]
    if image.quant is None or not isinstance(before, int):
        raise TypeError(f"'{name}' is no int8 or uint8 image")
    pads = np.array([0, 0, 0, 0, 0, channels - before, 0, 0], np.int64)
    zero = image.quant.zero_point.reshape(())
    amounts, filler = taken.derived(made, "pads"), taken.derived(made, "zero")
    values[amounts] = Value(amounts, "int64", pads.shape, data=pads)
    values[filler] = Value(filler, image.dtype, (), image.quant, zero)
    values[made] = replace(image, name=made, shape=(image.shape[0], channels, *image.shape[2:]))
    return Node("Pad", (name, amounts, filler), (made,), {"mode": "constant"}, storage=True)


def _fits(graph: Graph, node: Node, channels: int) -> bool:
    """Whether a node is a convolution of bytes of fewer channels, for which there is such a kernel."""
    if node.op != "Conv" or node.domain or node.attributes.get("group", 1) != 1:
        return False
    given, weights = (graph.values[name] for name in node.inputs[:2])
    quant = weights.quant
    if len(given.shape) != IMAGE or not given.in_bytes:
        return False
    if weights.data is None or weights.dtype != "int8" or quant is None or quant.axis not in (None, 0):
        return False
    results, before, *window = weights.data.shape
    if quant.zero_point.any() or before >= channels or results < RESULTS:
        return False
    most = max(zeros for least, zeros in ZEROS.items() if results >= least)
    return prod(window) * (channels - before) <= most and _places(graph.values[node.outputs[0]]) >= PLACES


def _places(result: Value) -> int | float:
    """Of how many windows a convolution gives results; infinitely many where that is not known."""
    sizes = (result.shape[0], *result.shape[2:])
    return static_elements(sizes) if all(isinstance(size, int) for size in sizes) else inf


def _image(graph: Graph, node: Node) -> str:
    """The image that a convolution reads behind Transposes that undo each other; '' where they do not."""
    name, order = node.inputs[0], tuple(range(IMAGE))
    while (index := graph.producers.get(name)) is not None and graph.nodes[index].op == "Transpose":
        before = graph.nodes[index]
        name, order = before.inputs[0], tuple(before.attributes["perm"][axis] for axis in order)
    computed = graph.values[name].data is None and graph.region(name) is node.region
    return name if computed and order == tuple(range(IMAGE)) else ""


def _is_turned(graph: Graph, name: str) -> bool:
    """Whether an image lies channels-last before it is changed as a whole: it was transposed, or is that of a
    convolution.
    """
    while (node := graph.producer(name)) is not None and node.op not in ("Conv", "Transpose"):
        computed = [each for each in node.inputs if each and graph.values[each].data is None]
        if len(computed) != 1 or graph.values[computed[0]].shape != graph.values[name].shape:
            return False
        (name,) = computed
    return node is not None


def _widened(weights: Value, channels: int, taken: Names) -> Value:
    """Weights that are zero for the channels that there are not."""
    data = np.pad(weights.constant, [(0, 0), (0, channels - weights.constant.shape[1]), (0, 0), (0, 0)])
    return replace(weights, name=taken.derived(weights.name, "filled"), shape=data.shape, data=data)
