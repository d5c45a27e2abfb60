"""RESIZE_BILINEAR. LiteRT interpolates int8 in integers, with positions and weights of 10 bits behind the point, and
uint8 in float32, one neighbour after the other.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import product

import numpy as np

from layoutsolve.frontend.tflite.exact.builder import REMEDY, quant_in, step, store, stored, write_doubles
from layoutsolve.frontend.tflite.exact.registry import exactly
from layoutsolve.frontend.tflite.exact.rescaling import Doubles
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.gathering import write_gather
from layoutsolve.frontend.tflite.operators.resize import Neighbours, has_halves, is_aligned, neighbours_of
from layoutsolve.frontend.tflite.operators.shared.common import cast_to, ranked
from layoutsolve.ir.graph import Array, Value

_ONE = 1 << 10


@exactly("RESIZE_BILINEAR")
def resize_bilinear(call: Call) -> None:
    """RESIZE_BILINEAR of images of known sizes."""
    x = ranked(call, call.input(0), 4)
    quant_in(call, x)
    sizes = call.integers(1, "size")
    before = [dim for dim in x.shape[1:3] if isinstance(dim, int)]
    if len(before) != len(sizes) or min(*before, *sizes) < 1:
        raise GapError("--quant exact covers images of a known size", REMEDY)
    call.draft.ask(sum(sizes))
    mixing = _in_integers if x.dtype == "int8" else neighbours_of
    rows, columns = (mixing(call, *pair) for pair in zip(before, sizes, strict=True))
    (_write_integers if x.dtype == "int8" else _write_floats)(call, x, rows, columns)


def _write_integers(call: Call, x: Value, rows: Neighbours, columns: Neighbours) -> None:
    """Rows are mixed in float32, columns in doubles: so all sums are exact. Halves go away from zero."""
    mixed = _mixed(call, stored(call, x, "float32"), 1, rows)
    mixed = _mixed(call, cast_to(call, mixed, "float64"), 2, columns)
    # whole multiples of 2^-20, of which only halves are changed by what has their sign
    store(call, write_doubles(call, mixed, Doubles(*np.array([[2.0**-20], [2.0**-22], [0.5]]))))


def _write_floats(call: Call, x: Value, rows: Neighbours, columns: Neighbours) -> None:
    """Four products in turn, each by a product of two weights: float32 rounds every one, and every sum."""
    lines = [(_taken(call, stored(call, x, "float32"), 1, places), weights) for places, weights in rows]

    def term(line: Value, high: Array, places: Array, wide: Array) -> Value:
        weight = step(call, "Mul", call.constant(high[:, None, None], "rows", "float32"), wide[:, None])
        return step(call, "Mul", _taken(call, line, 2, places), weight)

    terms = (term(*row, *column) for row, column in product(lines, columns))  # each written when it is added
    total = reduce(partial(step, call, "Add"), terms)
    store(call, step(call, "Floor", step(call, "Add", total, 0.5)))


def _mixed(call: Call, x: Value, axis: int, neighbours: Neighbours) -> Value:
    """An axis interpolated: two neighbours by their weights."""
    form = (-1, *(1,) * (len(x.shape) - 1 - axis))
    parts = [step(call, "Mul", _taken(call, x, axis, places), weights.reshape(form)) for places, weights in neighbours]
    return step(call, "Add", *parts)


def _taken(call: Call, x: Value, axis: int, places: Array) -> Value:
    """The pixels of an axis at places."""
    label = call.temporary("neighbours", x.dtype)
    return write_gather(call, x, call.vector(places.tolist(), "places"), axis, label)


def _in_integers(call: Call, before: int, after: int) -> Neighbours:
    scale = (_ONE * before + after // 2) // after
    if is_aligned(call) and after > 1:
        scale = (_ONE * (before - 1) + (after - 1) // 2) // (after - 1)
    place = np.arange(after, dtype=np.int64) * scale
    place = place + scale // 2 - _ONE // 2 if has_halves(call) else place
    lower = np.trunc(place / _ONE).astype(np.int64)
    upper = np.minimum(np.trunc((place + _ONE - 1) / _ONE).astype(np.int64), before - 1)
    weights = place - _ONE * lower
    return (lower, _ONE - weights), (upper, weights)
