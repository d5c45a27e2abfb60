"""Arithmetic, element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.registry import INT8, INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.rounding import multiplied, settled, tied
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import (
    BYTES,
    as_stored,
    cast_to,
    copy,
    lift_of,
    raised,
    rounded_away,
    store,
    write_activated,
    write_extremum,
    write_stored,
)
from layoutsolve.ir.graph import Quant, Shape, Value

_BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "POW": "Pow", "MAXIMUM": "Max", "MINIMUM": "Min"}
_UNARY = {
    "EXP": "Exp",
    "LOG": "Log",
    "SIN": "Sin",
    "COS": "Cos",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
}

_TRIED = 16
"""How many numbers of a constant are tried to find out how its products are rounded."""

_MOST = 2.0**14
"""The steps of the result that the product of two steps may be, so that products of bytes stay below 2^31."""


def operands(call: Call) -> tuple[Value, Value, Shape]:
    """Both inputs of a binary operator and the shape they broadcast to."""
    a, b = call.input(0), call.input(1)
    return a, b, broadcast([a.shape, b.shape], call.arithmetic)


def check_divisor(call: Call, divisor: Value) -> None:
    """Raise where integers are divided by a constant that has a zero, or may have one as it is computed from others, or
    by what a variable begins with.

    No runtime has a result for that, and ONNX Runtime refuses the model.
    """
    if real_dtype(divisor).startswith("float"):
        return
    begun = call.lowering.begun(call.operator.inputs[1])
    if begun is not None and begun.data is not None and not begun.data.all():
        raise GapError("it divides integers by a variable, which begins as zeros", "divide by constants without zeros")
    if not call.is_fixed(divisor):
        return
    if divisor.data is None:
        raise GapError("it divides integers by what is computed from constants, perhaps zeros", "make it a constant")
    if not divisor.data.all():
        raise GapError("it divides integers by a constant that holds a zero", "divide by constants without zeros")


@lowers("ADD", "SUB", "MUL", signature="FZ = -> =", quantized=INT8)
@lowers("DIV", signature="FZ = -> =", quantized=INT8_AND_INT16)
@lowers("POW", signature="FZ = -> =")
def binary(call: Call) -> None:
    """Binary operators that ONNX has; integer DIV truncates in both."""
    a, b, shape = operands(call)
    if call.operator.name == "DIV" and b.quant is not None and not b.quant.scale.all():
        raise GapError("it divides by a constant whose scale is zero", "divide by constants without zeros")
    if call.operator.name == "DIV" and b.quant is None:
        check_divisor(call, b)
    slot, op = call.slot(), _BINARY[call.operator.name]
    if op == "Sub" and b.data is not None and b.data.size == 1 and _of_bytes(a, b, slot):
        op, b = "Add", _negated(call, b)
    if call.operator.name in ("ADD", "SUB") and _meets_halves(a, b, slot):
        store(call, write_activated(call, op, [a, b], shape, rounded_away(call, slot)), slot)
        return
    if call.operator.name == "MUL" and _of_bytes(a, b, slot):
        a, b = _settled(call, a, b, slot), _settled(call, b, a, slot)
    write_activated(call, op, [a, b], shape, slot)


def _negated(call: Call, value: Value) -> Value:
    """One number in bytes with the other sign: runtimes have kernels on integers that add, and none that subtract.
    Where few numbers are repeated, those are slower than floats.
    """
    if value.data is None or value.quant is None:
        return value
    quant = Quant(value.quant.scale, np.invert(value.quant.zero_point))
    return call.constant(np.invert(value.data), "negated", value.dtype, quant)


def _of_bytes(a: Value, b: Value, slot: Slot) -> bool:
    """Whether two operands and the result are bytes with parameters for all of them."""
    quants = (a.quant, b.quant, slot.quant)
    if any(dtype not in BYTES for dtype in (a.dtype, b.dtype, slot.dtype)):
        return False
    return all(quant is not None and quant.axis is None and quant.scale.all() for quant in quants)


def _settled(call: Call, factor: Value, x: Value, slot: Slot) -> Value:
    """A constant factor, if it is one, with the scale by which most products are rounded as LiteRT rounds them."""
    if factor.data is None or x.data is not None or not (factor.quant and x.quant and slot.quant):
        return factor
    step = float(factor.quant.scale[0] * x.quant.scale[0] / slot.quant.scale[0])
    counts = np.unique(factor.data).astype(np.int64) - int(factor.quant.zero_point[0])
    counts = np.unique(counts[np.linspace(0, counts.size - 1, _TRIED).astype(int)]) if counts.size else counts
    low, high = limits(x.dtype)
    products = np.multiply.outer(np.arange(low, high + 1) - int(x.quant.zero_point[0]), counts)
    products = products[products != 0]
    if not products.size or not 0 < step < _MOST:
        return factor
    least, greatest = (bound - int(slot.quant.zero_point[0]) for bound in limits(slot.dtype))
    scale = settled(1.0, products * step, multiplied(products, step), least, greatest)
    quant = Quant((factor.quant.scale * scale).astype(np.float32), factor.quant.zero_point)
    return call.constant(factor.data, "factor", factor.dtype, quant)


def _meets_halves(a: Value, b: Value, slot: Slot) -> bool:
    """Whether LiteRT's sums of bytes meet halves, which it rounds away from zero."""
    return _of_bytes(a, b, slot) and tied(_terms(a, slot), _terms(b, slot))


def _terms(value: Value, slot: Slot) -> Iterable[float]:
    """What an operand is made of, in steps of the result: its own step, or the numbers of a constant; nothing where one
    of them has no steps.
    """
    if value.quant is None or slot.quant is None:
        return ()
    step = float(value.quant.scale[0]) / float(slot.quant.scale[0])
    if value.data is None:
        return (step,)
    counts = np.unique(value.data).astype(np.int64) - int(value.quant.zero_point[0])
    return (count * step for count in counts.tolist())


@lowers("MAXIMUM", "MINIMUM", signature="FZ = -> =")
def extremum(call: Call) -> None:
    """MAXIMUM and MINIMUM. ONNX Runtime compares no 8-bit or 16-bit integers; plain ones are widened."""
    a, b, shape = operands(call)
    op, slot = _BINARY[call.operator.name], call.slot()
    if real_dtype(a) not in ("int8", "int16", "uint8"):
        write_extremum(call, op, a, b, shape, slot)
        return
    wide = [call.write("Cast", [v], v.shape, call.temporary("wide", "int32"), real="int32", to="int32") for v in (a, b)]
    result = call.write(op, wide, shape, call.temporary("extremum", "int32"))
    call.write("Cast", [result], shape, slot, real=real_dtype(a), to=slot.dtype)


@lowers("NEG", signature="FZ -> =")
def neg(call: Call) -> None:
    """NEG, of integers as they are stored."""
    x = as_stored(call, call.input(0))
    write_stored(call, "Neg", [x], x.shape, call.slot(), x.dtype)


@lowers("EXP", "LOG", signature="FQ -> =", quantized=INT8_AND_INT16)
@lowers("SIN", "COS", "FLOOR", "CEIL", "ROUND", signature="F -> =")
def unary(call: Call) -> None:
    """Unary operators that ONNX has; ROUND is half to even in both."""
    x = call.input(0)
    call.write(_UNARY[call.operator.name], [x], x.shape, call.slot())


@lowers("SQRT", signature="FQ -> =", quantized=INT8_AND_INT16)
def square_root(call: Call) -> None:
    """SQRT. That of stored integers is rounded down: by half a step less, and a little for float32 to lose."""
    x, slot = call.input(0), call.slot()
    if x.quant is None or slot.quant is None:
        call.write("Sqrt", [x], x.shape, slot)
        return
    root = call.write("Sqrt", [x], x.shape, call.temporary("sqrt", real_dtype(x)))
    loss = 2.0**-8 if slot.dtype == "int16" else 2.0**-14
    raised(call, root, (loss - 0.5) * float(slot.quant.scale[0]), slot)


@lowers("SIGN", signature="FZ -> =")
def sign(call: Call) -> None:
    """SIGN. Int64 is compared with zero: ONNX Runtime's Sign (1.31) is wrong where its Max is."""
    x, slot = call.input(0), call.slot()
    if x.dtype != "int64":
        call.write("Sign", [x], x.shape, slot)
        return
    zero = call.constant(0, "zero", "int64")
    above, below = (
        cast_to(call, call.write(op, [x, zero], x.shape, call.temporary(label, "bool")), "int64", f"is_{label}")
        for op, label in (("Greater", "above"), ("Less", "below"))
    )
    call.write("Sub", [above, below], x.shape, slot)


@lowers("ABS", signature="FZ -> =", quantized=INT8)
def absolute(call: Call) -> None:
    """ABS."""
    x, slot = call.input(0), call.slot()
    lift = lift_of(x, slot)
    size = call.write("Abs", [x], x.shape, call.temporary("size") if lift else slot)
    raised(call, size, lift, slot)


@lowers("RSQRT", signature="FQ -> =", quantized=INT8_AND_INT16)
def rsqrt(call: Call) -> None:
    """RSQRT = 1 / sqrt(x)."""
    x = call.input(0)
    root = call.write("Sqrt", [x], x.shape, call.temporary("sqrt", real_dtype(x)))
    call.write("Reciprocal", [root], x.shape, call.slot())


@lowers("SQUARE", signature="F -> =")
def square(call: Call) -> None:
    """SQUARE = x * x."""
    x = call.input(0)
    call.write("Mul", [x, x], x.shape, call.slot())


@lowers("SQUARED_DIFFERENCE", signature="FZ = -> =", quantized=INT8_AND_INT16)
def squared_difference(call: Call) -> None:
    """SQUARED_DIFFERENCE = (a - b) * (a - b)."""
    a, b, shape = operands(call)
    difference = call.write("Sub", [a, b], shape, call.temporary("difference", real_dtype(a)))
    call.write("Mul", [difference, difference], shape, call.slot())


@lowers("ADD_N", signature="FZ = =* -> =")
def add_n(call: Call) -> None:
    """ADD_N, one addition after another."""
    total, *rest = call.inputs()
    if not rest:
        copy(call, total)
    for position, term in enumerate(rest):
        slot = call.slot() if position == len(rest) - 1 else call.temporary("sum", real_dtype(total))
        total = call.write("Add", [total, term], broadcast([total.shape, term.shape], call.arithmetic), slot)


def _divided(call: Call) -> tuple[Value, Value, Shape]:
    """What is divided as it is stored, a divisor that is not zero, and the shape of the result."""
    a, b, shape = operands(call)
    a, b = as_stored(call, a), as_stored(call, b)
    check_divisor(call, b)
    return a, b, shape


@lowers("FLOOR_DIV", signature="FZ = -> =")
def floor_div(call: Call) -> None:
    """FLOOR_DIV rounds down, integers as they are stored; ONNX divides them towards zero: the remainder goes first."""
    a, b, shape = _divided(call)
    dtype = a.dtype
    if dtype.startswith("float"):
        ratio = call.write("Div", [a, b], shape, call.temporary("ratio", dtype))
        call.write("Floor", [ratio], shape, call.slot())
        return
    wide = [cast_to(call, each, "int64", "wide") for each in (a, b)]  # the multiple may be below the smallest number
    remainder = call.write("Mod", wide, shape, call.temporary("remainder", "int64"))
    multiple = call.write("Sub", [wide[0], remainder], shape, call.temporary("multiple", "int64"))
    write_stored(call, "Div", [multiple, wide[1]], shape, call.slot(), "int64")


@lowers("FLOOR_MOD", signature="FZ = -> =")
def floor_mod(call: Call) -> None:
    """FLOOR_MOD has the sign of the divisor, as ONNX's Mod has for (stored) integers; for floats fmod is corrected."""
    a, b, shape = _divided(call)
    dtype = a.dtype
    if not dtype.startswith("float"):
        write_stored(call, "Mod", [a, b], shape, call.slot(), dtype)
        return

    def truth(label: str) -> Slot:
        return call.temporary(label, "bool")

    zero = call.constant(0, "zero", dtype)
    rest = call.write("Mod", [a, b], shape, call.temporary("fmod", dtype), fmod=1)
    negative = call.write("Less", [rest, zero], shape, truth("negative"), real="bool")
    below = call.write("Less", [b, zero], b.shape, truth("below"), real="bool")
    differ = call.write("Xor", [negative, below], shape, truth("differ"))
    exact = call.write("Equal", [rest, zero], shape, truth("exact"), real="bool")
    inexact = call.write("Not", [exact], shape, truth("inexact"))
    wrong = call.write("And", [differ, inexact], shape, truth("wrong"))
    moved = call.write("Add", [rest, b], shape, call.temporary("moved", dtype))
    call.write("Where", [wrong, moved, rest], shape, call.slot(), real=dtype)


@lowers("ATAN2", signature="F = -> =")
def atan2(call: Call) -> None:
    """ATAN2 of y and x: the angle of their absolute values, mirrored where x and where y is negative, -0 included."""
    y, x, shape = operands(call)
    slot = call.slot()
    if call.origin.operator == "ATAN2" and not call.agree(x.shape, y.shape):  # TensorFlow's own repeats operands
        raise ModelError(f"{call.origin} reads {y} and {x}, which have to be alike")
    if y.dtype not in ("float32", "float16"):
        raise GapError(f"it computes angles of {y.dtype}", "use float32")

    def step(op: str, *given: Value, dtype: str = y.dtype) -> Value:
        result = broadcast([each.shape for each in given], call.arithmetic)
        return call.write(op, given, result, call.temporary(op.lower(), dtype), real=dtype)

    def negative(value: Value) -> Value:
        below = step("Less", value, zero, dtype="bool")
        return step("Or", below, step("Less", step("Reciprocal", value), zero, dtype="bool"), dtype="bool")

    zero = call.constant(0, "zero", y.dtype)
    rise, run = step("Abs", y), step("Abs", x)
    even = step("Equal", rise, run, dtype="bool")  # 0 / 0 is the angle 0, inf / inf that of 1
    acute = step("Atan", step("Where", even, step("Sign", rise), step("Div", rise, run)))
    obtuse = step("Sub", call.constant(np.pi, "pi", y.dtype), acute)
    angle = step("Where", negative(x), obtuse, acute)
    call.write("Where", [negative(y), step("Neg", angle), angle], shape, slot, real=y.dtype)
