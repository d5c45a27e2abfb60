"""Constants of strings, as TensorFlow Lite stores them: how many, where each begins and the last ends, the bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Array

_BYTES_PER_STRING = 64
"""What a string takes in memory beside its bytes."""


def strings(tensor: Tensor, spend: Callable[[int], object]) -> Array:
    """Strings of a constant tensor, an array of bytes objects in its shape. Their memory is ``spend`` before they are
    made. Raises :class:`ModelError`.
    """
    place = f"tensor {tensor.index} '{tensor.name}'"
    raw = b"" if tensor.data is None else tensor.data.tobytes()
    count = prod(tensor.shape)
    spend(len(raw) + _BYTES_PER_STRING * count)
    if not raw and not count:
        return np.empty(tensor.shape, object)
    if len(raw) < 4:
        raise ModelError(f"{place} holds no strings in its {len(raw)} bytes")
    stated = int(np.frombuffer(raw, "<i4", 1)[0])
    if stated != count or 4 * (count + 2) > len(raw):
        raise ModelError(f"{place} of the shape {list(tensor.shape)} has a buffer of {stated} strings")
    ends = np.frombuffer(raw, "<i4", count + 1, 4).tolist()
    if ends[0] < 4 * (count + 2) or ends[-1] > len(raw) or any(a > b for a, b in pairwise(ends)):
        raise ModelError(f"{place} has strings that lie outside of its buffer")
    found = np.empty(count, object)
    found[:] = [raw[start:end] for start, end in pairwise(ends)]
    return found.reshape(tensor.shape)
