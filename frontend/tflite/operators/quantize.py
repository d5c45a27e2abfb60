"""Changes of type and of quantization."""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import limits
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import BYTES, copy, lift_of, raised, write_where
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Quant, Value

_NUMBERS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


@lowers("QUANTIZE", signature="FZ -> Z")
def quantize(call: Call) -> None:
    """QUANTIZE, also from one quantization to another."""
    x, slot = call.input(0), call.slot()
    if x.dtype == "int32" and slot.quant is not None:
        _from_wide(call, x, slot)
        return
    if x.quant is not None and slot.dtype == "int32":
        _to_wide(call, x, x.quant, slot)
        return
    if slot.quant is None or real_dtype(x) != "float32":
        raise GapError(
            f"it requantizes {x.dtype} to {slot.dtype} without parameters for both", "state scale and zero point"
        )
    lift = lift_of(x, slot) if x.dtype in BYTES and slot.dtype in BYTES else 0.0
    if lift:
        raised(call, x, lift, slot)
    else:
        call.write("Identity", [x], x.shape, slot)


@lowers("CUSTOM:NumericVerify", signature="FQ P -> P?")
def numeric_verify(call: Call) -> None:
    """NumericVerify: the differences of a quantized tensor from a reference. LiteRT stops where they are beyond a
    tolerance and it is to log failures; here they are returned all the same.
    """
    x, reference = call.inputs()
    if x.shape != reference.shape and not call.agree(x.shape, reference.shape):
        raise ModelError(f"{call.origin} compares {x} with {reference}")
    if x.quant is None and x.dtype != "float16":
        raise GapError(f"it compares {x.dtype} without parameters with a reference", "state scale and zero point")
    if not call.operator.outputs:
        return
    if real_dtype(x) != "float32":
        x = call.write("Cast", [x], x.shape, call.temporary("cast"), real="float32", to="float32")
    call.write("Sub", [x, reference], x.shape, call.slot())


def _affine(call: Call, tensor: Tensor) -> tuple[float, int]:
    """Scale and zero point of an int32 tensor: the graph annotates smaller types only."""
    stated = tensor.quant
    if stated is None or stated.scale.size != 1 or not stated.scale[0] > 0:
        raise GapError(f"'{tensor.name}' has no parameters for the whole tensor", "state scale and zero point")
    return float(stated.scale[0]), int(stated.zero_point[0]) if stated.zero_point.size else 0


def _scaled(call: Call, x: Value, offset: int, factor: float) -> Value:
    """(x + offset) * factor of stored integers, in float64: int32 does not fit into float32."""
    wide = call.write("Cast", [x], x.shape, call.temporary("float64", "float64"), real="float64", to="float64")
    moved = call.constant(float(offset), "offset", "float64")
    centred = call.write("Add", [wide, moved], x.shape, call.temporary("centred", "float64"))
    scale = call.constant(factor, "factor", "float64")
    return call.write("Mul", [centred, scale], x.shape, call.temporary("scaled", "float64"))


def _from_wide(call: Call, x: Value, slot: Slot) -> None:
    scale, zero = _affine(call, call.lowering.subgraph.tensors[call.operator.inputs[0]])
    real = _scaled(call, x, -zero, scale)
    narrow = call.write("Cast", [real], x.shape, call.temporary("real", "float32"), real="float32", to="float32")
    call.write("Identity", [narrow], x.shape, slot)


def _to_wide(call: Call, x: Value, quant: Quant, slot: Slot) -> None:
    scale, zero = _affine(call, call.tensor())
    stored = call.write("Identity", [x], x.shape, call.temporary("stored", x.dtype), storage=True)
    mantissa, exponent = frexp(float(quant.scale[0]) / scale)
    factor = ldexp(round(mantissa * 2**31), exponent - 31)  # LiteRT's multiplier has 31 bits, which shows in int32
    ratio = _scaled(call, stored, -int(quant.zero_point[0]), factor)
    rounded = call.write("Round", [ratio], x.shape, call.temporary("rounded", "float64"))
    moved = call.constant(float(zero), "zero", "float64")
    result = call.write("Add", [rounded, moved], x.shape, call.temporary("result", "float64"))
    bounds = [call.constant(bound, "bound", "float64") for bound in (-(2.0**31), 2.0**31 - 1)]
    clipped = call.write("Clip", [result, *bounds], x.shape, call.temporary("clipped", "float64"))
    call.write("Cast", [clipped], x.shape, slot, real="int32", to="int32")


@lowers("DEQUANTIZE", signature="FZ -> F")
def dequantize(call: Call) -> None:
    """DEQUANTIZE; from float16 it is a mere change of type."""
    x, slot = call.input(0), call.slot()
    if x.dtype == "float16":
        call.write("Cast", [x], x.shape, slot, real="float32", to="float32")
    elif x.quant is None:
        raise GapError(f"its input of type {x.dtype} has no quantization parameters", "state scale and zero point")
    else:
        call.write("Identity", [x], x.shape, slot)


@lowers("FAKE_QUANT", signature="F -> =")
def fake_quant(call: Call) -> None:
    """FAKE_QUANT: float numbers clamped and rounded as if quantized; the range is moved so that zero is a step."""
    x, slot = call.input(0), call.slot()
    low, high, bits = np.float32(call.option("min")), np.float32(call.option("max")), call.option("num_bits")
    if call.option("narrow_range", False):
        raise GapError("it has a narrow range, which LiteRT does not run", "use the full range")
    if not low <= 0 <= high or not np.isfinite(high - low) or low == high or not 1 <= bits <= 16:
        raise ModelError(f"{call.origin} has the range {low} to {high} in {bits} bits")
    steps = np.float32((1 << bits) - 1)
    scale = (high - low) / steps
    zero = np.clip(np.floor(-low / scale + np.float32(0.5)), 0, steps)

    def step(op: str, value: Value, *numbers: np.float32) -> Value:
        given = [value, *(call.constant(number, "number", "float32") for number in numbers)]
        return call.write(op, given, x.shape, call.temporary(op.lower()))

    least = -zero * scale
    counted = step("Mul", step("Sub", step("Clip", x, least, (steps - zero) * scale), least), 1 / scale)
    whole = step("Floor", step("Add", counted, np.float32(0.5)))
    call.write("Add", [step("Mul", whole, scale), call.constant(least, "least", "float32")], x.shape, slot)


@lowers("CAST", signature="FZBC -> FZBC")
def cast(call: Call) -> None:
    """CAST of what is stored; quantization parameters mean nothing to it."""
    x, slot = call.input(0), call.slot()
    if x.dtype not in _NUMBERS or slot.dtype not in _NUMBERS:
        raise GapError(f"it casts {x.dtype} to {slot.dtype}", "keep complex numbers and strings out of the model")
    if x.quant is not None and call.declared(0) == x.dtype:
        x = call.write("Identity", [x], x.shape, call.temporary("stored", x.dtype), storage=True)
    if x.dtype == slot.dtype and x.quant is None:
        call.write("Identity", [x], x.shape, slot, storage=True)
        return
    plain = slot if slot.quant is None else call.temporary("cast", slot.dtype)
    if x.dtype.startswith("float") and slot.dtype != "bool" and not slot.dtype.startswith("float"):
        result = _saturated(call, x, plain)
    else:
        result = call.write("Cast", [x], x.shape, plain, real=slot.dtype, to=slot.dtype)
    if plain is not slot:
        call.write("Identity", [result], x.shape, slot, storage=True)


def _saturated(call: Call, x: Value, slot: Slot) -> Value:
    """Floats as integers: what is too large, or no number, becomes the greatest; what is too small the least."""
    low, high = limits(slot.dtype)
    with np.errstate(over="ignore"):
        bounds = [call.constant(np.float64(bound), "bound", x.dtype) for bound in (low, high + 1)]
    raised = call.write("Max", [x, bounds[0]], x.shape, call.temporary("raised", x.dtype))
    whole = call.write("Cast", [raised], x.shape, call.temporary("whole", slot.dtype), real=slot.dtype, to=slot.dtype)
    fits = call.write("Less", [x, bounds[1]], x.shape, call.temporary("fits", "bool"), real="bool")
    return write_where(call, fits, whole, call.constant(high, "greatest", slot.dtype), x.shape, slot)


@lowers("DENSIFY", signature="FZB -> =")
def densify(call: Call) -> None:
    """DENSIFY of a constant: reading a sparse constant has expanded it."""
    x = call.input(0)
    if x.data is None:
        raise ModelError(f"{call.origin} reads a tensor that is not constant")
    copy(call, x)
