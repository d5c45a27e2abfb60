"""Slices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import Operand, Table, cases, like, stored

_SLICES: tuple[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    # label, begin, end, strides, masks
    ("plain", (0, 1, 2), (2, 3, 4), (1, 1, 1), {}),
    ("stepped", (0, 0, 1), (2, 4, 6), (1, 2, 3), {}),
    ("negative-ends", (0, -3, -4), (2, -1, -1), (1, 1, 1), {}),
    ("reversed", (0, -1, 5), (2, -5, 0), (1, -1, -2), {}),
    ("reversed-open", (0, 0, 0), (0, 0, 0), (1, -1, -1), {"begin_mask": 7, "end_mask": 7}),
    ("begin-mask", (1, 1, 1), (2, 3, 4), (1, 1, 1), {"begin_mask": 5}),
    ("end-mask", (0, 1, 1), (1, 2, 2), (1, 1, 1), {"end_mask": 2}),
    ("out-of-range", (-9, 0, 1), (9, 99, 99), (1, 1, 1), {}),
    ("shrink-first", (1, 0, 0), (2, 4, 6), (1, 1, 1), {"shrink_axis_mask": 1}),
    ("shrink-last", (0, 0, -1), (2, 4, 0), (1, 1, 1), {"shrink_axis_mask": 4}),
    ("shrink-two", (0, 2, 3), (1, 3, 4), (1, 1, 1), {"shrink_axis_mask": 6}),
    ("shrink-all", (0, 2, 3), (1, 3, 4), (1, 1, 1), {"shrink_axis_mask": 7}),
    ("new-axis", (0, 0, 1), (0, 2, 3), (1, 1, 1), {"new_axis_mask": 1}),
    ("ellipsis", (0, 1), (0, 4), (1, 2), {"ellipsis_mask": 1}),
    ("ellipsis-middle", (1, 0, 2), (2, 0, 5), (1, 1, 1), {"ellipsis_mask": 2}),
    (
        "ellipsis-new-shrink",
        (0, 0, 2),
        (0, 0, 3),
        (1, 1, 1),
        {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4},
    ),
    ("fewer", (1,), (2,), (1,), {}),
    ("empty", (0, 3, 0), (2, 1, 6), (1, 1, 1), {}),
    ("offset", (0, 1, 2), (2, 2, 3), (1, 1, 1), {"offset": True}),
    ("offset-strided", (0, 1, 1), (2, 3, 5), (1, 2, 2), {"offset": True}),
    ("offset-from-end", (-2, -4, -3), (2, 3, 3), (1, 1, 1), {"offset": True}),
    ("offset-begin-mask", (1, 1, 1), (2, 3, 5), (1, 1, 1), {"offset": True, "begin_mask": 7}),
    ("offset-shrink", (1, 1, 1), (1, 3, 5), (1, 1, 1), {"offset": True, "shrink_axis_mask": 1}),
)


@cases("STRIDED_SLICE")
def strided(table: Table) -> None:
    for label, begin, end, strides, masks in _SLICES:
        for dtype in ("float32", "int8", "int32", "uint8", "bool", "int64"):
            if dtype not in ("float32", "int8") and label not in ("plain", "shrink-first", "reversed"):
                continue
            source = any_operand(table, dtype, 2, 4, 6)
            table.add(f"{dtype}-{label}", [source, stored(*begin), stored(*end), stored(*strides)], like(source), masks)
    source = table.real(3, 4, 6).dynamic(0)
    edges = [stored(0, 1, 0), stored(0, 3, 6), stored(1, 1, 2)]
    table.add("dynamic", [source, *edges], options={"begin_mask": 1, "end_mask": 1})
    for label, begin, end, strides, masks in _SLICES:
        if not {"ellipsis_mask", "new_axis_mask", "offset"} & {*masks}:
            bounds = [Operand(np.array(each, np.int32), "int32") for each in (begin, end)]
            table.add(f"computed-{label}", [table.real(2, 4, 6), *bounds, stored(*strides)], options=masks)


@cases("SLICE")
def slices(table: Table) -> None:
    for dtype, (begin, size) in product(
        ("float32", "int8", "uint8", "int16", "int32", "int64", "bool"),
        (((0, 1, 2), (2, 2, 3)), ((1, 0, 3), (-1, -1, -1))),
    ):
        source = any_operand(table, dtype, 2, 4, 6)
        table.add(f"{dtype}-{begin}", [source, stored(*begin), stored(*size)], like(source))
    fed = [Operand(np.array(each, np.int32), "int32") for each in ((0, 1, 2), (2, -1, 3))]
    table.add("computed", [table.real(2, 4, 6), *fed])
    long = [Operand(np.array(each, np.int64), "int64", constant=True) for each in ((0, 1, 2), (2, 1, 3))]
    table.add("int64", [table.real(2, 4, 6), *long])
