"""Pooling. Padding never counts: not in an average, and in a maximum it is minus infinity."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.shapes import LAST, Span, automatic, same_pads, window
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, INT16, lowers
from layoutsolve.frontend.tflite.lowering.rounding import steps
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.common import (
    BYTES,
    activation,
    as_steps,
    channels_last,
    first_slot,
    from_channels_first,
    open_bounds,
    ranked,
    store,
    to_channels_first,
    windows,
    write_activated,
)
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Shape, Value


def _window(call: Call) -> tuple[Value, Shape, dict[str, Any]]:
    x = ranked(call, call.input(0), 4)
    kernel = (call.option("filter_height"), call.option("filter_width"))
    strides = (call.option("stride_h"), call.option("stride_w"))
    if min(*kernel, *strides) > 0:
        x, strides = _thinned(call, x, kernel, strides)
    if x.shape[3] == 0:
        raise GapError("its images have no channels", "give it images with channels")
    spatial, attributes = windows(call, x.shape[1:3], kernel, strides, (1, 1))
    return x, (x.shape[0], x.shape[3], *spatial), attributes


def _thinned(call: Call, x: Value, kernel: tuple[int, int], strides: tuple[int, int]) -> tuple[Value, tuple[int, int]]:
    """The elements that a window of one element meets, taken before, and the strides that are left.

    Only where the padding along the other axis depends on a dynamic size: it has to be automatic then, along both axes.
    """
    axes = list(zip(x.shape[1:3], kernel, strides, strict=True))
    single = [axis for axis, (size, one, step) in enumerate(axes) if one == 1 and not automatic(size, one, step)]
    if call.option("padding") != 0 or not single or all(same_pads(*axis, 1) is not None for axis in axes):
        return x, strides
    (axis,) = single
    sizes = {axis + 1: window(*axes[axis], 1, True, call.arithmetic)}
    thin = take(call, x, {axis + 1: Span(0, LAST, strides[axis])}, call.like("met", x), sizes)
    return thin, (1, strides[1]) if axis == 0 else (strides[0], 1)


@lowers("MAX_POOL_2D", signature="FQ -> =", quantized=INT16)
def max_pool(call: Call) -> None:
    """MAX_POOL_2D."""
    x, shape, attributes = _window(call)
    slot = first_slot(call)
    plain = call.option("fused_activation_function") == 0
    if plain and moves([x], slot.dtype, slot.quant, BYTES):
        result = call.write("MaxPool", [to_channels_first(call, x)], shape, slot, storage=True, **attributes)
    elif plain and slot.dtype == "int16" and slot.quant is None:
        raise GapError("its output of int16 has no quantization parameters", "state scale and zero point")
    else:
        result = write_activated(call, "MaxPool", [to_channels_first(call, x)], shape, slot, **attributes)
    from_channels_first(call, result)


@lowers("AVERAGE_POOL_2D", signature="FQ -> =", quantized=INT8_AND_INT16)
def average_pool(call: Call) -> None:
    """AVERAGE_POOL_2D. LiteRT averages what is stored, and rounds halves away from zero."""
    x, shape, attributes = _window(call)
    slot = call.slot()
    if slot.quant is None or np.isfinite(open_bounds(activation(call), slot)).any() or not _ties(attributes):
        first = to_channels_first(call, x)
        from_channels_first(call, write_activated(call, "AveragePool", [first], shape, first_slot(call), **attributes))
        return
    first = to_channels_first(call, as_steps(call, x))
    between = call.temporary(
        "averages", slot.dtype, steps(slot.dtype, away=True, parts=prod(attributes["kernel_shape"]))
    )
    averages = call.write("AveragePool", [first], shape, between, **attributes)
    label = call.temporary("averages_nhwc", slot.dtype, between.quant)
    store(call, call.transpose(averages, channels_last(len(shape)), label, pattern=True), slot)


def _ties(attributes: Mapping[str, Any]) -> bool:
    """Whether means of windows can be halves: some have an even number of elements, whole ones or those that reach into
    the padding.
    """
    padded = "auto_pad" in attributes or any(attributes.get("pads", ()))  # the former where sizes are open
    return padded or any(size % 2 == 0 for size in attributes["kernel_shape"])


@lowers("L2_POOL_2D", signature="F -> =")
def l2_pool(call: Call) -> None:
    """L2_POOL_2D: the root of the mean of squares."""
    x, shape, attributes = _window(call)
    squares = call.write("Mul", [x, x], x.shape, call.temporary("squares"))
    first = to_channels_first(call, squares)
    mean = call.write("AveragePool", [first], shape, call.temporary("mean"), **attributes)
    from_channels_first(call, write_activated(call, "Sqrt", [mean], shape, first_slot(call)))
