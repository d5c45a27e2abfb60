"""Activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutsolve.emit.tflite import fusion
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import looked_up, moves, same_bytes, same_integers, signed_bytes
from layoutsolve.frontend.tflite.lowering.rounding import multiplied
from layoutsolve.ir.graph import BYTES, Quant


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
    if one is not None and other is not None and call.output.dtype in BYTES:
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
    return signed_bytes(call) and call.attribute("alpha", 1.0) == 1.0


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


@row("Gelu", quantized=looked_up)
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
