"""StableHLO operators: those that a TensorFlow Lite operator does as well, and simple ones of their own.

They compute on what is stored: quantization means nothing to LiteRT's kernels of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers, own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.bitwise import shift_left
from layoutsolve.frontend.tflite.operators.elementwise import check_divisor
from layoutsolve.frontend.tflite.operators.shared.common import (
    as_stored,
    cast_to,
    store,
    write_extremum,
    write_stored,
)
from layoutsolve.ir.graph import Array, Value

_SAME: Mapping[str, str] = {
    "STABLEHLO_ABS": "ABS",
    "STABLEHLO_CONVERT": "CAST",
    "STABLEHLO_COSINE": "COS",
    "STABLEHLO_DIVIDE": "DIV",
    "STABLEHLO_EXPONENTIAL": "EXP",
    "STABLEHLO_FLOOR": "FLOOR",
    "STABLEHLO_LOG": "LOG",
    "STABLEHLO_LOGISTIC": "LOGISTIC",
    "STABLEHLO_NEGATE": "NEG",
    "STABLEHLO_RSQRT": "RSQRT",
    "STABLEHLO_SELECT": "SELECT_V2",
    "STABLEHLO_SUBTRACT": "SUB",
    "STABLEHLO_TANH": "TANH",
    "STABLEHLO_WHILE": "WHILE",
}
_COMPARISONS = (
    ("Equal", False),
    ("Equal", True),
    ("GreaterOrEqual", False),
    ("Greater", False),
    ("LessOrEqual", False),
    ("Less", False),
)
"""By the number of a direction of comparison, ONNX's operator and whether its result is negated."""

_LOGIC = {"STABLEHLO_ADD": "Or", "STABLEHLO_MAXIMUM": "Or", "STABLEHLO_MULTIPLY": "And", "STABLEHLO_MINIMUM": "And"}
_ARITHMETIC = {
    "STABLEHLO_ADD": "Add",
    "STABLEHLO_MULTIPLY": "Mul",
    "STABLEHLO_MAXIMUM": "Max",
    "STABLEHLO_MINIMUM": "Min",
}
_EXTREMES = ("STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")

_WIDER = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}
"""Types with which ONNX Runtime does not compute, and what they are widened to; cast back, sums wrap around."""

_PLAIN = ("float32", "float64", "float16", "int32", "int64", *_WIDER)
PLAIN = "convert the model to TensorFlow Lite's own operators"


def unquantized(call: Call) -> None:
    """Refuse quantized tensors, for which LiteRT has no kernel."""
    results = [call.slot(position).quant for position in range(len(call.operator.outputs))]
    if any(quant is not None for quant in (*(value.quant for value in call.inputs()), *results)):
        raise GapError("it computes on quantized tensors", PLAIN)


@lowers("STABLEHLO_ABS", "STABLEHLO_NEGATE", signature="FZ -> =")
@lowers("STABLEHLO_CONVERT", signature="FZB -> FZB")
@lowers(
    "STABLEHLO_COSINE",
    "STABLEHLO_EXPONENTIAL",
    "STABLEHLO_FLOOR",
    "STABLEHLO_LOG",
    "STABLEHLO_LOGISTIC",
    "STABLEHLO_RSQRT",
    "STABLEHLO_TANH",
    signature="F -> =",
)
@lowers("STABLEHLO_DIVIDE", "STABLEHLO_SUBTRACT", signature="FZ = -> =")
@lowers("STABLEHLO_SELECT", signature="B FZB =1 -> =1")
@lowers("STABLEHLO_WHILE", signature="FZBSCR* -> FZBSCR*")
def same(call: Call) -> None:
    """Operators that TensorFlow Lite has under another name."""
    unquantized(call)
    name = _SAME[call.operator.name]
    if name in ("DIV", "SUB"):
        alike(call)
    own_lowering(name)(call.restated(call.operator.options if name == "WHILE" else {}, name))


def alike(call: Call) -> tuple[Value, Value]:
    """The stored numbers of both operands, which have one shape and type."""
    a, b = as_stored(call, call.input(0)), as_stored(call, call.input(1))
    if not call.agree(a.shape, b.shape) or a.dtype != b.dtype:
        raise ModelError(f"{call.origin} reads {a} and {b}, which have to be alike")
    return a, b


@lowers("STABLEHLO_POWER", signature="FZ = -> =")
def power(call: Call) -> None:
    """Powers; of integers by constants they are products, which wrap where they are larger than their type and are
    exact: ONNX's Pow computes them as float64.
    """
    unquantized(call)
    a, b = alike(call)
    if a.dtype.startswith("float") or (a.dtype not in _WIDER and (b.data is None or b.data.min(initial=0) < 0)):
        own_lowering("POW")(call.restated({}, "POW"))
        return
    if b.data is None or b.data.min(initial=0) < 0:
        raise GapError(f"it computes powers of {a.dtype}", "use int32, or constant exponents that are not negative")
    wide = _WIDER.get(a.dtype, a.dtype)
    store(call, _product(call, cast_to(call, a, wide, "wide"), b.data.astype(np.int64)), call.slot())


def _product(call: Call, square: Value, exponents: Array) -> Value:
    """Powers as products of the squares of squares that the bits of their exponents say."""
    dtype, shape = square.dtype, square.shape
    one, result = call.constant(1, "one", dtype), call.constant(np.ones(exponents.shape), "ones", dtype)
    for bit in range(int(exponents.max(initial=0)).bit_length()):
        if bit:
            square = call.write("Mul", [square, square], shape, call.temporary("square", dtype), real=dtype)
        chosen = exponents >> bit & 1 != 0
        factor = square
        if not chosen.all():
            mask, slot = call.constant(chosen, "bits", "bool"), call.temporary("factor", dtype)
            factor = call.write("Where", [mask, square, one], shape, slot, real=dtype)
        result = call.write("Mul", [result, factor], shape, call.temporary("power", dtype), real=dtype)
    return result


@lowers(*_ARITHMETIC, signature="FZB = -> =")
def arithmetic(call: Call) -> None:
    """Binary operators; of truth values the sum is the disjunction."""
    a, b = alike(call)
    write_binary(call, call.operator.name, a, b, call.slot())


def write_binary(call: Call, name: str, a: Value, b: Value, slot: Slot) -> None:
    """Write an operator of two tensors of stored numbers."""
    if a.dtype == "bool":
        call.write(_LOGIC[name], [a, b], a.shape, slot)
        return
    if a.dtype not in _PLAIN:
        raise GapError(f"it computes with {a.dtype}", "use float32 or int32")
    if name in _EXTREMES:
        _extremum(call, _ARITHMETIC[name], a, b, slot)
        return
    _widened(call, _ARITHMETIC[name], a, b, slot)


def _widened(call: Call, op: str, a: Value, b: Value, slot: Slot) -> Value:
    """Write an operator of stored numbers in a type with which ONNX Runtime computes."""
    wide = _WIDER.get(a.dtype, a.dtype)
    given = [cast_to(call, each, wide, "wide") for each in (a, b)]
    return write_stored(call, op, given, a.shape, slot, wide)


def _extremum(call: Call, op: str, a: Value, b: Value, slot: Slot) -> Value:
    """Write a Max or Min of stored numbers: those of uint32 need not be widened."""
    if a.dtype == "uint32" or a.dtype not in _WIDER:
        return write_extremum(call, op, a, b, a.shape, slot)
    return _widened(call, op, a, b, slot)


@lowers("STABLEHLO_AND", "STABLEHLO_OR", signature="FZB = -> =")
def bits(call: Call) -> None:
    """The conjunction and disjunction of truth values, or of the bits of integers."""
    a, b = alike(call)
    op = "And" if call.operator.name == "STABLEHLO_AND" else "Or"
    if a.dtype == "bool":
        call.write(op, [a, b], a.shape, call.slot())
        return
    if a.dtype.startswith("float"):
        raise GapError(f"it takes the bits of {a.dtype}", "use integers or truth values")
    write_stored(call, f"Bitwise{op}", [a, b], a.shape, call.slot(), a.dtype)


@lowers("STABLEHLO_SHIFT_LEFT", signature="FZ = -> =")
def shift(call: Call) -> None:
    """Bits moved to the left; those that leave are lost."""
    a, b = alike(call)
    shift_left(call, a, b, call.slot())


@lowers("STABLEHLO_REMAINDER", signature="FZ = -> =")
def remainder(call: Call) -> None:
    """The remainder with the sign of the dividend."""
    unquantized(call)
    a, b = alike(call)
    check_divisor(call, b)
    call.write("Mod", [a, b], a.shape, call.slot(), fmod=1)


@lowers("STABLEHLO_CBRT", signature="F -> =")
def cube_root(call: Call) -> None:
    """The cube root, with the sign of its operand."""
    unquantized(call)
    x = call.input(0)
    if not x.dtype.startswith("float"):
        raise ModelError(f"{call.origin} takes the root of {x.dtype}")
    third = [call.write("Abs", [x], x.shape, call.temporary("abs", x.dtype)), call.constant(1 / 3, "third", x.dtype)]
    root = call.write("Pow", third, x.shape, call.temporary("root", x.dtype))
    sign = call.write("Sign", [x], x.shape, call.temporary("sign", x.dtype))
    call.write("Mul", [root, sign], x.shape, call.slot())


@lowers("STABLEHLO_CLAMP", signature="FZ = = -> =")
def clamp(call: Call) -> None:
    """The second operand between the first and the third, which may be scalars."""
    unquantized(call)
    low, x, high = call.inputs()
    if len({low.dtype, x.dtype, high.dtype}) != 1 or any(each.shape not in ((), x.shape) for each in (low, high)):
        raise ModelError(f"{call.origin} clamps {x} to {low} and {high}")
    if x.dtype not in _PLAIN:
        raise GapError(f"it clamps {x.dtype}", "use float32 or int32")
    raised = _extremum(call, "Max", x, low, call.temporary("raised", x.dtype))
    _extremum(call, "Min", raised, high, call.slot())


@lowers("STABLEHLO_COMPARE", signature="FZB = -> B")
def compare(call: Call) -> None:
    """A comparison, by its direction."""
    unquantized(call)
    direction = call.option("comparison_direction")
    if not 0 <= direction < len(_COMPARISONS):
        raise ModelError(f"{call.origin} compares in the unknown direction {direction}")
    a, b = alike(call)
    wide = "int32" if a.dtype == "bool" else _WIDER.get(a.dtype, a.dtype)
    operands = [cast_to(call, each, wide, "wide") for each in (a, b)]
    op, negated = _COMPARISONS[direction]
    result = call.write(op, operands, a.shape, call.temporary("equal", "bool") if negated else call.slot(), real="bool")
    if negated:
        call.write("Not", [result], a.shape, call.slot())
