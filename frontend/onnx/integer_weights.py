"""Weights and biases that are stored as integers, and computed of these where no DequantizeLinear is: by Cast, Sub and
Mul, as layoutsolve writes them for layers of floats. They mean what a DequantizeLinear of them gives, to the last bit.
"""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.onnx import constants
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.ir.graph import Array, Quant, Value

_TYPES = frozenset(("int8", "int16", "int32", "uint8", "uint16"))
"""The types of integers that a float32 holds the differences of, or that have a zero of 0."""


def recognised(call: Call) -> bool:
    """Annotate what the Mul gives that ends such a row of operators; False for anything else, of which it is noted
    whether it is a part of one.
    """
    draft = call.draft
    if call.domain or draft.region is not None or len(call.inputs) not in (1, 2) or len(call.outputs) != 1:
        return False
    if call.op == "Cast":
        source = call.constant(0)
        if (
            source is not None
            and call.value(0).dtype in _TYPES
            and constants.TYPES.get(call.attribute("to")) == "float32"
        ):
            draft.integers[call.outputs[0]] = call.inputs[0], None
        return False
    stored, zero = draft.integers.get(call.inputs[0], ("", None))
    other = call.constant(1) if stored and len(call.inputs) > 1 else None
    if other is None or other.dtype != np.float32:
        return False
    if call.op == "Sub" and zero is None:
        draft.integers[call.outputs[0]] = stored, other
        return False
    return call.op == "Mul" and _annotated(call, draft.value(stored), zero, other)


def _annotated(call: Call, stored: Value, zero: Array | None, scale: Array) -> bool:
    draft, (name,) = call.draft, call.outputs
    quant = _quant(stored, zero, scale)
    if quant is None or name in draft.outputs or draft.weighing[name] != draft.uses[name]:
        return False
    draft.add(Value(own := draft.names.derived(name, "stored"), stored.dtype, stored.shape, quant, stored.data))
    draft.real[name] = own
    return True


def _quant(stored: Value, zero: Array | None, scale: Array) -> Quant | None:
    """The parameters that are spread over integers by broadcasting, None where there are none for each axis."""
    rank = len(stored.shape)
    if not (np.isfinite(scale).all() and (scale > 0).all()) or scale.ndim > rank:
        return None
    sizes = (1,) * (rank - scale.ndim) + scale.shape
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(axes) > 1 or any(sizes[axis] != stored.shape[axis] for axis in axes):
        return None
    if zero is None:
        zero = np.zeros(scale.shape, np.float32)
    limits = np.iinfo(stored.dtype)
    whole = np.broadcast_to(zero, np.broadcast_shapes(zero.shape, scale.shape)).reshape(-1)
    if (
        whole.size != scale.size
        or (whole != np.rint(whole)).any()
        or (whole < limits.min).any()
        or (whole > limits.max).any()
    ):
        return None
    if stored.dtype == "int32" and whole.any():
        return None
    return Quant(scale.reshape(-1), whole.astype(stored.dtype), axes[0] if axes else None)
