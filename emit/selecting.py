"""Weights of 8 bits that are selected when the model is loaded.

Kernels for x86 that multiply bytes without a sign by weights with one take the least time on processors with VNNI; on
others their sums saturate, and weights without a sign are needed. A product of constants tells which processor this is,
and one If gives all weights in the form that it wants. Runtimes fold constants and inline the branch while they load,
so that what is left is the model that would have been written for the processor. The weights are stored once, with a
sign; those without one are computed from them outside of the If, where every version of ONNX Runtime folds them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from layoutsolve.emit.quantised import parameters_of
from layoutsolve.emit.writer import Writer
from layoutsolve.graph import Array, Quant, Value
from layoutsolve.protos import GraphProto, ModelProto, NodeProto, attribute

NAME = "weights_for_this_processor"
"""The name of the node that selects."""

_TELLS = (
    "Selects the weights of products of bytes while the model is loaded: int8 where this processor adds products "
    "exactly (VNNI, ARM, WebAssembly), uint8 where sums of uint8 by int8 saturate in 16 bits (other x86). "
    "Both are the same numbers."
)
_SIGN, _TERMS = 128, 4
_RUN = 16
"""How many numbers a runtime computes at a time at least; with a scalar, singly where the last size is 1."""


def selects(model: ModelProto) -> int:
    """How many weights a model selects when it is loaded."""
    return sum(len(node.output) for node in model.graph.node if node.op_type == "If" and node.name == NAME)


def write(writer: Writer) -> None:
    """Write, before all other nodes, what gives the weights that are selected."""
    chosen = {name: real for name, real in writer.selected.items() if real}
    if not chosen:
        return
    others, writer.body.nodes = writer.body.nodes, []
    exact, known = _exact(writer), dict[tuple[object, ...], Array]()
    signed, unsigned = GraphProto(name="int8"), GraphProto(name="uint8")
    for number, name in enumerate(chosen):
        value = writer.graph.values[name]
        assert value.quant is not None and value.data is not None
        stored = writer.stored(name)
        zero = _alike(known, (value.quant.zero_point.astype(np.int16) + _SIGN).astype(np.uint8))
        moved = Quant(value.quant.scale, zero, value.quant.axis)
        _dequantize(writer, signed, number, stored, value, value.quant)
        bare = _without_sign(writer, stored, value.data.shape, number, known)
        _dequantize(writer, unsigned, number, bare, value, moved)
    writer.node("If", [exact], list(chosen.values()), {})
    node = writer.body.nodes[-1]
    node.name, node.doc_string = writer.taken.unique(NAME), _TELLS
    node.attribute.append(attribute("then_branch", signed))
    node.attribute.append(attribute("else_branch", unsigned))
    writer.body.nodes += others


def _dequantize(writer: Writer, graph: GraphProto, number: int, stored: str, value: Value, quant: Quant) -> None:
    """Add to a branch, which is called as a type, what gives the real numbers of weights that are stored as it."""
    dtype = graph.name
    parameters, attributes = parameters_of(writer, value.name, quant, dtype)
    result = writer.taken.unique(f"weights/{number}/{dtype}/real")
    node = NodeProto(op_type="DequantizeLinear", name=f"DequantizeLinear:{result}", output=[result])
    node.input.extend([stored, *parameters])
    node.attribute.extend(attribute(key, given) for key, given in sorted(attributes.items()))
    writer.budget.write(sum(map(len, (node.name, *node.input, *node.output))), "its operators")
    graph.node.append(node)
    graph.output.append(writer.info(replace(value, dtype="float32"), result))


def _exact(writer: Writer) -> str:
    """Whether this processor adds products exactly: the largest ones, four at a time."""
    names = {title: writer.taken.unique(f"probe/{title}") for title in ("x", "weights", "right", "sum", "exact")}
    x, weights = np.full(_TERMS, 255, np.uint8), np.full(_TERMS, 127, np.int8)
    given = [writer.initializer(names["x"], "uint8", x), writer.initializer(names["weights"], "int8", weights)]
    right = writer.initializer(names["right"], "int32", np.array(_TERMS * 255 * 127, np.int32))
    writer.node("MatMulInteger", given, [names["sum"]])
    writer.node("Equal", [names["sum"], right], [names["exact"]])
    return names["exact"]


def _without_sign(
    writer: Writer, stored: str, shape: tuple[int, ...], number: int, known: dict[tuple[object, ...], Array]
) -> str:
    """The weights without a sign, computed from those with one."""
    sign = _alike(known, np.full(_last(shape), _SIGN, np.uint8))
    flip = writer.shared("uint8", sign, partial(writer.taken.unique, "probe/sign"))
    bits, result = (writer.taken.unique(f"weights/{number}/{title}") for title in ("bits", "uint8"))
    writer.node("Cast", [stored], [bits], {"to": "uint8"})
    writer.node("BitwiseXor", [bits, flip], [result])
    return result


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last dimensions of a shape that a runtime takes at a time; none where it takes a scalar as fast."""
    counts = range(1, len(shape) + 1)
    return () if shape[-1] > 1 else shape[-next((n for n in counts if np.prod(shape[-n:]) >= _RUN), len(shape)) :]


def _alike(known: dict[tuple[object, ...], Array], data: Array) -> Array:
    """The first array that is equal, so that it is written once."""
    return known.setdefault((data.dtype.str, data.shape, data.tobytes()), data)
