"""What quantized values mean: their elements in floating point, and the range that these have."""

from __future__ import annotations

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Quant, Value

SMALL = ("int8", "uint8", "int16")
"""Types of integers that stand for real numbers."""

STRETCH, SHIFT = 2.0**-10, 2.0**-6
"""A factor this near to 1, and a part of a step as small as this, are no more than a way to round halves."""

Range = tuple[float, float]

ANY: Range = (-np.inf, np.inf)


@dataclass(frozen=True)
class Held:
    """Real numbers: those of ``name`` times ``factor``, ``offset`` added."""

    name: str
    factor: float = 1.0
    offset: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether they are those numbers themselves."""
        return self == Held(self.name)

    def then(self, before: Quant, after: Quant) -> Held:
        """The numbers that are meant by what is stored for these, if they are taken by other parameters."""
        (old, zero), (new, moved) = parameters(before), parameters(after)
        factor, offset = new / old, (zero - moved) * new
        return Held(self.name, self.factor * factor, self.offset * factor + offset)

    def settled(self, scale: float) -> Held:
        """The same without what only rounds halves of steps."""
        slight = abs(self.factor - 1) <= STRETCH and abs(self.offset) <= SHIFT * scale
        return Held(self.name) if slight else self


def is_activation(value: Value) -> bool:
    """Whether a value is computed, or given, and stands for floats, in steps of one size."""
    return value.data is None and value.dtype in SMALL and value.quant is not None and value.quant.axis is None


def parameters(quant: Quant) -> tuple[float, int]:
    return float(quant.scale[0]), int(quant.zero_point[0])


def range_of(value: Value) -> Range:
    """The least and the greatest number that an activation can stand for."""
    if value.quant is None:
        return ANY
    limits, (scale, zero) = np.iinfo(value.dtype), parameters(value.quant)
    return (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale
