"""Pools, means and extrema."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.exact.builder import (
    REMEDY,
    WHOLE,
    OnNumbers,
    finish,
    numbers,
    quant_in,
    scale_of,
    store,
    stored,
    write_doubles,
    zero_of,
)
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Doubles, Rescaling
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import agree, limits
from layoutsolve.frontend.tflite.lowering.registry import own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.reduction import write_place
from layoutsolve.frontend.tflite.operators.shared.common import activation, stored_bounds
from layoutsolve.ir.graph import Value

_WINDOW = 1 << 12
"""The most elements of a window whose average float32 tells apart from those that are a little more or less."""

_VECTOR = 16
"""The channels that LiteRT's mean over pixels computes at a time; it rounds those left over otherwise."""


@exactly("MAX_POOL_2D")
def max_pool(call: Call) -> None:
    """MAX_POOL_2D of what is stored."""
    x, slot = call.input(0), call.slot()
    quant_in(call, x)
    if stored_bounds(activation(call), slot) == limits(slot.dtype) and call.option("fused_activation_function") == 0:
        own_lowering("MAX_POOL_2D")(call)
    else:
        store(call, OnNumbers(call, {0: stored(call, x, "float32")}, "largest").lowered())


@exactly("REDUCE_MAX", "REDUCE_MIN")
def extremum(call: Call) -> None:
    """REDUCE_MAX and REDUCE_MIN of what is stored."""
    x, slot = call.input(0), call.slot()
    if not agree(quant_in(call, x), quant_in(call, slot)):
        raise GapError("--quant exact covers an input that is quantized as the output is", REMEDY)
    found = OnNumbers(call, {0: stored(call, x, "float32")}, "extremum").lowered()
    call.write("Cast", [found], found.shape, slot, storage=True, to=slot.dtype)


@exactly("ARG_MAX", "ARG_MIN")
def place(call: Call) -> None:
    """ARG_MAX and ARG_MIN of what is stored."""
    x = call.input(0)
    quant_in(call, x)
    write_place(call, stored(call, x, "float32"))


@exactly("AVERAGE_POOL_2D")
def average_pool(call: Call) -> None:
    """AVERAGE_POOL_2D of what is stored, halves away from zero.

    Averages of ``count`` bytes are 1 / count apart or further. Float32 computes them less than a quarter of that off,
    which is less as well than the part by which they are stretched: so halves lie beyond themselves, and nothing else
    comes to lie there.
    """
    x = call.input(0)
    quant_in(call, x)
    count = call.option("filter_height") * call.option("filter_width")
    if not 0 < count <= _WINDOW:
        raise GapError("its windows have too many elements to be exact", REMEDY)
    averages = OnNumbers(call, {0: stored(call, x, "float32")}, "averages").lowered()
    stretched = Doubles(np.array([1 + 1 / (512 * count)]), np.zeros(1), np.array([0.5]))
    store(call, write_doubles(call, averages, stretched))


@exactly("MEAN")
def mean(call: Call) -> None:
    """MEAN: a sum, rescaled."""
    x, slot = call.input(0), call.slot()
    before, after = quant_in(call, x), quant_in(call, slot)
    axes = {axis_of(axis, len(x.shape)) for axis in call.integers(1, "axes")}
    sizes = [x.shape[axis] for axis in sorted(axes)]
    count = prod(size for size in sizes if isinstance(size, int))
    if any(not isinstance(size, int) for size in sizes) or not axes or not 0 < 255 * count < WHOLE:
        raise GapError("--quant exact covers means of a known number of elements, up to 65,793", REMEDY)
    if (len(x.shape), axes, bool(call.option("keep_dims"))) == (4, {1, 2}, True):
        _mean_of_pixels(call, x, count)
        return
    ratio = Rescaling.by(scale_of(before).astype(np.float64) / scale_of(after))
    shift = min(count.bit_length() - 1, 32, 31 + int(ratio.exponent[0]))
    rescaling = Rescaling.of((ratio.whole << shift) // count, ratio.exponent - shift)
    low, high = (count * (each - zero_of(before)) for each in limits(x.dtype))
    finish(call, OnNumbers(call, {0: numbers(call, x)}, "sums", "SUM").lowered(), rescaling, (low, high))


def _mean_of_pixels(call: Call, x: Value, count: int) -> None:
    """The mean over height and width: LiteRT rounds the part of the zero point on its own."""
    before, after = quant_in(call, x), quant_in(call, call.slot())
    scale, result = scale_of(before), scale_of(after)
    part = np.float32(zero_of(before)) * scale / result
    part = part + np.float32(0.5) if part > 0 else part - np.float32(0.5)
    channels = x.shape[3]
    if not isinstance(channels, int):
        raise GapError("its number of channels is dynamic", REMEDY)
    away = np.arange(channels) >= channels // _VECTOR * _VECTOR
    factor = scale / (np.float32(count) * result)
    rescaling = Rescaling.by(np.full(channels, factor, np.float64), away)
    low, high = (count * each for each in limits(x.dtype))
    sums = OnNumbers(call, {0: stored(call, x, "float32")}, "sums", "SUM").lowered()
    finish(call, sums, rescaling, (low, high), zero_of(after) - int(part))
