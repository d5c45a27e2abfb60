"""Convolutions and products of matrices: sums of products of integers, in float32, which are exact below 2^24."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from layoutsolve.frontend.tflite.exact.builder import (
    REMEDY,
    WHOLE,
    OnNumbers,
    finish,
    numbers,
    quant_in,
    reach,
    scale_of,
    step,
)
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, cast_to
from layoutsolve.ir.graph import Array, Quant, Value

_CHANNELS, _ELEMENTS = 8, 16
"""The channels of int8, or elements of uint8, that some of LiteRT's kernels compute at a time; they round those that
are left over otherwise.
"""

_BASES = (16, 8, 4)
"""What weights are split by into digits, until the sums of each digit are exact."""


@dataclass(frozen=True)
class _Ports:
    """Where the operator has its input and its bias, and which axis of the weights that of the outputs is."""

    data: int = 0
    bias: int = 2
    axis: int = 0


_PORTS = {
    "CONV_2D": _Ports(),
    "DEPTHWISE_CONV_2D": _Ports(axis=3),
    "FULLY_CONNECTED": _Ports(),
    "TRANSPOSE_CONV": _Ports(data=2, bias=3),
}


@exactly(*_PORTS)
def products(call: Call) -> None:
    """Products with constant weights, rescaled per channel."""
    ports = _PORTS[call.operator.name]
    x, weights, bias, slot = call.input(ports.data), call.input(1), call.optional(ports.bias), call.slot()
    quant_in(call, x), quant_in(call, slot)
    whole = _whole(call, weights, x.dtype, ports.axis)
    added = None if bias is None else bias.data
    if bias is not None and (added is None or bias.dtype != "int32"):
        raise GapError("--quant exact covers constant biases of int32", REMEDY)
    offsets = np.zeros(whole.shape[ports.axis], np.int64) if added is None else added.reshape(-1).astype(np.int64)
    sums, low, high = _sums(call, ports, x, whole, offsets)
    rescaling = Rescaling.by(_factors(call, x, weights, slot), _away(call, whole.shape[ports.axis]))
    finish(call, sums, rescaling, (low, high))


def _whole(call: Call, weights: Value, dtype: str, axis: int) -> Array:
    """Weights less their zero points, where LiteRT reads them as the file says."""
    quant = weights.quant
    if weights.data is None or weights.dtype not in BYTES or quant is None or quant.block:
        raise GapError("--quant exact covers constant weights of 8 bits", REMEDY)
    if weights.dtype != dtype or quant.axis not in (None, axis) or (dtype == "int8" and quant.zero_point.any()):
        raise GapError("LiteRT passes over the axis, the zero points or the sign of its weights", REMEDY)
    return np.asarray(
        weights.data.astype(np.int64) - quant.spread(quant.zero_point.astype(np.int64), weights.data.ndim)
    )


def _factors(call: Call, x: Value, weights: Value, slot: Slot) -> Array:
    """What LiteRT multiplies sums by: it takes the product of scales per channel in doubles, other ones in floats."""
    given, scales = scale_of(quant_in(call, x)), weights.quant.scale if weights.quant else np.ones(1, np.float32)
    per_channel = x.dtype == "int8" and (call.operator.name != "FULLY_CONNECTED" or scales.size > 1)
    product = given.astype(np.float64) * scales if per_channel else (given * scales).astype(np.float64)
    return np.asarray(product / np.float64(scale_of(quant_in(call, slot))))


def _away(call: Call, channels: int) -> Array:
    """The channels whose halves LiteRT rounds away from zero."""
    if call.operator.name in ("CONV_2D", "FULLY_CONNECTED"):
        grouped = call.operator.name == "CONV_2D" and call.input(0).shape[-1] != call.input(1).shape[-1]
        return np.array([grouped])
    if call.slot().dtype == "int8":
        return np.arange(channels) >= channels // _CHANNELS * _CHANNELS
    if call.operator.name == "TRANSPOSE_CONV" and (call.draft.dynamic or prod(call.tensor().shape) % _ELEMENTS):
        raise GapError(f"LiteRT rounds by position where its elements are no multiple of {_ELEMENTS}", REMEDY)
    return np.array([call.operator.name == "DEPTHWISE_CONV_2D"])


def _sums(call: Call, ports: _Ports, x: Value, whole: Array, bias: Array) -> tuple[Value, Array, Array]:
    """The sums, in float32 or as doubles of several, and how far they reach per channel."""
    given, span = numbers(call, x), reach(call, x)
    low, high = _extremes(whole, ports.axis, span, bias)
    if max(-low.min(), high.max()) < WHOLE:
        added = call.constant(bias, "bias", "float32") if bias.any() else None
        return _product(call, ports, given, whole, added), low, high
    for base in _BASES:
        digits = _digits(whole, base)
        ends = [_extremes(digit, ports.axis, span, np.zeros_like(bias)) for digit in digits]
        if all(max(-least.min(), most.max()) < WHOLE for least, most in ends):
            total = call.constant(bias, "bias", "float64")
            for power, digit in enumerate(digits):
                part = cast_to(call, _product(call, ports, given, digit, None), "float64")
                total = step(call, "Add", step(call, "Mul", part, float(base**power)), total)
            return total, low, high
    raise GapError("its sums have too many terms to be exact", REMEDY)


def _extremes(whole: Array, axis: int, span: tuple[int, int], bias: Array) -> tuple[Array, Array]:
    """The least and the greatest that any part of the sum of a channel can be."""
    ends = np.stack([whole * span[0], whole * span[1]])
    others = tuple(each for each in range(whole.ndim) if each != axis)
    return ends.min(0).sum(others) + np.minimum(bias, 0), ends.max(0).sum(others) + np.maximum(bias, 0)


def _digits(whole: Array, base: int) -> list[Array]:
    """Weights as digits to a base, the least first; the last has their sign."""
    digits, rest = list[Array](), whole
    while rest.min() < -base or rest.max() >= base:
        digits.append(rest % base)
        rest = rest // base
    return [*digits, rest]


def _product(call: Call, ports: _Ports, x: Value, whole: Array, bias: Value | None) -> Value:
    """The operator on floats that are integers. Weights stay bytes in the file."""
    zero = int(np.clip(0, whole.max() - 127, whole.min() + 128))
    step_of_one = Quant(np.ones(1, np.float32), np.array([-zero], np.int64).astype(np.int8))
    kept = call.constant(whole - zero, "weights", "int8", step_of_one)
    return OnNumbers(call, {ports.data: x, 1: kept, ports.bias: bias}, "sums").lowered()
