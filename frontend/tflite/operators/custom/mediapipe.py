"""The custom operators of MediaPipe's models, and those of TensorFlow's perception library that are like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import real_dtype
from layoutsolve.frontend.tflite.operators.custom.options import integer, integers, number, structure
from layoutsolve.frontend.tflite.operators.shared.common import (
    first_slot,
    from_channels_first,
    ranked,
    static,
    to_channels_first,
)
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Shape, Value, product


@lowers("CUSTOM:Convolution2DTransposeBias", signature="F F F -> =")
def transposed_convolution(call: Call) -> None:
    """Convolution2DTransposeBias: TRANSPOSE_CONV whose output is as large as padding and strides make it."""
    options = structure(call, "padding stride_w stride_h")
    x, weights, bias = (ranked(call, call.input(at), rank) for at, rank in enumerate((4, 4, 1)))
    outputs, height, width, seen = static(call, weights.shape, "filter shape")
    if x.shape[3] != seen or bias.shape != (outputs,) or real_dtype(x) != "float32":
        raise ModelError(f"{call.origin} convolves {x} with {weights} and {bias}")
    strides = (options["stride_h"], options["stride_w"])
    if min(strides) < 1:
        raise ModelError(f"{call.origin} has a stride below 1")
    sizes, before, after = [], [], []
    for size, kernel, stride in zip(static(call, x.shape[1:3], "input size"), (height, width), strides, strict=True):
        cut = max(0, kernel - (size - 1) % stride - 1) if options["padding"] == 0 else 0
        sizes.append(stride * (size - 1) + kernel - cut)
        before.append(cut // 2)
        after.append(cut - cut // 2)
    kernel_first = call.transposed(weights, (3, 0, 1, 2), "weights", pattern=True)
    attributes: dict[str, Any] = {"kernel_shape": (height, width), "strides": strides, "pads": (*before, *after)}
    inputs = [to_channels_first(call, x), kernel_first, bias]
    from_channels_first(
        call, call.write("ConvTranspose", inputs, (x.shape[0], outputs, *sizes), first_slot(call), **attributes)
    )


# -- landmarks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Crop:
    """How a matrix is made of a turned box around some landmarks.

    ``subset`` and ``ends`` are landmarks, ``target`` is an angle. The matrix turns, scales by the box's size times
    ``scale`` (x, y), then by ``rows`` (x, y), and moves by ``shift`` before and by the centre times ``centre`` after.
    """

    subset: tuple[int, ...]
    ends: tuple[int, int]
    target: float
    scale: tuple[float, float]
    rows: tuple[float, float]
    shift: tuple[float, float]
    centre: tuple[float, float]


def _crop(call: Call, options: Mapping[str, Any]) -> _Crop:
    ends = (integer(call, options, "left_rotation_idx"), integer(call, options, "right_rotation_idx"))
    if "subset_idxs" in options:
        subset = integers(call, options, "subset_idxs")
        sizes = [integer(call, options, f"output_{side}") for side in ("width", "height")]
        scales = [number(call, options, f"scale_{axis}") for axis in "xy"]
        if min(*sizes, *scales) <= 0:
            raise ModelError(f"{call.origin} has sizes or scales that are not above 0")
        (width, height), (by_x, by_y) = sizes, scales
        target = number(call, options, "target_rotation_radians")
        shift = (-width / 2, -height / 2)
        return _Crop(subset, ends, target, (by_x / width, by_y / height), (1.0, 1.0), shift, (1.0, 1.0))
    subset = integers(call, options, "subset")
    extent, grown = integer(call, options, "landmarks_range"), number(call, options, "bbox_size_multiplier")
    given, wanted = (_size(call, options, key) for key in ("input_hw", "output_hw"))
    if min(*given, *wanted) < 2 or extent <= 0 or integer(call, options, "dimensions") != 3:
        raise ModelError(f"{call.origin} has options that no kernel accepts: {dict(options)}")
    half = ((given[1] - 1) / 2, (given[0] - 1) / 2)
    middle = ((wanted[1] - 1) / 2, (wanted[0] - 1) / 2)
    scale = (grown / extent / middle[0], grown / extent / middle[1])
    return _Crop(subset, ends, 0.0, scale, half, (-middle[0], -middle[1]), (2 * half[0] / extent, 2 * half[1] / extent))


def _size(call: Call, options: Mapping[str, Any], key: str) -> tuple[int, int]:
    sizes = integers(call, options, key)
    if len(sizes) != 2:
        raise ModelError(f"{call.origin} has {len(sizes)} numbers as its option '{key}'")
    return sizes[0], sizes[1]


@lowers("CUSTOM:Landmarks2TransformMatrix", signature="F -> =")
def landmarks_to_matrix(call: Call) -> None:
    """Landmarks2TransformMatrix: the matrix [1, 4, 4] from a crop around some landmarks to the image.

    The first version takes [1, 1, 1, 3n], keeps the angle within a quarter turn and scales to [-1, 1]; the second takes
    [1, n, 3].
    """
    options = call.settings()
    crop, old = _crop(call, options), "subset_idxs" not in options
    points = _points(call, crop, old)

    def write(op: str, inputs: Sequence[Value], shape: Shape, label: str, **attributes: Any) -> Value:
        return call.write(op, inputs, shape, call.temporary(label), **attributes)

    def chosen(indices: Sequence[int], label: str) -> Value:
        found = write("Gather", [points, call.vector(indices, label)], (len(indices), 3), label, axis=0)
        return take(call, found, {1: Span(0, 2)}, call.temporary(label), {1: 2})

    left, right = (chosen([index], side) for index, side in zip(crop.ends, ("left", "right"), strict=True))
    along = write("Sub", [right, left], (1, 2), "along")
    turn = _turn(call, along, crop.target, old)
    turned = write("MatMul", [chosen(crop.subset, "subset"), turn], (len(crop.subset), 2), "turned")
    rows = call.vector([0], "rows")
    high, low = (write(op, [turned, rows], (1, 2), op.lower(), keepdims=1) for op in ("ReduceMax", "ReduceMin"))
    total_ = write("Add", [high, low], (1, 2), "sum")
    middle = write("Mul", [total_, call.constant(0.5, "half", "float32")], (1, 2), "middle")
    back = call.transposed(turn, (1, 0), "back")
    centre = call.reshaped(write("MatMul", [middle, back], (1, 2), "centre"), (2, 1), "centre")
    size = write("Sub", [high, low], (1, 2), "size")
    scales = write("Mul", [size, call.constant([crop.scale], "scale", "float32")], (1, 2), "scales")
    linear = write("Mul", [turn, scales], (2, 2), "scaled")
    linear = write("Mul", [linear, _column(call, crop.rows, "by")], (2, 2), "linear")
    moved = write("MatMul", [linear, _column(call, crop.shift, "shift")], (2, 1), "moved")
    placed = write("Mul", [centre, _column(call, crop.centre, "range")], (2, 1), "placed")
    offset = write("Add", [moved, placed], (2, 1), "offset")
    upper = write("Concat", [linear, call.constant([[0], [0]], "zeros", "float32"), offset], (2, 4), "upper", axis=1)
    lower = call.constant([[0, 0, 1, 0], [0, 0, 0, 1]], "lower", "float32")
    call.reshape(write("Concat", [upper, lower], (4, 4), "matrix", axis=0), (1, 4, 4), call.slot())


def _points(call: Call, crop: _Crop, old: bool) -> Value:
    """The landmarks as rows [n, 3], among which are all that a crop is made of."""
    x = ranked(call, call.input(0), 4 if old else 3)
    (total,) = static(call, (product(x.shape),), "input shape")
    count = total // 3
    if total % 3 or not crop.subset or not all(0 <= index < count for index in (*crop.subset, *crop.ends)):
        raise ModelError(f"{call.origin} names landmarks that {x} does not have")
    return call.reshaped(x, (count, 3), "points")


def _column(call: Call, pair: tuple[float, float], label: str) -> Value:
    return call.constant([[pair[0]], [pair[1]]], label, "float32")


def _turn(call: Call, along: Value, target: float, old: bool) -> Value:
    """The matrix [2, 2] by which rows of (x, y) turn so that ``along`` [1, 2] points to ``target``.

    The first version divides y by x, and so turns by a quarter at most; then the sign of x is left out.
    """
    shape: Shape = (1, 2)
    zero = call.constant(0, "zero", "float32")
    if old:
        x, y = (take(call, along, {1: Span(at, at + 1)}, call.temporary("part"), {1: 1}) for at in (0, 1))
        ratio = call.write("Div", [y, x], (1, 1), call.temporary("ratio"))
        angle = call.write("Atan", [ratio], (1, 1), call.temporary("angle"))
        parts = [call.write(op, [angle], (1, 1), call.temporary(op.lower())) for op in ("Cos", "Sin")]
        unit = call.write("Concat", parts, shape, call.temporary("unit"), axis=1)
    else:
        axes = call.vector([1], "axis")
        length = call.write("ReduceL2", [along, axes], (1, 1), call.temporary("length"), keepdims=1)
        flat = call.write("Equal", [length, zero], (1, 1), call.temporary("flat", "bool"), real="bool")
        ratio = call.write("Div", [along, length], shape, call.temporary("ratio"))
        right = call.constant([[1, 0]], "right", "float32")
        unit = call.write("Where", [flat, right, ratio], shape, call.temporary("unit"), real="float32")
    c, s = np.cos(target), np.sin(target)
    # cos(t - a) = ct ca + st sa and sin(t - a) = st ca - ct sa, laid out as [[cos, sin], [-sin, cos]].
    basis = call.constant([[c, s, -s, c], [s, -c, c, s]], "basis", "float32")
    flat_turn = call.write("MatMul", [unit, basis], (1, 4), call.temporary("entries"))
    return call.reshaped(flat_turn, (2, 2), "turn")


def _matrix(call: Call, value: Value) -> tuple[Value, Value]:
    """The part of a matrix [1, 4, 4] that turns and scales rows of (x, y), [2, 2], and the part that moves, [1, 2]."""
    if product(value.shape) != 16 or value.dtype != "float32":
        raise ModelError(f"{call.origin} transforms by {value}, it needs a matrix of 4 by 4")
    square = call.reshaped(value, (4, 4), "square")

    def part(start: int, end: int, label: str) -> Value:
        cut = take(call, square, {0: Span(0, 2), 1: Span(start, end)}, call.temporary(label))
        return call.transposed(cut, (1, 0), label)

    return part(0, 2, "linear"), part(3, LAST, "offset")


@lowers("CUSTOM:TransformLandmarks", signature="F F -> =")
def transform_landmarks(call: Call) -> None:
    """TransformLandmarks: x and y of landmarks by a matrix; z, where there is one, stays.

    The first version has rank 4 and states how many numbers a landmark has; the second has rank 3, a landmark a row.
    """
    x, scale = call.input(0), 1.0
    if len(x.shape) == 4:
        options = call.settings()
        each, scale = integer(call, options, "dimensions", 3), number(call, options, "scale", 1.0)
    else:
        (each,) = static(call, ranked(call, x, 3).shape[-1:], "input shape")
    (total,) = static(call, (product(x.shape),), "input shape")
    if each not in (2, 3) or total % each or not scale or x.dtype != "float32":
        raise ModelError(f"{call.origin} transforms landmarks of {each} numbers in {x} with the scale {scale}")
    count: Dim = total // each
    linear, offset = _matrix(call, call.input(1))
    if scale != 1:
        by = call.constant(scale, "scale", "float32")
        offset = call.write("Mul", [offset, by], (1, 2), call.temporary("moved"))
    rows = call.reshaped(x, (count, each), "rows")
    flat = rows if each == 2 else take(call, rows, {1: Span(0, 2)}, call.temporary("xy"), {1: 2})
    turned = call.write("MatMul", [flat, linear], (count, 2), call.temporary("turned"))
    moved = call.write("Add", [turned, offset], (count, 2), call.temporary("placed"))
    if each == 3:
        rest = take(call, rows, {1: Span(2, LAST)}, call.temporary("z"), {1: 1})
        moved = call.write("Concat", [moved, rest], (count, 3), call.temporary("xyz"), axis=1)
    call.reshape(moved, x.shape, call.slot())


@lowers("CUSTOM:TransformTensorBilinear", "CUSTOM:TransformTensor", signature="F F -> =")
def transform_tensor(call: Call) -> None:
    """TransformTensorBilinear: an image sampled where a matrix sends each pixel, zero where that is outside.

    The second version counts from the corners of pixels, the first (TransformTensor) from their centres.
    """
    options = call.settings()
    new = "output_height" in options
    if options.get("mode", "bilinear") != "bilinear":
        raise GapError(f"it samples by '{options['mode']}'", "sample bilinearly")
    if new:
        height, width = integer(call, options, "output_height"), integer(call, options, "output_width")
    else:
        height, width = _size(call, options, "output_size")
    x = ranked(call, call.input(0), 4)
    batch, rows, columns, _ = static(call, x.shape, "input shape")
    if min(height, width, rows, columns) < 1 or batch != 1 or x.dtype != "float32":
        raise ModelError(f"{call.origin} samples {x} at {height} by {width} pixels")
    places = _sources(call, height, width, 0.5 if new else 0.0)
    count = height * width

    def write(op: str, inputs: Sequence[Value], label: str) -> Value:
        return call.write(op, inputs, (count, 2), call.temporary(label))

    ends = call.constant([[columns - 1, rows - 1]], "ends", "float32")
    nearest = call.write("Clip", [places, call.constant(0, "zero", "float32")], (count, 2), call.temporary("clipped"))
    nearest = write("Min", [nearest, ends], "nearest")
    same = call.write("Equal", [places, nearest], (count, 2), call.temporary("same", "bool"), real="bool")
    weight = call.write("Cast", [same], (count, 2), call.temporary("weights"), real="float32", to="float32")
    inside = call.write("ReduceMin", [weight, call.vector([1], "axis")], (count, 1), call.temporary("in"), keepdims=1)
    # GridSample counts from -1 to 1, from the outer border of the first pixel to that of the last.
    scale = call.constant([[2 / columns, 2 / rows]], "scale", "float32")
    start = call.constant([[1 / columns - 1, 1 / rows - 1]], "start", "float32")
    grid = write("Add", [write("Mul", [nearest, scale], "spread"), start], "grid")
    grid = call.reshaped(grid, (1, height, width, 2), "grid")
    shape = (1, x.shape[3], height, width)
    inputs = [to_channels_first(call, x), grid]
    sampled = call.write("GridSample", inputs, shape, call.temporary("sampled"), padding_mode="border")
    mask = call.reshaped(inside, (1, 1, height, width), "mask")
    from_channels_first(call, call.write("Mul", [sampled, mask], shape, first_slot(call)))


def _sources(call: Call, height: int, width: int, half: float) -> Value:
    """Where the matrix sends the pixels of an output, as rows (x, y) that count from the centres of pixels; those of
    the output count from ``half`` a pixel on.
    """
    linear, offset = _matrix(call, call.input(1))
    count = height * width
    call.draft.ask(2 * count)
    down, right = np.meshgrid(np.arange(height) + half, np.arange(width) + half, indexing="ij")
    pixels = call.constant(np.stack([right, down], -1).reshape(-1, 2), "pixels", "float32")
    turned = call.write("MatMul", [pixels, linear], (count, 2), call.temporary("turned"))
    places = call.write("Add", [turned, offset], (count, 2), call.temporary("places"))
    if half:
        shift = call.constant(half, "half", "float32")
        places = call.write("Sub", [places, shift], (count, 2), call.temporary("centres"))
    return places
