"""Operators on elements of one operand."""

from __future__ import annotations

from functools import partial

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import looked_up, same_bytes, same_integers, signed_bytes
from layoutsolve.ir.graph import Quant

_UNARY = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "HardSwish": "HARD_SWISH",
    "Log": "LOG",
    "Neg": "NEG",
    "Not": "LOGICAL_NOT",
    "Relu": "RELU",
    "Round": "ROUND",
    "Rsqrt": "RSQRT",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}


def _fixed(scale: float, zero: int, call: Call) -> bool:
    """Whether a node writes integers in the only steps that its kernel has: int16 in those of a 32768th."""
    quant = call.output.quant
    if not same_integers(call) or quant is None:
        return False
    if call.output.dtype == "int16":
        return bool(np.isclose(quant.scale[0], 1 / (1 << 15), rtol=1e-6))
    offset = zero + (128 if call.output.dtype == "uint8" else 0)
    return bool(np.isclose(quant.scale[0], scale, rtol=1e-6)) and int(quant.zero_point[0]) == offset


def _unary(call: Call) -> None:
    """Write an operator of one operand."""
    call.write(_UNARY[call.op], [call.tensor(0)])


@row("BitwiseNot")
def bitwise_not(call: Call) -> None:
    """BitwiseNot: each bit is not what it is, as where it differs from 1."""
    dtype = np.dtype(call.output.dtype)
    ones = call.constant(np.array(~dtype.type(0)), dtype.name)
    call.write("BITWISE_XOR", [call.tensor(0), ones])


def _positive(call: Call) -> bool:
    """Whether a kernel computes on signed bytes none of which is negative, where it would end a run, or on int16."""
    quant = call.value(0).quant
    if quant is None or call.output.dtype == "int16":
        return looked_up(call)
    return signed_bytes(call) and int(quant.zero_point[0]) == np.iinfo(np.int8).min


row("Relu", quantized=same_integers)(_unary)
row("HardSwish", quantized=same_bytes)(_unary)


@row("Abs", quantized=looked_up)
def absolute(call: Call) -> None:
    """Abs, of int64 the larger one of a number and its negative."""
    if call.value(0).dtype != "int64":
        _unary(call)
        return
    call.write("MAXIMUM", [call.tensor(0), call.step("NEG", [call.tensor(0)], call.output.shape)])


row("Exp", quantized=signed_bytes)(_unary)
row("Sigmoid", quantized=partial(_fixed, 1 / 256, -128))(_unary)
row("Tanh", quantized=partial(_fixed, 1 / 128, 0))(_unary)
row("Rsqrt", quantized=_positive)(_unary)
row(*(_UNARY.keys() - {"Abs", "Exp", "HardSwish", "Neg", "Relu", "Rsqrt", "Sigmoid", "Tanh"}))(_unary)


def _turns(call: Call) -> bool:
    """Whether signed bytes are turned around zero in the same steps."""
    one, other = call.value(0).quant, call.output.quant
    return signed_bytes(call) and one is not None and other is not None and np.array_equal(one.scale, other.scale)


@row("Neg", quantized=_turns)
def negative(call: Call) -> None:
    """Neg; int8 by a product with -1, which is -128 steps of 1/128: the kernel takes steps that are smaller than 1."""
    if call.value(0).quant is None:
        _unary(call)
        return
    step = Quant(np.array([1 / 128], np.float32), np.zeros(1, np.int8))
    call.write("MUL", [call.tensor(0), call.number("negative", -128, "int8", step)])


@row("Cast")
def cast(call: Call) -> None:
    """Cast, by truncation as ONNX has it."""
    before, after = call.value(0).dtype, call.output.dtype
    if "string" in (before, after):
        raise ExpressionError("it converts text", "cut the model with --from or --to")
    call.write("CAST", [call.tensor(0)])


@row("Reciprocal")
def reciprocal(call: Call) -> None:
    """Reciprocal: 1 over it."""
    call.write("DIV", [call.constant(1.0, "float32"), call.tensor(0)])


@row("IsNaN")
def is_nan(call: Call) -> None:
    """IsNaN: what is not equal to itself."""
    call.write("NOT_EQUAL", [call.tensor(0), call.tensor(0)])


@row("IsInf")
def is_infinite(call: Call) -> None:
    """IsInf: what equals an infinity, or the one that is asked for; without one nothing is, as of numbers both above
    and below.
    """
    above, below = (bool(call.attribute(f"detect_{sign}", 1)) for sign in ("positive", "negative"))
    tensor, end = call.tensor(0), np.inf if above or not below else -np.inf
    if above == below:
        tensor = call.step("ABS", [tensor], call.value(0).shape)
    if above or below:
        call.write("EQUAL", [tensor, call.constant(end, "float32")])
    else:
        call.write("LESS", [tensor, call.constant(-np.inf, "float32")])


@row("Sinh", "Cosh")
def hyperbolic(call: Call) -> None:
    """Sinh and Cosh: half the difference, or the sum, of both exponentials."""
    shape = call.value(0).shape
    halves = [
        call.step("MUL", [call.step("EXP", [each], shape), call.constant(0.5, "float32")], shape)
        for each in (call.tensor(0), call.step("NEG", [call.tensor(0)], shape))
    ]
    call.write("SUB" if call.op == "Sinh" else "ADD", halves)


@row("Atan")
def atan(call: Call) -> None:
    """Atan: the angle of it and 1, which any power of 0 is."""
    one = call.step("POW", [call.tensor(0), call.constant(0.0, "float32")], call.value(0).shape)
    call.write("ATAN2", [call.tensor(0), one])


def _sides(call: Call) -> list[int]:
    """1 and the operand added, and the operand taken from 1."""
    made = [call.draft.like(call.tensor(0), call.value(0).shape) for _ in range(2)]
    for operator, side in zip(("ADD", "SUB"), made, strict=True):
        call.write(operator, [call.constant(1.0, "float32"), call.tensor(0)], [side])
    return made


@row("Acos", "Asin")
def arc(call: Call) -> None:
    """Acos and Asin: the angle between it and the root of 1 less its square, as a product that stays exact near 1."""
    shape, x = call.value(0).shape, call.tensor(0)
    root = call.step("SQRT", [call.step("MUL", _sides(call), shape)], shape)
    call.write("ATAN2", [root, x] if call.op == "Acos" else [x, root])


@row("Atanh")
def atanh(call: Call) -> None:
    """Atanh: half the difference of two logarithms."""
    shape = call.value(0).shape
    logs = [call.step("LOG", [side], shape) for side in _sides(call)]
    call.write("MUL", [call.step("SUB", logs, shape), call.constant(0.5, "float32")])


def _log_above_one(call: Call, small: int, into: int | None = None) -> int:
    """The logarithm of 1 and a number that may be small: by how much more than that the rounded sum is it is divided
    by, and multiplied by the number.
    """
    shape, one = call.value(0).shape, call.constant(1.0, "float32")
    total = call.step("ADD", [small, one], shape)
    rest = call.step("SUB", [total, one], shape)
    counts, made = call.temporary(shape, "bool"), call.temporary(shape) if into is None else into
    call.write("NOT_EQUAL", [rest, call.constant(0.0, "float32")], [counts])
    divisor = call.temporary(shape)
    call.write("SELECT_V2", [counts, rest, one], [divisor])
    log = call.step("MUL", [call.step("LOG", [total], shape), call.step("DIV", [small, divisor], shape)], shape)
    call.write("SELECT_V2", [counts, log, small], [made])
    return made


@row("Acosh")
def acosh(call: Call) -> None:
    """Acosh: the logarithm of 1, what x is above 1, and the root of x squared less 1 as a product of two."""
    shape, operands = call.value(0).shape, [call.tensor(0), call.constant(1.0, "float32")]
    above = call.step("SUB", operands, shape)
    roots = [call.step("SQRT", [each], shape) for each in (above, call.step("ADD", operands, shape))]
    _log_above_one(call, call.step("ADD", [above, call.step("MUL", roots, shape)], shape), call.target())


_SQUARED = 1e18
"""The largest number whose square counts beside 1."""


@row("Asinh")
def asinh(call: Call) -> None:
    """Asinh of the size, with the sign: the logarithm of 1, x, and x squared over 1 and the root of 1 and that."""
    shape, one = call.value(0).shape, call.constant(1.0, "float32")
    size = call.step("ABS", [call.tensor(0)], shape)
    near = call.step("MINIMUM", [size, call.constant(_SQUARED, "float32")], shape)
    root = call.step("SQRT", [call.step("ADD", [call.step("MUL", [near, near], shape), one], shape)], shape)
    part = call.step("DIV", [near, call.step("ADD", [root, one], shape)], shape)
    log = _log_above_one(call, call.step("ADD", [size, call.step("MUL", [size, part], shape)], shape))
    call.write("MUL", [call.step("SIGN", [call.tensor(0)], shape), log])


@row("Tan")
def tan(call: Call) -> None:
    """Tan: sine over cosine."""
    shape = call.value(0).shape
    call.write("DIV", [call.step("SIN", [call.tensor(0)], shape), call.step("COS", [call.tensor(0)], shape)])


_ERF_ABOVE = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
              -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)  # fmt: skip
_ERF_BELOW = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
              -1.42647390514189e-02)  # fmt: skip
_ERF_LIMIT = 4.0


@row("Erf")
def erf(call: Call) -> None:
    """Erf as the quotient of polynomials that Eigen and XLA compute it by, right to the last digits of float32."""
    shape = call.value(0).shape

    def number(value: float) -> int:
        return call.constant(value, "float32")

    def polynomial(at: int, factors: tuple[float, ...]) -> int:
        last = call.step("ADD", [call.step("MUL", [at, number(factors[0])], shape), number(factors[1])], shape)
        for factor in factors[2:]:
            last = call.step("ADD", [call.step("MUL", [last, at], shape), number(factor)], shape)
        return last

    low = call.step("MAXIMUM", [call.tensor(0), number(-_ERF_LIMIT)], shape)
    bounded = call.step("MINIMUM", [low, number(_ERF_LIMIT)], shape)
    square = call.step("MUL", [bounded, bounded], shape)
    above, below = polynomial(square, _ERF_ABOVE), polynomial(square, _ERF_BELOW)
    call.write("DIV", [call.step("MUL", [bounded, above], shape), below])
