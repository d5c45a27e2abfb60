"""Which function writes which operator of ONNX, and which of them compute on stored integers themselves."""

from __future__ import annotations

from collections.abc import Callable

from layoutsolve.emit.tflite.call import Call

Row = Callable[[Call], None]
Fits = Callable[[Call], bool]

ROWS: dict[str, Row] = {}
"""By operator of ONNX, what writes it."""

QUANTIZED: dict[str, Fits] = {}
"""By operator of ONNX, whether a kernel computes on the quantized numbers of a node; others compute in floats."""


def row(*operators: str, quantized: Fits | None = None) -> Callable[[Row], Row]:
    """Register what writes some operators."""

    def register(function: Row) -> Row:
        for operator in operators:
            if operator in ROWS:
                raise ValueError(f"operator {operator} has a row already")
            ROWS[operator] = function
            if quantized is not None:
                QUANTIZED[operator] = quantized
        return function

    return register
