"""Pooling and normalisation."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.conformance.cases import STORED, Table, cases, declare, like
from tests.conformance.convolution import options

WINDOWS = (
    # height, width, filter, stride
    (6, 6, (2, 2), (2, 2)),
    (7, 5, (2, 2), (2, 2)),
    (7, 6, (3, 3), (1, 1)),
    (8, 7, (3, 2), (2, 3)),
    (5, 4, (5, 4), (1, 1)),
    (4, 4, (1, 1), (2, 2)),
)


@cases("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def pools(table: Table) -> None:
    dtypes = ("float32",) if table.operator == "L2_POOL_2D" else ("float32", "int8", "uint8", "int16")
    for dtype, (height, width, window, stride), padding in product(dtypes, WINDOWS, ("SAME", "VALID")):
        source = table.numbers(dtype, 2, height, width, 3, low=-2, high=1)
        label = f"{dtype}-{height}x{width}-k{window[0]}{window[1]}-s{stride[0]}{stride[1]}-{padding}"
        table.add(label, [source], like(source), _window(window, stride, padding))
    for dtype, activation in product(dtypes, ("RELU", "RELU6", "RELU_N1_TO_1")):
        source = table.numbers(dtype, 1, 6, 6, 2, low=-9, high=9)
        table.add(f"{dtype}-{activation}", [source], like(source), _window((3, 3), (2, 2), "SAME", activation))
    for dtype, window, padding in product(dtypes, ((2, 2), (3, 2), (3, 3), (6, 6)), ("SAME", "VALID")):
        source = table.numbers(dtype, 1, 6, 6, 9, low=-2, high=1)
        label = f"{dtype}-k{window[0]}{window[1]}-{padding}-9channels"
        table.add(label, [source], like(source), _window(window, (2, 1), padding))
    for window, stride in (((2, 2), (2, 2)), ((1, 1), (2, 2)), ((3, 2), (1, 2))):
        dynamic = table.real(2, 7, 6, 2).dynamic(0, 1, 2)
        table.add(f"dynamic-k{window[0]}{window[1]}", [dynamic], options=_window(window, stride, "SAME"))


def _window(window: tuple[int, int], stride: tuple[int, int], padding: str, activation: str = "NONE") -> Any:
    return options(stride, padding, activation, filter_height=window[0], filter_width=window[1])


declare("AVERAGE_POOL_2D", "MAX_POOL_2D", parameters=STORED)
