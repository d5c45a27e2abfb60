"""Logistic function and hyperbolic tangent as LiteRT's recurrent kernels compute them, for all int16 values.

They come from the library gemmlowp, which approximates both with 16 bits in every step: an exponential by polynomial
and table, then a quotient by Newton's method. They are up to a dozen units of 2^-15 off, in no way that a formula of
ONNX would follow, hence the tables.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from layoutsolve.ir.graph import Array

_ONE = (1 << 15) - 1
_POWERS = {-2: 25520, -1: 19875, 0: 12055, 1: 4435, 2: 600, 3: 11, 4: 0}
"""exp(-2^k) by k, with 15 bits after the point as all numbers here unless the name says how many are before it."""

_LARGE = 5
"""Beyond 2^5 exponentials are zero."""

_EXP_EIGHTH, _THIRD = 28918, 10923
_48_17, _32_17 = 23130, -15420
"""48/17 and -32/17 with two bits before the point."""


@cache
def logistic(whole: int = 3) -> Array:
    """1 / (1 + exp(-x)) with 15 bits after the point, int16[65536].

    It is for x with ``whole`` bits before the point, by the bits of x as a number without sign: what Gather finds for
    an index that counts from the end where it is negative.
    """
    x = _numbers()
    exponential = _exponential(-np.abs(x), whole)
    quotient = _reciprocal(exponential)
    upper = _scaled(quotient, 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, upper, _ONE - upper)).astype(np.int16)


@cache
def tanh(whole: int) -> Array:
    """tanh(x) in the same form."""
    x = _numbers()
    # that of 2x, which is the same with one more bit before the point
    exponential = _exponential(-np.abs(x), whole + 1)
    quotient = _reciprocal(exponential)
    size = _scaled(quotient - (1 << 13), 2)
    return (np.sign(x) * size).astype(np.int16)


def _numbers() -> Array:
    """All numbers of 16 bits in the order of their bits."""
    numbers: Array = np.arange(1 << 16).astype(np.uint16).view(np.int16).astype(np.int64)
    return numbers


def _product(a: Array, b: Array | int) -> Array:
    """a * b / 2^15, halves upwards."""
    result: Array = np.right_shift(a * b + (1 << 14), 15)
    return result


def _divided(a: Array, bits: int) -> Array:
    """a / 2^bits, halves away from zero."""
    result: Array = np.sign(a) * ((np.abs(a) + (1 << bits >> 1)) >> bits)
    return result


def _scaled(a: Array, bits: int) -> Array:
    """a * 2^bits as far as 16 bits go."""
    result: Array = np.clip(a << bits, -_ONE - 1, _ONE)
    return result


def _exponential(a: Array, whole: int) -> Array:
    """exp(a) of numbers up to zero."""
    quarter = 1 << (13 - whole)
    part = (a & (quarter - 1)) - quarter
    x = _scaled(part, whole) + (1 << 12)
    squared = _product(x, x)
    series = _divided(_product(_divided(_product(squared, squared), 2) + _product(squared, x), _THIRD) + squared, 1)
    result = _EXP_EIGHTH + _product(x + series, _EXP_EIGHTH)
    rest = part - a
    for exponent, power in _POWERS.items():
        if whole > exponent:
            result = np.where(rest & (1 << (15 - whole + exponent)), _product(result, power), result)
    if whole > _LARGE:
        result = np.where(a < -(1 << (15 - whole + _LARGE)), 0, result)
    return np.where(a == 0, _ONE, result)


def _reciprocal(a: Array) -> Array:
    """That of half of 1 + a, with two bits before the point."""
    half = (a + _ONE + 1) >> 1
    x: Array = _48_17 + _product(half, _32_17)
    for _ in range(3):
        x = x + _scaled(_product(x, (1 << 13) - _product(half, x)), 2)
    return x
