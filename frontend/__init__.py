"""From the bytes of a ``.tflite`` file to the reference graph. The only room that knows TensorFlow Lite."""

from __future__ import annotations

from layoutsolve.budget import Budget
from layoutsolve.frontend.passes import (
    block_moves,
    borders,
    dilations,
    floats,
    gates,
    layer_norm,
    pixels,
    steps,
    symmetric,
    unsigned,
    upsampling,
    weights,
    widths,
)
from layoutsolve.frontend.tflite.lower import Check, lower
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.gaps import GapError
from layoutsolve.frontend.tflite.lowering.options import Reading
from layoutsolve.frontend.tflite.lowering.registry import register
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.graph import Graph

__all__ = ["Call", "GapError", "Reading", "lowered", "parse", "read", "register"]


def read(
    data: bytes | memoryview,
    name: str = "model",
    reading: Reading | None = None,
    check: Check | None = None,
    budget: Budget | None = None,
) -> Graph:
    """Read a TensorFlow Lite model. ``check`` is given what each lowering that a user has registered wrote, as a graph,
    before anything relies on it. ``budget`` is by default what the size of the data allows.

    Raises :class:`layoutsolve.errors.ModelError` where the bytes are no such model, and
    :class:`layoutsolve.errors.UnsupportedError`, listing every gap, where it uses what cannot be converted.
    :class:`layoutsolve.errors.OptionError` is raised where ``reading`` names what the model does not have.
    """
    return lowered(parse(data), name, reading or Reading(), check, budget)


def lowered(
    model: Model, name: str, reading: Reading, check: Check | None = None, budget: Budget | None = None
) -> Graph:
    """The reference graph of a model that was parsed; the rest, and what it raises, is as for :func:`read`."""
    budget = budget or Budget(model.size, reading.max_size)
    graph = borders.absorbed(dilations.recognise(lower(model, name, reading, check, budget)))
    graph = gates.recognise(layer_norm.recognise(block_moves.recognise(upsampling.recognise(graph)), budget))
    if reading.quant == "float":
        return widths.rounded(floats.computed(graph, budget), reading.storage, budget)
    if reading.weights == "symmetric":
        graph = symmetric.rounded(graph)
    graph = widths.rounded(graph, reading.storage, budget)
    if reading.quant == "exact":  # in which no kernel computes on bytes
        return graph
    graph = pixels.filled(graph, reading.storage.pixel, budget)
    graph = weights.stored(graph, reading.storage.weights)
    graph = unsigned.stored(graph) if reading.storage.unsigned else graph
    return steps.rounded(graph) if reading.storage.real else graph
