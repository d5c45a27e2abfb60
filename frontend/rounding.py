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

TIE = 2.0**-14
"""The part of a step by which halves are lifted, so that they do not go to even; far below what else can occur."""

_LIFTED = {"int8": 2.0**-18, "uint8": 2.0**-18, "int16": 2.0**-21}
"""The part of a number by which it is lifted for the same purpose, away from zero."""


_HALVES = 256
"""The largest denominator by which a product with an integer of 8 bits can be a half."""


def lift(factor: float) -> float:
    """How much earlier, in steps of the result, an integer times a factor reaches the next step upwards.

    From a half on nothing is rounded twice, and halves are lifted where there are any: by factors such as 1/2 or 3/2.
    """
    exponent = frexp(factor)[1]
    if exponent < 0:
        return ldexp(0.5, exponent) + TIE
    return TIE if 1 < factor.as_integer_ratio()[1] <= _HALVES else 0.0


def lifted(factors: Array) -> Array:
    """By how many whole units integers come nearest to what :func:`lift` says: one or none for each factor."""
    units: Array = (np.frexp(factors)[1] < 0).astype(np.int64)
    return units


def steps(dtype: str, away: bool = False) -> Quant:
    """The parameters by which stored integers mean themselves; with ``away`` halves are rounded away from zero."""
    scale = 1 - _LIFTED[dtype] if away else 1.0
    return Quant(np.array([scale], np.float32), np.zeros(1, dtype))
