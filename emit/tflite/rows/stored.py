"""Which stored integers LiteRT's kernels compute with themselves: what several operators ask of theirs."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.draft import LARGEST
from layoutsolve.emit.tflite.meanings import in_steps, same_steps
from layoutsolve.ir.graph import Value


def same_bytes(call: Call) -> bool:
    """Whether a node reads quantized int8 or uint8 and writes the same type."""
    value, made = call.value(0), call.output
    return value.in_bytes and made.in_bytes and value.dtype == made.dtype


def same_integers(call: Call) -> bool:
    """The same of int8, uint8 or int16."""
    value, made = call.value(0), call.output
    return in_steps(value) and in_steps(made) and value.dtype == made.dtype


def signed_bytes(call: Call) -> bool:
    """Whether a kernel looks results up, or computes them, of signed bytes alone."""
    return same_bytes(call) and call.output.dtype == "int8"


def looked_up(call: Call) -> bool:
    """The same of signed integers of 16 bits too."""
    return same_integers(call) and call.output.dtype != "uint8"


def moves(call: Call) -> bool:
    """Whether stored integers keep their meaning."""
    return same_steps(call.value(0), call.output)


def alike(call: Call) -> bool:
    """Whether all inputs have the type and the steps of the result."""
    return all(same_steps(call.value(number), call.output) for number in range(len(call.node.inputs)))


STEEPEST = 256
"""How many times a step of the result what it is computed of must be less: XNNPACK prepares no product of more, and
LiteRT's ADD and SUB give wrong numbers far above it, or end the process.
"""

_SHIFTED = 1 << 20


def is_coarse(value: Value, made: Value) -> bool:
    """Whether one step of an operand is too many of a result for kernels on integers, which multiply that of a result
    by 2^20: where no float is as large they end the process.
    """
    if value.quant is None or made.quant is None:
        return False
    most = float(made.quant.scale.max())
    return bool(value.quant.scale.max() >= STEEPEST * made.quant.scale.min()) or most >= LARGEST / _SHIFTED


def is_coarse_product(data: Value, weights: Value, made: Value, most: float = STEEPEST) -> bool:
    """The same of a product, of which a step is to be less than ``most`` of the result's."""
    if data.quant is None or weights.quant is None or made.quant is None:
        return False
    return float(data.quant.scale.max()) * float(weights.quant.scale.max()) >= most * float(made.quant.scale.min())


MOST_ADDED = (1 << 30) + (1 << 12)
"""How many steps of a product may be added to it: kernels sum up in 32 bits. TensorFlow's converter limits them to half
of that, but for what floats round.
"""


def is_coarse_layer(call: Call) -> bool:
    """The same of a product by weights; what is added in floats is rounded to its steps, which adds half of one. Where
    these are too many it is computed in floats too.
    """
    data, weights, given = call.value(0).quant, call.value(1).quant, call.data(2)
    if given is not None and data is not None and weights is not None and call.value(0).dtype != "int16":
        quant = call.value(2).quant
        real = (given if quant is None else quant.real(given)).reshape(-1).astype(np.float64)
        each = weights.scale.reshape(-1) if weights.scale.size == real.size else weights.scale.min()
        if (np.abs(real) > MOST_ADDED * data.scale.astype(np.float64).max() * each).any():
            return True
    added = call.has(2) and call.value(2).quant is None
    return is_coarse_product(call.value(0), call.value(1), call.output, 2 if added else STEEPEST)


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
