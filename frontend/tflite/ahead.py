"""What operators on numbers give that are known before a model runs: as LiteRT computes them, or in double precision
and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.shapes import axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantisation import limits
from layoutsolve.frontend.tflite.operators.resize import has_halves, is_aligned, neighbours_of, positions
from layoutsolve.graph import Array

GROWTH = 2
ALWAYS_SMALL = 4096

PRODUCTS = 1 << 26
"""The most products of numbers that one operator may take."""

Evaluator = Callable[[Call, list[Array]], list[Array]]


class UnknownError(Exception):
    """The result has no closed form, or would be too large."""


def bounded(elements: int, *inputs: Array) -> None:
    """Refuse results that are much larger than what they are made of."""
    if elements > max(GROWTH * sum(array.size for array in inputs), ALWAYS_SMALL):
        raise UnknownError


def _numbers(*arrays: Array) -> None:
    """Refuse sizes that are not known, and what holds no real numbers."""
    if any(array.dtype.kind != "f" for array in arrays):
        raise UnknownError


def real(function: Callable[[Array], Any]) -> Evaluator:
    """An operator on single real numbers, by a function on double ones."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        (x,) = arrays
        _numbers(x)
        with np.errstate(all="ignore"):
            return [np.asarray(function(x.astype(np.float64)), x.dtype)]

    return evaluate


def reduced(function: Callable[..., Any], kinds: str) -> Evaluator:
    """A reduction of numbers of some kinds, as numpy names them; real ones are summed up as double ones."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        data, axes = arrays
        if data.dtype.kind not in kinds or not data.size:
            raise UnknownError
        exact = data.astype(np.float64) if data.dtype.kind == "f" else data
        over = tuple(axis_of(int(axis), data.ndim) for axis in axes.reshape(-1))
        with np.errstate(all="ignore"):
            return [np.asarray(function(exact, axis=over, keepdims=bool(call.option("keep_dims"))), data.dtype)]

    return evaluate


def _power(call: Call, arrays: list[Array]) -> list[Array]:
    a, b = arrays
    _numbers(a, b)
    bounded(prod(np.broadcast_shapes(a.shape, b.shape)), a, b)
    with np.errstate(all="ignore"):
        return [np.asarray(np.power(a.astype(np.float64), b.astype(np.float64)), a.dtype)]


def _squared_difference(call: Call, arrays: list[Array]) -> list[Array]:
    a, b = arrays
    _numbers(a, b)
    bounded(prod(np.broadcast_shapes(a.shape, b.shape)), a, b)
    with np.errstate(all="ignore"):
        return [np.asarray(np.square(a - b), a.dtype)]


def _softmax(call: Call, arrays: list[Array]) -> list[Array]:
    (x,) = arrays
    _numbers(x)
    with np.errstate(all="ignore"):
        scaled = x.astype(np.float64) * call.option("beta", 1.0)
        powers = np.exp(scaled - scaled.max(-1, keepdims=True))
        return [np.asarray(powers / powers.sum(-1, keepdims=True), x.dtype)]


def _cumulated(call: Call, arrays: list[Array]) -> list[Array]:
    x, (axis, *_) = arrays[0], arrays[1].reshape(-1).tolist()
    if x.dtype.kind not in "if":
        raise UnknownError
    lines = np.flip(x, axis) if call.option("reverse") else x
    found = np.cumsum(lines, axis, np.float64 if x.dtype.kind == "f" else x.dtype)
    if call.option("exclusive"):
        found = found - lines
    return [np.asarray(np.flip(found, axis) if call.option("reverse") else found, x.dtype)]


def _gathered(call: Call, arrays: list[Array]) -> list[Array]:
    data, indices = arrays
    places = indices.astype(np.int64)
    if data.dtype == object or not places.size or (places < 0).any():
        raise UnknownError
    bounded(prod(places.shape[:-1]) * prod(data.shape[places.shape[-1] :]), data, indices)
    return [data[tuple(np.moveaxis(places, -1, 0))]]


def _looked_up(call: Call, arrays: list[Array]) -> list[Array]:
    rows, table = arrays
    if table.dtype == object or rows.ndim != 1 or (rows < 0).any():
        raise UnknownError
    bounded(rows.size * prod(table.shape[1:]), rows, table)
    return [table[rows.astype(np.int64)]]


def _dense(call: Call, arrays: list[Array]) -> list[Array]:
    data, weights, *bias = arrays
    if call.option("fused_activation_function") or call.option("weights_format"):
        raise UnknownError
    rows = data.reshape(-1, weights.shape[1])
    shape = data.shape[:-1] if call.option("keep_num_dims") else (len(rows),)
    found = _product(rows, weights.T)
    for each in bias:
        _numbers(each)
        found = found + each
    return [np.asarray(found, data.dtype).reshape(*shape, len(weights))]


def _multiplied(call: Call, arrays: list[Array]) -> list[Array]:
    a, b = (
        np.swapaxes(each, -1, -2) if call.option(option) else each
        for each, option in zip(arrays, ("adj_x", "adj_y"), strict=True)
    )
    return [np.asarray(_product(a, b), a.dtype)]


def _product(a: Array, b: Array) -> Array:
    """A matrix product of real numbers in double ones."""
    _numbers(a, b)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    bounded(prod(shape), a, b)
    if prod(shape) * a.shape[-1] > PRODUCTS:
        raise UnknownError
    with np.errstate(all="ignore"):
        return np.asarray(a.astype(np.float64) @ b.astype(np.float64))


def _resized(call: Call, arrays: list[Array]) -> list[Array]:
    data, sizes = _image(arrays)
    for axis, size in zip((1, 2), sizes, strict=True):
        data = np.take(data, positions(data.shape[axis], size, is_aligned(call), has_halves(call)), axis)
    return [data]


def _interpolated(call: Call, arrays: list[Array]) -> list[Array]:
    data, sizes = _image(arrays)
    _numbers(data)
    found = data.astype(np.float64)
    for axis, size in zip((1, 2), sizes, strict=True):
        form = (-1, *(1,) * (3 - axis))
        (before, near), (behind, far) = neighbours_of(call, data.shape[axis], size)
        found = np.take(found, before, axis) * near.reshape(form) + np.take(found, behind, axis) * far.reshape(form)
    return [np.asarray(found, data.dtype)]


def _image(arrays: list[Array]) -> tuple[Array, list[int]]:
    """An image, and the rows and columns that it is to have."""
    data, sizes = arrays[0], arrays[1].reshape(-1).tolist()
    if data.dtype == object or data.ndim != 4 or not data.size or min(sizes) < 1:
        raise UnknownError
    bounded(data.shape[0] * prod(sizes) * data.shape[3], data)
    return data, sizes


def _quantised(call: Call, arrays: list[Array]) -> list[Array]:
    """In steps, halves to the even one, the quotient rounded to float32."""
    (x,), slot = arrays, call.slot()
    if x.dtype != np.float32 or slot.quant is None or slot.quant.axis is not None or slot.quant.block:
        raise UnknownError
    with np.errstate(all="ignore"):
        steps = np.rint(x / slot.quant.scale.reshape(())).astype(np.float64)
    if not np.isfinite(steps).all():
        raise UnknownError
    return [np.clip(steps + int(slot.quant.zero_point.reshape(())), *limits(slot.dtype)).astype(slot.dtype)]


NUMBERS: dict[str, Evaluator] = {
    "COS": real(np.cos),
    "SIN": real(np.sin),
    "LOG": real(np.log),
    "LOGISTIC": real(lambda x: 1 / (1 + np.exp(-x))),
    "TANH": real(np.tanh),
    "FLOOR": real(np.floor),
    "CEIL": real(np.ceil),
    "ROUND": real(np.rint),
    "SQUARE": real(np.square),
    "RELU": real(lambda x: np.maximum(x, 0)),
    "RELU6": real(lambda x: np.clip(x, 0, 6)),
    "RELU_0_TO_1": real(lambda x: np.clip(x, 0, 1)),
    "RELU_N1_TO_1": real(lambda x: np.clip(x, -1, 1)),
    "POW": _power,
    "SQUARED_DIFFERENCE": _squared_difference,
    "MEAN": reduced(np.mean, "f"),
    "REDUCE_ALL": reduced(np.all, "b"),
    "REDUCE_ANY": reduced(np.any, "b"),
    "SOFTMAX": _softmax,
    "CUMSUM": _cumulated,
    "GATHER_ND": _gathered,
    "EMBEDDING_LOOKUP": _looked_up,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _multiplied,
    "RESIZE_NEAREST_NEIGHBOR": _resized,
    "RESIZE_BILINEAR": _interpolated,
    "QUANTIZE": _quantised,
}
"""By operator, what computes it."""
