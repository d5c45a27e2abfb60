"""Which stored integers LiteRT's kernels compute with themselves: what several operators ask of theirs."""

from __future__ import annotations

from layoutsolve.emit.tflite.draft import Call
from layoutsolve.emit.tflite.meanings import same_steps
from layoutsolve.ir.graph import Value


def same_bytes(call: Call) -> bool:
    """Whether a node reads quantized int8 or uint8 and writes the same type."""
    value, made = call.value(0), call.output
    return value.in_bytes and made.in_bytes and value.dtype == made.dtype


def moves(call: Call) -> bool:
    """Whether stored integers keep their meaning."""
    return same_steps(call.value(0), call.output)


def alike(call: Call) -> bool:
    """Whether all inputs have the type and the steps of the result."""
    return all(same_steps(call.value(number), call.output) for number in range(len(call.node.inputs)))


def multiplies(data: Value, weights: Value) -> bool:
    """Whether a kernel multiplies quantized data by weights of their types: bytes by bytes of one scale, or integers
    with a sign by int8 around zero.
    """
    if data.quant is None or weights.quant is None or data.quant.axis is not None:
        return False
    if data.dtype == "uint8":
        return weights.dtype == "uint8" and weights.quant.axis is None
    if weights.dtype not in ("int8", "int4") or weights.quant.zero_point.any():
        return False
    return data.dtype == "int8" or (data.dtype == "int16" and not data.quant.zero_point.any())
