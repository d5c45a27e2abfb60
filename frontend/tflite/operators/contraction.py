"""Matrix products."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast, reshaped
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import real_dtype
from layoutsolve.frontend.tflite.operators.custom.options import integer
from layoutsolve.frontend.tflite.operators.shared import dynamic_products
from layoutsolve.frontend.tflite.operators.shared.common import bias_of, hybrid_weights, ranked, write_activated
from layoutsolve.ir.graph import Array, Shape, Size, Value, product, quotient

_WIDE = 64
"""Hadamard matrices above this size are written as a product of two."""


@lowers("FULLY_CONNECTED", signature=("FQ FN FI? -> =", "H H I? -> ="), per_tensor=(0,))
def fully_connected(call: Call) -> None:
    """FULLY_CONNECTED: rows of as many elements as the weights have columns, whatever the input's shape."""
    x = call.input(0)
    weights = ranked(call, hybrid_weights(call, x, 1), 2)
    if call.option("weights_format") != 0:
        raise GapError("its weights are shuffled", "convert the model without shuffled weights")
    if real_dtype(x) != "float32" or real_dtype(weights) != "float32":
        raise GapError(f"it multiplies {x.dtype} by {weights.dtype}", "use float32, or quantized types with parameters")
    if weights.quant is not None and weights.quant.block and weights.data is None:
        raise GapError(
            "its weights have scales per block and are computed, which LiteRT passes over", "fix the weights"
        )
    if weights.dtype == "int16" and call.optional(2) is not None:
        raise GapError("LiteRT misreads the bias of a product of int16 by int16", "add it by an ADD")
    outputs, columns = weights.shape
    if not isinstance(columns, int) or columns == 0:
        raise GapError("its weights have a dynamic or empty shape", "use constant weights")
    _check_rows(x.shape, columns)
    rows = reshaped(x.shape, (-1, columns), call.arithmetic)
    if call.option("keep_num_dims", False):
        if not x.shape or not call.agree(x.shape[-1:], (columns,)):
            raise ModelError(f"{call.origin} keeps the dimensions of an input whose last one is not {columns}")
        shape = (*x.shape[:-1], outputs)
    else:
        shape = (rows[0], outputs)
    bias = bias_of(call, call.optional(2), x, weights, outputs)
    if len([dim for dim in shape if isinstance(dim, Size)]) > 1:
        _matmul(call, x, weights, bias, shape)
        return
    flat = call.reshaped(x, rows, "rows")
    slot = call.slot()
    product = slot if len(shape) == 2 else call.temporary("product", slot.dtype, slot.quant)
    if dynamic_products.pays(call, flat, weights):
        result = dynamic_products.write_product(call, flat, weights, bias, product)
    else:
        inputs = [flat, weights] if bias is None else [flat, weights, bias]
        result = write_activated(call, "Gemm", inputs, (rows[0], outputs), product, transB=1)
    if product is not slot:
        call.reshape(result, shape, slot)


def _check_rows(shape: Shape, columns: int) -> None:
    """Refuse an input that is no whole rows, unless sizes but the first are open, with which it may be."""
    count = product(shape)
    if quotient(count, columns) is None and all(isinstance(size, int) for size in shape[1:]):
        raise GapError(
            f"its input of {count} elements is no whole number of rows of {columns}, and LiteRT leaves the rest out",
            "reshape the input to whole rows",
        )


def _matmul(call: Call, x: Value, weights: Value, bias: Value | None, shape: Shape) -> None:
    """A product that keeps several symbolic dimensions, which no constant shape could bring back after a Gemm."""
    columns = call.transposed(weights, (1, 0), "columns")
    slot = call.slot()
    if bias is None:
        write_activated(call, "MatMul", [x, columns], shape, slot)
        return
    product = call.write("MatMul", [x, columns], shape, call.temporary("product", slot.real))
    write_activated(call, "Add", [product, bias], shape, slot)


@lowers("BATCH_MATMUL", signature=("FZ FZ -> =", "Q Q -> W"), quantized=INT8_AND_INT16, per_tensor=(0,))
def batch_matmul(call: Call) -> None:
    """BATCH_MATMUL: either side may have its last two axes swapped."""
    a, b = _side(call, call.input(0), "adj_x"), _side(call, _matrix(call), "adj_y")
    if not call.agree(a.shape[-1:], b.shape[-2:-1]):
        raise ModelError(f"{call.origin} multiplies {list(map(str, a.shape))} by {list(map(str, b.shape))}")
    shape = (*broadcast([a.shape[:-2], b.shape[:-2]], call.arithmetic), a.shape[-2], b.shape[-1])
    slot = call.slot()
    if slot.real == "int32" and a.dtype == "int8":
        raise GapError("it multiplies plain integers", "quantize the output as well")
    call.write("MatMul", [a, b], shape, slot)


def _matrix(call: Call) -> Value:
    """The right side, of a constant without leading dimensions of size 1: OpenVINO refuses bytes that have two."""
    value = call.input(1)
    data, lead = value.data, len(value.shape) - 2
    units = lead > 0 and set(value.shape[:lead]) == {1} and len(call.input(0).shape) >= len(value.shape)
    if data is None or not units or (value.quant is not None and value.quant.axis is not None):
        return value
    return call.constant(data.reshape(value.shape[lead:]), "matrix", value.dtype, value.quant)


def _side(call: Call, value: Value, option: str) -> Value:
    rank = len(value.shape)
    if rank < 2:
        raise ModelError(f"{call.origin} multiplies '{value.name}' of rank {rank}")
    if not call.option(option, False):
        return value
    return call.transposed(value, (*range(rank - 2), rank - 1, rank - 2), "swapped")


@lowers("CUSTOM:aeq.hadamard_rotation", signature="F -> =")
def hadamard_rotation(call: Call) -> None:
    """aeq.hadamard_rotation of ai-edge-quantizer: each run of elements of the last axis times a Hadamard matrix.

    That of a wide run is the Kronecker product of two, each of which multiplies one of two axes.
    """
    x, size = call.input(0), integer(call, call.settings(), "hadamard_size")
    if len(x.shape) not in (2, 3) or x.dtype != "float32":
        raise GapError(f"it rotates {x}, for which LiteRT's kernel is not made", "use float32 of rank 2 or 3")
    last = x.shape[-1]
    if 0 in x.shape:
        raise GapError(f"it rotates {x}, which has no elements", "leave it out")
    if not isinstance(last, int) or size < 1 or size & (size - 1) or last % size:
        raise ModelError(f"{call.origin} rotates blocks of {size} elements of {x}")
    inner = size if size <= _WIDE else 1 << (size.bit_length() // 2)
    call.draft.ask(inner**2 + (size // inner) ** 2)
    whole = inner == last
    runs = x if whole else call.reshaped(x, (*x.shape[:-1], last // size, size // inner, inner), "runs")
    slot = call.slot() if whole else call.temporary("turned")
    turned = call.write("MatMul", [runs, call.constant(_hadamard(inner), "hadamard")], runs.shape, slot)
    if inner < size:
        outer = call.constant(_hadamard(size // inner), "outer")
        turned = call.write("MatMul", [outer, turned], runs.shape, call.temporary("turned"))
    if not whole:
        call.reshape(turned, x.shape, call.slot())


def _hadamard(size: int) -> Array:
    """The Hadamard matrix of a size that is a power of two, scaled to be orthogonal."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    scaled: Array = matrix / np.float32(np.sqrt(size))
    return scaled
