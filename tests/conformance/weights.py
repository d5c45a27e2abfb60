"""Constants of every kind that weights are stored in: few bits, one scale or many, beside data of any kind.

LiteRT's plain kernels have no others than those here. What it accepts but reads as something else is left out: unsigned
data with signed weights and the other way round, DEPTHWISE_CONV_2D of int16 by int4, CONV_2D of int16 by int2, and
BATCH_MATMUL of integers by weights with several scales, which it takes for zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant
from tests.conformance.cases import Model, Operand, Table, cases, constant, plain, result, written
from tests.conformance.convolution import bias, dilated, options

RANGES = {"int2": (-2, 1), "int4": (-8, 7), "int8": (-127, 127), "uint8": (0, 255)}
_KINDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "FULLY_CONNECTED": {
        "float32": ("int8", "int4", "int2", "uint8"),
        "int8": ("int4", "int2"),
        "int16": ("int4", "int2"),
    },
    "CONV_2D": {"float32": ("int8", "int4", "uint8"), "int8": ("int4",), "int16": ("int4",)},
    "DEPTHWISE_CONV_2D": {"float32": ("int8",), "int8": ("int4",)},
    "TRANSPOSE_CONV": {"float32": ("int8",)},
    "BATCH_MATMUL": {"float32": ("int8",), "int16": ("int8",)},
}
"""The weights of few bits, or beside floats, that LiteRT runs, by operator and type of the data."""

_HYBRID = 0.02
"""LiteRT rounds the data to 8 bits where weights alone are quantized; that is not repeated."""


def small(table: Table, dtype: str, shape: tuple[int, ...], axis: int | None, least: int | None = None) -> Operand:
    """Constant weights in [-1, 1] without zero points, quantized per channel of ``axis`` unless that is None."""
    low, high = RANGES[dtype]
    data = table.random.integers(low if least is None else least, high + 1, shape)
    scales = table.random.uniform(0.5, 1.0, 1 if axis is None else shape[axis]) / max(high, -low)
    quant = Quant([float(np.float32(scale)) for scale in scales], [0] * len(scales), axis or 0)
    return Operand(data.astype("uint8" if dtype == "uint8" else "int8"), dtype, quant, True)


def hybrid(table: Table, dtype: str, shape: tuple[int, ...], axis: int | None) -> Operand:
    """Weights beside floats: LiteRT's kernels cannot multiply by -8 of int4, and take uint8 for signed bytes."""
    if dtype != "uint8":
        return small(table, dtype, shape, axis, least=max(RANGES[dtype][0], -7) if dtype == "int4" else None)
    signed = small(table, "int8", shape, axis)
    return Operand(signed.values.view(np.uint8), dtype, signed.quant, True)


@cases(*_KINDS)
def kinds(table: Table) -> None:
    for source, many in _KINDS[table.operator].items():
        for dtype, per_channel in product(many, (False, True)):
            if not (per_channel and (dtype == "uint8" or (table.operator == "BATCH_MATMUL" and source != "float32"))):
                _kind(table, source, dtype, per_channel)


def _kind(table: Table, source: str, dtype: str, per_channel: bool) -> None:
    make = hybrid if source == "float32" else small
    label = f"{source}-by-{dtype}-{'channel' if per_channel else 'tensor'}"
    tolerance = _HYBRID if source == "float32" else 1e-5
    output = result(source, -6, 6)
    window = {**options((1, 1), "SAME"), **dilated((1, 1))}
    if table.operator == "FULLY_CONNECTED":
        x, kernel = table.numbers(source, 3, 32), make(table, dtype, (6, 32), 0 if per_channel else None)
        table.add(label, [x, kernel, bias(table, x, kernel, 6)], output, tolerance=tolerance)
    elif table.operator == "BATCH_MATMUL":
        for swapped in (False, True):
            form, axis = ((2, 6, 8), 1) if swapped else ((2, 8, 6), 2)
            kernel = make(table, dtype, form, axis if per_channel else None)
            given = [table.numbers(source, 2, 3, 8), kernel]
            table.add(f"{label}-{int(swapped)}", given, output, {"adj_y": swapped}, tolerance=tolerance)
    elif table.operator == "DEPTHWISE_CONV_2D":
        if source == "float32" and not per_channel:
            return  # LiteRT reads a scale for each channel even where there is one
        x, kernel = table.numbers(source, 1, 6, 5, 4), make(table, dtype, (1, 3, 3, 4), 3 if per_channel else None)
        given = [x, kernel, bias(table, x, kernel, 4)]
        table.add(label, given, output, {**window, "depth_multiplier": 1}, tolerance=tolerance)
    else:
        x, kernel = table.numbers(source, 1, 6, 5, 4), make(table, dtype, (6, 3, 3, 4), 0 if per_channel else None)
        if table.operator == "CONV_2D":
            table.add(label, [x, kernel, bias(table, x, kernel, 6)], output, window, tolerance=tolerance)
        else:
            given = [constant([1, 6, 5, 6]), kernel, x]
            table.add(label, given, output, options((1, 1), "SAME"), tolerance=tolerance)


def blocks(table: Table, dtype: str, shape: tuple[int, int], size: int, zeros: bool = False) -> tuple[Operand, Operand]:
    """A constant quantized per block of its last axis, and the floats that it means."""
    low, high = RANGES[dtype]
    data = table.random.integers(low, high + 1, shape).astype(np.int8)
    grid = (shape[0], shape[1] // size)
    scale = (table.random.uniform(0.5, 1.0, grid) / -low).astype(np.float16).astype(np.float32)
    zero = table.random.integers(low, high + 1, grid) if zeros else np.zeros(grid, np.int64)
    real = (data - np.repeat(zero, size, 1)) * np.repeat(scale, size, 1)
    quant = Quant(scale.reshape(-1).tolist(), zero.reshape(-1).tolist() if zeros else [], 1, size)
    return Operand(data, dtype, quant, True), Operand(real.astype(np.float32))


@cases("FULLY_CONNECTED")
def dense_in_blocks(table: Table) -> None:
    """LiteRT has no plain kernel for these: what they mean is multiplied by numpy."""
    for dtype, (size, zeros) in product(("int4", "int8", "int2"), ((32, False), (16, False), (16, True))):
        x, (kernel, real) = table.real(2, 3, 64), blocks(table, dtype, (5, 64), size, zeros)
        offsets = table.real(5).fixed
        label = f"{dtype}-blocks{size}{'-zeros' if zeros else ''}"
        table.add_model(label, partial(_dense, x, kernel, real, offsets))


@cases("FULLY_CONNECTED")
def dense_unsigned(table: Table) -> None:
    """LiteRT has no plain kernel for unsigned weights of four bits either."""
    for axis in (None, 0):
        data = table.random.integers(0, 16, (5, 32)).astype(np.uint8)
        scale = table.random.uniform(0.05, 0.1, 1 if axis is None else 5).astype(np.float32)
        kernel = Operand(data, "uint4", Quant(scale.tolist(), [8] * scale.size, 0), True)
        real = Operand(((data.astype(np.float32) - 8) * scale[:, None]).astype(np.float32))
        x, offsets = table.real(2, 3, 32), table.real(5).fixed
        label = f"float32-by-uint4-{'tensor' if axis is None else 'channel'}"
        table.add_model(label, partial(_dense, x, kernel, real, offsets))


def _dense(x: Operand, kernel: Operand, real: Operand, offsets: Operand) -> Model:
    expected = x.values @ real.values.T + offsets.values
    chosen, output = {"keep_num_dims": True}, Operand(shape=expected.shape)
    source = written("FULLY_CONNECTED", [x, kernel, offsets], [output], chosen)
    return Model(source, (x.values,), (expected,))


@cases("FULLY_CONNECTED")
def dense_of_an_image(table: Table) -> None:
    """The blocks of the weights lie in the order of an image's axes, which a pooling would have otherwise."""
    image, (kernel, real) = table.real(1, 4, 4, 4), blocks(table, "int4", (5, 64), 16)
    table.add_model("int4-blocks-image", partial(_image, image, kernel, real))


def _image(image: Operand, kernel: Operand, real: Operand) -> Model:
    builder = Builder()
    x = builder.input("x", image.values.shape)
    pooled, out = builder.tensor("pooled", image.values.shape), builder.tensor("out", (1, 5))
    window = {**options((1, 1), "SAME"), "filter_height": 1, "filter_width": 1}
    builder.operator("AVERAGE_POOL_2D", [x], [pooled], window)
    weights = builder.constant("weights", kernel.values, kernel.dtype, kernel.quant)
    builder.operator("FULLY_CONNECTED", [pooled, weights, -1], [out], {})
    return Model(builder.finish(out), (image.values,), (image.values.reshape(1, 64) @ real.values.T,))


@cases("EMBEDDING_LOOKUP")
def rows(table: Table) -> None:
    indices = table.integers(5, low=0, high=6)
    for dtype, axis, target in product(("int8", "int4", "int2"), (None, 0), ("float32", "float16")):
        kind = "tensor" if axis is None else "row"
        table.add(f"{dtype}-{kind}-{target}", [indices, small(table, dtype, (7, 32), axis)], plain(target))
    kernel, real = blocks(table, "int4", (7, 32), 8, zeros=True)
    table.add_model("int4-blocks-zeros", partial(_looked_up, indices, kernel, real))
    for label, kernel in (("blocks", blocks(table, "int4", (7, 32), 8)[0]), ("row", small(table, "int8", (7, 32), 0))):
        table.add(f"dynamic-{label}", [indices.dynamic(0), kernel], plain("float32"))
    for dtype, size, target in product(("int4", "int2"), (8, 32), ("float32", "float16")):
        kernel, _ = blocks(table, dtype, (7, 32), size)
        table.add(f"{dtype}-blocks{size}-{target}", [indices, kernel], plain(target))


def _looked_up(indices: Operand, kernel: Operand, real: Operand) -> Model:
    """LiteRT passes over the zero points of blocks: numpy says what they mean."""
    output = Operand(shape=(len(indices.values), 32))
    source = written("EMBEDDING_LOOKUP", [indices, kernel], [output], {})
    return Model(source, (indices.values,), (real.values[indices.values],))


# -- sparse constants ----------------------------------------------------------------------------------------------


def sparse(builder: Builder, full: Array, dtype: str, quant: Quant | None = None, block: int = 1) -> int:
    """Add a constant of which blocks of columns that are not all zero are stored; the index of the tensor."""
    height, width = full.shape[0], full.size // full.shape[0]
    blocks = full.reshape(height, width // block, block)
    there = blocks.any(2)
    index = builder.tensor("sparse", full.shape, dtype, data=blocks[there], quant=quant)
    dense = [schema.DimensionMetadataT(format=schema.DimensionType.DENSE, denseSize=size) for size in full.shape[:-1]]
    count = np.concatenate([[0], np.cumsum(there.sum(1))])
    compressed = schema.DimensionMetadataT(
        format=schema.DimensionType.SPARSE_CSR,
        arraySegmentsType=schema.SparseIndexVector.Int32Vector,
        arraySegments=schema.Int32VectorT(values=count.tolist()),
        arrayIndicesType=schema.SparseIndexVector.Int32Vector,
        arrayIndices=schema.Int32VectorT(values=np.nonzero(there)[1].tolist()),
    )
    inner = [schema.DimensionMetadataT(format=schema.DimensionType.DENSE, denseSize=block)] if block > 1 else []
    builder.subgraph.tensors[index].sparsity = schema.SparsityParametersT(
        traversalOrder=list(range(full.ndim + len(inner))),
        blockMap=[full.ndim - 1] if inner else [],
        dimMetadata=[*dense, compressed, *inner],
    )
    return index


def _holed(table: Table, full: Array, block: int) -> Array:
    """The same with two thirds of its blocks gone."""
    blocks = full.reshape(-1, block)
    holes = table.random.random(len(blocks)) < 0.67
    holes[:2] = True, False
    return np.where(holes[:, None], np.zeros((), full.dtype), blocks).reshape(full.shape)


@cases("DENSIFY")
def expanded(table: Table) -> None:
    for dtype, block in product(("float32", "float16", "int8"), (1, 4)):
        kernel = small(table, "int8", (6, 16), None)
        full = _holed(table, kernel.values if dtype == "int8" else table.real(6, 16).values.astype(dtype), block)
        quant = kernel.quant if dtype == "int8" else None
        table.add_model(f"{dtype}-{block}", partial(_expanded, full, dtype, quant, block))
        x = table.real(3, 16)
        label = f"{dtype}-{block}-multiplied"
        table.add_model(label, partial(_multiplied, x, full, dtype, quant, block), tolerance=_HYBRID)


def _expanded(full: Array, dtype: str, quant: Quant | None, block: int) -> Model:
    builder = Builder()
    index, out = sparse(builder, full, dtype, quant, block), builder.tensor("out", full.shape, dtype, quant=quant)
    builder.operator("DENSIFY", [index], [out], {})
    return Model(builder.finish(out), ())


def _multiplied(x: Operand, full: Array, dtype: str, quant: Quant | None, block: int) -> Model:
    """Weights as converters leave them: expanded, and made floats where they are of 16 bits."""
    builder = Builder()
    data, index = builder.input("x", x.values.shape), sparse(builder, full, dtype, quant, block)
    weights = builder.tensor("expanded", full.shape, dtype, quant=quant)
    builder.operator("DENSIFY", [index], [weights], {})
    if dtype == "float16":
        weights, half = builder.tensor("real", full.shape), weights
        builder.operator("DEQUANTIZE", [half], [weights], {})
    out = builder.tensor("out", (len(x.values), len(full)))
    builder.operator("FULLY_CONNECTED", [data, weights, -1], [out], {})
    return Model(builder.finish(out), (x.values,))


@cases("FULLY_CONNECTED")
def dense_of_sparse(table: Table) -> None:
    """LiteRT multiplies by sparse weights as they are."""
    for block in (1, 4):
        x, full = table.real(3, 16), _holed(table, table.real(6, 16).values, block)
        table.add_model(f"float32-by-sparse-{block}", partial(_sparsely_multiplied, x, full, block))


def _sparsely_multiplied(x: Operand, full: Array, block: int) -> Model:
    builder = Builder()
    data, weights = builder.input("x", x.values.shape), sparse(builder, full, "float32", None, block)
    out = builder.tensor("out", (len(x.values), len(full)))
    builder.operator("FULLY_CONNECTED", [data, weights, -1], [out], {})
    return Model(builder.finish(out), (x.values,))


@cases("CONV_2D", "DEPTHWISE_CONV_2D")
def half_weights(table: Table) -> None:
    """Weights and biases of 16-bit floats, made floats of 32 bits by operators of their own."""
    table.add_model("float16-weights", partial(_half, table.operator, table.real(1, 5, 6, 4), table.real(4, 3, 3, 4)))


def _half(operator: str, x: Operand, kernel: Operand) -> Model:
    builder = Builder()
    data, real = builder.input("x", x.values.shape), []
    form = kernel.values if operator == "CONV_2D" else kernel.values[:1]
    for name, values in (("weights", form), ("bias", kernel.values[0, 0, 0])):
        half = builder.constant(f"{name}/half", values.astype(np.float16))
        real.append(builder.tensor(name, values.shape))
        builder.operator("DEQUANTIZE", [half], [real[-1]], {})
    out = builder.tensor("out", x.values.shape)
    more = {} if operator == "CONV_2D" else {"depth_multiplier": 1}
    builder.operator(operator, [data, *real], [out], {**options((1, 1), "SAME"), **dilated((1, 1)), **more})
    return Model(builder.finish(out), (x.values,))
