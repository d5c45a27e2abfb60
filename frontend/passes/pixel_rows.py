"""Convolutions that read whole pixels of channels-last images as if each row were a longer one of one channel.

layoutsolve writes the first convolution of a network so, as ONNX Runtime takes longer for few channels. What it wrote
is recognised, and its layout decided anew. Weights lie in the same order either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.ir.graph import Graph, Node, Value
from layoutsolve.ir.names import Names

_IMAGE = 4
_FIRST = (0, 3, 1, 2)
"""The order of dimensions that makes a channels-last image channels-first."""


def recognise(graph: Graph) -> Graph:
    """The same graph with convolutions of several channels in their place."""
    return substituted(
        graph, {node: found for node in graph.nodes if (found := _image(graph, node)) is not None}, _of_pixels
    )


def _image(graph: Graph, node: Node) -> tuple[Value, int] | None:
    """The image whose rows a convolution reads, of which every window has whole pixels, and how many channels it has;
    None where there is none.
    """
    if node.op != "Conv" or node.domain or node.attributes.get("group", 1) != 1:
        return None
    row, weights, view = graph.values[node.inputs[0]], graph.values[node.inputs[1]], graph.producer(node.inputs[0])
    if view is None or view.op != "Reshape" or view.region is not node.region or len(row.shape) != _IMAGE:
        return None
    image = graph.values[view.inputs[0]]
    if len(image.shape) != _IMAGE or weights.data is None or (weights.quant is not None and weights.quant.block):
        return None
    (batch, height, width, channels), axis = image.shape, None if weights.quant is None else weights.quant.axis
    if not isinstance(width, int) or not isinstance(channels, int) or channels < 1 or axis not in (None, 0):
        return None
    same = row.shape == (batch, 1, height, width * channels) and row.dtype == image.dtype
    sides = [node.attributes.get("strides", (1, 1))[1], *node.attributes.get("pads", (0,) * _IMAGE)[1::2]]
    whole = all(each % channels == 0 for each in (*sides, weights.data.shape[3]))
    plain = node.attributes.get("auto_pad", "NOTSET") == "NOTSET" and set(node.attributes.get("dilations", (1,))) == {1}
    return (image, channels) if channels > 1 and same and whole and plain else None


def _of_pixels(node: Node, found: tuple[Value, int], values: dict[str, Value], taken: Names) -> list[Node]:
    """The image with its channels first, and the convolution of these; their values are entered."""
    row, weights, (image, channels) = values[node.inputs[0]], values[node.inputs[1]], found
    turned, kernel = taken.derived(row.name, "pixels"), taken.derived(weights.name, "pixels")
    data = weights.constant.reshape(*weights.constant.shape[0:3:2], -1, channels).transpose(_FIRST)
    values[turned] = replace(row, name=turned, shape=tuple(image.shape[axis] for axis in _FIRST))
    values[kernel] = replace(weights, name=kernel, shape=data.shape, data=data)
    move = Node("Transpose", (image.name,), (turned,), {"perm": _FIRST}, node.origin, row.quant is not None)
    inputs = (turned, kernel, *node.inputs[2:])
    attributes = {**node.attributes, **_by_pixels(node.attributes, channels)}
    moved = replace(move, region=node.region)
    return [moved, replace(node, inputs=inputs, attributes=attributes, given=False)]


def _by_pixels(attributes: Mapping[str, object], channels: int) -> dict[str, tuple[int, ...]]:
    """The attributes along rows, in pixels."""
    found = {}
    for name in ("kernel_shape", "pads", "strides"):
        given = attributes.get(name)
        if isinstance(given, tuple | list):
            found[name] = tuple(int(each) // (channels if place % 2 else 1) for place, each in enumerate(given))
    return found
