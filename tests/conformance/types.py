"""Every type that LiteRT's kernels take, for operators whose other cases have the usual ones only.

A type is plain, or quantized where it ends in ``q``. Types that LiteRT runs without parameters but takes as quantized
are left out: its results then mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.conformance.cases import REFUSED, STORED, Operand, Table, cases, constant, declare, fed, like, plain, result
from tests.conformance.elementwise import INT16_STEPS

_QUANTIZED = ("int8q", "uint8q", "int16q")
_SHORT = ("int8", "uint8", "int16")
_WHOLE = (*_SHORT, "int32", "int64")
_EVERY = ("float32", "float64", "float16", *_WHOLE, "uint16", "uint32", "uint64", "bool", *_QUANTIZED)
_USUAL = ("float32", "float16", *_WHOLE, "bool", *_QUANTIZED)
_COMPARED = ("float16", "int16", "int16q")

_MOVING: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        (
            "BATCH_TO_SPACE_ND", "BROADCAST_TO", "EMBEDDING_LOOKUP", "EXPAND_DIMS", "FILL", "MIRROR_PAD", "RESHAPE",
            "SELECT", "SELECT_V2", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE",
        ),
        _EVERY,
    ),
    "SPACE_TO_BATCH_ND": tuple(name for name in _EVERY if name != "bool"),
    **dict.fromkeys(("GATHER", "GATHER_ND", "PAD", "PADV2", "REVERSE_V2"), _USUAL),
    "CONCATENATION": (*_USUAL, "uint32"),
    "PACK": ("float32", *_WHOLE, "uint32", *_QUANTIZED),
    "UNPACK": ("float32", "float16", *_SHORT, "int32", "bool", *_QUANTIZED),
    "SPLIT": ("float32", *_WHOLE, *_QUANTIZED),
    "SPLIT_V": ("float32", *_WHOLE, *_QUANTIZED),
    "DEPTH_TO_SPACE": ("float32", "int8", "uint8", "int32", "int64"),
    "SPACE_TO_DEPTH": ("float32", "int8", "uint8", "int32", "int64"),
    "RESIZE_NEAREST_NEIGHBOR": ("float16", *_SHORT, "int32", "uint16", "uint32", "bool"),
    "MAX_POOL_2D": ("int8", "uint8"),
}  # fmt: skip

_COMPUTING: Mapping[str, Sequence[str]] = {
    "ADD": ("float16", "int16"),
    "MUL": ("float16", "int16", "uint32"),
    "DIV": ("int8q", "int16q"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), ("float16", *_SHORT)),
    **dict.fromkeys(("FLOOR_DIV", "FLOOR_MOD"), ("int8", "int16", "int8q", "int16q")),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _COMPARED),
    "NOT_EQUAL": ("float16", "int16q"),
    "ABS": ("int16",),
    "NEG": ("float16", "int8", "int16", "int8q", "int16q"),
    **dict.fromkeys(("SIN", "COS", "FLOOR", "ROUND", "LOGISTIC", "TANH", "SOFTMAX", "GELU"), ("float16",)),
    "SIGN": ("float64",),
    "SQRT": ("int8q", "int16q"),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _SHORT),
    "REDUCE_PROD": ("int8q", "int16q"),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), ("int8", "uint8", "int32")),
    "TOPK_V2": (*_SHORT, "int64", "int16q"),
    "WHERE": ("float32", "int8", "uint8", "int32", "uint32", "int64", "int8q", "uint8q"),
    "ONE_HOT": ("int8", "uint8", "int64"),
    "ELU": ("int8q",),
}


def _operand(table: Table, dtype: str, *shape: int) -> Operand:
    if dtype.endswith("q"):
        return table.quantized(dtype[:-1], *shape, low=-4, high=4)
    if dtype == "bool":
        return table.booleans(*shape)
    if dtype.startswith("float"):
        return Operand(table.real(*shape, low=-4, high=4).values.astype(dtype), dtype)
    return table.integers(*shape, low=0 if dtype.startswith("u") else -9, high=9, dtype=dtype)


def _alike(table: Table, operand: Operand, dtype: str, *shape: int) -> Operand:
    """An operand stored as another one."""
    return Operand(np.asarray(_operand(table, dtype, *shape).values), operand.dtype, operand.quant)


Made = tuple[Sequence[Operand], Sequence[Operand], Mapping[str, Any]]
Make = Callable[[Table, str], Made]


def _first(*rest: Operand, shape: Sequence[int] = (2, 3, 4), count: int = 1, **options: Any) -> Make:
    """The tensor first, then constants."""

    def make(table: Table, dtype: str) -> Made:
        x = _operand(table, dtype, *shape)
        return [x, *rest], [like(x)] * count, options

    return make


def _two(*rest: Operand, shape: Sequence[int] = (2, 3), other: Sequence[int] = (2, 3), **options: Any) -> Make:
    """Constants, then two tensors that are stored alike."""

    def make(table: Table, dtype: str) -> Made:
        x = _operand(table, dtype, *shape)
        return [*rest, x, _alike(table, x, dtype, *other)], [like(x)], options

    return make


def _padded(table: Table, dtype: str) -> Made:
    x = _operand(table, dtype, 2, 3, 4)
    return [x, constant([[0, 1], [1, 0], [2, 2]]), _alike(table, x, dtype)], [like(x)], {}


_BLOCKS = (constant([2, 2]), constant([[0, 0], [2, 0]]))
_POOL = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2}
_MADE: Mapping[str, Make] = {
    "BATCH_TO_SPACE_ND": _first(*_BLOCKS, shape=(4, 4, 4, 3)),
    "BROADCAST_TO": _first(constant([2, 2, 3, 4])),
    "CONCATENATION": _two(axis=1),
    "DEPTH_TO_SPACE": _first(shape=(1, 4, 4, 8), block_size=2),
    "EMBEDDING_LOOKUP": lambda table, dtype: ([constant([1, 0]), x := _operand(table, dtype, 3, 4)], [like(x)], {}),
    "EXPAND_DIMS": _first(constant(1)),
    "FILL": lambda table, dtype: (
        [fed([2, 3]), x := Operand(np.asarray((y := _operand(table, dtype)).values), y.dtype, y.quant)], [like(x)], {}
    ),
    "GATHER": _first(constant([1, 0]), axis=1),
    "GATHER_ND": _first(constant([[1], [0]])),
    "MAX_POOL_2D": _first(shape=(1, 4, 4, 3), **_POOL),
    "MIRROR_PAD": _first(constant([[0, 1], [1, 0], [2, 2]]), mode="REFLECT"),
    "PACK": _two(axis=1, values_count=2),
    "PAD": _first(constant([[0, 1], [1, 0], [2, 2]])),
    "PADV2": _padded,
    "RESHAPE": _first(constant([4, 6])),
    "RESIZE_NEAREST_NEIGHBOR": _first(constant([8, 8]), shape=(1, 4, 4, 3), half_pixel_centers=True),
    "REVERSE_V2": _first(constant([1])),
    "SELECT": _two(fed([[1, 0, 1], [0, 0, 1]], "bool")),
    "SELECT_V2": _two(fed([1, 0, 1], "bool")),
    "SLICE": _first(constant([0, 1, 0]), constant([1, 2, -1])),
    "SPACE_TO_BATCH_ND": _first(*_BLOCKS, shape=(1, 4, 4, 3)),
    "SPACE_TO_DEPTH": _first(shape=(1, 4, 4, 3), block_size=2),
    "SPLIT": lambda table, dtype: (
        [constant(1), x := _operand(table, dtype, 2, 4)], [like(x)] * 2, {"num_splits": 2}
    ),
    "SPLIT_V": _first(constant([1, 3]), constant(1), shape=(2, 4), count=2, num_splits=2),
    "SQUEEZE": _first(shape=(2, 1, 3)),
    "STRIDED_SLICE": _first(constant([0, 2, 0]), constant([2, 0, 4]), constant([1, -1, 2])),
    "TILE": _first(constant([1, 2, 1])),
    "TRANSPOSE": _first(constant([1, 2, 0])),
    "UNPACK": _first(shape=(2, 3), count=2, axis=0, num=2),
}  # fmt: skip


@cases(*_MOVING)
def moving(table: Table) -> None:
    for dtype in _MOVING[table.operator]:
        inputs, outputs, options = _MADE[table.operator](table, dtype)
        table.add(f"type-{dtype}", inputs, outputs, options)


@cases("ADD", "MUL", "DIV", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD")
def arithmetic(table: Table) -> None:
    for dtype in _COMPUTING[table.operator]:
        x = _operand(table, dtype, 2, 3, 4)
        divisors = np.array([1, 2, 3, 7], x.values.dtype)
        y = Operand(np.broadcast_to(divisors, (2, 3, 4)).copy(), x.dtype, x.quant)
        for label, pair in (("", [x, y]), ("-broadcast", [x, Operand(divisors, x.dtype, x.quant)])):
            table.add(f"type-{dtype}{label}", pair, like(x), tolerance=1e-3)
    if table.operator in ("FLOOR_DIV", "FLOOR_MOD"):
        for dtype in ("int8", "int16", "int32"):
            limits = np.iinfo(dtype)
            edges = [
                np.array([limits.min, limits.max, limits.min + 1, -1, 0], dtype),
                np.array([[3], [-7], [2]], dtype),
            ]
            table.add(f"edges-{dtype}", [Operand(each, dtype) for each in edges], plain(dtype))


@cases("ADD", "SUB", "MUL")
def clamped(table: Table) -> None:
    for dtype in ("int32", "int64"):
        for activation in ("RELU", "RELU6", "RELU_N1_TO_1"):
            large = [-(2**30), 2**30, 5, -5, 1, 0]
            far = [2**31, 2**32 - 4, -(2**31) - 9, 2**40, -(2**40)] if dtype == "int64" else []
            pair = [fed(large + far, dtype), fed([3], dtype)]
            options = {"fused_activation_function": activation}
            table.add(f"{dtype}-{activation}", pair, plain(dtype), options)


@cases("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
def comparisons(table: Table) -> None:
    for dtype in _COMPUTING[table.operator]:
        x = _operand(table, dtype, 4, 5)
        y = Operand(np.where(table.booleans(4, 5).values, x.values, x.values[::-1]), x.dtype, x.quant)
        table.add(f"type-{dtype}", [x, y], plain("bool"))


@cases("ABS", "NEG", "SIN", "COS", "FLOOR", "ROUND", "LOGISTIC", "TANH", "SOFTMAX", "GELU", "SIGN", "ELU")
def unary(table: Table) -> None:
    options = {"beta": 1.0} if table.operator == "SOFTMAX" else {}
    for dtype in _COMPUTING[table.operator]:
        x = _operand(table, dtype, 3, 8)
        table.add(f"type-{dtype}", [x], like(x), options, tolerance=2e-3)


@cases("GELU")
def gelu_wide(table: Table) -> None:
    for approximate in (False, True):
        x = table.quantized("int16", 3, 40, low=-4, high=4)
        table.add(f"int16-{approximate}", [x], like(x), {"approximate": approximate}, steps=INT16_STEPS[1])


@cases("SQRT")
def root(table: Table) -> None:
    for dtype in ("int8", "int16"):
        x = table.quantized(dtype, 3, 40, low=0, high=9)
        x = Operand(np.maximum(x.values, -128 if dtype == "int8" else 0).astype(dtype), dtype, x.quant)
        table.add(f"type-{dtype}q", [x], result(dtype, 0, 3))


@cases("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def reductions(table: Table) -> None:
    for dtype in _COMPUTING[table.operator]:
        x = _operand(table, dtype, 2, 3, 4)
        output = like(x) if table.operator != "REDUCE_PROD" else result(dtype[:-1], -64, 64)
        table.add(f"type-{dtype}", [x, constant([1])], output)


@cases("ARG_MAX", "ARG_MIN", "WHERE", "TOPK_V2", "ONE_HOT")
def finding(table: Table) -> None:
    for dtype in _COMPUTING[table.operator]:
        x = _operand(table, dtype, 2, 9)
        if table.operator == "WHERE":
            table.add(f"type-{dtype}", [x], plain("int64"))
        elif table.operator == "TOPK_V2":
            table.add(f"type-{dtype}", [x, constant(3)], [like(x), plain("int32")])
        elif table.operator == "ONE_HOT":
            given = [constant([1, 0, 5]), constant(4), constant(7, dtype), constant(2, dtype)]
            table.add(f"type-{dtype}", given, plain(dtype), {"axis": -1})
        else:
            table.add(f"type-{dtype}", [x, constant(1)], plain("int32"), {"output_type": "int32"})


@cases("PRELU")
def slopes(table: Table) -> None:
    """The slope of 16-bit numbers is of 8 bits."""
    slope = table.quantized("int8", 1, 1, 4)
    table.add("int16", [table.quantized("int16", 2, 3, 5, 4, low=-4, high=4), slope], result("int16", -4, 4))


declare("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", parameters=STORED)
declare("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", parameters=REFUSED)
