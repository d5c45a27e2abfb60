"""Quantisation annotations written as QuantizeLinear and DequantizeLinear.

The quant pattern is ``op -> QuantizeLinear -> stored tensor -> DequantizeLinear -> op``. A stored tensor has one of
each at most, however many operators read it, so a graph of O operators over T quantised tensors has at most O + 2T
nodes. Where there is an operator on stored integers that may be used it is written instead (``qlinear.py``).

ONNX Runtime computes no DequantizeLinear ahead of time, lest it lose a kernel on integers. Where there can be none,
because a constant is combined with floats, that is written as ``Cast -> (Sub) -> Mul`` instead: the same numbers,
computed once when the model is loaded.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from layoutsolve.emit import qlinear, selected_weights
from layoutsolve.emit.parameters import parameters_of
from layoutsolve.emit.writer import Writer
from layoutsolve.ir.graph import CAPTURES, KEPT, Node, Quant
from layoutsolve.proto.messages import AttributeProto, graphs_in
from layoutsolve.proto.scopes import rename


def write(writer: Writer, node: Node) -> None:
    """Write a node that computes on what its tensors mean, or moves what is stored."""
    for name in node.outputs:
        writer.describe(name)
    if node.outputs and node.outputs[0] in writer.meant:
        (name,), (data, *others) = node.outputs, node.inputs
        writer.node(node.op, [_real(writer, data), *map(writer.stored, others)], [name], node.attributes)
        writer.body.real[name] = name
        return
    if qlinear.write(writer, node) or selected_weights.write_product(writer, node):
        return
    single = len(node.inputs) == len(node.outputs) == 1
    if node.op == "Identity" and single and not node.storage and _convert(writer, node.inputs[0], node.outputs[0]):
        return
    inputs = [(writer.stored(name) if node.storage else _real(writer, name)) if name else "" for name in node.inputs]
    attributes = dict(node.attributes)
    if CAPTURES in attributes:
        inputs = _captured(attributes, inputs)
    while inputs and not inputs[-1]:  # OpenVINO takes an empty name at the end for an input
        inputs.pop()
    quants = [writer.graph.values[name].quant if name and not node.storage else None for name in node.outputs]
    pairs = list(zip(node.outputs, quants, strict=True))
    outputs = [writer.taken.derived(name, "real") if quant else writer.name(name) for name, quant in pairs]
    writer.node(node.op.removeprefix(KEPT), inputs, outputs, attributes, node.domain)
    for real, (name, quant) in zip(outputs, pairs, strict=True):
        if quant:
            _quantize(writer, real, name, quant)


def _captured(attributes: dict[str, Any], inputs: list[str]) -> list[str]:
    """Let the graphs within a node read what is around it under the names that it has in the file; the inputs that are
    left are the node's own.
    """
    names = attributes.pop(CAPTURES)
    own = len(inputs) - len(names)
    renamed = {old: new for old, new in zip(names, inputs[own:], strict=True) if old != new}
    for key, value in attributes.items():
        if renamed and isinstance(value, AttributeProto):
            attributes[key] = copy = AttributeProto()
            copy.CopyFrom(value)
            for graph in graphs_in(copy):
                rename(graph, renamed)
    return inputs[:own]


def _convert(writer: Writer, source: str, target: str) -> bool:
    """Write an Identity between differently stored tensors as quantisation alone; False where both are plain."""
    before, after = writer.graph.values[source].quant, writer.graph.values[target].quant
    if after is not None:
        _quantize(writer, _real(writer, source), target, after)
        return True
    if before is not None:
        _dequantize(writer, source, before, writer.name(target))
        return True
    return False


def _real(writer: Writer, name: str) -> str:
    """The name under which the real numbers of a tensor are found; written once, read by all."""
    quant, known = writer.graph.values[name].quant, writer.body.real
    if quant is None:
        return writer.stored(name)
    if name not in known:
        real = writer.taken.derived(name, "real")
        if name in writer.selection.real:
            writer.selection.real[name] = writer.bodies[None].real[name] = real
        else:
            _dequantize(writer, name, quant, real)
            known[name] = real
    return known[name]


def _dequantize(writer: Writer, name: str, quant: Quant, real: str) -> None:
    if name in writer.ahead:
        _compute_ahead(writer, name, quant, real)
        return
    parameters, attributes = parameters_of(writer, name, quant)
    writer.node("DequantizeLinear", [writer.stored(name), *parameters], [real], attributes)


def _compute_ahead(writer: Writer, name: str, quant: Quant, real: str) -> None:
    """Write what a constant means as operators on constants."""
    at, rank = writer.stored(name), len(writer.graph.values[name].shape)
    steps = [("Mul", "scale", quant.scale)]
    if quant.zero_point.any():
        steps.insert(0, ("Sub", "zero_point", quant.zero_point.astype(np.float32)))
    after = writer.taken.derived(name, "float")
    writer.node("Cast", [at], [after], {"to": "float32"})
    for op, title, parameter in steps:
        before, after = after, real if op == "Mul" else writer.taken.derived(name, "centred")
        operand = writer.shared("float32", quant.spread(parameter, rank), partial(writer.taken.derived, name, title))
        writer.node(op, [before, operand], [after])


def _quantize(writer: Writer, real: str, name: str, quant: Quant) -> None:
    parameters, attributes = parameters_of(writer, name, quant)
    writer.node("QuantizeLinear", [real, *parameters], [writer.name(name)], attributes)
