"""Operators along axes: reductions, softmax, sums, and the largest elements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import moves, same_bytes, same_integers
from layoutsolve.ir.graph import Dim, Value, product

_REDUCED = {
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "SUM",
}
_MOST_SOFTMAX = 4
_IMAGE, _PIXELS = 4, (1, 2)


def axes_of(call: Call) -> list[int]:
    """The axes of a reduction."""
    rank = len(call.value(0).shape)
    given = call.attribute("axes")
    if given is not None and not isinstance(given, Sequence):
        raise ExpressionError("its axes are no list", "give it a list")
    if given is None:
        given = call.known(1, "axes").reshape(-1).tolist() if call.has(1) else ()
    if not len(given):
        given = () if call.attribute("noop_with_empty_axes", 0) else range(rank)
    return sorted({int(axis) % rank for axis in given})


def kept(shape: Sequence[Dim], axes: Collection[int]) -> list[Dim]:
    """A shape that is reduced along some axes, of which 1 is left."""
    return [1 if axis in axes else size for axis, size in enumerate(shape)]


def _in_steps(call: Call) -> bool:
    """Whether integers are reduced to integers, of the largest in the same steps."""
    if call.op in ("ReduceMax", "ReduceMin"):
        return same_integers(call) and moves(call)
    if call.op == "ReduceMean":
        return same_integers(call) and bool(axes_of(call))
    return same_bytes(call) and call.op == "ReduceSum" and bool(axes_of(call))


POOLING = "pooling"
"""The attribute of a mean that is rounded as LiteRT's kernel for height and width does, along no more dimensions."""


def _pool(call: Call) -> bool:
    """Write such a mean, if images lie so that the kernel takes them; it keeps dimensions."""
    shape, made = call.value(0).shape, call.output
    axes = [axis for axis in axes_of(call) if axis in _PIXELS or shape[axis] != 1]
    if len(shape) != _IMAGE or axes != [*_PIXELS]:
        return False
    keeps = len(made.shape) == len(shape)
    found = call.target() if keeps else call.temporary(kept(shape, axes), made.dtype, made.quant)
    call.write("MEAN", [call.tensor(0), call.constant(axes)], [found], keep_dims=True)
    if not keeps:
        call.reshape(found, made.shape, call.target())
    return True


def _reduce(call: Call) -> None:
    axes = axes_of(call)
    if call.attribute(POOLING, 0) and _pool(call):
        return
    if not axes:
        call.reshape(call.tensor(0), call.output.shape, call.target())
        return
    call.write(_REDUCED[call.op], [call.tensor(0), call.constant(axes)], keep_dims=bool(call.attribute("keepdims", 1)))


row(*_REDUCED, quantized=_in_steps)(_reduce)


def _reduced(call: Call, operator: str, tensor: int, axes: list[int]) -> int:
    """A tensor reduced along axes, as a step whose shape is that of the result."""
    return call.step(
        operator, [tensor, call.constant(axes)], call.output.shape, keep_dims=bool(call.attribute("keepdims", 1))
    )


@row("ReduceL1")
def l1(call: Call) -> None:
    """The sum of absolute values."""
    size = call.step("ABS", [call.tensor(0)], call.value(0).shape)
    call.write("SUM", [size, call.constant(axes_of(call))], keep_dims=bool(call.attribute("keepdims", 1)))


@row("ReduceSumSquare")
def sum_square(call: Call) -> None:
    """The sum of squares."""
    square = call.step("MUL", [call.tensor(0), call.tensor(0)], call.value(0).shape)
    call.write("SUM", [square, call.constant(axes_of(call))], keep_dims=bool(call.attribute("keepdims", 1)))


@row("ReduceL2")
def l2(call: Call) -> None:
    """The root of the sum of squares."""
    square = call.step("MUL", [call.tensor(0), call.tensor(0)], call.value(0).shape)
    call.write("SQRT", [_reduced(call, "SUM", square, axes_of(call))])


@row("ReduceLogSum")
def log_sum(call: Call) -> None:
    """The logarithm of the sum."""
    call.write("LOG", [_reduced(call, "SUM", call.tensor(0), axes_of(call))])


@row("ReduceLogSumExp")
def log_sum_exp(call: Call) -> None:
    """The logarithm of the sum of exponentials, of what is above the largest element."""
    axes, shape, tensor = axes_of(call), call.value(0).shape, call.tensor(0)
    largest = call.step("REDUCE_MAX", [tensor, call.constant(axes)], kept(shape, axes), keep_dims=True)
    power = call.step("EXP", [call.step("SUB", [tensor, largest], shape)], shape)
    log = call.step("LOG", [_reduced(call, "SUM", power, axes)], call.output.shape)
    call.write("ADD", [log, call.reshape(largest, call.output.shape)])


def _softmax_steps(call: Call) -> bool:
    """Whether a softmax of integers gives them in the only steps that its kernel has."""
    value, made = call.value(0), call.output
    if not same_integers(call) or made.quant is None:
        return False
    axis = call.attribute("axis", -1) % max(len(value.shape), 1)
    if any(size != 1 for size in value.shape[axis + 1 :]):
        return False
    if made.dtype == "int16":
        return bool(np.isclose(made.quant.scale[0], 1 / (1 << 15)))
    zero = -128 if made.dtype == "int8" else 0
    return bool(np.isclose(made.quant.scale[0], 1 / 256)) and int(made.quant.zero_point[0]) == zero


@row("Softmax", quantized=_softmax_steps)
def softmax(call: Call) -> None:
    """Softmax along the last axis."""
    _along_last(call, "SOFTMAX", beta=1.0)


@row("LogSoftmax")
def log_softmax(call: Call) -> None:
    """LogSoftmax along the last axis."""
    _along_last(call, "LOG_SOFTMAX")


def _along_last(call: Call, operator: str, **options: float) -> None:
    """Write a softmax; along another axis than the last it is composed of what it is the quotient of."""
    value = call.value(0)
    rank = len(value.shape)
    axis = call.attribute("axis", -1) % max(rank, 1)
    if any(size != 1 for size in value.shape[axis + 1 :]):
        _composed(call, axis, operator == "LOG_SOFTMAX")
        return
    if axis == rank - 1 and rank <= _MOST_SOFTMAX:
        call.write(operator, [call.tensor(0)], **options)
        return
    flat = [product(value.shape[:axis]), value.shape[axis]]
    between = call.temporary(flat, call.output.dtype, call.output.quant)
    call.write(operator, [call.reshape(call.tensor(0), flat)], [between], **options)
    call.reshape(between, value.shape, call.target())


def _composed(call: Call, axis: int, logarithm: bool) -> None:
    shape, places, tensor = call.value(0).shape, call.constant([axis]), call.tensor(0)
    few = kept(shape, [axis])
    lower = call.step("SUB", [tensor, call.step("REDUCE_MAX", [tensor, places], few, keep_dims=True)], shape)
    power = call.step("EXP", [lower], shape)
    total = call.step("SUM", [power, places], few, keep_dims=True)
    if logarithm:
        call.write("SUB", [lower, call.step("LOG", [total], few)])
    else:
        call.write("DIV", [power, total])


def _index(call: Call, operator: str) -> None:
    """ArgMax or ArgMin, whose index is of 32 bits, or of 64."""
    value, made, tensor = call.value(0), call.output, call.tensor(0)
    axis = call.axis()
    keeps, last = call.attribute("keepdims", 1), call.attribute("select_last_index", 0)
    if last:  # of equal elements it is the first from the end
        tensor = call.move("REVERSE_V2", tensor, [call.constant([axis])], value.shape)
    shape = [size for place, size in enumerate(value.shape) if place != axis]
    into = call.temporary(shape, made.dtype) if keeps or last else call.target()
    call.write(operator, [tensor, call.constant(axis)], [into], output_type=_INT64)
    if last:
        end = call.constant(call.sizes(value)[axis] - 1, made.dtype)
        counted = call.temporary(shape, made.dtype) if keeps else call.target()
        call.write("SUB", [end, into], [counted])
        into = counted
    if keeps:
        call.reshape(into, made.shape, call.target())


_INT64, _INT32 = 4, 2


def _in_bytes(call: Call) -> bool:
    """Whether bytes are compared, as what they mean would be."""
    return call.value(0).in_bytes


@row("ArgMax", quantized=_in_bytes)
def arg_max(call: Call) -> None:
    """ArgMax."""
    _index(call, "ARG_MAX")


@row("ArgMin", quantized=_in_bytes)
def arg_min(call: Call) -> None:
    """ArgMin."""
    _index(call, "ARG_MIN")


@row("Hardmax")
def hardmax(call: Call) -> None:
    """Hardmax: 1 at the first of the largest elements, 0 elsewhere."""
    value, axis = call.value(0), call.axis(-1)
    index = call.temporary([size for place, size in enumerate(value.shape) if place != axis], "int32")
    call.write("ARG_MAX", [call.tensor(0), call.constant(axis)], [index], output_type=_INT32)
    depth, on, off = call.constant(call.sizes(value)[axis]), *(call.constant(each, value.dtype) for each in (1, 0))
    call.write("ONE_HOT", [index, depth, on, off], axis=axis)


@row("CumSum")
def cumsum(call: Call) -> None:
    """CumSum."""
    axis = int(call.known(1, "axis").reshape(-1)[0]) % len(call.value(0).shape)
    options = {key: bool(call.attribute(key, 0)) for key in ("exclusive", "reverse")}
    call.write("CUMSUM", [call.tensor(0), call.constant(axis)], **options)


def _largest(call: Call) -> bool:
    """Whether the largest of bytes are taken, as what they mean would be."""
    return call.value(0).in_bytes and moves(call) and bool(call.attribute("largest", 1))


@row("TopK", quantized=_largest)
def top_k(call: Call) -> None:
    """TopK along the last axis that has more than one element, of the largest: the smallest are these in the opposite
    order of all. Their indices are of 32 bits, and become 64.
    """
    value, made = call.value(0), call.output
    axis = call.axis(-1)
    if any(size != 1 for size in value.shape[axis + 1 :]):
        raise ExpressionError("it is not along the last axis", "report it: the plan is wrong")
    read, written = value.shape[: axis + 1], made.shape[: axis + 1]
    tensor = call.reshape(call.tensor(0), read)
    count = call.constant(int(call.known(1, "number").reshape(-1)[0]))
    indices = call.temporary(written, "int32")
    found = call.target(0) if written == made.shape else call.temporary(written, made.dtype, made.quant)
    if call.attribute("largest", 1):
        call.write("TOPK_V2", [tensor, count], [found, indices])
    else:
        turned, least = call.temporary(read, value.dtype), call.temporary(written, value.dtype)
        _turn(call, tensor, turned, value.dtype)
        call.write("TOPK_V2", [turned, count], [least, indices])
        _turn(call, least, found, value.dtype)
    if found != call.target(0):
        call.reshape(found, made.shape, call.target(0))
    if call.node.outputs[1]:
        call.write("CAST", [call.reshape(indices, made.shape)], [call.target(1)])


def _turn(call: Call, tensor: int, into: int, dtype: str) -> None:
    """Write numbers in the opposite order: of integers none may leave their type."""
    if dtype == "float32":
        call.write("NEG", [tensor], [into])
    else:
        call.write("SUB", [call.constant(-1, dtype), tensor], [into])


def _variance(call: Call, tensor: int, shape: Sequence[Dim], axes: list[int]) -> tuple[int, int]:
    """What is above the mean along axes, and the mean of its square."""
    few = kept(shape, axes)
    places = call.constant(axes)
    average = call.step("MEAN", [tensor, places], few, keep_dims=True)
    centred = call.step("SUB", [tensor, average], shape)
    square = call.step("SQUARED_DIFFERENCE", [tensor, average], shape)
    return centred, call.step("MEAN", [square, places], few, keep_dims=True)


def normalised(call: Call, tensor: int, shape: Sequence[Dim], axes: list[int], epsilon: float) -> int:
    """A tensor less its mean along axes, over its deviation."""
    few = kept(shape, axes)
    centred, variance = _variance(call, tensor, shape, axes)
    inverse = call.step("RSQRT", [call.step("ADD", [variance, call.constant(epsilon, "float32")], few)], few)
    return call.step("MUL", [centred, inverse], shape)


def spread_along(value: Value, rank: int, axis: int) -> list[Dim]:
    """The shape in which a vector broadcasts along one axis of several."""
    if len(value.shape) != 1 or rank < 1:
        raise ExpressionError(f"'{value.name}' is no vector", "give it one dimension")
    return [value.shape[0] if place == axis else 1 for place in range(rank)]
