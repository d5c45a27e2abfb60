"""The cells of recurrent networks, as they are written out: what a step makes of its data and of the states before it.

Gates are sums of a product with the data, one with a state and biases, in whatever order and number of products, sums
and parts of them they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import BYTES, Array, Graph, Node, Region, Shape, Value, static_elements

OPENING = "Sigmoid"
"""The activation of gates. OpenVINO knows no other one, ONNX Runtime hard ones as well."""

SQUASHES = ("Relu", "Tanh")
"""Those of what enters a cell, and leaves it."""

_VIEWS = ("Identity", "Reshape")
"""What hands on the same numbers."""

_BIAS = 2
"""The input of a Gemm that is added."""

_BOTH = 2
"""What a gate reads: the data, and a state."""

_DEEP = 8
"""How many operators in a row may lie between a gate and its products."""

_AXES, _STEPS = 3, 4
"""The inputs of a Slice that may be left out."""


@dataclass(frozen=True)
class Product:
    """What is multiplied by some of the rows of constant weights [units, features], or columns where ``turned``."""

    source: str
    weights: Value
    turned: bool
    rows: tuple[int, int]


@dataclass(frozen=True)
class Gate:
    """A product with the data, one with a state, and a bias for each; then it is activated."""

    read: Product
    kept: Product
    read_bias: Array
    kept_bias: Array
    activation: str


@dataclass(frozen=True)
class Cell:
    """A cell as ONNX knows it: the operator, its gates in ONNX's order, and attributes. ``after`` has by each state, as
    a step is given it, what it is after the step; the first one is what the step gives. ``sequence`` is the data of all
    steps.
    """

    op: str
    gates: Sequence[Gate]
    after: Mapping[str, str]
    sequence: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class _Total:
    """A sum of products, of other values, and of constants, one for each unit."""

    products: tuple[Product, ...]
    others: tuple[str, ...]
    bias: Array

    def plus(self, other: _Total) -> _Total:
        return _Total(self.products + other.products, self.others + other.others, self.bias + other.bias)


class Step:
    """One time step, written in a subgraph that is run for all of them. ``numbers`` are the values that identify it."""

    def __init__(self, graph: Graph, region: Region, count: int, numbers: Iterable[str]) -> None:
        self.graph, self.values, self.region = graph, graph.values, region
        self.count, self.numbers = count, frozenset(numbers)

    def cell(self, states: Mapping[str, str]) -> Cell | None:
        """The cell that makes of each state what it is after the step."""
        if len(states) == 1:
            return self._gru(states) or self._simple(states)
        if len(states) == _BOTH:
            return self._lstm(states) or self._lstm(dict(reversed([*states.items()])))
        return None

    # -- cells -----------------------------------------------------------------------------------------------------

    def _simple(self, states: Mapping[str, str]) -> Cell | None:
        """An activation of a gate."""
        ((state, after),) = states.items()
        gate = self._gate(after, state, *SQUASHES, OPENING)
        return self._cell("RNN", [gate], states, [gate])

    def _gru(self, states: Mapping[str, str]) -> Cell | None:
        """``z * h + (1 - z) * n``: the state and what is new, by the update gate."""
        ((state, after),) = states.items()
        for old, fresh in self._operands(after, "Add"):
            for (z, h), (rest, n) in product(self._operands(old, "Mul"), self._operands(fresh, "Mul")):
                less, update = self.made(rest, "Sub"), self._gate(z, state, OPENING)
                if h != state or less is None or less.inputs[1] != z or not self._is_one(less.inputs[0]):
                    continue
                for linear, found in enumerate((self._reset_before, self._reset_after)):
                    reset, new = found(n, state)
                    if cell := self._cell(
                        "GRU", [update, reset, new], states, [update, new], linear_before_reset=linear
                    ):
                        return cell
        return None

    def _reset_before(self, name: str, state: str) -> tuple[Gate | None, Gate | None]:
        """The reset gate, and that of what is new, which multiplies the state after it was reset."""
        node = self.made(name, *SQUASHES)
        total = None if node is None else self._total(node.inputs[0])
        for kept in total.products if total is not None and not total.others else ():
            for r, h in self._operands(kept.source, "Mul"):
                if h == state and (reset := self._gate(r, state, OPENING)):
                    return reset, self._gate(name, kept.source, *SQUASHES)
        return None, None

    def _reset_after(self, name: str, state: str) -> tuple[Gate | None, Gate | None]:
        """The reset gate, and that of what is new, in which the product with the state is reset."""
        node = self.made(name, *SQUASHES)
        total = None if node is None else self._total(node.inputs[0])
        if node is None or total is None or len(total.products) != 1 or len(total.others) != 1:
            return None, None
        for r, h in self._operands(total.others[0], "Mul"):
            reset, kept = self._gate(r, state, OPENING), self._total(h)
            if reset is None or kept is None or kept.others or [each.source for each in kept.products] != [state]:
                continue
            return reset, Gate(total.products[0], kept.products[0], total.bias, kept.bias, node.op)
        return None, None

    def _lstm(self, states: Mapping[str, str]) -> Cell | None:
        """``c = f * c + i * g`` and ``h = o * activated(c)``."""
        (state, after), (memory, remembered) = states.items()
        for o, squashed in self._operands(after, "Mul"):
            end = self.made(squashed, *SQUASHES)
            if end is None or end.inputs[0] != remembered:
                continue
            for old, fresh in self._operands(remembered, "Add"):
                for (f, c), (i, g) in product(self._operands(old, "Mul"), self._operands(fresh, "Mul")):
                    if c != memory:
                        continue
                    gates = [self._gate(each, state, OPENING) for each in (i, o, f)]
                    gates.append(self._gate(g, state, *SQUASHES))
                    if cell := self._cell("LSTM", gates, states, [gates[0], gates[-1], end]):
                        return cell
        return None

    def _cell(
        self,
        op: str,
        gates: Sequence[Gate | None],
        states: Mapping[str, str],
        activated: Sequence[Gate | Node | None],
        **more: int,
    ) -> Cell | None:
        """A cell, if all of its gates are known, read the same data, and have weights that are stored alike."""
        found = [gate for gate in gates if gate is not None]
        if len(found) < len(gates):
            return None
        for products in ([gate.read for gate in found], [gate.kept for gate in found]):
            stored = {(each.weights.dtype, each.weights.quant is None) for each in products}
            if len(stored) != 1 or len({each.weights.shape[0 if each.turned else 1] for each in products}) != 1:
                return None
        sequences = {self._sequence(gate.read.source) for gate in found}
        if len(sequences) != 1 or "" in sequences:
            return None
        activations = tuple(each.op if isinstance(each, Node) else each.activation for each in activated if each)
        return Cell(op, found, states, sequences.pop(), {"activations": activations, **more})

    # -- gates -----------------------------------------------------------------------------------------------------

    def _gate(self, name: str, state: str, *activations: str) -> Gate | None:
        """An activated sum of a product with the step's data, one with a state, and a bias."""
        node = self.made(name, *activations)
        total = self._total(node.inputs[0]) if node is not None and self.values[name].in_floats else None
        if node is None or total is None or total.others or len(total.products) != _BOTH:
            return None
        for read, kept in (total.products, total.products[::-1]):
            if kept.source == state and self._sequence(read.source):
                return Gate(read, kept, total.bias, np.zeros_like(total.bias), node.op)
        return None

    def _total(self, name: str, span: tuple[int, int] | None = None, depth: int = 0) -> _Total | None:
        """What a value [batch, units] is a sum of, or its columns from one to another."""
        value, node = self.values[name], self.made(name) if depth < _DEEP else None
        width = value.shape[-1] if value.shape else 1
        if not isinstance(width, int) or not value.in_floats:
            return None
        low, high = span or (0, width)
        none = np.zeros(high - low, np.float32)
        if value.data is not None:
            return _Total((), (), value.data.reshape(-1)[low:high]) if value.data.size == width else None
        if node is None:
            return None
        if node.op == "Add":
            alike = all(self.values[each].shape[-1:] == (width,) for each in node.inputs)
            one, other = (self._total(each, (low, high), depth + 1) if alike else None for each in node.inputs)
            return None if one is None or other is None else one.plus(other)
        if node.op in (*_VIEWS, "Slice", "Split") and (start := self._start(node, name)) is not None:
            return self._total(node.inputs[0], (start + low, start + high), depth + 1)
        if node.op in ("Gemm", "MatMul") and (given := self._product(node, (low, high))):
            found, added = _Total((given,), (), none), node.inputs[_BIAS] if len(node.inputs) > _BIAS else ""
            if not added:
                return found
            more = self._total(added, (low, high), depth + 1) if self.values[added].shape[-1:] == (width,) else None
            return None if more is None else more.plus(found)
        return _Total((), (name,), none) if (low, high) == (0, width) else None

    def _product(self, node: Node, rows: tuple[int, int]) -> Product | None:
        """What a node multiplies by constant weights."""
        weights, factors = self.values[node.inputs[1]], [node.attributes.get(key, 1.0) for key in ("alpha", "beta")]
        turned = not node.attributes.get("transB", 0)
        if node.attributes.get("transA", 0) or factors != [1.0, 1.0] or not self.values[node.inputs[0]].in_floats:
            return None
        fits = weights.data is not None and weights.data.ndim == _BOTH and _are_weights(weights, int(turned))
        return Product(self.viewed(node.inputs[0]), weights, turned, rows) if fits else None

    def _start(self, node: Node, name: str) -> int | None:
        """The column of what it is given that a part of it, or a view, begins with; None where it is no such part."""
        given, shape = self.values[node.inputs[0]].shape, self.values[name].shape
        if node.op in _VIEWS:
            return 0 if given[-1:] == shape[-1:] else None
        if not all(isinstance(size, int) for size in (*given[-1:], *shape[-1:])) or given[:-1] != shape[:-1]:
            return None
        if node.op == "Split":
            last = node.attributes.get("axis", 0) in (-1, len(shape) - 1)
            before = node.outputs[: node.outputs.index(name)]
            return sum(static_elements(self.values[each].shape[-1:]) for each in before) if last else None
        return self._first(node, given)

    def _first(self, node: Node, given: Shape) -> int | None:
        """The column that a Slice begins with whose other axes are whole."""
        starts, *rest = (self.graph.constant(name) for name in node.inputs[1:])
        axes = rest[_AXES - 2] if len(rest) > _AXES - 2 else np.arange(len(given))
        steps = rest[_STEPS - 2] if len(rest) > _STEPS - 2 else np.ones(1)
        if starts is None or axes is None or steps is None or (steps != 1).any():
            return None
        columns = static_elements(given[-1:])
        found = [int(start) for start, axis in zip(starts, axes, strict=True) if axis % len(given) == len(given) - 1]
        return sum(start + columns if start < 0 else min(start, columns) for start in found)

    # -- what is read ----------------------------------------------------------------------------------------------

    def _sequence(self, name: str) -> str:
        """The data [steps, batch, features] of which a value is the step's; '' where there is none."""
        node = self.made(name, "Gather")
        if node is None or node.attributes.get("axis", 0) != 0 or self._number(node.inputs[1]) not in self.numbers:
            return ""
        source, given = self.values[node.inputs[0]], self.values[name]
        step = given.shape[1:] if given.shape[:-2] == (1,) else given.shape
        outside = self.graph.region(source.name) is not self.region
        fits = outside and source.in_floats and len(step) == _BOTH and source.shape == (self.count, *step)
        return source.name if fits else ""

    def _number(self, name: str) -> str:
        """What a number is a view of."""
        while node := self.made(name, *_VIEWS):
            name = node.inputs[0]
        return name

    def viewed(self, name: str) -> str:
        """What a value is a view of that has as many columns."""
        while (node := self.made(name, *_VIEWS)) and self._start(node, name) == 0:
            name = node.inputs[0]
        return name

    def _operands(self, name: str, op: str) -> Iterable[tuple[str, str]]:
        """The operands of an operator, either way round, where all are real numbers of one shape."""
        node = self.made(name, op)
        values = [self.values[each] for each in (name, *node.inputs)] if node is not None else []
        if node is None or not all(value.in_floats for value in values) or len({value.shape for value in values}) != 1:
            return []
        one, other = node.inputs
        return [(one, other), (other, one)]

    def _is_one(self, name: str) -> bool:
        data = self.graph.constant(name)
        return data is not None and self.values[name].in_floats and bool((data == 1).all())

    def made(self, name: str, *ops: str) -> Node | None:
        """The node of the step that makes a value, of some kinds where these are named."""
        node = self.graph.producer(name)
        if node is None or node.region is not self.region or node.domain or node.storage:
            return None
        return node if not ops or node.op in ops else None


def _are_weights(value: Value, axis: int) -> bool:
    """Whether constants are real numbers, or bytes in steps of all units, or of each along an axis."""
    quant = value.quant
    if quant is None:
        return value.dtype == "float32"
    return value.dtype in BYTES and not quant.block and quant.axis in (None, axis)
