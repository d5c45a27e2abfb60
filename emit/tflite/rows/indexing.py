"""Operators that take elements by indices, or put them there."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.emit.tflite.draft import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows import broadcasting
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import moves
from layoutsolve.ir.graph import Array, Size


def _from_front(indices: Array, sizes: Any) -> Array:
    """Indices, of which those that are negative count from the end."""
    counted: Array = np.where(indices < 0, indices + sizes, indices)
    return counted


@row("Gather", quantized=moves)
def gather(call: Call) -> None:
    """Gather; indices that are computed may be negative, and count from the end then."""
    axis = call.attribute("axis", 0) % len(call.value(0).shape)
    size, known = call.value(0).shape[axis], call.data(1)
    if isinstance(size, Size):
        raise ExpressionError("it takes elements along a dynamic size", "fix it with --shape")
    if known is not None:
        indices = call.constant(_from_front(known, size))
    else:
        given = call.value(1)
        indices = call.step("FLOOR_MOD", [call.tensor(1), call.constant(size, given.dtype)], given.shape)
    call.write("GATHER", [call.tensor(0), indices], axis=axis)


@row("GatherND", quantized=moves)
def gather_nd(call: Call) -> None:
    """GatherND; places in a batch, along which it only counts, stand beside its indices."""
    batch, given = call.attribute("batch_dims", 0), call.value(1)
    (count,) = call.sizes(given, slice(-1, None))
    shape = given.shape[:-1]
    bounds = np.array(call.sizes(call.value(0), slice(batch, batch + count)))
    known = call.data(1)
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
    """GatherElements: GATHER_ND, with the place of each element beside its index."""
    sizes, shape = call.sizes(call.value(0)), call.sizes(call.output)
    axis = call.attribute("axis", 0) % len(sizes)
    known = call.data(1)
    grid = np.stack([*np.indices(shape)], -1)
    if known is not None:
        grid[..., axis] = _from_front(known, sizes[axis])
        call.write("GATHER_ND", [call.tensor(0), call.constant(grid)])
        return
    given = call.value(1)
    bounded = call.step("FLOOR_MOD", [call.tensor(1), call.constant(sizes[axis], given.dtype)], shape)
    small = call.temporary(shape, "int32")
    call.draft.write("CAST", [bounded], [small], {})
    column = call.reshape(small, [*shape, 1])
    parts = [column if each == axis else call.constant(grid[..., each : each + 1]) for each in range(len(sizes))]
    places = call.temporary([*shape, len(sizes)], "int32")
    call.draft.write("CONCATENATION", parts, [places], {"axis": len(shape)})
    call.write("GATHER_ND", [call.tensor(0), places])


@row("ScatterND")
def scatter_nd(call: Call) -> None:
    """ScatterND at constant places, each of which there is once: what is scattered there, the rest as it was."""
    known = call.known(1, "indices")
    sizes = call.sizes(call.value(0))
    bounds = np.array(sizes[: known.shape[-1]])
    _scatter(call, _from_front(known, bounds), call.tensor(2), sizes)


@row("ScatterElements")
def scatter_elements(call: Call) -> None:
    """ScatterElements at constant places, each of which there is once."""
    known, sizes = call.known(1, "indices"), call.sizes(call.value(0))
    axis = call.attribute("axis", 0) % len(sizes)
    grid = np.stack([*np.indices(known.shape)], -1)
    grid[..., axis] = _from_front(known, sizes[axis])
    _scatter(call, grid, call.tensor(2), sizes)


def _scatter(call: Call, places: Array, updates: int, sizes: tuple[int, ...]) -> None:
    if call.attribute("reduction", "none") != "none":
        raise ExpressionError("it adds or compares what it scatters", "scatter without a reduction")
    flat = places.reshape(-1, places.shape[-1])
    if (flat < 0).any() or (flat >= np.array(sizes[: flat.shape[1]])).any():
        raise ExpressionError("it scatters to a place that is not there", "give it indices within its data")
    if len(np.unique(flat, axis=0)) != len(flat):
        raise ExpressionError("it scatters to one place more than once", "give each place once")
    if places.ndim == 1:  # one place, in no dimension, which the kernel does not take
        places, updates = flat, call.reshape(updates, [1, *sizes[places.size :]])
    mask = np.zeros(sizes, bool)
    mask[tuple(flat.T)] = True
    scattered = call.temporary(sizes, call.value(0).dtype)
    call.draft.write("SCATTER_ND", [call.constant(places), updates, call.constant(sizes)], [scattered], {})
    call.write("SELECT_V2", [call.constant(mask, "bool"), scattered, call.tensor(0)])


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
