"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.arrangement import join, total
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, as_int64, as_stored, cast_to, copy, static, store
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Shape, Size, Value, product

_WIDENED = ("int16", "uint16")
"""Plain types that ONNX Runtime does not pad."""

Pads = Sequence[tuple[Dim, Dim]]


def paddings(call: Call, rank: int, position: int = 1) -> list[tuple[Dim, Dim]]:
    """The number of elements before and after, per axis."""
    flat = call.dims(position, "padding")
    if len(flat) != 2 * rank or min((dim for dim in flat if not isinstance(dim, Size)), default=0) < 0:
        raise ModelError(f"{call.origin} has the padding {list(map(str, flat))} for {rank} axes")
    return list(zip(flat[::2], flat[1::2], strict=True))


def write_pad(
    call: Call, x: Value, pads: Pads, slot: Slot, value: Value | None = None, mode: str = "constant"
) -> Value:
    """Write a Pad. By default it fills with the stored value of zero."""
    shape = tuple(total(call, [dim, *sides]) if any(sides) else dim for dim, sides in zip(x.shape, pads, strict=True))
    vector = call.sizes([before for before, _ in pads] + [after for _, after in pads], "pads")
    filled = [x] if value is None else [x, value]
    storage = moves(filled, slot.dtype, slot.quant, BYTES)
    return _fill(call, [x, vector], value, storage, shape, slot, mode)


def _fill(
    call: Call,
    inputs: list[Value],
    value: Value | None,
    storage: bool,
    shape: Shape,
    slot: Slot,
    mode: str = "constant",
) -> Value:
    if inputs[0].dtype in _WIDENED and not storage and inputs[0].quant is None:
        wide = [cast_to(call, inputs[0], "int32"), inputs[1]]
        filler = None if value is None else cast_to(call, value, "int32")
        padded = _fill(call, wide, filler, False, shape, call.temporary("wide", "int32"), mode)
        return store(call, padded, slot)
    if value is not None:
        inputs = [*inputs, call.reshaped(value, (), "value")]
    elif storage and slot.quant is not None and mode == "constant":
        inputs = [*inputs, call.constant(slot.quant.zero_point[0], "value", slot.dtype, slot.quant)]
    return call.write("Pad", inputs, shape, slot, storage=storage, mode=mode)


@lowers("PAD", signature="FZB IH -> =")
@lowers("PADV2", signature="FZB IH = -> =")
def pad(call: Call) -> None:
    """PAD with zeros, PADV2 with a value."""
    x = call.input(0)
    if call.content(call.input(1)) is None:
        shape = tuple(map(call.unknown, range(len(x.shape))))
        pad_computed(call, x, _checked(call, x), shape, call.slot(), call.optional(2))
    else:
        write_pad(call, x, paddings(call, len(x.shape)), call.slot(), call.optional(2))


def _checked(call: Call, x: Value) -> Value:
    """The input that says how much to pad."""
    rank, rows = len(x.shape), call.input(1)
    if rows.shape != (rank, 2):
        raise ModelError(f"{call.origin} pads rank {rank} by '{rows.name}' of shape {list(map(str, rows.shape))}")
    return rows


def pad_computed(
    call: Call, x: Value, rows: Value, shape: Shape, slot: Slot, value: Value | None = None, mode: str = "constant"
) -> Value:
    """Write a Pad known at run time only: rows of (before, after) become all before, all after."""
    columns = call.transposed(as_int64(call, rows), (1, 0), "columns")
    vector = call.reshaped(columns, (2 * len(x.shape),), "pads")
    filled = [x] if value is None else [x, value]
    return _fill(call, [x, vector], value, moves(filled, slot.dtype, slot.quant, BYTES), shape, slot, mode)


@lowers("MIRROR_PAD", signature="FZB I -> =")
def mirror_pad(call: Call) -> None:
    """MIRROR_PAD: reflecting is a mode of ONNX; repeating the border as well is joined from reversed slices."""
    x, slot = call.input(0), call.slot()
    reflecting = call.option("mode") == 0
    if reflecting and call.content(call.input(1)) is None:
        pad_computed(call, x, _checked(call, x), tuple(map(call.unknown, range(len(x.shape)))), slot, mode="reflect")
        return
    pads = paddings(call, len(x.shape))
    if reflecting:
        write_pad(call, x, pads, slot, mode="reflect")
        return
    padded = [axis for axis, (before, after) in enumerate(pads) if before or after]
    if not padded:
        copy(call, x)
    for axis in padded:
        result = slot if axis == padded[-1] else call.like("mirrored", x)
        x = _mirrored(call, x, axis, static(call, pads[axis], "padding"), result)


def _mirrored(call: Call, x: Value, axis: int, pads: Sequence[int], slot: Slot) -> Value:
    before, after = pads
    size = x.shape[axis]
    if isinstance(size, int) and max(pads) > size:
        raise ModelError(f"{call.origin} mirrors {max(pads)} of {size} elements")
    parts = [x]
    if before:
        parts.insert(0, take(call, x, {axis: Span(before - 1, -LAST, -1)}, call.like("before", x), {axis: before}))
    if after:
        parts.append(take(call, x, {axis: Span(-1, -after - 1, -1)}, call.like("after", x), {axis: after}))
    return join(call, parts, axis, slot)


@lowers("DILATE", signature="FZB I = -> =")
def dilate(call: Call) -> None:
    """DILATE: fillers between the elements along each axis, written as padding behind each of them."""
    x, factors, slot = call.input(0), call.integers(1, "factors"), call.slot()
    if len(factors) != len(x.shape) or min(factors, default=0) < 1:
        raise ModelError(f"{call.origin} dilates rank {len(x.shape)} by {list(factors)}")
    if 0 in x.shape:
        raise ModelError(f"{call.origin} dilates a tensor without elements")
    numbers, filler = as_stored(call, x), call.reshaped(as_stored(call, call.input(2)), (), "filler")
    if filler.dtype != x.dtype:
        raise ModelError(f"{call.origin} fills {x.dtype} with {filler.dtype}")
    if not gaps(x.shape, factors):
        store(call, numbers, slot)
        return
    cut = slot if slot.quant is None else call.temporary("cut", x.dtype)
    result = write_dilated(call, numbers, filler, factors, cut)
    if cut is not slot:
        store(call, result, slot)


def gaps(shape: Shape, factors: Sequence[int]) -> list[int]:
    """The axes along which factors put something between elements."""
    return [axis for axis, factor in enumerate(factors) if factor > 1 and shape[axis] != 1]


def write_dilated(call: Call, x: Value, filler: Value, factors: Sequence[int], slot: Slot) -> Value:
    """Write a tensor, which is not empty, with fillers between its elements, along one axis at least."""
    axes = gaps(x.shape, factors)
    apart = [part for axis, dim in enumerate(x.shape) for part in ((dim, 1) if axis in axes else (dim,))]
    grown = [(0, factors[axis] - 1) if behind else (0, 0)
             for axis in range(len(factors)) for behind in ((False, True) if axis in axes else (False,))]  # fmt: skip
    parts = call.reshaped(x, tuple(apart), "parts")
    padded = write_pad(call, parts, grown, call.temporary("padded", x.dtype), filler)
    whole = tuple(product((dim, factors[axis])) if axis in axes else dim for axis, dim in enumerate(x.shape))
    spans = {axis: Span(0, 1 - factors[axis]) for axis in axes}
    sizes = {axis: total(call, [whole[axis], 1 - factors[axis]]) for axis in axes}
    return take(call, call.reshaped(padded, whole, "whole"), spans, slot, sizes)
