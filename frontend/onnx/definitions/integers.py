"""Operators on integers: the operator on floats between DequantizeLinear and QuantizeLinear, or on the integers as
floats, of which no sum is larger than floats count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from layoutsolve.frontend.onnx.definitions.definition import Definition, defines
from layoutsolve.proto.messages import TYPES

_RUNTIME = "com.microsoft"
_COUNTED = 1 << 24
"""Up to here floats count."""

_MOST_PARTS = 256
"""In how many parts a product is added up at most."""


@defines("QLinearConv")
def _convolution(call: Definition) -> bool:
    data, weights = call.real(0), call.real(3, axis=0)
    bias = []
    if call.has(8):
        scale = call.write("Mul", call.node.input[1], call.node.input[4])
        known = [call.numbers(1), call.numbers(4)]
        if known[0] is not None and known[1] is not None:
            steps = known[0].reshape(-1) * known[1].reshape(-1)
            scale = call.constant(steps if steps.size > 1 else steps.reshape(()))
        bias = [call.write("DequantizeLinear", call.node.input[8], scale, axis=0)]
    return call.stored(call.write("Conv", data, weights, *bias, **call.own()), 6)


@defines("QLinearMatMul")
def _product(call: Definition) -> bool:
    scale = call.numbers(1)
    if scale is None or scale.size > 1:
        return False
    return call.stored(call.write("MatMul", call.real(0), call.real(3, axis=-1)), 6)


@defines("QLinearAdd", "QLinearMul", domain=_RUNTIME)
def _binary(call: Definition) -> bool:
    return call.stored(call.write(call.node.op_type.removeprefix("QLinear"), call.real(0), call.real(3)), 6)


@defines("QLinearLeakyRelu", "QLinearSigmoid", domain=_RUNTIME)
def _unary(call: Definition) -> bool:
    return call.stored(call.write(call.node.op_type.removeprefix("QLinear"), call.real(0), **call.own()), 3)


@defines("QLinearAveragePool", "QLinearGlobalAveragePool", domain=_RUNTIME)
def _average(call: Definition) -> bool:
    given = {name: each for name, each in call.own().items() if name != "channels_last"}
    if call.integer("channels_last", 0):
        return False
    return call.stored(call.write(call.node.op_type.removeprefix("QLinear"), call.real(0), **given), 3)


@defines("QLinearConcat", domain=_RUNTIME)
def _joined(call: Definition) -> bool:
    parts = [call.real(number) for number in range(2, len(call.node.input), 3)]
    return call.stored(call.write("Concat", *parts, **call.own()), 0)


@defines("QLinearSoftmax", domain=_RUNTIME)
def _softmax(call: Definition) -> bool:
    shape, axis = call.shape(), call.integer("axis", -1)
    if call.integer("opset", 13) < 13 and (shape is None or axis % len(shape) != len(shape) - 1):
        return False
    return call.stored(call.write("Softmax", call.real(0), axis=axis), 3)


@defines("QGemm", domain=_RUNTIME)
def _gemm(call: Definition) -> bool:
    """QGemm, whose scale of weights may be one for each column, and whose result is floats without one."""
    transposed, alpha = call.integer("transB", 0), call.attribute("alpha", 1.0)
    parts = [call.real(0), call.real(3, axis=0 if transposed else 1)]
    if call.has(6):
        steps = [call.numbers(1), call.numbers(4)]
        if steps[0] is None or steps[1] is None or not isinstance(alpha, float):
            return False
        scale = alpha * steps[0].reshape(-1) * steps[1].reshape(-1)
        real = call.write("Cast", call.node.input[6], **_to("float32"))
        parts.append(call.write("Mul", real, call.constant(scale)))
    if call.has(7):
        return call.stored(call.write("Gemm", *parts, **call.own()), 7)
    call.write("Gemm", *parts, **call.own(), into=call.node.output[0])
    return True


@defines("DynamicQuantizeLinear")
def _quantized(call: Definition) -> bool:
    x, zero, top = call.node.input[0], call.constant(0.0), call.constant(255.0)
    low = call.write("Min", call.write("ReduceMin", x, keepdims=0), zero)
    high = call.write("Max", call.write("ReduceMax", x, keepdims=0), zero)
    step = call.write("Div", call.write("Sub", high, low), top)
    same = call.write("Equal", step, zero)
    outputs = [*call.node.output, "", ""]
    step = call.write("Where", same, call.constant(1.0), step, into=outputs[1])
    place = call.write("Round", call.write("Clip", call.write("Div", call.write("Neg", low), step), zero, top))
    whole = call.write("Add", call.write("Round", call.write("Div", x, step)), place)
    call.write("Cast", call.write("Clip", whole, zero, top), into=outputs[0], **_to("uint8"))
    if outputs[2]:
        call.write("Cast", place, into=outputs[2], **_to("uint8"))
    return True


def _to(dtype: str) -> dict[str, Any]:
    return {"to": TYPES[dtype]}


def _less(call: Definition, number: int, zero: int, behind: int = 0) -> str:
    """Integers less their zero point, as floats; that has so many dimensions of 1 behind its own."""
    made = call.write("Cast", call.node.input[number], **_to("float32"))
    if not call.has(zero):
        return made
    point = call.write("Cast", call.node.input[zero], **_to("float32"))
    if behind:
        point = call.write("Reshape", point, call.constant([-1, *([1] * behind)], "int64"))
    return call.write("Sub", made, point)


def _counted(call: Definition, weights: int, zero: int) -> int:
    """Of how many products a sum is a number that floats count."""
    data = call.numbers(weights)
    known = call.numbers(zero) if call.has(zero) else np.zeros(1)
    most = (
        255.0 if data is None or known is None else float(np.abs(data.astype(np.float64) - known.max()).max(initial=1))
    )
    return int(_COUNTED // (255 * max(most, 1.0)))


def _summed(call: Definition, parts: Sequence[str]) -> bool:
    """Write the sum of products as integers."""
    whole = [call.write("Cast", call.write("Round", each), **_to("int32")) for each in parts]
    for each in whole[1:-1]:
        whole[0] = call.write("Add", whole[0], each)
    if len(whole) > 1:
        call.write("Add", whole[0], whole[-1], into=call.node.output[0])
    else:
        call.write("Identity", whole[0], into=call.node.output[0])
    return True


def _sliced(call: Definition, name: str, first: int, last: int, axis: int) -> str:
    return call.write("Slice", name, *(call.constant([each], "int64") for each in (first, last, axis)))


@defines("MatMulInteger")
def _integers(call: Definition) -> bool:
    scalar = not call.has(2) or (call.shape(2) or [1])[:1] in ([1], (1,))
    shapes = call.shape(0), call.shape(1)
    if not scalar or shapes[0] is None or shapes[1] is None or len(shapes[1]) < 2 or len(shapes[0]) < 2:
        return False
    count, most = shapes[1][-2], _counted(call, 1, 3)
    if count is None:
        return False
    one, other = _less(call, 0, 2), _less(call, 1, 3)
    if count <= most:
        return _summed(call, [call.write("MatMul", one, other)])
    if count > most * _MOST_PARTS:
        return False
    parts = [(first, min(first + most, count)) for first in range(0, count, most)]
    axes = len(shapes[0]) - 1, len(shapes[1]) - 2
    pairs = [(_sliced(call, one, *each, axes[0]), _sliced(call, other, *each, axes[1])) for each in parts]
    return _summed(call, [call.write("MatMul", *pair) for pair in pairs])


@defines("ConvInteger")
def _integer_convolution(call: Definition) -> bool:
    shape, given = call.shape(1), call.own()
    if shape is None or any(size is None for size in shape):
        return False
    channels, *kernel = (int(size or 0) for size in shape[1:])
    most = _counted(call, 1, 3) // prod(kernel)
    if most < channels and (most < 1 or call.integer("group", 1) > 1 or channels > most * _MOST_PARTS):
        return False
    one, other = _less(call, 0, 2), _less(call, 1, 3, len(kernel) + 1)
    if channels <= most:
        return _summed(call, [call.write("Conv", one, other, **given)])
    parts = [(first, min(first + most, channels)) for first in range(0, channels, most)]
    pairs = [(_sliced(call, one, *each, 1), _sliced(call, other, *each, 1)) for each in parts]
    return _summed(call, [call.write("Conv", *pair, **given) for pair in pairs])
