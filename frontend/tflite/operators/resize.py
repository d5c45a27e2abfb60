"""Resizing of images, written in TFLite's axis order."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.rounding import steps
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.gathering import write_gather
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, as_int64, as_steps, cast_to, ranked, store
from layoutsolve.ir.graph import Array, Dim, Shape, Size, Value, quotient

Neighbours = tuple[tuple[Array, Array], tuple[Array, Array]]
"""Of each place of an axis the pixels before and behind it, each with its weight."""

_RESIZED = ("float32", "int8", "uint8", "int32")
"""Types that ONNX Runtime's Resize takes."""

_LIFT = 2e-6
"""More than what ONNX Runtime lifts positions by before it rounds them."""


def _target(call: Call) -> tuple[Value, tuple[Dim, ...]]:
    x = ranked(call, call.input(0), 4)
    size = call.input(1)
    if size.shape != (2,):
        raise ModelError(f"{call.origin} has a size of shape {list(map(str, size.shape))}, it needs [2]")
    computed = call.content(size) is None
    sizes = (call.unknown(1), call.unknown(2)) if computed else call.dims(1, "size")
    if len(sizes) != 2 or any(isinstance(size, int) and size <= 0 for size in sizes):
        raise ModelError(f"{call.origin} resizes to {list(map(str, sizes))}")
    return x, (x.shape[0], *sizes, x.shape[3])


def _resize(call: Call, x: Value, shape: tuple[Dim, ...], slot: Slot, storage: bool, **attributes: Any) -> Value:
    """A Resize to ``sizes``, or by ``scales`` where a size is symbolic but its factor is not."""
    target: list[Value | None] = [x, None, None]
    scales = [_scale(before, after) for before, after in zip(x.shape, shape, strict=True)]
    known = [scale for scale in scales if scale is not None]
    if not any(isinstance(dim, Size) for dim in shape):
        target.append(call.sizes(shape, "sizes"))
    elif len(known) == len(scales):
        target[2] = call.constant(known, "scales", "float32")
    else:
        target.append(_computed_sizes(call, x, shape))
    return call.write("Resize", target, shape, slot, storage=storage, **attributes)


def _computed_sizes(call: Call, x: Value, shape: tuple[Dim, ...]) -> Value:
    """The sizes of all axes, where the spatial ones are only known at run time."""
    if call.content(call.input(1)) is not None:
        return call.sizes(shape, "sizes")
    outer, inner = call.sizes(x.shape[:1], "batch"), call.sizes(x.shape[3:], "channels")
    parts = [outer, as_int64(call, call.input(1)), inner]
    return call.write("Concat", parts, (4,), call.temporary("sizes", "int64"), axis=0)


def _scale(before: Dim, after: Dim) -> float | None:
    """A factor whose product, however it is computed, gives ``after`` when rounded down; None where it is not known."""
    if isinstance(before, int) and isinstance(after, int):
        factor = np.float32(after / before)
        while before * float(factor) < after:
            factor = np.nextafter(factor, np.float32(np.inf))
        return float(factor)
    ratio = quotient(after, before)
    return float(ratio) if isinstance(ratio, int) else None


@lowers("RESIZE_BILINEAR", signature="FQ I -> =", quantized=INT8_AND_INT16)
def resize_bilinear(call: Call) -> None:
    """RESIZE_BILINEAR. LiteRT interpolates what is stored, and rounds halves away from zero."""
    x, shape = _target(call)
    aligned, half = is_aligned(call), has_halves(call)
    if aligned and half:
        raise ModelError(f"{call.origin} aligns corners and half pixels at once")
    if _spread(call, x, shape):
        return
    mode = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    slot = call.slot()
    if slot.dtype not in BYTES or slot.quant is None:
        _resize(call, x, shape, slot, False, mode="linear", coordinate_transformation_mode=mode)
        return
    between = call.temporary("pixels", slot.dtype, steps(slot.dtype, away=True))
    pixels = _resize(call, as_steps(call, x), shape, between, False, mode="linear", coordinate_transformation_mode=mode)
    store(call, pixels, slot)


def _spread(call: Call, x: Value, shape: tuple[Dim, ...]) -> bool:
    """Write the repetition of a single pixel, as pyramids of pools have it, which any layout suits."""
    slot = call.slot()
    storage = moves([x], slot.dtype, slot.quant)
    if x.shape[1:3] != (1, 1) or call.content(call.input(1)) is None or not (storage or x.quant is slot.quant is None):
        return False
    call.write("Expand", [x, call.sizes(shape, "shape")], shape, slot, storage=storage)
    return True


@lowers("RESIZE_NEAREST_NEIGHBOR", signature="FZB I -> =")
def resize_nearest(call: Call) -> None:
    """RESIZE_NEAREST_NEIGHBOR; TFLite's half pixels, rounded down, are ONNX's rounded to the nearest, half up.

    Where the two may round a position on the border of two pixels apart, the pixels are gathered by their numbers.
    """
    x, shape = _target(call)
    aligned, half = is_aligned(call), has_halves(call)
    pairs = list(zip(x.shape[1:3], shape[1:3], strict=True))
    exact = all(isinstance(dim, int) for dim in shape)
    call.draft.ask(sum(after for _, after in pairs if isinstance(after, int)))
    if real_dtype(x) not in _RESIZED or not all(_alike(*pair, aligned, half, exact) for pair in pairs):
        if aligned and half and any(isinstance(size, Size) for pair in pairs for size in pair):
            raise GapError("it aligns corners and half pixels at once, with a dynamic size", "choose one of the two")
        _gather_pixels(call, x, [_pixels(call, axis, *pair, aligned, half) for axis, pair in enumerate(pairs)])
        return
    mode = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    rounding = "round_prefer_ceil" if aligned or half else "floor"
    slot = call.slot()
    storage = moves([x], slot.dtype, slot.quant, BYTES)
    _resize(call, x, shape, slot, storage, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounding)


def _alike(before: Dim, after: Dim, aligned: bool, half: bool, exact: bool) -> bool:
    """Whether ONNX Runtime takes the pixels that TFLite takes, of every size that a dynamic one may be.

    By a whole factor centres of pixels lie on no border, and edges do; TFLite multiplies by the reciprocal, which must
    not be rounded down.
    """
    if isinstance(before, int) and isinstance(after, int):
        found = _onnx_positions(before, after, aligned, half, exact)
        return all(np.array_equal(positions(before, after, aligned, half), each) for each in found)
    if before == after and not (aligned and half):
        return True
    factor = quotient(after, before)
    return isinstance(factor, int) and not aligned and (half or float(np.float32(1 / factor)) * factor >= 1)


def neighbours_of(call: Call, before: int, after: int) -> Neighbours:
    """The pixels that TFLite mixes, computed in float32 as it does."""
    one, middle = np.float32(1), np.float32(0.5)
    scale = np.float32(before) / np.float32(after)
    if is_aligned(call) and after > 1:
        scale = np.float32(before - 1) / np.float32(after - 1)
    place = np.arange(after, dtype=np.float32)
    place = (place + middle) * scale - middle if has_halves(call) else place * scale
    lower = np.maximum(np.floor(place).astype(np.int64), 0)
    upper = np.minimum(np.ceil(place).astype(np.int64), before - 1)
    weights = place - lower.astype(np.float32)
    return (lower, one - weights), (upper, weights)


def is_aligned(call: Call) -> bool:
    return bool(call.option("align_corners"))


def has_halves(call: Call) -> bool:
    return bool(call.option("half_pixel_centers"))


def positions(before: int, after: int, aligned: bool, half: bool) -> Array:
    """The pixels that TFLite takes, computed in float32 as it does."""
    steps = (before - 1, after - 1) if aligned and after > 1 else (before, after)
    scale = np.float32(steps[0]) / np.float32(steps[1])
    place = (np.arange(after, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    nearest = np.floor(place.astype(np.float64) + 0.5) if aligned else np.floor(place)
    positions: Array = np.clip(nearest, 0, before - 1).astype(np.int64)
    return positions


def _onnx_positions(before: int, after: int, aligned: bool, half: bool, exact: bool) -> list[Array]:
    """The pixels that versions of ONNX Runtime take, computed in float32 as they do.

    ``exact`` is whether it is given sizes. What lies a little below a half is rounded up by newer ones (1.31) only.
    """
    number, a_half = np.arange(after, dtype=np.float32), np.float32(0.5)
    scale = np.float32(after) / np.float32(before) if exact else np.float32(_scale(before, after))
    if aligned and half:
        return [np.zeros(0, np.int64)]
    if aligned:
        place = number * np.float32(before - 1) / np.float32(max(after - 1, 1)) + a_half
    elif half:
        place = (number + a_half) / scale - a_half + a_half
    else:
        place = number / scale
    lifts = (0, _LIFT) if aligned or half else (0,)
    return [np.clip(np.floor(place.astype(np.float64) + lift), 0, before - 1).astype(np.int64) for lift in lifts]


def _pixels(call: Call, axis: int, before: Dim, after: Dim, aligned: bool, half: bool) -> Value:
    """The pixels that TFLite takes along height (0) or width (1): a vector."""
    if isinstance(before, int) and isinstance(after, int):
        return call.vector(positions(before, after, aligned, half).tolist(), "pixels")
    old, new = call.sizes((before,), "before"), _new_size(call, axis, after)
    bounds = [call.constant(0, "zero", "int64"), call.reshaped(new, (), "count"), call.constant(1, "one", "int64")]
    numbers = call.write("Range", bounds, (after,), call.temporary("numbers", "int64"))

    def write(op: str, left: Value, right: Value | float, shape: Shape = (after,)) -> Value:
        dtype = left.dtype
        by = right if isinstance(right, Value) else call.constant(right, "by", dtype)
        return call.write(op, [left, by], shape, call.temporary(op.lower(), dtype))

    # The quotient of doubles, rounded to a float, is that of floats, and no optimiser divides by its reciprocal.
    size, target = cast_to(call, old, "float64"), cast_to(call, new, "float64")
    last = write("Sub", size, 1, (1,))
    if aligned:
        size, target = last, write("Max", write("Sub", target, 1, (1,)), 1, (1,))
    scale = cast_to(call, write("Div", size, target, (1,)), "float32")
    places = cast_to(call, numbers, "float32")
    places = cast_to(call, write("Mul", write("Add", places, 0.5) if half else places, scale), "float64")
    places = write("Add", places, 0.5) if aligned else places
    floor = call.write("Floor", [places], (after,), call.temporary("floor", "float64"))
    return cast_to(call, write("Min", floor, last), "int64")


def _new_size(call: Call, axis: int, after: Dim) -> Value:
    """A size that is resized to, as a vector of one."""
    if isinstance(after, int) or call.content(call.input(1)) is not None:
        return call.sizes((after,), "after")
    given = [as_int64(call, call.input(1)), call.vector([axis], "axis")]
    return call.write("Gather", given, (1,), call.temporary("after", "int64"), axis=0)


def _gather_pixels(call: Call, x: Value, pixels: list[Value]) -> None:
    rows, columns = pixels
    taken = write_gather(call, x, rows, 1, call.like("rows", x))
    write_gather(call, taken, columns, 2, call.slot())
