"""Products of floats by 8-bit weights in integers, with the floats rounded at run time as LiteRT's kernels do it.

They round each row in steps of its own: symmetric ones of the row's largest number by 127, or 255 of them from its
least number to its largest (``asymmetric_quantize_inputs``), zero among them. (PortableSymmetricQuantizeFloats,
PortableAsymmetricQuantizeFloats, EvalHybridDense.) The integers are stored without a sign, 128 higher where steps are
symmetric, so that there is a kernel for them whatever the weights are.

ONNX Runtime fuses such a product with the product of its two scales and an Add behind it (MatMulIntegerToFloat). That
is right where all numbers share their steps and nothing is added. So a bias is added by a Sum, which is not fused, and
where rows have steps of their own the scales are not multiplied by one another.
"""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.common import write_activated
from layoutsolve.ir.graph import Array, Quant, Shape, Value

_HALF = 128
"""What stored integers are higher by."""

_LEAST = np.float32(1e-30)
"""The least range of a row, for those that are nothing but zeros."""

_MOST_COLUMNS = 1 << 16
"""As many products of 255 by 128 do not exceed 32 bits."""

_UNIT = Quant(np.ones(1, np.float32), np.full(1, _HALF, np.uint8))
_UNIT_FROM_ZERO = Quant(np.ones(1, np.float32), np.zeros(1, np.uint8))
"""Numbers that are integers already, below and above zero or from zero on."""


def pays(call: Call, x: Value, weights: Value) -> bool:
    """Whether a product is one of those that are to be computed in integers, and LiteRT rounds it so."""
    asked, quant = call.draft.reading.dynamic, weights.quant
    if asked is None or quant is None or weights.data is None or weights.dtype != "int8" or quant.block:
        return False
    if x.quant is not None or call.declared(1) == "float32" or quant.zero_point.any() or quant.axis not in (None, 0):
        return False
    if weights.data.shape[1] > _MOST_COLUMNS or not quant.scale.all():
        return False
    return weights.data.size >= (asked.tensor if _is_shared(call, x) else asked.rows)


def _is_asymmetric(call: Call) -> bool:
    return bool(call.option("asymmetric_quantize_inputs", False))


def _is_shared(call: Call, x: Value) -> bool:
    """Whether all numbers share their steps, and ONNX has an operator for those."""
    return x.shape[0] == 1 and _is_asymmetric(call)


def write_product(call: Call, x: Value, weights: Value, bias: Value | None, slot: Slot) -> Value:
    """Write ``[rows, k] x [m, k] + [m]`` and the fused activation."""
    scale = weights.steps.scale.astype(np.float32)
    shape: Shape = (x.shape[0], weights.shape[0])
    write = _shared if _is_shared(call, x) else _asymmetric if _is_asymmetric(call) else _symmetric
    op, given = write(call, x, np.asarray(weights.constant), scale if scale.size > 1 else scale.reshape(()), shape)
    if bias is None:
        return write_activated(call, op, given, shape, slot)
    return write_activated(call, "Sum", [call.write(op, given, shape, call.temporary("scaled")), bias], shape, slot)


Pair = tuple[str, list[Value]]
"""An operator that is still to be written, and its inputs."""


def _shared(call: Call, x: Value, weights: Array, scale: Array, shape: Shape) -> Pair:
    """One row in asymmetric steps."""
    slots = [
        (x.shape, call.temporary("integers", "uint8")),
        ((), call.temporary("step")),
        ((), call.temporary("zero", "uint8")),
    ]
    integers, step, zero = call.write_many("DynamicQuantizeLinear", [x], slots)
    total = _sums(call, integers, weights, zero, shape)
    steps = call.write("Mul", [step, _real(call, scale, "scale")], scale.shape, call.temporary("steps"))
    return "Mul", [total, steps]


def _symmetric(call: Call, x: Value, weights: Array, scale: Array, shape: Shape) -> Pair:
    """Steps for each row of a 127th of its largest number."""
    size = call.write("Abs", [x], x.shape, call.temporary("size"))
    span = _at_least(call, _over_rows(call, "ReduceMax", size), _LEAST)
    inverse = call.write("Div", [_real(call, 127, "steps"), span], span.shape, call.temporary("inverse"))
    counted = call.write("Mul", [x, inverse], x.shape, call.temporary("counted"))
    integers = call.write("Identity", [counted], x.shape, call.temporary("integers", "uint8", _UNIT))
    zero = call.constant(_HALF, "zero", "uint8")
    return _scaled(call, _sums(call, integers, weights, zero, shape), span, 127, scale)


def _asymmetric(call: Call, x: Value, weights: Array, scale: Array, shape: Shape) -> Pair:
    """255 steps for each row from its least number to its largest; what that moves sums by is added behind."""
    nothing = np.float32(0)
    high = _at_least(call, _over_rows(call, "ReduceMax", x), nothing)
    low = call.write("Min", [_over_rows(call, "ReduceMin", x), _real(call, nothing, "none")], high.shape,
                     call.temporary("low"))  # fmt: skip
    span = _at_least(call, call.write("Sub", [high, low], high.shape, call.temporary("range")), _LEAST)
    inverse = call.write("Div", [_real(call, 255, "steps"), span], span.shape, call.temporary("inverse"))
    lowest = call.write("Mul", [low, inverse], span.shape, call.temporary("lowest"))
    offset = call.write("Round", [lowest], span.shape, call.temporary("offset"))
    counted = call.write("Mul", [x, inverse], x.shape, call.temporary("counted"))
    moved = call.write("Sub", [counted, offset], x.shape, call.temporary("moved"))
    integers = call.write("Identity", [moved], x.shape, call.temporary("integers", "uint8", _UNIT_FROM_ZERO))
    total = _sums(call, integers, weights, call.constant(0, "zero", "uint8"), shape)
    sums = _real(call, weights.sum(axis=1, dtype=np.int64), "sums")
    added = call.write("Mul", [offset, sums], shape, call.temporary("added"))
    return _scaled(call, call.write("Add", [total, added], shape, call.temporary("total")), span, 255, scale)


def _scaled(call: Call, total: Value, span: Value, steps: int, scale: Array) -> Pair:
    """Sums times the steps of the rows and of the weights."""
    if scale.ndim:
        total = call.write("Mul", [total, _real(call, scale, "scale")], total.shape, call.temporary("of_weights"))
        scale = np.ones((), np.float32)
    divisor = _real(call, np.float64(steps) / scale, "divisor")
    return "Mul", [total, call.write("Div", [span, divisor], span.shape, call.temporary("step"))]


def _sums(call: Call, integers: Value, weights: Array, zero: Value, shape: Shape) -> Value:
    """The sums of products of integers, as floats."""
    signed = call.draft.reading.storage.weights in ("signed", "selected")
    higher, dtype = (0, "int8") if signed else (_HALF, "uint8")
    matrix = call.constant((weights.T.astype(np.int16) + higher).astype(dtype), "weights", dtype)
    given = [integers, matrix, zero, call.constant(higher, "weights_zero", dtype)]
    total = call.write("MatMulInteger", given, shape, call.temporary("sums", "int32"), real="int32", storage=True)
    return call.write("Cast", [total], shape, call.temporary("floats"), real="float32", to="float32")


def _over_rows(call: Call, op: str, x: Value) -> Value:
    axes = call.vector([1], "axes")
    return call.write(op, [x, axes], (x.shape[0], 1), call.temporary(op[len("Reduce") :].lower()), keepdims=1)


def _at_least(call: Call, value: Value, least: np.float32) -> Value:
    return call.write("Max", [value, _real(call, least, "least")], value.shape, call.temporary("range"))


def _real(call: Call, data: Array | np.generic | int, label: str) -> Value:
    return call.constant(data, label, "float32")
