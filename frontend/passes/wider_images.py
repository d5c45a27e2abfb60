"""Images with more channels: zeros behind the others, and constants as wide as what they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

CHANNELS = 1
"""The dimension of channels in what convolutions and pools read and write, and of what they read in their kernels."""

IMAGE = 4
"""The dimensions of what is kept in blocks."""


def is_own(node: Node, *operators: str) -> bool:
    """Whether a node is one of ONNX's own operators."""
    return node.op in operators and not node.domain


class Wider:
    """The graph with the ``widths`` of some images; constants are written anew for what reads them."""

    def __init__(self, graph: Graph, axes: Mapping[str, int], widths: Mapping[str, int], budget: Budget) -> None:
        self.graph, self.axes, self.widths, self.budget = graph, axes, widths, budget
        self.values, self.taken = dict(graph.values), Names(graph.values)
        self.made: dict[tuple[str, tuple[int, ...]], str] = {}

    def result(self) -> Graph:
        for name, wide in self.widths.items():
            self.values[name] = _shaped(self.values[name], self.axes[name], wide)
        return used(self.graph, [self._node(each) for each in self.graph.nodes], self.values)

    def _node(self, node: Node) -> Node:
        """A node with its constants as wide as what they meet."""
        inputs = node.inputs
        if not self.widths.keys() & {*inputs, *node.outputs}:
            return node
        if is_own(node, "Conv", "ConvTranspose"):
            return self._convolution(node)
        if is_own(node, "Pad"):
            return self._pad(node)
        if node.op == "PRelu":
            sizes, name = self.graph.values[inputs[1]].shape, node.outputs[0]
            axis = self.axes[name] - IMAGE + len(sizes)
            wide = {axis: self._width(name)} if axis >= 0 and sizes[axis] != 1 else {}
            return replace(node, inputs=(inputs[0], self._constant(inputs[1], wide)))
        return node

    def _convolution(self, node: Node) -> Node:
        data, kernel, *bias = node.inputs
        produced, read = self._width(node.outputs[0]), self._width(data)
        single = node.attributes.get("group", 1) == 1
        wide = {0: produced, CHANNELS: read} if node.op == "Conv" else {0: read, CHANNELS: produced}
        weights = self._constant(kernel, wide if single else {0: produced})
        attributes = node.attributes if single else {**node.attributes, "group": produced}
        biases = [self._constant(name, {0: produced}) if name else name for name in bias]
        return replace(node, inputs=(data, weights, *biases), attributes=attributes)

    def _pad(self, node: Node) -> Node:
        before, after = node.inputs[0], node.outputs[0]
        more, axis = self._width(after) - self._width(before), self.axes[before]
        if not more:
            return replace(node, op="Identity", inputs=(before,), attributes={})
        rank = len(self.values[before].shape)
        amounts = np.zeros(2 * rank, np.int64)
        amounts[rank + axis] = more
        name = self.taken.derived(after, "pads")
        self.values[name] = Value(name, "int64", amounts.shape, data=amounts)
        return replace(node, inputs=(before, name, *node.inputs[2:]))

    def _width(self, name: str) -> int:
        dim = self.values[name].shape[self.axes[name]]
        if not isinstance(dim, int):
            raise TypeError(f"'{name}' has {dim} channels")
        return dim

    def _constant(self, name: str, wide: Mapping[int, int]) -> str:
        """A constant with zeros behind the rest, so many in all along some dimensions."""
        value, data = self.graph.values[name], self.graph.values[name].constant
        shape = tuple(wide.get(axis, size) for axis, size in enumerate(data.shape))
        if shape == data.shape:
            return name
        if (name, shape) not in self.made:
            quant, filler = _filling(value.quant, shape)
            found = _extended(data, shape, filler)
            self.budget.keep(found)
            unique = self.made[name, shape] = self.taken.derived(name, "x".join(map(str, shape)))
            self.values[unique] = Value(unique, value.dtype, shape, quant, found)
        return self.made[name, shape]


def _shaped(value: Value, axis: int, size: int) -> Value:
    return replace(value, shape=(*value.shape[:axis], size, *value.shape[axis + 1 :]))


def _filling(quant: Quant | None, shape: Sequence[int]) -> tuple[Quant | None, Array | int]:
    """The parameters of a constant of a larger shape, and the stored integers that mean zero. What is new has the last
    parameters again, so that steps of biases stay those of what is added.
    """
    if quant is None or quant.axis is None:
        return quant, 0 if quant is None else quant.zero_point
    count, places = (shape[quant.axis],), [1] * len(shape)
    scale = _extended(quant.scale, count, quant.scale[-1])
    zeros = _extended(quant.zero_point, count, quant.zero_point[-1])
    places[quant.axis] = -1
    return Quant(scale, zeros, quant.axis), zeros.reshape(places)


def _extended(data: Array, shape: Sequence[int], filler: Any) -> Array:
    found = np.empty(shape, data.dtype)
    found[...] = filler
    found[tuple(map(slice, data.shape))] = data
    return found
