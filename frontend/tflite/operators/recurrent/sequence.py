"""What the recurrent operators share: activations, state, and a walk through time step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.control import collect, write_loop
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Region, Value, product

_MOST_STEPS = 32
"""How many steps are written one after the other; each takes about a dozen nodes. More are a loop, which costs time."""

_TANH = 4
_BOUNDS: dict[int, tuple[float, float]] = {2: (-1.0, 1.0), 3: (0.0, 6.0)}
_FUSED: dict[int, str] = {0: "Affine", 1: "Relu", _TANH: "Tanh"}


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
        return self.call.reshaped(x if self.steps == 1 else self.time_first(x), rows, "rows")

    def through(self, x: Value, states: tuple[Value, ...], step: Step, slot: Slot) -> tuple[Value, tuple[Value, ...]]:
        """Walk step by step over ``x`` as :meth:`rows` gives it, [batch, features] at a time, or over [steps, batch,
        features].

        Writes and returns what all steps give, and the states after the last one.
        """
        if states[0].dtype != slot.dtype:
            raise ModelError(f"{self.call.origin} gives {states[0].dtype}, but its output is {slot.dtype}")
        if isinstance(self.steps, int) and self.steps <= _MOST_STEPS:
            whole, after = self._unrolled(x, states, step, self.steps)
        else:
            whole, after = self._looped(x, states, step)
        return self._written(whole, states[0].shape[-1], slot), after

    def _unrolled(self, x: Value, states: tuple[Value, ...], step: Step, count: int) -> tuple[Value, tuple[Value, ...]]:
        """One step written after the other."""
        call = self.call
        given: list[Value] = []
        parts = self._parts(x, count)
        for part in reversed(parts) if self.backward else parts:
            states = step(call, part, states)
            given.append(states[0])
        if self.backward:
            given.reverse()
        if count == 1:
            return given[0], states
        shape, storage = (product((count, given[0].shape[0])), *given[0].shape[1:]), given[0].quant is not None
        return call.write("Concat", given, shape, call.like("steps", given[0]), storage=storage, axis=0), states

    def _looped(self, x: Value, states: tuple[Value, ...], step: Step) -> tuple[Value, tuple[Value, ...]]:
        """A loop that carries the number of the turn and the states, and collects what the steps give."""
        call, steps, draft, shape = self.call, self.steps, self.call.draft, states[0].shape
        data = call.reshaped(x, (steps, self.batch, x.shape[-1]), "data")
        count = steps if isinstance(steps, int) else None
        limit = call.sizes((steps,), "limit") if count is None else call.vector([count], "limit")
        one, zero = call.vector([1], "one"), call.vector([0], "zero")
        initial = (zero, *states)
        names = [draft.names.derived(value.name, "now") for value in initial]
        values = zip(names, initial, strict=True)
        turn, *now = [draft.add(Value(name, like.dtype, like.shape, like.quant)) for name, like in values]

        first = self._below(call, zero, limit)
        region, start = Region("body", call.lowering.region), len(draft.nodes)
        inner = call.within(region)
        number = turn
        if self.backward:
            last = inner.write("Sub", [limit, one], (1,), inner.temporary("last", "int64"))
            number = inner.write("Sub", [last, turn], (1,), inner.temporary("number", "int64"))
        stored, slot = data.quant is not None, inner.like("part", data)
        part = inner.write("Gather", [data, number], (1, *data.shape[1:]), slot, storage=stored, axis=0)
        after = step(inner, inner.reshaped(part, data.shape[1:], "given"), tuple(now))
        following = inner.write("Add", [turn, one], (1,), inner.temporary("following", "int64"))
        again = self._below(inner, following, limit)
        ends = zip(initial, (turn, *now), (following, *after), strict=True)
        carried = [(value, present, next_, value.shape, call.like("last", value)) for value, present, next_ in ends]
        lasts = write_loop(call, region, start, (first, again), carried, count)
        whole = collect(call, region, after[0], (steps, *shape), call.like("steps", after[0]))
        if self.backward:
            whole = take(call, whole, {0: Span(-1, -LAST, -1)}, call.like("forward", whole), {0: steps})
        return whole, tuple(lasts[1:])

    @staticmethod
    def _below(call: Call, number: Value, limit: Value) -> Value:
        """Whether a number is below the limit, as a scalar."""
        truth = call.write("Less", [number, limit], (1,), call.temporary("below", "bool"), real="bool")
        return call.reshaped(truth, (), "condition")

    def _parts(self, x: Value, count: int) -> list[Value]:
        if count == 1:
            return [x]
        size = self.batch if len(x.shape) == 2 else 1
        dtype = x.dtype if x.quant is None else "float32"
        slots = [((size, *x.shape[1:]), self.call.temporary("step", dtype)) for _ in range(count)]
        sizes = self.call.vector([size] * count, "split")
        return self.call.write_many("Split", [x, sizes], slots, axis=0)

    def time_first(self, x: Value) -> Value:
        """Data with time first, where there is such an axis."""
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
        given, *after = self.stored(op, x, weights, states, extra=extra, **attributes)
        return self._written(given, states[0].shape[-1], slot), tuple(after)

    def stored(
        self,
        op: str,
        x: Value,
        weights: Sequence[Value],
        states: tuple[Value, ...],
        *,
        extra: Sequence[Value] = (),
        **attributes: Any,
    ) -> list[Value]:
        """The same as ONNX has it: what all steps give, [steps, 1, batch, features], and states of [1, batch,
        features].
        """
        call, features = self.call, states[0].shape[-1]
        before = [call.reshaped(state, (1, self.batch, features), "initial") for state in states]
        shapes = [(self.steps, 1, self.batch, features), *[(1, self.batch, features)] * len(states)]
        slots = [(shape, call.temporary(label)) for shape, label in zip(shapes, ("y", "y_h", "y_c"), strict=False)]
        read = call.reshaped(x, (1, *x.shape), "time_first") if self.axis is None else self.time_first(x)
        inputs = [read, *weights, None, *before, *extra]
        attributes = {"direction": "reverse" if self.backward else "forward", "hidden_size": features, **attributes}
        return call.write_many(op, inputs, slots, **attributes)


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
    if not call.agree(extra.shape[:-1], x.shape[:-1]):
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
