"""Normalisation over channels."""

from __future__ import annotations

from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import INT8_AND_INT16, lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.common import (
    first_slot,
    from_channels_first,
    ranked,
    to_channels_first,
    write_activated,
)

_EPSILON = 1e-6


@lowers("L2_NORMALIZATION", signature="FQ -> =", quantized=INT8_AND_INT16)
def l2_normalization(call: Call) -> None:
    """L2_NORMALIZATION over the last axis: x / max(norm, epsilon)."""
    x = call.input(0)
    if not x.shape:
        raise ModelError(f"{call.origin} reads a scalar")
    reduced = (*x.shape[:-1], 1)
    squares = call.write("Mul", [x, x], x.shape, call.temporary("squares"))
    axes = call.vector([len(x.shape) - 1], "axes")
    total = call.write("ReduceSum", [squares, axes], reduced, call.temporary("total"), keepdims=1)
    norm = call.write("Sqrt", [total], reduced, call.temporary("norm"))
    bounded = call.write(
        "Max", [norm, call.constant(_EPSILON, "epsilon", "float32")], reduced, call.temporary("bounded")
    )
    write_activated(call, "Div", [x, bounded], x.shape, call.slot())


@lowers("LOCAL_RESPONSE_NORMALIZATION", signature="F -> =")
def local_response_normalization(call: Call) -> None:
    """LOCAL_RESPONSE_NORMALIZATION; ONNX divides alpha by the size of the neighbourhood, TFLite does not."""
    x = ranked(call, call.input(0), 4)
    size = 2 * int(call.option("radius")) + 1
    if size < 1 or min(call.option("alpha"), call.option("beta")) <= 0:
        raise GapError("its radius is negative, or its alpha or beta is not above zero", "leave the operator out")
    first = to_channels_first(call, x)
    attributes: dict[str, Any] = {
        "size": size,
        "alpha": float(call.option("alpha")) * size,
        "beta": float(call.option("beta")),
        "bias": float(call.option("bias")),
    }
    from_channels_first(call, call.write("LRN", [first], first.shape, first_slot(call), **attributes))
