"""From the bytes of a ``.tflite`` file to the reference graph. The only room that knows TensorFlow Lite."""

from __future__ import annotations

from layoutsolve.frontend.blocks import recognise
from layoutsolve.frontend.builder import Call, register
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.lower import CUSTOM, lower
from layoutsolve.frontend.reader import parse
from layoutsolve.graph import Graph

__all__ = ["CUSTOM", "Call", "GapError", "read", "register"]


def read(data: bytes | memoryview, name: str = "model", custom: str = "error") -> Graph:
    """Read a TensorFlow Lite model; custom operators without a lowering are an 'error', or 'passthrough'.

    Raises :class:`layoutsolve.errors.ModelError` where the bytes are no such model, and
    :class:`layoutsolve.errors.UnsupportedError`, listing every gap, where it uses what cannot be converted.
    """
    return recognise(lower(parse(data), name, custom))
