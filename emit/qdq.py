"""Quantization annotations written as QuantizeLinear and DequantizeLinear.

The quant pattern is ``op -> QuantizeLinear -> stored tensor -> DequantizeLinear -> op``. A stored tensor has one of
each at most, however many operators read it, so a graph of O operators over T quantized tensors has at most O + 2T
nodes; where weights are selected on loading each reader has a DequantizeLinear. Where there is an operator on stored
integers that may be used it is written instead (``qlinear.py``).

ONNX Runtime computes no DequantizeLinear ahead of time, lest it lose a kernel on integers. Where there can be none,
because a constant is combined with floats, that is written as ``Cast -> (Sub) -> Mul`` instead: the same numbers,
computed once when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from layoutsolve.emit import qlinear, selected_weights, slow_int8_kernels
from layoutsolve.emit.parameters import parameters_of
from layoutsolve.emit.writer import Writer
from layoutsolve.ir.graph import CAPTURES, KEPT, Array, Graph, Node, Quant, Value
from layoutsolve.ir.saturation import may_have_kernel
from layoutsolve.proto.messages import AttributeProto, graphs_in
from layoutsolve.proto.scopes import rename

_ADDING = ("AveragePool", "Conv", "ConvTranspose")
"""The operators on images that add many numbers."""

_CHANNELS, _BYTE, _HELD = 1, 255, 1 << 24
"""The dimension of channels, the largest difference of two bytes, and up to where floats hold all integers."""

_LAYER, _WIDTH, _ROWS, _TINY = ("Gemm", "MatMul"), 256, 8, np.float32(2.0**-126)
"""The products of which OpenVINO makes one kernel where they follow each other, their most columns and rows there, and
the least number that no runtime takes for 0.
"""


def write(writer: Writer, node: Node) -> None:
    """Write a node that computes on what its tensors mean, or moves what is stored."""
    for name in node.outputs:
        writer.describe(name)
    if node.outputs and node.outputs[0] in writer.meant:
        (name,), (data, *others) = node.outputs, node.inputs
        writer.node(node.op, [_real(writer, data), *map(writer.stored, others)], [name], node.attributes)
        writer.body.real[name] = name
        return
    if qlinear.write(writer, node) or selected_weights.write_product(writer, node) or _write_sums(writer, node):
        return
    single = len(node.inputs) == len(node.outputs) == 1
    if node.op == "Identity" and single and not node.storage and _convert(writer, node.inputs[0], node.outputs[0]):
        return
    inputs = [(writer.stored(name) if node.storage else _real(writer, name)) if name else "" for name in node.inputs]
    attributes, op = dict(node.attributes), node.op.removeprefix(KEPT)
    bias = _unequal_bias(writer, node)
    if bias is not None:
        op, inputs[2:] = "Gemm", [writer.initializer(writer.taken.derived(node.outputs[0], "bias"), "float32", bias)]
    if CAPTURES in attributes:
        inputs = _captured(writer, node, attributes, inputs)
    while inputs and not inputs[-1]:  # OpenVINO takes an empty name at the end for an input
        inputs.pop()
    quants = [writer.graph.values[name].quant if name and not node.storage else None for name in node.outputs]
    pairs = list(zip(node.outputs, quants, strict=True))
    outputs = [writer.taken.derived(name, "real") if quant else writer.name(name) for name, quant in pairs]
    writer.node(op, inputs, outputs, attributes, node.domain)
    for real, (name, quant) in zip(outputs, pairs, strict=True):
        if quant:
            _quantize(writer, real, name, quant)


def _write_sums(writer: Writer, node: Node) -> bool:
    """Write what adds in floats, an average of windows or a convolution, as one of what is stored, where one file is
    for all processors; False for all other nodes. Their kernels add in other orders, or round products before they do:
    floats hold sums of integers exactly, so that results are the same.
    """
    scale = _scale_of_sums(writer, node) if writer.selects and not (node.storage or node.domain) else None
    if scale is None:
        return False
    made = writer.graph.values[node.outputs[0]]
    inputs, sums = [], writer.taken.derived(made.name, "sums")
    for name in filter(None, node.inputs):
        quant = writer.graph.values[name].steps
        inputs.append(writer.taken.derived(name, "integers"))
        _dequantize(writer, name, replace(quant, scale=np.ones_like(quant.scale)), inputs[-1])
    writer.node(node.op, inputs, [sums], node.attributes)
    scale = writer.alike(made.steps.scale / scale)
    axis = None if scale.size == 1 else _CHANNELS
    _quantize(writer, sums, made.name, Quant(scale, np.repeat(made.steps.zero_point, scale.size), axis))
    return True


def _scale_of_sums(writer: Writer, node: Node) -> Array | None:
    """What integers mean that a node adds in floats, one number or one for each channel; None where it does not add
    such, or floats do not hold them.
    """
    values = [writer.graph.values[name] for name in (*node.inputs, *node.outputs) if name]
    if node.op not in _ADDING or not (values[0].in_bytes and values[-1].in_bytes):
        return None
    x, *others, made = values
    found = _of_weights(writer, node, others) if others else _of_window(writer, node)
    if found is None:
        return None
    weight, largest = found
    with np.errstate(all="ignore"):
        scale = x.steps.scale * weight
        held = largest < _HELD and qlinear.are_held(made.steps.scale / scale)
    return scale if held and all(qlinear.counts_in(bias, scale) for bias in others[1:]) else None


def _of_window(writer: Writer, node: Node) -> tuple[Array, float] | None:
    """What an average multiplies by before it divides, and its largest sum; None where kernels on bytes compute it."""
    given, made = (slow_int8_kernels.sizes(writer.graph, name) for name in (node.inputs[0], node.outputs[0]))
    window = node.attributes["kernel_shape"]
    slow = slow_int8_kernels.of_windows(given, made, window)
    return (np.ones(1, np.float32), _BYTE * prod(window)) if slow else None


def _of_weights(writer: Writer, node: Node, others: Sequence[Value]) -> tuple[Array, float] | None:
    """The scale of a convolution's weights, one number or one for each result, and its largest sum; None where kernels
    on bytes compute it, or the scales are of something else.
    """
    weights, at = others[0], int(node.op == "ConvTranspose")
    if not writer.ahead.issuperset(each.name for each in others) or (at and node.attributes.get("group", 1) != 1):
        return None
    if weights.data is None or weights.quant is None or weights.quant.axis not in (None, at):
        return None
    integers = replace(weights.quant, scale=np.ones_like(weights.quant.scale)).real(weights.data)
    sums = _BYTE * np.abs(integers).sum(tuple(axis for axis in range(integers.ndim) if axis != at), np.float64)
    added = (np.abs(bias.data.astype(np.float64)) for bias in others[1:] if bias.data is not None)
    return weights.quant.scale, float(sum((each.max(initial=0) for each in added), sums.max(initial=0)))


def _unequal_bias(writer: Writer, node: Node) -> Array | None:
    """A bias for a product that OpenVINO may join to others, in place of none or one of equal numbers: the same but for
    the last bit of one of them; None for all other nodes.

    OpenVINO (TokenizeMLPSeqSnippets) makes one kernel of products that follow each other. Its results are wrong, by the
    whole range, unless each product adds a vector of its own, and one of equal numbers is a scalar to it.
    """
    width = writer.graph.values[node.outputs[0]].shape[-1] if _may_be_joined(writer.graph, node) else None
    if not isinstance(width, int):
        return None
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    bias = writer.graph.values[given] if given else Value("", "float32", (1,), data=np.zeros(1, np.float32))
    if bias.data is None:
        return None
    real = bias.real
    if (real != real.flat[0]).any() or (width == 1 and real.any()):
        return None
    unequal = np.full(width, real.flat[0], np.float32)
    unequal[:1] = max(np.nextafter(unequal[0], np.float32(np.inf)), _TINY, key=abs)
    return unequal


def _may_be_joined(graph: Graph, node: Node) -> bool:
    """Whether a node is a product of few numbers by int8 weights."""
    if node.op not in _LAYER or not may_have_kernel(graph, node) or node.attributes.get("transA"):
        return False
    if len(node.inputs) < 2:  # which the check of the model refuses
        return False
    x, weights, made = (graph.values[name] for name in (*node.inputs[:2], node.outputs[0]))
    if weights.dtype != "int8" or weights.quant is None or weights.data is None or len(x.shape) != len(made.shape):
        return False
    sizes, most = (*x.shape, made.shape[-1]), (_ROWS, _WIDTH, _WIDTH)
    return len(sizes) == len(most) and all(
        isinstance(n, int) and n <= limit for n, limit in zip(sizes, most, strict=True)
    )


def _captured(writer: Writer, node: Node, attributes: dict[str, Any], inputs: list[str]) -> list[str]:
    """Let the graphs within a node read what is around it under the names that it has in the file, and be right on
    every processor; the inputs that are left are the node's own.
    """
    names = attributes.pop(CAPTURES)
    own = len(inputs) - len(names)
    renamed = {old: new for old, new in zip(names, inputs[own:], strict=True) if old != new}
    around = {new: writer.graph.values[name] for new, name in zip(inputs[own:], node.inputs[own:], strict=True)}
    for key, value in attributes.items():
        if isinstance(value, AttributeProto) and graphs_in(value):
            attributes[key] = copy = AttributeProto()
            copy.CopyFrom(value)
            for graph in graphs_in(copy):
                rename(graph, renamed)
            selected_weights.write_inner(writer, graphs_in(copy), around)
    return inputs[:own]


def _convert(writer: Writer, source: str, target: str) -> bool:
    """Write an Identity between differently stored tensors as quantization alone; False where both are plain."""
    before, after = writer.graph.values[source].quant, writer.graph.values[target].quant
    if after is not None:
        _quantize(writer, _real(writer, source), target, after)
        return True
    if before is not None:
        _dequantize(writer, source, before, writer.name(target))
        return True
    return False


def _real(writer: Writer, name: str) -> str:
    """The name under which the real numbers of a tensor are found; written once and read by all, but for those of which
    each reader has its own.
    """
    quant, known = writer.graph.values[name].quant, writer.body.real
    if quant is None:
        return writer.stored(name)
    if name not in known or _has_own(writer, name):
        real = writer.taken.derived(name, "real")
        if name in writer.selection.real:
            writer.selection.real[name] = writer.bodies[None].real[name] = real
        else:
            _dequantize(writer, name, quant, real)
            known[name] = real
    return known[name]


def _has_own(writer: Writer, name: str) -> bool:
    """Whether each reader of a stored tensor has a DequantizeLinear: where weights are selected on loading, as ONNX
    Runtime makes one for each before it optimises, and then infers all types anew, which takes longer with branches.
    """
    selected = writer.selection.real
    return bool(selected) and name in writer.body.real.maps[0] and not (name in selected or name in writer.ahead)


def _dequantize(writer: Writer, name: str, quant: Quant, real: str) -> None:
    if name in writer.ahead:
        _compute_ahead(writer, name, quant, real)
        return
    parameters, attributes = parameters_of(writer, name, quant)
    inputs = [writer.stored(name), *parameters]
    if name in writer.mixed:
        selected_weights.write_dequantized(writer, name, inputs, real, attributes)
    else:
        writer.node("DequantizeLinear", inputs, [real], attributes)


def _compute_ahead(writer: Writer, name: str, quant: Quant, real: str) -> None:
    """Write what a constant means as operators on constants."""
    rank, units = len(writer.graph.values[name].shape), {"Sub": 0, "Mul": 1}
    steps = {"Sub": ("zero_point", quant.zero_point.astype(np.float32)), "Mul": ("scale", quant.scale)}
    kept = [op for op, (_, parameter) in steps.items() if (parameter != units[op]).any()]
    names = [writer.taken.derived(name, title) for title in ("float", "centred")[: len(kept)]] + [real]
    writer.node("Cast", [writer.stored(name)], names[:1], {"to": "float32"})
    for op, before, after in zip(kept, names, names[1:], strict=False):
        title, parameter = steps[op]
        operand = writer.shared("float32", quant.spread(parameter, rank), partial(writer.taken.derived, name, title))
        writer.node(op, [before, operand], [after])


def _quantize(writer: Writer, real: str, name: str, quant: Quant) -> None:
    parameters, attributes = parameters_of(writer, name, quant)
    writer.node("QuantizeLinear", [real, *parameters], [writer.name(name)], attributes)
