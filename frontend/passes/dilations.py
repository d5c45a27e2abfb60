"""Dilated convolutions, written as blocks of space moved to the batch, convolutions, and blocks moved back.

What lies side by side in a block is ``size`` steps of the image apart. So a convolution of blocks that moves by single
steps is one of the image, with ``size`` times the dilation and the padding. Operators on single elements are the same.
Whatever is padded before and cropped behind stays as it is, so it may be known at run time only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush
from math import prod
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import live, unlike, used
from layoutsolve.ir.graph import Dim, Graph, Node, Shape, Value, product, reshape_entries

_SINGLE = frozenset(
    (
        *("Abs", "Add", "Cast", "Clip", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
        *("Max", "Min", "Mul", "Neg", "PRelu", "Pow", "Relu", "Round", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh"),
    )
)
"""Operators on single elements."""

Readers = Mapping[str, Sequence[int]]
"""The indices of the nodes that read a value."""

Axes = tuple[int, ...]
"""For each dimension of a value of blocks, which one of ``[batch, space, ..., rest]`` it is. Those of size 1 that are
put in between have numbers behind these.
"""


@dataclass(frozen=True)
class _View:
    """Reshape, Transpose, Reshape with nothing else in between: the four values along them, and the last node's
    index.
    """

    values: tuple[Value, ...]
    permutation: tuple[int, ...]
    last: int


@dataclass(frozen=True)
class _Blocks:
    """What is found of an ``image`` divided into blocks of ``sizes``: the axes of all values of ``blocks`` by name, the
    attributes of convolutions for the whole image and the entries of Reshapes by the index of the node, and by the last
    values of blocks the images that they are joined to. The nodes ``dropped`` divide and join.
    """

    image: Value
    blocks: Value
    sizes: tuple[int, ...]
    axes: dict[str, Axes] = field(default_factory=dict)
    convolutions: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    entries: dict[int, list[int]] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    def size(self, axis: int) -> int:
        """The block size along a dimension of ``[batch, space, ..., rest]``."""
        return self.sizes[axis - 1] if 1 <= axis <= len(self.sizes) else 1

    def common(self, shape: Shape, axes: Axes) -> tuple[Dim, ...]:
        """The batch and the divided dimensions of space, in a value's own order."""
        return tuple(dim for dim, axis in zip(shape, axes, strict=True) if axis <= len(self.sizes))

    def whole(self, shape: Shape, axes: Axes) -> Shape:
        """The shape of an image, given that of its blocks."""
        pairs = zip(shape, axes, strict=True)
        return tuple(product((dim, self.size(axis))) if axis else self.image.shape[0] for dim, axis in pairs)


def recognise(graph: Graph) -> Graph:
    """The same graph with dilated convolutions of images in place of convolutions of their blocks."""
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(index)
    values, nodes, names = dict(graph.values), dict(enumerate(graph.nodes)), dict[str, str]()
    for index in range(len(graph.nodes)):
        found = _divided(graph, readers, index)
        if found is None or not _follow(graph, readers, found):
            continue
        names |= {found.blocks.name: found.image.name, **found.joined}
        for name, axes in found.axes.items():
            if name not in names:  # what is verified by its name has the numbers of blocks
                names[name] = unlike(f"{name}/image", values)
                sizes = found.whole(values[name].shape, axes)
                values[names[name]] = replace(values[name], name=names[name], shape=sizes)
        for number, attributes in found.convolutions.items():
            nodes[number] = replace(nodes[number], attributes=attributes)
        for number, entries in found.entries.items():
            shape = np.array(entries, np.int64)
            name = unlike(f"{nodes[number].outputs[0]}/image_shape", values)
            values[name] = Value(name, "int64", shape.shape, data=shape)
            nodes[number] = replace(nodes[number], inputs=(nodes[number].inputs[0], name), attributes={})
        for number in found.dropped:
            del nodes[number]
    if not names:
        return graph
    renamed = [_renamed(node, names) for node in nodes.values()]
    kept = live(renamed, graph.outputs, values, graph.formulas)
    return used(graph, kept, values)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    inputs, outputs = (tuple(names.get(name, name) for name in ends) for ends in (node.inputs, node.outputs))
    return replace(node, inputs=inputs, outputs=outputs)


def _view(graph: Graph, readers: Readers, index: int) -> _View | None:
    """The view that begins with a node, where all of its values are of one type and meaning."""
    nodes = [graph.nodes[index]]
    while len(nodes) < 3:
        name = next(iter(nodes[-1].outputs), "")
        if len(readers.get(name, ())) != 1 or name in graph.results:
            return None
        (index,) = readers[name]
        nodes.append(graph.nodes[index])
    if [node.op for node in nodes] != ["Reshape", "Transpose", "Reshape"]:
        return None
    first, *others = [graph.values[name] for name in (nodes[0].inputs[0], *(node.outputs[0] for node in nodes))]
    if any(node.region is not nodes[0].region for node in nodes) or not all(_alike(first, value) for value in others):
        return None
    return _View((first, *others), tuple(nodes[1].attributes["perm"]), index)


def _alike(one: Value, other: Value) -> bool:
    """Whether the same stored elements mean the same."""
    meaning = other.quant is None if one.quant is None else one.quant.matches(other.quant)
    return one.dtype == other.dtype and meaning


def _divided(graph: Graph, readers: Readers, index: int) -> _Blocks | None:
    """The blocks that the view beginning with a node divides an image into."""
    view = _view(graph, readers, index)
    if view is None:
        return None
    image, parts, _, blocks = view.values
    count = len(parts.shape) - len(image.shape)
    sizes = tuple(dim for dim in parts.shape[2 : 2 * count + 1 : 2] if isinstance(dim, int))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    rest = range(2 * count + 1, len(parts.shape))
    if prod(sizes) == 1 or len(sizes) != count or view.permutation != (*inner, 0, *outer, *rest):
        return None
    shape = _shape(parts.shape, [(0,), *zip(outer, inner, strict=True), *((axis,) for axis in rest)])
    divided = _shape(parts.shape, [(*inner, 0), *((axis,) for axis in (*outer, *rest))])
    if (shape, divided) != (image.shape, blocks.shape):
        return None
    return _Blocks(image, blocks, sizes, dropped={view.last})


def _shape(parts: Shape, groups: Sequence[Sequence[int]]) -> Shape:
    return tuple(product(parts[axis] for axis in group) for group in groups)


def _follow(graph: Graph, readers: Readers, found: _Blocks) -> bool:
    """Find all that is computed of blocks until they are joined; False where that is anything else, or nothing."""
    (start,) = found.dropped
    found.axes[found.blocks.name] = tuple(range(len(found.blocks.shape)))
    waiting, seen = list(readers.get(found.blocks.name, ())), set[int]()
    while waiting:
        index = heappop(waiting)
        if index in seen:
            continue
        seen.add(index)
        node = graph.nodes[index]
        if node.region is not graph.nodes[start].region or not (
            _joined(graph, readers, index, found) or _computed(graph, index, found)
        ):
            return False
        for name in node.outputs if node.outputs[0] in found.axes else ():
            for reader in readers.get(name, ()):
                heappush(waiting, reader)
    return bool(found.convolutions and found.joined) and not found.axes.keys() & set(graph.outputs)


def _joined(graph: Graph, readers: Readers, index: int, found: _Blocks) -> bool:
    """Whether a node begins a view that joins blocks as they were divided; they are not joined twice."""
    view = _view(graph, readers, index)
    if view is None:
        return False
    blocks, parts, _, image = view.values
    count, rank = len(found.sizes), len(parts.shape)
    space = [(count + 1 + axis, axis) for axis in range(count)]
    rest = [(axis,) for axis in range(2 * count + 1, rank)]
    whole, divided = [(count,), *space, *rest], [range(count + 1), *((axis,) for axis in range(count + 1, rank))]
    fitting = (
        parts.shape[: count + 1] == (*found.sizes, found.image.shape[0])
        and view.permutation == tuple(axis for group in whole for axis in group)
        and (_shape(parts.shape, whole), _shape(parts.shape, divided)) == (image.shape, blocks.shape)
        and _plain(blocks.shape, found.axes[blocks.name], count)
    )
    if not fitting or blocks.name in (found.blocks.name, *found.joined):
        return False
    found.joined[blocks.name] = image.name
    found.dropped.add(view.last)
    return True


def _plain(shape: Shape, axes: Axes, count: int) -> bool:
    """Whether a value has its dimensions in their order, but for those of size 1 that are not divided."""
    return all(axis == place or (dim == 1 and min(axis, place) > count)
               for place, (dim, axis) in enumerate(zip(shape, axes, strict=True)))  # fmt: skip


def _computed(graph: Graph, index: int, found: _Blocks) -> bool:
    """Whether a node computes the same of the image as of its blocks, but for a convolution's attributes."""
    node = graph.nodes[index]
    if len(node.outputs) != 1:
        return False
    inputs = [graph.values[name] for name in node.inputs if name]
    axes = next(found.axes[value.name] for value in inputs if value.name in found.axes)
    result = graph.values[node.outputs[0]]
    if node.op == "Transpose":
        axes = tuple(axes[axis] for axis in node.attributes["perm"])
    elif node.op == "Conv":
        attributes = _dilated(node, inputs, axes, found)
        if attributes is None:
            return False
        found.convolutions[index] = attributes
    elif node.op == "Reshape":
        own = _spread(inputs[0].shape, result.shape, axes, found)
        if own is None:
            return False
        found.entries[index], axes = own
    elif node.op not in _SINGLE or not all(_fits(value, result, axes, found) for value in inputs):
        return False
    found.axes[result.name] = axes
    return True


def _fits(value: Value, result: Value, axes: Axes, found: _Blocks) -> bool:
    """Whether an operand has all elements of a result, or is the same for all blocks and all of divided space."""
    own = found.axes.get(value.name)
    if own is not None:
        return own == axes and value.shape == result.shape
    beside = axes[len(axes) - len(value.shape) :]
    return len(value.shape) <= len(axes) and all(dim == 1 for dim in found.common(value.shape, beside))


def _spread(before: Shape, after: Shape, axes: Axes, found: _Blocks) -> tuple[list[int], Axes] | None:
    """The entries of a Reshape that puts in or leaves out dimensions of size 1, and the axes of its result; None where
    it does anything else.
    """
    large = [(dim, axis) for dim, axis in zip(before, axes, strict=True) if dim != 1]
    same = [dim for dim, _ in large] == [dim for dim in after if dim != 1]
    if not same or 0 in after or 1 in found.common(before, axes):
        return None
    known = iter(axis for _, axis in large)
    result = tuple(next(known) if dim != 1 else len(found.blocks.shape) + place for place, dim in enumerate(after))
    entries = reshape_entries(found.whole(before, axes), found.whole(after, result))
    return None if entries is None else (entries, result)


def _dilated(node: Node, inputs: Sequence[Value], axes: Axes, found: _Blocks) -> Mapping[str, Any] | None:
    """The attributes of a convolution of the image, None where it is not that of its blocks."""
    data, kernel, *_ = inputs
    count = len(axes) - 2
    alone = data.name in found.axes and not any(value.name in found.axes for value in inputs[1:])
    if not alone or axes[0] != 0 or 1 <= axes[1] <= len(found.sizes):
        return None
    sizes = [found.size(axis) for axis in axes[2:]]
    ones = (1,) * count
    strides = node.attributes.get("strides", ones)
    single = all(stride == 1 or size == 1 for stride, size in zip(strides, sizes, strict=True))
    if not single or node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    pads = zip(node.attributes.get("pads", (0,) * (2 * count)), (*sizes, *sizes), strict=True)
    gaps = zip(node.attributes.get("dilations", ones), sizes, kernel.shape[2:], strict=True)
    return {
        **node.attributes,
        "pads": tuple(pad * size for pad, size in pads),
        "dilations": tuple(1 if reach == 1 else gap * size for gap, size, reach in gaps),
    }
