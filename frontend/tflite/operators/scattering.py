"""Elements put by index: scattering, sums over segments, updated slices."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.filling import size_vector
from layoutsolve.frontend.tflite.operators.shared.common import (
    as_int64,
    as_stored,
    counted,
    ranked,
    static,
    store,
    write_extremum,
)
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Shape, Size, Value, product


def _filled(call: Call, number: float | str, dtype: str, shape: Shape, vector: Value | None = None) -> Value:
    """A tensor of one number; ``vector`` is its shape where that has to be computed."""
    if vector is None:
        vector = call.vector(static(call, shape, "output shape"), "shape")
    given = [call.constant(number, "fill", dtype), vector]
    return call.write("Expand", given, shape, call.temporary("filled", dtype), real=dtype)


def _scatter(call: Call, data: Value, indices: Value, updates: Value, reduction: str, label: str) -> Value:
    slot = call.temporary(label, data.dtype)
    return call.write("ScatterND", [data, indices, updates], data.shape, slot, reduction=reduction)


@lowers("SCATTER_ND", signature="I FZB I -> =1")
def scatter_nd(call: Call) -> None:
    """SCATTER_ND into zeros; what meets in one place is added."""
    indices, updates, slot = call.input(0), as_stored(call, call.input(1)), call.slot()
    vector, shape = size_vector(call, 2, "shape")
    depth = indices.shape[-1] if indices.shape else None
    if depth == 0:
        raise GapError("its indices have no elements", "index at least one axis")
    if not isinstance(depth, int) or depth > len(shape) or updates.dtype != slot.dtype:
        raise ModelError(f"{call.origin} puts '{updates.name}' of {updates.dtype} by indices of depth {depth}")
    outer = indices.shape[:-1]
    apart = [a != b for a, b in zip(updates.shape, (*outer, *shape[depth:]), strict=False)
             if isinstance(a, int) and isinstance(b, int)]  # fmt: skip
    if len(updates.shape) != len(outer) + len(shape) - depth or any(apart):
        raise ModelError(f"{call.origin} puts {list(map(str, updates.shape))} into {list(map(str, shape))}")
    zeros = _filled(call, 0, updates.dtype, shape, vector)
    store(call, _scatter(call, zeros, as_int64(call, indices), updates, "add", "scattered"), slot)


@lowers("SPARSE_TO_DENSE", signature="I I FZB =2 -> =2")
def sparse_to_dense(call: Call) -> None:
    """SPARSE_TO_DENSE: values, or one value, put by indices (one number each, or rows of them) into a default."""
    indices, values, default = (
        as_int64(call, call.input(0)),
        as_stored(call, call.input(2)),
        as_stored(call, call.input(3)),
    )
    vector, shape = size_vector(call, 1, "shape")
    slot = call.slot()
    if len(indices.shape) > 2 or len(values.shape) > 1 or not values.dtype == default.dtype == slot.dtype:
        raise ModelError(f"{call.origin} puts '{values.name}' by indices of rank {len(indices.shape)}")
    (count,) = indices.shape[:1] or (1,)
    rows = call.reshaped(indices, (count, len(shape)), "rows")
    if rows.data is not None and len(np.unique(rows.data, axis=0)) < len(rows.data):
        raise GapError("it puts several values into one place", "leave out repeated indices")
    if values.shape == () or (values.shape == (1,) and isinstance(count, int) and count != 1):
        values = _expanded(call, values, (count,))
    if values.shape != (count,) and not call.agree(values.shape, (count,)):
        raise ModelError(f"{call.origin} puts {list(map(str, values.shape))} values into {count} places")
    filled = [call.reshaped(default, (), "default"), vector]
    data = call.write("Expand", filled, shape, call.temporary("filled", slot.dtype), real=slot.dtype)
    updates = call.reshaped(values, (count,), "values")
    store(call, _scatter(call, data, rows, updates, "none", "scattered"), slot)


def _expanded(call: Call, value: Value, shape: Shape) -> Value:
    given = [value, call.sizes(shape, "shape")]
    return call.write("Expand", given, shape, call.temporary("expanded", value.dtype))


_SEGMENTS: dict[str, tuple[str, float]] = {
    "SEGMENT_SUM": ("add", 0),
    "UNSORTED_SEGMENT_SUM": ("add", 0),
    "UNSORTED_SEGMENT_PROD": ("mul", 1),
    "UNSORTED_SEGMENT_MAX": ("max", -np.inf),
    "UNSORTED_SEGMENT_MIN": ("min", np.inf),
}


def _neutral(number: float, dtype: str) -> float:
    """What an empty segment holds in LiteRT: no infinities, but the outermost numbers of the type."""
    if np.isfinite(number):
        return number
    limits = np.finfo(np.float32) if dtype == "float32" else np.iinfo(dtype)
    return float(limits.min if number < 0 else limits.max)


@lowers("SEGMENT_SUM", signature="FZ I -> =")
@lowers(
    "UNSORTED_SEGMENT_SUM",
    "UNSORTED_SEGMENT_PROD",
    "UNSORTED_SEGMENT_MAX",
    "UNSORTED_SEGMENT_MIN",
    signature="FZ I I -> =",
)
def segments(call: Call) -> None:
    """Reductions over segments: rows scattered into what an empty segment holds. Rows of negative segments go."""
    x, ids, slot = call.input(0), call.input(1), call.slot()
    if x.dtype not in ("float32", "int32") or slot.dtype != x.dtype:
        raise GapError(f"it reduces segments of {x.dtype}", "use float32 or int32")
    depth = len(ids.shape)
    if depth > len(x.shape) or not call.agree(ids.shape, x.shape[:depth]):
        raise ModelError(f"{call.origin} has segments {list(map(str, ids.shape))} of {list(map(str, x.shape))}")
    rest, count = x.shape[depth:], product(ids.shape)
    rows, flat = call.reshaped(x, (count, *rest), "rows"), call.reshaped(as_int64(call, ids), (count,), "ids")
    known = call.content(flat)
    sorted_ids = call.operator.name == "SEGMENT_SUM"
    number, vector = (_last_segment if sorted_ids else _stated_segments)(call, flat)
    if known is not None and isinstance(number, int) and (known >= number).any():
        raise ModelError(f"{call.origin} has {number} segments, but a row for {known.max()}")
    spare = not sorted_ids and (known is None or bool((known < 0).any()))
    if spare:
        flat = _negative_last(call, flat, number, vector)
    sizes = _sizes(call, number, vector, rest, int(spare))
    reduction, neutral = _SEGMENTS[call.operator.name]
    length = call.unknown(0) if vector is not None else number
    if spare:
        length = call.arithmetic.total((length, 1))
    data = _filled(call, _neutral(neutral, x.dtype), x.dtype, (length, *rest), sizes)
    column = call.reshaped(flat, (count, 1), "column")
    inputs, shape = [data, column, rows], (length, *rest)
    if not spare:
        call.write("ScatterND", inputs, shape, slot, reduction=reduction)
        return
    result = _scatter(call, data, column, rows, reduction, "scattered")
    kept: Dim = number if vector is None else call.unknown(0)
    take(call, result, {0: Span(0, -1)}, slot, {0: kept})


def _last_segment(call: Call, ids: Value) -> tuple[Dim, Value | None]:
    """The number of segments: one more than the last of sorted segments."""
    known = call.content(ids)
    if known is not None:
        numbers = known.tolist()
        steps = [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
        if not set(steps) <= {0, 1} or numbers[:1] not in ([], [0]):
            raise ModelError(f"{call.origin} has segments that do not follow each other")
        return (numbers[-1] + 1 if numbers else 0), None
    last = call.write("Gather", [ids, call.vector([-1], "last")], (1,), call.temporary("last", "int64"), axis=0)
    return call.unknown(0), call.write("Add", [last, call.vector([1], "one")], (1,), call.temporary("number", "int64"))


def _stated_segments(call: Call, ids: Value) -> tuple[Dim, Value | None]:
    known = call.content(call.input(2))
    if known is not None:
        (number,) = call.integers(2, "number of segments")
        if number < 0:
            raise ModelError(f"{call.origin} has {number} segments")
        return number, None
    return call.unknown(0), call.reshaped(as_int64(call, call.input(2), "number"), (1,), "number")


def _negative_last(call: Call, ids: Value, number: Dim, vector: Value | None) -> Value:
    """Segments with the negative ones replaced by one behind the last."""
    if vector is None:
        (known,) = static(call, (number,), "number of segments")
        vector = call.constant(known, "beyond", "int64")
    negative = [ids, call.constant(0, "zero", "int64")]
    mask = call.write("Less", negative, ids.shape, call.temporary("negative", "bool"), real="bool")
    return call.write("Where", [mask, vector, ids], ids.shape, call.temporary("ids", "int64"), real="int64")


def _sizes(call: Call, number: Dim, vector: Value | None, rest: Shape, spare: int) -> Value:
    """The shape of the reduced segments, and of one more if there is a spare one."""
    if vector is None:
        return call.sizes((call.arithmetic.total((number, spare)), *rest), "shape")
    if spare:
        vector = call.write("Add", [vector, call.vector([1], "one")], (1,), call.temporary("grown", "int64"))
    if not rest:
        return vector
    return join(call, [vector, call.sizes(rest, "rest")], 0, call.temporary("shape", "int64"))


@lowers("DYNAMIC_UPDATE_SLICE", signature="FZBS = I -> =")
def dynamic_update_slice(call: Call) -> None:
    """DYNAMIC_UPDATE_SLICE: a part of a tensor is replaced; it begins where it still fits in."""
    write_update(call, call.input(0), call.input(1), ranked(call, call.input(2), 1), call.slot())


def write_update(call: Call, x: Value, update: Value, begin: Value, slot: Slot) -> None:
    """Write a tensor of which a part is replaced, from ``begin`` on, a vector."""
    x, update = as_stored(call, x), as_stored(call, update)
    rank = len(x.shape)
    if len(update.shape) != rank or begin.shape != (rank,) or not x.dtype == update.dtype == slot.dtype:
        raise ModelError(f"{call.origin} puts '{update.name}' into '{x.name}', which is of another rank or type")
    partial = [axis for axis in range(rank) if update.shape[axis] != x.shape[axis]]
    if not partial:
        store(call, update, slot)
        return
    room = [call.arithmetic.difference(x.shape[axis], update.shape[axis], "room") for axis in partial]
    if min((number for number in room if not isinstance(number, Size)), default=0) < 0:
        raise ModelError(f"{call.origin} puts {list(map(str, update.shape))} into {list(map(str, x.shape))}")
    if 0 in update.shape:
        store(call, x, slot)
        return
    starts = kept_inside(call, begin, partial, room)
    if len(partial) == 1:
        store(call, _updated_along(call, x, update, partial[0], starts), slot)
    else:
        store(call, _updated(call, x, update, partial, starts), slot)


def kept_inside(call: Call, begin: Value, axes: list[int], room: list[Dim]) -> Value:
    """Where the update begins along some axes, kept inside the tensor."""
    known = call.content(begin)
    if known is not None and known.dtype != object:
        numbers = [int(number) for number in known.tolist()]
        clamped = [call.arithmetic.smallest((max(numbers[axis], 0), most), "start")
                   for axis, most in zip(axes, room, strict=True)]  # fmt: skip
        return call.sizes(clamped, "starts")
    shape = (len(axes),)
    inputs = [as_int64(call, begin), call.vector(axes, "axes")]
    picked = call.write("Gather", inputs, shape, call.temporary("picked", "int64"), axis=0)
    zero, last = call.vector([0], "zero"), call.sizes(room, "room")
    raised = write_extremum(call, "Max", picked, zero, shape, call.temporary("raised", "int64"))
    return write_extremum(call, "Min", raised, last, shape, call.temporary("starts", "int64"))


def _updated_along(call: Call, x: Value, update: Value, axis: int, starts: Value) -> Value:
    """A tensor with an update that is smaller along one axis only."""
    count = update.shape[axis]
    steps = counted(call, count, "int64", "steps")
    places = call.write("Add", [starts, steps], (count,), call.temporary("places", "int64"))
    line = call.reshaped(places, tuple(count if at == axis else 1 for at in range(len(x.shape))), "line")
    sizes = call.sizes(update.shape, "sizes")
    spread = call.write("Expand", [line, sizes], update.shape, call.temporary("spread", "int64"))
    slot = call.temporary("updated", x.dtype)
    return call.write("ScatterElements", [x, spread, update], x.shape, slot, axis=axis)


def _updated(call: Call, x: Value, update: Value, partial: list[int], starts: Value) -> Value:
    """A tensor with an update that is smaller along several axes: its outer axes are indexed, the inner ones move."""
    depth = partial[-1] + 1
    outer = static(call, update.shape[:depth], "update")
    call.draft.ask(depth * int(np.prod(outer)))
    grid = np.stack(np.meshgrid(*map(np.arange, outer), indexing="ij"), -1)
    every = join(call, [starts, call.vector([0], "zero")], 0, call.temporary("every", "int64"))
    places = [partial.index(axis) if axis in partial else len(partial) for axis in range(depth)]
    offset = call.write("Gather", [every, call.vector(places, "places")], (depth,), call.temporary("offset", "int64"))
    inputs = [call.constant(grid, "grid", "int64"), offset]
    indices = call.write("Add", inputs, grid.shape, call.temporary("indices", "int64"))
    return _scatter(call, x, indices, update, "none", "updated")


@lowers("EMBEDDING_LOOKUP_SPARSE", signature="I I I F FZ -> F")
def embedding_lookup_sparse(call: Call) -> None:
    """EMBEDDING_LOOKUP_SPARSE: weighted rows of a table, summed (or averaged) by where the sparse tensor has them.

    Entries that belong together have to follow each other, as they do in sparse tensors.
    """
    ids, indices, weights, table = (call.input(position) for position in (0, 1, 3, 4))
    combiner, slot = call.option("combiner"), call.slot()
    if weights.dtype != "float32" or table.dtype != "float32" or slot.dtype != "float32":
        raise GapError(f"it looks up rows of {table.dtype}", "use a table of float32")
    if len(indices.shape) != 2 or len(table.shape) < 2 or combiner not in (0, 1, 2):
        raise ModelError(f"{call.origin} looks up by '{indices.name}', or combines by {combiner}")
    count, depth = static(call, indices.shape, "indices")
    if ids.shape != (count,) or weights.shape != (count,) or depth < 1:
        raise ModelError(f"{call.origin} has {count} indices for {list(map(str, ids.shape))} rows")
    lengths = call.integers(2, "shape")
    if len(lengths) != depth or min(lengths) < 0:
        raise ModelError(f"{call.origin} has the shape {list(lengths)} for indices of depth {depth}")
    rest = static(call, table.shape[1:], "table")
    outer = lengths[:-1] or (1,)
    rows = call.write("Gather", [table, as_int64(call, ids)], (count, *rest), call.temporary("rows"), axis=0)
    column = call.reshaped(weights, (count, *[1] * len(rest)), "weights")
    weighted = call.write("Mul", [rows, column], (count, *rest), call.temporary("weighted"))
    if depth == 1:
        call.draft.ask(count)
        places = call.constant(np.zeros((count, 1)), "places", "int64")
    else:
        places = take(call, as_int64(call, indices), {1: Span(0, depth - 1)}, call.temporary("places", "int64"))
    sums = [_filled(call, 0, "float32", (*outer, *rest)), places, weighted]
    shape = (*outer, *rest)
    result = call.write("ScatterND", sums, shape, call.temporary("sums"), reduction="add")
    if combiner:
        divisor = _divisor(call, weights, places, outer, root=combiner == 2)
        column = call.reshaped(divisor, (*outer, *[1] * len(rest)), "divisor")
        result = call.write("Div", [result, column], shape, call.temporary("averages"))
    call.reshape(result, (*lengths[:-1], *rest), slot)


def _divisor(call: Call, weights: Value, places: Value, outer: tuple[int, ...], *, root: bool) -> Value:
    """What each place's sum is divided by: its weights or the root of their squares, 1 where nothing is."""
    if root:
        weights = call.write("Mul", [weights, weights], weights.shape, call.temporary("squares"))
    total = _scatter(call, _filled(call, 0, "float32", outer), places, weights, "add", "divisors")
    if root:
        total = call.write("Sqrt", [total], outer, call.temporary("roots"))
    ones = _filled(call, True, "bool", weights.shape)
    there = _scatter(call, _filled(call, False, "bool", outer), places, ones, "none", "there")
    given = [there, total, call.constant(1, "one", "float32")]
    return call.write("Where", given, outer, call.temporary("divisor"), real="float32")
