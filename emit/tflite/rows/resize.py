"""Resize: LiteRT's where it takes the same pixels, else the nearest ones gathered along each axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.slicing import gather_along
from layoutsolve.emit.tflite.rows.stored import moves, same_integers
from layoutsolve.ir.graph import Array, Dim, Size
from layoutsolve.proto.resized_sizes import rounded

_IMAGE = 4
_BYTES = ("int8", "uint8")


def _plain(call: Call) -> bool:
    """Whether integers are resized in the same steps, by a kernel or by moving them."""
    if not (same_integers(call) and moves(call)):
        return False
    return call.attribute("mode", "nearest") == "nearest" or _flags(call) is not None


@row("Resize", quantized=_plain)
def resize(call: Call) -> None:
    """Resize."""
    if call.attribute("antialias", 0) or call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ExpressionError("it resizes with antialiasing, or keeps an aspect ratio", "resize without")
    before, after = _both(call)
    if before == after:  # which ONNX Runtime copies, whatever its scales
        call.reshape(call.tensor(0), call.output.shape, call.target())
    elif call.attribute("mode", "nearest") == "nearest":
        _nearest(call, before, after, _scales(call, before, after))
    elif call.value(0).dtype in _BYTES and (call.node.storage or call.value(0).quant is None):
        _truncated(call, after)
    elif (flags := _flags(call)) is not None:
        call.write("RESIZE_BILINEAR", [call.tensor(0), call.constant(after[1:3])], **flags)
    else:
        _interpolate(call, before, after, _scales(call, before, after))


def _truncated(call: Call, after: list[int]) -> None:
    """Write an interpolation of bytes that ONNX Runtime rounds down, and LiteRT's kernel to the nearest one."""
    value, flags = call.value(0), _flags(call)
    if flags is None:
        raise ExpressionError("it interpolates bytes as LiteRT does not", "cast it to float32")
    real, resized = call.temporary(value.shape), call.temporary(call.output.shape)
    call.write("CAST", [call.tensor(0)], [real])
    call.write("RESIZE_BILINEAR", [real, call.constant(after[1:3])], [resized], **flags)
    call.write("CAST", [resized])


def _both(call: Call) -> tuple[list[int], list[int]]:
    """The sizes before and after; one that is open and stays as it is counts as 1."""
    pairs = list(zip(call.value(0).shape, call.output.shape, strict=True))
    if any(one != other and isinstance(one, Size) for one, other in pairs) or any(
        isinstance(other, Size) and one != other for one, other in pairs
    ):
        raise ExpressionError("the sizes that it resizes are dynamic", "fix them with --shape")
    sides = zip(*((1, 1) if isinstance(one, Size) else (one, other) for one, other in pairs), strict=True)
    before, after = ([int(size) for size in side if isinstance(size, int)] for side in sides)
    return before, after


def _scales(call: Call, before: list[int], after: list[int]) -> list[float]:
    """The scale of each stored axis: as it is given, or what the sizes say."""
    ratios = [other / one if one else 1.0 for one, other in zip(before, after, strict=True)]
    given = call.data(2)
    if call.has(2) and given is None:
        raise ExpressionError("the input with its scales is computed", "make it a constant")
    if given is None or not given.size:
        return ratios
    order, axes = call.order(0), call.attribute("axes")
    for number, scale in enumerate(given.reshape(-1).tolist()):
        axis = order[number if axes is None else axes[number] % len(before)]
        if before[axis] and rounded(before[axis], np.float32(scale)) != after[axis]:
            raise ExpressionError("ONNX rounds its sizes otherwise than ONNX Runtime", "give it sizes")
        ratios[axis] = scale
    return ratios


def _places(call: Call, size: int, result: int, scale: float) -> Array:
    """Where each pixel of a result lies in the source, as ONNX computes it in float32."""
    mode, x = call.attribute("coordinate_transformation_mode", "half_pixel"), np.arange(result, dtype=np.float32)
    ratio = np.float32(scale)
    if mode == "asymmetric":
        return x / ratio
    if mode == "align_corners":
        return x * np.float32(size - 1) / np.float32(result - 1) if result > 1 else np.zeros(result, np.float32)
    if mode == "pytorch_half_pixel" and result == 1:
        return np.zeros(1, np.float32)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (x + np.float32(0.5)) / ratio - np.float32(0.5)
    if mode == "half_pixel_symmetric" and call.attribute("mode") != "nearest":
        lacking = np.float32(1.0) - np.float32(result) / (ratio * np.float32(size))
        return np.float32(size / 2) * lacking + (x + np.float32(0.5)) / ratio - np.float32(0.5)
    raise ExpressionError(f"its coordinate_transformation_mode is {mode}", "use half_pixel or asymmetric")


_HALF = np.float32(1e-6)
"""How near to the middle of two pixels ONNX Runtime takes a place for the middle."""


def _rounded(x: Array, middle: int) -> Array:
    """The nearest pixels, of two that are as near the one before, or 1 behind it."""
    first = np.floor(x)
    rest = x - first
    found: Array = first + np.where(abs(rest - np.float32(0.5)) < _HALF, middle, rest > np.float32(0.5))
    return found


_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": partial(_rounded, middle=1),
    "round_prefer_floor": partial(_rounded, middle=0),
}


def _nearest(call: Call, before: list[int], after: list[int], scales: list[float]) -> None:
    rounding = _ROUNDINGS[call.attribute("nearest_mode", "round_prefer_floor")]
    indices = {
        axis: np.clip(rounding(_places(call, before[axis], after[axis], scales[axis])), 0, before[axis] - 1).astype(int)
        for axis in range(len(before))
        if before[axis] != after[axis] or scales[axis] != 1.0
    }
    if len(before) == _IMAGE and set(indices) <= {1, 2}:
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True}):
            if all((_of_kernel(before[axis], after[axis], flags) == places).all() for axis, places in indices.items()):
                call.write("RESIZE_NEAREST_NEIGHBOR", [call.tensor(0), call.constant(after[1:3])], **flags)
                return
    gather_along(call, call.tensor(0), call.value(0).shape, indices)


def _of_kernel(size: int, result: int, flags: dict[str, bool]) -> Array:
    """The pixels that LiteRT's kernel takes."""
    x, corners = np.arange(result, dtype=np.float32), flags.get("align_corners", False)
    ratio = (
        np.float32(size - 1) / np.float32(result - 1)
        if corners and result > 1
        else np.float32(size) / np.float32(result)
    )
    offset = np.float32(0.5 if flags.get("half_pixel_centers") else 0.0)
    places = (x + offset) * ratio
    rounded = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    taken: Array = np.minimum(rounded, size - 1).astype(int)
    return taken


def _flags(call: Call) -> dict[str, bool] | None:
    """The options with which RESIZE_BILINEAR interpolates as a node does, None where it does not."""
    if call.attribute("mode", "nearest") != "linear":
        return None
    before, after = _both(call)
    mode, scales = call.attribute("coordinate_transformation_mode", "half_pixel"), _scales(call, before, after)
    changed = {axis for axis, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}
    if len(before) != _IMAGE or not changed <= {1, 2} or any(after[axis] == 1 for axis in changed):
        return None
    ratios = (other / one for one, other in zip(before, after, strict=True))
    if mode != "align_corners" and not np.allclose(scales, [*ratios], rtol=1e-6):
        return None
    half = {"half_pixel_centers": True}
    known = {"align_corners": {"align_corners": True}, "asymmetric": {}, "half_pixel": half, "pytorch_half_pixel": half}
    return known.get(mode)


def _interpolate(call: Call, before: list[int], after: list[int], scales: list[float]) -> None:
    """Write an interpolation axis by axis, as sums of neighbours that are gathered, each with its weight."""
    tensor, shape = call.tensor(0), list[Dim](call.value(0).shape)
    axes = [axis for axis in range(len(before)) if before[axis] != after[axis] or scales[axis] != 1.0]
    if not axes:
        call.reshape(tensor, call.output.shape, call.target())
    for axis in axes:
        places, weights = _neighbours(call, before[axis], after[axis], scales[axis])
        shape[axis] = after[axis]
        spread = [-1 if place == axis else 1 for place in range(len(shape))]
        total = -1
        for number in range(places.shape[1]):
            near = call.move("GATHER", tensor, [call.constant(places[:, number])], shape, axis=axis)
            part = call.step("MUL", [near, call.constant(weights[:, number].reshape(spread), "float32")], shape)
            last = axis == axes[-1] and number == places.shape[1] - 1
            if last:
                call.write("ADD", [total, part])
            else:
                total = part if total < 0 else call.step("ADD", [total, part], shape)
        tensor = total


def _neighbours(call: Call, size: int, result: int, scale: float) -> tuple[Array, Array]:
    """For each pixel of a result the pixels of the source that it is a sum of, and their weights."""
    exact = _places(call, size, result, scale).astype(np.float64)
    first = np.floor(exact)
    rest = exact - first
    if call.attribute("mode") == "linear":
        exact = np.clip(exact, 0, size - 1)
        first = np.floor(exact)
        rest = exact - first
        offsets: Sequence[int] = (0, 1)
        weights = np.stack([1 - rest, rest], 1)
    else:
        offsets, weights = (-1, 0, 1, 2), _cubic(rest, float(call.attribute("cubic_coeff_a", -0.75)))
    places = np.stack([first + offset for offset in offsets], 1)
    if call.attribute("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < size), weights, 0)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(int), weights


def _cubic(rest: Array, a: float) -> Array:
    """The weights of four neighbours, by how far a pixel is from the second of them."""
    near = [((a + 2) * x - (a + 3)) * x * x + 1 for x in (rest, 1 - rest)]
    far = [((a * x - 5 * a) * x + 8 * a) * x - 4 * a for x in (1 + rest, 2 - rest)]
    return np.stack([far[0], near[0], near[1], far[1]], 1)
