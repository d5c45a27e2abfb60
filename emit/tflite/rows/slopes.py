"""PRelu, whose slopes are int8 or uint8 where a kernel for these is to compute it."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.rows import broadcasting
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import same_bytes
from layoutsolve.ir.graph import Array, Quant

_MOST, _MOST_PRODUCT = 4, 6
"""The most dimensions that the kernels broadcast."""

_CLOSE = 2.0**-9
"""How far from a multiple of a step a slope may be, by itself, as sources are that round as LiteRT does: a quarter of
a step of the result at most.
"""


def _stored(call: Call) -> tuple[Array, Quant] | None:
    """The slopes as bytes of the type of the operand, where they are multiples of one step; None elsewhere."""
    slope, limits = call.value(1), np.iinfo(call.value(0).dtype)
    if slope.data is None or slope.data.size == 0:
        return None
    real = slope.real
    least, most = min(float(real.min()), 0.0), max(float(real.max()), 0.0)
    for width, parts in ((most - least, 255), (max(most, -least), 128)):
        for part in range(parts if width else 1, 0, -1):
            step = np.float32(width / part or 1.0)
            whole = np.rint(real / step).astype(np.int64)
            low, high = (max(limits.min, limits.min - whole.min()), min(limits.max, limits.max - whole.max()))
            if low <= high and (np.abs(whole * step - real) <= _CLOSE * np.abs(real)).all():
                zero = np.clip(0, low, high)
                dtype = call.value(0).dtype
                return (whole + zero).astype(dtype), Quant(np.array([step]), np.array([zero], dtype))
    return None


def _in_steps(call: Call) -> bool:
    """Whether a kernel has the operand and the slopes as they are stored."""
    return same_bytes(call) and len(call.value(0).shape) <= _MOST and _stored(call) is not None


@row("PRelu", quantized=_in_steps)
def prelu(call: Call) -> None:
    """PRelu: the slope without the dimension of a batch, which its kernel wants where it is of one dimension less."""
    value, slope, quant = call.value(0), call.data(1), None
    if value.quant is not None and (stored := _stored(call)) is not None:
        slope, quant = stored
    rank = len(value.shape)
    operand, shape = -1, call.value(1).shape
    if slope is None:
        operand = call.tensor(1)
    else:
        full = slope.reshape((1,) * (rank - slope.ndim) + slope.shape)
        if 1 < rank <= _MOST and full.shape[0] == 1:
            full = full[0]
        shape = full.shape
        name = call.draft.names.derived(call.result, "slopes")
        operand = call.draft.add(name, str(full.dtype), shape, quant, np.ascontiguousarray(full))
    shapes = (value.shape, shape, call.output.shape)
    if broadcasting.fits(shapes, _MOST):
        broadcasting.write(call, "PRELU", [call.tensor(0), operand], shapes, call.target(), _MOST)
        return
    lower = call.step("MINIMUM", [call.tensor(0), call.constant(0.0, "float32")], value.shape)
    scaled = call.temporary(value.shape)
    broadcasting.write(call, "MUL", [lower, operand], shapes, scaled, _MOST_PRODUCT)
    call.write("ADD", [call.step("RELU", [call.tensor(0)], value.shape), scaled])
