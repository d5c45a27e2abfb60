"""Functions of one number, activations among them."""

from __future__ import annotations

import numpy as np

from tests.conformance.arithmetic import FAR
from tests.conformance.cases import (
    COMPUTED,
    STORED,
    Model,
    Operand,
    Table,
    cases,
    declare,
    like,
    plain,
    result,
    written,
)

_REAL = {
    "ABS": (-3, 3),
    "NEG": (-3, 3),
    "EXP": (-4, 4),
    "LOG": (0.01, 9),
    "SQRT": (0, 9),
    "RSQRT": (0.01, 9),
    "SIN": (-7, 7),
    "COS": (-7, 7),
    "FLOOR": (-5, 5),
    "CEIL": (-5, 5),
    "SQUARE": (-3, 3),
    "SIGN": (-3, 3),
    "ELU": (-4, 4),
    "LOGISTIC": (-9, 9),
    "TANH": (-4, 4),
    "RELU": (-3, 3),
    "RELU6": (-3, 9),
    "RELU_N1_TO_1": (-3, 3),
    "RELU_0_TO_1": (-3, 3),
    "HARD_SWISH": (-6, 6),
    "ZEROS_LIKE": (-3, 3),
}
INT16_STEPS = (1, 4)
"""Steps that pass for 8 and for 16 bits: LiteRT interpolates in a table there, a few of 65536 steps off; more of them
where RSQRT is steep."""

_SHAPES = ((7,), (1, 5, 4, 3), (2, 1, 3), ())


@cases(*_REAL)
def real(table: Table) -> None:
    low, high = _REAL[table.operator]
    for shape in _SHAPES:
        table.add(f"float32-rank{len(shape)}", [table.real(*shape, low=low, high=high)], tolerance=1e-4)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, -1e38], np.float32)
    table.add("float32-special", [Operand(special)])
    table.add("float32-dynamic", [table.real(2, 5, 3, low=low, high=high).dynamic(0)], tolerance=1e-4)


@cases("ABS", "NEG", "SQUARE", "SIGN", "ZEROS_LIKE")
def whole(table: Table) -> None:
    dtypes = {"ABS": ["int32"], "SIGN": ["int32"], "NEG": ["int32", "int64"], "ZEROS_LIKE": ["int32", "int64"]}
    for dtype in dtypes.get(table.operator, []):
        table.add(dtype, [table.integers(2, 3, 4, dtype=dtype)], plain(dtype))


@cases("SIGN")
def far(table: Table) -> None:
    """LiteRT has no kernel for int64, TensorFlow has."""
    x = Operand(np.array(FAR), "int64")
    source = written(table.operator, [x], [Operand(dtype="int64", shape=x.values.shape)], {})
    table.add_model("int64-far", lambda: Model(source, (x.values,), (np.sign(x.values),)))


@cases("ROUND")
def rounding(table: Table) -> None:
    halves = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.49, -3.51], np.float32)
    table.add("float32-halves", [Operand(halves)])
    table.add("float32", [table.real(2, 3, 4, low=-9, high=9)])


@cases("ABS")
def quantized_abs(table: Table) -> None:
    for dtype in ("int8", "int16"):
        source = table.quantized(dtype, 2, 3, 4, low=-3, high=3)
        table.add(dtype, [source], result(dtype, 0, 3))
        table.add(f"{dtype}-same", [source], like(source))


@cases("RSQRT", "SQRT", "EXP", "LOG")
def quantized_tables(table: Table) -> None:
    dtypes = {"RSQRT": ("int8", "int16"), "EXP": ("int8", "int16"), "LOG": ("int8", "int16")}.get(table.operator, ())
    low, high, top, bottom = {
        "RSQRT": (0.5, 9, 1.5, 0),
        "SQRT": (0.0, 9, 3, 0),
        "EXP": (-3, 1, 2.72, 0),
        "LOG": (0.5, 9, 2.2, -0.7),
    }[table.operator]
    for dtype in dtypes:
        table.add(
            dtype,
            [table.quantized(dtype, 3, 40, low=low, high=high)],
            result(dtype, bottom, top),
            steps=12 if (table.operator, dtype) == ("RSQRT", "int16") else INT16_STEPS[dtype == "int16"],
        )


declare("NEG", parameters=STORED)
declare(
    "ABS",
    "ELU",
    "EXP",
    "HARD_SWISH",
    "LOG",
    "LOGISTIC",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "RSQRT",
    "SQRT",
    "TANH",
    parameters=COMPUTED,
)
