"""MediaPipe's MaxPoolingWithArgmax2D and MaxUnpooling2D: maxima with their places, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.custom.options import structure
from layoutsolve.frontend.tflite.operators.shared.common import (
    STATIC,
    first_slot,
    from_channels_first,
    ranked,
    static,
    to_channels_first,
    windows,
    write_activated,
)
from layoutsolve.ir.graph import Array, Shape, Value, product

EXACT = 2**24
"""Up to here float32 has all whole numbers; a quotient of two is not rounded up to the next one."""

_POOL = "padding stride_w stride_h filter_width filter_height fused_activation_function"


@lowers("CUSTOM:MaxPoolingWithArgmax2D", signature="F -> = FI")
def max_pool_with_places(call: Call) -> None:
    """MaxPoolingWithArgmax2D: MAX_POOL_2D, and where in its window each maximum was, counted by rows (plus 0.1)."""
    options = structure(call, _POOL)
    pool = call.restated(options)
    x = ranked(call, call.input(0), 4)
    _, height, width, _ = x.shape
    if not isinstance(height, int) or not isinstance(width, int):
        raise GapError("its input size is dynamic", STATIC)
    kernel = (options["filter_height"], options["filter_width"])
    strides = (options["stride_h"], options["stride_w"])
    spatial, attributes = windows(pool, (height, width), kernel, strides, (1, 1))
    shape = (x.shape[0], x.shape[3], *spatial)
    pads = attributes.get("pads", (0, 0, 0, 0))
    slots = [(shape, call.temporary("pooled")), (shape, call.temporary("flat", "int64"))]
    pooled, flat = call.write_many("MaxPool", [to_channels_first(call, x)], slots, **attributes)
    clamped = write_activated(pool, "Identity", [pooled], shape, first_slot(call))
    from_channels_first(call, clamped)

    down, right = (
        np.arange(count) * stride - pad
        for count, stride, pad in zip(_asked(call, spatial), strides, pads, strict=False)
    )
    first = down.reshape((1, 1, -1, 1)) * kernel[1] + right.reshape((1, 1, 1, -1))
    elements = product(x.shape)
    dtype = "float32" if isinstance(elements, int) and elements * kernel[1] <= EXACT else "int64"
    real = _in_window(call, flat, (height, width), kernel[1], first, dtype)
    tenth = call.constant(0.1, "tenth", "float32")
    result = call.write("Add", [real, tenth], shape, call.temporary("argmax"))
    call.transpose(result, (0, 2, 3, 1), call.slot(1), pattern=True)


def _asked(call: Call, spatial: Shape) -> Sequence[int]:
    """The sizes of an output, for whose pixels there is to be room."""
    rows, columns = static(call, spatial, "output size")
    call.draft.ask(rows * columns)
    return rows, columns


def _in_window(call: Call, flat: Value, image: tuple[int, int], columns: int, first: Array, dtype: str) -> Value:
    """The places in windows of so many ``columns``, counted by rows, of what is counted in all images, where the first
    pixel of each window has such a number: as real numbers, which take less time to compute than int64.
    """
    height, width = image

    def real(a: Value) -> Value:
        return call.write("Cast", [a], a.shape, call.temporary("real"), real="float32", to="float32")

    def write(op: str, a: Value, b: Any) -> Value:
        other = b if isinstance(b, Value) else call.constant(b, "by", dtype)
        return call.write(op, [a, other], flat.shape, call.temporary("place", dtype))

    def whole(a: Value, by: int) -> Value:
        """How often a number goes into another one."""
        found = write("Div", a, by)
        return found if dtype == "int64" else call.write("Floor", [found], flat.shape, call.temporary("whole"))

    if dtype != "int64":
        flat = real(flat)
    row = whole(flat, width)
    before = write("Add", write("Mul", row, columns - width), write("Mul", whole(row, height), -columns * height))
    place = write("Sub", write("Add", flat, before), first)
    return place if dtype != "int64" else real(place)


@lowers("CUSTOM:MaxUnpooling2D", "CUSTOM:LiteRtMaxUnpooling2D", signature="F FI -> =")
def max_unpool(call: Call) -> None:
    """MaxUnpooling2D: numbers put where a maximum was, zeros around them.

    MediaPipe counts places within a window, as real numbers; TensorFlow within an image, as integers.
    """
    options = structure(call, _POOL)
    x, places = ranked(call, call.input(0), 4), ranked(call, call.input(1), 4)
    if not call.agree(x.shape, places.shape) or x.dtype != "float32":
        raise ModelError(f"{call.origin} puts {x} to {places}")
    if min(options[key] for key in ("stride_w", "stride_h", "filter_width", "filter_height")) < 1:
        raise ModelError(f"{call.origin} has a stride or filter size below 1")
    if places.dtype == "int32":
        _unpool_in_image(call, x, places, options)
    elif places.dtype == "float32":
        _unpool_in_window(call, x, places, options)
    else:
        raise ModelError(f"{call.origin} reads places of {places.dtype}")


def _unpool_in_window(call: Call, x: Value, places: Value, options: Mapping[str, int]) -> None:
    """Numbers and places are repeated for all pixels of a window, each of which has a place of its own."""
    window = (options["filter_height"], options["filter_width"])
    if window != (options["stride_h"], options["stride_w"]):
        raise GapError("its windows overlap or leave gaps", "use strides as large as the filter")
    height, width = static(call, x.shape[1:3], "input size")
    rows, columns = height * window[0], width * window[1]
    call.draft.ask(rows * columns)
    shape = (x.shape[0], rows, columns, x.shape[3])
    scales = call.constant([1, *window, 1], "scales", "float32")

    def repeated(value: Value) -> Value:
        slot, inputs = call.temporary("repeated"), [value, None, scales]
        how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return call.write("Resize", inputs, shape, slot, mode="nearest", **how)

    wanted = repeated(places)
    wanted = call.write("Cast", [wanted], shape, call.temporary("wanted", "int32"), real="int32", to="int32")
    down, right = np.arange(rows) % window[0] * window[1], np.arange(columns) % window[1]
    own = call.constant((down[:, None] + right)[None, :, :, None], "own", "int32")
    here = call.write("Equal", [wanted, own], shape, call.temporary("here", "bool"), real="bool")
    inputs = [here, repeated(x), call.constant(0, "zero", "float32")]
    call.write("Where", inputs, shape, call.slot(), real="float32")


def _unpool_in_image(call: Call, x: Value, places: Value, options: Mapping[str, int]) -> None:
    """Places count the elements of an image, channels innermost."""
    batch, height, width, channels = static(call, x.shape, "input shape")
    steps, window = (options["stride_h"], options["stride_w"]), (options["filter_height"], options["filter_width"])
    same = options["padding"] == 0
    sizes = [
        size * step if same else (size - 1) * step + extent
        for size, step, extent in zip((height, width), steps, window, strict=True)
    ]
    total = sizes[0] * sizes[1] * channels
    zero = call.constant(0, "zero", "float32")
    empty = call.write("Expand", [zero, call.vector([batch, total], "sizes")], (batch, total), call.temporary("empty"))
    rows = (batch, height * width * channels)
    inputs = [empty, call.reshaped(places, rows, "places"), call.reshaped(x, rows, "numbers")]
    put = call.write("ScatterElements", inputs, (batch, total), call.temporary("put"), axis=1)
    call.reshape(put, (batch, *sizes, channels), call.slot())
