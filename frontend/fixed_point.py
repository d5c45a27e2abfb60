"""How LiteRT's integer kernels round, where it is not as QuantizeLinear does.

They multiply by a scale in two steps: by a number of 31 bits between a half and one, then by a power of two, and round
after each. For factors below a half the second rounding meets numbers that were rounded already, so that what is a
little below half a step counts as half of one. QuantizeLinear rounds once, halves to even. A bias of a fraction of a
step in each operator adds up along a network.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from layoutsolve.graph import Array, Quant

TIE = 2.0**-13
"""The part of a step by which halves are lifted, so that they do not go to even; far below what else can occur."""

_LIFTED = {"int8": 2.0**-18, "uint8": 2.0**-18, "int16": 2.0**-21}
"""The part of a number by which it is lifted for the same purpose, away from zero."""


def lift(factor: float) -> float:
    """How much earlier, in steps of the result, an integer times a factor reaches the next step upwards."""
    exponent = frexp(factor)[1]
    return ldexp(0.5, exponent) + TIE if exponent < 0 else 0.0


def lifted(factors: Array) -> Array:
    """By how many whole units integers come nearest to what :func:`lift` says: one or none for each factor."""
    units: Array = (np.frexp(factors)[1] < 0).astype(np.int64)
    return units


def steps(dtype: str, away: bool = False) -> Quant:
    """The parameters by which stored integers mean themselves; with ``away`` halves are rounded away from zero."""
    scale = 1 - _LIFTED[dtype] if away else 1.0
    return Quant(np.array([scale], np.float32), np.zeros(1, dtype))
