"""Images whose pixels are repeated along rows and columns: views that are tiled, stacked or multiplied by ones.

That is how exporters write the upsampling of pyramids of images. It becomes a Resize to the nearest pixel, which
runtimes have kernels for, and whose images may lie in any layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.ir.graph import Dim, Graph, Node, Shape, Value, product
from layoutsolve.ir.names import Names

IMAGE = 4
"""The dimensions of an image."""

RESIZED = frozenset(("float32", "int8", "int32", "uint8"))
"""Stored types for which every ONNX Runtime has Resize."""

REPEATING = frozenset(("Concat", "Expand", "Mul", "Tile"))
"""The operators that may repeat a dimension of size 1."""

Factor = tuple[int | None, Dim]
"""A part of a dimension: that of the image it comes from, None where elements are repeated, and its size."""


@dataclass(frozen=True)
class _View:
    """A value made of an image by regrouping its dimensions and repeating elements: the factors of each dimension."""

    image: str
    dims: tuple[tuple[Factor, ...], ...]


def recognise(graph: Graph) -> Graph:
    """The same graph with a Resize wherever views repeat the pixels of an image."""
    if not any(node.op in REPEATING and not node.domain for node in graph.nodes):
        return graph
    values, taken = dict(graph.values), Names(graph.values)
    views: dict[str, _View] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        view = _viewed(graph, node, views)
        scales = None if view is None else _scales(view)
        if view is not None:
            views[node.outputs[0]] = view
        if view is None or scales is None:
            nodes.append(node)
            continue
        vector = np.array(scales, np.float32)
        name = taken.derived(node.outputs[0], "scales")
        values[name] = Value(name, "float32", vector.shape, data=vector)
        nodes.append(replace(node, op="Resize", inputs=(view.image, "", name), attributes=_NEAREST))
    if len(values) == len(graph.values):
        return graph
    return rewritten(graph, nodes, values)


_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _viewed(graph: Graph, node: Node, views: Mapping[str, _View]) -> _View | None:
    """What a node makes of an image, None where that is anything else than a view with repeated elements."""
    if node.domain or (node.op != "Reshape" and node.op not in REPEATING):
        return None
    given = _operand(graph, node)
    if given is None or not _same_numbers(graph, node, given):
        return None
    before, after = graph.values[given], graph.values[node.outputs[0]]
    view = views.get(given) or _whole(before)
    if view is None or graph.region(view.image) != node.region:
        return None
    dims = _regrouped(view, after.shape) if node.op == "Reshape" else _repeated(view, before.shape, after.shape)
    return None if dims is None else _View(view.image, dims)


def _operand(graph: Graph, node: Node) -> str | None:
    """The one value that a node reads which is not about sizes."""
    if node.op == "Concat":
        sources = {_source(graph, name) for name in node.inputs}
        return node.inputs[0] if len(sources) == 1 else None
    if node.op == "Mul":
        factors = [name for name in node.inputs if _ones(graph.values[name])]
        others = [name for name in node.inputs if name not in factors]
        return others[0] if len(others) == len(factors) == 1 else None
    return node.inputs[0]


def _source(graph: Graph, name: str) -> tuple[str, Shape]:
    """What a view is of, and its shape: two that are alike have both in common."""
    shape, node = graph.values[name].shape, graph.producer(name)
    if node is not None and node.op == "Reshape" and not node.domain:
        return node.inputs[0], shape
    return name, shape


def _ones(value: Value) -> bool:
    return value.data is not None and value.in_floats and bool((value.data == 1).all())


def _same_numbers(graph: Graph, node: Node, given: str) -> bool:
    """Whether a node gives the stored numbers that it is given, which Resize takes."""
    before, after = graph.values[given], graph.values[node.outputs[0]]
    if before.dtype not in RESIZED or before.dtype != after.dtype or 0 in after.shape:
        return False
    if before.quant is None:
        return after.quant is None and (node.op != "Mul" or before.dtype == "float32")
    return node.storage and before.quant.axis is None and before.quant.matches(after.quant)


def _whole(value: Value) -> _View | None:
    """An image as it is."""
    if len(value.shape) != IMAGE or value.data is not None:
        return None
    return _View(value.name, tuple(((axis, size),) for axis, size in enumerate(value.shape)))


def _regrouped(view: _View, shape: Shape) -> tuple[tuple[Factor, ...], ...] | None:
    """The factors of the dimensions of another shape, None where one would have to be divided."""
    factors = [factor for group in view.dims for factor in group if factor[1] != 1]
    dims: list[tuple[Factor, ...]] = []
    for size in shape:
        group: list[Factor] = []
        while product(each for _, each in group) != size and factors:
            group.append(factors.pop(0))
        if product(each for _, each in group) != size:
            return None
        dims.append(tuple(group))
    return None if factors else tuple(dims)


def _repeated(view: _View, before: Shape, after: Shape) -> tuple[tuple[Factor, ...], ...] | None:
    """The factors where dimensions of size 1 are repeated, None where others are."""
    if len(before) != len(after) or any(one not in (1, other) for one, other in zip(before, after, strict=True)):
        return None
    return tuple(
        group if one == other else ((None, other),) for group, one, other in zip(view.dims, before, after, strict=True)
    )


def _scales(view: _View) -> Sequence[int] | None:
    """How often pixels are repeated along each dimension, None where the view is no image whose pixels are. What has
    one row or column is broadcast, not resized.
    """
    if len(view.dims) != IMAGE:
        return None
    scales = []
    for axis, group in enumerate(view.dims):
        own, repeats = [each for each in group if each[0] is not None], [each[1] for each in group if each[0] is None]
        if any(each[0] != axis for each in own) or own != list(group[: len(own)]):
            return None
        times = product(repeats)
        if not isinstance(times, int) or (times != 1 and not own):
            return None
        scales.append(times)
    return scales if max(scales) > 1 else None
