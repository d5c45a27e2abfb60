"""Channels rounded up to whole blocks, with zeros behind the others.

Runtimes keep images in blocks of channels between convolutions. A depthwise convolution whose channels are no whole
blocks leaves that format, or its kernel on bytes is a slower one; and so does a Pad that appends channels, which is how
residual networks grow. Where all that touches some images keeps zeros zero, they get as many channels more as fill the
last block: convolutions of all channels make zeros, and multiply them by zeros. Where an image grows within its last
block, nothing is left to pad. Convolutions of bytes have a kernel of their own for whole runs of channels and a block
of results, beside which others take twice as long: these get as many channels more as it wants, where that adds few
products, as processors without that kernel multiply the zeros as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from math import prod
from typing import ClassVar

import numpy as np

from layoutsolve.base.disjoint_sets import Classes
from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.wider_images import CHANNELS, IMAGE, Wider, is_own
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import BYTES, Graph, Node, Value
from layoutsolve.ir.storage_options import Storage

POOLS = frozenset(("AveragePool", "GlobalAveragePool", "MaxPool"))
"""Operators on every channel by itself that make zeros of zeros."""

KEEPING = frozenset(("Add", "Clip", "HardSwish", "Identity", "LeakyRelu", "PRelu", "Relu", "Sub"))
"""Operators on single elements that make zeros of zeros, where their constants allow it."""

RUN = 4
"""How many channels of bytes are multiplied at a time."""

MORE = 1.1
"""How many times as many products of bytes are still worth a kernel that not all processors have."""

MOST = 2.0
"""How many times as many channels of floats as there were are still worth it."""


def rounded(graph: Graph, storage: Storage, budget: Budget) -> Graph:
    """The same graph with images of whole blocks of channels, where that keeps runtimes from leaving their format. What
    is written anew counts in the ``budget``.
    """
    block = storage.block
    if block < 2 or not any(
        _may_gain(graph, node, block) or (storage.narrow and _multiplies(graph, node)) for node in graph.nodes
    ):
        return graph
    images = Images(graph)
    widths = images.widths(block, storage.narrow)
    return Wider(graph, images.axes, widths, budget).result() if widths else graph


def _may_gain(graph: Graph, node: Node, block: int) -> bool:
    """Whether images could gain by whole blocks because of a node, as far as it tells by itself."""
    group = node.attributes.get("group", 1) if is_own(node, "Conv") else 1
    return is_own(node, "Pad") or (group > 1 and group % block != 0 and _blocked(graph, node))


def _multiplies(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution of bytes over all channels, of which both images have known ones."""
    if not is_own(node, "Conv") or node.attributes.get("group", 1) != 1 or not plain(graph, node):
        return False
    ends = [graph.values[name].shape for name in (node.inputs[0], node.outputs[0])]
    if graph.values[node.inputs[0]].quant is None or not _blocked(graph, node):
        return False
    return all(len(shape) == IMAGE and isinstance(shape[CHANNELS], int) for shape in ends)


def _whole(channels: int, step: int, block: int) -> int:
    """So many channels rounded up to whole steps, a block at least."""
    return max(-(-channels // step) * step, block)


@dataclass
class Images:
    """The images of a graph. ``axes`` has the dimension of their channels; those that have to have the same channels
    are in one of the ``classes``. What ``stays`` as it is has a reader or writer that looks at channels: a node that is
    ``outside``, or an end of the graph; of what is ``fixed`` there is more to say than how many channels it has.
    """

    graph: Graph
    axes: dict[str, int] = field(default_factory=dict)
    classes: Classes[str] = field(default_factory=Classes)
    stays: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    outside: set[Node] = field(default_factory=set)
    reached: list[str] = field(default_factory=list)
    convolving: ClassVar[tuple[str, ...]] = ("Conv",)

    def __post_init__(self) -> None:
        graph = self.graph
        self.stays.update(graph.inputs, graph.outputs)
        touching: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in dict.fromkeys((*node.inputs, *node.outputs)):
                if name and graph.values[name].data is None:
                    touching.setdefault(name, []).append(node)
        for node in graph.nodes:
            if is_own(node, *self.convolving):
                self._reach(node.inputs[0], CHANNELS)
                self._reach(node.outputs[0], CHANNELS)
        for name in self.reached:  # which grows on the way
            for node in touching.get(name, ()):
                self.follow(node, name)

    def widths(self, block: int, narrow: int) -> dict[str, int]:
        """How many channels each image is to have, for those that get more; 8-bit images from ``narrow`` on."""
        steps = {self.classes.root(name): block for node in self.graph.nodes for name in self._gaining(node, block)}
        kept = {self.classes.root(name) for name in self.stays if name in self.axes}
        steps |= dict.fromkeys(self._in_runs(block, kept, steps.keys() - kept) if narrow else (), RUN)
        real = {self.classes.root(name) for name in self.axes if self.graph.values[name].dtype not in BYTES}
        found = {}
        for name in self.axes:
            channels, root = self.channels(name), self.classes.root(name)
            step = steps.get(root, block)
            wide = _whole(channels, step, block)
            least = narrow if narrow and step == block and root not in real else wide / MOST
            if root in steps and root not in kept and wide > channels >= least:
                found[name] = wide
        pads = [node for node in self.graph.nodes if is_own(node, "Pad") and node.inputs[0] in found]
        while narrowing := [node for node in pads if self._narrows(node, found)]:
            dropped = {self.classes.root(node.inputs[0]) for node in narrowing}
            found = {name: wide for name, wide in found.items() if self.classes.root(name) not in dropped}
        return found

    def _in_runs(self, block: int, kept: AbstractSet[str], whole: AbstractSet[str]) -> set[str]:
        """The classes that get whole runs of channels, beside those of ``whole`` blocks: where a convolution has the
        kernel for these then, and all of them together, which processors without that kernel run by another one,
        multiply hardly more.
        """
        at: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            if _multiplies(self.graph, node):
                for root in self._ends(node):
                    at.setdefault(root, []).append(node)
        found = at.keys() - kept - whole
        found = {root for root in found if self._work(at[root], block, {root}) <= MORE * self._work(at[root], block)}
        while True:
            wider = found | whole
            gaining = {
                root
                for root in found
                for node in at[root]
                if self._has_kernel(node, block, wider) and not self._has_kernel(node, block)
            }
            if gaining == found:
                return found
            found = gaining

    def _ends(self, node: Node) -> dict[str, None]:
        """The classes that a convolution reads and writes, each once."""
        return dict.fromkeys(self.classes.root(name) for name in (node.inputs[0], node.outputs[0]))

    def _sizes(self, node: Node, block: int, wider: AbstractSet[str]) -> tuple[int, int]:
        """How many channels a convolution reads and writes where some classes have whole runs."""
        first, last = (
            _whole(self.channels(name), RUN, block) if self.classes.root(name) in wider else self.channels(name)
            for name in (node.inputs[0], node.outputs[0])
        )
        return first, last

    def _has_kernel(self, node: Node, block: int, wider: AbstractSet[str] = frozenset()) -> bool:
        read, written = self._sizes(node, block, wider)
        return written >= block and not read % RUN and not written % RUN

    def _work(self, nodes: Sequence[Node], block: int, wider: AbstractSet[str] = frozenset()) -> int:
        """How many numbers convolutions multiply: products of matrices compute a block of results at a time."""
        total = 0
        for node in nodes:
            read, written = self._sizes(node, block, wider)
            kernel, image = (
                self.graph.values[name].shape[CHANNELS + 1 :] for name in (node.inputs[1], node.outputs[0])
            )
            pixels = prod(size for size in (*kernel, *image) if isinstance(size, int))
            total += read * _whole(written, block, block) * pixels
        return total

    def _narrows(self, node: Node, widths: Mapping[str, int]) -> bool:
        """Whether a Pad would have to leave out channels that its image is to get."""
        if node.inputs[0] not in widths:
            return False
        before, after = (widths.get(name, self.channels(name)) for name in (node.inputs[0], node.outputs[0]))
        return before > after

    def _gaining(self, node: Node, block: int) -> tuple[str, ...]:
        """The images that gain by whole blocks because of a node."""
        if not is_own(node, "Conv", "Pad"):
            return ()
        ends = node.inputs[0], node.outputs[0]
        if not all(name in self.axes for name in ends):
            return ()
        if is_own(node, "Conv") and depthwise(self.graph, node):
            return ends if _blocked(self.graph, node) else ()
        if is_own(node, "Pad") and len({-(-self.channels(name) // block) for name in ends}) == 1:
            return ends
        return ()

    def channels(self, name: str) -> int:
        """How many channels an image has, 0 where they are not known."""
        dim = self.graph.values[name].shape[self.axes[name]]
        return dim if isinstance(dim, int) else 0

    def _reach(self, name: str, axis: int) -> None:
        """Note where the channels of an image are."""
        value = self.graph.values[name]
        if name not in self.axes:
            self.reached.append(name)
        by_axis = value.quant is not None and value.quant.axis is not None
        known = len(value.shape) == IMAGE and isinstance(value.shape[axis], int)
        if self.axes.setdefault(name, axis) != axis or not known or by_axis or value.data is not None:
            self.stays.add(name)
            self.fixed.add(name)

    def follow(self, node: Node, name: str) -> None:
        """Record the constraints of a node on an image, and the other images that it leads to."""
        graph, axis = self.graph, self.axes[name]
        if is_own(node, "Conv") and axis == CHANNELS and plain(graph, node):
            if depthwise(graph, node):
                self._join(node.inputs[0], node.outputs[0], CHANNELS)
        elif is_own(node, *POOLS) and axis == CHANNELS and len(node.outputs) == 1:
            self._join(node.inputs[0], node.outputs[0], CHANNELS)
        elif is_own(node, "Transpose"):
            first, last = node.inputs[0], node.outputs[0]
            perm = node.attributes["perm"]
            self._reach(first, axis if name == first else perm[axis])
            self._reach(last, axis if name == last else perm.index(axis))
            self.classes.join((first, last))
        elif is_own(node, "Pad") and _appended(graph, node, axis):
            self._reach(node.inputs[0], axis)
            self._reach(node.outputs[0], axis)
        elif is_own(node, *KEEPING) and self._keeps_zeros(node, axis):
            for each in node.inputs:
                if each and graph.values[each].data is None:
                    self._join(each, node.outputs[0], axis)
        else:
            self.stays.add(name)
            self.outside.add(node)

    def _join(self, one: str, other: str, axis: int) -> None:
        self._reach(one, axis)
        self._reach(other, axis)
        self.classes.join((one, other))

    def _keeps_zeros(self, node: Node, axis: int) -> bool:
        """Whether an operator on single elements makes zeros of zeros, and repeats nothing but slopes of channels."""
        values, shape = self.graph.values, self.graph.values[node.outputs[0]].shape
        first, others = values[node.inputs[0]], [values[name] for name in node.inputs[1:] if name]
        if first.data is not None or first.shape != shape or not all(node.inputs):
            return False
        if node.op == "Clip":
            zero = first.quant.zero_point[0] if node.storage and first.quant is not None else 0
            return all(_on_side(bound, zero, side) for bound, side in zip(others, (-1, 1), strict=False))
        if node.op == "PRelu":
            return _by_channel(others[0], axis)
        return not node.storage and all(each.data is None and each.shape == shape for each in others)


def _by_channel(slopes: Value, axis: int) -> bool:
    """Whether there is one known slope for each channel, or one for all."""
    sizes = (1,) * (IMAGE - len(slopes.shape)) + slopes.shape
    others = sizes[:axis] + sizes[axis + 1 :]
    return slopes.data is not None and slopes.quant is None and all(size == 1 for size in others)


def _on_side(bound: Value, zero: int, side: int) -> bool:
    """Whether a bound is known, and not above zero (``side`` -1), or not below it (1)."""
    return bound.data is not None and bool(((bound.data.astype(np.float64) - zero) * side >= 0).all())


def plain(graph: Graph, node: Node) -> bool:
    """Whether a convolution of images has constant weights, and one group or a group for each channel."""
    constants = [graph.values[name] for name in node.inputs[1:] if name]
    group = node.attributes.get("group", 1)
    known = all(value.data is not None and (value.quant is None or not value.quant.block) for value in constants)
    return known and len(constants[0].shape) == IMAGE and (group == 1 or depthwise(graph, node))


def depthwise(graph: Graph, node: Node) -> bool:
    """Whether a convolution has a group for each channel, and writes as many as it reads."""
    ends = [graph.values[name].shape[CHANNELS] for name in (node.inputs[0], node.outputs[0])]
    group = node.attributes.get("group", 1)
    return group != 1 and ends == [group, group]


def _blocked(graph: Graph, node: Node) -> bool:
    """Whether kernels of a depthwise convolution want whole blocks: those on floats, and those on bytes by weights of
    int8 whose zero is 0.
    """
    read, weights = (graph.values[name] for name in node.inputs[:2])
    if read.quant is None:
        return True
    quant = weights.quant
    return read.dtype in BYTES and weights.dtype == "int8" and quant is not None and not quant.zero_point.any()


def _appended(graph: Graph, node: Node, axis: int) -> int:
    """The channels that a Pad puts behind the others, 0 where it does anything else."""
    value = graph.values[node.inputs[0]]
    amounts, rank = graph.constant(node.inputs[1]), len(value.shape)
    if (
        amounts is None
        or amounts.size != 2 * rank
        or len(node.inputs) > 3
        or node.attributes.get("mode", "constant") != "constant"
    ):
        return 0
    filler = graph.values[node.inputs[2]] if len(node.inputs) == 3 and node.inputs[2] else None
    if filler is not None and filler.data is None:
        return 0
    zero = value.quant.zero_point[0] if value.quant is not None and node.storage else 0
    filled = 0 if filler is None or filler.data is None else filler.data.reshape(-1)[0]
    others = np.delete(amounts, rank + axis)
    return int(amounts[rank + axis]) if filled == zero and not others.any() and amounts[rank + axis] > 0 else 0
