"""Rows of different lengths, one after the other, as a tensor that is filled up to the longest."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.flex.elementwise import attributes
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, ranked
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Dim, Shape, Value

_SPLITS = "ROW_SPLITS"


@lowers("CUSTOM:RaggedTensorToTensor", "CUSTOM:FlexRaggedTensorToTensor", signature="I FZBS =1 I I* -> =1")
def ragged_to_tensor(call: Call) -> None:
    """RaggedTensorToTensor: each partition has the row splits of the next one, the last one those of the values."""
    flex = call.operator.name.endswith("FlexRaggedTensorToTensor")
    kinds = (attributes(call) if flex else call.settings()).get("row_partition_types", ())
    values, default, depth = call.input(1), call.input(2), call.arity - 3
    if not isinstance(kinds, (list, tuple)) or len(kinds) != depth or not values.shape:
        raise ModelError(f"{call.origin} has {depth} partitions of the kinds {kinds!r} for {values}")
    if any(kind != _SPLITS for kind in kinds):
        raise GapError(f"its rows are partitioned by {', '.join(map(str, kinds))}", f"partition them by {_SPLITS}")
    if default.shape not in ((), (1,)) or values.dtype != default.dtype:
        raise GapError("what it fills up with is no single number", "fill up with a scalar")
    splits = [as_int64(call, ranked(call, call.input(3 + at), 1)) for at in range(depth)]
    sizes = _sizes(call, depth, len(values.shape))
    rows: Dim = call.arithmetic.difference(splits[0].shape[0], 1) if sizes[0] < 0 else sizes[0]
    shape: Shape = (rows,)
    index, room = _counted(call, call.sizes(shape, "rows"), shape), _lengths(call, splits[0])[1]
    valid = _compared(call, index, room, shape)
    for axis, part in enumerate(splits, 1):
        index, valid, shape = _next(call, part, (index, valid, shape), axis, sizes[axis], least=0 if flex else 1)
    _fill(call, values, default, index, valid, shape)


def _sizes(call: Call, depth: int, rank: int) -> tuple[int, ...]:
    """The sizes of the output that are stated, -1 for those that follow from the rows."""
    stated = call.integers(0, "shape")
    if not call.input(0).shape:
        return (-1,) * (depth + 1)
    if len(stated) != depth + rank:
        raise ModelError(f"{call.origin} gives {len(stated)} dimensions for {depth} partitions and rank {rank}")
    return stated


def _write(call: Call, op: str, inputs: Sequence[Value], shape: Shape, label: str, dtype: str = "int64") -> Value:
    return call.write(op, inputs, shape, call.temporary(label, dtype), real=dtype)


def _counted(call: Call, size: Value, shape: Shape) -> Value:
    """The numbers from 0 up to a size, which is a vector of one number."""
    ends = [call.constant(0, "start", "int64"), call.reshaped(size, (), "end"), call.constant(1, "step", "int64")]
    return _write(call, "Range", ends, shape, "numbers")


def _compared(call: Call, numbers: Value, limit: Value, shape: Shape) -> Value:
    return _write(call, "Less", [numbers, limit], shape, "below", "bool")


def _lengths(call: Call, splits: Value) -> tuple[Value, Value]:
    """How long the rows of a partition are, and how many there are."""
    count = call.arithmetic.difference(splits.shape[0], 1)
    ends = take(call, splits, {0: Span(1, LAST)}, call.temporary("ends", "int64"), {0: count})
    starts = take(call, splits, {0: Span(0, -1)}, call.temporary("starts", "int64"), {0: count})
    number = call.write("Shape", [starts], (1,), call.temporary("number", "int64"), real="int64")
    return _write(call, "Sub", [ends, starts], (count,), "lengths"), number


def _width(call: Call, lengths: Value, least: int) -> Value:
    """The length of the longest row, and ``least`` at least where there is a row at all."""
    least_ = call.constant(least, "least", "int64")
    (count,) = lengths.shape
    long = _write(call, "Max", [lengths, least_], (count,), "long")
    more = (call.arithmetic.total((count, 1)),)
    both = call.write("Concat", [long, call.vector([0], "none")], more, call.temporary("both", "int64"), axis=0)
    return call.write("ReduceMax", [both, call.vector([0], "axes")], (1,), call.temporary("width", "int64"), keepdims=1)


def _next(
    call: Call, splits: Value, before: tuple[Value, Value, Shape], axis: int, size: int, *, least: int
) -> tuple[Value, Value, Shape]:
    """What each row has: indices into what comes next, which of them there are, and their shape.

    Rows that there are not are read as some other, and count for nothing.
    """
    index, valid, outer = before
    lengths, number = _lengths(call, splits)
    width: Dim = call.unknown(axis) if size < 0 else size
    columns = _counted(call, _width(call, lengths, least) if size < 0 else call.vector([size], "width"), (width,))
    one = call.vector([1], "one")
    row = _write(call, "Min", [index, _write(call, "Sub", [number, one], (1,), "last")], outer, "row")
    starts = call.write("Gather", [splits, row], outer, call.temporary("start", "int64"), axis=0)
    following = _write(call, "Add", [row, one], outer, "following")
    ends = call.write("Gather", [splits, following], outer, call.temporary("end", "int64"), axis=0)
    length = _write(call, "Sub", [ends, starts], outer, "length")
    shape = (*outer, width)
    starts, length, valid = (call.reshaped(each, (*outer, 1), "column") for each in (starts, length, valid))
    place = _write(call, "Add", [starts, columns], shape, "place")
    inside = _compared(call, columns, length, shape)
    return place, _write(call, "And", [inside, valid], shape, "valid", "bool"), shape


def _fill(call: Call, values: Value, default: Value, index: Value, valid: Value, shape: Shape) -> None:
    """Write the output: the values by index, or else the default, which is put behind them."""
    count, *inner = values.shape
    row = call.write(
        "Expand", [default, call.sizes((1, *inner), "row")], (1, *inner), call.temporary("row", values.dtype)
    )
    whole: Dim = call.arithmetic.total((count, 1))
    slot = call.temporary("padded", values.dtype)
    padded = call.write("Concat", [values, row], (whole, *inner), slot, axis=0)
    last = call.write("Shape", [values], (1,), call.temporary("last", "int64"), real="int64", start=0, end=1)
    place = _write(call, "Where", [valid, index, last], shape, "place")
    call.write("Gather", [padded, place], (*shape, *inner), call.slot(), axis=0)
