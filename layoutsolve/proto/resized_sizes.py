"""The sizes of what a Resize by factors makes.

ONNX Runtime rounds down what it computes in float32, in which 10 by 0.7 is 7; the library what it computes in float64,
in which it is less, so that all that follows has other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.ir.graph import Array

MOST = 1 << 15
"""Factors from which on nothing is resized."""


def rounded(size: int, factor: np.float32) -> int:
    """What ONNX Runtime makes of a size."""
    return int(np.float32(size) * factor)


def are_sizes(sizes: Sequence[object], factors: Array) -> bool:
    """Whether the sizes that a Resize makes state all its factors; one that is open stays, or becomes a multiple."""
    return all(
        np.float32(rounded(size, factor)) / np.float32(size) == factor
        if isinstance(size, int) and size
        else float(factor).is_integer()
        for size, factor in zip(sizes, factors, strict=True)
    )


def are_rounded_up(sizes: Sequence[object], factors: Array) -> bool:
    """Whether the library rounds any size otherwise, and so what ONNX checks."""
    pairs = zip(sizes, factors, strict=True)
    return any(isinstance(size, int) and rounded(size, factor) != int(size * float(factor)) for size, factor in pairs)
