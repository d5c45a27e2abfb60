"""What arithmetic operators compute of constants: results of theirs are as exact as ONNX has them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.ir.graph import Array

AS_LONG = 64
"""How many numbers are computed in the time that one size takes."""


def integer_quotient(call: Call, one: Array, two: Array) -> Array:
    if one.dtype.kind == "f":
        return np.asarray(one / two)
    if not np.all(two):
        raise ZeroDivisionError
    down = one // two
    return np.asarray(down + ((down * two != one) & ((one < 0) != (two < 0))), one.dtype)


def remainder(call: Call, one: Array, two: Array) -> Array:
    if one.dtype.kind not in "iu" or call.attribute("fmod", 0) or not np.all(two):
        raise ValueError("for the runtime")
    return np.asarray(np.mod(one, two))


_SINGLE = 4
"""The bytes of a real number in single precision."""


def power(call: Call, data: Array, exponent: Array) -> Array:
    """Few powers, where the result is exact: any other is rounded in the runtime's own way."""
    base, power = np.broadcast_arrays(data, exponent)
    if base.size > AS_LONG or data.dtype not in (np.float32, np.float64, np.int32, np.int64):
        raise ValueError("for the runtime")
    if (np.signbit(base) & (base == 0)).any():
        raise ValueError("odd powers of a negative zero are one, of which fractions know nothing")
    pairs = zip(base.reshape(-1).tolist(), power.reshape(-1).tolist(), strict=True)
    made = [_exact_power(Fraction(one), Fraction(two)) for one, two in pairs]
    found = np.array([float(each) for each in made]).reshape(base.shape).astype(data.dtype)
    if any(Fraction(one) != two for one, two in zip(found.reshape(-1).tolist(), made, strict=True)):
        raise ValueError("runtimes round in their own ways")
    return found


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    """A root or a power of a number no larger than what runtimes multiply exactly."""
    if exponent.denominator == 1 and 0 <= exponent <= _HIGHEST and abs(base) ** int(exponent) <= _EXACT:
        return base ** int(exponent)
    root = Fraction(isqrt(max(0, base.numerator)), isqrt(base.denominator))
    if exponent != Fraction(1, 2) or root * root != base:
        raise ValueError("runtimes round in their own ways")
    return root


_HIGHEST = 8
"""The highest power that is computed."""


_EXACT = 1 << 53
"""The largest number up to which double precision has all whole ones: runtimes add, multiply and count in it."""


def added(data: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return _exact(np.sum, data, abs(data.astype(np.float64)), axis, keepdims)


def multiplied(data: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return _exact(np.prod, data, np.maximum(abs(data.astype(np.float64)), 1), axis, keepdims)


def _exact(function: Callable[..., Array], data: Array, largest: Array, axis: object, keepdims: bool) -> Array:
    """A sum or a product of which no part is beyond the whole numbers that runtimes compute with."""
    if (function(largest, axis=axis) > min(_EXACT, np.iinfo(data.dtype).max)).any():
        raise OverflowError("runtimes saturate and round in their own ways")
    return function(data, axis=axis, keepdims=keepdims)


def sum_of_products(call: Call, one: Array, other: Array) -> Array:
    """What ONNX gives where a model asks whether its processor adds products exactly (``emit/selected_weights.py``)."""
    if (one.ndim, other.ndim) != (1, 1) or one.size > AS_LONG:
        raise ValueError("for the runtime")
    return np.asarray(one.astype(np.int32) @ other.astype(np.int32))
