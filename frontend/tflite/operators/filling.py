"""Operators whose output is made of sizes, of one number or of repeated input."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.shared.common import (
    as_int64,
    as_stored,
    cast_to,
    counted,
    finish_int,
    ranked,
    static,
    store,
    write_where,
)
from layoutsolve.frontend.tflite.reading.model import MOST_DIMENSIONS
from layoutsolve.ir.graph import Dim, Shape, Size, Value, product


def size_vector(call: Call, position: int, what: str) -> tuple[Value, tuple[Dim, ...]]:
    """A vector of sizes, as ONNX wants it, and what is known of it."""
    value = call.input(position)
    count = product(value.shape)
    if isinstance(count, int) and count > MOST_DIMENSIONS:
        raise ModelError(f"{call.origin} has {count} numbers as its {what}, where {MOST_DIMENSIONS} are the most")
    if call.content(value) is not None:
        dims = call.dims(position, what)
        if any(isinstance(dim, int) and dim < 0 for dim in dims):
            raise ModelError(f"{call.origin} states the {what} {list(map(str, dims))}")
        return call.sizes(dims, what), dims
    rank = value.shape[0] if len(value.shape) == 1 else None
    if not isinstance(rank, int):
        raise GapError(f"its {what} is computed at run time", f"make the {what} constant in the source model")
    return as_int64(call, value), tuple(call.unknown(axis) for axis in range(rank))


@lowers("SHAPE", signature="FZBSCRV -> I")
def shape(call: Call) -> None:
    """SHAPE."""
    x, slot = call.input(0), call.slot()
    finish_int(call, "Identity", [call.sizes(x.shape, "sizes")], (len(x.shape),), slot)


@lowers("RANK", signature="FZBSCRV -> W")
def rank(call: Call) -> None:
    """RANK, which is always known."""
    call.known(call.slot(), np.array(len(call.input(0).shape), np.int32))


@lowers("BROADCAST_ARGS", signature="I = -> =")
def broadcast_args(call: Call) -> None:
    """BROADCAST_ARGS: the shape that two shapes broadcast to, the shorter one filled up with ones in front."""
    vectors = [as_int64(call, ranked(call, call.input(position), 1), "sizes") for position in range(2)]
    counts = static(call, [vector.shape[0] for vector in vectors], "number of sizes")
    length, slot = max(counts), call.slot()
    if min(counts) < length:
        call.draft.ask(length)
        short = counts.index(min(counts))
        ones = call.vector([1] * (length - counts[short]), "ones")
        parts = [ones, vectors[short]] if counts[short] else [ones]
        vectors[short] = join(call, parts, 0, call.temporary("filled", "int64"))
    first, second = vectors
    one = call.constant(1, "one", "int64")
    free = call.write("Equal", [first, one], (length,), call.temporary("free", "bool"), real="bool")
    sizes = call.write("Where", [free, second, first], (length,), call.temporary("sizes", "int64"), real="int64")
    call.write("Cast", [sizes], (length,), slot, real=slot.dtype, to=slot.dtype)


@lowers("FILL", signature="I FZBS -> =1")
def fill(call: Call) -> None:
    """FILL: a scalar, expanded."""
    vector, dims = size_vector(call, 0, "shape")
    _expand(call, call.input(1), vector, dims, call.slot())


@lowers("BROADCAST_TO", signature="FZBS I -> =")
def broadcast_to(call: Call) -> None:
    """BROADCAST_TO."""
    vector, dims = size_vector(call, 1, "shape")
    _expand(call, call.input(0), vector, broadcast([call.input(0).shape, dims], call.arithmetic), call.slot())


def _expand(call: Call, value: Value, vector: Value, dims: Shape, slot: Slot) -> None:
    call.write("Expand", [value, vector], dims, slot, storage=moves([value], slot.dtype, slot.quant))


@lowers("ZEROS_LIKE", signature="FZB -> =")
def zeros_like(call: Call) -> None:
    """ZEROS_LIKE: a zero, expanded to the shape of the input."""
    x, slot = call.input(0), call.slot()
    zero = call.constant(0, "zero", slot.real)
    _expand(call, zero, call.sizes(x.shape, "shape"), x.shape, slot)


@lowers("TILE", signature="FZBS I -> =")
def tile(call: Call) -> None:
    """TILE."""
    x, slot = call.input(0), call.slot()
    vector, repeats = size_vector(call, 1, "repeats")
    if len(repeats) != len(x.shape):
        raise ModelError(f"{call.origin} repeats {len(repeats)} axes of {len(x.shape)}")
    dims = tuple(product(pair) for pair in zip(x.shape, repeats, strict=True))
    call.write("Tile", [x, vector], dims, slot, storage=moves([x], slot.dtype, slot.quant))


@lowers("RANGE", signature="FZ = = -> =")
def range_(call: Call) -> None:
    """RANGE."""
    scalars = [call.reshaped(value, (), "scalar") for value in call.inputs()]
    bounds = [call.content(value) for value in call.inputs()]
    count: Dim = call.unknown(0)
    if len(bounds) == 3 and all(bound is not None for bound in bounds):
        start, limit, step = (np.asarray(bound).reshape(-1)[0] for bound in bounds)
        count = _range_size(start, limit, step, count)
    call.write("Range", scalars, (count,), call.slot())


def _range_size(start: Any, limit: Any, step: Any, unknown: Dim) -> Dim:
    if isinstance(limit, Size):
        return limit if start == 0 and step == 1 else unknown
    if isinstance(start, Size) or isinstance(step, Size) or step == 0:
        return unknown
    return max(int(np.ceil((limit - start) / step)), 0)


@lowers("ONE_HOT", signature="I I FZB =2 -> =2")
def one_hot(call: Call) -> None:
    """ONE_HOT: indices compared with 0..depth. (ONNX counts negative indices from the end, TFLite does not.)"""
    indices, on, off, slot = call.input(0), call.input(2), call.input(3), call.slot()
    rank = len(indices.shape)
    axis = call.option("axis")
    axis = rank if axis == -1 else axis
    depth, classes = _classes(call, axis, indices.dtype)
    if not 0 <= axis <= rank:
        raise ModelError(f"{call.origin} has the axis {axis} for rank {rank}")
    expanded = call.reshaped(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]), "indices")
    classes = call.reshaped(classes, tuple(depth if at == axis else 1 for at in range(rank + 1)), "along")
    dims = (*indices.shape[:axis], depth, *indices.shape[axis:])
    hit = call.write("Equal", [expanded, classes], dims, call.temporary("hit", "bool"), real="bool")
    on, off = call.reshaped(on, (), "on"), call.reshaped(off, (), "off")
    write_where(call, hit, on, off, dims, slot)


def _classes(call: Call, axis: int, dtype: str) -> tuple[Dim, Value]:
    """How many classes a ONE_HOT tells apart, and their numbers, a vector."""
    if call.content(call.input(1)) is not None:
        (depth,) = call.dims(1, "depth")
        if isinstance(depth, int) and depth < 0:
            raise ModelError(f"{call.origin} has the depth {depth}")
        return depth, counted(call, depth, dtype, "classes")
    size = call.unknown(axis)
    bounds = [call.constant(0, "zero", "int64"), call.reshaped(as_int64(call, call.input(1)), (), "depth"),
              call.constant(1, "one", "int64")]  # fmt: skip
    numbers = call.write("Range", bounds, (size,), call.temporary("numbers", "int64"))
    return size, cast_to(call, numbers, dtype)


_DIAGONALS = ("float32", "int8", "uint8", "int16", "int32", "int64")
"""Types whose elements LiteRT's diagonals copy whole."""


@lowers("MATRIX_DIAG", signature="FZB -> =")
@lowers("MATRIX_SET_DIAG", signature="FZB = -> =")
def diagonal(call: Call) -> None:
    """MATRIX_DIAG and MATRIX_SET_DIAG: a diagonal in stored zeros, or in a given matrix of any height and width."""
    fresh, slot = call.operator.name == "MATRIX_DIAG", call.slot()
    line = as_stored(call, call.input(0 if fresh else 1))
    if slot.dtype not in _DIAGONALS or line.dtype != slot.dtype:
        raise GapError(f"it makes a diagonal of {line.dtype} in {slot.dtype}", "use float32, or integers of one type")
    if not line.shape:
        raise ModelError(f"{call.origin} reads a scalar")
    if fresh:
        shape: Shape = (*line.shape, line.shape[-1])
        field = call.constant(0, "zero", line.dtype)
    else:
        field = as_stored(call, call.input(0))
        shape = field.shape
        if field.dtype != line.dtype:
            raise ModelError(f"{call.origin} puts {line.dtype} into {field.dtype}")
    height, width = static(call, shape[-2:], "matrix")
    if line.shape != (*shape[:-2], min(height, width)):
        raise ModelError(f"{call.origin} puts the diagonal {list(map(str, line.shape))} into {list(map(str, shape))}")
    along = (*line.shape, 1) if height < width else (*line.shape[:-1], 1, line.shape[-1])
    spread = call.reshaped(line, along, "spread")
    rows = call.reshaped(counted(call, height, "int64", "rows"), (height, 1), "rows")
    columns = counted(call, width, "int64", "columns")
    mask = call.write("Equal", [rows, columns], (height, width), call.temporary("mask", "bool"), real="bool")
    if slot.quant is None:
        write_where(call, mask, spread, field, shape, slot)
    else:
        stored = write_where(call, mask, spread, field, shape, call.temporary("numbers", slot.dtype))
        store(call, stored, slot)
