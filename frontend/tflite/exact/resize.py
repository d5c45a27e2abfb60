"""RESIZE_BILINEAR of int8: LiteRT interpolates in integers, with positions and weights of 10 bits behind the point."""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Doubles
from layoutsolve.frontend.tflite.exact.writing import REMEDY, quant_in, step, store, stored, write_doubles
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.gaps import GapError
from layoutsolve.frontend.tflite.operators.common import cast_to, ranked
from layoutsolve.frontend.tflite.operators.gathering import write_gather
from layoutsolve.graph import Array, Value

_ONE = 1 << 10


@exactly("RESIZE_BILINEAR")
def resize_bilinear(call: Call) -> None:
    """Rows are mixed in float32, columns in doubles: so all sums are exact. Halves go away from zero."""
    x = ranked(call, call.input(0), 4)
    quant_in(call, x)
    sizes = call.integers(1, "size")
    before = [dim for dim in x.shape[1:3] if isinstance(dim, int)]
    if x.dtype != "int8" or len(before) != len(sizes) or min(*before, *sizes) < 1:
        raise GapError("--quant exact covers int8 images of a known size", REMEDY)
    mixed = _mixed(call, stored(call, x, "float32"), 1, before[0], sizes[0])
    mixed = _mixed(call, cast_to(call, mixed, "float64"), 2, before[1], sizes[1])
    # whole multiples of 2^-20, of which only halves are changed by what has their sign
    store(call, write_doubles(call, mixed, Doubles(*np.array([[2.0**-20], [2.0**-22], [0.5]]))))


def _mixed(call: Call, x: Value, axis: int, before: int, after: int) -> Value:
    """An axis interpolated: two neighbours by their weights."""
    aligned, half = bool(call.option("align_corners", False)), bool(call.option("half_pixel_centers", False))
    call.draft.ask(after)
    lower, upper, weights = _neighbours(before, after, aligned, half)
    shape = (after, *(1,) * (len(x.shape) - 1 - axis))
    parts = []
    for places, factors in ((lower, _ONE - weights), (upper, weights)):
        label = call.temporary("neighbours", x.dtype)
        taken = write_gather(call, x, call.vector(places.tolist(), "places"), axis, label)
        parts.append(step(call, "Mul", taken, factors.reshape(shape)))
    return step(call, "Add", *parts)


def _neighbours(before: int, after: int, aligned: bool, half: bool) -> tuple[Array, Array, Array]:
    """The pixels before and behind each place, and the weight of the latter."""
    scale = (_ONE * before + after // 2) // after
    if aligned and after > 1:
        scale = (_ONE * (before - 1) + (after - 1) // 2) // (after - 1)
    place = np.arange(after, dtype=np.int64) * scale
    place = place + scale // 2 - _ONE // 2 if half else place
    lower = np.maximum(np.trunc(place / _ONE).astype(np.int64), 0)
    upper = np.minimum(np.trunc((place + _ONE - 1) / _ONE).astype(np.int64), before - 1)
    return lower, upper, place - _ONE * lower
