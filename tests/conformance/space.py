"""Blocks moved between space, depth and batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from tests.conformance.arrangement import any_operand
from tests.conformance.cases import Table, cases, constant, fed, like


@cases("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def depth(table: Table) -> None:
    shapes = ((1, 2, 3, 8), (2, 1, 2, 36)) if table.operator == "DEPTH_TO_SPACE" else ((1, 4, 6, 2), (2, 6, 12, 3))
    for dtype, (at, shape) in product(("float32", "int8", "uint8", "int32"), enumerate(shapes)):
        source = any_operand(table, dtype, *shape)
        table.add(f"{dtype}-{shape}", [source], like(source), {"block_size": (2, 6 if shapes[0][3] == 8 else 3)[at]})


_BATCHES: Mapping[str, tuple[Any, ...]] = {
    # blocks, what is padded or cut off, images, lines, images of computed blocks
    "SPACE_TO_BATCH_ND": (((2, 2), (1, 3)), ((0, 0), (0, 0)), ((2, 0), (2, 4)), (2, 4, 6, 3), (2, 6, 3), (2, 4, 5, 3)),
    "BATCH_TO_SPACE_ND": (((2, 2), (1, 4)), ((0, 0), (0, 0)), ((1, 0), (1, 2)), (8, 3, 4, 2), (6, 4, 3), (12, 4, 5, 3)),
}


@cases(*_BATCHES)
def batches(table: Table) -> None:
    blocks, *sides, images, lines, others = _BATCHES[table.operator]
    for dtype, block, side in product(("float32", "int8", "uint8", "int32"), blocks, sides):
        source = any_operand(table, dtype, *images)
        label = f"{dtype}-{'x'.join(map(str, block))}-{side[0][0]}"
        table.add(label, [source, constant(block), constant(side)], like(source))
    table.add("rank3", [table.real(*lines), constant([3]), constant([[1, 2]])])
    for dtype in ("float32", "int8"):
        source = any_operand(table, dtype, *others)
        table.add(f"{dtype}-computed", [source, constant([2, 3]), fed([[1, 1], [0, 4]])], like(source))
    table.add("rank3-computed", [table.real(*lines), constant([3]), fed([[1, 2]])])
