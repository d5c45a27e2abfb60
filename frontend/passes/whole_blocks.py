"""Images of whole blocks of channels: zeros before what wants them, and cut off before what looks at channels.

Layout systems that keep channels in blocks have no form for a convolution whose channels are no whole blocks. Images
that nothing but convolutions, pools and the like touch get channels of zeros at no cost (:mod:`.widths`). What looks at
channels, as a concatenation does, keeps the image that it had: a Slice makes it of the wide one, a Pad the wide one of
it. That is done where convolutions in whole blocks are worth it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.channel_rounding import MOST, Images, depthwise
from layoutsolve.frontend.passes.wider_images import CHANNELS, IMAGE, Wider, is_own
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Value
from layoutsolve.ir.names import Names
from layoutsolve.ir.storage_options import Storage

REAL = ("float32",)
"""The types of numbers that runtimes pad, beside quantized ones of 8 bits."""

ROUNDS = 8
"""How often each image is looked at again when those around it have changed."""


def cut(graph: Graph, storage: Storage, budget: Budget) -> Graph:
    """The same graph with images of whole blocks of channels for convolutions that have a form for these alone. What is
    written anew counts in the ``budget``.
    """
    if storage.block < 2 or not storage.cuts:
        return graph
    images = _Images(graph)
    chosen = _Choice(images, storage).chosen()
    return _Cut(images, chosen, budget).result() if chosen else graph


def _transposed(graph: Graph, node: Node) -> bool:
    """Whether a transposed convolution of images has constant weights and one group, and no word on channels."""
    constants = [graph.values[name] for name in node.inputs[1:] if name]
    known = all(value.data is not None and (value.quant is None or not value.quant.block) for value in constants)
    plain = node.attributes.get("group", 1) == 1 and len(node.attributes.get("output_shape", ())) < IMAGE
    return known and plain and len(constants[0].shape) == IMAGE


class _Images(Images):
    """Images, of which a Pad of channels makes others as well as anything else does."""

    convolving = ("Conv", "ConvTranspose")

    def follow(self, node: Node, name: str) -> None:
        """Note what a node says of an image."""
        if is_own(node, "Pad"):
            self.outside.add(node)
        elif is_own(node, "ConvTranspose"):
            if self.axes[name] != CHANNELS or not _transposed(self.graph, node):
                self.stays.add(name)
                self.outside.add(node)
        else:
            super().follow(node, name)

    def padded(self, name: str) -> bool:
        """Whether an image comes from outside."""
        producer = self.graph.producer(name)
        return producer is None or producer in self.outside

    def sliced(self) -> set[str]:
        """What goes outside."""
        return {*self.graph.outputs, *(name for node in self.outside for name in node.inputs)}


@dataclass
class _Class:
    """Images of the same channels: how many they are in whole blocks, the Pads and Slices that they take then, and the
    convolutions at them.
    """

    names: list[str]
    wide: int
    cuts: int
    convolutions: list[int]


class _Choice:
    """Which classes of images are made whole blocks: a convolution that can then run in blocks is worth some cuts."""

    def __init__(self, images: _Images, storage: Storage) -> None:
        self.images, self.block, self.worth = images, storage.block, storage.cuts
        graph = images.graph
        numbered = enumerate(graph.nodes)
        convolving = [(number, node) for number, node in numbered if is_own(node, *images.convolving)]
        self.convolutions = [number for number, node in convolving if node not in images.outside]
        self.classes = self._classes()
        for number in self.convolutions:
            for root in dict.fromkeys(map(self._root, self._ends(number))):
                if root in self.classes:
                    self.classes[root].convolutions.append(number)

    def _classes(self) -> dict[str, _Class]:
        """Those that may be made whole blocks."""
        images, sliced, found = self.images, self.images.sliced(), dict[str, _Class]()
        values = images.graph.values
        kinds = {name: REAL if values[name].quant is None else BYTES for name in images.axes}
        odd = {name for name, kind in kinds.items() if values[name].dtype not in kind}
        fixed = {self._root(name) for name in images.fixed | odd if name in images.axes}
        for name in images.axes:
            channels, root = images.channels(name), self._root(name)
            wide = -(-channels // self.block) * self.block
            if root not in fixed and wide > channels >= wide / MOST:
                each = found.setdefault(root, _Class([], wide, 0, []))
                each.names.append(name)
                each.cuts += images.padded(name) + (name in sliced)
        return found

    def _root(self, name: str) -> str:
        return self.images.classes.root(name)

    def _ends(self, number: int) -> tuple[str, str]:
        node = self.images.graph.nodes[number]
        return node.inputs[0], node.outputs[0]

    def chosen(self) -> Mapping[str, int]:
        """The images that become wider, and how many channels they get."""
        best, most = set[str](), 0
        for start in (set(self.classes), set[str]()):
            found = self._improved(start)
            value = self._value(found)
            if value > most:
                best, most = found, value
        return {name: each.wide for root, each in self.classes.items() if root in best for name in each.names}

    def _improved(self, found: set[str]) -> set[str]:
        """Classes with others of them made wider, or left, one by one while that is better."""
        for _ in range(ROUNDS):
            changed = False
            for root in self.classes:
                before, after = self._near(found, root), self._near(found ^ {root}, root)
                if after > before:
                    found, changed = found ^ {root}, True
            if not changed:
                break
        return found

    def _near(self, found: set[str], root: str) -> int:
        """What a choice is worth at a class."""
        each = self.classes[root]
        gained = sum(self._runs(number, found) for number in each.convolutions)
        return self.worth * gained - (each.cuts if root in found else 0)

    def _value(self, found: set[str]) -> int:
        """What a choice is worth in all, beside what runs in blocks as it is."""
        gained = sum(self._runs(number, found) - self._runs(number, set()) for number in self.convolutions)
        return self.worth * gained - sum(self.classes[root].cuts for root in found)

    def _runs(self, number: int, found: set[str]) -> bool:
        """Whether a convolution runs in blocks. One that reads less than a block may read them as they are, but for a
        transposed one.
        """
        node, graph = self.images.graph.nodes[number], self.images.graph
        read, written = (self.images.channels(name) for name in self._ends(number))
        inside, outside = (self._root(name) in found for name in self._ends(number))
        few = node.op == "Conv" and read < self.block and not depthwise(graph, node)
        return (outside or not written % self.block) and (few or inside or not read % self.block)


class _Cut:
    """The graph with some images wider. What is outside goes on with the images that there were."""

    def __init__(self, images: _Images, widths: Mapping[str, int], budget: Budget) -> None:
        self.images, self.graph, self.widths, self.budget = images, images.graph, widths, budget
        self.values, self.taken = dict(self.graph.values), Names(self.graph.values)
        self.sliced = images.sliced()
        both = [name for name in widths if name in self.sliced or images.padded(name)]
        self.wide = {name: self.taken.derived(name, "whole") for name in both}
        for name, wide in self.wide.items():
            self.values[wide] = replace(self.values[name], name=wide)

    def result(self) -> Graph:
        nodes = [self._pad(name, None) for name in self.graph.inputs if name in self.wide]
        for node in self.graph.nodes:
            if node in self.images.outside:
                nodes.append(node)
                nodes += [self._pad(name, node) for name in node.outputs if name in self.wide]
                continue
            inputs, outputs = (
                tuple(self.wide.get(name, name) for name in names) for names in (node.inputs, node.outputs)
            )
            nodes.append(replace(node, inputs=inputs, outputs=outputs))
            nodes += [self._slice(name, node) for name in node.outputs if name in self.wide and name in self.sliced]
        axes = {**self.images.axes, **{wide: self.images.axes[name] for name, wide in self.wide.items()}}
        widths = {self.wide.get(name, name): width for name, width in self.widths.items()}
        return Wider(replace(self.graph, nodes=tuple(nodes), values=self.values), axes, widths, self.budget).result()

    def _pad(self, name: str, writer: Node | None) -> Node:
        """What puts zeros behind the channels of an image: how many of them is seen when widths are known."""
        value, wide = self.values[name], self.wide[name]
        zero = np.zeros((), value.dtype) if value.quant is None else value.quant.zero_point.reshape(())
        amounts = self._constant(wide, "pads", np.zeros(2 * IMAGE, np.int64))
        filler = self.taken.derived(wide, "zero")
        self.values[filler] = Value(filler, value.dtype, (), value.quant, zero)
        origin = None if writer is None else writer.origin
        given = (name, amounts, filler)
        pad = Node("Pad", given, (wide,), {"mode": "constant"}, storage=value.quant is not None, origin=origin)
        return replace(pad, region=self.graph.region(name))

    def _slice(self, name: str, writer: Node) -> Node:
        """What cuts the new channels off."""
        value, wide, axis = self.values[name], self.wide[name], self.images.axes[name]
        bounds = (("starts", 0), ("ends", self.images.channels(name)), ("axes", axis))
        given = [self._constant(name, what, np.array([number], np.int64)) for what, number in bounds]
        stored, region = value.quant is not None, self.graph.region(name)
        return Node("Slice", (wide, *given), (name,), storage=stored, origin=writer.origin, region=region)

    def _constant(self, name: str, what: str, data: Array) -> str:
        found = self.taken.derived(name, what)
        self.values[found] = Value(found, "int64", data.shape, data=data)
        return found
