"""Quantized activations in steps around zero, for runtimes that take no zero points: ``--quant symmetric``.

An activation of 8 bits becomes int8 whose zero point is 0, in steps that reach as far as the source's do on either
side; where the source's saturate nearer, a Clip or Relu does. Weights of other zero points become the nearest whose
zero point is 0, biases floats. Inputs, outputs and states keep their types: what they store is computed there in
floats, without QuantizeLinear or DequantizeLinear. Activations of 16 bits are floats, as no runtime of this kind has
kernels for them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes import symmetric
from layoutsolve.frontend.passes.float_activations import Floats
from layoutsolve.frontend.passes.quantized_values import Range, is_activation, parameters, range_of
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Quant, Value

HIGHEST = 127
"""How many steps an int8 has above its zero point; the one more below stays unused."""


def computed(graph: Graph, budget: Budget) -> Graph:
    """The same graph in steps around zero. Constants that are written anew count in the ``budget``."""
    graph = symmetric.rounded(graph)
    if all(value.quant is None for value in graph.values.values()):
        return graph
    return _Symmetric(graph, budget).result()


def _is_symmetric(value: Value) -> bool:
    """Whether a runtime takes what is stored as it is."""
    return value.dtype == "int8" and value.quant is not None and not value.quant.zero_point.any()


def _steps(greatest: float) -> Quant:
    """Steps of int8 around zero that reach as far as a number."""
    return Quant(np.array([greatest / HIGHEST], np.float32), np.zeros(1, np.int8))


class _Symmetric(Floats):
    """Floats, most of which are rounded to steps around zero."""

    def result(self) -> Graph:
        self.compute()
        plain = [(name, each.name) for name, each in self.held.items() if each.is_plain and name not in self.ends]
        given = [(name, made) for (name, _), made in self.read.items() if name in self.ends]
        for name, made in (*plain, *given):
            self._annotate(self.graph.values[name], made)
        for value in [*self.values.values()]:
            if value.data is not None and value.quant is not None and not _is_symmetric(value):
                self.values[value.name] = self._constant(value, value.quant, value.data)
        return self.written()

    def dequantize(self, node: Node, name: str, made: str) -> None:
        """What integers mean, in floats where the runtime does not take their zero point."""
        value = self.values[name]
        if value.quant is None or _is_symmetric(value):
            return super().dequantize(node, name, made)
        (scale, zero), x = parameters(value.quant), self.new(value, name, "float")
        self.nodes.append(self._cast(node, name, x, "float32"))
        for op, number in (("Sub", zero), ("Mul", scale)):
            before, x = x, made if op == "Mul" else self.new(value, name, "centred")
            self.write(node, op, (before, self.number(number, x)), x)
        return None

    def quantize(self, node: Node, source: str, name: str) -> None:
        """Numbers as integers, in floats up to the last where the runtime does not take their zero point."""
        value = self.values[name]
        if value.quant is None or _is_symmetric(value):
            return super().quantize(node, source, name)
        (scale, zero), limits, x = parameters(value.quant), np.iinfo(value.dtype), source
        for op, numbers in (("Div", [scale]), ("Round", []), ("Add", [zero]), ("Clip", [limits.min, limits.max])):
            before, x = x, self.new(value, name, op.lower())
            self.write(node, op, (before, *(self.number(number, x) for number in numbers)), x)
        self.nodes.append(self._cast(node, x, name, value.dtype))
        return None

    def saturate(self, node: Node, source: str, within: Range, made: str) -> None:
        """Numbers that the source saturates: without bounds where the steps around zero end."""
        low, high = within
        end = max(-low, high) * (1 - 1 / HIGHEST)
        bounds = (low if low > -end else -np.inf, high if high < end else np.inf)
        if bounds == (0.0, np.inf):
            self.write(node, "Relu", (source,), made)
        else:
            self.clip(node, source, bounds, made)

    def _cast(self, node: Node, source: str, made: str, dtype: str) -> Node:
        """A Cast of what is stored."""
        return Node("Cast", (source,), (made,), {"to": dtype}, node.origin, storage=True, region=node.region)

    def _annotate(self, value: Value, made: str) -> None:
        """Let what holds the numbers of an activation be stored in steps, which reach as far as its numbers."""
        low, high = self.within.get(value.name, range_of(value))
        low, high = max(low, range_of(value)[0]), min(high, range_of(value)[1])
        greatest, floats = max(-low, high), self.values[made]
        if value.dtype in BYTES and is_activation(value) and floats.in_floats and floats.data is None and greatest > 0:
            self.values[made] = replace(floats, dtype="int8", quant=_steps(greatest))

    def _constant(self, value: Value, quant: Quant, data: Array) -> Value:
        """A constant of bytes in the nearest steps around zero, all others as floats."""
        if value.dtype not in BYTES or quant.block:
            numbers = quant.real(data)
            self.budget.keep(numbers)
            return replace(value, dtype="float32", quant=None, data=numbers)
        whole = data.astype(np.int32) - quant.spread(quant.zero_point.astype(np.int32), data.ndim)
        others = tuple(axis for axis in range(data.ndim) if axis != quant.axis)
        coarser = np.maximum(np.abs(whole).max(others, initial=0).reshape(-1) / HIGHEST, 1.0)
        steps = Quant((quant.scale * coarser).astype(np.float32), np.zeros(len(coarser), np.int8), quant.axis)
        stored = np.rint(whole / quant.spread(coarser, data.ndim)).astype(np.int8)
        self.budget.keep(stored)
        return replace(value, dtype="int8", quant=steps, data=stored)
