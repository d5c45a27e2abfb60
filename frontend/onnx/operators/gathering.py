"""Gather: along a vector of indices, or as a view where these are all that there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.frontend.onnx.operators.views import alias, stands_for
from layoutsolve.frontend.shapes import axis_of
from layoutsolve.ir.graph import Array, Dim, Value, product
from layoutsolve.proto.ort_kernels import moves


@lowering("Gather")
def gather(call: Call) -> bool:
    """Along a vector of indices: a Reshape before and behind it where they are more, or one alone. What is stored is
    picked where the numbers that it means are. All that there is, picked one after the other, is another name of it;
    picked as a grid, it is a view.
    """
    if not (call.known(0) and call.known(1)):
        return False
    table, indices, draft, name = call.value(0), call.value(1), call.draft, call.outputs[0]
    if indices.data is not None and _is_all(indices.data, table.shape, call.attribute("axis", 0)):
        return alias(call, name, call.inputs[0])
    if indices.data is not None and _as_grid(call, table, indices.data):
        return True
    real, steps = draft.is_real(call.inputs[0]), table.quant is not None and table.quant.axis is not None
    steps = steps or (real and not all(moves(op, table.dtype) for op in ("Gather", "Reshape")))
    if len(indices.shape) == 1 or len(table.shape) == 1 or indices.quant is not None or table.data is not None or steps:
        return False
    axis = axis_of(call.attribute("axis", 0), len(table.shape))
    before, after, count = table.shape[:axis], table.shape[axis + 1 :], product(indices.shape)
    if indices.data is not None:
        flat = draft.constant(indices.data.reshape(-1), f"{name}/indices", indices.dtype).name
    else:
        flat = draft.add(Value(draft.names.derived(name, "indices"), indices.dtype, (count,))).name
        call.emit("Reshape", [indices.name, draft.sizes([-1], name)], [flat])
    quant = table.quant if real else draft.asked.get(name)
    storage = table.quant is not None or quant is not None
    shape, inner = (*before, *indices.shape, *after), draft.names.derived(name, "gathered")
    draft.add(Value(inner, table.dtype, (*before, count, *after), table.quant))
    call.emit("Gather", [table.name, flat], [inner], {"axis": axis}, storage)
    made = draft.add(Value(draft.names.derived(name, "stored") if real else name, table.dtype, shape, quant)).name
    call.emit("Reshape", [inner, draft.sizes(shape, name)], [made], {"allowzero": 1} if 0 in shape else {}, storage)
    if real:
        stands_for(call, made)
    return True


def _is_all(indices: Array, shape: Sequence[Dim], axis: int) -> bool:
    """Whether a vector of indices picks all that there is along an axis, in its order."""
    if indices.ndim != 1 or not shape or shape[axis_of(axis, len(shape))] != indices.size:
        return False
    return np.array_equal(indices, np.arange(indices.size))


def _as_grid(call: Call, table: Value, indices: Array) -> bool:
    """Write a Reshape and a Transpose for all that there is along an axis, in a grid of several dimensions, as an
    exporter picks blocks that do not overlap: in the order of the axis, or of another one where Transposes alone read
    it, which take this one over.
    """
    name, draft, order = call.outputs[0], call.draft, _grid_order(indices)
    stored = table.quant is not None or name in draft.asked
    if order is None or stored or table.data is not None or not table.shape:
        return False
    axis = axis_of(call.attribute("axis", 0), len(table.shape))
    if indices.size != table.shape[axis]:
        return False
    in_order = order == list(range(indices.ndim))
    if not in_order and (name in draft.outputs or draft.transposed[name] < draft.uses[name]):
        return False
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    parts = (*before, *(indices.shape[dim] for dim in order), *after)
    made = name if in_order else draft.names.derived(name, "parts")
    draft.add(Value(made, table.dtype, parts))
    call.emit("Reshape", [table.name, draft.sizes(parts, name)], [made], {"allowzero": 1} if 0 in parts else {})
    if not in_order:
        inner = [axis + order.index(dim) for dim in range(indices.ndim)]
        perm = (*range(axis), *inner, *range(axis + indices.ndim, len(parts)))
        draft.add(Value(name, table.dtype, tuple(parts[dim] for dim in perm)))
        call.emit("Transpose", [made], [name], {"perm": perm})
    return True


def _grid_order(indices: Array) -> list[int] | None:
    """The dimensions of a grid of all numbers up to their count, from that along which they grow most; None for other
    indices, and for those of one dimension.
    """
    if indices.ndim < 2 or not indices.size:
        return None
    ahead = np.eye(indices.ndim, dtype=int)
    steps = [int(indices[tuple(ahead[dim])]) if size > 1 else 0 for dim, size in enumerate(indices.shape)]
    order = sorted(range(indices.ndim), key=lambda dim: -steps[dim])
    grid = np.arange(indices.size).reshape([indices.shape[dim] for dim in order]).transpose(np.argsort(order))
    return order if np.array_equal(indices, grid) else None
