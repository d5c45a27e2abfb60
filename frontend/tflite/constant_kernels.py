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
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.operators.resize import has_halves, is_aligned, neighbours_of, positions
from layoutsolve.ir.graph import Array

GROWTH = 2
ALWAYS_SMALL = 4096

AS_LONG = 32
"""So many products of a matrix take as long as another number does."""

Evaluator = Callable[[Call, list[Array]], list[Array]]


class UnknownError(Exception):
    """The result has no closed form, or would be too large."""


def bounded(elements: int, *inputs: Array) -> None:
    """Refuse results that are much larger than what they are made of."""
    if elements > max(GROWTH * sum(array.size for array in inputs), ALWAYS_SMALL):
        raise UnknownError


def _numbers(*arrays: Array) -> None:
    """Refuse what holds no real numbers of 32 bits, sizes that are not known among it."""
    if any(array.dtype != np.float32 for array in arrays):
        raise UnknownError


def finite(numbers: Array, dtype: Any) -> Array:
    """Real numbers of a type as LiteRT keeps them, with the largest in place of infinite ones."""
    largest = np.finfo(dtype).max
    return np.asarray(np.clip(numbers, -largest, largest), dtype)


def real(function: Callable[[Array], Any]) -> Evaluator:
    """An operator on single floats, by a function on double ones."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        (x,) = arrays
        _numbers(x)
        return [np.asarray(function(x.astype(np.float64)), x.dtype)]

    return evaluate


def reduced(function: Callable[..., Any], kinds: str) -> Evaluator:
    """A reduction of numbers of some kinds, as numpy names them; real ones are summed up as double ones."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        data, axes = arrays
        if data.dtype.kind not in kinds or data.dtype in (np.float16, np.float64) or not data.size:
            raise UnknownError
        exact = data.astype(np.float64) if data.dtype.kind == "f" else data
        over = tuple(axis_of(int(axis), data.ndim) for axis in axes.reshape(-1))
        return [np.asarray(function(exact, axis=over, keepdims=bool(call.option("keep_dims"))), data.dtype)]

    return evaluate


def paired(function: Callable[[Array, Array], Any]) -> Evaluator:
    """An operator on pairs of floats."""

    def evaluate(call: Call, arrays: list[Array]) -> list[Array]:
        a, b = arrays
        _numbers(a, b)
        bounded(prod(np.broadcast_shapes(a.shape, b.shape)), a, b)
        return [np.asarray(function(a, b), a.dtype)]

    return evaluate


def _softmax(call: Call, arrays: list[Array]) -> list[Array]:
    (x,) = arrays
    _numbers(x)
    if not x.ndim:
        raise UnknownError
    scaled = x.astype(np.float64) * call.option("beta", 0.0)
    powers = np.exp(scaled - scaled.max(-1, keepdims=True))
    return [np.asarray(powers / powers.sum(-1, keepdims=True), x.dtype)]


def _cumulated(call: Call, arrays: list[Array]) -> list[Array]:
    x, (axis, *_) = arrays[0], arrays[1].reshape(-1).tolist()
    if x.dtype.name not in ("float32", "int32", "int64") or not x.ndim:
        raise UnknownError
    lines = np.moveaxis(x, axis, 0)
    lines = lines[::-1] if call.option("reverse") else lines
    found = np.cumsum(lines, 0, np.float64 if x.dtype.kind == "f" else x.dtype)
    if call.option("exclusive"):
        found = np.concatenate([np.zeros_like(found[:1]), found[:-1]])
    found = found[::-1] if call.option("reverse") else found
    return [np.asarray(np.moveaxis(found, 0, axis), x.dtype)]


def _gathered(call: Call, arrays: list[Array]) -> list[Array]:
    data, indices = arrays
    places = indices.astype(np.int64)
    if not places.size or (places < 0).any():
        raise UnknownError
    bounded(prod(places.shape[:-1]) * prod(data.shape[places.shape[-1] :]), data, indices)
    return [data[tuple(np.moveaxis(places, -1, 0))]]


def _looked_up(call: Call, arrays: list[Array]) -> list[Array]:
    rows, table = arrays
    if rows.ndim != 1 or (rows < 0).any():
        raise UnknownError
    bounded(rows.size * prod(table.shape[1:]), rows, table)
    return [table[rows.astype(np.int64)]]


def _dense(call: Call, arrays: list[Array]) -> list[Array]:
    data, weights, *bias = arrays
    if call.option("fused_activation_function") or call.option("weights_format") or not data.ndim:
        raise UnknownError
    rows = data.reshape(-1, weights.shape[1])
    shape = data.shape[:-1] if call.option("keep_num_dims") else (len(rows),)
    found = _product(call, rows, weights.T)
    for each in bias:
        _numbers(each)
        if each.size != len(weights):
            raise UnknownError
        found = found + each.reshape(-1)
    return [finite(found, data.dtype).reshape(*shape, len(weights))]


def _multiplied(call: Call, arrays: list[Array]) -> list[Array]:
    a, b = (
        np.swapaxes(each, -1, -2) if call.option(option) else each
        for each, option in zip(arrays, ("adj_x", "adj_y"), strict=True)
    )
    return [np.asarray(_product(call, a, b), a.dtype)]


def _product(call: Call, a: Array, b: Array) -> Array:
    """A matrix product of real numbers in double ones."""
    _numbers(a, b)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    bounded(prod(shape), a, b)
    if not call.draft.budget.computes(prod(shape) * (1 + a.shape[-1] // AS_LONG)):
        raise UnknownError
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64))


def _resized(call: Call, arrays: list[Array]) -> list[Array]:
    data, sizes = _image(call, arrays)
    for axis, size in zip((1, 2), sizes, strict=True):
        data = np.take(data, positions(data.shape[axis], size, is_aligned(call), has_halves(call)), axis)
    return [data]


def _interpolated(call: Call, arrays: list[Array]) -> list[Array]:
    data, sizes = _image(call, arrays)
    _numbers(data)
    found = data.astype(np.float64)
    for axis, size in zip((1, 2), sizes, strict=True):
        form = (-1, *(1,) * (3 - axis))
        (before, near), (behind, far) = neighbours_of(call, data.shape[axis], size)
        found = np.take(found, before, axis) * near.reshape(form) + np.take(found, behind, axis) * far.reshape(form)
    return [np.asarray(found, data.dtype)]


def _image(call: Call, arrays: list[Array]) -> tuple[Array, list[int]]:
    """An image, and the rows and columns that it is to have."""
    data, sizes = arrays[0], arrays[1].reshape(-1).tolist()
    if data.ndim != 4 or not data.size or min(sizes) < 1 or (is_aligned(call) and has_halves(call)):
        raise UnknownError
    rows = data.shape[0] * data.shape[3] * sizes[0]  # which are resized first
    bounded(rows * max(sizes[1], data.shape[2]), data)
    return data, sizes


def _quantized(call: Call, arrays: list[Array]) -> list[Array]:
    """In steps, halves to the even one, the quotient rounded to float32."""
    (x,), slot = arrays, call.slot()
    _numbers(x)
    plain = slot.quant is not None and slot.quant.axis is None and not slot.quant.block
    if slot.quant is None or not plain or slot.dtype not in ("int8", "uint8", "int16") or call.draft.reading.exact:
        raise UnknownError
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
    "POW": paired(lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64))),
    "SQUARED_DIFFERENCE": paired(lambda a, b: np.square(a - b)),
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
    "QUANTIZE": _quantized,
}
"""By operator, what computes it from numbers that are known, with numpy's warnings left out."""
