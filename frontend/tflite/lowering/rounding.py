"""How LiteRT's integer kernels round, where it is not as QuantizeLinear does.

They multiply by a scale in two steps: by a number of 31 bits between a half and one, then by a power of two, and round
after each. For factors below a half the second rounding meets numbers that were rounded already, so that what is a
little below half a step counts as half of one. QuantizeLinear rounds once, halves to even. A bias of a fraction of a
step in each operator adds up along a network.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import copysign, floor, frexp, ldexp
from typing import TYPE_CHECKING

import numpy as np

from layoutsolve.ir.graph import Array, Quant

if TYPE_CHECKING:
    from fractions import Fraction

TIE = 2.0**-14
"""The part of a step by which halves are lifted, so that they do not go to even; far below what else can occur."""

_LIFTED = {"int8": 2.0**-18, "uint8": 2.0**-18, "int16": 2.0**-21}
"""The part of a number by which it is lifted for the same purpose, away from zero."""


_HALVES = 256
"""The largest denominator by which a product with an integer of 8 bits can be a half."""

_PARTS = 64
"""The largest denominator of steps whose sums are taken to meet halves."""

_NEAR = 2.0**-28
"""The distance from such a fraction at which LiteRT's sums, which count in 2^-20 of a step, still meet halves."""

_SLACK = 2.0**-21
"""How far from a half products stay, relative to their size: ONNX Runtime computes them in float32."""


def lift(factor: float) -> float:
    """How much earlier, in steps of the result, an integer times a factor reaches the next step upwards.

    From a half on nothing is rounded twice, and halves are lifted where there are any: by factors such as 1/2 or 3/2.
    """
    exponent = frexp(factor)[1]
    if exponent < 0:
        return ldexp(0.5, exponent) + TIE
    return TIE if 1 < factor.as_integer_ratio()[1] <= _HALVES else 0.0


def pooling_offset(read: Quant, made: Quant, count: int) -> float:
    """How much LiteRT's 8-bit mean of so many over height and width is off, up to three quarters of a step.

    It rounds the part of the zero point on its own, and that of the stored integers twice: to the fractions that the
    multiplier's shift leaves, then to a whole step, halves upwards (so do its vector kernels, sixteen channels at a
    time; the channels left over round halves away from zero).
    """
    ratio = float(read.scale[0]) / float(made.scale[0])
    part = float(np.float32(read.zero_point[0]) * read.scale[0] / made.scale[0])
    return (part - copysign(floor(abs(part) + 0.5), part) + lift(ratio / count)) * float(made.scale[0])


def lifted(factors: Array) -> Array:
    """Whole units by which integers come nearest to the bias of :func:`lift`: one or none for each factor."""
    units: Array = (np.frexp(factors)[1] < 0).astype(np.int64)
    return units


def steps(dtype: str, away: bool = False, parts: int = 0) -> Quant:
    """The parameters by which stored integers mean themselves; with ``away`` halves are rounded away from zero.

    Means of so many ``parts`` are lifted as far as they can be without those that lie next to a half: kernels that add
    a zero point before they round lose what is less.
    """
    scale = 1 - max(_LIFTED[dtype], 1 / (4 * 256 * parts) if parts and dtype != "int16" else 0) if away else 1.0
    return Quant(np.array([scale], np.float32), np.zeros(1, dtype))


def away(quant: Quant) -> Quant:
    """8-bit quantization parameters with scales so little smaller that only the ties among :func:`tied` sums are
    rounded away.

    ONNX Runtime adds the zero point before it rounds, in float32: less would be lost there.
    """
    return Quant((quant.scale * (1 - 0.5 / (_PARTS * 128))).astype(np.float32), quant.zero_point)


def tied(terms: Iterable[float], others: Iterable[float]) -> bool:
    """Whether sums of multiples of a term and of another one, in steps of the result, can be halves."""
    fractions = [[each for each in map(_simple, part) if each is not None] for part in (terms, others)]
    return any(a.denominator % 2 == 0 or b.denominator % 2 == 0 for a, b in product(*fractions))


def _simple(number: float) -> Fraction | None:
    """The fraction of a small denominator that a number is, None where there is none."""
    from fractions import Fraction  # what it imports takes longer than most models need it for

    found = Fraction(number).limit_denominator(_PARTS)
    return found if abs(number - found) <= _NEAR * max(abs(number), 1.0) else None


def multiplied(numbers: Array, factor: float) -> Array:
    """What LiteRT makes of integers times a factor: two roundings, the first halves upwards, the second away from zero.

    The integers times the factor stay below 2^31.
    """
    mantissa, exponent = frexp(factor)
    if exponent < -31:
        return np.zeros(numbers.shape, np.int64)
    whole, left, right = floor(ldexp(mantissa, 31) + 0.5), max(exponent, 0), max(-exponent, 0)
    high = ((numbers.astype(np.int64) << left) * whole + (1 << 30)) >> 31
    result: Array = np.sign(high) * ((np.abs(high) + ((1 << right) >> 1)) >> right)
    return result


def settled(nominal: float, numbers: Array, targets: Array, least: int, greatest: int) -> float:
    """The factor by which the most products with numbers are rounded to their targets, as near to a nominal one as can
    be. Products beyond ``least`` and ``greatest`` are limited to them; the numbers are not zero.
    """
    slack = np.maximum(np.abs(targets), 1) * _SLACK
    low = np.where(targets <= least, -np.inf, targets - 0.5 + slack) / numbers
    high = np.where(targets >= greatest, np.inf, targets + 0.5 - slack) / numbers
    starts, ends = np.sort(np.minimum(low, high)), np.sort(np.maximum(low, high))
    edges = np.unique(np.concatenate([starts, ends, [nominal]]))
    edges = edges[np.isfinite(edges)]
    factors = np.append((edges[1:] + edges[:-1]) / 2, nominal)
    met = np.searchsorted(starts, factors) - np.searchsorted(ends, factors)
    best = factors[met == met.max()]
    return float(best[np.argmin(np.abs(best - nominal))])
