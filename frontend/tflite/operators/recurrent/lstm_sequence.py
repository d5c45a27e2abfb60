"""Long short-term memory as one operator of ONNX, over all steps.

Cells that Keras writes are clipped at 10, which ONNX's operator cannot: its ``clip`` bounds something else. Few cells
ever come there. So where it is seen afterwards that none did, what that operator gave is taken; else it takes one step
after the other, and is clipped in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.control import write_branches
from layoutsolve.frontend.tflite.operators.recurrent.lstm_cell import FORGET, INPUT, ORDER, OUTPUT, RELU, TANH, Cell
from layoutsolve.frontend.tflite.operators.recurrent.sequence import Walk, fused
from layoutsolve.frontend.tflite.operators.recurrent.weights import stacked
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Value

SATURATED = 9.5
"""From here on tanh is 1, as floats are: whether a cell is clipped before or after it makes no difference there."""

CLOSE = 1 - 1e-4
"""A tanh that is less than this is that of a number below 5, by whatever sums of floats it was computed."""

WORTH = 8
"""The fewest steps that take longer, one after the other, than all at once with a look at what they gave."""


def fits(cell: Cell) -> bool:
    """Whether ONNX's LSTM computes the same."""
    plain = not cell.norms and cell.projection is None and cell.cell_clip is None
    return plain and not cell.formats.integer and cell.activation in (TANH, RELU)


def stays_mostly(walk: Walk, cell: Cell) -> bool:
    """Whether it computes the same as long as no cell comes to its clip, and to find that out is worth it."""
    low, high = cell.cell_clip or (0, 0)
    alike = fits(replace(cell, cell_clip=None)) and cell.activation == TANH and not cell.peepholes
    return alike and high >= SATURATED and low == -high and isinstance(walk.steps, int) and walk.steps >= WORTH


@dataclass(frozen=True)
class _Operands:
    """What ONNX's LSTM reads beside data and states, and its options."""

    weights: Sequence[Value]
    extra: Sequence[Value]
    attributes: Mapping[str, Any]


def whole(walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], slot: Slot) -> tuple[Value, tuple[Value, ...]]:
    """ONNX's LSTM over all steps."""
    read = _operands(walk.call, cell)
    return walk.fused("LSTM", x, read.weights, states, slot, extra=read.extra, **read.attributes)


def _operands(call: Call, cell: Cell) -> _Operands:
    """The operands. A coupled input gate is 1 - sigmoid(z) = sigmoid(-z) of the forget gate's z."""
    units, weights, recurrent, biases = cell.units, cell.weights, cell.recurrent, dict(cell.biases)
    peepholes = dict(cell.peepholes)
    if cell.coupled:
        start = cell.gates.index(FORGET) * units
        weights, recurrent = (stacked([part.rows(start, start + units).negated, part]) for part in (weights, recurrent))
        biases[INPUT] = -biases[FORGET]
        peepholes.update({INPUT: -peepholes[FORGET]} if peepholes else {})
    bias = np.concatenate([*(biases[gate] for gate in ORDER), np.zeros(4 * units, np.float32)])[None]
    given = [weights.direction(call, "weights"), recurrent.direction(call, "recurrent"), call.constant(bias, "bias")]
    extra = []
    if peepholes:
        stack = np.concatenate([peepholes[gate] for gate in ORDER if gate in peepholes])[None]
        extra.append(call.constant(stack, "peepholes"))
    name = str(fused(cell.activation))
    return _Operands(given, extra, {"activations": ("Sigmoid", name, name)} if cell.activation != TANH else {})


def mostly_whole(
    walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], slot: Slot
) -> tuple[Value, tuple[Value, ...]]:
    """ONNX's LSTM over all steps if no cell comes to its clip, else over one after the other."""
    call, read = walk.call, _operands(walk.call, cell)
    guessed, left = walk.fused("LSTM", x, read.weights, states, call.temporary("guessed"), **read.attributes)

    def stepwise(inner: Call) -> Sequence[Value]:
        given, after = _stepwise(replace(walk, call=inner), x, cell, states, read)
        return given, *after

    slots = [slot, *(call.temporary(label) for label in ("y_h", "y_c"))]
    inside = _inside(walk, x, cell, states, guessed)
    result, *after = write_branches(call, inside, (lambda _: (guessed, *left), stepwise), slots)
    return result, tuple(after)


def _inside(walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], given: Value) -> Value:
    """Whether all cells stayed far inside of their clip, as a scalar, by what all steps gave without one.

    That is the output gate times the cell's tanh, so the gate is computed anew, of what each step has read.
    """
    call, units = walk.call, cell.units
    rows, result = walk.rows(x), walk.rows(given)
    (count, _), shape = static(call, result.shape, "number of steps"), result.shape
    span = Span(walk.batch, count) if walk.backward else Span(0, count - walk.batch)
    others = take(call, result, {0: span}, call.temporary("others"))
    before = [others, states[0]] if walk.backward else [states[0], others]
    before_each = call.write("Concat", before, shape, call.temporary("before"), axis=0)
    start = cell.gates.index(OUTPUT) * units
    weights, recurrent = (part.rows(start, start + units) for part in (cell.weights, cell.recurrent))
    read = [rows, weights.columns(call, "weights"), call.constant(cell.biases[OUTPUT][None], "bias")]
    total = call.write("Gemm", read, shape, call.temporary("read"))
    again = [before_each, recurrent.columns(call, "recurrent"), total]
    total = call.write("Gemm", again, shape, call.temporary("total"))
    gate = call.write("Sigmoid", [total], shape, call.temporary("gate"))
    most = call.write("Mul", [gate, call.constant(CLOSE, "close", "float32")], shape, call.temporary("most"))
    size = call.write("Abs", [result], shape, call.temporary("size"))
    less = call.write("Sub", [size, most], shape, call.temporary("less"))
    least = call.write("ReduceMax", [less], (), call.temporary("greatest"), keepdims=0)
    zero = call.constant(0, "zero", "float32")
    return call.write("Less", [least, zero], (), call.temporary("inside", "bool"), real="bool")


def _stepwise(
    walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], read: _Operands
) -> tuple[Value, tuple[Value, ...]]:
    """ONNX's LSTM over one step after the other, clipped in between."""
    call = walk.call
    low, high = (call.constant(bound, "bound", "float32") for bound in cell.cell_clip or ())

    def step(call: Call, given: Value, before: tuple[Value, ...]) -> tuple[Value, ...]:
        single = Walk(call, 0 if len(given.shape) == 3 else None, 1, walk.batch)
        _, output, state = single.stored("LSTM", given, read.weights, before, **read.attributes)
        return output, call.write("Clip", [state, low, high], state.shape, call.temporary("clipped"))

    before = [call.reshaped(state, (1, *state.shape), "initial") for state in states]
    return walk.through(walk.time_first(x), (before[0], before[1]), step, call.temporary("stepwise"))
