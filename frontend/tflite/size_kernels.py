"""What operators give of constants, and of vectors of symbolic sizes: views of them, and arithmetic that follows sizes
as far as they go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.frontend.shapes import axis_of, broadcast, reshaped
from layoutsolve.frontend.tflite.constant_kernels import (
    NUMBERS,
    Evaluator,
    UnknownError,
    bounded,
    finite,
    reduced,
)
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.operators.slicing import resolved
from layoutsolve.ir.graph import Array, Dim, Size, product

_FACTORS = 64
"""The most symbols that a product of sizes has."""


def _reshape(call: Call, arrays: list[Array]) -> list[Array]:
    requested = arrays[1].reshape(-1).tolist() if len(arrays) > 1 else list(call.option("new_shape", ()))
    shape = reshaped(arrays[0].shape, requested, call.arithmetic)
    return [arrays[0].reshape([_number(dim) for dim in shape])]


def _number(dim: object) -> int:
    if not isinstance(dim, int):
        raise UnknownError
    return dim


def _squeeze(call: Call, arrays: list[Array]) -> list[Array]:
    axes = tuple(call.option("squeeze_dims", ()))
    return [np.squeeze(arrays[0], axes or None)]


def _strided_slice(call: Call, arrays: list[Array]) -> list[Array]:
    plan = resolved(call, arrays[0].shape)
    if plan is None:
        raise UnknownError
    cut = arrays[0][tuple(span.python for span in plan.spans)]
    return [cut.reshape([1 if axis is None else cut.shape[axis] for axis in plan.axes])]


def _slice(call: Call, arrays: list[Array]) -> list[Array]:
    data, begins, counts = arrays
    pairs = zip(begins.tolist(), counts.tolist(), strict=True)
    return [data[tuple(slice(begin, None if count == -1 else begin + count) for begin, count in pairs)]]


def _gather(call: Call, arrays: list[Array]) -> list[Array]:
    data, indices = arrays
    axis = axis_of(call.option("axis"), data.ndim)
    if call.option("batch_dims") or indices.size == 0:
        raise UnknownError
    bounded(data.size // max(data.shape[axis], 1) * indices.size, data, indices)
    return [np.take(data, indices.astype(np.int64), axis)]


def _unpack(call: Call, arrays: list[Array]) -> list[Array]:
    moved = np.moveaxis(arrays[0], call.option("axis"), 0)
    if len(moved) != len(call.operator.outputs):
        raise UnknownError
    return list(moved)


def _concatenate(call: Call, arrays: list[Array]) -> list[Array]:
    if call.option("fused_activation_function"):
        raise UnknownError
    return [np.concatenate(arrays, call.option("axis"))]


VIEWS: dict[str, Evaluator] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": lambda call, arrays: [np.expand_dims(arrays[0], arrays[1].item())],
    "TRANSPOSE": lambda call, arrays: [arrays[0].transpose(arrays[1].astype(np.int64).tolist())],
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "GATHER": _gather,
    "UNPACK": _unpack,
    "DENSIFY": lambda call, arrays: [arrays[0]],
}


# -- numbers -------------------------------------------------------------------------------------------------------


def _cast(call: Call, arrays: list[Array]) -> list[Array]:
    target = call.slot().dtype
    if arrays[0].dtype == object:
        if target not in ("int32", "int64"):
            raise UnknownError
        return arrays
    if arrays[0].dtype.kind == "f" and np.dtype(target).kind in "iu":
        low, high = limits(target)
        fits = arrays[0] < np.asarray(high + 1, arrays[0].dtype)
        whole = np.maximum(arrays[0], np.asarray(low, arrays[0].dtype)).astype(target)
        return [np.where(fits, whole, np.asarray(high, target))]
    return [arrays[0].astype(target)]


def _dequantize(call: Call, arrays: list[Array]) -> list[Array]:
    if arrays[0].dtype != np.float16:
        raise UnknownError
    return [arrays[0].astype(np.float32)]


Number = Callable[[Any, Any], Any]
SizeOperation = Callable[[Arithmetic, Any, Any], Dim | None]


def _binary(numbers: Number, sizes: SizeOperation) -> Evaluator:
    """An evaluator of two arrays, by ``numbers`` as a whole or by ``sizes`` for each pair with a symbol in it."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        a, b = arrays
        if call.option("fused_activation_function") or (
            b.dtype.kind in "iu" and call.operator.name != "SUB" and _zero(call, b)
        ):
            raise UnknownError
        shape = np.broadcast_shapes(a.shape, b.shape)
        bounded(prod(shape), a, b)
        if a.dtype == object:
            results = np.empty(shape, object)
            results[...] = np.frompyfunc(partial(_of_sizes, call.arithmetic, numbers, sizes), 2, 1)(a, b)
            return [results]
        found = np.asarray(numbers(a, b))
        kept = call.operator.name in _BOUNDED and found.dtype.kind == "f"
        return [finite(found, found.dtype) if kept else found]

    return evaluate


_BOUNDED = frozenset(("ADD", "DIV", "MUL", "SUB"))
"""The operators whose floats LiteRT keeps within the finite numbers, whatever their activation."""


def _of_sizes(arithmetic: Arithmetic, numbers: Number, sizes: SizeOperation, a: Any, b: Any) -> Dim:
    """One entry of two vectors in which there are sizes."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return int(numbers(np.int64(a), np.int64(b)))
    result = sizes(arithmetic, a, b)
    if result is None or (isinstance(result, Size) and (len(result.symbols) > _FACTORS or result.coefficient >> 62)):
        raise UnknownError
    return result


def _natural_quotient(arithmetic: Arithmetic, a: Any, b: Any) -> Dim | None:
    """A quotient that is rounded down, where LiteRT rounds towards zero."""
    return arithmetic.quotient(a, b) if arithmetic.never_negative(a) and arithmetic.never_negative(b) else None


def _zero(call: Call, divisor: Array) -> bool:
    return call.operator.name in ("DIV", "FLOOR_DIV", "FLOOR_MOD") and not divisor.all()


def _truncated(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)), np.asarray(a).dtype)


def _broadcast_args(call: Call, arrays: list[Array]) -> list[Array]:
    sizes = broadcast([tuple(array.reshape(-1).tolist()) for array in arrays], call.arithmetic)
    result = np.empty(len(sizes), object)
    result[:] = sizes
    return [result]


def _reduction(of: Callable[[Arithmetic, list[Any]], Dim], numbers: Callable[..., Any]) -> Evaluator:
    """An evaluator that reduces a vector of sizes to one, or any other numbers."""
    of_numbers = reduced(numbers, "fi")

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        data, axes = arrays
        if data.dtype.kind == "f" or data.ndim != 1:
            return of_numbers(call, arrays)
        if data.ndim != 1 or axes.size != 1 or data.dtype.kind not in "iO" or not data.size:
            raise UnknownError
        result = np.empty((1,) if call.option("keep_dims") else (), object)
        result[...] = of(call.arithmetic, data.tolist())
        return [result]

    return evaluate


def _segments(of: Callable[[Arithmetic, list[Any]], Dim], empty: int) -> Evaluator:
    """An evaluator that reduces segments of a vector of sizes, as einsums of open sizes have it."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        data, ids = (array.reshape(-1).tolist() for array in arrays[:2])
        number = _value(arrays[2]) if len(arrays) > 2 else 1 + max(ids, default=-1)
        if arrays[0].ndim != 1 or arrays[0].dtype.kind not in "iO" or len(ids) != len(data) or max(ids) >= number:
            raise UnknownError
        bounded(number, *arrays)
        result = np.empty(number, object)
        for segment in range(number):
            chosen = [size for size, place in zip(data, ids, strict=True) if place == segment]
            result[segment] = of(call.arithmetic, chosen) if chosen else empty
        return [result]

    return evaluate


def _fill(call: Call, arrays: list[Array]) -> list[Array]:
    shape = [_number(dim) for dim in arrays[0].reshape(-1).tolist()]
    bounded(prod(shape), arrays[1])
    return [np.full(shape, arrays[1].reshape(-1)[0])]


def _broadcast(call: Call, arrays: list[Array]) -> list[Array]:
    shape = [_number(dim) for dim in arrays[1].reshape(-1).tolist()]
    bounded(prod(shape), arrays[0])
    return [np.broadcast_to(arrays[0], shape)]


def _tile(call: Call, arrays: list[Array]) -> list[Array]:
    data, counts = arrays
    if data.dtype == object or counts.dtype == object or counts.shape != (data.ndim,) or (counts < 0).any():
        raise UnknownError
    bounded(data.size * prod(counts.tolist()), data)
    return [np.tile(data, counts)]


def _pad(call: Call, arrays: list[Array]) -> list[Array]:
    data, rows = arrays[:2]
    if data.dtype == object or rows.dtype == object or rows.shape != (data.ndim, 2) or (rows < 0).any():
        raise UnknownError
    bounded(prod(int(size + sum(sides)) for size, sides in zip(data.shape, rows.tolist(), strict=True)), data)
    value = arrays[2].reshape(-1)[0] if len(arrays) > 2 else data.dtype.type(0)
    return [np.pad(data, rows.tolist(), constant_values=value)]


def _select(call: Call, arrays: list[Array]) -> list[Array]:
    condition, a, b = arrays
    if condition.dtype != bool or a.dtype != b.dtype:
        raise UnknownError
    if call.operator.name == "SELECT" and condition.ndim == 1:
        condition = condition.reshape(-1, *[1] * (a.ndim - 1))
    bounded(prod(np.broadcast_shapes(condition.shape, a.shape, b.shape)), *arrays)
    return [np.where(condition, a, b)]


def _range(call: Call, arrays: list[Array]) -> list[Array]:
    start, limit, step = (_value(array) for array in arrays)
    count = max(int(np.ceil((limit - start) / step)), 0)
    bounded(count)
    return [start + np.arange(count) * step]


def _iota(call: Call, _: list[Array]) -> list[Array]:
    tensor = call.tensor()
    if -1 in tensor.signature or call.draft.dynamic or tensor.quant is not None:
        raise UnknownError
    bounded(prod(tensor.shape))
    axis = axis_of(call.option("iota_dimension"), len(tensor.shape))
    return [np.indices(tensor.shape, np.int64)[axis]]


def _value(array: Array) -> Any:
    entry = array.reshape(-1).tolist()[0]
    return _number(entry) if array.dtype == object else entry


def _unary(function: Callable[[Array], Any]) -> Evaluator:
    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        if arrays[0].dtype == object:
            raise UnknownError
        return [np.asarray(function(arrays[0]))]

    return evaluate


def _compare(function: Callable[[Any, Any], Any]) -> Evaluator:
    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        a, b = arrays
        if a.dtype == object:
            raise UnknownError
        bounded(prod(np.broadcast_shapes(a.shape, b.shape)), a, b)
        return [np.asarray(function(a, b))]

    return evaluate


EVALUATORS: dict[str, Evaluator] = {
    **VIEWS,
    **NUMBERS,
    "SHAPE": lambda call, arrays: arrays,
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "PACK": lambda call, arrays: [np.stack(arrays, call.option("axis"))],
    "CONCATENATION": _concatenate,
    "ADD": _binary(np.add, lambda sizes, a, b: sizes.total((a, b))),
    "SUB": _binary(np.subtract, Arithmetic.difference),
    "MUL": _binary(np.multiply, lambda sizes, a, b: product((a, b))),
    "DIV": _binary(_truncated, _natural_quotient),
    "FLOOR_DIV": _binary(np.floor_divide, Arithmetic.quotient),
    "FLOOR_MOD": _binary(np.mod, Arithmetic.remainder),
    "MAXIMUM": _binary(np.maximum, lambda sizes, a, b: sizes.largest((a, b))),
    "MINIMUM": _binary(np.minimum, lambda sizes, a, b: sizes.smallest((a, b))),
    "BROADCAST_ARGS": _broadcast_args,
    "REDUCE_PROD": _reduction(lambda sizes, dims: product(dims), np.prod),
    "REDUCE_MAX": _reduction(lambda sizes, dims: sizes.largest(dims), np.max),
    "REDUCE_MIN": _reduction(lambda sizes, dims: sizes.smallest(dims), np.min),
    "SUM": _reduction(lambda sizes, dims: sizes.total(dims), np.sum),
    "SEGMENT_SUM": _segments(lambda sizes, dims: sizes.total(dims), 0),
    "UNSORTED_SEGMENT_MAX": _segments(lambda sizes, dims: sizes.largest(dims), int(np.iinfo(np.int32).min)),
    "UNSORTED_SEGMENT_MIN": _segments(lambda sizes, dims: sizes.smallest(dims), int(np.iinfo(np.int32).max)),
    "UNSORTED_SEGMENT_PROD": _segments(lambda sizes, dims: product(dims), 1),
    "UNSORTED_SEGMENT_SUM": _segments(lambda sizes, dims: sizes.total(dims), 0),
    "NEG": _unary(np.negative),
    "SQRT": _unary(np.sqrt),
    "RSQRT": _unary(lambda x: 1 / np.sqrt(x)),
    "EXP": _unary(np.exp),
    "ABS": _unary(np.abs),
    "EQUAL": _compare(np.equal),
    "NOT_EQUAL": _compare(np.not_equal),
    "LESS": _compare(np.less),
    "GREATER": _compare(np.greater),
    "GREATER_EQUAL": _compare(np.greater_equal),
    "LESS_EQUAL": _compare(np.less_equal),
    "LOGICAL_AND": _compare(np.logical_and),
    "LOGICAL_OR": _compare(np.logical_or),
    "LOGICAL_NOT": _unary(np.logical_not),
    "SELECT": _select,
    "SELECT_V2": _select,
    "PAD": _pad,
    "PADV2": _pad,
    "TILE": _tile,
    "FILL": _fill,
    "BROADCAST_TO": _broadcast,
    "RANGE": _range,
    "STABLEHLO_IOTA": _iota,
}
