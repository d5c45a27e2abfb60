"""Long short-term memory of 8 bits outside and 16 bits inside, step by step, in doubles that are LiteRT's integers."""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.tflite.exact.builder import REMEDY, WHOLE, step, stored, write_doubles
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Doubles, Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.gemmlowp import logistic, tanh
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.recurrent.lstm import is_basic, sequence
from layoutsolve.frontend.tflite.operators.recurrent.lstm_cell import (
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    SUMS,
    Cell,
    bits_before,
)
from layoutsolve.frontend.tflite.operators.recurrent.sequence import Walk
from layoutsolve.frontend.tflite.operators.recurrent.weights import Matrix
from layoutsolve.frontend.tflite.operators.shared.common import cast_to
from layoutsolve.ir.graph import Array, Quant, Value

_BIASES = 12
"""The position of the bias of the first gate."""

_WORD = (-32768.0, 32767.0)
_UNIT = 2.0**-15
"""The step of what is between -1 and 1."""

_AWAY = 1 + 2.0**-40
"""What makes Round take halves away from zero, and changes nothing else of numbers of 32 bits."""

_SUMS, _SHIFT = 1 << 22, 5
"""The sums and the shifts up to which doubles hold all bits of results of 16 bits."""


@exactly("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
def lstm(call: Call) -> None:
    """LSTM of int8 with int16 cells, without peepholes, normalization and projection."""
    if call.input(0).quant is None or is_basic(call):
        raise GapError("--quant exact covers LSTM of int8 with int16 cells", REMEDY)
    sequence(call, _written)


def _written(
    walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], slot: Slot
) -> tuple[Value, tuple[Value, ...]]:
    call, (output, state) = walk.call, states
    stays, hidden = cell.formats.cell.quant, cell.formats.hidden.quant
    if cell.peepholes or cell.norms or cell.projection is not None or cell.formats.bare:
        raise GapError("--quant exact covers LSTM without peepholes, normalization and projection", REMEDY)
    if x.quant is None or output.quant is None or stays is None or hidden is None:
        raise ValueError("the cell is of floats")
    rows = walk.rows(x)
    entering = _Sums(call, cell.weights, x.quant, _biases(call, cell)).write(call, rows)
    writer = _Step(call, cell, output.quant, stays, hidden)
    given = step(call, "Clip", entering, *_WORD)
    result, (last, after) = walk.through(given, (output, stored(call, state, "float64")), writer.write, slot)
    left = call.temporary("state", "int16", stays)
    return result, (last, call.write("Cast", [after], after.shape, left, storage=True, to="int16"))


def _biases(call: Call, cell: Cell) -> Array:
    """The biases of all gates, side by side, as the file has them."""
    found = [call.input(_BIASES + gate).data for gate in cell.gates]
    return np.concatenate([each.astype(np.int64) for each in found if each is not None])


class _Sums:
    """Products of bytes with the weights of all gates, side by side, rescaled to the steps of the gates."""

    def __init__(self, call: Call, weights: Matrix, quant: Quant, bias: Array) -> None:
        whole, zero = weights.data.astype(np.int64), int(quant.zero_point[0])
        if weights.scale is None:
            raise ValueError("the weights are floats")
        added = bias - zero * whole.sum(1)
        reach = np.abs(whole).sum(1) * 128 + np.abs(added)
        # LiteRT multiplies and divides floats
        factors = weights.scale * np.float32(quant.scale[0]) / np.float32(_UNIT * 2**SUMS)
        rescaling = Rescaling.by(factors)
        left = np.maximum(rescaling.exponent, 0)
        if reach.max() >= min(WHOLE, _SUMS) or rescaling.shift.max() > _SHIFT or ((reach << left) >> 31).any():
            raise GapError("its sums need more bits than there are", REMEDY)
        self.doubles = rescaling.as_doubles(0)
        self.weights = _stored(call, whole.T, "float32")
        self.added = call.constant(added[None], "added", "float32")

    def write(self, call: Call, rows: Value) -> Value:
        """Write the sums of some rows of bytes."""
        given = [stored(call, rows, "float32"), self.weights, self.added]
        shape = (rows.shape[0], self.weights.shape[1])
        return write_doubles(call, call.write("Gemm", given, shape, call.temporary("sums")), self.doubles)


class _Step:
    """Writes a step of a cell; its state is counted in steps, and what is between -1 and 1 is as it is."""

    def __init__(self, call: Call, cell: Cell, output: Quant, stays: Quant, hidden: Quant) -> None:
        self.cell = cell
        units, scale = len(cell.gates) * cell.units, float(stays.scale[0])
        self.sums = _Sums(call, cell.recurrent, output, np.zeros(units, np.int64))
        low, high = cell.cell_clip or (-np.inf, np.inf)
        self.bounds = max(low / scale, _WORD[0]), min(high / scale, _WORD[1])
        gates, news = _table(call, logistic(SUMS), _UNIT), _table(call, tanh(SUMS), _UNIT / scale * _AWAY)
        self.tables = {gate: news if gate == CELL else gates for gate in cell.gates}
        self.shown = _table(call, tanh(bits_before(stays)), _UNIT)
        zero, most = int(hidden.zero_point[0]), np.array([1 << 30])
        rescaling = Rescaling.by(np.float32(_UNIT / float(hidden.scale[0]) * _UNIT))
        if not rescaling.holds(zero, -most, most, *limits("int8")):
            raise GapError("its results need more bits than there are", REMEDY)
        doubles = rescaling.as_doubles(zero)
        self.hidden = Doubles(doubles.factor / _UNIT**2, doubles.signed, doubles.added)

    def write(self, call: Call, given: Value, before: tuple[Value, ...]) -> tuple[Value, ...]:
        """Write what the cell gives, and its state after the step."""
        output, state = before
        total = step(call, "Clip", step(call, "Add", self.sums.write(call, output), given), *_WORD)
        gates = self._gates(call, cast_to(call, total, "int32"))
        forget = gates[FORGET]
        enter = gates[INPUT] if INPUT in gates else step(call, "Add", step(call, "Mul", forget, -1.0), 1 - _UNIT)
        kept = step(call, "Round", step(call, "Mul", step(call, "Mul", forget, state), _AWAY))
        added = step(call, "Round", step(call, "Mul", enter, gates[CELL]))
        after = step(call, "Clip", step(call, "Add", kept, added), *self.bounds)
        shown = _looked_up(call, self.shown, cast_to(call, after, "int32"))
        hidden = write_doubles(call, step(call, "Mul", gates[OUTPUT], shown), self.hidden)
        limited = step(call, "Clip", hidden, *map(float, limits("int8")))
        slot = self.cell.formats.output.slot(call, "output")
        return call.write("Cast", [limited], limited.shape, slot, storage=True, to="int8"), after

    def _gates(self, call: Call, total: Value) -> dict[int, Value]:
        """The gates, by the sums of all of them."""
        units, gates = self.cell.units, self.cell.gates
        slots = [((total.shape[0], units), call.temporary("sum", "int32")) for _ in gates]
        parts = call.write_many("Split", [total, call.vector([units] * len(gates), "split")], slots, axis=1)
        return {gate: _looked_up(call, self.tables[gate], part) for gate, part in zip(gates, parts, strict=True)}


def _stored(call: Call, numbers: Array, dtype: str) -> Value:
    """Integers as floats, which runtimes compute when they load the model: the file has what they need."""
    kept = call.constant(numbers, "kept", "int8" if np.abs(numbers).max(initial=0) <= 128 else "int16")
    return call.write("Cast", [kept], kept.shape, call.temporary("wide", dtype), to=dtype)


def _table(call: Call, numbers: Array, scale: float) -> Value:
    """A table of numbers of 16 bits, as doubles."""
    return step(call, "Mul", _stored(call, numbers, "float64"), scale)


def _looked_up(call: Call, table: Value, places: Value) -> Value:
    return call.write("Gather", [table, places], places.shape, call.temporary("looked_up", "float64"), axis=0)
