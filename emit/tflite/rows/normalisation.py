"""Normalisation, composed of what LiteRT has: means, differences, roots."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.reduction import kept, normalised, spread_along
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.ir.graph import Dim


def _channel(call: Call) -> int:
    """The stored dimension of the channels."""
    return call.order(0)[1] if len(call.value(0).shape) > 1 else 0


def _scaled(call: Call, tensor: int, shape: list[Dim], factor: int, added: int | None) -> None:
    """Write a product by a factor, and a sum, as the node's result."""
    if added is None:
        call.write("MUL", [tensor, factor])
        return
    call.write("ADD", [call.step("MUL", [tensor, factor], shape), added])


def _vector(call: Call, number: int, axis: int) -> int:
    """A vector of an input, along an axis of the first."""
    return call.reshape(call.tensor(number), spread_along(call.value(number), len(call.value(0).shape), axis))


@row("BatchNormalization")
def batch_normalisation(call: Call) -> None:
    """BatchNormalization: a product and a sum for each channel; where parameters are computed, those too."""
    if any(call.node.outputs[1:]) or call.attribute("training_mode", 0):
        raise ExpressionError("it gives a mean and a variance", "export the model for inference")
    channel, epsilon = _channel(call), call.attribute("epsilon", 1e-5)
    if any(call.data(number) is None for number in range(1, 5)):
        _computed_normalisation(call, channel, epsilon)
        return
    scale, bias, mean, variance = (call.known(number, "parameters").astype(np.float64) for number in range(1, 5))
    factor = scale / np.sqrt(variance + epsilon)
    shape = spread_along(call.value(1), len(call.value(0).shape), channel)
    factors, added = (call.constant(each.reshape(shape), "float32") for each in (factor, bias - mean * factor))
    _scaled(call, call.tensor(0), list(call.value(0).shape), factors, added)


def _computed_normalisation(call: Call, channel: int, epsilon: float) -> None:
    """BatchNormalization whose parameters other operators give."""
    shape, few = list(call.value(0).shape), spread_along(call.value(1), len(call.value(0).shape), channel)
    lifted = call.step("ADD", [_vector(call, 4, channel), call.constant(epsilon, "float32")], few)
    factor = call.step("MUL", [_vector(call, 1, channel), call.step("RSQRT", [lifted], few)], few)
    centred = call.step("SUB", [call.tensor(0), _vector(call, 3, channel)], shape)
    _scaled(call, centred, shape, factor, _vector(call, 2, channel))


@row("InstanceNormalization")
def instance_normalisation(call: Call) -> None:
    """InstanceNormalization: along all dimensions but the batch and the channels."""
    shape, channel = list(call.value(0).shape), _channel(call)
    batch = call.order(0)[0]
    axes = [axis for axis in range(len(shape)) if axis not in (batch, channel)]
    made = normalised(call, call.tensor(0), shape, axes, call.attribute("epsilon", 1e-5))
    _scaled(call, made, shape, _vector(call, 1, channel), _vector(call, 2, channel))


@row("LayerNormalization")
def layer_normalisation(call: Call) -> None:
    """LayerNormalization."""
    shape = list(call.value(0).shape)
    if any(call.node.outputs[1:]):
        raise ExpressionError("it gives its mean or deviation", "compute them with ReduceMean")
    axes = list(range(call.axis(-1), len(shape)))
    made = normalised(call, call.tensor(0), shape, axes, call.attribute("epsilon", 1e-5))
    _scaled(call, made, shape, call.tensor(1), call.tensor(2) if call.has(2) else None)


@row("RMSNormalization")
def rms_normalisation(call: Call) -> None:
    """RMSNormalization: over the root of the mean square."""
    shape = list(call.value(0).shape)
    axes = list(range(call.axis(-1), len(shape)))
    few = kept(shape, axes)
    tensor = call.tensor(0)
    square = call.step("MEAN", [call.step("MUL", [tensor, tensor], shape), call.constant(axes)], few, keep_dims=True)
    lifted = call.step("ADD", [square, call.constant(call.attribute("epsilon", 1e-5), "float32")], few)
    inverse = call.step("RSQRT", [lifted], few)
    call.write("MUL", [call.step("MUL", [tensor, inverse], shape), call.tensor(1)])


@row("LpNormalization")
def lp_normalisation(call: Call) -> None:
    """LpNormalization: over the sum of absolute values, or the root of that of squares."""
    shape = list(call.value(0).shape)
    axis, order = call.axis(-1), call.attribute("p", 2)
    few = kept(shape, [axis])
    tensor, places = call.tensor(0), call.constant([axis])
    if order == 1:
        length = call.step("SUM", [call.step("ABS", [tensor], shape), places], few, keep_dims=True)
    else:
        square = call.step("SUM", [call.step("MUL", [tensor, tensor], shape), places], few, keep_dims=True)
        length = call.step("SQRT", [square], few)
    least = call.constant(np.finfo(np.float32).tiny, "float32")  # of zeros alone it gives zeros
    call.write("DIV", [tensor, call.step("MAXIMUM", [least, length], few)])


@row("LRN")
def local_response(call: Call) -> None:
    """LRN over neighbours among channels, the innermost dimension."""
    size, rank = call.attribute("size"), len(call.value(0).shape)
    if rank != 4 or _channel(call) != rank - 1:
        raise ExpressionError(f"it is on {rank} dimensions, not on images of 4", "reshape its input to 4 dimensions")
    if size % 2 == 0:
        raise ExpressionError("it is not over an odd number of channels", "use an odd size")
    options = {
        "radius": size // 2,
        "bias": float(call.attribute("bias", 1.0)),
        "alpha": float(call.attribute("alpha", 1e-4)) / size,
        "beta": float(call.attribute("beta", 0.75)),
    }
    call.write("LOCAL_RESPONSE_NORMALIZATION", [call.tensor(0)], **options)
