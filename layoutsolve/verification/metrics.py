"""How far apart two results are, and whether that passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port

FLOAT_TOLERANCE = 1e-4
"""The largest error of a float output that passes, relative to the range of the output."""

FLOAT16_TOLERANCE = 1e-3
"""The same for a model with float16 constants."""

NEAR = 0.99
"""The share of the elements of a quantized output that have to be near enough (:data:`STEPS`)."""

STEPS = {8: 1, 16: 16}
"""How many integer steps that is, by the bits of the type: a 4096th of the range of 16 bits, where one step of 8 bits
is a 256th of theirs.
"""

SHARE, FACTOR = 0.01, 1.1
"""How far from XNNPACK's a distance may be: its mean by this factor, and the elements beyond one step by this factor
and this share of all.
"""

Kind = Literal["float", "quantized", "exact"]
"""Floats are compared relative to their range, quantized numbers by integer steps, the rest has to be equal."""


@dataclass(frozen=True)
class Distance:
    """How far an output is from the reference.

    ``relative`` is ``maximum`` over the range of the reference (:func:`least_range`). ``steps`` counts, for quantized
    outputs, the elements that are 0, 1, 2, 3 and more integer steps off (and the errors are in steps); otherwise it is
    empty. ``count`` is how many elements were compared, and ``means`` are the mean errors for each input of the model.
    ``unit`` is how many steps are near enough, and ``near`` how many elements are. ``of_shape`` says whether the output
    has the reference's shape.
    """

    maximum: float
    mean: float
    relative: float
    cosine: float
    steps: tuple[int, ...] = ()
    count: int = 0
    means: tuple[float, ...] = ()
    unit: int = 1
    near: int = 0
    of_shape: bool = True

    @property
    def within(self) -> float:
        """The share of the elements that are near enough, by integer steps; 1 where nothing is counted."""
        near = sum(self.steps[:2]) if self.unit == 1 else self.near
        return near / sum(self.steps) if sum(self.steps) else 1.0

    def no_further_than(self, other: Distance) -> bool:
        """Whether this is about as near to the reference as another distance, by the mean and beyond one step.

        Two equally good results differ by chance: the fewer elements are compared, the more, and the more their errors
        differ from input to input.
        """
        chance = self.count**-0.5 if self.count else 0.0
        beyond = (1 - other.within) * FACTOR + SHARE + chance
        mean = other.mean * FACTOR + 2 * max(other.mean * chance, self._deviation(other))
        return 1 - self.within <= beyond and self.mean <= mean and self.maximum < np.inf

    def _deviation(self, other: Distance) -> float:
        """By how much the difference of two mean errors may deviate; 0 where there is one input only, or the other is
        equal to the reference: that is not by chance.
        """
        if (
            other.mean == 0
            or len(self.means) != len(other.means)
            or len(self.means) < 2
            or not np.isfinite(self.means + other.means).all()
        ):
            return 0.0
        return float(np.std(np.subtract(self.means, other.means), ddof=1)) / sqrt(len(self.means))

    def __str__(self) -> str:
        errors = f"max {self.maximum:.3g}, mean {self.mean:.3g}, relative {self.relative:.3g}"
        steps = f", steps 0/1/2/3/more: {'/'.join(map(str, self.steps))}" if self.steps else ""
        return f"{errors}, cosine {self.cosine:.6f}{steps}"


def least_range(port: Port) -> float:
    """The range that floats are taken to have at least, as a share of the largest: what is nearly one number, as the
    sum of a softmax, has a range of roundings alone.
    """
    return 1.0 if "16" in port.dtype else 1 / 64


def kind(port: Port) -> Kind:
    """How the numbers of an output are to be compared."""
    if port.quantized:
        return "quantized"
    return "float" if port.dtype.startswith(("float", "bfloat", "complex")) else "exact"


def passes(compared: Kind, found: Distance, tolerance: float) -> bool:
    """The verdict on one output; ``tolerance`` is relative to its range and holds for floats."""
    if compared == "quantized":
        return found.within >= NEAR and found.maximum < np.inf
    return found.relative <= tolerance if compared == "float" else found.maximum == 0


def reason(compared: Kind, found: Distance, tolerance: float, beside: str = "") -> str:
    """In words, why an output passes or not: what was found and what may be, or ``beside``, what else it passes for."""
    if not np.isfinite(found.maximum):
        return "its shape, or where it has infinities and NaN, is not LiteRT's"
    if compared == "quantized":
        said = f"{_percent(found.within)} of elements within {found.unit} LSB of LiteRT's"
        return said + (beside or f" (threshold {_percent(NEAR)})")
    if compared == "float":
        return f"maximum error {found.relative:.2g} of the range" + (beside or f" (threshold {tolerance:g})")
    return "equal to LiteRT's" if found.maximum == 0 else f"not equal to LiteRT's{beside}"


def _percent(share: float) -> str:
    """A share that is all only where it is."""
    return f"{np.floor(share * 1000) / 10:g} %"


def distance(port: Port, pairs: Sequence[tuple[Array, Array]], steps: int = 1) -> Distance:
    """How far results are from their references; results of another shape are infinitely far. So many ``steps`` are one
    input: their errors are not independent.
    """
    if any(reference.shape != result.shape for reference, result in pairs):
        steps_off = (0, 0, 0, 0, 1) if port.quantized else ()
        return Distance(np.inf, np.inf, np.inf, 0.0, steps_off, 1, of_shape=False)
    references = [numbers(reference, port) for reference, _ in pairs]
    expected, actual = np.concatenate(references), np.concatenate([numbers(result, port) for _, result in pairs])
    if expected.dtype.kind == "U":
        expected, actual = np.zeros(expected.shape), (expected != actual).astype(float)
    ends = np.cumsum([each.size for each in references])[steps - 1 : -1 : steps].tolist()
    unit, least = (STEPS[port.bits], 0.0) if port.quantized else (0, least_range(port))
    return _distance(expected, actual, unit, ends, least)


def _distance(expected: Array, actual: Array, unit: int, ends: Sequence[int], least: float) -> Distance:
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    finite = np.isfinite(expected) & np.isfinite(actual)
    gap = np.abs(np.where(finite, expected, 0) - np.where(finite, actual, 0))
    error = np.where(same, 0.0, np.where(finite, gap, np.inf))
    maximum, usable = float(error.max(initial=0)), expected[np.isfinite(expected)]
    spread, size = (float(np.ptp(usable)) if usable.size else 0.0), float(np.abs(usable).max(initial=0))
    span = max(spread, least * size) if spread else size or 1.0
    mean, *means = (float(each.mean()) if each.size else 0.0 for each in (error, *np.split(error, ends)))
    steps = np.bincount(np.minimum(error, 4).astype(int), minlength=5).tolist() if unit else []
    cosine, near = _cosine(expected, actual), int(np.count_nonzero(error <= unit)) if unit else 0
    return Distance(maximum, mean, maximum / span, cosine, tuple(steps), error.size, tuple(means), max(unit, 1), near)


def _cosine(expected: Array, actual: Array) -> float:
    """The cosine between two vectors, 1 where they are equal (and thus between zeros)."""
    finite = np.isfinite(expected) & np.isfinite(actual)
    expected, actual = expected[finite], actual[finite]
    norms = float(np.linalg.norm(expected)) * float(np.linalg.norm(actual))
    if np.array_equal(expected, actual):
        return 1.0
    return float(expected @ actual) / norms if norms else 0.0


def numbers(data: Array, port: Port) -> Array:
    """The elements as double precision numbers in one row; floats of a quantized output as integer steps."""
    flat = data.reshape(-1)
    if flat.dtype.kind in "OSU":
        return np.array([item.decode() if isinstance(item, bytes) else str(item) for item in flat.tolist()], np.str_)
    if flat.dtype.kind == "c":
        return np.stack([flat.real, flat.imag], -1).reshape(-1).astype(np.float64)
    if port.quantized and flat.dtype.kind == "f":
        steps: Array = np.rint(flat.astype(np.float64) / port.scale[0]) + port.zero_point[0]
        limits = np.iinfo("int32" if port.dtype == "float32" else port.dtype)
        return np.clip(steps, limits.min, limits.max)
    return flat.astype(np.float64)
