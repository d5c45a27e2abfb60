"""One step of LSTM by the basic kernel, whose gates are the rows of one matrix."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.recurrent.lstm_cell import (
    CELL,
    FLOATS,
    FORGET,
    INPUT,
    OUTPUT,
    TANH,
    Cell,
    Formats,
    Stored,
    fixed_point,
)
from layoutsolve.frontend.tflite.operators.recurrent.lstm_steps import retyped, writer_of
from layoutsolve.frontend.tflite.operators.recurrent.sequence import (
    Walk,
    real,
)
from layoutsolve.frontend.tflite.operators.recurrent.weights import Matrix, integers, matrix, vector
from layoutsolve.frontend.tflite.operators.shared.common import ranked, static
from layoutsolve.ir.graph import Array, Quant, Value

_BASIC_ORDER = (INPUT, CELL, FORGET, OUTPUT)


_BYTE = Stored("uint8", Quant(np.array([2.0**-7], np.float32), np.array([128], np.uint8)))
"""How the basic kernel takes all bytes that it reads and writes, whatever the file says."""


def basic(call: Call, x: Value) -> None:
    """One step of the kernel with five inputs and four outputs; all gates are the rows of one matrix."""
    walk, stacked_shape = Walk.over(call, x), ranked(call, call.input(2), 2).shape
    rows, columns = static(call, stacked_shape, "weights' shape")
    features, units = static(call, x.shape[-1:], "number of features")[0], rows // 4
    if rows % 4 or columns != features + units:
        raise ModelError(f"{call.origin} reads {features} features but has weights of shape [{rows}, {columns}]")
    output, state = walk.state(1, units), walk.state(4, units)
    joined = (walk.batch, columns)
    if x.dtype == "uint8":
        formats, weights, bias = _basic_integers(call, rows, columns)
        raw = [retyped(call, value, _BYTE) for value in (x, output)]
        if any(value.dtype != "uint8" for value in raw) or state.dtype != "int16":
            raise ModelError(f"{call.origin} mixes types")
        state = retyped(call, state, formats.cell)
    else:
        formats, raw = FLOATS, [real(call, value) for value in (x, output)]
        weights, bias = matrix(call, 2, rows, columns), vector(call, 3, rows)
    both = call.write("Concat", raw, joined, formats.output.slot(call, "inputs"), storage=formats.integer, axis=1)
    given = [both, weights.factor(call, "weights"), call.constant(bias[None], "bias", "float32")]
    total = call.write("Gemm", given, (walk.batch, rows), formats.gates[INPUT].slot(call, "sum"))
    empty = Matrix(np.zeros((0, 0), np.float32))
    biases = {gate: np.zeros(units, np.float32) for gate in _BASIC_ORDER}
    cell = Cell(_BASIC_ORDER, empty, empty, biases, {}, {}, None, None, formats, TANH, None, None)
    writer = writer_of(call, cell, (walk.batch, units))
    hidden, counted = writer.step(total, writer.entering(state))
    after = writer.leaving(counted)
    for position, value in enumerate((hidden, after, both, total)):
        _show(call, value, position)
    for position, value in ((1, hidden), (4, after)):
        if call.lowering.subgraph.tensors[call.operator.inputs[position]].is_variable:
            walk.leave(position, value)


def _basic_integers(call: Call, rows: int, columns: int) -> tuple[Formats, Matrix, Array]:
    """The formats of the basic kernel for bytes, its weights and its bias."""
    weights, bias = call.input(2), call.lowering.subgraph.tensors[call.operator.inputs[3]]
    if weights.dtype != "uint8" or weights.data is None or weights.quant is None or weights.quant.axis is not None:
        raise GapError("its weights are no 8-bit constant with one scale", "quantize them to uint8")
    if bias.quant is None or bias.quant.scale.size != 1:
        raise ModelError(f"{call.origin} has a bias without a scale")
    step = bias.quant.scale.astype(np.float64)
    data = (weights.data.astype(np.int16) - 128).astype(np.int8)
    zero = np.broadcast_to((weights.quant.zero_point.astype(np.int16) - 128).astype(np.int8), (rows,))
    scale = np.broadcast_to((step * 128).astype(np.float32), (rows,))
    formats = Formats(
        {gate: fixed_point(12) for gate in range(4)},
        fixed_point(12),
        fixed_point(15),
        fixed_point(11),
        _BYTE,
        _BYTE,
        1 - 2.0**-15,
    )
    return formats, Matrix(data, scale, zero), integers(call, 3, rows, step)


def _show(call: Call, value: Value, position: int) -> None:
    """Write an output that is a value in between; integers as they are, whatever the file says they mean."""
    slot = call.slot(position)
    if slot.dtype != value.dtype:
        raise ModelError(f"{call.origin} gives {value.dtype}, but its output '{slot.name}' is {slot.dtype}")
    call.write("Identity", [value], value.shape, slot, storage=value.quant is not None)
