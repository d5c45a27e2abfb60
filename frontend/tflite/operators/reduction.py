"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, ldexp, prod
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits, moves
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.rounding import TIE, pooling_offset
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import (
    BYTES,
    as_stored,
    cast_to,
    copy,
    finish_int,
    static,
    store,
    write_extremum,
    write_stored,
)
from layoutsolve.ir.graph import Array, Dim, Shape, Size, Value, product

_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_PROD": "ReduceProd",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_ALL": "ReduceMin",
}


_COMBINED = {"ReduceSum": "Add", "ReduceProd": "Mul"}
"""What makes a sum or a product of two numbers."""


def _axes(call: Call, x: Value) -> tuple[int, ...]:
    return tuple(sorted({axis_of(axis, len(x.shape)) for axis in call.integers(1, "axes")}))


def _reduced(shape: Shape, axes: tuple[int, ...], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


@lowers("MEAN", "SUM", "REDUCE_PROD", signature="FZ I -> =", quantized=INT8_AND_INT16)
@lowers("REDUCE_MAX", "REDUCE_MIN", signature="FZ I -> =")
@lowers("REDUCE_ANY", "REDUCE_ALL", signature="B I -> B")
def reduce(call: Call) -> None:
    """Reductions. Without axes nothing is reduced (in ONNX everything would be)."""
    x, slot, name = call.input(0), call.slot(), call.operator.name
    axes, keep = _axes(call, x), bool(call.option("keep_dims"))
    if not axes:
        copy(call, x)
        return
    shape, op = _reduced(x.shape, axes, keep), _REDUCTIONS[name]
    if real_dtype(x) in ("int8", "uint8", "int16"):
        store(call, over_axes(call, op, cast_to(call, x, "int32"), axes, shape, "wide"), slot)
        return
    if op in _COMBINED and real_dtype(x) in ("int32", "int64"):
        copy(call, over_axes(call, op, x, axes, shape, "whole"))
        return
    vector = call.vector(axes, "axes")
    attributes: dict[str, Any] = {"keepdims": int(keep)}
    if name in ("REDUCE_ANY", "REDUCE_ALL"):
        numbers = call.write("Cast", [x], x.shape, call.temporary("numbers", "int32"), real="int32", to="int32")
        found = call.write(op, [numbers, vector], shape, call.temporary("reduced", "int32"), **attributes)
        call.write("Cast", [found], shape, slot, real="bool", to="bool")
    elif name == "MEAN" and not real_dtype(x).startswith("float"):
        _integer_mean(call, x, axes, shape, attributes)
    elif name == "MEAN" and (offset := _mean_offset(x, slot, axes, keep)):
        mean = call.write(op, [x, vector], shape, call.temporary("mean"), **attributes)
        call.write("Add", [mean, call.constant(offset, "offset", "float32")], shape, slot)
    elif name == "MEAN" and any(lifts := _mean_lift(x, slot, product([x.shape[axis] for axis in axes]))):
        mean = call.write(op, [x, vector], shape, call.temporary("mean"), **attributes)
        call.write("Add", [mean, _signed(call, mean, x, *lifts)], shape, slot)
    else:
        storage = name in ("REDUCE_MAX", "REDUCE_MIN") and moves([x], slot.dtype, slot.quant, BYTES)
        call.write(op, [x, vector], shape, slot, storage=storage, **attributes)


def over_axes(call: Call, op: str, x: Value, axes: Sequence[int], shape: Shape, label: str) -> Value:
    """Numbers that are reduced over axes, in a ``shape`` where these are 1 or left out. Sums and products of integers
    wrap where they are larger than the type, as LiteRT's do: ONNX Runtime's are computed in float64, and saturate.
    """
    wraps = (op == "ReduceProd" and x.dtype.startswith("int")) or (op == "ReduceSum" and x.dtype == "int64")
    if wraps and all(isinstance(x.shape[axis], int) and x.shape[axis] for axis in axes):
        return call.reshaped(_combined(call, _COMBINED[op], x, axes), shape, label)
    keep = int(len(shape) == len(x.shape))
    wide = cast_to(call, x, "int64") if op == "ReduceSum" and x.dtype == "int32" else x
    found = call.write(op, [wide, call.vector(axes, "axes")], shape, call.temporary(label, wide.dtype), keepdims=keep)
    return cast_to(call, found, x.dtype)


def _combined(call: Call, op: str, x: Value, axes: Sequence[int]) -> Value:
    """Integers along axes of known sizes, which become 1, added or multiplied half by half."""
    for axis in axes:
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        while (size := static(call, [x.shape[axis]], "size")[0]) > 1:
            half, rest = divmod(size, 2)
            sizes = [half, half, *[1] * rest]
            parts = [((*before, each, *after), call.temporary("part", x.dtype)) for each in sizes]
            first, second, *more = call.write_many("Split", [x, call.vector(sizes, "split")], parts, axis=axis)
            x = call.write(op, [first, second], first.shape, call.temporary("both", x.dtype))
            if more:
                joined = (*before, half + 1, *after)
                x = call.write("Concat", [x, *more], joined, call.temporary("rest", x.dtype), axis=axis)
    return x


def _mean_offset(x: Value, slot: Slot, axes: tuple[int, ...], keep: bool) -> float:
    """How much LiteRT's 8-bit mean over height and width is off."""
    if x.quant is None or slot.quant is None or x.dtype not in BYTES or (len(x.shape), axes, keep) != (4, (1, 2), True):
        return 0.0
    count = product([x.shape[1], x.shape[2]])
    return pooling_offset(x.quant, slot.quant, count) if isinstance(count, int) else 0.0


def _mean_lift(x: Value, slot: Slot, count: Dim) -> tuple[float, float]:
    """How much farther from zero LiteRT's other means of integers come by rounding twice, above zero and below.

    The count goes into the multiplier, the power of two below it into the shift; what is left of the division is cut
    off, so that halves stay below themselves. Where nothing is left the first rounding takes them upwards.
    """
    if x.quant is None or slot.quant is None or not isinstance(count, int) or count < 1:
        return 0.0, 0.0
    result, whole = float(slot.quant.scale[0]), count.bit_length() - 1
    exponent = frexp(float(x.quant.scale[0]) / result)[1] - whole
    if exponent >= 0:
        return 0.0, 0.0
    more = ldexp(0.5, exponent)
    return (more + (TIE if count == 1 << whole else -TIE)) * result, (more - TIE) * result


def _signed(call: Call, value: Value, x: Value, above: float, below: float) -> Value:
    """A number with the sign of each element of a value: that of all where the zero point of ``x`` is at an end."""
    zero = int(x.quant.zero_point[0]) if x.quant is not None else 0
    low, high = limits(x.dtype)
    if zero in (low, high):
        return call.constant(above if zero == low else -below, "lift", "float32")
    sign = call.write("Sign", [value], value.shape, call.temporary("sign"))
    return call.write("Mul", [sign, call.constant(above, "lift", "float32")], value.shape, call.temporary("signed"))


def _integer_mean(call: Call, x: Value, axes: Sequence[int], shape: Shape, attributes: dict[str, Any]) -> None:
    """The mean of plain integers, rounded towards zero; LiteRT adds them up in int64."""
    dtype, count = real_dtype(x), product(x.shape[axis] for axis in axes)
    if not isinstance(count, int) or dtype not in ("int32", "int64"):
        call.write("ReduceMean", [x, call.vector(axes, "axes")], shape, call.slot(), **attributes)
        return
    if dtype == "int64":
        total = over_axes(call, "ReduceSum", x, axes, shape, "total")
    else:
        numbers = [cast_to(call, x, "int64"), call.vector(axes, "axes")]
        total = call.write("ReduceSum", numbers, shape, call.temporary("total", "int64"), **attributes)
    mean = [total, call.constant(count, "count", "int64")]
    copy(call, cast_to(call, call.write("Div", mean, shape, call.temporary("mean", "int64")), dtype))


@lowers("ARG_MAX", "ARG_MIN", signature="FZB I -> I")
def arg_extremum(call: Call) -> None:
    """ARG_MAX and ARG_MIN: the first position wins."""
    write_place(call, call.input(0))


def write_place(call: Call, x: Value) -> None:
    """Write the place of the extremum of some numbers."""
    axis = axis_of(call.integers(1, "axis")[0], len(x.shape))
    op = "ArgMax" if call.operator.name == "ARG_MAX" else "ArgMin"
    shape = _reduced(x.shape, (axis,), False)
    if real_dtype(x) == "bool":
        x = call.write("Cast", [x], x.shape, call.temporary("numbers", "int32"), real="int32", to="int32")
    finish_int(call, op, [x], shape, call.slot(), axis=axis, keepdims=0, select_last_index=0)


_WINDOWS = {1: "Add", 2: "Mul", 3: "Min", 4: "Max", 5: "And", 6: "Or"}
_WIDENED = ("bool", "int8", "uint8", "int16")
_OVER_WINDOWS = {"Add": "ReduceSum", "Mul": "ReduceProd", "Min": "ReduceMin", "Max": "ReduceMax", "And": "ReduceMin",
                 "Or": "ReduceMax"}  # fmt: skip


@lowers("REDUCE_WINDOW", signature="FZB = I I I -> =")
def reduce_window(call: Call) -> None:
    """REDUCE_WINDOW: along one axis after the other, the elements of each window are gathered and reduced."""
    x, start, slot = as_stored(call, call.input(0)), call.input(1), call.slot()
    windows, strides, dilations = (
        call.integers(at, what) for at, what in ((2, "window"), (3, "strides"), (4, "dilations"))
    )
    op = _WINDOWS.get(call.option("reduce_function"))
    if op is None:
        raise GapError("it reduces by a function that LiteRT does not have", "use a sum, product, minimum or maximum")
    geometry = _checked(call, x, start, (windows, strides, dilations), slot)
    if not write_pool(call, x, start, op, geometry, [(0, 0)] * len(x.shape), slot):
        write_windows(call, x, start, op, geometry, slot)


Geometry = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Sizes, strides and dilations of windows."""

_Window = tuple[Dim, int, int, int, tuple[int, int]]
"""Of an axis its size, and the size, stride, dilation and padding of its windows."""


def _checked(call: Call, x: Value, start: Value, geometry: Geometry, slot: Slot) -> Geometry:
    windows, strides, dilations = geometry
    if not len(windows) == len(strides) == len(dilations) == len(x.shape) or min(*windows, *strides, *dilations) < 1:
        raise ModelError(f"{call.origin} has windows that do not fit rank {len(x.shape)}")
    if start.dtype != x.dtype or slot.dtype != x.dtype:
        raise ModelError(f"{call.origin} reduces {x.dtype} from {start.dtype} on into {slot.dtype}")
    return geometry


_MOST_WINDOWS = 1 << 16
"""The most windows along an axis of which it is asked whether they meet an element."""

_LONGEST = 1 << 16
"""The longest windows, strides and dilations that are taken for those of a pooling."""

_SPATIAL = 3
"""The most dimensions along which ONNX Runtime pools."""


def write_pool(
    call: Call, x: Value, start: Value, op: str, geometry: Geometry, pads: Sequence[tuple[int, int]], slot: Slot
) -> bool:
    """Write reductions of stored numbers over windows as a MaxPool, or as an AveragePool times the size of a window;
    whether they are one. ``pads`` are elements around x that hold ``start``.
    """
    along = _pooled(x, geometry, pads)
    pooling = _pooling(op, x.dtype, call.content(start), [*along.values()]) if along else None
    if pooling is None:
        return False
    (name, neutral), windows = pooling, [*along.values()]
    rest = [at for at in range(len(x.shape)) if at not in along]
    perm = (*rest, *along)
    turned = list(perm) != sorted(perm)
    value = call.transposed(x, perm, "pooled_last", pattern=True) if turned else x
    outer, inner = value.shape[: len(rest)], value.shape[len(rest) :]
    lead = (1,) * (2 - len(rest)) + outer if len(rest) < 2 else (product(outer[:-1]), outer[-1])
    value = call.reshaped(value, (*lead, *inner), "images")
    sizes = tuple(_count(call, *window) for window in windows)
    grouped = len(lead) != len(outer)
    final = "in_order" if turned else "windows" if grouped else "sums" if name == "AveragePool" else "pooled"

    def place(label: str) -> Slot:
        direct = neutral and slot.quant is None and label == final
        return slot if direct else call.temporary(label, x.dtype)

    attributes = _pool_attributes(name, windows)
    value = call.write(name, [value], (*lead, *sizes), place("pooled"), **attributes)
    if name == "AveragePool":
        count = call.constant(prod(attributes["kernel_shape"]), "count", "float32")
        value = call.write("Mul", [value, count], value.shape, place("sums"))
    if grouped:
        value = call.reshape(value, (*outer, *sizes), place("windows"))
    if turned:
        value = call.transpose(value, [perm.index(at) for at in range(len(perm))], place("in_order"), pattern=True)
    if not neutral:
        _started(call, op, start, value, slot)
    elif slot.quant is not None:
        store(call, value, slot)
    return True


def _pooled(x: Value, geometry: Geometry, pads: Sequence[tuple[int, int]]) -> dict[int, _Window]:
    """The axes along which windows lie, each with its size and its windows; none where ONNX has no such pooling."""
    axes = list(zip(x.shape, *geometry, pads, strict=True))
    along = {at: axis for at, axis in enumerate(axes) if (axis[1], axis[2], axis[4]) != (1, 1, (0, 0))}
    fits = len(along) <= _SPATIAL and 0 not in x.shape and all(_pools(*axis) for axis in along.values())
    return along if fits else {}


def _pooling(op: str, dtype: str, start: Array | None, windows: Sequence[_Window]) -> tuple[str, bool] | None:
    """The pooling that reduces numbers of a type, and whether ``start`` changes none of its results; None where no
    pooling does.
    """
    number = None if start is None or start.dtype == object else start.reshape(-1)[0]
    if op == "Max" and dtype in ("float32", *BYTES):
        neutral = number == (-np.inf if dtype == "float32" else np.iinfo(dtype).min)
        return ("MaxPool", neutral) if dtype == "float32" or neutral else None
    summed = op == "Add" and dtype == "float32" and number == 0 and not any(dilation > 1 for *_, dilation, _ in windows)
    return ("AveragePool", True) if summed else None


def _pool_attributes(name: str, windows: Sequence[_Window]) -> dict[str, Any]:
    """The attributes of a pooling, of the size, window, stride, dilation and padding along each of its axes."""
    _, kernel, strides, dilations, pads = zip(*windows, strict=True)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    attributes["pads"] = (*(before for before, _ in pads), *(after for _, after in pads))
    if max(dilations) > 1:
        attributes["dilations"] = dilations
    if name == "AveragePool" and any(attributes["pads"]):
        attributes["count_include_pad"] = 1
    return attributes


def _pools(size: Dim, window: int, stride: int, dilation: int, pad: tuple[int, int]) -> bool:
    """Whether a pooling covers an axis: it pads by less than a window, and every window meets an element."""
    if min(pad) < 0 or max(pad) >= window or max(window, stride, dilation) > _LONGEST:
        return False
    if dilation == 1 or pad == (0, 0):
        return isinstance(size, Size) or size + sum(pad) >= (window - 1) * dilation + 1
    if isinstance(size, Size):
        return False
    last = size + sum(pad) - (window - 1) * dilation - 1
    if last < 0 or last // stride > _MOST_WINDOWS:
        return False
    places = np.arange(0, last + 1, stride)[:, None] + np.arange(window) * dilation - pad[0]
    return bool(((places >= 0) & (places < size)).any(1).all())


def _count(call: Call, size: Dim, window: int, stride: int, dilation: int, pad: tuple[int, int]) -> Dim:
    """The number of windows along an axis."""
    if isinstance(size, Size):
        return call.arithmetic.window(call.arithmetic.total((size, sum(pad))), (window - 1) * dilation + 1, stride)
    return (size + sum(pad) - (window - 1) * dilation - 1) // stride + 1


def write_windows(call: Call, x: Value, start: Value, op: str, geometry: Geometry, slot: Slot) -> None:
    """Write reductions of stored numbers over windows by an ONNX operator of two numbers, each from ``start`` on."""
    windows, strides, dilations = _checked(call, x, start, geometry, slot)
    wide = _computed(op, x.dtype)
    value = cast_to(call, x, wide)
    for axis, along in enumerate(zip(windows, strides, dilations, strict=True)):
        value = _over_window(call, value, axis, _OVER_WINDOWS[op], *along)
    _started(call, op, start, value, slot)


def write_reduced(call: Call, x: Value, start: Value, op: str, axes: Sequence[int], slot: Slot) -> None:
    """Write a reduction of plain numbers over axes, which go, by an ONNX operator of two, from ``start`` on."""
    value = cast_to(call, x, _computed(op, x.dtype))
    shape = tuple(dim for axis, dim in enumerate(x.shape) if axis not in axes)
    if axes:
        value = over_axes(call, _OVER_WINDOWS[op], value, axes, shape, "reduced")
    _started(call, op, start, value, slot)


def _computed(op: str, dtype: str) -> str:
    """The type in which numbers are reduced."""
    logic = op in ("And", "Or")
    if (logic and dtype != "bool") or (not logic and dtype not in ("float32", *_WIDENED, "int32", "int64")):
        raise GapError(f"it reduces {dtype}", "use float32 or int32, or bool for all and any")
    return "int32" if dtype in _WIDENED else dtype


def _started(call: Call, op: str, start: Value, value: Value, slot: Slot) -> None:
    """Write a reduced value, to which the number comes from which it starts."""
    first = call.reshaped(cast_to(call, as_stored(call, start), value.dtype, "start"), (), "start")
    if op in ("And", "Or"):
        combined = [cast_to(call, each, "bool") for each in (first, value)]
        write_stored(call, op, combined, value.shape, slot, "bool")
    elif op in ("Max", "Min") and value.dtype == "int64":
        write_extremum(call, op, first, value, value.shape, slot)
    else:
        write_stored(call, op, [first, value], value.shape, slot, value.dtype)


def _over_window(call: Call, x: Value, axis: int, op: str, window: int, stride: int, dilation: int) -> Value:
    if window == stride == 1:
        return x
    (size,) = static(call, [x.shape[axis]], "size")
    count = max((size - (window - 1) * dilation - 1) // stride + 1, 0)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    call.draft.ask(max(count, 1) * window)
    picks = np.arange(count)[:, None] * stride + np.arange(window) * dilation
    gathered = [x, call.constant(picks.reshape(-1), "picks", "int64")]
    taken = call.write("Gather", gathered, (*before, count * window, *after), call.like("taken", x), axis=axis)
    apart = call.reshaped(taken, (*before, count, window, *after), "windows")
    return over_axes(call, op, apart, [axis + 1], (*before, count, *after), "reduced")
