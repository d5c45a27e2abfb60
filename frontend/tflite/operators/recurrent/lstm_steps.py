"""Long short-term memory step by step.

A cell is written with the numbers' meaning, and the same way for floats and for integers: where LiteRT's integer kernel
rounds, the value in between is stored in the format that it rounds to.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.gemmlowp import logistic, tanh
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.recurrent.lstm_cell import (
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    SUMS,
    Cell,
    Stored,
    bits_before,
)
from layoutsolve.frontend.tflite.operators.recurrent.sequence import (
    Walk,
    activated,
)
from layoutsolve.ir.graph import Array, Quant, Shape, Value

_HALF = 1 << 15
"""Half of the numbers of 16 bits."""

_WORD = (-float(_HALF), _HALF - 1.0)
"""The least and the greatest of them."""

_EPSILON = 1e-8


def unrolled(
    walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], slot: Slot
) -> tuple[Value, tuple[Value, ...]]:
    """Step by step; what all steps read is multiplied by its weights at once."""
    call, count, rows = walk.call, len(cell.gates) * cell.units, walk.rows(x)
    sums, shape = _sums(cell), (walk.batch, count)
    weights = cell.weights.factor if cell.formats.integer else cell.weights.columns  # no kernel gives 16 bits
    given = [rows, weights(call, "weights")]
    if not cell.norms:
        given.append(call.constant(np.concatenate([cell.biases[gate] for gate in cell.gates])[None], "bias"))
    inputs = call.write("Gemm", given, (rows.shape[0], count), sums.slot(call, "inputs"))
    writer = writer_of(call, cell, (walk.batch, cell.units))
    recurrent = cell.recurrent.factor(call, "recurrent")

    def step(call: Call, given: Value, before: tuple[Value, ...]) -> tuple[Value, ...]:
        output, state = before
        total = call.write("Gemm", [output, recurrent, given], shape, sums.slot(call, "sum"))
        return writer.within(call).step(total, state)

    output, state = states
    result, (last, after) = walk.through(writer.read(inputs), (output, writer.entering(state)), step, slot)
    return result, (last, writer.leaving(after))


def _sums(cell: Cell) -> Stored:
    """How the sums of all gates, side by side, are stored."""
    known = [quant for gate in cell.gates if (quant := cell.formats.gates[gate].quant) is not None]
    if not known:
        return Stored()
    if all(quant.matches(known[0]) for quant in known):
        return Stored("int16", known[0])
    scale = np.concatenate([np.broadcast_to(quant.scale, cell.units) for quant in known])
    return Stored("int16", Quant(scale, np.zeros(scale.size, np.int16), 1))


def _split(call: Call, total: Value, cell: Cell) -> dict[int, Value]:
    """The sums of each gate."""
    slots = [((total.shape[0], cell.units), call.temporary("gate")) for _ in cell.gates]
    parts = call.write_many("Split", [total, call.vector([cell.units] * len(slots), "split")], slots, axis=1)
    return dict(zip(cell.gates, parts, strict=True))


class _Writer:
    """Writes what a cell does in a step, where everything but a projection has ``shape``."""

    def __init__(self, call: Call, cell: Cell, shape: Shape) -> None:
        self.call, self.cell, self.shape = call, cell, shape
        self.formats = cell.formats
        self.columns = None if cell.projection is None else cell.projection.factor(call, "projection")
        self.added = None if cell.projection_bias is None else call.constant(cell.projection_bias, "bias")
        self.peepholes = {gate: call.constant(data, "peephole") for gate, data in cell.peepholes.items()}
        self.scales = {gate: call.constant(data, "norm") for gate, data in cell.norms.items()}
        self.biases = {gate: call.constant(cell.biases[gate], "bias") for gate in cell.norms}
        self.scalars: dict[float, Value] = {}

    def within(self, call: Call) -> _Writer:
        """The same, writing where ``call`` writes."""
        inner = copy(self)
        inner.call = call
        return inner

    def read(self, inputs: Value) -> Value:
        """What all steps read, as a step wants it."""
        return inputs

    def entering(self, state: Value) -> Value:
        """The cell's state, as the first step wants it."""
        return state

    def leaving(self, state: Value) -> Value:
        """The cell's state, as it is kept behind the last step."""
        return state

    def step(self, total: Value, state: Value) -> tuple[Value, Value]:
        """What the cell gives for the sums of its gates, side by side, and its state after the step."""
        cell, formats = self.cell, self.formats
        gates = self._begun(total, state)
        forget, news = gates[FORGET], gates[CELL]
        enter = self._coupled(forget) if cell.coupled else gates[INPUT]
        kept = self._write("Mul", [forget, state], formats.cell, "kept")
        added = self._write("Mul", [enter, news], formats.cell, "added")
        after = self._bounded("Add", [kept, added], self.shape, formats.cell, cell.cell_clip)
        leave = self._gate(OUTPUT, gates[OUTPUT], after)
        shown = enter if formats.bare else self._activated(after, "shown")
        return self._given(self._write("Mul", [leave, shown], formats.hidden, "hidden")), after

    def _write(self, op: str, inputs: list[Value], stored: Stored, label: str) -> Value:
        return self.call.write(op, inputs, self.shape, stored.slot(self.call, label))

    def _scalar(self, number: float) -> Value:
        if number not in self.scalars:
            self.scalars[number] = self.call.constant(number, "bound", "float32")
        return self.scalars[number]

    def _activated(self, value: Value, label: str) -> Value:
        if value.quant is not None:
            return self._looked_up(tanh(bits_before(value.quant)), self._places(value), label)
        return activated(self.call, self.cell.activation, value, self.formats.unit.slot(self.call, label))

    def _begun(self, total: Value, state: Value) -> dict[int, Value]:
        """The gates, but for that of the output its sums: it may see the state after the step."""
        sums = _split(self.call, total, self.cell)
        return {gate: value if gate == OUTPUT else self._gate(gate, value, state) for gate, value in sums.items()}

    def _gate(self, gate: int, value: Value, state: Value) -> Value:
        if gate in self.peepholes:
            seen = self._write("Mul", [state, self.peepholes[gate]], Stored(), "seen")
            value = self._write("Add", [value, seen], self.formats.gates[gate], "sum")
        if gate in self.scales:
            value = self._normalised(gate, value)
        if gate == CELL:
            return self._activated(value, "news")
        if value.quant is not None:
            return self._looked_up(logistic(bits_before(value.quant)), self._places(value), "gate")
        return self._write("Sigmoid", [value], self.formats.unit, "gate")

    def _places(self, value: Value) -> Value:
        """Where a table has what belongs to stored numbers."""
        return _cast(self.call, value, Stored("int32"), "places")

    def _looked_up(self, table: Array, places: Value, label: str) -> Value:
        """What LiteRT's integer kernel makes of numbers of 16 bits, of which ``table`` has all."""
        unit = self.formats.unit
        given = [self.call.constant(table, "table", "int16", unit.quant), places]
        return self.call.write("Gather", given, places.shape, unit.slot(self.call, label), storage=True, axis=0)

    def _coupled(self, forget: Value) -> Value:
        return self._write("Sub", [self._scalar(self.formats.one), forget], Stored(), "enter")

    def _normalised(self, gate: int, value: Value) -> Value:
        slot, axis = self.formats.normal.slot(self.call, "normal"), len(self.shape) - 1
        inputs = [value, self.scales[gate], self.biases[gate]]
        return self.call.write("LayerNormalization", inputs, self.shape, slot, axis=axis, epsilon=_EPSILON)

    def _bounded(
        self, op: str, inputs: list[Value], shape: Shape, stored: Stored, bounds: tuple[float, float] | None
    ) -> Value:
        if bounds is None:
            return self.call.write(op, inputs, shape, stored.slot(self.call, "state"))
        free = self.call.write(op, inputs, shape, self.call.temporary("free"))
        limits = [self._scalar(bound) for bound in bounds]
        return self.call.write("Clip", [free, *limits], shape, stored.slot(self.call, "state"))

    def _given(self, hidden: Value) -> Value:
        """What a step gives: the hidden state, or its projection."""
        call, cell, output = self.call, self.cell, self.formats.output
        if self.columns is None:
            return retyped(call, hidden, output)
        shape = (*self.shape[:-1], self.columns.shape[-1])
        inputs = [hidden, self.columns, *([] if self.added is None else [self.added])]
        return self._bounded("Gemm", inputs, shape, output, cell.projection_clip)


class _Tabled(_Writer):
    """Writes a cell of the integer kernel whose gates see their sums alone, in half of the operators.

    Its functions are tables of floats, all gates' in one; the cell's state is counted in its steps, in floats. These
    are powers of two, so that products are those of the numbers' meaning, and are rounded alike. ``fine`` steps are so
    small that what is added to the state may be more than 16 bits hold.
    """

    def __init__(self, call: Call, cell: Cell, shape: Shape, state: Quant) -> None:
        super().__init__(call, cell, shape)
        scale, bits = float(state.scale[0]), bits_before(state)
        self.limits, self.fine = self._limits(scale), scale < 2.0**-15
        news = self._table(tanh(SUMS))
        # Negative places count from the end, so that the two halves of one table may enclose another one.
        middle = self._table(np.roll(logistic(SUMS), _HALF))
        steps = call.constant(1 / scale, "steps", "float32")
        counted = call.write("Mul", [news, steps], news.shape, call.temporary("counted"))
        slots = [((_HALF,), call.temporary("half")) for _ in range(2)]
        low, high = call.write_many("Split", [counted, call.vector([_HALF] * 2, "split")], slots, axis=0)
        self.opening = call.write("Concat", [low, middle, high], (4 * _HALF,), call.temporary("opening"), axis=0)
        starts = [0 if gate == CELL else 2 * _HALF for gate in cell.gates]
        self.starts = call.constant(np.repeat(starts, cell.units)[None], "starts", "int32")
        self.showing = None
        if not self.formats.bare:
            self.showing = news if bits == SUMS else self._table(tanh(bits))

    def _limits(self, scale: float) -> tuple[float, float]:
        """The bounds of the cell's state, in steps."""
        low, high = self.cell.cell_clip or (-np.inf, np.inf)
        return max(low / scale, _WORD[0]), min(high / scale, _WORD[1])

    def _table(self, data: Array) -> Value:
        """A table as floats, which runtimes compute when they load the model."""
        stored = self.call.constant(data, "table", "int16", self.formats.unit.quant)
        return self.call.write("Identity", [stored], stored.shape, self.call.temporary("table_real"))

    def read(self, inputs: Value) -> Value:
        return self.call.write("Identity", [inputs], inputs.shape, self.call.temporary("inputs_real"))

    def entering(self, state: Value) -> Value:
        return _cast(self.call, state, Stored(), "counted")

    def leaving(self, state: Value) -> Value:
        return _cast(self.call, state, self.formats.cell, "state")

    def step(self, total: Value, state: Value) -> tuple[Value, Value]:
        cell = self.cell
        places = self.call.write("Add", [self._places(total), self.starts], total.shape, self._between("int32"))
        opened = self.call.write("Gather", [self.opening, places], total.shape, self._between(), axis=0)
        gates = _split(self.call, opened, cell)
        enter = self._coupled(gates[FORGET]) if cell.coupled else gates[INPUT]
        kept, added = self._product(gates[FORGET], state), self._product(enter, gates[CELL])
        if self.fine:
            added = self._limited(added, _WORD)
        after = self._limited(self._write("Add", [kept, added], Stored(), "free"), self.limits)
        shown = enter
        if self.showing is not None:
            seen = [self.showing, self._places(after)]
            shown = self.call.write("Gather", seen, self.shape, self._between(), axis=0)
        return self._given(self._write("Mul", [gates[OUTPUT], shown], self.formats.hidden, "hidden")), after

    def _between(self, dtype: str = "float32") -> Slot:
        return self.call.temporary("between", dtype)

    def _limited(self, value: Value, limits: tuple[float, float]) -> Value:
        return self._write("Clip", [value, *map(self._scalar, limits)], Stored(), "limited")

    def _product(self, gate: Value, other: Value) -> Value:
        """Steps of the cell's state by a gate, to the nearest."""
        return self._write("Round", [self._write("Mul", [gate, other], Stored(), "product")], Stored(), "rounded")


def writer_of(call: Call, cell: Cell, shape: Shape) -> _Writer:
    """What writes a cell."""
    quant = cell.formats.cell.quant
    if quant is None or not cell.formats.integer or cell.peepholes or cell.norms:
        return _Writer(call, cell, shape)
    return _Tabled(call, cell, shape, quant)


def _cast(call: Call, value: Value, stored: Stored, label: str) -> Value:
    """The same stored integers in another type."""
    slot = stored.slot(call, label)
    return call.write("Cast", [value], value.shape, slot, real=slot.real, storage=True, to=stored.dtype)


def retyped(call: Call, value: Value, stored: Stored) -> Value:
    """The same integers, read with other parameters."""
    if value.quant is None or value.quant.matches(stored.quant):
        return value
    slot = call.temporary("state", value.dtype, stored.quant)
    return call.write("Identity", [value], value.shape, slot, storage=True)
