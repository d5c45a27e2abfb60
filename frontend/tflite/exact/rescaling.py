"""Integers times a factor as LiteRT's kernels compute it, and the same in doubles.

LiteRT multiplies by a number of 31 bits between a half and one, rounds halves upwards, then divides by a power of two
and rounds again: halves upwards in its kernels for products of matrices and in some on vectors, away from zero in all
others. Both roundings together come to one: a number is rounded down after a half has been added, and half of what the
power of two leaves of a unit. So a product, a sum and Floor of doubles compute it, as far as doubles hold all bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from layoutsolve.ir.graph import Array

_BITS = 31
_MANTISSA = 53


@dataclass(frozen=True, eq=False)
class Rescaling:
    """The factors ``whole * 2^(exponent - 31)``, one or one per channel, and where halves go ``away`` from zero."""

    whole: Array
    exponent: Array
    away: Array

    @classmethod
    def by(cls, factors: npt.ArrayLike, away: npt.ArrayLike = True) -> Rescaling:
        """The rescaling by real factors, of which LiteRT keeps 31 bits."""
        mantissas, exponents = np.frexp(np.atleast_1d(np.asarray(factors, np.float64)))
        whole = np.floor(np.ldexp(mantissas, _BITS) + 0.5).astype(np.int64)
        full = whole == 1 << _BITS
        whole, exponent = np.where(full, whole >> 1, whole), np.where(full, exponents + 1, exponents).astype(np.int64)
        return cls.of(whole, exponent, away)

    @classmethod
    def of(cls, whole: Array, exponent: Array, away: npt.ArrayLike = True) -> Rescaling:
        """Rescaling by 31-bit multipliers and powers of two; LiteRT takes those below 2^-31 as zero."""
        tiny = exponent < -_BITS
        return cls(*np.broadcast_arrays(np.where(tiny, 0, whole), np.where(tiny, 0, exponent), np.asarray(away, bool)))

    def __call__(self, numbers: Array) -> Array:
        """What LiteRT makes of integers, channels last."""
        left, right = np.maximum(self.exponent, 0), self.shift
        high = ((numbers.astype(np.int64) << left) * self.whole + (1 << (_BITS - 1))) >> _BITS
        half = (np.int64(1) << right) >> 1
        outwards = np.sign(high) * ((np.abs(high) + half) >> right)
        result: Array = np.where(self.away, outwards, (high + half) >> right)
        return result

    @property
    def factors(self) -> Array:
        """The factors, exactly."""
        factors: Array = np.ldexp(self.whole.astype(np.float64), self.exponent - _BITS)
        return factors

    @property
    def lifts(self) -> Array:
        """By how much more than a half the first rounding lifts numbers: upwards, or else away from zero."""
        lifts: Array = np.where(self.shift > 0, np.ldexp(0.5, -self.shift), 0.0)
        return lifts

    @property
    def shift(self) -> Array:
        """By how many bits numbers are shifted right."""
        bits: Array = np.maximum(-self.exponent, 0)
        return bits

    def as_doubles(self, zero: int) -> Doubles:
        """The same in doubles, with a zero point added."""
        signed = np.where(self.away, self.lifts, 0.0)
        return Doubles(self.factors, signed, 0.5 + zero + (self.lifts - signed))

    def holds(self, zero: int, low: Array, high: Array, least: int, greatest: int) -> bool:
        """Whether doubles give what LiteRT gives of all integers from ``low`` to ``high``, one or one per channel,
        where results are limited to bytes from ``least`` to ``greatest``.

        What both compute grows with the integers. So they differ nowhere if they do not where LiteRT's results change.
        """
        parts = np.broadcast_arrays(self.whole, self.exponent, self.away, low, high)
        if ((np.maximum(-parts[3], parts[4]) << np.maximum(parts[1], 0)) >> _BITS).any():
            return False  # LiteRT's own numbers overflow
        # A number next to a limit is below 2^10; beyond, rounding changes nothing that is kept.
        fine = _BITS + np.maximum(-parts[1], 0) + 10 > _MANTISSA
        channels = zip(*(part[fine] for part in parts), strict=True)
        results = range(least + 1, greatest + 1)
        return all(Rescaling(*np.array([one]).T[:3])._holds(zero, results, *map(int, one[3:])) for one in channels)

    def _holds(self, zero: int, results: range, low: int, high: int) -> bool:
        """The same for a single factor, by the integers around which LiteRT's results change."""
        doubles, factor = self.as_doubles(zero), int(self.whole[0])
        if factor == 0:
            return True
        scale = 1 << (_BITS + int(self.shift[0]) + 1)
        step = factor << (1 + int(self.shift[0]) + int(self.exponent[0]))
        lift = int(self.lifts[0] * scale)
        edges = set[int]()
        for result in results:
            for added in {lift, -lift} if self.away[0] else {lift}:
                edge = -(-((result - zero) * scale - scale // 2 - added) // step)
                edges.update(each for each in range(edge - 2, edge + 3) if low <= each <= high)
        numbers = np.array([*sorted(edges), low, high, 0])
        expected = np.clip(self(numbers) + zero, results.start - 1, results.stop - 1)
        return np.array_equal(expected, np.clip(doubles(numbers), results.start - 1, results.stop - 1))


@dataclass(frozen=True, eq=False)
class Doubles:
    """``floor(x * factor + sign(x) * signed + added)``, each one or one per channel."""

    factor: Array
    signed: Array
    added: Array

    def __call__(self, numbers: Array) -> Array:
        """What doubles make of integers, in the order in which it is written."""
        x = numbers.astype(np.float64)
        lifted = x * self.factor + np.sign(x) * self.signed if self.signed.any() else x * self.factor
        return np.asarray(np.floor(lifted + self.added))
