"""Operators on elements: of one operand, and of several that are broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from layoutsolve.emit.tflite import fusion
from layoutsolve.emit.tflite.comparisons import COMPARING, COUNTED
from layoutsolve.emit.tflite.draft import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.meanings import in_steps, only_number
from layoutsolve.emit.tflite.rows import broadcasting
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import alike, is_coarse, is_coarse_product, moves, same_bytes, same_integers
from layoutsolve.frontend.tflite.lowering.rounding import multiplied
from layoutsolve.ir.graph import Quant, Shape, Size, Value

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

_ACTIVATED = frozenset(("ADD", "DIV", "MUL", "SUB"))
_SELECT_LIMIT = 5
_BYTES = ("int8", "uint8")


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


def _signed(call: Call) -> bool:
    """Whether a kernel looks results up, or computes them, of signed bytes alone."""
    return same_bytes(call) and call.output.dtype == "int8"


def _looked_up(call: Call) -> bool:
    """The same of signed integers of 16 bits too."""
    return same_integers(call) and call.output.dtype != "uint8"


def _positive(call: Call) -> bool:
    """Whether a kernel computes on signed bytes none of which is negative, where it would end a run, or on int16."""
    quant = call.value(0).quant
    if quant is None or call.output.dtype == "int16":
        return _looked_up(call)
    return _signed(call) and int(quant.zero_point[0]) == np.iinfo(np.int8).min


row("Relu", quantized=same_integers)(_unary)
row("HardSwish", quantized=same_bytes)(_unary)
row("Abs", quantized=_looked_up)(_unary)
row("Exp", quantized=_signed)(_unary)
row("Sigmoid", quantized=partial(_fixed, 1 / 256, -128))(_unary)
row("Tanh", quantized=partial(_fixed, 1 / 128, 0))(_unary)
row("Rsqrt", quantized=_positive)(_unary)
row(*(_UNARY.keys() - {"Abs", "Exp", "HardSwish", "Neg", "Relu", "Rsqrt", "Sigmoid", "Tanh"}))(_unary)


def _turns(call: Call) -> bool:
    """Whether signed bytes are turned around zero in the same steps."""
    one, other = call.value(0).quant, call.output.quant
    return _signed(call) and one is not None and other is not None and np.array_equal(one.scale, other.scale)


@row("Neg", quantized=_turns)
def negative(call: Call) -> None:
    """Neg; int8 by a product with -1, which is -128 steps of 1/128: the kernel takes steps that are smaller than 1."""
    if call.value(0).quant is None:
        _unary(call)
        return
    step = Quant(np.array([1 / 128], np.float32), np.zeros(1, np.int8))
    call.write("MUL", [call.tensor(0), call.number("negative", -128, "int8", step)])


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
    if call.op in COMPARING and values[0].dtype in _BYTES and not _counts(call):
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
row(*(_BINARY.keys() - {"Add", "Max", "Min", "Mul", "Pow", "SquaredDifference", "Sub"} - COMPARING))(_binary)


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
        call.write("FLOOR_MOD", [call.tensor(0), call.tensor(1)])
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


@row("Cast")
def cast(call: Call) -> None:
    """Cast, by truncation as ONNX has it."""
    before, after = call.value(0).dtype, call.output.dtype
    if "string" in (before, after):
        raise ExpressionError("it converts text", "cut the model with --from or --to")
    call.write("CAST", [call.tensor(0)])


def _clips(call: Call) -> bool:
    limits = fusion.bounds(call.graph, call.node)
    known = same_bytes(call) and limits == (-1.0, 1.0)
    return known or (same_integers(call) and limits in ((0.0, np.inf), (0.0, 6.0)))


_CLIPS = {(0.0, np.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}


@row("Clip", quantized=_clips)
def clip(call: Call) -> None:
    """Clip: an activation where its limits are those of one, else the greater of one limit and the lesser of both."""
    value, stored = call.value(0), call.node.storage and call.value(0).in_bytes and moves(call)
    limits = (fusion.stored_bounds if stored else fusion.bounds)(call.graph, call.node)
    real = value.dtype == "float32" or value.quant is not None
    known = _CLIPS.get(limits) if limits is not None and real and (stored or not call.node.storage) else None
    if known is not None:
        call.write(known, [call.tensor(0)])
        return
    last = call.tensor(0)
    if stored and limits == fusion.ANY:
        if not call.alias():
            call.reshape(last, value.shape, call.target())
        return
    steps = [(place, name) for place, name in ((1, "MAXIMUM"), (2, "MINIMUM")) if call.has(place)]
    if not steps:
        call.reshape(last, value.shape, call.target())
    for place, name in steps:
        limit = call.tensor(place)
        if (place, name) == steps[-1]:
            call.write(name, [last, limit])
        else:
            last = call.step(name, [last, limit], value.shape)


@row("LeakyRelu", quantized=same_integers)
def leaky_relu(call: Call) -> None:
    """LeakyRelu; of int8 by the slope with which the kernel, which rounds twice, gives the most of ONNX's integers."""
    alpha = float(call.attribute("alpha", 0.01))
    one, other = call.value(0).quant, call.output.quant
    if one is not None and other is not None and call.output.dtype in _BYTES:
        alpha = _slope(alpha, one, other, np.iinfo(call.output.dtype))
    call.write("LEAKY_RELU", [call.tensor(0)], alpha=alpha)


def _slope(alpha: float, one: Quant, other: Quant, limits: np.iinfo[Any]) -> float:
    """The slope near to ``alpha`` that is best so, of numbers in the steps ``one`` that become those of ``other``. What
    layoutsolve writes to ONNX has slopes that give LiteRT's integers there: one of two digits that gives nearly all of
    them is what it was.
    """
    scale, zero = np.float32(one.scale[0]), int(other.zero_point[0])
    below = np.arange(limits.min - int(one.zero_point[0]), 0)
    ends = limits.min - zero, limits.max - zero
    factor = float(scale) / float(other.scale[0])
    if not below.size or not 0 < abs(alpha) * factor < _STEEPEST_SLOPE:
        return alpha
    wanted = np.clip(np.rint(below * factor * alpha), *ends)
    near = np.float32(alpha) * (1 + np.arange(-_TRIED, _TRIED + 1) * np.float32(_APART))
    near = near[np.argsort(np.abs(near - np.float32(alpha)), kind="stable")]
    plain = np.float32(f"{alpha:.2g}")
    near = np.append(near, plain)
    found = [multiplied(below, float(scale * each / np.float32(other.scale[0]))) for each in near]
    met = [int((np.clip(each, *ends) == wanted).sum()) for each in found]
    was_plain = plain != np.float32(alpha) and met[-1] >= max(met) - _FEW
    return float(plain if was_plain else near[int(np.argmax(met))])


_STEEPEST_SLOPE = 2.0**15
"""What keeps products of bytes below 2^31."""

_TRIED, _APART = 60, 2.0**-12
"""How many slopes on either side are tried, and how far apart they are."""

_FEW = 4
"""How many integers fewer than by the best one a slope of two digits may give."""


def _bends(call: Call) -> bool:
    """Whether a kernel looks up what it makes of signed bytes."""
    return _signed(call) and call.attribute("alpha", 1.0) == 1.0


@row("Elu", quantized=_bends)
def elu(call: Call) -> None:
    """Elu; with another slope than 1 its negative part is scaled."""
    alpha, shape = float(call.attribute("alpha", 1.0)), call.value(0).shape
    if alpha == 1.0:
        call.write("ELU", [call.tensor(0)])
        return
    whole = call.step("ELU", [call.tensor(0)], shape)
    zero = call.constant(0.0, "float32")
    positive = call.step("RELU", [call.tensor(0)], shape)
    negative = call.step("MINIMUM", [whole, zero], shape)
    scaled = call.step("MUL", [negative, call.constant(alpha, "float32")], shape)
    call.write("ADD", [positive, scaled])


@row("Gelu", quantized=_looked_up)
def gelu(call: Call) -> None:
    """Gelu, exact or by tanh."""
    call.write("GELU", [call.tensor(0)], approximate=call.attribute("approximate", "none") == "tanh")


@row("HardSigmoid")
def hard_sigmoid(call: Call) -> None:
    """HardSigmoid: a sixth of a line between 0 and 6, as XNNPACK has no kernel for one between 0 and 1."""
    slope, height = (6 * call.attribute(name, default) for name, default in (("alpha", 0.2), ("beta", 0.5)))
    shape, tensor = call.value(0).shape, call.tensor(0)
    if not np.isclose(slope, 1, rtol=1e-6):
        tensor = call.step("MUL", [tensor, call.constant(slope, "float32")], shape)
    line = call.step("ADD", [tensor, call.constant(height, "float32")], shape, fused_activation_function=fusion.RELU6)
    call.write("MUL", [line, call.constant(1 / 6, "float32")])


@row("Reciprocal")
def reciprocal(call: Call) -> None:
    """Reciprocal: 1 over it."""
    call.write("DIV", [call.constant(1.0, "float32"), call.tensor(0)])


def _softplus(call: Call) -> int:
    """The logarithm of 1 and an exponential, also where that would overflow."""
    shape = call.value(0).shape
    size = call.step("ABS", [call.tensor(0)], shape)
    power = call.step("EXP", [call.step("NEG", [size], shape)], shape)
    log = call.step("LOG", [call.step("ADD", [power, call.constant(1.0, "float32")], shape)], shape)
    return call.step("ADD", [call.step("RELU", [call.tensor(0)], shape), log], shape)


@row("Softplus")
def softplus(call: Call) -> None:
    """Softplus."""
    call.reshape(_softplus(call), call.output.shape, call.target())


@row("Mish")
def mish(call: Call) -> None:
    """Mish: its operand by the tanh of its softplus."""
    bent = call.step("TANH", [_softplus(call)], call.value(0).shape)
    call.write("MUL", [call.tensor(0), bent])


@row("Swish")
def swish(call: Call) -> None:
    """Swish: its operand by the sigmoid of its multiple."""
    shape, alpha, operand = call.value(0).shape, float(call.attribute("alpha", 1.0)), call.tensor(0)
    inner = operand if alpha == 1.0 else call.step("MUL", [operand, call.constant(alpha, "float32")], shape)
    call.write("MUL", [operand, call.step("LOGISTIC", [inner], shape)])


@row("Softsign")
def softsign(call: Call) -> None:
    """Softsign: x over 1 + |x|."""
    shape = call.value(0).shape
    size = call.step("ADD", [call.step("ABS", [call.tensor(0)], shape), call.constant(1.0, "float32")], shape)
    call.write("DIV", [call.tensor(0), size])


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


@row("Shrink")
def shrink(call: Call) -> None:
    """Shrink: what is beyond a limit comes nearer by a bias, the rest is 0."""
    shape, tensor = call.value(0).shape, call.tensor(0)
    limit, bias = float(call.attribute("lambd", 0.5)), float(call.attribute("bias", 0.0))
    last = call.constant(0.0, "float32")
    for name, operator, sign in (("GREATER", "SUB", 1), ("LESS", "ADD", -1)):  # of both the lower limit is seen first
        beyond = call.temporary(shape, "bool")
        call.write(name, [tensor, call.constant(sign * limit, "float32")], [beyond])
        moved = call.step(operator, [tensor, call.constant(bias, "float32")], shape) if bias else tensor
        into = call.temporary(shape) if sign > 0 else call.target()
        call.write("SELECT_V2", [beyond, moved, last], [into])
        last = into


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


@row("Tan")
def tan(call: Call) -> None:
    """Tan: sine over cosine."""
    shape = call.value(0).shape
    call.write("DIV", [call.step("SIN", [call.tensor(0)], shape), call.step("COS", [call.tensor(0)], shape)])


@row("Selu")
def selu(call: Call) -> None:
    """Selu: a scaled Elu, whose negative part has another slope."""
    alpha, gamma = float(call.attribute("alpha", 1.6732632)), float(call.attribute("gamma", 1.0507009))
    shape = call.value(0).shape
    positive = call.step("RELU", [call.tensor(0)], shape)
    curve = call.step("ELU", [call.tensor(0)], shape)
    negative = call.step("MINIMUM", [curve, call.constant(0.0, "float32")], shape)
    bent = call.step("MUL", [negative, call.constant(alpha, "float32")], shape)
    call.write("MUL", [call.step("ADD", [positive, bent], shape), call.constant(gamma, "float32")])


@row("Celu")
def celu(call: Call) -> None:
    """Celu: alpha times the Elu of what is over alpha; of a negative alpha the parts of that."""
    alpha, shape = float(call.attribute("alpha", 1.0)), call.value(0).shape
    if alpha == 0.0:
        raise ExpressionError("its alpha is 0", "use another one, or Relu")
    scaled = call.step("MUL", [call.tensor(0), call.constant(1 / alpha, "float32")], shape)
    if alpha > 0.0:
        call.write("MUL", [call.step("ELU", [scaled], shape), call.constant(alpha, "float32")])
        return
    lower = call.step("SUB", [call.step("EXP", [scaled], shape), call.constant(1.0, "float32")], shape)
    bent = call.step("MUL", [lower, call.constant(alpha, "float32")], shape)
    negative = call.step("MINIMUM", [bent, call.constant(0.0, "float32")], shape)
    call.write("ADD", [call.step("RELU", [call.tensor(0)], shape), negative])


@row("ThresholdedRelu")
def thresholded_relu(call: Call) -> None:
    """ThresholdedRelu: what is greater than alpha, else 0."""
    limit = call.constant(float(call.attribute("alpha", 1.0)), "float32")
    above = call.draft.add(call.draft.names.derived(call.result, "above"), "bool", call.value(0).shape)
    call.write("GREATER", [call.tensor(0), limit], [above])
    call.write("SELECT_V2", [above, call.tensor(0), call.constant(0.0, "float32")])


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
