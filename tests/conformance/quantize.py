"""Changes of type."""

from __future__ import annotations

from itertools import product

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.ir.graph import Array
from tests.builder import Builder, Quant
from tests.conformance.cases import COMPUTED, STORED, Model, Operand, Table, cases, declare, fitted, plain, result


@cases("CAST")
def casts(table: Table) -> None:
    for dtype in ("int32", "int64", "uint8", "int8", "int16", "bool", "float64", "float16"):
        table.add(f"float32-to-{dtype}", [table.real(2, 9, low=0, high=100)], plain(dtype), _types("float32", dtype))
    table.add("negative-to-int32", [table.real(2, 9, low=-100, high=100)], plain("int32"), _types("float32", "int32"))
    for dtype in ("int32", "int64", "uint8", "int8", "int16", "uint32"):
        whole = table.integers(2, 9, low=0, high=100, dtype=dtype)
        table.add(f"{dtype}-to-float32", [whole], plain("float32"), _types(dtype, "float32"))
        table.add(f"{dtype}-to-int64", [whole], plain("int64"), _types(dtype, "int64"))
        table.add(
            f"{dtype}-to-bool", [table.integers(2, 9, low=0, high=2, dtype=dtype)], plain("bool"), _types(dtype, "bool")
        )
    table.add("int32-to-int8", [table.integers(2, 30, low=-300, high=300)], plain("int8"), _types("int32", "int8"))
    for source, target in product(_NUMBERS, (*_NUMBERS, "bool")):
        if source != target:
            data = _numbers(source)
            types = _types(source, target)
            table.add(f"range-{source}-to-{target}", [data], plain(target), types, tolerance=1e-3)
            table.add(f"range-{source}-to-{target}-constant", [data.fixed], plain(target), types, tolerance=1e-3)
    for dtype in ("float32", "int32", "int64"):
        table.add(f"bool-to-{dtype}", [table.booleans(3, 5)], plain(dtype), _types("bool", dtype))
    half = Operand(table.real(3, 5).values.astype(np.float16), "float16")
    table.add("float16-to-float32", [half], plain("float32"), _types("float16", "float32"))
    table.add("int8-to-quantized", [table.integers(2, 9, dtype="int8")], result("int8"), _types("int8", "int8"))
    quantized = table.quantized("int8", 2, 30)
    table.add("quantized-to-float32", [quantized], plain("float32"), _types("int8", "float32"))


_NUMBERS = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def _numbers(dtype: str) -> Operand:
    """Ordinary numbers and those at the borders of a type; floats beyond the borders of all integers."""
    if dtype.startswith("float"):
        large = [6e4, -6e4] if dtype == "float16" else [1e30, -1e10, 3e9, -(2.0**31), 2.0**31, -(2.0**63)]
        return Operand(np.array([0, 1.5, -2.999, 127.5, 300.5, -129.5, np.nan, np.inf, -np.inf, *large], dtype), dtype)
    limits = np.iinfo(dtype)
    return Operand(np.array([limits.min, limits.max, 0, 1, 5, limits.max // 2, limits.min // 3], dtype), dtype)


def _types(source: str, target: str) -> dict[str, str]:
    return {"in_data_type": source, "out_data_type": target}


@cases("QUANTIZE")
def quantizing(table: Table) -> None:
    for dtype in ("int8", "uint8", "int16"):
        table.add(f"float32-to-{dtype}", [table.real(2, 3, 40, low=-3, high=3)], result(dtype, -2, 2))
        for target in ("int8", "uint8", "int16"):
            if "int16" in (dtype, target) and "uint8" in (dtype, target):
                continue
            source = table.quantized(dtype, 2, 60, low=-2, high=2)
            table.add(f"{dtype}-to-{target}", [source], result(target, -2, 2))
            table.add(f"{dtype}-to-{target}-narrow", [source], result(target, -1, 0.5))
    same = table.quantized("int8", 2, 200)
    shifted = Operand(dtype="uint8", quant=Quant([same.scale], [fitted("uint8", -1, 1).zero_point[0]]))
    table.add("int8-to-uint8-shifted", [same], shifted, steps=0)
    per_channel = Quant([0.01, 0.02, 0.03], [0, 0, 0], 2)
    table.add("per-channel", [table.real(2, 20, 3)], Operand(dtype="int8", quant=per_channel))


@cases("QUANTIZE")
def widening(table: Table) -> None:
    source = table.quantized("int16", 2, 600, low=-3, high=3)
    for scale in (1.5e-07, 1.7e-09):
        table.add(f"int16-to-int32-{scale:.0e}", [source], Operand(dtype="int32", quant=Quant([scale], [0])))


@cases("DEQUANTIZE")
def dequantizing(table: Table) -> None:
    for dtype in ("int8", "uint8", "int16"):
        table.add(dtype, [table.quantized(dtype, 2, 60, low=-1, high=3)])
    data = table.random.integers(-127, 128, (2, 3, 4)).astype(np.int8)
    for axis in range(3):
        count = data.shape[axis]
        quant = Quant([0.01 * (each + 1) for each in range(count)], list(range(count)), axis)
        table.add(f"per-channel-{axis}", [Operand(data, "int8", quant)])
    half = Operand(table.random.uniform(-1, 1, (3, 4)).astype(np.float16), "float16")
    table.add("float16", [half])
    table.add("float16-constant", [half.fixed])


@cases("FAKE_QUANT")
def imitating(table: Table) -> None:
    for bits in (8, 4):
        chosen = {"min": -1.1, "max": 2.3, "num_bits": bits}
        table.add(f"float32-{bits}", [table.real(2, 50, low=-3, high=3)], options=chosen)
    for low, high in ((0.0, 6.0), (-3.0, 0.0), (-1.0, 1.0), (-0.001, 5.0)):
        chosen = {"min": low, "max": high, "num_bits": 8}
        table.add(f"float32-{low}-{high}", [table.real(2, 50, low=-7, high=7)], options=chosen)
    table.add("float32-16", [table.real(2, 50, low=-7, high=7)], options={"min": -5.0, "max": 5.0, "num_bits": 16})


@cases("DENSIFY")
def expanded(table: Table) -> None:
    """A sparse constant, by rows or by blocks, is multiplied by an input."""
    for dtype, (height, width) in product(("float32", "float16", "int8"), ((1, 1), (2, 1), (2, 3))):
        numbers = table.quantized("int8", 4, 6) if dtype == "int8" else table.real(4, 6)
        kept = np.kron(np.array([[1, 0, 1], [0, 0, 1]]), np.ones((2, 2))).astype(bool)
        data = np.where(kept, numbers.values, 0).astype(dtype)
        made = _sparse(Operand(data, dtype, numbers.quant), (height, width), table.real(4, 6).values)
        table.add_model(f"{dtype}-{height}x{width}", lambda made=made: made)


def _sparse(constant: Operand, block: tuple[int, int], x: Array) -> Model:
    build, data = Builder(), constant.values
    blocks = data.reshape(data.shape[0] // block[0], block[0], data.shape[1] // block[1], block[1]).swapaxes(1, 2)
    present = blocks.any(axis=(2, 3))
    dense, compressed = schema.DimensionType.DENSE, schema.DimensionType.SPARSE_CSR
    levels = [schema.DimensionMetadataT(format=dense, denseSize=len(present)), schema.DimensionMetadataT(compressed)]
    levels[1].arraySegmentsType = levels[1].arrayIndicesType = schema.SparseIndexVector.Int32Vector
    levels[1].arraySegments = schema.Int32VectorT([0, *np.cumsum(present.sum(axis=1)).tolist()])
    levels[1].arrayIndices = schema.Int32VectorT(np.argwhere(present)[:, 1].tolist())
    if block != (1, 1):
        levels += [schema.DimensionMetadataT(format=dense, denseSize=size) for size in block]
    stored = build.constant("stored", blocks[present].reshape(-1), constant.dtype, constant.quant)
    build.subgraph.tensors[stored].shape = list(data.shape)
    build.subgraph.tensors[stored].sparsity = schema.SparsityParametersT(
        traversalOrder=list(range(len(levels))), blockMap=[0, 1] if len(levels) > 2 else None, dimMetadata=levels
    )
    whole = build.tensor("whole", data.shape, constant.dtype, quant=constant.quant)
    build.operator("DENSIFY", [stored], [whole], {})
    if constant.dtype != "float32":
        real = build.tensor("real", data.shape)
        build.operator("DEQUANTIZE", [whole], [real], {})
        whole = real
    given, out = build.input("x", x.shape), build.tensor("out", x.shape)
    build.operator("MUL", [given, whole], [out], {})
    return Model(build.finish(out), (x,))


declare("DENSIFY", parameters=STORED)
declare("QUANTIZE", parameters=COMPUTED)
