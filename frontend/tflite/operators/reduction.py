"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, frexp, ldexp
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call, Slot, real_dtype
from layoutsolve.frontend.tflite.lowering.gaps import GapError
from layoutsolve.frontend.tflite.lowering.quantisation import limits, moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.rounding import TIE
from layoutsolve.frontend.tflite.operators.common import (
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
from layoutsolve.graph import Dim, Shape, Value, product

_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_PROD": "ReduceProd",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_ALL": "ReduceMin",
}


def _axes(call: Call, x: Value) -> tuple[int, ...]:
    return tuple(sorted({axis_of(axis, len(x.shape)) for axis in call.integers(1, "axes")}))


def _reduced(shape: Shape, axes: tuple[int, ...], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


@lowers(*_REDUCTIONS)
def reduce(call: Call) -> None:
    """Reductions. Without axes nothing is reduced (in ONNX everything would be)."""
    x, slot, name = call.input(0), call.slot(), call.operator.name
    axes, keep = _axes(call, x), bool(call.option("keep_dims"))
    if not axes:
        copy(call, x)
        return
    shape, vector = _reduced(x.shape, axes, keep), call.vector(axes, "axes")
    op = _REDUCTIONS[name]
    attributes: dict[str, Any] = {"keepdims": int(keep)}
    if name in ("REDUCE_ANY", "REDUCE_ALL"):
        numbers = call.write("Cast", [x], x.shape, call.temporary("numbers", "int32"), real="int32", to="int32")
        found = call.write(op, [numbers, vector], shape, call.temporary("reduced", "int32"), **attributes)
        call.write("Cast", [found], shape, slot, real="bool", to="bool")
    elif real_dtype(x) == "int16":
        found = call.write(
            op, [cast_to(call, x, "int32"), vector], shape, call.temporary("wide", "int32"), **attributes
        )
        store(call, found, slot)
    elif name == "MEAN" and not real_dtype(x).startswith("float"):
        _integer_mean(call, x, vector, shape, product(x.shape[axis] for axis in axes), attributes)
    elif name == "MEAN" and (offset := _mean_offset(x, slot, axes, keep)):
        mean = call.write(op, [x, vector], shape, call.temporary("mean"), **attributes)
        call.write("Add", [mean, call.constant(offset, "offset", "float32")], shape, slot)
    elif name == "MEAN" and any(lifts := _mean_lift(x, slot, product([x.shape[axis] for axis in axes]))):
        mean = call.write(op, [x, vector], shape, call.temporary("mean"), **attributes)
        call.write("Add", [mean, _signed(call, mean, x, *lifts)], shape, slot)
    else:
        storage = name in ("REDUCE_MAX", "REDUCE_MIN") and moves([x], slot.dtype, slot.quant, BYTES)
        call.write(op, [x, vector], shape, slot, storage=storage, **attributes)


def _mean_offset(x: Value, slot: Slot, axes: tuple[int, ...], keep: bool) -> float:
    """How much LiteRT's 8-bit mean over height and width is off, up to three quarters of a step.

    It rounds the part of the zero point on its own, and that of the stored integers twice: to the fractions that the
    multiplier's shift leaves, then to a whole step, halves upwards (so do its vector kernels, sixteen channels at a
    time; the channels left over round halves away from zero).
    """
    if x.quant is None or slot.quant is None or x.dtype not in BYTES or (len(x.shape), axes, keep) != (4, (1, 2), True):
        return 0.0
    count, result = product([x.shape[1], x.shape[2]]), float(slot.quant.scale[0])
    if not isinstance(count, int):
        return 0.0
    ratio = float(x.quant.scale[0]) / result
    part = -int(x.quant.zero_point[0]) * ratio
    exponent = frexp(ratio / count)[1]
    return (floor(part + 0.5) - part + (ldexp(0.5, exponent) if exponent <= 0 else 0.0)) * result


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
    lift = ldexp(0.5, exponent)
    return (lift + (TIE if count == 1 << whole else -TIE)) * result, (lift - TIE) * result


def _signed(call: Call, value: Value, x: Value, above: float, below: float) -> Value:
    """A number with the sign of each element of a value: that of all where the zero point of ``x`` is at an end."""
    zero = int(x.quant.zero_point[0]) if x.quant is not None else 0
    low, high = limits(x.dtype)
    if zero in (low, high):
        return call.constant(above if zero == low else -below, "lift", "float32")
    sign = call.write("Sign", [value], value.shape, call.temporary("sign"))
    return call.write("Mul", [sign, call.constant(above, "lift", "float32")], value.shape, call.temporary("signed"))


def _integer_mean(call: Call, x: Value, axes: Value, shape: Shape, count: Dim, attributes: dict[str, Any]) -> None:
    """The mean of plain integers, rounded towards zero."""
    dtype = real_dtype(x)
    if not isinstance(count, int) or dtype not in ("int32", "int64"):
        call.write("ReduceMean", [x, axes], shape, call.slot(), **attributes)
        return
    total = call.write("ReduceSum", [x, axes], shape, call.temporary("total", dtype), **attributes)
    call.write("Div", [total, call.constant(count, "count", dtype)], shape, call.slot())


@lowers("ARG_MAX", "ARG_MIN")
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


@lowers("REDUCE_WINDOW")
def reduce_window(call: Call) -> None:
    """REDUCE_WINDOW: along one axis after the other, the elements of each window are gathered and reduced."""
    x, start, slot = as_stored(call, call.input(0)), call.input(1), call.slot()
    windows, strides, dilations = (
        call.integers(at, what) for at, what in ((2, "window"), (3, "strides"), (4, "dilations"))
    )
    op = _WINDOWS.get(call.option("reduce_function"))
    if op is None:
        raise GapError("it reduces by a function that LiteRT does not have", "use a sum, product, minimum or maximum")
    write_windows(call, x, start, op, (windows, strides, dilations), slot)


Geometry = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Sizes, strides and dilations of windows."""


def write_windows(call: Call, x: Value, start: Value, op: str, geometry: Geometry, slot: Slot) -> None:
    """Write reductions of stored numbers over windows by an ONNX operator of two numbers, each from ``start`` on."""
    windows, strides, dilations = geometry
    if not len(windows) == len(strides) == len(dilations) == len(x.shape) or min(*windows, *strides, *dilations) < 1:
        raise ModelError(f"{call.origin} has windows that do not fit rank {len(x.shape)}")
    if start.dtype != x.dtype or slot.dtype != x.dtype:
        raise ModelError(f"{call.origin} reduces {x.dtype} from {start.dtype} on into {slot.dtype}")
    wide = _computed(op, x.dtype)
    value = cast_to(call, x, wide)
    for axis, along in enumerate(zip(windows, strides, dilations, strict=True)):
        value = _over_window(call, value, axis, _OVER_WINDOWS[op], *along)
    _started(call, op, start, value, slot)


def write_reduced(call: Call, x: Value, start: Value, op: str, axes: Sequence[int], slot: Slot) -> None:
    """Write a reduction of plain numbers over axes, which go, by an ONNX operator of two, from ``start`` on."""
    value = cast_to(call, x, _computed(op, x.dtype))
    if axes:
        shape = tuple(dim for axis, dim in enumerate(x.shape) if axis not in axes)
        given = [value, call.vector(axes, "axes")]
        value = call.write(_OVER_WINDOWS[op], given, shape, call.like("reduced", value), keepdims=0)
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
    reduced = [apart, call.vector([axis + 1], "axes")]
    return call.write(op, reduced, (*before, count, *after), call.like("reduced", x), keepdims=0)
