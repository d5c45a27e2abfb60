"""Views, and the joining and parting of tensors."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.cases import (
    COMPUTED,
    REFUSED,
    STORED,
    Operand,
    Table,
    cases,
    constant,
    declare,
    like,
    plain,
    result,
    stored,
)

DTYPES = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool")


def any_operand(table: Table, dtype: str, *shape: int) -> Operand:
    """An operand of any type."""
    if dtype == "bool":
        return table.booleans(*shape)
    return table.integers(*shape, dtype=dtype) if dtype in ("int32", "int64") else table.numbers(dtype, *shape)


@cases("RESHAPE")
def reshape(table: Table) -> None:
    for dtype, shape in product(DTYPES, ((6, 4), (-1,), (2, -1, 3), (1, 24, 1))):
        source = any_operand(table, dtype, 2, 3, 4)
        table.add(f"{dtype}-{','.join(map(str, shape))}", [source, stored(*shape)], like(source))
    table.add("option", [table.real(2, 3, 4)], options={"new_shape": [4, 6]})
    table.add("computed-shape", [table.real(2, 3, 4), Operand(np.array([4, 6], np.int32), "int32")])
    table.add("scalar", [table.real(1, 1), Operand(np.zeros(0, np.int32), "int32", constant=True)])
    table.add("dynamic", [table.real(2, 3, 4).dynamic(0), stored(-1, 12)])


@cases("SQUEEZE")
def squeeze(table: Table) -> None:
    for dtype, axes in product(("float32", "int8", "int32"), ((), (0,), (-1,), (0, 2), (-2, 0))):
        source = any_operand(table, dtype, 1, 3, 1, 4) if axes != (-1,) else any_operand(table, dtype, 2, 3, 1)
        table.add(f"{dtype}-{axes}", [source], like(source), {"squeeze_dims": list(axes)})


@cases("EXPAND_DIMS")
def expand(table: Table) -> None:
    for dtype, axis in product(("float32", "int8", "int32"), (0, 1, 3, -1, -4)):
        source = any_operand(table, dtype, 2, 3, 4)
        table.add(f"{dtype}-{axis}", [source, constant(axis)], like(source))


@cases("TRANSPOSE")
def transpose(table: Table) -> None:
    for dtype in DTYPES:
        source = any_operand(table, dtype, 2, 3, 4)
        table.add(f"{dtype}-201", [source, stored(2, 0, 1)], like(source))
    for perm in ((0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3), (-4, -1, 1, 2)):
        table.add(f"float32-{perm}", [table.real(2, 3, 4, 5), stored(*perm)])
    table.add("float32-6d", [table.real(1, 2, 3, 2, 2, 3), stored(5, 0, 3, 1, 4, 2)])
    table.add("float32-1d", [table.real(4), stored(0)])


@cases("CONCATENATION")
def concatenation(table: Table) -> None:
    for dtype, axis in product(DTYPES, (0, 1, -1)):
        source = any_operand(table, dtype, 2, 3, 4)
        other = Operand(any_operand(table, dtype, 2, 3, 4).data, dtype, source.quant)
        table.add(f"{dtype}-{axis}", [source, other, other.fixed], like(source), {"axis": axis})
    table.add("float32-uneven", [table.real(2, 1, 4), table.real(2, 5, 4)], options={"axis": 1})
    table.add("float32-one", [table.real(2, 1, 4)], options={"axis": 1})
    for dtype in ("uint8", "int8"):
        parts = [table.quantized(dtype, 2, 9, low=-2, high=2), table.quantized(dtype, 2, 9)]
        if dtype == "uint8":
            table.add(f"{dtype}-scales", parts, result(dtype, -2, 2), {"axis": 1})
    same = table.real(2, 3)
    table.add("float32-fused", [same, table.real(2, 3)], options={"axis": 0, "fused_activation_function": "NONE"})


@cases("PACK")
def pack(table: Table) -> None:
    for dtype, axis in product(("float32", "int8", "uint8", "int32", "int64"), (0, 1, 2, -1)):
        source = any_operand(table, dtype, 2, 3)
        other = Operand(any_operand(table, dtype, 2, 3).data, dtype, source.quant)
        chosen = {"axis": axis, "values_count": 2}
        table.add(f"{dtype}-{axis}", [source, other], like(source), chosen)
    scalars = [table.integers(), constant(3), table.integers()]
    table.add("scalars", scalars, plain("int32"), {"axis": 0, "values_count": 3})


@cases("UNPACK")
def unpack(table: Table) -> None:
    for dtype, axis in product(("float32", "int8", "uint8", "int32", "bool"), (0, 1, -1)):
        source = any_operand(table, dtype, 2, 3, 4)
        count = source.values.shape[axis]
        table.add(f"{dtype}-{axis}", [source], [like(source)] * count, {"axis": axis, "num": count})


@cases("SPLIT")
def split(table: Table) -> None:
    for dtype, (axis, count) in product(
        ("float32", "int8", "uint8", "int16", "int32"), ((0, 2), (1, 3), (-1, 2), (2, 1))
    ):
        source = any_operand(table, dtype, 4, 6, 2)
        table.add(f"{dtype}-{axis}-{count}", [constant(axis), source], [like(source)] * count, {"num_splits": count})


@cases("SPLIT_V")
def split_v(table: Table) -> None:
    for dtype, sizes in product(("float32", "int8", "int32"), ((1, 5), (2, -1, 1), (6,))):
        source = any_operand(table, dtype, 2, 6, 3)
        inputs = [source, stored(*sizes), constant(1)]
        table.add(f"{dtype}-{sizes}", inputs, [like(source)] * len(sizes), {"num_splits": len(sizes)})
    dynamic = table.real(4, 6, 2).dynamic(0, 1)
    table.add("dynamic", [dynamic, stored(1, -1), constant(1)], [like(dynamic)] * 2, {"num_splits": 2})
    table.add(
        "negative-axis", [table.real(2, 6), stored(4, 2), constant(-1)], [plain("float32")] * 2, {"num_splits": 2}
    )


declare("RESHAPE", "SPLIT", "SPLIT_V", "SQUEEZE", "TRANSPOSE", parameters=STORED)
declare("EXPAND_DIMS", "PACK", "UNPACK", parameters=REFUSED)
declare("CONCATENATION", parameters={"int8": REFUSED, "uint8": COMPUTED, "int16": STORED})
