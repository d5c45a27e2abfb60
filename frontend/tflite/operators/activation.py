"""Activations and softmax."""

from __future__ import annotations

from math import inf, pi, sqrt

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.rounding import multiplied, settled
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, cast_to, lift_of, raised, store, write_clamped
from layoutsolve.ir.graph import Shape, Value

CLAMPS = {"RELU": (0.0, inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_PLAIN = {"ELU": "Elu", "HARD_SWISH": "HardSwish", "LOGISTIC": "Sigmoid", "TANH": "Tanh"}

_MOST = 2.0**15
"""The steps of the result that a step of the input may become, so that products of bytes stay below 2^31."""

_STEEP = 1e4
"""The beta of SOFTMAX from which on a product with it may exceed the range of floats."""


@lowers(*CLAMPS, signature="FQ -> =", quantized=INT8_AND_INT16)
def clamp(call: Call) -> None:
    """The RELU family."""
    slot = call.slot()
    x = call.input(0)
    write_clamped(call, raised(call, x, lift_of(x, slot)), CLAMPS[call.operator.name], slot)


@lowers(*_PLAIN, signature="FQ -> =", quantized=INT8_AND_INT16)
def plain(call: Call) -> None:
    """Activations that ONNX has under another name."""
    x = call.input(0)
    call.write(_PLAIN[call.operator.name], [x], x.shape, call.slot())


@lowers("LEAKY_RELU", signature="FQ -> =", quantized=INT8_AND_INT16)
def leaky_relu(call: Call) -> None:
    """LEAKY_RELU."""
    x, slot, alpha = call.input(0), call.slot(), float(call.option("alpha", 0.0))
    if x.quant is not None and x.dtype in BYTES and slot.dtype in BYTES:
        alpha = _slope(x, slot, 1, alpha)
    call.write("LeakyRelu", [x], x.shape, slot, alpha=alpha)


def _slope(x: Value, slot: Slot, count: int, step: float) -> float:
    """A slope near to ``count`` times ``step`` by which bytes below zero become what LiteRT makes of them: it
    multiplies them by the count, and then by the step and the scales.
    """
    slope = count * step
    if x.quant is None or slot.quant is None or x.quant.axis is not None or slot.quant.axis is not None:
        return slope
    least, greatest = limits(slot.dtype)
    zero, factor = int(slot.quant.zero_point[0]), float(x.quant.scale[0]) / float(slot.quant.scale[0])
    below = np.arange(limits(x.dtype)[0] - int(x.quant.zero_point[0]), 0)
    if not below.size or not 0 < abs(slope) * factor < _MOST:
        return slope
    multiplier = float(x.quant.scale[0] * np.float32(step) / slot.quant.scale[0])  # which LiteRT computes in float32
    targets = multiplied(below * count, multiplier)
    return settled(slope, below * factor, targets, least - zero, greatest - zero)


@lowers("PRELU", signature=("FQ = -> =", "H E -> ="), quantized=INT8_AND_INT16)
def prelu(call: Call) -> None:
    """PRELU, its slope broadcast to the input."""
    x, slope = call.input(0), call.input(1)
    shape = repeated(call, x, slope)
    if x.dtype == slope.dtype == "int16":
        raise GapError("its slope is of 16 bits, of which LiteRT reads 8", "quantize the slope to int8")
    slot = call.slot()
    call.write("PRelu", [x, _slopes(call, x, slope, slot)], shape, slot)


def repeated(call: Call, x: Value, slope: Value) -> Shape:
    """The shape of a PRELU: a size of its input that is not known is that of its slope, as LiteRT repeats no input."""
    shape = broadcast([x.shape, slope.shape], call.arithmetic)
    known = [(dim, size) for dim, size in zip(x.shape, shape, strict=False) if isinstance(dim, int)]
    if len(shape) != len(x.shape) or any(dim != size for dim, size in known):
        raise GapError("its slope is larger than its input", "broadcast the input first")
    return shape


def _slopes(call: Call, x: Value, slope: Value, slot: Slot) -> Value:
    """The slopes of bytes as floats that round as LiteRT does, where they are constant; ONNX computes with floats."""
    if slope.data is None or slope.quant is None or slope.quant.axis is not None or x.quant is None:
        return slope
    if any(dtype not in BYTES for dtype in (x.dtype, slope.dtype, slot.dtype)):
        return slope
    step, zero = float(slope.quant.scale[0]), int(slope.quant.zero_point[0])
    stored, places = np.unique(slope.data, return_inverse=True)
    counts = (stored.astype(int) - zero).tolist()
    found = np.array([_slope(x, slot, count, step) for count in counts], np.float32)
    return call.constant(found[places].reshape(slope.shape), "slopes", "float32")


@lowers("SOFTMAX", signature=("FQ -> =", "Q -> H"), quantized=INT8_AND_INT16)
def softmax(call: Call) -> None:
    """SOFTMAX over the last axis; beta scales its input, from which a large one needs the greatest subtracted first.

    ONNX Runtime's kernel for bytes (1.31) overflows where there is one class. exp(x - x) gives its 1 as well; where
    there may be one a minimum that changes nothing keeps that kernel away.
    """
    x, beta = call.input(0), float(call.option("beta", 0.0))
    if not x.shape:
        raise ModelError(f"{call.origin} reads a scalar")
    if x.quant is not None and x.shape[-1] == 1:
        zero = call.write("Sub", [x, x], x.shape, call.temporary("zero"))
        call.write("Exp", [zero], x.shape, call.slot())
        return
    if beta > _STEEP:
        axes = call.vector([len(x.shape) - 1], "axes")
        most = call.write("ReduceMax", [x, axes], (*x.shape[:-1], 1), call.temporary("most", real_dtype(x)), keepdims=1)
        x = call.write("Sub", [x, most], x.shape, call.temporary("below", real_dtype(x)))
    if beta != 1.0:
        x = call.write("Mul", [x, call.constant(beta, "beta", "float32")], x.shape, call.temporary("scaled"))
    if x.quant is None or isinstance(x.shape[-1], int):
        call.write("Softmax", [x], x.shape, call.slot(), axis=len(x.shape) - 1)
        return
    shares = call.write("Softmax", [x], x.shape, call.temporary("shares", "float32"), axis=len(x.shape) - 1)
    call.write("Min", [shares, call.constant(1.0, "whole", "float32")], x.shape, call.slot())


@lowers("LOG_SOFTMAX", signature="FQ -> =", quantized=INT8_AND_INT16)
def log_softmax(call: Call) -> None:
    """LOG_SOFTMAX over the last axis."""
    x = call.input(0)
    if not x.shape:
        raise ModelError(f"{call.origin} reads a scalar")
    call.write("LogSoftmax", [x], x.shape, call.slot(), axis=len(x.shape) - 1)


@lowers("GELU", signature="FQ -> =", quantized=INT8_AND_INT16)
def gelu(call: Call) -> None:
    """GELU = x/2 * (1 + erf(x/sqrt(2))), or its approximation by tanh, in the forms that ONNX Runtime computes at once:
    by a quotient, and by ``sqrt(2/pi) x * (1 + 0.044715 x^2)``. Its kernel of the approximation fails at a scalar: that
    is written in a form that it does not know.
    """
    x, slot = call.input(0), call.slot()
    half_wide = real_dtype(x) == "float16"
    if half_wide:
        x = cast_to(call, x, "float32", "wide")

    def step(op: str, value: Value, other: Value | float | None = None) -> Value:
        operand = call.constant(other, "factor", "float32") if isinstance(other, float) else other
        given = [value] if operand is None else [value, operand]
        return call.write(op, given, x.shape, call.temporary(op.lower()))

    if call.option("approximate", False):
        square = step("Mul", step("Mul", x, 0.044715), x)
        gate = step("Tanh", step("Mul", step("Mul", x, sqrt(2 / pi)), step("Add", square, 1.0)))
    else:
        gate = step("Erf", step("Div", x, sqrt(2)))
    half, more = step("Mul", x, 0.5), step("Add", gate, 1.0) if x.shape else step("Sub", gate, -1.0)
    result = call.temporary("wide_gelu") if half_wide else slot
    product = call.write("Mul", [half, more], x.shape, result)
    if half_wide:
        store(call, product, slot)
