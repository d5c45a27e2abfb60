"""Padding."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import REFUSED, STORED, Operand, Table, cases, constant, declare, fed, like

_PADS = (((0, 0), (1, 2), (2, 1), (0, 0)), ((1, 0), (0, 0), (0, 0), (0, 3)), ((0, 0), (0, 0), (0, 0), (0, 0)))


@cases("PAD", "PADV2")
def pads(table: Table) -> None:
    for dtype, (at, pad) in product(("float32", "int8", "uint8", "int16", "int32", "int64"), enumerate(_PADS)):
        if table.operator == "PADV2" and dtype == "int16":
            continue
        source = any_operand(table, dtype, 2, 3, 4, 2)
        value = [] if table.operator == "PAD" else [_value(source)]
        table.add(f"{dtype}-{at}", [source, constant(pad), *value], like(source))
    value = [] if table.operator == "PAD" else [constant([1.5], "float32")]
    table.add("int64-pads", [table.real(2, 3), constant([[1, 1], [0, 2]], "int64"), *value])
    table.add("rank1", [table.real(3), constant([[1, 2]]), *value])
    computed = Operand(np.array([[1, 1], [0, 2]], np.int32), "int32")
    table.add("computed", [table.real(2, 3), computed, *value])
    if table.operator == "PADV2":
        for rank in (0, 1):
            filler = table.real(*[1] * rank)
            table.add(f"filler-{rank}", [table.real(2, 3, 4, 2), constant(_PADS[0]), filler])
            table.add(f"filler-{rank}-computed", [table.real(2, 3), computed, filler])


def _value(source: Operand) -> Operand:
    return Operand(np.array([7], source.dtype), source.dtype, source.quant, constant=True)


@cases("MIRROR_PAD")
def mirrors(table: Table) -> None:
    for mode, dtype in product(("REFLECT", "SYMMETRIC"), ("float32", "int8", "uint8", "int32", "int64")):
        source = any_operand(table, dtype, 2, 4, 5, 3)
        for at, pad in enumerate((((0, 0), (1, 2), (2, 1), (0, 0)), ((0, 0), (3, 0), (0, 3), (1, 1)))):
            table.add(f"{dtype}-{mode}-{at}", [source, constant(pad)], like(source), {"mode": mode})
    table.add("REFLECT-computed", [table.real(2, 4, 3), fed([[1, 0], [2, 3], [0, 2]])], options={"mode": "REFLECT"})
    table.add("SYMMETRIC-full", [table.real(2, 3), constant([[2, 2], [3, 3]])], options={"mode": "SYMMETRIC"})


declare("PAD", parameters=STORED)
declare("MIRROR_PAD", parameters=REFUSED)
declare("PADV2", parameters={"input0": STORED, "input2": REFUSED, "output": REFUSED})
