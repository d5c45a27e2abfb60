"""Products of matrices: FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from itertools import product

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.builder import Quant
from tests.conformance.cases import COMPUTED, Operand, Table, cases, declare, result
from tests.conformance.convolution import QUANTIZED, bias, weights


def dense_weights(table: Table, shape: tuple[int, int]) -> Array:
    """Small integers, as four-bit weights hold them."""
    return table.random.integers(-7, 8, shape).astype(np.int8)


@cases("FULLY_CONNECTED")
def dense(table: Table) -> None:
    for (dtype, per_channel), shape, keep in product(
        (("float32", False), *QUANTIZED), ((1, 6), (4, 6), (2, 3, 6), (2, 3, 2)), (False, True)
    ):
        if keep and shape[-1] != 6:
            continue
        for activation, biased in (("NONE", True), ("RELU", True), ("RELU6", False), ("NONE", False)):
            if dtype == "uint8" and per_channel:
                continue
            source = table.numbers(dtype, *shape)
            kernels = weights(table, dtype, (5, 6), 0 if per_channel else None)
            inputs = [source, kernels, bias(table, source, kernels, 5) if biased else None]
            label = f"{dtype}-{'channel' if per_channel else 'tensor'}-{shape}-{activation}"
            label += f"{'-keep' if keep else ''}{'' if biased else '-unbiased'}"
            chosen = {"keep_num_dims": keep, "fused_activation_function": activation}
            table.add(label, inputs, result(dtype, -4, 4), chosen)


@cases("FULLY_CONNECTED")
def dense_unusual(table: Table) -> None:
    table.add("computed-weights", [table.real(2, 6), table.real(5, 6), table.real(5).fixed])
    table.add(
        "computed-both-int8", [table.quantized("int8", 2, 6), table.quantized("int8", 5, 6)], result("int8", -4, 4)
    )
    for shape, keep, activation in product(((4, 6), (2, 3, 6)), (False, True), ("NONE", "RELU")):
        chosen = {"keep_num_dims": keep, "fused_activation_function": activation}
        both = [table.quantized("int16", *shape), table.quantized("int16", 5, 6)]
        label = f"computed-both-int16-{shape}-{activation}{'-keep' if keep else ''}"
        table.add(label, both, result("int16", -4, 4), chosen)
    short = [table.quantized("int16", 4, 6), table.quantized("int16", 5, 6).fixed]
    table.add("constant-int16", short, result("int16", -4, 4))
    table.add("constant-int16-empty-bias", [*short, None], result("int16", -4, 4))
    table.add("dynamic", [table.real(3, 6).dynamic(0), table.real(5, 6).fixed, table.real(5).fixed])
    for dtype in ("float32", "int8", "uint8"):
        source = table.numbers(dtype, 3, 2, 6).dynamic(0, 1)
        inputs = [source, kernels := weights(table, dtype, (5, 6), None), bias(table, source, kernels, 5)]
        table.add(f"dynamic-kept-{dtype}", inputs, result(dtype, -4, 4), {"keep_num_dims": True})
    table.add("image", [table.real(2, 3, 4, 2), table.real(5, 24).fixed, table.real(5).fixed])
    table.add("hybrid", [table.real(4, 40), weights(table, "int8", (5, 40), None), table.real(5).fixed], tolerance=0.02)
    small = Quant([0.1], [0])
    four = Operand(dense_weights(table, (5, 6)), "int4", small, True)
    source = table.quantized("int8", 3, 6)
    product_scale = Quant([float(np.float32(source.scale) * np.float32(0.1))], [0])
    offsets = Operand(np.arange(5, dtype=np.int32), "int32", product_scale, True)
    table.add("int4", [source, four, offsets], result("int8", -4, 4))


@cases("BATCH_MATMUL")
def products(table: Table) -> None:
    shapes = (((2, 3, 4), (2, 4, 5)), ((1, 2, 3, 4), (1, 2, 4, 5)), ((2, 1, 3, 4), (1, 3, 4, 5)), ((3, 4), (4, 5)))
    for dtype, (left, right), flip_left, flip_right in product(("float32", "int8", "int16"), shapes, (0, 1), (0, 1)):
        first = left[:-2] + left[-2:][::-1] if flip_left else left
        second = right[:-2] + right[-2:][::-1] if flip_right else right
        chosen = {"adj_x": bool(flip_left), "adj_y": bool(flip_right)}
        label = f"{dtype}-{len(left)}d{left[0]}{right[0]}-{flip_left}{flip_right}"
        operands = [table.numbers(dtype, *first), table.numbers(dtype, *second)]
        table.add(label, operands, result(dtype, -3, 3), chosen)
    table.add("constant", [table.real(2, 3, 4), table.real(4, 5).fixed])
    table.add(
        "constant-int8", [table.quantized("int8", 2, 3, 4), table.quantized("int8", 4, 5).fixed], result("int8", -3, 3)
    )
    for dtype, left, right, flip in product(("float32", "int8"), ((2, 3), (2, 2, 3)), ((1,), (1, 1)), (0, 1)):
        second = (*right, *((5, 4) if flip else (4, 5)))
        label = f"units-{dtype}-{len(left)}{len(right)}{flip}"
        operands = [table.numbers(dtype, *left, 4), table.numbers(dtype, *second).fixed]
        table.add(label, operands, result(dtype, -3, 3), {"adj_y": bool(flip)})


@cases("CUSTOM:aeq.hadamard_rotation")
def rotations(table: Table) -> None:
    """Runs as long as the last axis and shorter ones, of a matrix and of several."""
    for size, width, rows in product((1, 2, 8, 64, 128, 512, 2048), (1, 3), ((5,), (2, 3))):
        shape = (*rows, size * width)
        options = bytes(flexbuffers.Dumps({"hadamard_size": size, "random_binary_vector": [1] * size}))
        label = f"{size}-{'x'.join(map(str, shape))}"
        table.add(label, [table.real(*shape)], Operand(shape=shape), custom_options=options)


declare("BATCH_MATMUL", "FULLY_CONNECTED", parameters=COMPUTED)
