"""Operators that take elements by indices, or put them there."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows import broadcasting
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import moves
from layoutsolve.ir.graph import Array, Size, product


def _from_front(indices: Array, sizes: Any) -> Array:
    """Indices, of which those that are negative count from the end."""
    counted: Array = np.where(indices < 0, indices + sizes, indices)
    return counted


@row("Gather", quantized=moves)
def gather(call: Call) -> None:
    """Gather; indices that are computed may be negative, and count from the end then."""
    axis, known = call.axis(), call.data(1)
    size = call.value(0).shape[axis]
    if known is not None and (not isinstance(size, Size) or (known >= 0).all()):
        indices = call.constant(known if isinstance(size, Size) else _from_front(known, size))
    else:
        indices = _bounded(call, axis)
    call.write("GATHER", [call.tensor(0), indices], axis=axis)


def _bounded(call: Call, axis: int) -> int:
    """Computed indices along an axis, of which those that are negative count from the end."""
    given = call.value(1)
    return call.step("FLOOR_MOD", [call.tensor(1), call.count(axis, given.dtype)], given.shape)


@row("GatherND", quantized=moves)
def gather_nd(call: Call) -> None:
    """GatherND; places in a batch, along which it only counts, stand beside its indices."""
    batch, given = call.attribute("batch_dims", 0), call.value(1)
    (count,) = call.sizes(given, slice(-1, None))
    shape, known = given.shape[:-1], call.data(1)
    if known is None and not batch and any(isinstance(size, Size) for size in call.value(0).shape[:count]):
        sizes = call.draft.sizes_of(call.tensor(0), given.dtype)
        whole = call.step("SLICE", [sizes, call.constant([0]), call.constant([count])], [count])
        call.write("GATHER_ND", [call.tensor(0), call.step("FLOOR_MOD", [call.tensor(1), whole], given.shape)])
        return
    bounds = np.array(call.sizes(call.value(0), slice(batch, batch + count)))
    before = [] if not batch else [np.indices(call.sizes(given, slice(-1)))[:batch]]
    counted = [np.moveaxis(each, 0, -1) for each in before]
    if known is not None:
        places = call.constant(np.concatenate([*counted, _from_front(known, bounds)], -1))
    else:
        places = call.step("FLOOR_MOD", [call.tensor(1), call.constant(bounds, given.dtype)], given.shape)
        if counted:
            parts = [call.constant(counted[0], given.dtype), places]
            places = call.temporary([*shape, batch + count], given.dtype)
            call.draft.write("CONCATENATION", parts, [places], {"axis": len(shape)})
    call.write("GATHER_ND", [call.tensor(0), places])


@row("GatherElements", quantized=moves)
def gather_elements(call: Call) -> None:
    """GatherElements: GATHER_ND, with the place of each element beside its index, or GATHER along the last dimension of
    what has as many others.
    """
    axis, known, lines = call.axis(), call.data(1), call.output.shape[:-1]
    open_ = any(isinstance(size, Size) for size in (*call.output.shape, *call.value(0).shape))
    if open_ and axis == len(lines) and call.value(0).shape[:-1] == lines:
        call.write("GATHER", [call.tensor(0), _bounded(call, axis)], axis=axis, batch_dims=axis)
        return
    sizes, shape = call.sizes(call.value(0)), call.sizes(call.output)
    grid = np.stack([*np.indices(shape)], -1)
    if known is not None:
        grid[..., axis] = _from_front(known, sizes[axis])
        call.write("GATHER_ND", [call.tensor(0), call.constant(grid)])
        return
    call.write("GATHER_ND", [call.tensor(0), _placed(call, grid, axis)])


@row("NonZero")
def non_zero(call: Call) -> None:
    """NonZero: WHERE, whose places are in rows."""
    value, made = call.value(0), call.output
    if not value.shape:
        raise ExpressionError("it looks for places in a number", "give its input dimensions")
    found, places = call.temporary(value.shape, "bool"), call.temporary(made.shape[::-1], "int64")
    call.write("NOT_EQUAL", [call.tensor(0), call.constant(0, value.dtype)], [found])
    call.write("WHERE", [found], [places])
    call.write("TRANSPOSE", [places, call.constant([1, 0])])


@row("Compress")
def compress(call: Call) -> None:
    """Compress: what is gathered at the places of a condition, of all elements in a row where there is no axis."""
    value, made = call.value(0), call.output
    axis, tensor = call.attribute("axis"), call.tensor(0)
    if axis is None:
        tensor, axis = call.reshape(tensor, [product(value.shape)]), 0
    count = made.shape[axis % len(made.shape)]
    places = call.temporary([count, 1], "int64")
    call.write("WHERE", [call.tensor(1)], [places])
    call.write("GATHER", [tensor, call.reshape(places, [count])], axis=axis % len(made.shape))


@row("ReverseSequence")
def reverse_sequence(call: Call) -> None:
    """ReverseSequence."""
    axes = {"seq_dim": call.attribute("time_axis", 0), "batch_dim": call.attribute("batch_axis", 1)}
    call.write("REVERSE_SEQUENCE", [call.tensor(0), call.tensor(1)], **axes)


@row("ScatterND")
def scatter_nd(call: Call) -> None:
    """ScatterND, each of whose places there is once: what is scattered there, the rest as it was. What is added may be
    so several times to one place.
    """
    known, sizes, given = call.data(1), call.sizes(call.value(0)), call.value(1)
    (count,) = call.sizes(given, slice(-1, None))
    bounds = np.array(sizes[:count])
    if known is not None:
        _scatter_known(call, _from_front(known, bounds), call.tensor(2), sizes)
        return
    _check_alone(call)
    if not count or len(given.shape) < 2:
        raise ExpressionError("its indices are computed, and have no list of places", "make them constants")
    places = call.step("FLOOR_MOD", [call.tensor(1), call.constant(bounds, given.dtype)], given.shape)
    _scatter(call, call.as_int32(places, given), call.tensor(2), sizes)


@row("ScatterElements")
def scatter_elements(call: Call) -> None:
    """ScatterElements, each of whose places there is once."""
    known, sizes, given = call.data(1), call.sizes(call.value(0)), call.value(1)
    axis, shape = call.axis(), call.sizes(given)
    grid = np.stack([*np.indices(shape)], -1)
    if known is not None:
        grid[..., axis] = _from_front(known, sizes[axis])
        _scatter_known(call, grid, call.tensor(2), sizes)
        return
    _check_alone(call)
    _scatter(call, _placed(call, grid, axis), call.tensor(2), sizes)


def _check_alone(call: Call) -> None:
    """Raise :class:`ExpressionError` where what is given to a model may be written to one place twice: the last of it
    counts in ONNX Runtime.
    """
    waiting, seen = [call.node.inputs[1]], set[str]()
    while waiting and call.attribute("reduction", "none") == "none":
        name = waiting.pop()
        maker = call.graph.producer(name)
        if maker is None and call.graph.values[name].data is None:
            raise ExpressionError("its indices are computed of inputs", "make them constants, or add what is scattered")
        if maker is not None and name not in seen:
            waiting += [each for each in maker.inputs if each]
        seen.add(name)


def _placed(call: Call, grid: Array, axis: int) -> int:
    """Places, with computed indices along one axis."""
    shape, rank = grid.shape[:-1], grid.shape[-1]
    column = call.reshape(call.as_int32(_bounded(call, axis), call.value(1)), [*shape, 1])
    parts = [column if each == axis else call.constant(grid[..., each : each + 1]) for each in range(rank)]
    places = call.temporary(grid.shape, "int32")
    call.draft.write("CONCATENATION", parts, [places], {"axis": len(shape)})
    return places


def _scatter_known(call: Call, places: Array, updates: int, sizes: tuple[int, ...]) -> None:
    """Write a scatter to places that are known."""
    flat = places.reshape(-1, places.shape[-1])
    if (flat < 0).any() or (flat >= np.array(sizes[: flat.shape[1]])).any():
        raise ExpressionError("it scatters to a place that is not there", "give it indices within its data")
    adds = call.attribute("reduction", "none") == "add"
    if not adds and len(np.unique(flat, axis=0)) != len(flat):
        raise ExpressionError("it scatters to one place more than once", "give each place once")
    if places.ndim == 1:  # one place, in no dimension, which the kernel does not take
        places, updates = flat, call.reshape(updates, [1, *sizes[places.size :]])
    mask = np.zeros(sizes, bool)
    mask[tuple(flat.T)] = True
    _scatter(call, call.constant(places), updates, sizes, None if adds else call.constant(mask, "bool"))


def _scatter(call: Call, places: int, updates: int, sizes: tuple[int, ...], mask: int | None = None) -> None:
    """Write what is scattered, and added to what was there, or in its place; a mask tells where, or ones do that are
    scattered as well.
    """
    reduction, dtype = call.attribute("reduction", "none"), call.value(0).dtype
    if reduction not in ("none", "add"):
        raise ExpressionError("it compares or multiplies what it scatters", "scatter without a reduction")
    scattered, shape = call.temporary(sizes, dtype), call.constant(sizes)
    call.draft.write("SCATTER_ND", [places, updates, shape], [scattered], {})
    if reduction == "add":
        call.write("ADD", [call.tensor(0), scattered])
        return
    if mask is None:  # of computed places, to one of which the same may be written several times
        ones, counts = call.constant(np.ones(call.sizes(call.value(2)))), call.temporary(sizes, "int32")
        mask = call.temporary(sizes, "bool")
        call.draft.write("SCATTER_ND", [places, ones, shape], [counts], {})
        call.draft.write("NOT_EQUAL", [counts, call.constant(0)], [mask], {})
        often = call.step("MAXIMUM", [counts, call.constant(1)], sizes)
        if dtype != "int32":
            wide = call.temporary(sizes, dtype)
            call.draft.write("CAST", [often], [wide], {})
            often = wide
        scattered = call.step("DIV", [scattered, often], sizes)
    call.write("SELECT_V2", [mask, scattered, call.tensor(0)])


@row("Trilu", quantized=moves)
def triangle(call: Call) -> None:
    """Trilu: what lies on one side of a diagonal, else 0."""
    value, made = call.value(0), call.output
    if len(value.shape) < 2:
        raise ExpressionError("it reads no matrix", "give it two dimensions")
    rows, columns = call.sizes(value, slice(-2, None))
    diagonal = int(call.known(1, "diagonal").reshape(-1)[0]) if call.has(1) else 0
    upper = bool(call.attribute("upper", 1))
    mask = np.triu(np.ones((rows, columns), bool), diagonal) if upper else np.tri(rows, columns, diagonal, bool)
    zero = 0 if made.quant is None else made.quant.zero_point.reshape(-1)[0]
    blank = call.number("zero", zero, made.dtype, made.quant)
    inputs = [call.constant(mask, "bool"), call.tensor(0), blank]
    shapes = [mask.shape, value.shape, (), made.shape]
    broadcasting.write(call, "SELECT_V2", inputs, shapes, call.target(), _SELECTED)


_SELECTED = 5
"""The most dimensions that SELECT_V2 broadcasts."""


@row("EyeLike")
def eye_like(call: Call) -> None:
    """EyeLike of known sizes: a constant."""
    made, (lines, columns) = call.output, call.sizes(call.output)
    data = np.eye(lines, columns, int(call.attribute("k", 0)))
    call.reshape(call.constant(data, made.dtype), made.shape, call.target())


@row("OneHot")
def one_hot(call: Call) -> None:
    """OneHot; an index that is negative counts from the end, and what is out of range beyond that is off."""
    depth = int(call.known(1, "depth").reshape(-1)[0])
    values = call.known(2, "values")
    given, rank = call.value(0), len(call.value(0).shape)
    if given.dtype not in ("int32", "int64"):
        raise ExpressionError(f"its indices are of {given.dtype}", "use int32 or int64")
    indices, zero = call.tensor(0), call.constant(0, given.dtype)
    behind = call.step("ADD", [indices, call.constant(depth, given.dtype)], given.shape)
    negative, placed = call.temporary(given.shape, "bool"), call.temporary(given.shape, given.dtype)
    call.write("LESS", [indices, zero], [negative])
    call.write("SELECT_V2", [negative, behind, indices], [placed])
    off, on = (call.draft.constant(np.asarray(each, values.dtype)) for each in values)
    axis = call.attribute("axis", -1)
    call.write("ONE_HOT", [placed, call.constant(depth), on, off], axis=axis if axis == -1 else axis % (rank + 1))
