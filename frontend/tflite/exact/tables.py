"""Operators on single bytes: tables of 256 entries, computed as LiteRT computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.exact.builder import (
    REMEDY,
    every_byte,
    in_vectors,
    looked_up,
    quant_in,
    scale_of,
    step,
    store,
    zero_of,
)
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.registry import own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.activation import CLAMPS
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, activation, cast_to, stored_bounds
from layoutsolve.ir.graph import Array, Quant, Value, product

_REQUANTIZED, _CONVERTED = 16, 8
"""The elements that LiteRT requantizes, or converts from floats or to them, at a time; those left over at the end it
rounds otherwise.
"""

Transform = Callable[[Array], Array]

_CURVES: dict[str, Transform] = {
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "LOGISTIC": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32)),
    "TANH": np.tanh,
}
"""Functions of which LiteRT makes a table of its own, in float32."""


def _rounded(reals: Array) -> Array:
    """Numbers rounded to the nearest integers, halves away from zero."""
    result: Array = np.copysign(np.floor(np.abs(reals.astype(np.float64)) + 0.5), reals)
    return result


def _write(call: Call, x: Value, results: Array, slot: Slot, bounds: tuple[int, int] | None = None) -> None:
    """Write a table of what is stored, less the zero point."""
    looked_up(call, x, _stored(results, slot, bounds), slot)


def _stored(results: Array, slot: Slot, bounds: tuple[int, int] | None = None) -> Array:
    """What an output stores, with its zero point added."""
    zero = int(slot.quant.zero_point[0]) if slot.quant else 0
    entries: Array = np.clip(results + zero, *(bounds or limits(slot.dtype))).astype(slot.dtype)
    return entries


@exactly(*_CURVES)
def curve(call: Call) -> None:
    """Functions that LiteRT looks up."""
    x, slot = call.input(0), call.slot()
    before, after = quant_in(call, x), quant_in(call, slot)
    real = scale_of(before) * (every_byte(x) - zero_of(before)).astype(np.float32)
    found = _CURVES[call.operator.name](real.astype(np.float64)).astype(np.float32)
    _write(call, x, _rounded(found * (np.float32(1) / scale_of(after))), slot)


@exactly(*CLAMPS)
def clamp(call: Call) -> None:
    """The RELU family, with another scale."""
    x, slot = call.input(0), call.slot()
    before, after = quant_in(call, x), quant_in(call, slot)
    results = Rescaling.by(np.float64(scale_of(before) / scale_of(after)))(every_byte(x) - zero_of(before))
    _write(call, x, results, slot, stored_bounds(CLAMPS[call.operator.name], slot))


@exactly("LEAKY_RELU")
def leaky_relu(call: Call) -> None:
    """LEAKY_RELU; a negative slope is the sign of what the slope without one makes, halves included."""
    x, slot, alpha = call.input(0), call.slot(), np.float32(call.option("alpha", 0.0))
    before, after = quant_in(call, x), quant_in(call, slot)
    scale, count = scale_of(before), every_byte(x) - zero_of(before)
    factor = np.float64(scale * alpha / scale_of(after))
    below = np.sign(factor).astype(np.int64) * Rescaling.by(abs(factor))(count)
    _write(call, x, np.where(count < 0, below, Rescaling.by(np.float64(scale / scale_of(after)))(count)), slot)


@exactly("HARD_SWISH")
def hard_swish(call: Call) -> None:
    """HARD_SWISH in 16 bits: the input times a gate of 15 bits."""
    x, slot = call.input(0), call.slot()
    before, after = quant_in(call, x), quant_in(call, slot)
    fine = np.float32(1 / 128) * scale_of(before)
    output, gate = Rescaling.by(fine / scale_of(after)), Rescaling.by(fine / np.float32(3 / 32768))
    if output.exponent[0] > 0:
        raise GapError("LiteRT does not compute it: its output scale is too small", REMEDY)
    count = (every_byte(x) - zero_of(before)) << 7
    value, exponent = _high(count, _narrow(output)), int(gate.exponent[0])
    share = _saturated(count << max(exponent - 1, 0))
    share = _high(share, _narrow(gate))
    if exponent > 0:
        share = _saturated(share << 1)
    share = (_divided(share, max(-exponent, 0)) + (1 << 15)) >> 1
    product = share * value
    _write(call, x, _divided(np.sign(product) * (np.abs(product) >> 15), -int(output.exponent[0])), slot)


def _narrow(rescaling: Rescaling) -> int:
    """The factor in 15 bits."""
    return min((int(rescaling.whole[0]) + (1 << 15)) >> 16, (1 << 15) - 1)


def _high(a: Array, factor: int) -> Array:
    """The upper half of twice the product of 16 bits, halves upwards."""
    result: Array = (a * factor + (1 << 14)) >> 15
    return result


def _saturated(a: Array) -> Array:
    result: Array = np.clip(a, -(1 << 15), (1 << 15) - 1)
    return result


def _divided(a: Array, bits: int) -> Array:
    """a / 2^bits, halves away from zero."""
    result: Array = np.sign(a) * ((np.abs(a) + ((1 << bits) >> 1)) >> bits)
    return result


@exactly("QUANTIZE")
def quantize(call: Call) -> None:
    """QUANTIZE, of int8, uint8 and floats."""
    x, slot = call.input(0), call.slot()
    after = quant_in(call, slot)
    if x.dtype in BYTES and x.quant is not None:
        before = quant_in(call, x)
        factor, count = scale_of(before).astype(np.float64) / scale_of(after), every_byte(x) - zero_of(before)
        vectors, single = (_stored(Rescaling.by(factor, away)(count), slot) for away in (False, True))
        _by_position(call, x, slot, vectors, single, _REQUANTIZED)
        return
    if x.dtype != "float32":
        raise GapError(f"--quant exact covers bytes and float32, not {x.dtype}", REMEDY)
    whole = _in_steps(call, x, scale_of(after))
    store(call, step(call, "Add", whole, float(zero_of(after))))


def _in_steps(call: Call, x: Value, scale: np.float32) -> Value:
    """Floats as whole numbers of steps. Their products with the reciprocal are computed in doubles, and rounded: a
    product of floats would be folded into the weights of what is before.
    """
    wide = cast_to(call, x, "float64")
    products = cast_to(call, step(call, "Mul", wide, np.array(np.float32(1) / scale, np.float64)), "float32")
    vectors = cast_to(call, step(call, "Round", products), "float64")
    if _whole_vectors(x, _CONVERTED):
        return vectors
    ratio = step(call, "Div", wide, np.array(scale, np.float64))
    size = step(call, "Floor", step(call, "Add", step(call, "Abs", ratio), 0.5))
    given = [
        call.constant(in_vectors(call, x.shape, _CONVERTED), "in_vectors"),
        vectors,
        step(call, "Mul", size, step(call, "Sign", ratio)),
    ]
    return call.write("Where", given, x.shape, call.temporary("whole", "float64"), real="float64")


def _by_position(call: Call, x: Value, slot: Slot, vectors: Array, single: Array, size: int) -> None:
    """Write one table for elements that LiteRT computes so many at a time, and another for those left over."""
    if np.array_equal(vectors, single) or _whole_vectors(x, size):
        looked_up(call, x, vectors, slot)
        return
    given = [
        call.constant(in_vectors(call, x.shape, size), "in_vectors"),
        *(looked_up(call, x, table.astype(np.float32)) for table in (vectors, single)),
    ]
    plain = slot if slot.dtype == "float32" else call.temporary("chosen")
    chosen = call.write("Where", given, x.shape, plain, real="float32")
    if plain is not slot:
        call.write("Cast", [chosen], x.shape, slot, storage=True, to=slot.dtype)


def _whole_vectors(x: Value, size: int) -> bool:
    """Whether no element is left over."""
    elements = product(x.shape)
    return isinstance(elements, int) and elements % size == 0


@exactly("DEQUANTIZE")
def dequantize(call: Call) -> None:
    """DEQUANTIZE of int8 and uint8; constants of any type are folded."""
    x, slot = call.input(0), call.slot()
    if x.data is not None and x.quant is not None:
        call.known(slot, x.real)
        return
    if x.quant is None:
        own_lowering("DEQUANTIZE")(call)
        return
    quant = quant_in(call, x)
    scale, zero = scale_of(quant), zero_of(quant)
    fused = scale * every_byte(x).astype(np.float32) + np.float32(-zero) * scale
    single = scale * (every_byte(x) - zero).astype(np.float32)
    _by_position(call, x, slot, fused, single, _CONVERTED)


@exactly("CONCATENATION")
def concatenation(call: Call) -> None:
    """CONCATENATION: inputs of another scale are brought to that of the output first, in float32."""
    parts, slot = call.inputs(), call.slot()
    after = quant_in(call, slot)
    if stored_bounds(activation(call), slot) != limits(slot.dtype):
        raise GapError("its activation is not covered by --quant exact", REMEDY)
    brought = [_brought(call, part, slot, after) for part in parts]
    join(call, brought, axis_of(call.option("axis"), len(parts[0].shape)), slot)


def _brought(call: Call, part: Value, slot: Slot, after: Quant) -> Value:
    before = quant_in(call, part)
    if before.matches(after):
        return part
    scale = scale_of(before) * (np.float32(1) / scale_of(after))
    bias = np.float32(-zero_of(before)) * scale
    target = call.temporary("brought", slot.dtype, after)
    found = _rounded(every_byte(part).astype(np.float32) * scale + bias) + zero_of(after)
    return looked_up(call, part, np.clip(found, *limits(slot.dtype)).astype(slot.dtype), target)
