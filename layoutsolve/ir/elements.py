"""The elements of constants: where they lie in memory, and what they take there."""

from __future__ import annotations

import numpy as np

from layoutsolve.ir.graph import NOTHING, PACKED, Array

HALVED = 256
"""The fewest elements of a constant that is written as float16: the Cast behind fewer takes more than they save."""


def owner(data: Array) -> Array:
    """The array whose memory an array lies in: itself, where it is no view."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data


def memory(data: Array) -> tuple[object, ...]:
    """Where and how the elements of an array lie: arrays that have this in common are equal as long as they live."""
    return data.__array_interface__["data"][0], data.strides, data.shape, data.dtype.str


def condensed(data: Array) -> Array:
    """An array with one of the equal parts along each axis along which they all lie in the same memory."""
    return data[(*(slice(0, None if stride else 1) for stride in data.strides), ...)]


def element_bytes(dtype: str) -> float:
    """Bytes that one element takes in memory (int4 takes half a one)."""
    if dtype in PACKED:
        return 0.5
    if dtype == NOTHING:
        return 0.0
    return 8.0 if dtype == "string" else float(np.dtype(dtype).itemsize)


def unpacked(packed: Array, dtype: str) -> Array:
    """Unpack int4 elements, two per byte, the lower bits first; one more byte where their number is odd."""
    halves = np.stack([packed & 15, packed >> 4], 1).reshape(-1)
    return halves if dtype == "uint4" else ((halves ^ 8).astype(np.int8) - np.int8(8))


def are_halves(data: Array, dtype: str) -> bool:
    """Whether a constant of a source is one of the weights that it keeps as float16."""
    return dtype == "float16" and data.size >= HALVED
