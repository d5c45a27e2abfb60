"""The Fourier transform of kiss FFT in fixed point: its butterflies stage by stage, rounded after each product.

Complex numbers are int64 with the parts apart. A stage of radix p takes ``[groups, p, 2, m]`` to ``[groups, 2, p, m]``,
which the next one reads as ``[groups / p', p', 2, p * m]``: nothing is transposed. What a butterfly adds up is one
product by a small matrix, what it multiplies is rounded and, where it is multiplied again, wrapped to its type first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import cos, floor, isqrt, pi, sin

import numpy as np

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.fixed_point import apply, looked_up, shift_right, wrapped
from layoutsolve.ir.graph import Array, Value

_RADICES = (2, 3, 4, 5)
_SUM = np.array([[1, 1], [1, -1]])


@dataclass(frozen=True)
class KissFft:
    """The transform of ``length`` complex numbers of ``dtype``, int16 or int32."""

    length: int
    dtype: str
    inverse: bool

    @property
    def bits(self) -> int:
        """Bits behind the point."""
        return 8 * np.dtype(self.dtype).itemsize - 1

    def angle(self, phase: float) -> complex:
        """A point of the unit circle in fixed point; the phase is that of the forward transform."""
        most = (1 << self.bits) - 1
        turned = -phase if self.inverse else phase
        return complex(floor(0.5 + most * cos(turned)), floor(0.5 + most * sin(turned)))

    @cached_property
    def twiddles(self) -> Array:
        """The roots of unity."""
        return np.array([self.angle(-2 * pi * each / self.length) for each in range(self.length)])

    @cached_property
    def super_twiddles(self) -> Array:
        """What the transform of floats multiplies by, for each frequency from 1 up to half of ``length``."""
        steps = range(1, self.length // 2 + 1)
        return np.array([self.angle(-pi * (each / self.length + 0.5)) for each in steps])

    @cached_property
    def stages(self) -> list[tuple[int, int]]:
        """The radix of each stage and the length of what it combines, the last stage first."""
        found, rest, radix, most = [], self.length, 4, isqrt(self.length)
        while True:
            while rest % radix:
                radix = {4: 2, 2: 3}.get(radix, radix + 2)
                if radix > most:
                    radix = rest
            rest //= radix
            found.append((radix, rest))
            if rest <= 1:
                return found

    def order(self) -> Array:
        """Which complex number the first stage reads at each place."""
        places = np.arange(self.length)
        result, stride = np.zeros(self.length, np.int64), 1
        for radix, rest in self.stages:
            result += stride * (places // rest % radix)
            stride *= radix
        return result

    def check(self) -> None:
        """Raise :class:`GapError` for a length that is not made of factors 2, 3 and 5."""
        others = [radix for radix, _ in self.stages if radix not in _RADICES]
        if others:
            reason = f"its transform of {2 * self.length} numbers has a stage of radix {others[0]}"
            raise GapError(reason, "use a length, at least 4, whose half has no prime factors but 2, 3 and 5")


def transformed(call: Call, x: Value, rows: int, fft: KissFft) -> Value:
    """The transform of rows [rows, 2 * length] of int64, real and imaginary parts in turn; [rows, 2, length]."""
    fft.check()
    order = np.stack([2 * fft.order(), 2 * fft.order() + 1], -1).reshape(-1)
    x = looked_up(call, x, call.vector(order.tolist(), "order"), "ordered", axis=1)
    stride = fft.length
    for radix, rest in reversed(fft.stages):
        stride //= radix
        x = call.reshaped(x, (rows * stride, radix, 2, rest), "butterflies")
        x = divided(call, x, radix, fft)
        turns = fft.twiddles[np.outer(range(radix), range(rest)) * stride]
        x = multiplied(call, x, turns, fft)
        x = call.reshaped(x, (rows * stride, 2 * radix, rest), "rows")
        x = _butterflies(call, x, radix, fft.twiddles[[rest * stride, 2 * rest * stride % fft.length]], fft)
        x = wrapped(call, x, fft.dtype, "combined")
    return call.reshaped(x, (rows, 2, fft.length), "transformed")


def divided(call: Call, x: Value, by: int, fft: KissFft) -> Value:
    """Numbers divided as kiss FFT does it: multiplied by the reciprocal."""
    product = apply(call, "Mul", x, ((1 << fft.bits) - 1) // by, "scaled")
    return shift_right(call, product, fft.bits, "divided", 1 << (fft.bits - 1))


def multiplied(call: Call, x: Value, by: Array, fft: KissFft) -> Value:
    """Complex numbers [groups, p, 2, m] times constants [p, m], of which the first row counts as ones."""
    real, imaginary = by.real.astype(np.int64), by.imag.astype(np.int64)
    real[0], imaginary[0] = 1 << fft.bits, 0
    straight = apply(call, "Mul", x, real[:, None], "straight")
    swapped = looked_up(call, x, call.vector([1, 0], "parts"), "swapped", axis=2)
    crossed = apply(call, "Mul", swapped, np.stack([-imaginary, imaginary], 1), "crossed")
    total = apply(call, "Add", straight, crossed, "product")
    return shift_right(call, total, fft.bits, "turned", 1 << (fft.bits - 1), large=fft.bits > 15)


def combined(call: Call, x: Value, matrix: Array, label: str) -> Value:
    """A matrix of integers times the rows [groups, rows, m]."""
    shape = (x.shape[0], len(matrix), x.shape[2])
    by = call.constant(matrix, f"{label}_matrix", "int64")
    return call.write("MatMul", [by, x], shape, call.temporary(label, "int64"), real="int64")


def parted(matrix: Array, *, parts_first: bool = False) -> Array:
    """A matrix of complex integers as one of integers, for columns in which the two parts follow each other.

    The parts of a row follow each other, or all real parts come first.
    """
    units = np.array([[matrix.real, -matrix.imag], [matrix.imag, matrix.real]])
    outer, inner = matrix.shape
    return units.transpose((0, 2, 3, 1) if parts_first else (2, 0, 3, 1)).reshape(2 * outer, 2 * inner).astype(np.int64)


def _butterflies(call: Call, x: Value, radix: int, turns: Array, fft: KissFft) -> Value:
    """Rows [groups, 2 * radix, m] combined, the real parts of all first. ``turns`` are what a root of one is to it."""
    if radix in (2, 4):
        back = 1j if fft.inverse else -1j
        matrix = _SUM if radix == 2 else np.array([[back ** (row * column) for column in range(4)] for row in range(4)])
        return combined(call, x, parted(np.round(matrix + 0j), parts_first=True), "combined")
    sums, factors, last = _radix_3(turns, fft) if radix == 3 else _radix_5(turns, fft)
    x = wrapped(call, combined(call, x, parted(sums), "sums"), fft.dtype, "sums")
    rows = [row for row, _, _ in factors]
    picked = looked_up(call, x, call.vector([2 * row + part for row in rows for part in (0, 1)], "rows"), "picked", 1)
    by = np.repeat([factor for _, factor, _ in factors], 2)[:, None]
    rounding = np.repeat([(rounded << fft.bits) >> 1 for _, _, rounded in factors], 2)[:, None]
    products = apply(call, "Mul", picked, by, "products")
    x = shift_right(call, products, fft.bits, "rounded", rounding)
    return combined(call, x, parted(last, parts_first=True), "combined")


Butterfly = tuple[Array, Sequence[tuple[int, int, int]], Array]
"""Sums of the inputs; which of them are multiplied by what and whether they are rounded then; sums of the products."""


def _radix_3(turns: Array, fft: KissFft) -> Butterfly:
    one, half = 1 << fft.bits, 1 << (fft.bits - 1)
    sums = np.array([[1, 0, 0], [0, 1, 1], [0, 1, -1]])
    factors = [(0, one, 0), (1, one, 0), (1, half, 0), (2, int(turns[0].imag), 1)]
    return sums + 0j, factors, np.array([[1, 1, 0, 0], [1, 0, -1, 1j], [1, 0, -1, -1j]])


def _radix_5(turns: Array, fft: KissFft) -> Butterfly:
    one = 1 << fft.bits
    sums = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0], [0, 0, 1, -1, 0], [0, 1, 0, 0, -1]])
    real, imaginary = turns.real.astype(int).tolist(), turns.imag.astype(int).tolist()
    factors = [(0, one, 0), (1, one, 0), (2, one, 0)]
    factors += [(1, real[0], 1), (2, real[1], 1), (1, real[1], 1), (2, real[0], 1)]
    factors += [(4, imaginary[0], 1), (3, imaginary[1], 1), (4, imaginary[1], 1), (3, imaginary[0], 1)]
    last = np.array(
        [
            [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            [1, 0, 0, 1, 1, 0, 0, 1j, 1j, 0, 0],
            [1, 0, 0, 0, 0, 1, 1, 0, 0, 1j, -1j],
            [1, 0, 0, 0, 0, 1, 1, 0, 0, -1j, 1j],
            [1, 0, 0, 1, 1, 0, 0, -1j, -1j, 0, 0],
        ]
    )
    return sums + 0j, factors, last
