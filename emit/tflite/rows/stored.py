"""Which stored integers LiteRT's kernels compute with themselves: what several operators ask of theirs."""

from __future__ import annotations

from layoutsolve.emit.tflite.draft import Call
from layoutsolve.ir.graph import Value


def same_bytes(call: Call) -> bool:
    """Whether a node reads bytes and writes the same type."""
    value, made = call.value(0), call.output
    return value.in_bytes and made.in_bytes and value.dtype == made.dtype


def moves(call: Call) -> bool:
    """Whether stored integers keep their meaning."""
    value, made = call.value(0), call.output
    return value.quant is not None and value.dtype == made.dtype and value.quant.matches(made.quant)


def alike(call: Call) -> bool:
    """Whether all inputs have the type and the steps of the result."""
    made, quant = call.output, call.output.quant
    values = [call.value(number) for number in range(len(call.node.inputs))]
    return quant is not None and all(each.dtype == made.dtype and quant.matches(each.quant) for each in values)


def multiplies(data: Value, weights: Value) -> bool:
    """Whether a kernel multiplies quantised numbers by weights of their types: bytes by bytes of one scale, or numbers
    with a sign by int8 around zero.
    """
    if data.quant is None or weights.quant is None or data.quant.axis is not None:
        return False
    if data.dtype == "uint8":
        return weights.dtype == "uint8" and weights.quant.axis is None
    if weights.dtype != "int8" or weights.quant.zero_point.any():
        return False
    return data.dtype == "int8" or (data.dtype == "int16" and not data.quant.zero_point.any())
