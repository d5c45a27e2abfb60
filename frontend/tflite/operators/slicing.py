"""Slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import (
    LAST,
    Masks,
    Span,
    StridedSlice,
    axis_of,
    axis_span,
    span_size,
    strided_slice,
)
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, copy
from layoutsolve.ir.graph import Dim, Shape, Size, Value


def take(call: Call, x: Value, spans: Mapping[int, Span], slot: Slot, sizes: Mapping[int, Dim] | None = None) -> Value:
    """Write a Slice; ``spans`` has the range on each axis, ``sizes`` the numbers of elements, if known."""
    known = sizes or {}
    shape = list(x.shape)
    for axis, span in spans.items():
        shape[axis] = known[axis] if axis in known else span_size(x.shape[axis], span, call.arithmetic)
    axes = sorted(spans)
    inputs = [
        x,
        call.sizes([spans[axis].start for axis in axes], "starts"),
        call.sizes([spans[axis].end for axis in axes], "ends"),
        call.vector(axes, "axes"),
        call.vector([spans[axis].step for axis in axes], "steps"),
    ]
    return call.write("Slice", inputs, tuple(shape), slot, storage=moves([x], slot.dtype, slot.quant))


@lowers("SLICE", signature="FZBS I I -> =")
def slice_(call: Call) -> None:
    """SLICE: where it begins and how many elements it takes, -1 for all that are left."""
    x, slot = call.input(0), call.slot()
    if any(call.content(call.input(position)) is None for position in (1, 2)):
        _slice_computed(call, x)
        return
    begins, counts = call.dims(1, "begin"), call.dims(2, "size")
    if not len(begins) == len(counts) == len(x.shape):
        raise ModelError(f"{call.origin} slices {len(begins)} axes of {len(x.shape)}")
    spans: dict[int, Span] = {}
    sizes: dict[int, Dim] = {}
    for axis, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        size = x.shape[axis]
        if begin == 0 and count in (-1, size):
            continue
        end = LAST if count == -1 else call.arithmetic.total((begin, count))
        _check_cut(call, begin, count, size)
        spans[axis] = Span(begin, LAST if end == size else end)
        sizes[axis] = call.arithmetic.difference(size, begin) if count == -1 else count
    if spans:
        take(call, x, spans, slot, sizes)
    else:
        copy(call, x)


def _check_cut(call: Call, begin: Dim, count: Dim, size: Dim) -> None:
    """Refuse to take elements that are known not to be there."""
    if isinstance(begin, Size) or isinstance(count, Size):
        return
    if begin < 0 or count < -1 or (not isinstance(size, Size) and begin + max(count, 0) > size):
        raise ModelError(f"{call.origin} takes {count} elements from {begin} on of {size}")


def _slice_computed(call: Call, x: Value) -> None:
    """SLICE with bounds that are known at run time only: it ends at begin plus size, or at the end where size is -1."""
    slot, rank = call.slot(), len(x.shape)
    for vector in (call.input(1), call.input(2)):
        if vector.shape != (rank,):
            raise ModelError(f"{call.origin} slices {rank} axes by '{vector.name}' of rank {len(vector.shape)}")
    starts, sizes = as_int64(call, call.input(1), "starts"), as_int64(call, call.input(2), "sizes")
    to_end = call.write(
        "Less", [sizes, call.constant(0, "zero", "int64")], (rank,), call.temporary("to_end", "bool"), real="bool"
    )
    sums = call.write("Add", [starts, sizes], (rank,), call.temporary("sums", "int64"))
    inputs = [to_end, call.constant(LAST, "last", "int64"), sums]
    ends = call.write("Where", inputs, (rank,), call.temporary("ends", "int64"), real="int64")
    known = call.content(call.input(2))
    counts = [-1] * rank if known is None else known.reshape(-1).tolist()
    shape = tuple(call.unknown(axis) if count == -1 else count for axis, count in enumerate(counts))
    vectors = [starts, ends, call.vector(range(rank), "axes")]
    call.write("Slice", [x, *vectors], shape, slot, storage=moves([x], slot.dtype, slot.quant))


def masks_of(call: Call) -> Masks:
    """The masks of a STRIDED_SLICE."""
    return Masks(
        begin=call.option("begin_mask"),
        end=call.option("end_mask"),
        ellipsis=call.option("ellipsis_mask"),
        new_axis=call.option("new_axis_mask"),
        shrink_axis=call.option("shrink_axis_mask"),
        offset=bool(call.option("offset")),
    )


def resolved(call: Call, shape: Shape) -> StridedSlice | None:
    """The STRIDED_SLICE with its masks resolved; None where it depends on what is computed."""
    begin, end, strides = (_bounds(call, position) for position in (1, 2, 3))
    steps = [step for step in strides if isinstance(step, int)]
    if len(steps) != len(strides):
        return None
    return strided_slice(shape, begin, end, steps, masks_of(call))


def _bounds(call: Call, position: int) -> list[Dim | None]:
    """A vector of bounds as far as it is known."""
    value = call.input(position)
    content = call.content(value)
    if content is None:
        return [None] * value.shape[0] if value.shape and isinstance(value.shape[0], int) else []
    return [_bound(call, entry) for entry in content.reshape(-1).tolist()]


def _bound(call: Call, entry: object) -> Dim | None:
    """A bound as far as it is known; None where it may count from the end or not."""
    if isinstance(entry, Size):
        return entry if call.arithmetic.never_negative(entry) else None
    return int(entry)  # type: ignore[call-overload, no-any-return]


@lowers("STRIDED_SLICE", signature="FZBS I I I -> =")
def strided_slice_(call: Call) -> None:
    """STRIDED_SLICE: a Slice, and a view for the axes that go or come."""
    x, slot = call.input(0), call.slot()
    plan = resolved(call, x.shape)
    if plan is None:
        _strided_slice_computed(call, x, slot)
        return
    spans = {axis: span for axis, span in enumerate(plan.spans) if not _takes_all(span, x.shape[axis])}
    sizes: dict[int, Dim] = {axis: 1 for axis in range(len(x.shape)) if axis not in plan.axes}
    viewed = list(plan.axes) != list(range(len(x.shape)))
    cut = x
    if spans:
        cut = take(call, x, spans, call.like("slice", x) if viewed else slot, sizes)
    if viewed:
        call.reshape(cut, tuple(1 if axis is None else cut.shape[axis] for axis in plan.axes), slot)
    elif not spans:
        copy(call, x)


def _strided_slice_computed(call: Call, x: Value, slot: Slot) -> None:
    """STRIDED_SLICE with bounds that are known at run time only: masks replace single entries of the vectors."""
    masks, strides = masks_of(call), call.integers(3, "strides")
    entries = len(strides)
    if masks.ellipsis or masks.new_axis or masks.offset or entries > len(x.shape) or 0 in strides:
        raise GapError("its bounds are computed at run time and it adds axes", "make begin and end constant")
    shrunk = [bool(masks.shrink_axis >> axis & 1) for axis in range(entries)]
    begin = as_int64(call, call.input(1), "begin")
    first = [0 if step > 0 else -1 for step in strides]
    open_begin = [masks.begin >> axis & 1 for axis in range(entries)]
    starts = _replaced(call, begin, open_begin, call.vector(first, "first"))
    last = call.vector([LAST if step > 0 else -LAST for step in strides], "last")
    open_end = [masks.end >> axis & 1 for axis in range(entries)]
    ends = _replaced(call, as_int64(call, call.input(2), "end"), open_end, last)
    if any(shrunk):
        following = call.write("Add", [starts, call.vector([1], "one")], begin.shape, call.temporary("next", "int64"))
        final = call.write(
            "Equal", [following, call.vector([0], "zero")], begin.shape, call.temporary("final", "bool"), real="bool"
        )
        inputs = [final, call.vector([LAST], "all"), following]
        stop = call.write("Where", inputs, begin.shape, call.temporary("stop", "int64"), real="int64")
        ends = _replaced(call, ends, shrunk, stop)
    known = zip(x.shape, _bounds(call, 1), _bounds(call, 2), strides, shrunk, strict=False)
    shape: list[Dim] = [*x.shape]
    for axis, (size, low, high, step, gone) in enumerate(known):
        span = axis_span(size, low, high, step, axis, masks)
        taken = call.unknown(axis) if span is None else span_size(size, span, call.arithmetic)
        shape[axis] = 1 if gone else taken
    steps = [1 if gone else step for step, gone in zip(strides, shrunk, strict=True)]
    inputs = [x, starts, ends, call.vector(range(entries), "axes"), call.vector(steps, "steps")]
    cut = call.like("slice", x) if any(shrunk) else slot
    result = call.write("Slice", inputs, tuple(shape), cut, storage=moves([x], cut.dtype, cut.quant))
    if any(shrunk):
        kept = [axis for axis in range(len(shape)) if axis >= entries or not shrunk[axis]]
        call.reshape(result, tuple(shape[axis] for axis in kept), slot)


def _replaced(call: Call, vector: Value, chosen: Sequence[object], other: Value) -> Value:
    """A vector with some of its entries taken from another one."""
    if not any(chosen):
        return vector
    mask = call.constant(np.array(chosen, bool), "mask")
    slot = call.temporary("bounds", "int64")
    return call.write("Where", [mask, other, vector], vector.shape, slot, real="int64")


def cut(call: Call, x: Value, sides: Mapping[int, tuple[Dim, Dim]], slot: Slot) -> Value:
    """``x`` without some elements at the begin and end of axes; as it is where there are none to cut."""
    spans: dict[int, Span] = {}
    sizes: dict[int, Dim] = {}
    for axis, (before, after) in sides.items():
        if before or after:
            sizes[axis] = call.arithmetic.difference(x.shape[axis], call.arithmetic.total((before, after)))
            end = call.arithmetic.difference(x.shape[axis], after) if isinstance(after, Size) else -after or LAST
            spans[axis] = Span(before, end)
    return take(call, x, spans, slot, sizes)


def _takes_all(span: Span, size: Dim) -> bool:
    return span.whole or (size == 1 and span in (Span(0, 1), Span(-1, LAST)))


@lowers("REVERSE_V2", signature="FZB I -> =")
def reverse(call: Call) -> None:
    """REVERSE_V2."""
    x = call.input(0)
    axes = [axis_of(axis, len(x.shape)) for axis in call.integers(1, "axes")]
    if axes:
        take(call, x, dict.fromkeys(axes, Span(-1, -LAST, -1)), call.slot(), {axis: x.shape[axis] for axis in axes})
    else:
        copy(call, x)
