"""From the bytes of a ``.tflite`` file to the reference graph. The only room that knows TensorFlow Lite."""

from __future__ import annotations

from layoutsolve.frontend import blocks, normalised
from layoutsolve.frontend.lower import lower
from layoutsolve.frontend.reader import parse
from layoutsolve.graph import Graph

__all__ = ["read"]


def read(data: bytes | memoryview, name: str = "model") -> Graph:
    """Read a TensorFlow Lite model.

    Raises :class:`layoutsolve.errors.ModelError` where the bytes are no such model, and
    :class:`layoutsolve.errors.UnsupportedError`, listing every gap, where it uses what cannot be converted.
    """
    return normalised.recognise(blocks.recognise(lower(parse(data), name)))
