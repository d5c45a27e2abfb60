"""What operators compute of constants and of vectors of sizes: results that ONNX's definitions give to the last bit.

Where runtimes differ in a result, the functions raise an error: the operator is left to the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.frontend.onnx import constants
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.numeric_kernels import (
    _EXACT,
    _SINGLE,
    added,
    integer_quotient,
    multiplied,
    power,
    remainder,
    sum_of_products,
)
from layoutsolve.ir.graph import Array, Dim, product


def objects(items: object) -> Array:
    shape = (len(items),) if isinstance(items, list) else ()
    found: Array = np.empty(shape, object)
    found[...] = items
    return found


def _each(function: Callable[..., Dim]) -> Callable[..., Array]:
    """An operator on sizes from one on two of them, with broadcasting."""

    def apply(call: Call, *operands: Array) -> Array:
        first, *others = operands
        for other in others:
            left, right = np.broadcast_arrays(first, other)
            made = np.empty(left.shape, object)
            made.reshape(-1)[:] = [
                function(call.arithmetic, one, two)
                for one, two in zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True)
            ]
            first = made
        return first

    return apply


def _quotient(arithmetic: Arithmetic, one: Dim, two: Dim) -> Dim:
    if isinstance(one, int) and isinstance(two, int):
        whole = abs(one) // abs(two)
        return whole if (one < 0) == (two < 0) else -whole
    if not (isinstance(two, int) and two > 0):
        raise ValueError("rounds to zero, which sizes alone do as they are rounded down")
    return arithmetic.quotient(one, two)


def _cast(call: Call, data: Array) -> Array:
    if call.attribute("to") not in (6, 7):
        raise ValueError("no size")
    return data


def _squeeze(call: Call, data: Array, *axes: Array) -> Array:
    given = axes[0].reshape(-1) if axes else ()
    return data.squeeze(tuple(map(int, given))) if len(given) else data.squeeze()  # as runtimes take no axes for all


def _unsqueeze(call: Call, data: Array, axes: Array) -> Array:
    return np.expand_dims(data, tuple(map(int, axes.reshape(-1))))


def _gather(call: Call, data: Array, indices: Array) -> Array:
    places, axis = np.asarray(indices, np.int64), call.attribute("axis", 0)
    size = data.shape[axis]
    if ((places < -size) | (places >= size)).any():
        raise IndexError("outside")
    return np.asarray(np.take(data, places, axis))


def _slice(call: Call, data: Array, starts: Array, ends: Array, *more: Array) -> Array:
    axes = more[0].reshape(-1).tolist() if more else list(range(len(starts.reshape(-1))))
    steps = more[1].reshape(-1).tolist() if len(more) > 1 else [1] * len(axes)
    index: list[slice] = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts.reshape(-1).tolist(), ends.reshape(-1).tolist(), steps, strict=True):
        if step < 0 and end in _FOREVER:
            raise ValueError("backward to the largest number, which the runtime takes for the first element")
        index[axis] = slice(max(start, -data.shape[axis]) if step < 0 else start, end, step)
    return data[tuple(index)]


_FOREVER = ((1 << 31) - 1, (1 << 63) - 1)
"""Ends of a Slice that mean all that there is."""


def _reshape(call: Call, data: Array, shape: Array) -> Array:
    wanted = [int(each) for each in shape.reshape(-1)]
    if not call.attribute("allowzero", 0):
        wanted = [data.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return data.reshape(wanted)


def _concat(call: Call, *parts: Array) -> Array:
    return np.concatenate(parts, call.attribute("axis"))


def _transpose(call: Call, data: Array) -> Array:
    return data.transpose(call.integers("perm"))


def _split(call: Call, data: Array, *sizes: Array) -> Sequence[Array]:
    axis = call.attribute("axis", 0)
    if sizes:
        return np.split(data, np.cumsum(sizes[0])[:-1].tolist(), axis)
    size, count = data.shape[axis], len(call.outputs)
    step = -(-size // count)
    return np.split(data, list(range(step, size, step))[: count - 1], axis)


def _accumulated(call: Call, data: Array, axis: Array) -> Array:
    if data.dtype.kind not in "iu" or call.attribute("exclusive", 0):
        raise ValueError("for the runtime")
    along = int(axis.reshape(-1)[0])
    turned = np.flip(data, along) if call.attribute("reverse", 0) else data
    found = np.cumsum(turned, along, dtype=data.dtype)
    return np.flip(found, along) if call.attribute("reverse", 0) else found


def _inside(places: Array, sizes: Sequence[int]) -> Array:
    """Indices of which some may count from behind, the last dimension of which is that of these sizes."""
    most = np.asarray(sizes, np.int64)
    if ((places < -most) | (places >= most)).any():
        raise IndexError("outside")
    return np.where(places < 0, places + most, places)


def _gather_nd(call: Call, data: Array, indices: Array) -> Array:
    if call.attribute("batch_dims", 0):
        raise ValueError("for the runtime")
    places = _inside(indices, data.shape[: indices.shape[-1]])
    return np.asarray(data[tuple(np.moveaxis(places, -1, 0))])


def _gather_elements(call: Call, data: Array, indices: Array) -> Array:
    axis = call.attribute("axis", 0)
    places = _inside(indices[..., None], data.shape[axis : axis + 1 or None])[..., 0]
    return np.asarray(data[_along(places, axis)])


def _along(places: Array, axis: int) -> tuple[Array, ...]:
    """The index of each element of a tensor that lies where it does, but along one axis."""
    found: list[Array] = list(np.indices(places.shape, sparse=True))
    found[axis] = places
    return tuple(found)


def _scatter_nd(call: Call, data: Array, indices: Array, updates: Array) -> Array:
    if call.attribute("reduction", "none") != "none":
        raise ValueError("for the runtime")
    made, places = data.copy(), _inside(indices, data.shape[: indices.shape[-1]])
    made[tuple(np.moveaxis(places, -1, 0))] = updates
    return made


def _scatter_elements(call: Call, data: Array, indices: Array, updates: Array) -> Array:
    if call.attribute("reduction", "none") != "none":
        raise ValueError("for the runtime")
    made, axis = data.copy(), call.attribute("axis", 0)
    places = _inside(indices[..., None], data.shape[axis : axis + 1 or None])[..., 0]
    made[_along(places, axis)] = updates
    return made


def _triangle(call: Call, data: Array, *diagonal: Array) -> Array:
    function, offset = (
        np.triu if call.attribute("upper", 1) else np.tril,
        int(diagonal[0].reshape(-1)[0]) if diagonal else 0,
    )
    return np.asarray(function(data, offset))


def _padded(call: Call, data: Array, pads: Array, *more: Array) -> Array:
    if len(more) > 1 or (pads < 0).any() or call.attribute("mode", "constant") != "constant":
        raise ValueError("for the runtime")
    widths = pads.reshape(2, -1).T.tolist()
    return np.pad(data, widths, constant_values=more[0].reshape(-1)[0] if more else 0)


def _flattened(call: Call, data: Array) -> Array:
    axis = call.attribute("axis", 1)
    return data.reshape(prod(data.shape[:axis]), prod(data.shape[axis:]))


def _elements(*shapes: Sequence[int]) -> int:
    """How many elements there are of what shapes broadcast to."""
    rank = max(map(len, shapes))
    return prod(max(sizes) for sizes in zip(*((*(1,) * (rank - len(shape)), *shape) for shape in shapes), strict=True))


def _sizes(vector: Array) -> list[int]:
    """Sizes that are given as numbers."""
    found = [int(each) for each in vector.reshape(-1)]
    if min(found, default=0) < 0:
        raise ValueError("below 0")
    return found


def _each_of(data: Array, axis: int) -> int:
    """How many elements there are for each index of an axis."""
    return prod(data.shape[:axis]) * prod(data.shape[axis:][1:])


def _one(function: Callable[..., Array]) -> Callable[..., Sequence[Array]]:
    return lambda call, *arrays: [function(call, *arrays)]


def _ufunc(function: np.ufunc) -> Callable[..., Sequence[Array]]:
    def apply(call: Call, first: Array, *others: Array) -> Sequence[Array]:
        for other in others:
            first = function(first, other)
        return [function(first) if function.nin == 1 else first]

    return apply


def _full(call: Call, shape: Array) -> Array:
    given = next((constants.of(each.t).data for each in call.proto.attribute if each.name == "value"), None)
    filler = np.zeros(1, np.float32) if given is None else given
    return np.broadcast_to(filler.reshape(-1)[:1].reshape(()), [int(each) for each in shape.reshape(-1)])


def _expanded(call: Call, data: Array, shape: Array) -> Array:
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(int(each) for each in shape)))


def _cast_to(call: Call, data: Array) -> Array:
    dtype = constants.TYPES[call.attribute("to")]
    if dtype == "string" or dtype in ("int4", "uint4") or data.dtype == object:
        raise ValueError("no numbers")
    kind = constants.numpy_type(dtype)
    if data.dtype.kind == "f" and dtype not in ("float32", "float64", "bool") and not _holds(kind, data):
        raise ValueError("runtimes round and saturate in their own ways")
    return data.astype(kind)


def _holds(kind: np.dtype[Any], data: Array) -> bool:
    """Whether a type is of integers that real numbers are among once they are cut off, as everywhere in that case."""
    if kind.kind not in "iu" or data.dtype.itemsize < _SINGLE:
        return False
    whole, limits = np.trunc(data.astype(np.float64)), np.iinfo(kind)
    return bool((np.isfinite(whole) & (whole >= float(limits.min)) & (whole < float(limits.max) + 1)).all())


def _range(call: Call, start: Array, limit: Array, delta: Array) -> Array:
    if start.dtype.kind not in "iu" or any(abs(int(each)) > _EXACT for each in (start, limit, delta)):
        raise ValueError("runtimes round in their own ways")
    return np.arange(int(start), int(limit), int(delta)).astype(start.dtype)


def _sign(call: Call, data: Array) -> Array:
    if data.dtype.kind not in "iu" and np.isnan(data).any():
        raise ValueError("runtimes give what is no number a sign of their own")
    return np.asarray(np.sign(data))


def _reduced(function: Callable[..., Array]) -> Callable[..., Sequence[Array]]:
    def apply(call: Call, data: Array, *axes: Array) -> Sequence[Array]:
        """Whole numbers: others are summed in an order that the runtime chooses."""
        over = call.integers("axes") if not axes else tuple(int(each) for each in axes[0].reshape(-1))
        if data.dtype.kind not in "iu" or not data.size or (not over and call.attribute("noop_with_empty_axes", 0)):
            raise ValueError("for the runtime")
        keepdims = bool(call.attribute("keepdims", 1))
        return [np.asarray(function(data, axis=over or None, keepdims=keepdims)).astype(data.dtype)]

    return apply


KERNELS: dict[str, Callable[..., Sequence[Array]]] = {
    "Abs": _ufunc(np.abs), "Add": _ufunc(np.add), "And": _ufunc(np.logical_and), "Cast": _one(_cast_to),
    "Ceil": _ufunc(np.ceil), "Concat": _one(_concat), "ConstantOfShape": _one(_full), "CumSum": _one(_accumulated),
    "Div": _one(integer_quotient), "Equal": _ufunc(np.equal),
    "Expand": _one(_expanded),
    "Flatten": _one(_flattened), "Floor": _ufunc(np.floor), "Gather": _one(_gather),
    "GatherElements": _one(_gather_elements), "GatherND": _one(_gather_nd), "Greater": _ufunc(np.greater),
    "GreaterOrEqual": _ufunc(np.greater_equal), "Identity": _one(lambda call, data: data),
    "IsNaN": _ufunc(np.isnan), "Less": _ufunc(np.less), "LessOrEqual": _ufunc(np.less_equal),
    "MatMulInteger": _one(sum_of_products), "Max": _ufunc(np.maximum),
    "Min": _ufunc(np.minimum), "Mod": _one(remainder), "Mul": _ufunc(np.multiply),
    "Neg": _ufunc(np.negative), "Not": _ufunc(np.logical_not), "Or": _ufunc(np.logical_or), "Pad": _one(_padded),
    "Pow": _one(power),
    "Range": _one(_range), "ReduceMax": _reduced(np.max), "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(multiplied), "ReduceSum": _reduced(added), "Reshape": _one(_reshape),
    "Round": _ufunc(np.rint),
    "ScatterElements": _one(_scatter_elements), "ScatterND": _one(_scatter_nd), "Sign": _one(_sign),
    "Slice": _one(_slice), "Split": _split, "Sqrt": _ufunc(np.sqrt), "Squeeze": _one(_squeeze),
    "Sub": _ufunc(np.subtract), "Tile": _one(lambda call, data, counts: np.tile(data, [int(each) for each in counts])),
    "Transpose": _one(_transpose), "Trilu": _one(_triangle), "Unsqueeze": _one(_unsqueeze),
    "Where": _one(lambda call, test, one, other: np.asarray(np.where(test, one, other))),
    "Xor": _ufunc(np.logical_xor),
}  # fmt: skip

VIEWS = ("Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results lie where what they are given does, unless that does not lie one after the other."""

_AS_LARGE = (
    "Cast", "CumSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ScatterElements", "ScatterND", "Trilu"
)  # fmt: skip
"""Operators whose results are at most as large as their first input."""

LARGEST: dict[str, Callable[..., int]] = {
    **dict.fromkeys(KERNELS, lambda call, *arrays: _elements(*(data.shape for data in arrays))),
    **dict.fromkeys(VIEWS, lambda call, data, *more: 0 if data.flags.c_contiguous else int(data.size)),
    **dict.fromkeys(_AS_LARGE, lambda call, data, *more: int(data.size)),
    "Concat": lambda call, *parts: sum(int(each.size) for each in parts),
    "ConstantOfShape": lambda call, shape: prod(_sizes(shape)),
    "Expand": lambda call, data, shape: _elements(data.shape, _sizes(shape)),
    "Gather": lambda call, data, indices: int(indices.size) * _each_of(data, call.attribute("axis", 0)),
    "GatherElements": lambda call, data, indices: int(indices.size),
    "GatherND": lambda call, data, indices: prod(indices.shape[:-1]) * prod(data.shape[indices.shape[-1] :]),
    "MatMulInteger": lambda call, one, other: 1,
    "Pad": lambda call, data, pads, *more: prod(
        size + before + after
        for size, (before, after) in zip(data.shape, np.reshape(_sizes(pads), (2, -1)).T.tolist(), strict=True)
    ),
    "Range": lambda call, start, limit, delta: len(range(int(start), int(limit), int(delta))),
    "Tile": lambda call, data, counts: int(data.size) * prod(max(1, count) for count in _sizes(counts)),
}
"""The most elements that an operator has to make room for, given what it computes with."""

SIZE_KERNELS: dict[str, Callable[..., Array]] = {
    "Add": _each(lambda arithmetic, one, two: arithmetic.total((one, two))), "Cast": _cast, "Concat": _concat,
    "Div": _each(_quotient), "Gather": _gather, "Identity": lambda call, data: data,
    "Mul": _each(lambda arithmetic, one, two: product((one, two))), "Reshape": _reshape, "Slice": _slice,
    "Squeeze": _squeeze, "Sub": _each(lambda arithmetic, one, two: arithmetic.difference(one, two)),
    "Unsqueeze": _unsqueeze,
}  # fmt: skip
