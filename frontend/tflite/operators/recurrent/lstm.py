"""LSTM operators: their inputs and options.

It is written as one operator over all steps (:mod:`~layoutsolve.frontend.tflite.operators.recurrent.lstm_sequence`) or
step by step (:mod:`~layoutsolve.frontend.tflite.operators.recurrent.lstm_steps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.recurrent.basic_lstm import basic
from layoutsolve.frontend.tflite.operators.recurrent.lstm_cell import (
    CELL,
    FLOATS,
    FORGET,
    INPUT,
    ORDER,
    OUTPUT,
    SUMS,
    TANH,
    Cell,
    Formats,
    Stored,
    fixed_point,
)
from layoutsolve.frontend.tflite.operators.recurrent.lstm_sequence import fits, mostly_whole, stays_mostly, whole
from layoutsolve.frontend.tflite.operators.recurrent.lstm_steps import unrolled
from layoutsolve.frontend.tflite.operators.recurrent.sequence import (
    Auxiliary,
    Walk,
    auxiliary,
    merge,
    real,
    ways,
)
from layoutsolve.frontend.tflite.operators.recurrent.weights import Matrix, beside, integers, matrix, stacked, vector
from layoutsolve.frontend.tflite.operators.shared.common import ranked, static
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Array, Quant, Value

_PEEPHOLES = {INPUT: 0, FORGET: 1, OUTPUT: 2}
_BASIC = 1


@dataclass(frozen=True)
class Places:
    """Where one direction has its inputs: 17 tensors from ``first`` on, then those that not every operator has."""

    first: int
    state: int
    norms: int | None = None
    auxiliary: int | None = None


_GATES = "P =2~ PN =2 =2 =2~ =2x3 =2~x3 P~ Px3 =2~ P~"
"""What an LSTM of floats reads before its states: weights are of one type."""

_SHORT_GATES = "E E~ Ex3 E~ Ex3 H~x3 W~x4 E~ W~"
"""The same of integers."""

_SEQUENCE = (
    f"{_GATES} P P -> P",
    f"{_GATES} P P P~x4 -> P",
    f"{_SHORT_GATES} E H -> E",
    f"{_SHORT_GATES} E H H~x4 -> E",
)
"""An LSTM with its states, and with normalisation."""


Written = Callable[[Walk, Value, Cell, tuple[Value, Value], Slot], tuple[Value, tuple[Value, ...]]]
"""How a cell is written over all steps: from what they read, and the states before the first one, to what they give,
and the states after the last one.
"""


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", signature=_SEQUENCE)
def unidirectional(call: Call) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    sequence(call, _written)


def sequence(call: Call, written: Written) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, or the full kernel of LSTM: one direction, with its states and normalisation."""
    alone = call.operator.name == "LSTM"
    x = ranked(call, call.input(0), 2 if alone else 3)
    walk = Walk.over(call, x, time_major=not alone and bool(call.option("time_major")))
    _direction(walk, x, None, Places(1, 18, norms=20), call.slot(), written)


@lowers("BIDIRECTIONAL_SEQUENCE_LSTM", signature=f"{_GATES} =2~ =2x3 =2~ =2x3 =2~x3 P~ Px3 =2~ P~ Px4 P~ =2~x8 -> P P?")
def bidirectional(call: Call) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM; an auxiliary input without weights is what the way back reads."""
    x = real(call, ranked(call, call.input(0), 3))
    walk, slots = Walk.over(call, x, time_major=bool(call.option("time_major"))), ways(call)
    if call.option("merge_outputs") and walk.axis == 1 and walk.batch > 1:
        reason = "LiteRT writes beyond its states where it merges its outputs with the batch first"
        raise GapError(reason, "put time first, use a batch of 1, or keep two outputs and concatenate them")
    back, (ahead, behind) = auxiliary(call, x, 39, (40, 44), weighted=call.optional(41) is not None)
    forward = _direction(walk, x, ahead, Places(1, 35), slots[0])
    backward = _direction(walk.reverse, back, behind, Places(18, 37), slots[1])
    merge(call, forward, backward)


@lowers("LSTM", signature=(*_SEQUENCE, "Px5 -> Px4", "U U U W H -> U H U H"))
def lstm(call: Call) -> None:
    """LSTM: one step, by the full kernel or by the basic one."""
    if is_basic(call):
        basic(call, ranked(call, call.input(0), 2))
    else:
        sequence(call, _written)


def is_basic(call: Call) -> bool:
    """Whether LSTM asks for the kernel with five inputs and four outputs."""
    return call.option("kernel_type") == _BASIC


def _written(
    walk: Walk, x: Value, cell: Cell, states: tuple[Value, Value], slot: Slot
) -> tuple[Value, tuple[Value, ...]]:
    if fits(cell):
        return whole(walk, x, cell, states, slot)
    return (mostly_whole if stays_mostly(walk, cell) else unrolled)(walk, x, cell, states, slot)


def _direction(
    walk: Walk, x: Value, aux: Auxiliary | None, places: Places, slot: Slot, written: Written = _written
) -> Value:
    """One direction of an operator."""
    call = walk.call
    cell = _cell(call, x, aux, places)
    if aux is not None:
        x = aux.joined(call, x)
    outputs = cell.units if cell.projection is None else len(cell.projection.data)
    states = (walk.state(places.state, outputs), walk.state(places.state + 1, cell.units))
    _check_states(call, cell, states)
    result, after = written(walk, x, cell, states, slot)
    for offset, state in enumerate(after):
        walk.leave(places.state + offset, state)
    return result


def _check_states(call: Call, cell: Cell, states: tuple[Value, Value]) -> None:
    for state, stored in zip(states, (cell.formats.output, cell.formats.cell), strict=True):
        if state.dtype != stored.dtype or (state.quant is None) != (stored.quant is None):
            raise ModelError(f"{call.origin} has a state of type {state.dtype}, it needs {stored.dtype}")


# -- reading -------------------------------------------------------------------------------------------------------


def _cell(call: Call, x: Value, aux: Auxiliary | None, places: Places) -> Cell:
    first = places.first
    coupled = call.optional(first + INPUT) is None
    _check_groups(call, places, coupled)
    gates = ORDER[1:] if coupled else ORDER
    features, units, outputs = _sizes(call, x, first)
    formats = _formats(call, x, places) if x.quant is not None else FLOATS
    if not formats.integer:
        real(call, x)
    weights = {gate: matrix(call, first + gate, units, features) for gate in gates}
    recurrent = {gate: matrix(call, first + 4 + gate, units, outputs, diagonal=True) for gate in gates}
    norms = _norms(call, places, gates, units)
    biases = {gate: _bias(call, x, first, gate, weights[gate], places if norms else None) for gate in gates}
    if aux is not None:
        extra = {gate: matrix(call, aux.position + gate, units, aux.features) for gate in gates}
        weights = {gate: beside(weights[gate], extra[gate]) for gate in gates}
    projection = None if call.optional(first + 15) is None else matrix(call, first + 15, outputs, units)
    if projection is None and outputs != units:
        raise ModelError(f"{call.origin} has {units} cells but gives {outputs} numbers without a projection")
    peepholes = _peepholes(call, first, gates, units)
    if formats.integer and peepholes and outputs != units:
        raise GapError("LiteRT's integer kernel misreads peepholes beside a projection", "use one of both only")
    return Cell(
        gates,
        stacked([weights[gate] for gate in gates]),
        stacked([recurrent[gate] for gate in gates]),
        biases,
        peepholes,
        norms,
        projection,
        _projection_bias(call, first + 16, outputs, projection, formats),
        formats,
        _activation(call, formats),
        _clip(call, "cell_clip", formats.cell),
        None if projection is None else _clip(call, "proj_clip", formats.output, quant_of(call.tensor())),
    )


def _check_groups(call: Call, places: Places, coupled: bool) -> None:
    """A gate has all of its weights or none, and all gates that there are have a normalisation or none."""
    first = places.first
    gates = (FORGET, CELL, OUTPUT) if coupled else range(4)
    groups = [[first + offset for offset in (INPUT, 4 + INPUT, 11 + INPUT)]]
    groups += [[places.norms + gate for gate in gates]] if places.norms is not None else []
    for group in groups:
        if len({call.optional(position) is None for position in group}) > 1:
            raise ModelError(f"{call.origin} has some but not all of its inputs {', '.join(map(str, group))}")


def _sizes(call: Call, x: Value, first: int) -> tuple[int, int, int]:
    """How many features a step reads, cells there are, and numbers a step gives."""
    shape = call.input(first + 4 + OUTPUT).shape
    features, outputs = static(call, (x.shape[-1], shape[-1]), "number of features")
    (units,) = static(call, call.input(first + OUTPUT).shape[:1], "number of cells")
    if min(features, units, outputs) < 1:
        raise ModelError(f"{call.origin} has {features} features, {units} cells and {outputs} outputs")
    return features, units, outputs


def _norms(call: Call, places: Places, gates: tuple[int, ...], units: int) -> dict[int, Array]:
    first = places.norms
    if first is None or call.optional(first + FORGET) is None:
        return {}
    return {gate: vector(call, first + gate, units) for gate in gates}


def _peepholes(call: Call, first: int, gates: tuple[int, ...], units: int) -> dict[int, Array]:
    if call.optional(first + 8 + _PEEPHOLES[OUTPUT]) is None:
        return {}
    return {gate: vector(call, first + 8 + place, units) for gate, place in _PEEPHOLES.items() if gate in gates}


def _bias(call: Call, x: Value, first: int, gate: int, weights: Matrix, places: Places | None) -> Array:
    """The bias of a gate; ``places`` where it comes after a normalisation."""
    position, size = first + 11 + gate, len(weights.data)
    if x.quant is None:
        return vector(call, position, size)
    if places is None or places.norms is None:
        return integers(call, position, size, x.quant.scale * _scale(call, weights))
    norm = call.input(places.norms + gate).quant
    if norm is None:
        raise ModelError(f"{call.origin} has a normalisation without quantization parameters")
    return integers(call, position, size, norm.scale * 2.0**-10)


def _scale(call: Call, weights: Matrix) -> Array:
    if weights.scale is None:
        raise GapError("it reads integers but its weights are no int8", "quantize its weights to int8")
    return weights.scale.astype(np.float64)


def _projection_bias(call: Call, position: int, size: int, projection: Matrix | None, formats: Formats) -> Array | None:
    if projection is None or call.optional(position) is None:
        return None
    if formats.hidden.quant is None:
        return vector(call, position, size)
    return integers(call, position, size, formats.hidden.quant.scale * _scale(call, projection))


def _activation(call: Call, formats: Formats) -> int:
    """The activation of the cell; LiteRT's integer kernel takes tanh whatever the file says."""
    code = int(call.option("fused_activation_function"))
    if code == 0 and not formats.integer:
        raise GapError("it has no activation, for which LiteRT reads memory that it has not set", "use TANH")
    return TANH if formats.integer else code


def _clip(call: Call, option: str, stored: Stored, counted: Quant | None = None) -> tuple[float, float] | None:
    """The bounds of an option; the integer kernel rounds them towards zero and ignores the zero point.

    It takes them for as many steps as they are by the parameters ``counted``, where those are others.
    """
    bound = float(call.option(option, 0.0))
    if not bound > 0:
        return None
    if stored.quant is None:
        return -bound, bound
    scale, zero = float(stored.quant.scale[0]), int(stored.quant.zero_point[0])
    steps = int(min(bound / float((counted or stored.quant).scale[0]), np.iinfo(stored.dtype).max))
    return ((-steps - zero) * scale, (steps - zero) * scale) if steps else None


def _formats(call: Call, x: Value, places: Places) -> Formats:
    """The formats of the integer kernel with 8 bits outside and 16 bits inside."""
    between = call.operator.intermediates
    if x.dtype != "int8" or call.declared(places.first + OUTPUT) != "int8":
        raise GapError(f"it computes with {x.dtype}", "quantize it to int8 with int16 cells")
    if len(between) != 5:
        raise GapError(
            "it is quantized for LiteRT's kernel with 8 bits inside, which is no more than an experiment",
            "quantize it to int8 with int16 cells",
        )
    output, cell = (call.input(places.state + offset) for offset in range(2))
    if cell.dtype != "int16" or cell.quant is None or output.quant is None:
        raise ModelError(f"{call.origin} has states without quantization parameters")
    stored = (x.quant, output.quant, cell.quant, quant_of(call.tensor()))
    if any(each is not None and each.axis is not None for each in stored):
        raise GapError("its activations or states are quantized per channel", "quantize all but weights per tensor")
    if quant_of(call.tensor()) is None:
        raise ModelError(f"{call.origin} has an output without quantization parameters")
    mantissa, exponent = np.frexp(cell.quant.scale[0])
    if mantissa != 0.5:
        raise ModelError(f"{call.origin} has a cell state whose scale {cell.quant.scale[0]} is no power of two")
    bare = not -15 <= exponent - 1 <= -9
    if bare and call.optional(places.first + INPUT) is None:
        raise GapError("LiteRT has no tanh for the scale of its cell state", "calibrate it with other inputs")
    hidden = _hidden(call, between[4], projected=call.optional(places.first + 15) is not None)
    sums = {gate: fixed_point(15 - SUMS) for gate in range(4)}
    if places.norms is not None and call.optional(places.norms + FORGET) is not None:
        tensors = call.lowering.subgraph.tensors
        sums = {gate: _between(call, tensors[between[gate]]) for gate in range(4) if between[gate] != -1}
    return Formats(
        sums,
        fixed_point(12),
        fixed_point(15),
        Stored("int16", Quant(cell.quant.scale, np.zeros(1, np.int16))),
        hidden,
        Stored("int8", output.quant),
        1 - 2.0**-15,
        bare,
    )


def _hidden(call: Call, index: int, projected: bool) -> Stored:
    """How the hidden state is stored before it is projected, where it is, by a zero point of the other sign."""
    quant = quant_of(call.lowering.subgraph.tensors[index]) if index != -1 else None
    if quant is None or quant.zero_point.dtype != np.int8:
        raise ModelError(f"{call.origin} has no quantization parameters for its hidden state")
    return Stored("int8", Quant(quant.scale, (-quant.zero_point if projected else quant.zero_point).astype(np.int8)))


def _between(call: Call, tensor: Tensor) -> Stored:
    """How the sums of a gate are stored before they are normalised; their zero point counts for nothing."""
    if tensor.quant is None or not tensor.quant.scale[0] > 0:
        raise ModelError(f"{call.origin} has no quantization parameters for the sums of its gates")
    return Stored("int16", Quant(tensor.quant.scale[:1].astype(np.float32), np.zeros(1, np.int16)))
