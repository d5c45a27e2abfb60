"""What the recurrent operators share: weights, activations, state, and a walk through time step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.builder import Call, Slot
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.operators.common import static
from layoutsolve.graph import Array, Dim, Node, Quant, Region, Value, product

_MOST_STEPS = 32
"""How many steps are written one after the other; each takes about a dozen nodes. More are a loop, which costs time."""

_MOST_STEPS_OF_INTEGERS = 4
"""The same where weights are integers: ONNX Runtime dequantises them again for every node that reads them."""

_COST = 1000
"""What a step counts for in elements of constants, so that the size of the graph follows that of the file as well."""

_TANH = 4
_BOUNDS: dict[int, tuple[float, float]] = {2: (-1.0, 1.0), 3: (0.0, 6.0)}
_FUSED: dict[int, str] = {0: "Affine", 1: "Relu", _TANH: "Tanh"}


# -- weights -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Matrix:
    """A constant matrix: floats, or int8 with a scale and a zero point for each row."""

    data: Array
    scale: Array | None = None
    zero: Array | None = None

    @property
    def real(self) -> Array:
        """The numbers it means."""
        if self.scale is None or self.zero is None:
            return self.data
        return Quant(self.scale, self.zero, 0).real(self.data)

    @property
    def negated(self) -> Matrix:
        """The matrix times -1; as floats where int8 has no room for it."""
        if self.scale is None or (self.zero is not None and self.zero.any()) or (self.data == -128).any():
            return Matrix(-self.real)
        return Matrix(-self.data, self.scale, self.zero)

    def rows(self, start: int, stop: int) -> Matrix:
        """Some of its rows."""
        if self.scale is None or self.zero is None:
            return Matrix(self.data[start:stop])
        return Matrix(self.data[start:stop], self.scale[start:stop], self.zero[start:stop])

    def columns(self, call: Call, label: str) -> Value:
        """Its transpose as a constant, for products with rows of data."""
        return self._written(call, self.data.T, label, 1)

    def factor(self, call: Call, label: str) -> Value:
        """Its transpose as real numbers, for a product in every step: integers are dequantised before the first one."""
        found = self.columns(call, label)
        if found.quant is None:
            return found
        return call.write("Identity", [found], found.shape, call.temporary(f"{label}_real"))

    def direction(self, call: Call, label: str) -> Value:
        """The constant with an axis for the direction in front, as ONNX's recurrent operators take it."""
        return self._written(call, self.data[None], label, 1)

    def _written(self, call: Call, data: Array, label: str, axis: int) -> Value:
        call.draft.spend(data.size)
        if self.scale is None or self.zero is None:
            return call.constant(data, label, "float32")
        return call.constant(data, label, "int8", Quant(self.scale, self.zero, axis))


def matrix(call: Call, position: int, rows: Dim, columns: Dim) -> Matrix:
    """An input that is a constant matrix of this shape; a vector stands for a diagonal matrix."""
    value = _weights(call, position)
    data = value.data
    assert data is not None
    if data.ndim == 1 and rows == columns == data.size:
        call.draft.spend(data.size**2)
        return Matrix(np.diag(_real(value)))
    if data.shape != (rows, columns):
        raise ModelError(f"{call.origin} has weights of shape {list(data.shape)}, it needs [{rows}, {columns}]")
    quant = value.quant
    if quant is None or value.dtype not in ("int8", "uint8") or quant.axis not in (None, 0):
        return Matrix(_real(value))
    count = len(data)
    scale = np.broadcast_to(quant.scale, (count,))
    if call.declared(position) == "float32":
        if value.dtype == "uint8":
            return Matrix(_real(value))
        return Matrix(data, scale, np.broadcast_to(quant.zero_point, (count,)))
    if quant.axis is not None:
        raise ModelError(f"{call.origin} has weights with a scale for each row, LiteRT takes one")
    return Matrix(data.view(np.int8), scale, np.zeros(count, np.int8))


def vector(call: Call, position: int, size: Dim) -> Array:
    """An input that is a constant vector of this size, as the floats that it means."""
    value = _weights(call, position)
    assert value.data is not None
    if value.data.shape != (size,):
        raise ModelError(f"{call.origin} has a vector of shape {list(value.data.shape)}, it needs [{size}]")
    if value.dtype == "uint8" and value.quant is not None and call.declared(position) != "float32":
        return _real(replace(value, dtype="int8", data=value.data.view(np.int8), quant=_symmetric(value.quant)))
    return _real(value)


def _symmetric(quant: Quant) -> Quant:
    """The parameters as LiteRT takes those of hybrid weights: their bytes are signed and have no zero point."""
    return Quant(quant.scale, np.zeros(quant.zero_point.shape, np.int8), quant.axis)


def integers(call: Call, position: int, size: Dim, scale: Array | float) -> Array:
    """An input that is a constant vector of int32 that count in steps of ``scale``, as floats."""
    value = _weights(call, position)
    assert value.data is not None
    if value.data.shape != (size,) or value.dtype != "int32":
        raise ModelError(f"{call.origin} has a bias of {value.dtype}{list(value.data.shape)}, it needs int32[{size}]")
    return (value.data.astype(np.float64) * scale).astype(np.float32)


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Matrices one below the other; int8 only where all are."""
    scales = [part.scale for part in parts if part.scale is not None]
    zeros = [part.zero for part in parts if part.zero is not None]
    if len(scales) != len(parts) or len(zeros) != len(parts):
        return Matrix(np.concatenate([part.real for part in parts]))
    return Matrix(np.concatenate([part.data for part in parts]), np.concatenate(scales), np.concatenate(zeros))


def beside(left: Matrix, right: Matrix) -> Matrix:
    """Two matrices side by side; int8 only where both count in the same steps."""
    if left.scale is not None and right.scale is not None and left.zero is not None and right.zero is not None:
        same = np.array_equal(left.scale, right.scale) and np.array_equal(left.zero, right.zero)
        if same:
            return Matrix(np.concatenate([left.data, right.data], 1), left.scale, left.zero)
    return Matrix(np.concatenate([left.real, right.real], 1))


def _weights(call: Call, position: int) -> Value:
    value = call.input(position)
    if value.data is None:
        raise GapError("its weights are computed at run time", "make the weights constant")
    return value


def _real(value: Value) -> Array:
    assert value.data is not None
    if value.quant is not None:
        return value.quant.real(value.data)
    if not value.dtype.startswith("float"):
        raise ModelError(f"'{value.name}' holds {value.dtype} without quantisation parameters, it needs real numbers")
    return value.data.astype(np.float32)


# -- activations ---------------------------------------------------------------------------------------------------


def fused(code: int) -> str | None:
    """The name of a fused activation among those of ONNX's recurrent operators, None where it has none."""
    return _FUSED.get(code)


def activated(call: Call, code: int, value: Value, slot: Slot) -> Value:
    """``value`` after a fused activation, unchanged (and nothing written) where there is none."""
    if code == 0:
        return value
    if code in _BOUNDS:
        low, high = (call.constant(bound, "bound", "float32") for bound in _BOUNDS[code])
        return call.write("Clip", [value, low, high], value.shape, slot)
    if code not in _FUSED:
        raise GapError(f"its fused activation has the code {code}", "use TANH, RELU or RELU6")
    return call.write(_FUSED[code], [value], value.shape, slot)


# -- sequences -----------------------------------------------------------------------------------------------------

Step = Callable[[Call, Value, tuple[Value, ...]], tuple[Value, ...]]
"""Writes a step: from what it reads and the states before it to the states after it, of which it gives the first."""


@dataclass(frozen=True, eq=False)
class Walk:
    """A walk through the time of one operator: along ``axis`` of its data, None where there is one step without axis.

    ``steps`` is the size of that axis, ``batch`` that of the other one.
    """

    call: Call
    axis: int | None
    steps: Dim
    batch: int
    backward: bool = False

    @staticmethod
    def over(call: Call, x: Value, *, time_major: bool = False) -> Walk:
        """The walk forward through ``x``: [batch, features], [batch, time, features], or time first."""
        if len(x.shape) == 2:
            return Walk(call, None, 1, static(call, x.shape[:1], "batch")[0])
        if len(x.shape) != 3:
            raise ModelError(f"{call.origin} reads '{x.name}' of rank {len(x.shape)}, it needs rank 2 or 3")
        axis = 0 if time_major else 1
        return Walk(call, axis, x.shape[axis], static(call, x.shape[1 - axis : 2 - axis], "batch")[0])

    @property
    def reverse(self) -> Walk:
        """The same walk from the end to the beginning."""
        return Walk(self.call, self.axis, self.steps, self.batch, True)

    def state(self, position: int, features: int) -> Value:
        """A state before the first step, [batch, features]."""
        value = self.call.input(position)
        if prod(static(self.call, value.shape, "state")) != self.batch * features:
            raise ModelError(f"{self.call.origin} has a state of shape {list(value.shape)} for {features} features")
        return self.call.reshaped(value, (self.batch, features), "before")

    def leave(self, position: int, value: Value) -> None:
        """Leave a state behind after the last step."""
        self.call.update(position, self.call.reshaped(value, self.call.input(position).shape, "after"))

    # -- step by step ----------------------------------------------------------------------------------------------

    def rows(self, x: Value) -> Value:
        """All that the steps read as [steps * batch, features], time first."""
        if self.steps == 0:
            raise GapError("its sequence has no steps", "use a sequence of one step at least")
        rows = (product((self.steps, self.batch)), x.shape[-1])
        return self.call.reshaped(x if self.steps == 1 else self._first(x), rows, "rows")

    def through(
        self, x: Value, states: tuple[Value, ...], step: Step, slot: Slot, weights: Matrix
    ) -> tuple[Value, tuple[Value, ...]]:
        """Walk step by step over ``x`` as :meth:`rows` gives it, [batch, features] at a time, with ``weights``.

        Writes and returns what all steps give, and the states after the last one.
        """
        if states[0].dtype != slot.dtype:
            raise ModelError(f"{self.call.origin} gives {states[0].dtype}, but its output is {slot.dtype}")
        most = _MOST_STEPS if weights.scale is None else _MOST_STEPS_OF_INTEGERS
        if isinstance(self.steps, int) and self.steps <= most:
            whole, after = self._unrolled(x, states, step, self.steps)
        else:
            whole, after = self._looped(x, states, step)
        return self._written(whole, states[0].shape[-1], slot), after

    def _unrolled(self, x: Value, states: tuple[Value, ...], step: Step, count: int) -> tuple[Value, tuple[Value, ...]]:
        """One step written after the other."""
        call = self.call
        call.draft.spend(_COST * count)
        given: list[Value] = []
        parts = self._parts(x, count)
        for part in reversed(parts) if self.backward else parts:
            states = step(call, part, states)
            given.append(states[0])
        if self.backward:
            given.reverse()
        if count == 1:
            return given[0], states
        rows, storage = (count * self.batch, given[0].shape[-1]), given[0].quant is not None
        return call.write("Concat", given, rows, call.like("steps", given[0]), storage=storage, axis=0), states

    def _looped(self, x: Value, states: tuple[Value, ...], step: Step) -> tuple[Value, tuple[Value, ...]]:
        """A loop that carries the number of the turn, what the steps have given so far, and the states."""
        call, steps, draft, shape = self.call, self.steps, self.call.draft, states[0].shape
        data = call.reshaped(x, (steps, self.batch, x.shape[-1]), "data")
        limit = call.vector([steps], "limit") if isinstance(steps, int) else call.sizes(data, (steps,))
        one, zero, storage = call.vector([1], "one"), call.vector([0], "zero"), states[0].quant is not None
        empty = call.constant(np.zeros((0, *shape), states[0].dtype), "empty", states[0].dtype, states[0].quant)
        turns = call.derive(("turns", call.origin.index, self.backward))
        initial, shapes = (zero, empty, *states), ((1,), (turns, *shape), *(state.shape for state in states))
        names = [draft.unique(f"{value.name}/now") for value in initial]
        values = zip(names, initial, shapes, strict=True)
        turn, so_far, *now = [draft.add(Value(name, like.dtype, size, like.quant)) for name, like, size in values]

        region, start = Region("body", call.lowering.region), len(draft.nodes)
        inner = call.within(region)
        number = turn
        if self.backward:
            last = inner.write("Sub", [limit, one], (1,), inner.temporary("last", "int64"))
            number = inner.write("Sub", [last, turn], (1,), inner.temporary("number", "int64"))
        part = inner.write("Gather", [data, number], (1, *data.shape[1:]), inner.temporary("part"), axis=0)
        after = step(inner, inner.reshaped(part, data.shape[1:], "given"), tuple(now))
        new = inner.reshaped(after[0], (1, *shape), "new")
        both = [new, so_far] if self.backward else [so_far, new]
        longer = (call.derive(("longer", call.origin.index, self.backward)), *shape)
        grown = inner.write("Concat", both, longer, inner.like("grown", new), storage=storage, axis=0)
        following = inner.write("Add", [turn, one], (1,), inner.temporary("following", "int64"))
        again = self._below(inner, following, limit)

        inside, draft.nodes[start:] = draft.nodes[start:], []
        conditions = (self._below(call, zero, limit).name, again.name)
        loop = Node("Loop", conditions, (), {}, call.origin, region=call.lowering.region, regions=(region,))
        draft.nodes.append(loop)
        lasts = []
        for value, present, next_ in zip(initial, (turn, so_far, *now), (following, grown, *after), strict=True):
            size = (steps, *shape) if value is empty else value.shape
            slots = [(present.shape, Slot(present.name, value.dtype, value.quant)), (size, call.like("last", value))]
            lasts.append(call.write_many("Carry", [value, next_], slots, storage=True, regions=(region,))[1])
        draft.nodes += inside
        return lasts[1], tuple(lasts[2:])

    @staticmethod
    def _below(call: Call, number: Value, limit: Value) -> Value:
        """Whether a number is below the limit, as a scalar."""
        truth = call.write("Less", [number, limit], (1,), call.temporary("below", "bool"), real="bool")
        return call.reshaped(truth, (), "condition")

    def _parts(self, x: Value, count: int) -> list[Value]:
        if count == 1:
            return [x]
        slots = [((self.batch, x.shape[-1]), self.call.temporary("step")) for _ in range(count)]
        sizes = self.call.vector([self.batch] * count, "split")
        return self.call.write_many("Split", [x, sizes], slots, axis=0)

    def _first(self, x: Value) -> Value:
        """Data with time first."""
        return self.call.transposed(x, (1, 0, 2), "time_first", pattern=True) if self.axis == 1 else x

    def _written(self, value: Value, features: Dim, slot: Slot) -> Value:
        """Write what all steps gave, time first, as the operator gives it."""
        if self.axis is None:
            if value.shape == (self.batch, features):
                return self.call.write("Identity", [value], value.shape, slot, storage=value.quant is not None)
            return self.call.reshape(value, (self.batch, features), slot)
        if self.axis == 0:
            return self.call.reshape(value, (self.steps, self.batch, features), slot)
        if self.steps == 1:
            return self.call.reshape(value, (self.batch, 1, features), slot)
        whole = self.call.reshaped(value, (self.steps, self.batch, features), "steps")
        return self.call.transpose(whole, (1, 0, 2), slot, pattern=True)

    # -- by ONNX's recurrent operators -----------------------------------------------------------------------------

    def fused(
        self,
        op: str,
        x: Value,
        weights: Sequence[Value],
        states: tuple[Value, ...],
        slot: Slot,
        *,
        extra: Sequence[Value] = (),
        **attributes: Any,
    ) -> tuple[Value, tuple[Value, ...]]:
        """Write the whole walk as one ONNX operator; the results are those of :meth:`through`.

        ``extra`` inputs come last.
        """
        call, features = self.call, states[0].shape[-1]
        before = [call.reshaped(state, (1, self.batch, features), "initial") for state in states]
        shapes = [(self.steps, 1, self.batch, features), *[(1, self.batch, features)] * len(states)]
        slots = [(shape, call.temporary(label)) for shape, label in zip(shapes, ("y", "y_h", "y_c"), strict=False)]
        read = call.reshaped(x, (1, *x.shape), "time_first") if self.axis is None else self._first(x)
        inputs = [read, *weights, None, *before, *extra]
        attributes = {"direction": "reverse" if self.backward else "forward", "hidden_size": features, **attributes}
        given, *after = call.write_many(op, inputs, slots, **attributes)
        return self._written(given, features, slot), tuple(after)


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """A second input of a cell, with the position of its weights."""

    value: Value
    position: int

    @property
    def features(self) -> Dim:
        """The number of its features."""
        return self.value.shape[-1]

    def joined(self, call: Call, x: Value) -> Value:
        """The first input with this one beside it."""
        features = sum(static(call, (x.shape[-1], self.features), "number of features"))
        slot = call.temporary("inputs")
        return call.write("Concat", [x, self.value], (*x.shape[:-1], features), slot, axis=len(x.shape) - 1)


def auxiliary(
    call: Call, x: Value, position: int, weights: tuple[int, int], *, weighted: bool
) -> tuple[Value, tuple[Auxiliary | None, Auxiliary | None]]:
    """What the way back reads, and the auxiliary inputs of both ways.

    An auxiliary input that is not ``weighted`` is what the way back reads instead of ``x``.
    """
    extra = call.optional(position)
    if extra is None:
        return x, (None, None)
    if extra.shape[:-1] != x.shape[:-1]:
        raise ModelError(f"{call.origin} reads an auxiliary input of another length or batch")
    if not weighted:
        return extra, (None, None)
    return x, (Auxiliary(real(call, extra), weights[0]), Auxiliary(real(call, extra), weights[1]))


def real(call: Call, value: Value) -> Value:
    """``value``, which must be float32."""
    if value.quant is not None or value.dtype != "float32":
        raise GapError(f"it computes with {value.dtype}", "use float activations")
    return value


def ways(call: Call) -> tuple[Slot, Slot]:
    """Where the two directions of an operator write to: its outputs, or values in between that are to be merged."""
    if call.option("merge_outputs"):
        return call.temporary("forward"), call.temporary("backward")
    return call.slot(0), call.slot(1)


def merge(call: Call, forward: Value, backward: Value) -> None:
    """Write what both directions gave side by side, where the operator has a single output."""
    if call.option("merge_outputs"):
        features = sum(static(call, (forward.shape[-1], backward.shape[-1]), "number of features"))
        shape = (*forward.shape[:-1], features)
        call.write("Concat", [forward, backward], shape, call.slot(), axis=len(shape) - 1)
