"""How far a tensor is from LiteRT's where both are computed from LiteRT's own inputs, judged by the tensor's own scale.

No error is passed on there, so right conversions differ by single roundings. A quantized number is the neighbouring one
where the real value lies about in the middle between two (each of them is right then), and seldom elsewhere; a float is
off by some units in its last place. A wrong scale, zero point or weight moves all real values of a channel, and thereby
a share of its quantized numbers as large as the move in LSB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import Distance, distance, kind, least_range, numbers

TIE, WIDEST_TIE = 1 / 32, 1 / 4
"""How near to the middle between two quantized numbers, in LSB, both are right: fixed-point multipliers are off by so
much. Multipliers just below 1 are rounded twice, and off by as much as they are, up to the second number.
"""

TIES = 0.4
"""The share of the numbers that may be the other one where real values lie in the middle: half of these are odd, and
half of those are rounded the other way.
"""

SHARE = {8: 0.02, 16: 0.1}
"""How many LSB a quantized number may be off on average, by the bits of its type: multipliers are as exact for both,
while numbers of 16 bits are larger.
"""

ROUGH = 0.75
"""The same where the conversion was asked to round otherwise."""

APPROXIMATE: Mapping[int, Mapping[str, float]] = {
    8: {
        "LEAKY_RELU": 0.4,
        "PRELU": 0.4,
        "L2_NORMALIZATION": 0.2,
        "LSTM": 0.25,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": 0.25,
        "DIV": 0.2,
        "AVERAGE_POOL_2D": 0.25,
        "RESIZE_BILINEAR": 0.15,
        "MEAN": 0.15,
        "SUM": 0.15,
    },
    16: {
        "LEAKY_RELU": 0.4,
        "PRELU": 0.4,
        "LOG_SOFTMAX": 0.4,
        "QUANTIZE": 0.3,
        "LSTM": 0.4,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": 0.4,
    },
}
"""The same of operators that LiteRT's kernels approximate, by tables, by polynomials or in several roundings, by bits:
somewhat more than right conversions are off.
"""

MOST = {8: 3, 16: 16}
"""How many LSB one number may be off, by the bits of its type."""

RECURRENT = {"LSTM": 16, "UNIDIRECTIONAL_SEQUENCE_LSTM": 16}
"""The same of operators that read what they have rounded, step by step."""

FLOAT, FLOAT_CHANNEL, HALF = 3e-5, 3e-4, 1e-3
"""How much a float may be off, as a share of the range of the tensor, of the channel, and for 16 bits."""

ROUNDED = 1e-2
"""The same where both round activations to 8 bits, which are neighbours where they lie in the middle."""

ACROSS = 2e-6
"""How much a float may be off in any channel, as a share of the range of the tensor."""

NOISY = 8.0
"""How many times as far as by a rounding of all inputs a float may be off, which are rounded by 2**-20, and by 2**-10
in 16 bits.
"""

LAST = 2
"""How many units in its last place a float of 16 bits may be off: LiteRT's kernels round within an operator as well,
and in a narrow range one is more than its share.
"""

LEFT = 2.0**-20
"""By how much one may be off at least: what 32 bits leave where numbers of some size cancel out, as 1 + tanh(x)."""

TINY = 2.0**-126
"""The smallest float that keeps all of its bits: below it differences mean nothing."""

LEAST: Mapping[str, float] = {"LOGISTIC": 2.0**-23}
"""By how much a float may be off whatever its size, of operators whose kernels have errors that do not shrink with what
they give: ONNX Runtime computes a sigmoid as a half and what is beyond it.
"""

ROWS = 16
"""How many numbers a channel has to have to be judged by itself."""


@dataclass(eq=False)
class Tally:
    """What is counted of one tensor, over all runs. It is ``rough`` where the conversion was asked to round otherwise:
    activations at run time, or weights. ``length`` is how many floats one of it is added up from, as LiteRT does it one
    after the other, and ``tie`` how near to the middle a real value may be for both neighbours to be right.
    ``least`` is by how much a float may be off whatever its size.
    It is ``exact`` where exact results are expected instead of LiteRT's. ``constant`` says whether all that LiteRT has
    are one number, and ``farthest`` is by how much one is off at most, in LSB or as a share of the range.
    """

    port: Port
    operator: str
    rough: bool = False
    length: int = 1
    tie: float = TIE
    least: float = TINY
    exact: bool = False
    constant: bool = True
    reason: str = ""
    _count: int = 0
    farthest: float = 0.0
    _off: float = 0.0
    _ties: int = 0
    _rows: int = 0
    _channels: Array | None = None
    _worst: tuple[float, Array, Array] = (0.0, np.zeros(0), np.zeros(0))

    def add(
        self,
        expected: Array,
        actual: Array,
        real: Callable[[], Array | None] = lambda: None,
        ignored: Array | None = None,
    ) -> None:
        """Count one run: what LiteRT has, what is computed instead, the same before it is quantized (as far as that is
        known), and which elements are not to be judged.
        """
        if self.reason:
            return
        if expected.shape != actual.shape:
            self.reason = f"its shape is {list(actual.shape)}, LiteRT's {list(expected.shape)}"
            self._worst = (np.inf, expected, actual)
            return
        self.equal(expected)
        one, other = expected.reshape(-1), actual.reshape(-1)
        off = np.flatnonzero(one != other) if one.dtype.kind in "biufc" else np.arange(one.size)
        error = self._error(one[off], other[off], None if ignored is None else ignored.reshape(-1)[off])
        if (total := float(error.sum())) > self._worst[0]:
            self._worst = (total, expected, actual)
        if kind(self.port) == "quantized":
            self._quantized(error, off, expected.shape, real)
        elif kind(self.port) == "exact" and error.any():
            self.reason = f"{np.count_nonzero(error)} of its {expected.size} elements differ from LiteRT's"

    def equal(self, expected: Array) -> None:
        """Count one run as one in which nothing is off."""
        if kind(self.port) == "quantized":
            self.constant = self.constant and (not expected.size or bool((expected == expected.reshape(-1)[0]).all()))
            self._count += expected.size
            self._rows += expected.size // max(expected.shape[-1], 1) if expected.ndim else 1

    def _error(self, expected: Array, actual: Array, ignored: Array | None) -> Array:
        one, other = (numbers(each, self.port) for each in (expected, actual))
        if one.dtype.kind == "U":
            return np.asarray(one != other, np.float64)
        with np.errstate(invalid="ignore"):
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            error = np.where(same, 0.0, np.abs(one - other))
        error = np.where(np.isnan(error), np.inf, error)
        if ignored is not None and ignored.size == error.size:
            error[ignored.reshape(-1)] = 0
        return error

    def _quantized(self, error: Array, off: Array, shape: Sequence[int], real: Callable[[], Array | None]) -> None:
        """Count what is off, of the elements that are, by their places."""
        before = real() if (error == 1).any() else None
        if before is not None and before.size == prod(shape):
            place = before.reshape(-1)[off].astype(np.float64) / self.port.scale[0] + self.port.zero_point[0]
            with np.errstate(invalid="ignore"):  # what is infinite is no tie
                middle = np.abs(place - np.floor(place) - 0.5) < self.tie + np.abs(place) * 2.0**-16
            excused = (error == 1) & middle
            error[excused] = 0
            self._ties += int(np.count_nonzero(excused))
        self._off += float(error.sum())
        self.farthest = max(self.farthest, float(error.max(initial=0)))
        channels = max(shape[-1], 1) if shape else 1
        found = np.bincount(off % channels, error, channels)
        if self._channels is None or self._channels.size == found.size:
            self._channels = found if self._channels is None else self._channels + found

    def add_floats(
        self, expected: Array, actual: Array, ignored: Array | None, again: Callable[[], Array | None]
    ) -> None:
        """Count one run of floats; where they are off, what rounded inputs come to (``again``) shows what may be."""
        if self.reason or near(expected, actual) or not self._far(expected, actual, ignored, None):
            return
        self.reason = self._far(expected, actual, ignored, again())
        self._worst = (np.inf, expected, actual)

    def _far(self, expected: Array, actual: Array, ignored: Array | None, noisy: Array | None) -> str:
        """Why floats of one run are too far off, '' where they are not."""
        error = self._error(expected, actual, ignored)
        if expected.dtype == np.float16:
            with np.errstate(invalid="ignore"):
                last = np.spacing(np.abs(expected.reshape(-1))).astype(np.float64)
            error[error <= np.maximum(LAST * last, LEFT)] = 0
        least = least_range(self.port)
        span = _span(numbers(expected, self.port).reshape(-1, 1), error.reshape(-1, 1) == np.inf, least)
        noise = np.zeros_like(error) if noisy is None else NOISY * self._error(actual, noisy, ignored)
        noise = np.where(np.isfinite(noise), noise, 0)
        share = ROUNDED if self.rough else HALF if "16" in self.port.dtype else FLOAT + self.length * 2.0**-25
        self.farthest = max(self.farthest, float(error.max(initial=0)) / (float(span.max(initial=0)) or 1.0))
        far = max(error.max(initial=0) - share * float(span.max(initial=0)) - self.least, 0.0)
        if far > 0 and error.max(initial=0) > noise.max(initial=0):
            found = error.max() / (float(span.max(initial=0)) or 1.0)
            return f"maximum error {found:.2g} of the range (threshold {share:g})"
        size = expected.shape[-1] if expected.ndim else 1
        if self.rough or expected.dtype.kind == "c" or size == 0 or error.size % size or error.size // size < ROWS:
            return ""
        rows = error.reshape(-1, size)
        own = _span(numbers(expected, self.port).reshape(-1, size), rows == np.inf, least)
        least = max(ACROSS, HALF * share / FLOAT if share == HALF else 0) * float(span.max(initial=0))
        allowed = np.maximum(np.maximum(FLOAT_CHANNEL * share / FLOAT * own, least), 4 * noise.reshape(-1, size).max(0))
        wrong = np.flatnonzero(rows.max(0) > allowed + self.least)
        if wrong.size:
            place = int(wrong[0])
            found, most = rows[:, place].max() / (own[place] or 1.0), FLOAT_CHANNEL * share / FLOAT
            return f"maximum error {found:.2g} of the range of channel {place} (threshold {most:g})"
        return ""

    @property
    def found(self) -> Distance:
        """How far the tensor is from LiteRT's in the run where it is farthest."""
        return distance(self.port, [self._worst[1:]])

    def verdict(self) -> str:
        """Why the tensor diverges, '' where it does not."""
        if self.reason or kind(self.port) != "quantized" or not self._count:
            return self.reason
        bits = self.port.bits
        approximate = {} if self.exact else APPROXIMATE[bits]
        share = ROUGH if self.rough else approximate.get(self.operator, SHARE[bits])
        most = RECURRENT.get(self.operator, MOST[bits])
        if self.farthest > most:
            return f"maximum error {self.farthest:g} LSB (threshold {most})"
        if self._ties > _most(TIES, self._count):
            return f"{self._ties} of {self._count} elements rounded the other way from halfway (threshold {TIES:.0%})"
        if self._off > _most(share, self._count):
            return f"mean error {self._off / self._count:.2g} LSB (threshold {share:g})"
        if (
            self._channels is not None
            and self._rows >= ROWS
            and self._channels.max(initial=0) > _most(min(2 * share, 1), self._rows)
        ):
            place = int(self._channels.argmax())
            mean = self._channels[place] / self._rows
            return f"mean error {mean:.2g} LSB in channel {place} (threshold {min(2 * share, 1):g})"
        return ""


def near(expected: Array, actual: Array) -> bool:
    """Whether two arrays are equal, or floats that are as near as they have to be in any channel."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if expected.dtype.kind != "f" or expected.itemsize < 4 or not expected.size:
        return np.array_equal(expected, actual)
    with np.errstate(invalid="ignore", over="ignore"):
        spread, error = float(np.ptp(expected)), float(np.abs(expected - actual).max())
    return error <= ACROSS * spread < np.inf


def _most(share: float, count: int) -> float:
    """How many LSB so many numbers may be off in all, by chance included."""
    return share * count + 4 * sqrt(share * count) + 2


def _span(data: Array, without: Array, least: float) -> Array:
    """The range of each column, but at ``least`` so much of its largest number, or how large its only number is."""
    usable = np.isfinite(data) & ~without
    if not data.shape[0]:
        return np.zeros(data.shape[1])
    low, high = np.where(usable, data, np.inf).min(0), np.where(usable, data, -np.inf).max(0)
    spread = np.where(usable.any(0), high - low, 0)
    size = np.abs(np.where(usable, data, 0)).max(0)
    return np.asarray(np.where(spread > 0, np.maximum(spread, size * least), size))
