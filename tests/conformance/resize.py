"""Resizing of images."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.conformance.cases import STORED, Operand, Table, cases, declare, like, result


@cases("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resizing(table: Table) -> None:
    for (height, width), (align, half) in product(
        ((8, 6), (2, 3), (7, 9), (4, 3), (1, 1), (12, 2)), ((0, 0), (1, 0), (0, 1))
    ):
        chosen = {"align_corners": bool(align), "half_pixel_centers": bool(half)}
        size = Operand(np.array([height, width], np.int32), "int32", constant=True)
        for dtype in ("float32", "int8", "uint8", "int16"):
            steps = 200 if dtype == "int16" else 1  # LiteRT's positions are multiples of 1/1024 there
            source = table.numbers(dtype, 2, 4, 3, 2)
            table.add(f"{dtype}-{height}x{width}-{align}{half}", [source, size], like(source), chosen, steps=steps)


@cases("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resizing_large(table: Table) -> None:
    for height, width, out in (
        (5, 7, (13, 11)),
        (16, 12, (5, 7)),
        (10, 10, (30, 20)),
        (1, 1, (3, 4)),
        (62, 28, (97, 135)),
    ):
        for align, half in ((0, 0), (1, 0), (0, 1)):
            size = Operand(np.array(out, np.int32), "int32", constant=True)
            chosen = {"align_corners": bool(align), "half_pixel_centers": bool(half)}
            table.add(
                f"float32-{height}x{width}-to-{out}-{align}{half}",
                [table.real(1, height, width, 2), size],
                result(),
                chosen,
            )


@cases("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def open_batch(table: Table) -> None:
    """Where the batch is open, sizes are factors, whose products must not fall short of the sizes."""
    for (height, width), out in (
        ((6, 5), (13, 13)), ((6, 3), (14, 7)), ((26, 9), (19, 25)), ((4, 7), (9, 3)),
        ((6, 12), (37, 74)), ((14, 24), (83, 37)),
    ):  # fmt: skip
        for align, half in ((0, 0), (1, 0), (0, 1)):
            size = Operand(np.array(out, np.int32), "int32", constant=True)
            chosen = {"align_corners": bool(align), "half_pixel_centers": bool(half)}
            source = table.real(2, height, width, 2).dynamic(0)
            table.add(f"float32-open-{height}x{width}-to-{out}-{align}{half}", [source, size], result(), chosen)


@cases("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def single_pixel(table: Table) -> None:
    """Images of one pixel are repeated, whatever their type; so are those of one row or column, along one axis."""
    for (height, width), dtype in product(((1, 1), (1, 3), (4, 1)), ("int8", "uint8", "int16")):
        size = Operand(np.array([4, 6], np.int32), "int32", constant=True)
        source = table.numbers(dtype, 2, height, width, 3)
        table.add(f"{dtype}-{height}x{width}-to-4x6", [source, size], like(source))


declare("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", parameters=STORED)
