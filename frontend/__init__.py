"""From the bytes of a ``.tflite`` file to the reference graph. The only room that knows TensorFlow Lite."""

from __future__ import annotations

from layoutsolve.budget import Budget
from layoutsolve.frontend import blocks, normalised
from layoutsolve.frontend.builder import Call, register
from layoutsolve.frontend.gaps import GapError
from layoutsolve.frontend.lower import lower
from layoutsolve.frontend.options import Reading
from layoutsolve.frontend.reader import parse
from layoutsolve.graph import Graph

__all__ = ["Call", "GapError", "Reading", "read", "register"]


def read(
    data: bytes | memoryview, name: str = "model", reading: Reading | None = None, budget: Budget | None = None
) -> Graph:
    """Read a TensorFlow Lite model.

    Raises :class:`layoutsolve.errors.ModelError` where the bytes are no such model, and
    :class:`layoutsolve.errors.UnsupportedError`, listing every gap, where it uses what cannot be converted.
    :class:`layoutsolve.errors.OptionError` is raised where ``reading`` names what the model does not have.
    """
    reading = reading or Reading()
    budget = budget or Budget(len(data), reading.max_size)
    return normalised.recognise(blocks.recognise(lower(parse(data), name, reading, budget)), budget)
