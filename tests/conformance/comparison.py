"""Comparisons, logic and selection."""

from __future__ import annotations

import numpy as np

from tests.conformance.arithmetic import BROADCASTS
from tests.conformance.cases import COMPUTED, STORED, Operand, Table, cases, declare, like, plain

_COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


@cases(*_COMPARISONS)
def comparisons(table: Table) -> None:
    for left, right in BROADCASTS[::2]:
        few = [np.asarray(np.round(table.real(*shape, low=-2, high=2).values), np.float32) for shape in (left, right)]
        table.add(f"float32-{len(left)}x{len(right)}", [Operand(each) for each in few], plain("bool"))
    for dtype in ("int32", "int64"):
        pair = [table.integers(3, 4, 5, low=-2, high=2, dtype=dtype), table.integers(5, low=-2, high=2, dtype=dtype)]
        table.add(dtype, pair, plain("bool"))
    for dtype in ("int8", "uint8"):
        first, second = table.quantized(dtype, 3, 40, low=-2, high=2), table.quantized(dtype, 3, 40, low=-2, high=2)
        table.add(dtype, [first, second], plain("bool"))
        fine = [table.quantized(dtype, 3, 40, low=-0.05, high=0.05) for _ in range(2)]
        table.add(f"{dtype}-fine", fine, plain("bool"))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, -1e38], np.float32)
    table.add("float32-special", [Operand(np.repeat(special, 7)), Operand(np.tile(special, 7))], plain("bool"))
    if table.operator in ("EQUAL", "NOT_EQUAL"):
        table.add("bool", [table.booleans(3, 4), table.booleans(3, 4)], plain("bool"))


@cases("LOGICAL_AND", "LOGICAL_OR")
def logic(table: Table) -> None:
    for left, right in BROADCASTS[:5]:
        table.add(f"bool-{len(left)}x{len(right)}", [table.booleans(*left), table.booleans(*right)], plain("bool"))


@cases("SELECT", "SELECT_V2")
def selections(table: Table) -> None:
    for dtype in ("float32", "int32", "int64"):
        pick = table.real if dtype == "float32" else lambda *shape, dtype=dtype: table.integers(*shape, dtype=dtype)
        table.add(dtype, [table.booleans(2, 3, 4), pick(2, 3, 4), pick(2, 3, 4)], plain(dtype))
    table.add("float32-constant", [table.booleans(2, 3, 4), table.real(2, 3, 4), table.real(2, 3, 4).fixed])
    for dtype in ("int8", "uint8", "int16"):
        first = table.quantized(dtype, 2, 3, 4)
        second = Operand(table.quantized(dtype, 2, 3, 4).data, dtype, first.quant)
        table.add(dtype, [table.booleans(2, 3, 4), first, second], like(first))
    if table.operator == "SELECT":
        table.add("float32-rows", [table.booleans(3), table.real(3, 2, 4), table.real(3, 2, 4)])
        table.add("float32-scalar", [table.booleans(), table.real(3, 2, 4), table.real(3, 2, 4)])
        return
    for condition, left, right in (((4,), (2, 3, 4), (1,)), ((2, 1, 1), (3, 4), (2, 3, 4)), ((2, 3, 4), (), (4,))):
        table.add(f"float32-{condition}", [table.booleans(*condition), table.real(*left), table.real(*right)])


@cases("LOGICAL_NOT")
def logical(table: Table) -> None:
    table.add("bool", [table.booleans(2, 3, 4)], plain("bool"))


@cases("BUCKETIZE")
def buckets(table: Table) -> None:
    chosen = {"boundaries": [-2.5, 0.0, 0.0, 3.0]}
    edges = np.array([-9, -2.5, 0, -0.0, 1, 3, 99, np.nan, np.inf, -np.inf], np.float32)
    table.add("float32", [Operand(edges)], plain("int32"), chosen)
    table.add("float64", [Operand(edges.astype(np.float64), "float64")], plain("int32"), chosen)
    for dtype in ("int32", "int64"):
        table.add(dtype, [table.integers(2, 3, 4, dtype=dtype)], plain("int32"), chosen)
    table.add("one", [table.real(2, 3)], plain("int32"), {"boundaries": [0.25]})


declare("SELECT", "SELECT_V2", parameters=STORED)
declare("EQUAL", "NOT_EQUAL", parameters=COMPUTED)
declare(
    "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", parameters={"int8": COMPUTED, "uint8": COMPUTED, "int16": STORED}
)
