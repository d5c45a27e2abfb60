"""What tflite-micro's signal library computes, integer for integer, as its kernels in C++ do it one number at a time.

Numbers are Python's or int64 that are wrapped where C++ stores them in a narrower type. States are passed in and out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, floor, isqrt, pi, sin
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array

Outputs = tuple[Array, ...]
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_LOG = (
    0, 224, 442, 654, 861, 1063, 1259, 1450, 1636, 1817, 1992, 2163, 2329, 2490, 2646, 2797, 2944, 3087, 3224, 3358,
    3487, 3611, 3732, 3848, 3960, 4068, 4172, 4272, 4368, 4460, 4549, 4633, 4714, 4791, 4864, 4934, 5001, 5063, 5123,
    5178, 5231, 5280, 5326, 5368, 5408, 5444, 5477, 5507, 5533, 5557, 5578, 5595, 5610, 5622, 5631, 5637, 5640, 5641,
    5638, 5633, 5626, 5615, 5602, 5586, 5568, 5547, 5524, 5498, 5470, 5439, 5406, 5370, 5332, 5291, 5249, 5203, 5156,
    5106, 5054, 5000, 4944, 4885, 4825, 4762, 4697, 4630, 4561, 4490, 4416, 4341, 4264, 4184, 4103, 4020, 3935, 3848,
    3759, 3668, 3575, 3481, 3384, 3286, 3186, 3084, 2981, 2875, 2768, 2659, 2549, 2437, 2323, 2207, 2090, 1971, 1851,
    1729, 1605, 1480, 1353, 1224, 1094, 963, 830, 695, 559, 421, 282, 142, 0,
)  # fmt: skip
"""kLogLut without its padding."""


def wrap(x: Any, dtype: str) -> Any:
    """What a narrower type stores of int64."""
    return np.asarray(x, np.int64).astype(dtype).astype(np.int64)


def most_significant_bit(x: int) -> int:
    """MostSignificantBit32 with GCC, which gives 32 for 0."""
    return (x & _U32).bit_length() or 32


def window(x: Array, weights: Array, shift: int) -> Outputs:
    rows = x.reshape(-1, weights.size).astype(np.int64) * weights
    return (np.clip(rows >> shift, -32768, 32767).astype(np.int16).reshape(x.shape),)


def auto_scale(x: Array) -> Outputs:
    most = 0
    for value in x.tolist():
        if value > most:
            most = value
        elif -value > most:
            most = int(wrap(-value, "int16"))
    bits = max(16 - most_significant_bit(most) - 1, 0)
    return wrap(x.astype(np.int64) << bits, "int16").astype(np.int16), np.array(bits, np.int32)


def energy(x: Array, start: int, end: int, count: int) -> Outputs:
    result = np.zeros(count, np.int64)
    pairs = x.astype(np.int64).reshape(-1, 2)
    result[start:end] = (pairs**2).sum(-1)[start:end]
    return (result.astype(np.uint32),)


def filter_bank(
    x: Array, weights: Array, unweights: Array, starts: Array, places: Array, widths: Array, channels: int
) -> Outputs:
    result, weighted, unweighted = [], 0, 0
    for start, place, width in zip(starts.tolist(), places.tolist(), widths.tolist(), strict=True):
        for each in range(width):
            weighted += int(weights[place + each]) * int(x[start + each])
            unweighted += int(unweights[place + each]) * int(x[start + each])
        result.append(weighted & _U64)
        weighted, unweighted = unweighted, 0
    return (np.array(result[1 : channels + 1], np.uint64),)


def square_root(x: Array, shift: Array) -> Outputs:
    result = []
    for value in x.tolist():
        root = isqrt(value)
        if value - root * root > root and root != (0xFFFF if value <= _U32 else _U32):
            root += 1
        result.append(root >> int(shift))
    return (np.array(result, np.uint32),)


def spectral_subtraction(x: Array, noise: Array, stated: Mapping[str, int]) -> tuple[Array, Array]:
    results, estimates, bits = [], [], stated["spectral_subtraction_bits"]
    for at, (value, before) in enumerate(zip(x.tolist(), noise.tolist(), strict=True)):
        prefix = "alternate_" if at & 1 else ""
        new, old = stated[f"{prefix}smoothing"], stated[f"{prefix}one_minus_smoothing"]
        scaled = value << stated["smoothing_bits"] & _U32
        estimate = (scaled * new + before * old & _U64) >> bits & _U32
        used = min(estimate, scaled)
        least = (value * stated["min_signal_remaining"] & _U64) >> bits & _U32
        results.append(max((scaled - used) >> stated["smoothing_bits"], least))
        estimates.append(used if stated["clamping"] else estimate)
    return np.array(results, np.uint32), np.array(estimates, np.uint32)


def pcan(x: Array, noise: Array, table: Array, shift: int) -> Outputs:
    def gain(value: int) -> int:
        if value <= 2:
            return int(table[value])
        interval = most_significant_bit(value)
        first, second, third = table[4 * interval - 6 : 4 * interval - 3].tolist()
        fraction = (value << (11 - interval) if interval < 11 else value >> (interval - 11)) & 0x3FF
        slope = int(wrap(((third * fraction >> 5) + (second << 5)) * fraction, "int32"))
        return int(wrap((slope + (1 << 14) >> 15) + first, "int16"))

    result = []
    for value, estimate in zip(x.tolist(), noise.tolist(), strict=True):
        snr = (value * (gain(estimate) & _U32) & _U64) >> shift & _U32
        result.append(snr * snr >> 20 if snr < 2 << 12 else (snr >> 6) - 64)
    return (np.array(result, np.uint32),)


def log(x: Array, correction_bits: int, scale: int) -> Outputs:
    result = []
    for value in x.tolist():
        scaled = value << correction_bits & _U32
        if scaled <= 1:
            result.append(0)
            continue
        whole = scaled.bit_length() - 1
        fraction = scaled - (1 << whole)
        fraction = fraction << 16 - whole if whole < 16 else fraction >> whole - 16
        segment = fraction >> 9
        low, high = _LOG[segment : segment + 2]
        bent = fraction + low + ((high - low) * (fraction - (segment << 9)) >> 16)
        natural = 45426 * ((whole << 16) + bent) + 32768 >> 16
        result.append(min((scale * natural + 32768 & _U32) >> 16, 32767))
    return (np.array(result, np.int16),)


# -- the Fourier transform of kiss FFT -----------------------------------------------------------------------------


class Kiss:
    """Kiss FFT in fixed point: numbers are rows [2, ...] of int64, wrapped wherever they are stored."""

    def __init__(self, dtype: str, length: int, inverse: bool) -> None:
        self.dtype, self.length, self.inverse = dtype, length, inverse
        self.bits = 8 * np.dtype(dtype).itemsize - 1
        self.turns = self.points([-2 * pi * each / length for each in range(length)])
        self.halves = self.points([-pi * ((each + 1) / length + 0.5) for each in range(length // 2)])

    def points(self, phases: Sequence[float]) -> Array:
        most, sign = (1 << self.bits) - 1, -1 if self.inverse else 1
        pairs = [(floor(0.5 + most * cos(sign * at)), floor(0.5 + most * sin(sign * at))) for at in phases]
        return np.array(pairs, np.int64).reshape(-1, 2).T

    def stored(self, x: Any) -> Any:
        return wrap(x, self.dtype)

    def round(self, x: Any) -> Any:
        return self.stored(x + (1 << self.bits - 1) >> self.bits)

    def divide(self, x: Any, by: int) -> Any:
        return self.round(x * (((1 << self.bits) - 1) // by))

    def multiply(self, a: Any, b: Any) -> Any:
        return np.stack([self.round(a[0] * b[0] - a[1] * b[1]), self.round(a[0] * b[1] + a[1] * b[0])])

    def quarter(self, x: Any) -> Any:
        """Times -i, or i of the inverse transform."""
        return np.stack([-x[1], x[0]] if self.inverse else [x[1], -x[0]])

    def transform(self, x: Array) -> Array:
        factors, rest, radix, most = [], self.length, 4, isqrt(self.length)
        while rest > 1:
            while rest % radix:
                radix = {4: 2, 2: 3}.get(radix, radix + 2)
                radix = rest if radix > most else radix
            rest //= radix
            factors.append((radix, rest))
        return self.work(x, factors, 1)

    def work(self, x: Array, factors: Sequence[tuple[int, int]], stride: int) -> Array:
        (radix, rest), *others = factors
        parts = [x[:, at::radix] if rest == 1 else self.work(x[:, at::radix], others, stride * radix)
                 for at in range(radix)]  # fmt: skip
        parts = [self.divide(part, radix) for part in parts]
        turned = [self.multiply(part, self.turns[:, at * stride * np.arange(rest)]) for at, part in enumerate(parts)]
        butterfly = {2: self.two, 3: self.three, 4: self.four, 5: self.five}[radix]
        roots = self.turns[:, [rest * stride, 2 * rest * stride % self.length]]
        return np.concatenate([self.stored(each) for each in butterfly(parts[0], *turned[1:], roots)], 1)

    def two(self, a: Any, b: Any, _: Array) -> list[Any]:
        return [a + b, a - b]

    def four(self, a: Any, b: Any, c: Any, d: Any, _: Array) -> list[Any]:
        turned = self.quarter(b - d)
        return [a + c + b + d, a - c + turned, a + c - b - d, a - c - turned]

    def three(self, a: Any, b: Any, c: Any, roots: Array) -> list[Any]:
        total, scaled = self.stored(b + c), self.round(self.stored(b - c) * roots[1, 0])
        middle, turned = a - (total >> 1), np.stack([-scaled[1], scaled[0]])
        return [a + total, middle + turned, middle - turned]

    def five(self, a: Any, b: Any, c: Any, d: Any, e: Any, roots: Array) -> list[Any]:
        (one, two), (sine, second) = roots
        outer, inner, near, far = (self.stored(each) for each in (b + e, c + d, c - d, b - e))
        first = a + self.round(outer * one) + self.round(inner * two)
        other = a + self.round(outer * two) + self.round(inner * one)
        cross = self.round(far * sine) + self.round(near * second)
        crossed = self.round(near * sine) - self.round(far * second)
        turned, back = np.stack([cross[1], -cross[0]]), np.stack([crossed[1], -crossed[0]])
        return [a + outer + inner, first - turned, other + back, other - back, first + turned]

    def mirrored(self, x: Array, at: int) -> tuple[Any, Any]:
        upper = self.stored(np.stack([x[0, self.length - at], -x[1, self.length - at]]))
        one, other = self.divide(x[:, at], 2), self.divide(upper, 2)
        return self.stored(one + other), self.multiply(self.stored(one - other), self.halves[:, at - 1])

    def real(self, x: Array) -> Array:
        """kiss_fftr."""
        packed, half = self.transform(x.astype(np.int64).reshape(-1, 2).T), self.length // 2
        result = np.zeros((2, self.length + 1), np.int64)
        first = self.divide(packed[:, 0], 2)
        result[0, 0], result[0, -1] = first[0] + first[1], first[0] - first[1]
        for at in range(1, half + 1):
            total, turned = self.mirrored(packed, at)
            sums = [total[0] + turned[0], total[1] + turned[1], total[0] - turned[0], turned[1] - total[1]]
            halves = [(each if self.bits == 15 else self.stored(each)) >> 1 for each in sums]
            result[:, at], result[:, self.length - at] = halves[:2], halves[2:]
        return result.T.reshape(-1).astype(self.dtype)

    def back(self, x: Array) -> Array:
        """kiss_fftri."""
        given, packed = x.astype(np.int64).reshape(-1, 2).T, np.zeros((2, self.length), np.int64)
        ends = given[0, 0], given[0, self.length]
        packed[:, 0] = self.divide(self.stored(np.array([ends[0] + ends[1], ends[0] - ends[1]])), 2)
        for at in range(1, self.length // 2 + 1):
            total, turned = self.mirrored(given, at)
            packed[:, at] = self.stored(total + turned)
            upper = self.stored(total - turned)
            packed[:, self.length - at] = upper[0], self.stored(-upper[1])
        return self.transform(packed).T.reshape(-1).astype(self.dtype)


def rfft(x: Array, length: int) -> Outputs:
    rows = x.reshape(-1, x.shape[-1])
    padded = np.pad(rows, ((0, 0), (0, length - rows.shape[1])))
    if x.dtype == np.float32:
        spectrum = np.fft.rfft(padded.astype(np.float64))
        result = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    else:
        result = np.stack([Kiss(x.dtype.name, length // 2, False).real(row) for row in padded])
    return (result.reshape(*x.shape[:-1], length + 2),)


def irfft(x: Array, length: int) -> Outputs:
    rows = x.reshape(-1, x.shape[-1])
    if x.dtype == np.float32:
        result = np.fft.irfft(rows[:, ::2] + 1j * rows[:, 1::2], length).astype(np.float32)
    else:
        result = np.stack([Kiss(x.dtype.name, length // 2, True).back(row) for row in rows])
    return (result.reshape(*x.shape[:-1], length),)


# -- streams -------------------------------------------------------------------------------------------------------


class Delay:
    """SignalDelay: a queue for each row."""

    def __init__(self, length: int) -> None:
        self.length, self.queues = length, [[0] * length for _ in range(64)]

    def __call__(self, x: Array) -> Outputs:
        result = []
        for queue, row in zip(self.queues, x.reshape(-1, x.shape[-1]).tolist(), strict=False):
            queue += row
            result.append(queue[: len(row)])
            del queue[: len(row)]
        return (np.array(result, np.int16).reshape(x.shape),)


class Framer:
    """SignalFramer; what it does not write is 0."""

    def __init__(self, size: int, step: int, prefill: bool) -> None:
        self.size, self.step = size, step
        self.queues = [[0] * (size - step if prefill else 0) for _ in range(64)]

    def __call__(self, x: Array) -> Outputs:
        rows = x.reshape(-1, x.shape[-1] // self.step, self.step)
        result, valid = np.zeros((*rows.shape[:2], self.size), np.int16), True
        for row, frames in enumerate(rows.tolist()):
            for at, numbers in enumerate(frames):
                queue = self.queues[row]
                queue += numbers
                if len(queue) >= self.size:
                    result[row, at] = queue[: self.size]
                    del queue[: self.step]
                else:
                    valid = False
        return result.reshape(*x.shape[:-1], rows.shape[1], self.size), np.array(valid)


class Stacker:
    """SignalStacker; what it does not write is 0."""

    def __init__(self, channels: int, left: int, right: int, step: int) -> None:
        self.channels, self.left, self.step = channels, left, step
        self.size, self.started = channels * (left + right + 1), False
        self.queue: list[int] = []

    def __call__(self, x: Array) -> Outputs:
        frame = x[: self.channels].tolist()
        self.queue += frame * (1 if self.started else self.left + 1)
        self.started, valid = True, len(self.queue) >= self.size
        result = np.array(self.queue[: self.size] if valid else [0] * self.size, np.int16)
        del self.queue[: self.step * self.channels if valid else 0]
        return result, np.array(valid)


class OverlapAdd:
    """SignalOverlapAdd: a buffer for each row."""

    def __init__(self, size: int, step: int) -> None:
        self.step, self.buffers = step, np.zeros((64, size), np.float32)

    def __call__(self, x: Array) -> Outputs:
        rows = x.reshape(-1, *x.shape[-2:])
        result = []
        for buffer, frames in zip(self.buffers, rows, strict=False):
            for frame in frames:
                buffer += frame
                if x.dtype == np.int16:
                    np.clip(buffer, -32768, 32767, out=buffer)
                result.append(buffer[: self.step].copy())
                buffer[:] = [*buffer[self.step :], *[0] * self.step]
        shape = (*x.shape[:-2], x.shape[-2] * self.step)
        return (np.array(result).astype(x.dtype).reshape(shape),)
