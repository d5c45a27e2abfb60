"""Functions of two tensors, with broadcasting: arithmetic, comparisons, logic, selection."""

from __future__ import annotations

import numpy as np

from tests.conformance.cases import COMPUTED, STORED, Operand, Table, cases, constant, declare, like, plain, result

BROADCASTS = (
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 5), (1, 1, 1, 5)),
    ((2, 3, 4, 5), (4, 1)),
    ((1, 4, 1, 5), (2, 1, 3, 1)),
    ((3,), (2, 4, 3)),
    ((2, 3), ()),
)
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
FAR = (2**31, -(2**31) - 1, 2**32 - 1, 2**32, 2**40, -(2**40), 2**63 - 1, -(2**63), 2**31 - 1, -(2**31), 3, 0, -1)
"""Integers that int32 holds, and others whose upper halves are equal or not."""

_WITH_ACTIVATION = ("ADD", "SUB", "MUL", "DIV")
_COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


@cases("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")
def real(table: Table) -> None:
    for left, right in BROADCASTS:
        second = table.real(*right, low=0.5 if table.operator in ("DIV", "FLOOR_DIV", "FLOOR_MOD") else -3, high=3)
        label = f"float32-{len(left)}x{len(right)}"
        table.add(label, [table.real(*left, low=-5, high=5), second])
        table.add(f"{label}-constant", [table.real(*left, low=-5, high=5), second.fixed])
    table.add("float32-constant-first", [table.real(3, low=1, high=5).fixed, table.real(2, 4, 3, low=1, high=5)])
    table.add("float32-dynamic", [table.real(2, 4, 3).dynamic(0), table.real(3, low=1, high=2).fixed])
    table.add("float32-empty", [table.real(0, 3), table.real(3).fixed])
    table.add("float32-same-twice", [same := table.real(2, 4, low=1, high=2), same.fixed])


@cases(*_WITH_ACTIVATION)
def fused(table: Table) -> None:
    for activation in ACTIVATIONS[1:]:
        options = {"fused_activation_function": activation}
        operands = [table.real(2, 3, 4, low=-9, high=9), table.real(4, low=0.5, high=3)]
        table.add(f"float32-{activation}", operands, options=options)
        if table.operator != "DIV":
            pair = [table.quantized("int8", 2, 3, 4, low=-9, high=9), table.quantized("int8", 4, low=-3, high=3)]
            table.add(f"int8-{activation}", pair, result("int8", -9, 9), options)
            table.add(f"int8-{activation}-fitting", pair, result("int8", *_clipped(activation)), options)


def _clipped(activation: str) -> tuple[float, float]:
    return {"RELU": (0.0, 9.0), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}[activation]


@cases("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "DIV", "POW", "SQUARED_DIFFERENCE")
def whole(table: Table) -> None:
    nonzero = np.array([-7, -3, -2, -1, 1, 2, 3, 7])
    dtypes: tuple[str, ...] = ("int32", "int64")
    if table.operator in ("DIV", "FLOOR_DIV", "SQUARED_DIFFERENCE", "POW"):
        dtypes = ("int32",)
    for dtype in dtypes:
        left = table.integers(4, 3, 8, dtype=dtype)
        right = table.integers(4, 3, 8, dtype=dtype)
        if table.operator in ("FLOOR_DIV", "FLOOR_MOD", "DIV"):
            right = Operand(np.broadcast_to(nonzero, (4, 3, 8)).astype(dtype), dtype)
        if table.operator == "POW":
            right = table.integers(4, 3, 8, low=0, high=4, dtype=dtype)
        table.add(dtype, [left, right], plain(dtype))
        if table.operator in ("ADD", "SUB", "MUL"):
            large = table.integers(40, low=-(2**31), high=2**31 - 1, dtype=dtype)
            table.add(f"{dtype}-overflow", [large, Operand(large.values[::-1], dtype)], plain(dtype))
        table.add(f"{dtype}-constant", [left, constant(right.values[0, 0], dtype)], plain(dtype))


@cases("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "DIV")
def quantized(table: Table) -> None:
    dtypes = {"SQUARED_DIFFERENCE": ("int8",), "DIV": ("uint8",)}.get(table.operator, ("int8", "uint8", "int16"))
    for dtype in dtypes:
        for left, right in BROADCASTS[:5]:
            first = table.quantized(dtype, *left, low=-2, high=2)
            if table.operator in ("MAXIMUM", "MINIMUM"):
                second = Operand(table.quantized(dtype, *right, low=-2, high=2).data, dtype, first.quant)
                table.add(f"{dtype}-{len(left)}x{len(right)}", [first, second], like(first))
                continue
            second = table.quantized(dtype, *right, low=0.5 if table.operator == "DIV" else -1, high=3)
            span = {"MUL": 6, "SQUARED_DIFFERENCE": 25, "DIV": 5}.get(table.operator, 5)
            table.add(f"{dtype}-{len(left)}x{len(right)}", [first, second], result(dtype, -span, span))
            table.add(f"{dtype}-{len(left)}x{len(right)}-constant", [first, second.fixed], result(dtype, -span, span))
        if table.operator == "MUL" or (table.operator in ("ADD", "SUB") and dtype != "int16"):
            wide = [table.quantized(dtype, 2, 50, low=-4, high=4), table.quantized(dtype, 2, 50, low=-4, high=4)]
            table.add(f"{dtype}-saturating", wide, result(dtype, -1, 2))


@cases("POW")
def power(table: Table) -> None:
    table.add("float32", [table.real(2, 3, 4, low=0.1, high=3), table.real(2, 3, 4, low=-2, high=3)], tolerance=1e-4)
    table.add("float32-square", [table.real(2, 3, 4, low=-3, high=3), constant(2.0, "float32")])
    table.add("float32-root", [table.real(2, 3, 4, low=0, high=3), constant([0.5], "float32")])


@cases("ATAN2")
def angles(table: Table) -> None:
    table.add("float32", [table.real(2, 3, 9), table.real(2, 3, 9)])
    axes = np.array([0, 1, 0, -1, 1, -1, 1, -1], np.float32)
    table.add("float32-axes", [Operand(axes), Operand(np.roll(axes, 2))])
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-38, -1e38, 3e38], np.float32)
    table.add("float32-special", [Operand(np.repeat(special, 10)), Operand(np.tile(special, 10))])
    halves = [Operand(table.real(3, 9).values.astype(np.float16), "float16") for _ in range(2)]
    table.add("float16", halves, plain("float16"), tolerance=1e-3)
    table.add("float32-dynamic", [table.real(2, 9).dynamic(0), table.real(2, 9).dynamic(0)])


@cases("ADD_N")
def sums(table: Table) -> None:
    for count in (2, 4):
        table.add(f"float32-{count}", [table.real(2, 3, 4) for _ in range(count)])
    table.add("int32", [table.integers(2, 3, 4) for _ in range(3)], plain("int32"))


@cases("MAXIMUM", "MINIMUM", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
def far(table: Table) -> None:
    """Every two integers of 64 bits."""
    a, b = (Operand(each, "int64") for each in np.meshgrid(np.array(FAR), np.array(FAR)))
    table.add("int64-far", [a, b], plain("int64"))
    table.add("int64-far-constant", [a, b.fixed], plain("int64"))


@cases("BITWISE_XOR", "RIGHT_SHIFT")
def bits(table: Table) -> None:
    shift = table.operator == "RIGHT_SHIFT"
    for dtype in ("int32", "uint32", "int8", "uint8", "int16", "uint16"):
        low = 0 if dtype.startswith("u") else -100
        amounts = table.integers(3, 8, low=0, high=7 if shift else 100, dtype=dtype)
        table.add(dtype, [table.integers(3, 8, low=low, high=100, dtype=dtype), amounts], plain(dtype))
        limits = np.iinfo(dtype)
        edges = Operand(np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype), dtype)
        steps = [limits.min, limits.max, 0, 1, 7, 15, 31, 32, 100] if shift else [limits.min, limits.max, 0, 1]
        counts = Operand(np.array([[each] for each in steps if each <= limits.max], dtype), dtype)
        table.add(f"{dtype}-edges", [edges, counts], plain(dtype))
        table.add(f"{dtype}-edges-constant", [edges, counts.fixed], plain(dtype))
        large = Operand(np.resize(counts.values, (4, 8)), dtype)
        table.add(f"{dtype}-alike", [table.integers(4, 8, low=low, high=100, dtype=dtype), large], plain(dtype))
    source = table.quantized("int8", 3, 8)
    table.add("int8-quantized", [source, Operand(np.full((3, 8), 3, np.int8), "int8", source.quant)], like(source))


@cases("BITCAST")
def reread(table: Table) -> None:
    for names in (("int8", "uint8"), ("int16", "uint16"), ("int32", "uint32"), ("int64", "uint64")):
        for one, other in (names, names[::-1], (names[0], names[0])):
            limits = np.iinfo(one)
            table.add(f"{one}-{other}", [Operand(np.array([limits.min, limits.max, 0, 5], one), one)], plain(other))
    wide = ("int64", "uint32", "int16", "uint8")
    for at, large in enumerate(wide):
        for small in wide[at + 1 :]:
            limits = np.iinfo(large)
            source = np.array([[limits.min, limits.max], [0, 77], [limits.max // 3, 1]]).astype(large)
            table.add(f"{large}-{small}", [Operand(source, large)], plain(small))
            table.add(f"{small}-{large}", [Operand(source.view(small).reshape(3, 2, -1), small)], plain(large))
    table.add("float32", [table.real(2, 3)], plain("float32"))


declare(
    "BITCAST",
    "BITWISE_XOR",
    "FLOOR_DIV",
    "FLOOR_MOD",
    "MAXIMUM",
    "MINIMUM",
    "RIGHT_SHIFT",
    "STABLEHLO_MAXIMUM",
    "STABLEHLO_MINIMUM",
    parameters=STORED,
)
declare("ADD", "DIV", "MUL", "SQUARED_DIFFERENCE", "SUB", parameters=COMPUTED)
