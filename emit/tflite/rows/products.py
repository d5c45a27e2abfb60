"""Products of matrices: by constant weights a fully-connected layer, else BATCH_MATMUL."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.meanings import in_steps
from layoutsolve.emit.tflite.rows.convolutions import bias_of
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import is_coarse_layer, multiplies
from layoutsolve.ir.graph import Array, Dim, Quant, Size, product

_MOST = 5
"""The most dimensions of what BATCH_MATMUL multiplies."""


def _is_layer(call: Call) -> bool:
    """Whether a kernel computes a product of quantized numbers in its own steps: by constant weights, to which a
    constant is added, or of two computed matrices of integers with a sign.
    """
    data, weights, made = call.value(0), call.value(1), call.output
    if data.quant is None or weights.quant is None or made.quant is None or data.dtype != made.dtype:
        return False
    if call.attribute("alpha", 1.0) != 1.0 or is_coarse_layer(call):
        return False
    if weights.data is None:
        signed = data.dtype in ("int8", "int16") and in_steps(data) and in_steps(weights)
        return signed and data.dtype == weights.dtype and not call.has(2)
    if call.attribute("transA", 0) or len(weights.shape) != 2 or (call.has(2) and not _is_addend(call)):
        return False
    rows = 0 if call.attribute("transB", 0) else 1
    per_row = weights.quant.axis in (None, rows) and not weights.quant.block
    return per_row and multiplies(data, weights)


def _is_addend(call: Call) -> bool:
    """Whether a kernel adds what is added: a row of constants, of floats where they are multiplied."""
    return _is_row(call) and (call.value(2).quant is None or call.attribute("beta", 1.0) == 1.0)


def _is_row(call: Call) -> bool:
    """Whether what is added is a constant for each column."""
    added, columns = call.data(2), call.output.shape[-1:]
    return added is not None and added.shape[-1:] == columns and (added.size,) == columns


@row("MatMul", quantized=_is_layer)
def matrix_product(call: Call) -> None:
    """MatMul."""
    _multiply(call, False, False)


@row("Gemm", "FusedMatMul", quantized=_is_layer)
def general_product(call: Call) -> None:
    """Gemm, and MatMul of transposed matrices."""
    _multiply(call, bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0)))


def _multiply(call: Call, turned_left: bool, turned_right: bool) -> None:
    left, right = call.value(0), call.value(1)
    alpha, beta = float(call.attribute("alpha", 1.0)), float(call.attribute("beta", 1.0))
    added = call.data(2) if call.has(2) else None
    if right.data is not None and len(right.shape) == 2 and not turned_left and len(left.shape) > 0:
        weights = right.data if turned_right else right.data.T
        if not call.has(2) or _is_row(call):
            _layer(call, weights, alpha, None if added is None else added.reshape(-1) * np.float32(beta))
            return
    if call.has(2):
        _with_sum(call, turned_left, turned_right, alpha, beta)
    else:
        _batch(call, turned_left, turned_right, alpha, call.target())


def _layer(call: Call, weights: Array, alpha: float, added: Array | None) -> None:
    """Write a fully-connected layer, whose weights have a row for each result."""
    value, right = call.value(0), call.value(1)
    if alpha != 1.0:
        weights = weights * np.float32(alpha)
    if weights is right.data:
        kernel = call.tensor(1)
    else:
        quant = right.quant
        if quant is not None and quant.axis is not None:
            quant = Quant(quant.scale, quant.zero_point, 0)
        name = call.draft.names.derived(right.name, "rows")
        kernel = call.draft.add(name, right.dtype, weights.shape, quant, np.ascontiguousarray(weights))
    bias = -1 if added is None and right.quant is None else bias_of(call, added, weights.shape[0])
    tensor, made = call.tensor(0), call.output
    flat = len(value.shape) == 1
    if flat:
        tensor = call.reshape(tensor, [1, *value.shape])
    options: dict[str, Any] = {
        "fused_activation_function": call.activation,
        "keep_num_dims": len(value.shape) > 2,
    }
    if flat:
        between = call.temporary([1, *made.shape], made.dtype, made.quant)
        call.write("FULLY_CONNECTED", [tensor, kernel, bias], [between], **options)
        call.reshape(between, made.shape, call.target())
    else:
        call.write("FULLY_CONNECTED", [tensor, kernel, bias], **options)


def _with_sum(call: Call, turned_left: bool, turned_right: bool, alpha: float, beta: float) -> None:
    """Write a product and what is added to it, one after the other."""
    made = call.output
    between = call.temporary(made.shape, made.dtype)
    _batch(call, turned_left, turned_right, alpha, between)
    third = call.tensor(2)
    if beta != 1.0:
        third = call.step("MUL", [third, call.constant(beta, "float32")], call.value(2).shape)
    call.write("ADD", [between, third], fused_activation_function=call.activation)


def _batch(call: Call, turned_left: bool, turned_right: bool, alpha: float, into: int) -> None:
    """Write a product of two tensors of matrices; a vector is a matrix of one row, or column."""
    left, right, made = call.value(0), call.value(1), call.output
    first, second = call.tensor(0), call.tensor(1)
    shapes: list[list[Dim]] = [list(left.shape), list(right.shape)]
    if len(left.shape) == 1:
        shapes[0] = [1, *left.shape]
    if len(right.shape) == 1:
        shapes[1] = [*right.shape, 1]
    final: list[Dim] = list(made.shape)
    if len(right.shape) == 1:
        final = [*final, 1]
    if len(left.shape) == 1:
        final = [*final[:-1], 1, final[-1]]
    first, second = (call.reshape(tensor, shape) for tensor, shape in zip((first, second), shapes, strict=True))
    rank = max(map(len, shapes))
    if rank > _MOST:
        first, second = (
            _in_full(call, each, shape, final) for each, shape in zip((first, second), shapes, strict=True)
        )
        shapes = [[product(final[:-2]), *shape[-2:]] for shape in shapes]
        final = [product(final[:-2]), *final[-2:]]
    else:
        shapes = [[*(1 for _ in range(rank - len(shape))), *shape] for shape in shapes]
    first, second = (call.reshape(tensor, shape) for tensor, shape in zip((first, second), shapes, strict=True))
    if alpha != 1.0:
        first = call.step("MUL", [first, call.constant(alpha, "float32")], shapes[0])
    options = {"adj_x": turned_left, "adj_y": turned_right}
    plain = final == list(made.shape) and not call.activation
    last = into if plain else call.temporary(final, made.dtype, made.quant)
    call.write("BATCH_MATMUL", [first, second], [last], **options)
    if plain:
        return
    if call.activation and into == call.target():
        last = call.step({1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}[call.activation], [last], final)
    call.reshape(last, made.shape, into)


def _in_full(call: Call, tensor: int, shape: list[Dim], final: list[Dim]) -> int:
    """Matrices in as many dimensions as their product, each as often as it is multiplied."""
    whole = [*final[:-2], *shape[-2:]]
    if shape == whole:
        return tensor
    if any(isinstance(size, Size) for size in whole):
        raise ExpressionError(
            "it multiplies matrices of many dimensions, some of which are dynamic", "fix them with --shape"
        )
    return call.move("BROADCAST_TO", tensor, [call.constant(whole)], whole)


_MOST_ROWS = 6
"""The most rows of a determinant, which is the sum of as many products as there are orders of them."""


@row("Det")
def determinant(call: Call) -> None:
    """Det: for each order of the columns the product of an element of each row, with the sign of the order."""
    value, made = call.value(0), call.output
    (size,) = {*call.sizes(value, slice(-2, None))}
    if size > _MOST_ROWS:
        raise ExpressionError(f"it has more than {_MOST_ROWS} rows", "cut the model with --from or --to")
    orders = np.array([*permutations(range(size))], np.int64).reshape(-1, size)
    signs = [np.linalg.det(np.eye(size)[order]) for order in orders]
    count = product(value.shape[:-2])
    flat = call.reshape(call.tensor(0), [count, size * size])
    places = call.constant(orders + size * np.arange(size))
    parts = call.step("GATHER", [flat, places], [count, *orders.shape], axis=1)
    products = call.step("REDUCE_PROD", [parts, call.constant([2])], [count, len(orders)], keep_dims=False)
    signed = call.step("MUL", [products, call.constant(np.rint(signs), "float32")], [count, len(orders)])
    total = call.step("SUM", [signed, call.constant([1])], [count], keep_dims=False)
    call.reshape(total, made.shape, call.target())
