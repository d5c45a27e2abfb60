"""Layer-wise accuracy as a table: how near each tensor of the written model is to the source's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, log10, sqrt

import numpy as np

from layoutsolve.base.wording import aligned, first_name
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import kind, numbers


@dataclass(frozen=True)
class Layer:
    """Accuracy of one tensor: ``index`` and ``operator`` of the source are what writes it.

    ``cosine`` is the cosine similarity. ``sqnr`` is the signal-to-quantization-noise ratio in dB, None where nothing is
    off, at least :data:`LOWEST`. ``maximum`` is the largest error: in LSB of a quantized tensor, else as a share of the
    tensor's range.
    """

    index: int
    operator: str
    tensor: str
    cosine: float
    sqnr: float | None
    maximum: float
    quantized: bool

    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        error = f"{self.maximum:g} LSB" if self.quantized else f"{self.maximum:.2g}"
        ratio = "exact" if self.sqnr is None else f"{self.sqnr:.1f}"
        return str(self.index), self.operator, first_name(self.tensor), f"{self.cosine:.6f}", ratio, error


LOWEST = -200.0
"""The SQNR of what is nothing but noise."""

HEADS = ("", "operator", "output", "cosine", "SQNR dB", "max error")


def lines_of(layers: Sequence[Layer]) -> Iterator[str]:
    """The table as text, a line for each tensor."""
    yield from aligned([HEADS, *(each.row() for each in layers)], (0, 3, 4, 5))


@dataclass(eq=False)
class Closeness:
    """Sums over all runs, of which a :class:`Layer` is made."""

    port: Port
    product: float = 0.0
    signal: float = 0.0
    other: float = 0.0
    noise: float = 0.0
    maximum: float = 0.0
    ends: list[float] = field(default_factory=lambda: [inf, -inf])

    def add(self, expected: Array, actual: Array) -> None:
        """Count one run: both as the source has the tensor. What is not finite in the source does not count."""
        if expected.shape != actual.shape:
            self.noise = self.maximum = inf
            return
        one, other = numbers(expected, self.port), numbers(actual, self.port)
        if one.dtype.kind == "U":
            one, other = np.ones(one.shape), (one == other).astype(np.float64)
        finite = np.isfinite(one)
        one, other = one[finite], other[finite]
        if not one.size:
            return
        if self.port.quantized:
            one, other = one - self.port.zero_point[0], other - self.port.zero_point[0]
        error = one - other
        self.product += float(one @ other)
        self.signal += float(one @ one)
        self.other += float(other @ other)
        self.noise += float(error @ error)
        self.maximum = max(self.maximum, float(np.abs(error).max()))
        self.ends = [min(self.ends[0], float(one.min())), max(self.ends[1], float(one.max()))]

    def layer(self, index: int, operator: str) -> Layer:
        """What was counted, of a tensor that an operator writes."""
        quantized = kind(self.port) == "quantized"
        norm = sqrt(self.signal) * sqrt(self.other)
        cosine = 1.0 if not self.noise else self.product / norm if 0 < norm < inf else 0.0
        share = self.signal / self.noise if self.noise else 0.0
        ratio = None if not self.noise else max(10 * log10(share), LOWEST) if share > 0 else LOWEST
        span = self.ends[1] - self.ends[0] or max(map(abs, self.ends)) or 1.0
        error = self.maximum if quantized or self.maximum in (0.0, inf) else self.maximum / span
        return Layer(index, operator, self.port.name, cosine, ratio, error, quantized)
