"""What the lowerings share: fused activations, padding, layouts, biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import automatic, same_pads, window
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.dilated_convolution import EXPLICIT_PADS
from layoutsolve.frontend.tflite.lowering.quantization import limits, moves, quant_of
from layoutsolve.frontend.tflite.lowering.rounding import away, lift, lifted, steps
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.ir.graph import Dim, Quant, Shape, Size, Value

BYTES = ("int8", "uint8")
"""Stored types that ONNX Runtime's MaxPool, Pad, Where, Resize, ReduceMax and others take as they are."""

_BOUNDS: dict[int, tuple[float, float]] = {1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
_ACTIVATIONS = {4: "TANH", 5: "SIGN_BIT"}
_GIVING_BYTES = frozenset(("Add", "AveragePool", "Conv", "Gemm", "MatMul", "Mul"))
"""The operators for which runtimes have kernels on bytes."""

_INT32 = 2
"""The schema's number of the type int32."""

_COUNTED = 1 << 12
"""The most numbers that are counted while converting."""

STATIC = "convert the model with static input shapes"


def activation(call: Call) -> tuple[float, float]:
    """The bounds that the operator's fused activation clamps to."""
    code = call.option("fused_activation_function")
    if code in _ACTIVATIONS:
        raise GapError(f"its fused activation {_ACTIVATIONS[code]} is not supported", "use a separate activation")
    bounds, tensor = _BOUNDS.get(code, (-np.inf, np.inf)), call.tensor()
    if np.isfinite(bounds).any() and tensor.dtype in (*BYTES, "int16") and quant_of(tensor) is None:
        raise ModelError(f"{call.origin} clamps {tensor.dtype} of '{tensor.name}', which has no scale")
    return bounds


def open_bounds(bounds: tuple[float, float], slot: Slot) -> tuple[float, float]:
    """Bounds without those at which the stored integers saturate anyway."""
    low, high = bounds
    if slot.quant is not None:
        least, greatest = limits(slot.dtype)
        zero, scale = int(slot.quant.zero_point[0]), float(slot.quant.scale[0])
        low = -np.inf if np.isfinite(low) and zero + round(low / scale) <= least else low
        high = np.inf if np.isfinite(high) and zero + round(high / scale) >= greatest else high
    return low, high


def write_clamped(call: Call, value: Value, bounds: tuple[float, float], slot: Slot) -> Value:
    """Write a value clamped to bounds, of which at least one is finite.

    Whole numbers are clamped by one bound after the other: ONNX Runtime's Clip sees only the lower 32 bits of int64.
    """
    if real_dtype(value) in ("int16", "int32", "int64"):
        wide = cast_to(call, value, "int64")
        for op, bound in zip(("Max", "Min"), bounds, strict=True):
            if np.isfinite(bound):
                limit = call.constant(bound, "bound", "int64")
                wide = write_extremum(call, op, wide, limit, value.shape, call.temporary("clamped", "int64"))
        return store(call, wide, slot)
    if bounds == (0.0, np.inf):
        return call.write("Relu", [value], value.shape, slot)
    given: list[Value | None] = [value]
    for label, bound in zip(("min", "max"), bounds, strict=True):
        given.append(call.constant(bound, label, real_dtype(value)) if np.isfinite(bound) else None)
    if given[-1] is None:
        given.pop()
    return call.write("Clip", given, value.shape, slot)


def write_activated(
    call: Call, op: str, inputs: Sequence[Value | None], shape: Shape, slot: Slot, **attributes: Any
) -> Value:
    """Write a node and the operator's fused activation. In between the numbers are real, and quantized once, unless a
    kernel gives bytes: a clamp of real numbers that saturation does not imply would keep the operator from it.
    """
    bounds = open_bounds(activation(call), slot)
    if not np.isfinite(bounds).any():
        return call.write(op, inputs, shape, slot, **attributes)
    given = [value for value in inputs if value is not None and value.data is None]
    if op in _GIVING_BYTES and slot.dtype in BYTES and all(value.dtype in BYTES and value.quant for value in given):
        stored = call.write(op, inputs, shape, call.temporary("linear", slot.dtype, slot.quant), **attributes)
        return _clamp_stored(call, stored, bounds, slot)
    linear = call.write(op, inputs, shape, call.temporary("linear", slot.real), **attributes)
    return write_clamped(call, linear, bounds, slot)


def _clamp_stored(call: Call, value: Value, bounds: tuple[float, float], slot: Slot) -> Value:
    """Write stored integers clamped to what bounds are in them, as LiteRT does."""
    ends = zip(("min", "max"), stored_bounds(bounds, slot), strict=True)
    given = [value, *(call.constant(end, label, slot.dtype) for label, end in ends)]
    return call.write("Clip", given, value.shape, slot, storage=True)


def stored_bounds(bounds: tuple[float, float], slot: Slot) -> tuple[int, int]:
    """The least and the greatest integer that a quantized output stores within bounds, as LiteRT counts them."""
    if slot.quant is None:
        raise TypeError(f"'{slot.name}' is not quantized")
    least, greatest = limits(slot.dtype)
    found = []
    for bound in bounds:
        counted = np.float64(np.float32(bound) / slot.quant.scale[0]) if np.isfinite(bound) else bound
        stored = slot.quant.zero_point[0] + np.copysign(np.floor(np.abs(counted) + 0.5), counted)
        found.append(int(np.clip(stored, least, greatest)))
    return found[0], found[1]


def channels_first(rank: int) -> tuple[int, ...]:
    """The permutation from channels last to channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation from channels first to channels last."""
    return (0, *range(2, rank), 1)


def to_channels_first(call: Call, value: Value) -> Value:
    """An input of a layout-sensitive operator, turned to its layout."""
    return call.transposed(value, channels_first(len(value.shape)), "input_nchw", pattern=True)


def from_channels_first(call: Call, value: Value) -> Value:
    """Write the operator's output, turned back."""
    return call.transpose(value, channels_last(len(value.shape)), call.slot(), pattern=True)


def first_slot(call: Call, label: str = "nchw") -> Slot:
    """A slot for the operator's output in channels-first layout."""
    slot = call.slot()
    return call.temporary(label, slot.dtype, slot.quant)


def ranked(call: Call, value: Value, rank: int) -> Value:
    """``value``, which must have this rank."""
    if len(value.shape) != rank:
        raise ModelError(f"{call.origin} reads '{value.name}' of rank {len(value.shape)}, it needs rank {rank}")
    return value


def static(call: Call, dims: Sequence[Dim], what: str) -> tuple[int, ...]:
    """Sizes that must not be symbolic."""
    numbers = tuple(dim for dim in dims if isinstance(dim, int))
    if len(numbers) != len(dims):
        raise GapError(f"its {what} is dynamic", STATIC)
    return numbers


def windows(
    call: Call, spatial: Shape, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Shape, dict[str, Any]]:
    """The output sizes of a sliding window and its attributes, for the operator's ``padding``."""
    if min(*strides, *dilations, *kernel) < 1:
        raise ModelError(f"{call.origin} has a stride, dilation or kernel size below 1")
    same, explicit = call.option("padding") == 0, call.option(EXPLICIT_PADS, None)
    dilations = effective(kernel, dilations)
    geometry = list(zip(spatial, kernel, strides, dilations, strict=True))
    attributes: dict[str, Any] = {"kernel_shape": tuple(kernel), "strides": tuple(strides)}
    if any(dilation != 1 for dilation in dilations):
        attributes["dilations"] = tuple(dilations)
    if explicit is not None:
        return _explicit(call, geometry, explicit), {**attributes, "pads": explicit}
    shape = tuple(window(*axis, same, call.arithmetic) for axis in geometry)
    if not same:
        return shape, attributes
    pads = [same_pads(*axis) for axis in geometry]
    known = [pad for pad in pads if pad is not None]
    if len(known) == len(pads):
        attributes["pads"] = tuple(pad[0] for pad in known) + tuple(pad[1] for pad in known)
    elif "dilations" in attributes:
        raise GapError("its padding SAME with strides and dilation depends on a dynamic size", STATIC)
    elif not all(automatic(*axis[:3]) for axis in geometry):
        raise GapError("its padding SAME with a stride above the kernel size depends on a dynamic size", STATIC)
    else:
        attributes["auto_pad"] = "SAME_UPPER"
    return shape, attributes


def effective(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Dilations, 1 along an axis where a kernel has a single element: OpenVINO heeds them even there."""
    return tuple(1 if size == 1 else dilation for size, dilation in zip(kernel, dilations, strict=True))


def _explicit(call: Call, geometry: Sequence[tuple[Dim, int, int, int]], pads: Sequence[int]) -> Shape:
    """The output sizes with explicit padding, which comes with stride 1."""
    shape: list[Dim] = []
    for axis, (size, kernel, _, dilation) in enumerate(geometry):
        grown = pads[axis] + pads[axis + len(geometry)] - (kernel - 1) * dilation
        shape.append(window(call.arithmetic.total((size, grown)), 1, 1, 1, False, call.arithmetic))
    return tuple(shape)


def bias_of(call: Call, bias: Value | None, x: Value, weights: Value, channels: Dim) -> Value | None:
    """The bias of a convolution or contraction. A quantized one counts in steps of input scale times weight scale."""
    if bias is None:
        return None
    if x.quant is None or weights.quant is None or real_dtype(bias) == "float32":
        return call.reshaped(bias, (channels,), "bias")
    if bias.data is None:
        raise GapError("its quantized bias is computed at run time", "make the bias constant")
    if weights.quant.block:
        raise GapError("its quantized bias is added to weights quantized per block", "use a bias of float32")
    scale = (x.quant.scale[:1] * weights.quant.scale).astype(np.float32)
    data = bias.data.reshape(-1)
    if data.size != channels or scale.size not in (1, data.size):
        raise ModelError(f"{call.origin} has {data.size} biases for {channels} channels")
    result = call.slot().quant
    if bias.dtype == "int32" and x.dtype in BYTES and result is not None:
        data = np.minimum(data + lifted(scale / result.scale), np.iinfo(np.int32).max)
    if bias.dtype == "int32":
        axis = 0 if scale.size > 1 else None
        return call.constant(data, "bias", "int32", Quant(scale, np.zeros(scale.size, np.int32), axis))
    return call.constant(data.astype(np.float64) * scale, "bias", "float32")


def as_multiplied(call: Call, x: Value, weights: Value, bias: Value | None) -> Value:
    """The weights as LiteRT's sums of 16-bit activations see them.

    LiteRT multiplies a 64-bit sum by (input scale * weight scale / output scale) rounded to 15 bits, which is up to one
    step off at the end of the 16-bit range. The rounding goes into the weight scales, where it costs nothing.
    """
    result = call.slot().quant
    if x.dtype != "int16" or x.quant is None or weights.quant is None or weights.data is None or result is None:
        return weights
    if (call.option("quantized_bias_type") == _INT32) if bias is None else (bias.dtype == "int32"):
        return weights
    unit = result.scale[0].astype(np.float64) / x.quant.scale[0]
    mantissas, exponents = np.frexp(weights.quant.scale.astype(np.float64) / unit)
    rounded = np.minimum(np.floor(mantissas * 2.0**15 + 0.5), 2.0**15 - 1)
    scale = (np.ldexp(rounded, exponents - 15) * unit).astype(np.float32)
    quant = Quant(scale, weights.quant.zero_point, weights.quant.axis)
    return call.constant(weights.data, "weights_multiplied", weights.dtype, quant)


def hybrid_weights(call: Call, x: Value, position: int) -> Value:
    """Weights of 8 bits as LiteRT multiplies them by floats: bytes declared as unsigned are signed all the same."""
    weights = call.input(position)
    if weights.quant is None or weights.dtype != "uint8" or x.quant is not None or call.declared(position) == "float32":
        return weights
    if weights.data is None:
        raise GapError("its weights are computed bytes without sign, which LiteRT takes for signed ones", "use int8")
    quant = Quant(weights.quant.scale, np.zeros(weights.quant.zero_point.shape, np.int8), weights.quant.axis)
    return call.constant(weights.data.view(np.int8), "signed", "int8", quant)


def as_int64(call: Call, value: Value, label: str = "int64") -> Value:
    """An integer value as int64."""
    if value.dtype == "int64":
        return value
    if value.data is not None:
        return call.constant(value.data, label, "int64")
    return call.write("Cast", [value], value.shape, call.temporary(label, "int64"), real="int64", to="int64")


def counted(call: Call, count: Dim, dtype: str, label: str) -> Value:
    """Vector of the integers from 0 to below ``count``; a long one is computed at run time."""
    if isinstance(count, int) and count <= _COUNTED:
        return call.constant(np.arange(count), label, dtype)
    end = call.sizes((count,), "count") if isinstance(count, Size) else call.vector([count], "count")
    bounds = [call.constant(0, "zero", "int64"), call.reshaped(end, (), "count"), call.constant(1, "one", "int64")]
    return cast_to(call, call.write("Range", bounds, (count,), call.temporary(label, "int64")), dtype)


def as_stored(call: Call, value: Value) -> Value:
    """The stored integers of a quantized value, as numbers."""
    if value.quant is None:
        return value
    if value.data is not None:
        return call.constant(value.data, "stored", value.dtype)
    return call.write("Identity", [value], value.shape, call.temporary("stored", value.dtype), storage=True)


def lift_of(x: Value, slot: Slot) -> float:
    """By how much a quantized value is to be raised where LiteRT gives it the scale of the output; 0 for the most."""
    if x.quant is None or slot.quant is None or x.quant.axis is not None or slot.quant.axis is not None:
        return 0.0
    scale = float(slot.quant.scale[0])
    return lift(float(x.quant.scale[0]) / scale) * scale


def raised(call: Call, value: Value, amount: float, slot: Slot | None = None) -> Value:
    """A float more than a value, which is the value itself where that is nothing."""
    if not amount:
        return value
    given = [value, call.constant(amount, "lift", "float32")]
    return call.write("Add", given, value.shape, slot or call.temporary("raised"))


def rounded_away(call: Call, slot: Slot) -> Slot:
    """A slot for what is to be stored as an output of 8 bits is, but for halves, which are rounded away from zero."""
    if slot.quant is None:
        raise ValueError(f"'{slot.name}' is not quantized")
    return call.temporary("rounded_away", slot.dtype, away(slot.quant))


def as_steps(call: Call, value: Value) -> Value:
    """A quantized value as floats that are what it stores."""
    slot = call.temporary("steps", value.dtype, steps(value.dtype))
    return call.write("Identity", [value], value.shape, slot, storage=True)


def cast_to(call: Call, value: Value, dtype: str, label: str = "cast") -> Value:
    """A value that is not quantized as numbers of another type; a constant is cast at once."""
    if value.dtype == dtype:
        return value
    if value.data is not None:
        return call.constant(value.data.astype(dtype), label, dtype)
    return call.write("Cast", [value], value.shape, call.temporary(label, dtype), real=dtype, to=dtype)


def write_stored(
    call: Call, op: str, inputs: Sequence[Value | None], shape: Shape, slot: Slot, dtype: str, **attributes: Any
) -> Value:
    """Write a node that gives numbers of ``dtype``; they are what the output stores, whatever that means."""
    if slot.quant is None and slot.dtype == dtype:
        return call.write(op, inputs, shape, slot, real=dtype, **attributes)
    return store(call, call.write(op, inputs, shape, call.temporary("numbers", dtype), real=dtype, **attributes), slot)


def store(call: Call, numbers: Value, slot: Slot) -> Value:
    """Write an output that stores these numbers."""
    if slot.quant is None and slot.dtype != numbers.dtype:
        return call.write("Cast", [numbers], numbers.shape, slot, real=slot.dtype, to=slot.dtype)
    return call.write("Identity", [cast_to(call, numbers, slot.dtype)], numbers.shape, slot, storage=True)


def finish_int(
    call: Call, op: str, inputs: Sequence[Value | None], shape: Shape, slot: Slot, **attributes: Any
) -> Value:
    """Write a node with an int64 output in ONNX, cast to the type of the TFLite output."""
    if slot.dtype == "int64":
        return call.write(op, inputs, shape, slot, real="int64", **attributes)
    wide = call.write(op, inputs, shape, call.temporary("int64", "int64"), real="int64", **attributes)
    return call.write("Cast", [wide], shape, slot, real=slot.dtype, to=slot.dtype)


def copy(call: Call, value: Value, position: int = 0) -> Value:
    """Write an output that is an input unchanged."""
    slot = call.slot(position)
    if value.data is not None and value.dtype == slot.dtype:
        return call.known(slot, value.data)
    storage = slot.quant is not None and value.quant is not None and slot.quant.matches(value.quant)
    return call.write("Identity", [value], value.shape, slot, storage=storage)


_SELECTED = {"bool": "int32", "int16": "int32", "uint16": "int32", "uint64": "int64"}
"""Plain types that ONNX Runtime's Where does not take, and what they are widened to."""


def write_extremum(call: Call, op: str, a: Value, b: Value, shape: Shape, slot: Slot) -> Value:
    """Write the Max or Min of two values. Those of int64 are chosen: ONNX Runtime compares their lower 32 bits as int32
    where the upper ones are equal (1.31).
    """
    if real_dtype(a) != "int64":
        return call.write(op, [a, b], shape, slot)
    first = call.write({"Max": "Greater", "Min": "Less"}[op], [a, b], shape, call.temporary("first", "bool"))
    return write_where(call, first, a, b, shape, slot)


def write_where(call: Call, condition: Value, a: Value, b: Value, shape: Shape, slot: Slot) -> Value:
    """Write a Where. ONNX Runtime does not select all types of numbers: some are widened."""
    dtype = real_dtype(a)
    wide = _SELECTED.get(dtype)
    if wide is None:
        return call.write(
            "Where", [condition, a, b], shape, slot, real=dtype, storage=moves([a, b], slot.dtype, slot.quant, BYTES)
        )
    given = [condition, *(cast_to(call, each, wide, "wide") for each in (a, b))]
    chosen = call.write("Where", given, shape, call.temporary("chosen", wide), real=wide)
    return call.write("Cast", [chosen], shape, slot, real=dtype, to=dtype)
