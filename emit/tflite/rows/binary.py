"""Operators on elements of several operands, which are broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.comparisons import COMPARING, COUNTED
from layoutsolve.emit.tflite.meanings import in_steps, only_number
from layoutsolve.emit.tflite.rows import broadcasting
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import alike, is_coarse, is_coarse_product
from layoutsolve.ir.graph import BYTES, Quant, Shape, Size, Value

_BINARY: Mapping[str, tuple[str, int]] = {
    "Add": ("ADD", 6),
    "BitwiseXor": ("BITWISE_XOR", 4),
    "And": ("LOGICAL_AND", 4),
    "Div": ("DIV", 5),
    "Equal": ("EQUAL", 4),
    "Greater": ("GREATER", 4),
    "GreaterOrEqual": ("GREATER_EQUAL", 4),
    "Less": ("LESS", 4),
    "LessOrEqual": ("LESS_EQUAL", 4),
    "Max": ("MAXIMUM", 5),
    "Min": ("MINIMUM", 5),
    "Mul": ("MUL", 6),
    "Or": ("LOGICAL_OR", 4),
    "Pow": ("POW", 4),
    "SquaredDifference": ("SQUARED_DIFFERENCE", 4),
    "Sub": ("SUB", 6),
    "Sum": ("ADD", 6),
    "Xor": ("NOT_EQUAL", 4),
}
"""The builtin operator of each, and the most dimensions that it broadcasts."""

_LIMITS = {**dict(_BINARY.values()), "FLOOR_MOD": 4, "RIGHT_SHIFT": 4}
"""By builtin operator the most dimensions that it broadcasts."""

_ACTIVATED = frozenset(("ADD", "DIV", "MUL", "SUB"))
_SELECT_LIMIT = 5

COMPUTING: Mapping[str, str] = {
    "Abs": "ABS", "Add": "ADD", "Div": "DIV", "Mul": "MUL", "Neg": "NEG", "Relu": "MAXIMUM", "Sub": "SUB",
}  # fmt: skip
"""The operators whose kernels compute with what integers mean, which is not asked for of those that are read as they
are stored, and the kernels of int32.
"""


def write_stored(call: Call) -> None:
    """Write one of these of integers as they are stored: in int32, of which a CAST keeps the last bits as ONNX does."""
    wide = [call.temporary(call.graph.values[name].shape, "int32") for name in call.node.inputs]
    for name, tensor in zip(call.node.inputs, wide, strict=True):
        call.write("CAST", [call.draft.value(name)], [tensor])
    made = call.temporary(call.output.shape, "int32")
    call.write(COMPUTING[call.op], [*wide, call.constant(0)] if call.op == "Relu" else wide, [made])
    call.write("CAST", [made])


def _operands(call: Call) -> bool:
    """Whether both operands and the result are integers of one type."""
    values = [call.output, *(call.value(number) for number in range(len(call.node.inputs)))]
    return len(values) == 3 and all(in_steps(each) and each.dtype == values[0].dtype for each in values)


def _sums(call: Call) -> bool:
    """Whether a kernel adds operands in the steps of a result."""
    coarse = any(is_coarse(call.value(number), call.output) for number in range(len(call.node.inputs)))
    return _operands(call) and not coarse


def _factors(call: Call) -> bool:
    """Whether a kernel multiplies operands in the steps of a result, which it has to round to: LiteRT's without XNNPACK
    gives wrong numbers where their product has larger ones.
    """
    return _operands(call) and not is_coarse_product(call.value(0), call.value(1), call.output, 1)


def _differ(call: Call) -> bool:
    """Whether a kernel squares the difference of signed bytes in the steps of a result."""
    pairs = ((call.value(one), call.value(other)) for one, other in ((0, 0), (1, 1)))
    return (
        _factors(call)
        and call.output.dtype == "int8"
        and not any(is_coarse_product(one, other, call.output, 1) for one, other in pairs)
    )


def _one_scale(call: Call) -> bool:
    """Whether all operands and the result are integers in the same steps."""
    return _operands(call) and alike(call)


def _widened(call: Call, tensor: int, value: Value) -> int:
    """Bytes as int32: LiteRT compares no bytes that have no scales (it ends the process, ``comparisons.cc``)."""
    if value.data is not None:
        return call.constant(value.data)
    wide = call.temporary(value.shape, "int32")
    call.write("CAST", [tensor], [wide])
    return wide


def _counts(call: Call) -> bool:
    """Whether bytes are compared as kernels do it, by fractions of what they mean."""
    return bool(call.attribute(COUNTED, 0))


def _broadcast(one: Shape, other: Shape) -> Shape:
    """The shape of what two tensors are broadcast to; of two sizes that must be equal, the one that is known."""
    rank = max(len(one), len(other))
    full = [(*(1 for _ in range(rank - len(shape))), *shape) for shape in (one, other)]
    return tuple(
        right if left == 1 or (isinstance(left, Size) and right != 1) else left
        for left, right in zip(*full, strict=True)
    )


def _binary(call: Call) -> None:
    """Write an operator of two operands, or of more, one after the other."""
    operator, limit = _BINARY[call.op]
    values = [call.value(number) for number in range(len(call.node.inputs))]
    operands = [call.tensor(number) for number in range(len(values))]
    if call.op in COMPARING and values[0].dtype in BYTES and not _counts(call):
        operands = [_widened(call, tensor, value) for tensor, value in zip(operands, values, strict=True)]
    last, shape = operands[0], values[0].shape
    if len(values) == 1:
        call.reshape(last, shape, call.target())
        return
    for number, value in enumerate(values[1:], 1):
        final = number == len(values) - 1
        after = call.output.shape if final else _broadcast(shape, value.shape)
        options: dict[str, Any] = {"fused_activation_function": call.activation if final else 0}
        if operator == "ADD" or operator == "SUB":
            options["pot_scale_int16"] = value.dtype != "int16"
        into = call.target() if final else call.temporary(after, value.dtype)
        shapes = (shape, value.shape, after)
        given = options if operator in _ACTIVATED else {}
        broadcasting.write(call, operator, [last, operands[number]], shapes, into, limit, **given)
        last, shape = into, after


_INFINITE = {-np.inf: ("LessOrEqual", np.finfo(np.float32).min), np.inf: ("GreaterOrEqual", np.finfo(np.float32).max)}
"""By infinity, what an equal number is to the last finite one: kernels that have an activation give that instead."""

_PASSING = ("Cast", "Identity", "Reshape")
"""What may be between a constant and what compares with it."""


def _equal(call: Call) -> None:
    """Equal; to an infinity, which masks of attention have where nothing is seen, in floats that may be limited."""
    for number in range(2):
        value = call.value(number)
        while (maker := call.graph.producer(value.name)) is not None and maker.op in _PASSING:
            value = call.graph.values[maker.inputs[0]]
        end = only_number(value)
        if value.dtype != "float32" or end is None or end not in _INFINITE:
            continue
        operator, limit = _INFINITE[end]
        shapes = (call.value(1 - number).shape, call.value(number).shape, call.output.shape)
        operands = [call.tensor(1 - number), call.constant(np.full(shapes[1], limit), "float32")]
        name, most = _BINARY[operator]
        broadcasting.write(call, name, operands, shapes, call.target(), most)
        return
    _binary(call)


_MOST_RESCALED = 1 << 16
_WHOLE = 127
"""In how many steps a factor is stored, of which bytes have this many at least."""


def _rescaled(call: Call) -> tuple[int, Quant, float] | None:
    """Which operand of a product of bytes is multiplied by a positive number alone, its steps, and the number; None
    where none is, or in steps that are too far from those of the result.
    """
    made = call.output
    for number in range(2):
        value, factor = call.value(number), only_number(call.value(1 - number))
        quant = value.quant if in_steps(value) and value.data is None else None
        if quant is None or factor is None or made.quant is None:
            continue
        most = _WHOLE if call.activation else _MOST_RESCALED  # as a kernel of products alone has an activation
        near = 1 / _MOST_RESCALED < quant.scale[0] * factor / made.quant.scale[0] < most
        return (number, quant, factor) if near and (value.dtype, value.shape) == (made.dtype, made.shape) else None
    return None


def _is_product(call: Call) -> bool:
    """Whether kernels on integers give a product."""
    return _factors(call) or _rescaled(call) is not None


@row("Mul", quantized=_is_product)
def multiplication(call: Call) -> None:
    """Mul; int8 or uint8 by one number, of any type, as by 127 steps of it. Where the product has steps that the kernel
    does not take it gives the same integers in other steps, which are stored anew.
    """
    found, made = None if _factors(call) else _rescaled(call), call.output.quant
    if found is None or made is None:
        _binary(call)
        return
    number, quant, factor = found
    value = call.value(number)
    part = Quant(np.array([factor / _WHOLE], np.float32), np.zeros(1, np.dtype(value.dtype)))
    operands = [call.tensor(number), call.number("factor", _WHOLE, value.dtype, part)]
    if quant.scale[0] * part.scale[0] < made.scale[0]:
        call.write("MUL", operands, fused_activation_function=call.activation)
        return
    steps = replace(quant, scale=(quant.scale * factor).astype(np.float32))
    meant = call.temporary(value.shape, value.dtype, steps)
    call.write("MUL", operands, [meant])
    call.write("QUANTIZE", [meant])


row("Add", "Sub", quantized=_sums)(_binary)
row("Max", "Min", quantized=_one_scale)(_binary)
row("SquaredDifference", quantized=_differ)(_binary)
row("Equal", quantized=_counts)(_equal)
row(*(COMPARING - {"Equal"}), quantized=_counts)(_binary)
row(*(_BINARY.keys() - {"Add", "Div", "Max", "Min", "Mul", "Pow", "SquaredDifference", "Sub"} - COMPARING))(_binary)


@row("Div")
def division(call: Call) -> None:
    """Div; of int64, for which there is no kernel, what is left when the remainder is gone is divided in float32: each
    of three times what is left of that is 2^22 times less, and then there is nothing.
    """
    if call.value(0).dtype != "int64":
        _binary(call)
        return
    one, other = (Whole(call, call.tensor(number), call.value(number).shape) for number in range(2))
    rest, zero = one.with_("FLOOR_MOD", other), Whole(call, call.constant(0, "int64"), ())
    signs = one.with_("LESS", zero, "bool").with_("NOT_EQUAL", other.with_("LESS", zero, "bool"), "bool")
    turned = rest.with_("NOT_EQUAL", zero, "bool").with_("LOGICAL_AND", signs, "bool")  # it has the divisor's sign
    left = one.with_("SUB", rest.with_("SUB", turned.cast("int64").with_("MUL", other)))
    parts = list[Whole]()
    for _ in range(_TIMES):
        ratio = left.cast("float32").with_("DIV", other.cast("float32"))
        parts.append(replace(ratio, tensor=call.step("ROUND", [ratio.tensor], ratio.shape)).cast("int64"))
        left = left.with_("SUB", parts[-1].with_("MUL", other))
    first, second, last = parts
    first.with_("ADD", second).with_("ADD", last, into=call.target())


_TIMES = 3
"""How often 22 bits of a quotient are found: that of two floats, each rounded, is right to so many."""


@dataclass(frozen=True)
class Whole:
    """A tensor in a computation of several steps, whose operands are broadcast."""

    call: Call
    tensor: int
    shape: Shape

    def with_(self, operator: str, other: Whole, dtype: str = "", into: int | None = None) -> Whole:
        """What an operator gives of this and another one, of the same type or another."""
        call, shape = self.call, _broadcast(self.shape, other.shape)
        made = call.temporary(shape, dtype or call.draft.tensors[self.tensor].dtype) if into is None else into
        shapes, limit = (self.shape, other.shape, shape), _LIMITS[operator]
        broadcasting.write(call, operator, [self.tensor, other.tensor], shapes, made, limit)
        return Whole(call, made, shape)

    def cast(self, dtype: str) -> Whole:
        """The same numbers of another type."""
        made = self.call.temporary(self.shape, dtype)
        self.call.write("CAST", [self.tensor], [made])
        return Whole(self.call, made, self.shape)


@row("Pow")
def power(call: Call) -> None:
    """Pow; squares and cubes by products, as XNNPACK has no kernel for POW."""
    base, exponent = call.value(0), only_number(call.value(1))
    if base.dtype != "float32" or exponent not in (2, 3) or base.shape != call.output.shape:
        _binary(call)
    elif exponent == 2:
        call.write("SQUARE", [call.tensor(0)])
    else:
        call.write("MUL", [call.step("SQUARE", [call.tensor(0)], base.shape), call.tensor(0)])


@row("Mean")
def mean(call: Call) -> None:
    """Mean of several operands: their sum over their number."""
    count, last, shape = len(call.node.inputs), call.tensor(0), call.value(0).shape
    for number in range(1, count):
        shape = _broadcast(shape, call.value(number).shape)
        last = call.step("ADD", [last, call.tensor(number)], shape)
    call.write("MUL", [last, call.constant(1 / count, "float32")])


@row("Mod")
def mod(call: Call) -> None:
    """Mod with the sign of the divisor; with that of the dividend it is one of sizes, turned around where that is
    negative.
    """
    values, dtype = [call.value(number) for number in range(2)], call.value(0).dtype
    if not call.attribute("fmod", 0):
        shapes = [*(value.shape for value in values), call.output.shape]
        operands = [call.tensor(0), call.tensor(1)]
        broadcasting.write(call, "FLOOR_MOD", operands, shapes, call.target(), _LIMITS["FLOOR_MOD"])
        return
    sizes = [_size(call, call.tensor(number), value) for number, value in enumerate(values)]
    made = call.output.shape
    rest = call.step("FLOOR_MOD", sizes, made)
    negative = call.temporary(values[0].shape, "bool")
    call.write("LESS", [call.tensor(0), call.constant(0, dtype)], [negative])
    turned = call.step("NEG", [rest], made)
    shapes = [values[0].shape, made, made, made]
    broadcasting.write(call, "SELECT_V2", [negative, turned, rest], shapes, call.target(), _SELECT_LIMIT)


def _size(call: Call, tensor: int, value: Value) -> int:
    """Numbers without their signs; ABS takes no int64."""
    if value.dtype != "int64":
        return call.step("ABS", [tensor], value.shape)
    return call.step("MAXIMUM", [tensor, call.step("NEG", [tensor], value.shape)], value.shape)


@row("Where")
def where(call: Call) -> None:
    """Where: SELECT_V2."""
    values = [call.value(number) for number in range(3)]
    shapes = [*(value.shape for value in values), call.output.shape]
    inputs = [call.tensor(number) for number in range(3)]
    broadcasting.write(call, "SELECT_V2", inputs, shapes, call.target(), _SELECT_LIMIT)
