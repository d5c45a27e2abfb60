"""Fixed point arithmetic as kernels in C++ do it, in int64: shifts round down, narrow types wrap or saturate."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.operators.shared.common import cast_to, write_where
from layoutsolve.ir.graph import Array, Value

_LIFT = 1 << 62
"""What is added to make numbers positive, most of which are below it when they are shifted."""

Number = Value | int | Array
"""An operand: a value, or a constant of the other one's type."""


def apply(call: Call, op: str, a: Value, b: Number, label: str, dtype: str = "", **attributes: Any) -> Value:
    """An operator on two numbers, of which the result is of ``dtype``, by default that of ``a``."""
    other = b if isinstance(b, Value) else call.constant(b, label, a.dtype)
    shape, made = broadcast([a.shape, other.shape], call.arithmetic), dtype or a.dtype
    return call.write(op, [a, other], shape, call.temporary(label, made), real=made, **attributes)


def shift_right(
    call: Call, x: Value, bits: int, label: str, rounding: int | Array = 0, *, large: bool = False
) -> Value:
    """``x + rounding`` in int64 shifted right with its sign: divided by a power of two and rounded down.

    ``large`` is for numbers from 2^62 on, which take longer.
    """
    if bits == 0:
        return x
    # ONNX divides towards zero.
    if large:
        total = apply(call, "Add", x, rounding, f"{label}_total")
        rest = apply(call, "Mod", total, 1 << bits, f"{label}_rest")
        return apply(call, "Div", apply(call, "Sub", total, rest, f"{label}_multiple"), 1 << bits, label)
    lifted = apply(call, "Add", x, _LIFT + rounding, f"{label}_lifted")
    quotient = apply(call, "Div", lifted, 1 << bits, f"{label}_quotient")
    return apply(call, "Sub", quotient, _LIFT >> bits, label)


def wrapped(call: Call, x: Value, dtype: str, label: str) -> Value:
    """What is left of int64 that was stored in a narrower type: ONNX's Cast drops the higher bits."""
    return cast_to(call, cast_to(call, x, dtype, f"{label}_stored"), "int64", label)


def saturated(call: Call, x: Value, dtype: str, label: str) -> Value:
    """Int64 clamped to the range of a narrower type, which is still less than int32 away."""
    limits = np.iinfo(dtype)
    low = apply(call, "Max", x, int(limits.min), f"{label}_raised")
    return apply(call, "Min", low, int(limits.max), label)


def chosen(call: Call, condition: Value, a: Value, b: Number, label: str) -> Value:
    """``a`` where the condition holds, elsewhere ``b``."""
    other = b if isinstance(b, Value) else call.constant(b, label, a.dtype)
    shape = broadcast([condition.shape, a.shape, other.shape], call.arithmetic)
    return write_where(call, condition, a, other, shape, call.temporary(label, a.dtype))


def bit_length(call: Call, x: Value, label: str) -> Value:
    """The number of bits that int64 of up to 32 bits take, for each element of a vector."""
    column = call.reshaped(x, (*x.shape, 1), f"{label}_column")
    powers = np.int64(1) << np.arange(32)
    reached = cast_to(call, apply(call, "GreaterOrEqual", column, powers, f"{label}_reached", "bool"), "int64")
    axes = call.vector([len(x.shape)], f"{label}_axes")
    return call.write("ReduceSum", [reached, axes], x.shape, call.temporary(label, "int64"), keepdims=0)


def looked_up(call: Call, table: Number, indices: Value, label: str, axis: int = 0) -> Value:
    """The entries of a table, or those of a value along an axis, at the indices."""
    source = table if isinstance(table, Value) else call.constant(table, label, "int64")
    shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
    return call.write("Gather", [source, indices], shape, call.temporary(label, source.dtype), axis=axis)
