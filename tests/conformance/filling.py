"""Tensors made of shapes and numbers."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import REFUSED, STORED, Operand, Table, cases, constant, declare, fed, like, plain, stored


@cases("SHAPE", "RANK")
def shapes(table: Table) -> None:
    for target in ("int32", "int64") if table.operator == "SHAPE" else ("int32",):
        chosen = {"out_type": target} if table.operator == "SHAPE" else {}
        table.add(f"static-{target}", [table.real(2, 3, 4)], plain(target), chosen)
        table.add(f"dynamic-{target}", [table.real(2, 3, 4).dynamic(0, 2)], plain(target), chosen)


@cases("FILL")
def fill(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "bool"):
        table.add(dtype, [stored(2, 3), any_operand(table, dtype)], plain(dtype))
    table.add("computed", [Operand(np.array([2, 3], np.int32), "int32"), constant(1.5, "float32")])


@cases("BROADCAST_TO")
def broadcast(table: Table) -> None:
    for dtype in ("float32", "int32", "int8", "bool"):
        source = any_operand(table, dtype, 3, 1)
        table.add(dtype, [source, stored(2, 3, 4)], like(source))
    table.add("int64-shape", [table.real(1, 3), constant([2, 3], "int64")])


@cases("TILE")
def tile(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "bool"):
        source = any_operand(table, dtype, 2, 1, 3)
        table.add(dtype, [source, stored(1, 4, 2)], like(source))
    table.add("int64-multiples", [table.real(2, 3), constant([2, 2], "int64")])


@cases("RANGE")
def ranges(table: Table) -> None:
    for dtype, numbers in (
        ("int32", (0, 7, 2)),
        ("int32", (5, -4, -3)),
        ("float32", (0.5, 3.0, 0.5)),
        ("int64", (1, 4, 1)),
    ):
        fixed = [constant(number, dtype) for number in numbers]
        table.add(f"{dtype}-{numbers}", fixed, plain(dtype))
        fed = [Operand(np.asarray(number, dtype), dtype) for number in numbers]
        table.add(f"{dtype}-{numbers}-computed", fed, plain(dtype))


@cases("ONE_HOT")
def one_hot(table: Table) -> None:
    for axis in (-1, 0, 1):
        for dtype, (on, off) in (("float32", (2.0, -1.0)), ("int32", (1, 0)), ("bool", (True, False))):
            indices = table.integers(2, 5, low=-1, high=4)
            inputs = [indices, constant(4), constant(on, dtype), constant(off, dtype)]
            table.add(f"{dtype}-{axis}", inputs, plain(dtype), {"axis": axis})
        indices = table.integers(2, 5, low=-1, high=4)
        inputs = [indices, fed(3), constant(1.0, "float32"), constant(0.0, "float32")]
        table.add(f"computed-{axis}", inputs, options={"axis": axis})


@cases("WHERE")
def where(table: Table) -> None:
    table.add("bool", [table.booleans(3, 4)], plain("int64"))
    table.add("bool-rank1", [table.booleans(9)], plain("int64"))


@cases("MATRIX_DIAG")
def diagonal(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "int16", "int8", "uint8"):
        source = any_operand(table, dtype, 2, 3)
        table.add(dtype, [source], like(source))
    table.add("float32-vector", [table.real(4)])
    table.add("float32-special", [Operand(np.array([np.nan, np.inf, -0.0], np.float32))])
    table.add("float32-dynamic", [table.real(2, 3).dynamic(0)])


@cases("MATRIX_SET_DIAG")
def diagonal_set(table: Table) -> None:
    for shape in ((2, 3, 3), (2, 4, 3), (3, 5)):
        for dtype in ("float32", "int32", "int64", "int16", "int8", "uint8"):
            source = any_operand(table, dtype, *shape)
            line = Operand(any_operand(table, dtype, *shape[:-2], min(shape[-2:])).data, dtype, source.quant)
            table.add(f"{dtype}-{shape}", [source, line], like(source))


@cases("BROADCAST_ARGS")
def broadcast_sizes(table: Table) -> None:
    for dtype, (first, second) in product(
        ("int32", "int64"), (([2, 1, 3], [4, 1]), ([1], [5, 0, 2]), ([3, 1], [1, 7]), ([], [2, 3]))
    ):
        label = f"{dtype}-{len(first)}x{len(second)}"
        table.add(f"{label}-constant", [constant(first, dtype), constant(second, dtype)], plain(dtype))
        if first:
            table.add(label, [fed(first, dtype), fed(second, dtype)], plain(dtype))


@cases("DILATE")
def dilate(table: Table) -> None:
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "int16", "bool"):
        source = any_operand(table, dtype, 2, 3, 2)
        filler = Operand(np.asarray(1, source.values.dtype), dtype, source.quant)
        for factors in ((1, 2, 3), (2, 1, 1), (1, 3, 1), (1, 1, 1)):
            table.add(f"{dtype}-{factors}", [source, constant(factors), filler], like(source))


declare("BROADCAST_TO", "DILATE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "ONE_HOT", "TILE", parameters=STORED)
declare("FILL", parameters=REFUSED)
declare("RANGE", unlayered="its inputs are single numbers")
