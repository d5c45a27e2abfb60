"""From the bytes of a file to the reference graph. The only room that knows TensorFlow Lite, and ONNX as a source."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from layoutsolve.frontend.onnx.detection import is_model
from layoutsolve.frontend.passes import (
    affine,
    attention_masks,
    block_moves,
    channel_rounding,
    dilations,
    einsums,
    float_activations,
    group_norms,
    groups,
    hard_activations,
    integer_sums,
    layer_norm,
    layer_scales,
    leaky_relu_rounding,
    pad_absorption,
    pixel_rows,
    pixels,
    recurrent,
    slope_sums,
    softmax_masks,
    symmetric,
    symmetric_activations,
    unsigned,
    upsampling,
    weights,
    whole_blocks,
)
from layoutsolve.frontend.tflite.lower import Check, lower
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.options import KEEPING, Reading
from layoutsolve.frontend.tflite.lowering.registry import register
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.reading import reader
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.io.source import Folder
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.graph import Graph
from layoutsolve.proto.data_movement import VIEWS

if TYPE_CHECKING:
    from layoutsolve.frontend.onnx.listing import ListedGraph
    from layoutsolve.frontend.onnx.reading import Source as OnnxSource

__all__ = [
    "Call",
    "GapError",
    "Model",
    "Reading",
    "is_onnx",
    "is_tflite",
    "listed",
    "lowered",
    "parse",
    "read",
    "register",
]


def is_tflite(data: bytes | memoryview) -> bool:
    """Whether a buffer is a TensorFlow Lite model, by its file identifier."""
    return bytes(data[4:8]) == reader.IDENTIFIER


def is_onnx(data: bytes | memoryview) -> bool:
    """Whether a buffer is an ONNX model, by its content."""
    return not is_tflite(data) and is_model(data)


def parse(
    data: bytes | memoryview,
    folder: Folder | None = None,
    called: str = "the model",
    drop: bool = False,
    defined: bool = False,
) -> Model | OnnxSource:
    """Read a model of TensorFlow Lite or ONNX, whichever its bytes are; constants of ONNX may be in other files of its
    ``folder``. It is ``called`` so in messages. With ``drop`` inputs of ONNX that are initializers as well are no
    inputs, and where operators are to be ``defined`` some are what ONNX defines them by. Raises
    :class:`layoutsolve.errors.ModelError` on anything that is neither.
    """
    if is_onnx(data):
        from layoutsolve.frontend.onnx import reading  # only few models need it

        return reading.parse(data, folder, called, drop, defined)
    return reader.parse(data, called)


def listed(model: OnnxSource) -> list[ListedGraph]:
    """The graphs of a model in ONNX as its file states them; their places are the numbers that origins have."""
    from layoutsolve.frontend.onnx import listing

    return listing.listed(model)


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
    model: Model | OnnxSource, name: str, reading: Reading, check: Check | None = None, budget: Budget | None = None
) -> Graph:
    """The reference graph of a model that was parsed; the rest, and what it raises, is as for :func:`read`."""
    budget = budget or Budget(model.size, reading.max_size)
    if not isinstance(model, Model):
        return _of_onnx(model, name, reading, budget)
    graph = attention_masks.bounded(lower(model, name, reading, check, budget))
    decomposed = reading.storage.decomposed
    if not (decomposed and any(value.quant is not None for value in graph.values.values())):
        graph = dilations.recognise(graph)  # whose int8 kernels may round otherwise
    graph = block_moves.recognise(upsampling.recognise(graph))
    if not decomposed:
        graph = pad_absorption.absorbed(graph)
        graph = recurrent.recognise(hard_activations.recognise(layer_norm.recognise(graph, budget)), budget)
    graph = affine.folded(graph)
    if reading.quant == "float":
        graph = float_activations.computed(graph, budget)
    elif reading.quant == "symmetric":
        graph = symmetric_activations.computed(graph, budget)
    elif reading.weights == "symmetric":
        graph = symmetric.rounded(graph)
    graph = whole_blocks.cut(channel_rounding.rounded(graph, reading.storage, budget), reading.storage, budget)
    if reading.quant not in KEEPING:  # in which no kernel of this machine computes on bytes
        graph = _as_stored(graph, reading, budget)
    direct = Counter(node.op for node in graph.nodes)
    operators = sum(len(subgraph.operators) for subgraph in model.subgraphs)
    return replace(
        graph, figures=Figures(direct["Transpose"], sum(direct[each] for each in VIEWS), operators, model.size)
    )


def _of_onnx(model: OnnxSource, name: str, reading: Reading, budget: Budget) -> Graph:
    from layoutsolve.frontend.onnx import lower as onnx
    from layoutsolve.proto import signed_products

    graph = integer_sums.recognise(slope_sums.recognise(onnx.lower(model, name, reading.shapes, budget)))
    graph = block_moves.recognise(pixel_rows.recognise(graph))
    graph = layer_scales.folded(hard_activations.recognise(graph), budget)
    if reading.storage.decomposed:
        graph = softmax_masks.finite(group_norms.composed(einsums.products(graph)))
    else:
        graph = layer_norm.recognise(graph, budget)
    graph = replace(graph, figures=replace(graph.figures, saturating=signed_products.count(graph)))
    return _as_stored(whole_blocks.cut(graph, reading.storage, budget), reading, budget)


def _as_stored(graph: Graph, reading: Reading, budget: Budget) -> Graph:
    """The graph with bytes stored as the runtime's kernels want them."""
    graph = pixels.filled(graph, reading.storage.pixel, budget)
    graph = groups.joined(weights.stored(graph, reading.storage.weights), reading.storage.groups, budget)
    graph = unsigned.stored(graph) if reading.storage.unsigned else graph
    graph = weights.alike(unsigned.signed(graph)) if reading.storage.signed else graph
    return leaky_relu_rounding.rounded(graph) if reading.storage.real else graph
