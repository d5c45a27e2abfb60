"""Small models of several operators: what happens between operators, and at the boundary."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.builder import Builder, Quant
from tests.conformance.cases import Model, Operand, Table, cases, fitted
from tests.conformance.control import model
from tests.conformance.convolution import bias, dilated, options, weights

NETWORK = "NETWORK"
"""The name under which these cases go; no operator is called so."""

SAME = {**options((1, 1), "SAME"), **dilated((1, 1))}


@cases(NETWORK)
def boundaries(table: Table) -> None:
    pair = (table.real(2, 3), table.real(2, 3))
    for label, make in (
        ("twice-read", _twice_read), ("output-is-input", _output_is_input), ("output-twice", _output_twice),
        ("constant-output", _constant_output), ("inner-output", _inner_output), ("unused-input", _unused_input),
        ("swapped-signature", _swapped_signature),
    ):  # fmt: skip
        table.add_model(label, partial(make, *pair))


def _start(*operands: Operand) -> tuple[Builder, list[int]]:
    builder = Builder()
    return builder, [builder.input(f"x{at}", each.values.shape) for at, each in enumerate(operands)]


def _twice_read(first: Operand, second: Operand) -> Model:
    builder, (left, _) = _start(first, second)
    out = builder.tensor("out", (2, 3))
    builder.operator("MUL", [left, left], [out], {})
    return model(builder, out, first, second)


def _output_is_input(first: Operand, second: Operand) -> Model:
    builder, (left, right) = _start(first, second)
    out = builder.tensor("out", (2, 3))
    builder.operator("ADD", [left, right], [out], {})
    return Model(builder.finish(left, out), (first.values, second.values))


def _output_twice(first: Operand, second: Operand) -> Model:
    builder, indices = _start(first, second)
    out = builder.tensor("out", (2, 3))
    builder.operator("SUB", indices, [out], {})
    return Model(builder.finish(out, out), (first.values, second.values))


def _constant_output(first: Operand, second: Operand) -> Model:
    builder, indices = _start(first, second)
    fixed, out = builder.constant("fixed", np.arange(4, dtype=np.float32)), builder.tensor("out", (2, 3))
    builder.operator("SUB", indices, [out], {})
    return Model(builder.finish(fixed, out), (first.values, second.values))


def _inner_output(first: Operand, second: Operand) -> Model:
    builder, indices = _start(first, second)
    inner, out = builder.tensor("inner", (2, 3)), builder.tensor("out", (2, 3))
    builder.operator("SUB", indices, [inner], {})
    builder.operator("TANH", [inner], [out])
    return Model(builder.finish(out, inner), (first.values, second.values))


def _unused_input(first: Operand, second: Operand) -> Model:
    builder, (_, right) = _start(first, second)
    out = builder.tensor("out", (2, 3))
    builder.operator("NEG", [right], [out], {})
    return model(builder, out, first, second)


def _swapped_signature(first: Operand, second: Operand) -> Model:
    builder, (left, right) = _start(first, second)
    out = builder.tensor("out", (2, 3))
    builder.operator("SUB", [left, right], [out], {})
    builder.signature({"a": right, "b": left}, {"result": out})
    return model(builder, out, first, second)


@cases(NETWORK)
def convolutions(table: Table) -> None:
    for dtype in ("float32", "int8", "uint8", "int16"):
        source = table.numbers(dtype, 1, 8, 8, 3)
        kernels = [weights(table, dtype, shape, None) for shape in ((4, 3, 3, 3), (4, 3, 3, 4))]
        table.add_model(f"{dtype}-residual", partial(_residual, source, kernels, dtype))
    for dtype in ("float32", "int8", "uint8"):
        for block, size in ((2, 8), (3, 7)):
            source = table.numbers(dtype, 1, size, size, 2)
            kernel = weights(table, dtype, (4, 3, 3, 2), None)
            offsets = bias(table, source, kernel, 4)
            table.add_model(f"{dtype}-blocks{block}", partial(_blocks, source, kernel, offsets, block))
    source = table.real(1, 6, 6, 2)
    table.add_model("float16-weights", partial(_half, source, table.real(3, 3, 3, 2)))
    table.add_model("shared-constant", partial(_shared, source, table.real(2, 3, 3, 2).fixed))
    table.add_model("dynamic-reshape", partial(_dynamic_reshape, table.real(3, 4, 2)))
    table.add_model("quantized-inside", partial(_inside, source, weights(table, "int8", (3, 3, 3, 2), 0)))


def _residual(source: Operand, kernels: list[Operand], dtype: str) -> Model:
    """Two convolutions and the sum of their results, activated."""
    builder = Builder()
    quant = None if dtype == "float32" else fitted(dtype, -8, 8)
    tensors = [builder.tensor(f"t{at}", (1, 8, 8, 4), dtype, quant=quant) for at in range(3)]
    indices = [builder.input("x", source.values.shape, dtype, quant=source.quant), *tensors]
    for at, kernel in enumerate(kernels):
        scale = 1.0 if source.quant is None or quant is None else (source.scale, quant.scale[0])[at] * kernel.scale
        fixed = builder.constant(f"k{at}", kernel.values, dtype if dtype == "uint8" else kernel.dtype, kernel.quant)
        kind = "float32" if quant is None else "int64" if dtype == "int16" else "int32"
        zeros = builder.constant(
            f"b{at}", np.zeros(4), kind, None if quant is None else Quant([float(np.float32(scale))], [0])
        )
        builder.operator("CONV_2D", [indices[at], fixed, zeros], [tensors[at]], SAME)
    builder.operator("ADD", tensors[:2], [tensors[2]], {"fused_activation_function": "RELU"})
    return model(builder, tensors[2], source)


def _blocks(source: Operand, kernel: Operand, offsets: Operand, block: int) -> Model:
    """A dilated convolution as space to batch, convolution, batch to space."""
    builder = Builder()
    size, dtype = source.values.shape[1], source.dtype
    padded = -(-(size + 2 * block) // block) * block
    extra, inner = padded - size - 2 * block, padded // block
    quant = None if source.quant is None else fitted(dtype, -5, 5)
    x = builder.input("x", source.values.shape, dtype, quant=source.quant)
    blocks = builder.constant("block", [block, block], "int32")
    pads = builder.constant("pads", [[block, block + extra]] * 2, "int32")
    crops = builder.constant("crops", [[0, extra]] * 2, "int32")
    shapes = ((block**2, inner, inner, 2), (block**2, inner - 2, inner - 2, 4), (1, size, size, 4))
    quants = (source.quant, quant, quant)
    inside = [builder.tensor(f"t{at}", shapes[at], dtype, quant=quants[at]) for at in range(3)]
    fixed = [
        builder.constant(f"c{at}", each.values, each.dtype, each.quant) for at, each in enumerate((kernel, offsets))
    ]
    builder.operator("SPACE_TO_BATCH_ND", [x, blocks, pads], [inside[0]], {})
    valid: dict[str, Any] = {**options((1, 1), "VALID"), **dilated((1, 1))}
    builder.operator("CONV_2D", [inside[0], *fixed], [inside[1]], valid)
    builder.operator("BATCH_TO_SPACE_ND", [inside[1], blocks, crops], [inside[2]], {})
    return model(builder, inside[2], source)


def _half(source: Operand, kernel: Operand) -> Model:
    """Weights kept as float16 and widened by DEQUANTIZE."""
    builder = Builder()
    x = builder.input("x", source.values.shape)
    stored = builder.constant("stored", kernel.values.astype(np.float16))
    wide, out = builder.tensor("wide", kernel.values.shape), builder.tensor("out", (1, 6, 6, 3))
    builder.operator("DEQUANTIZE", [stored], [wide], {})
    builder.operator("CONV_2D", [x, wide, builder.constant("bias", np.zeros(3, np.float32))], [out], SAME)
    return model(builder, out, source)


def _shared(source: Operand, kernel: Operand) -> Model:
    """One constant read as the kernel of a convolution and as a plain number."""
    builder = Builder()
    x = builder.input("x", source.values.shape)
    fixed, zeros = builder.constant("kernel", kernel.values), builder.constant("bias", np.zeros(2, np.float32))
    first, second = builder.tensor("first", (1, 6, 6, 2)), builder.tensor("second", kernel.values.shape)
    builder.operator("CONV_2D", [x, fixed, zeros], [first], SAME)
    builder.operator("SQUARE", [fixed], [second], {})
    result = builder.tensor("out", (2, 3, 3, 2))
    part = builder.tensor("part", (1, 3, 3, 2))
    edges = [builder.constant(name, data, "int32") for name, data in (("begin", [0, 1, 2, 0]), ("size", [1, 3, 3, 2]))]
    builder.operator("SLICE", [first, *edges], [part], {})
    builder.operator("ADD", [part, second], [result], {})
    return model(builder, result, source)


def _dynamic_reshape(source: Operand) -> Model:
    """The batch read from the shape and put into a new one."""
    builder = Builder()
    x = builder.input("x", (1, 4, 2), signature=(-1, 4, 2))
    shape, batch = builder.tensor("shape", (3,), "int32"), builder.tensor("batch", (), "int32")
    packed = builder.tensor("packed", (2,), "int32")
    out = builder.tensor("out", (1, 8), signature=(-1, 8))
    builder.operator("SHAPE", [x], [shape], {"out_type": "int32"})
    edges = [builder.constant(f"c{at}", [value], "int32") for at, value in enumerate((0, 1, 1))]
    builder.operator("STRIDED_SLICE", [shape, *edges], [batch], {"shrink_axis_mask": 1})
    builder.operator("PACK", [batch, builder.constant("eight", np.int32(8))], [packed], {"values_count": 2})
    builder.operator("RESHAPE", [x, packed], [out], {})
    return model(builder, out, source)


def _inside(source: Operand, kernel: Operand) -> Model:
    """Real numbers outside, quantized ones inside."""
    builder = Builder()
    x = builder.input("x", source.values.shape)
    quants = (fitted("int8", -1, 1), fitted("int8", -4, 4))
    stored = builder.tensor("stored", source.values.shape, "int8", quant=quants[0])
    inner = builder.tensor("inner", (1, 6, 6, 3), "int8", quant=quants[1])
    out = builder.tensor("out", (1, 6, 6, 3))
    assert kernel.quant is not None
    scales = (np.float32(quants[0].scale[0]) * np.array(kernel.quant.scale, np.float32)).tolist()
    fixed = builder.constant("kernel", kernel.values, "int8", kernel.quant)
    offsets = builder.constant("bias", np.array([100, -50, 0]), "int32", Quant(scales, [0] * 3, 0))
    builder.operator("QUANTIZE", [x], [stored], {})
    builder.operator("CONV_2D", [stored, fixed, offsets], [inner], SAME)
    builder.operator("DEQUANTIZE", [inner], [out], {})
    return model(builder, out, source)
