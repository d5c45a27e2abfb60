"""Operators on the bits of integers. Quantization means nothing to them: they work on what is stored."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.reduction import over_axes
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, as_stored, cast_to, store, write_stored
from layoutsolve.ir.graph import Value

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_SHORT = _INTEGERS[:6]


def _stored_pair(call: Call) -> tuple[Value, Value]:
    a, b = as_stored(call, call.input(0)), as_stored(call, call.input(1))
    if a.dtype != b.dtype or a.dtype not in _SHORT:
        raise GapError(f"it takes the bits of {a.dtype} and {b.dtype}", "use integers of at most 32 bits, of one type")
    return a, b


@lowers("BITWISE_XOR", signature="ZB = -> =")
def bitwise_xor(call: Call) -> None:
    """BITWISE_XOR."""
    a, b = _stored_pair(call)
    shape = broadcast([a.shape, b.shape], call.arithmetic)
    write_stored(call, "BitwiseXor", [a, b], shape, call.slot(), a.dtype)


@lowers("RIGHT_SHIFT", signature="Z = -> =")
def right_shift(call: Call) -> None:
    """RIGHT_SHIFT keeps the sign and clamps the count; it is a division by a power of two, rounded down."""
    shift_clamped(call, left=False)


def shift_clamped(call: Call, *, left: bool) -> None:
    """Write integers of at most 32 bits times, or by, powers of two, whose exponents are kept within the width."""
    a, b = _stored_pair(call)
    shape = broadcast([a.shape, b.shape], call.arithmetic)
    wide, power = cast_to(call, a, "int64"), _power_of_two(call, b, 8 * np.dtype(a.dtype).itemsize - 1)
    if left:
        write_stored(call, "Mul", [wide, power], shape, call.slot(), "int64")
        return
    rest = call.write("Mod", [wide, power], shape, call.temporary("rest", "int64"))
    multiple = call.write("Sub", [wide, rest], shape, call.temporary("multiple", "int64"))
    write_stored(call, "Div", [multiple, power], shape, call.slot(), "int64")


def shift_left(call: Call, a: Value, b: Value, slot: Slot) -> None:
    """Write integers of at most 32 bits times powers of two, of which the lower bits are kept.

    Counts below zero are the largest, as numbers without a sign: nothing is left.
    """
    if a.dtype not in _SHORT:
        raise GapError(f"it moves the bits of {a.dtype}", "use integers of at most 32 bits")
    bits = 8 * np.dtype(a.dtype).itemsize
    if b.data is not None:
        b = call.constant(np.where(b.data < 0, bits, b.data), "counts", b.dtype)
    elif np.dtype(b.dtype).kind == "i":
        zero, most, wide = call.constant(0, "zero", "int64"), call.constant(bits, "bits", "int64"), as_int64(call, b)
        below = call.write("Less", [wide, zero], b.shape, call.temporary("below", "bool"), real="bool")
        b = call.write("Where", [below, most, wide], b.shape, call.temporary("counts", "int64"))
    power = _power_of_two(call, b, bits)
    write_stored(call, "Mul", [cast_to(call, a, "int64"), power], a.shape, slot, "int64")


def _power_of_two(call: Call, counts: Value, most: int) -> Value:
    if counts.data is not None:
        return call.constant(np.int64(1) << np.clip(counts.data.astype(np.int64), 0, most), "power", "int64")
    # Clip, Max and Min of ONNX Runtime are wrong on int64 beyond int32, where counts of uint32 may be.
    kind = "uint32" if counts.dtype == "uint32" else "int64"
    raised = [cast_to(call, counts, kind), call.constant(0, "least", kind)]
    lowered = [call.write("Max", raised, counts.shape, call.temporary("raised", kind))]
    lowered.append(call.constant(most, "most", kind))
    clamped = call.write("Min", lowered, counts.shape, call.temporary("count", kind))
    one = call.constant(1, "one", "uint64")
    inputs = [one, cast_to(call, clamped, "uint64")]
    slot = call.temporary("power", "uint64")
    return cast_to(call, call.write("BitShift", inputs, counts.shape, slot, direction="LEFT"), "int64")


@lowers("BITCAST", signature="FZB -> FZB")
def bitcast(call: Call) -> None:
    """BITCAST between integers: to smaller ones with a new last axis, the lowest bits first; to larger ones back."""
    x, slot = as_stored(call, call.input(0)), call.slot()
    if x.dtype == slot.dtype:
        store(call, x, slot)
        return
    if x.dtype not in _INTEGERS or slot.dtype not in _INTEGERS:
        raise GapError(f"it reads the bits of {x.dtype} as {slot.dtype}", "use BITCAST between integers only")
    sizes = np.dtype(x.dtype).itemsize, np.dtype(slot.dtype).itemsize
    if sizes[0] > sizes[1]:
        store(call, _parts(call, x, sizes[0] // sizes[1], 8 * sizes[1]), slot)
    elif sizes[0] < sizes[1]:
        store(call, _whole(call, x, sizes[1] // sizes[0], 8 * sizes[0]), slot)
    else:
        store(call, x, slot)


def _parts(call: Call, x: Value, count: int, bits: int) -> Value:
    """The bits of each element in ``count`` parts."""
    shape = (*x.shape, count)
    column = call.reshaped(_unsigned(call, x), (*x.shape, 1), "column")
    moved = [column, call.constant(np.arange(count) * bits, "shifts", "uint64")]
    shifted = call.write("BitShift", moved, shape, call.temporary("shifted", "uint64"), direction="RIGHT")
    mask = call.constant((1 << bits) - 1, "mask", "uint64")
    return call.write("BitwiseAnd", [shifted, mask], shape, call.temporary("parts", "uint64"))


def _whole(call: Call, x: Value, count: int, bits: int) -> Value:
    """The last axis of ``count`` parts put together."""
    if not x.shape or x.shape[-1] != count:
        raise ModelError(f"{call.origin} makes one element of {count}, but its input is {list(map(str, x.shape))}")
    moved = [_unsigned(call, x), call.constant(np.arange(count) * bits, "shifts", "uint64")]
    shifted = call.write("BitShift", moved, x.shape, call.temporary("shifted", "uint64"), direction="LEFT")
    numbers = cast_to(call, shifted, "int64", "numbers")
    return over_axes(call, "ReduceSum", numbers, [len(x.shape) - 1], x.shape[:-1], "whole")


def _unsigned(call: Call, x: Value) -> Value:
    """Stored integers as uint64 with the same bits and zeros above."""
    return cast_to(call, cast_to(call, x, f"uint{8 * np.dtype(x.dtype).itemsize}", "unsigned"), "uint64", "bits")
