"""Flex operators that no built-in one equals, and ONNX expresses: poolings of any rank, patches, bits, matrices."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of, broadcast, same_pads, window
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.bitwise import shift_clamped
from layoutsolve.frontend.tflite.operators.flex.elementwise import attributes
from layoutsolve.frontend.tflite.operators.padding import write_pad
from layoutsolve.frontend.tflite.operators.shared.common import (
    cast_to,
    channels_last,
    first_slot,
    from_channels_first,
    ranked,
    static,
    store,
    to_channels_first,
    windows,
    write_stored,
)
from layoutsolve.ir.graph import Array, Dim, Value, product

_FLOATS = ("float32",)
_LONGEST = 1 << 16
"""The longest windows, strides and rates."""

_DOTS = "..."
"""What stands for dimensions without letters in an equation of Einsum."""

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _name(call: Call) -> str:
    return call.operator.name.removeprefix("CUSTOM:Flex")


def _of(call: Call, value: Value, types: Sequence[str]) -> Value:
    if value.dtype not in types or value.quant is not None:
        raise GapError(f"it computes on {value.dtype}", f"use {' or '.join(types)}")
    return value


def _sizes(call: Call, options: dict[str, Any], key: str, rank: int) -> tuple[int, ...]:
    """A size for each dimension, those of the batch and the channels being 1, without these two."""
    found = options.get(key)
    if not isinstance(found, tuple) or len(found) != rank or not all(isinstance(each, int) for each in found):
        raise ModelError(f"{call.origin} has no {rank} numbers as its '{key}' but {found!r}")
    if min(found) < 1 or max(found) > _LONGEST:
        raise ModelError(f"{call.origin} has the '{key}' {list(found)}, with a number below 1 or beyond {_LONGEST}")
    if found[0] != 1 or found[-1] != 1:
        raise GapError(f"its '{key}' {list(found)} reaches over images or channels", "use 1 for both")
    return found[1:-1]


def _padding(call: Call, options: dict[str, Any], rank: int) -> Call:
    """The operator with its padding as built-in ones number it; only of data with the channels last."""
    way = options.get("padding")
    if way not in ("SAME", "VALID"):
        raise GapError(f"its padding is {way!r}", "use SAME or VALID")
    if options.get("data_format", "NHWC") not in ("NHWC", "NDHWC"):
        raise GapError(f"its data format is {options['data_format']!r}", "use NHWC or NDHWC")
    ranked(call, call.input(0), rank)
    return call.restated({"padding": ("SAME", "VALID").index(way)})


@lowers("CUSTOM:FlexAvgPool", "CUSTOM:FlexAvgPool3D", "CUSTOM:FlexMaxPool", "CUSTOM:FlexMaxPool3D", signature="F -> =")
def pool(call: Call) -> None:
    """AvgPool, MaxPool and those of three dimensions: padding does not count."""
    options, rank = attributes(call), 5 if _name(call).endswith("3D") else 4
    way, x = _padding(call, options, rank), _of(call, call.input(0), _FLOATS)
    kernel, strides = _sizes(call, options, "ksize", rank), _sizes(call, options, "strides", rank)
    spatial, stated = windows(way, x.shape[1:-1], kernel, strides, (1,) * len(kernel))
    op = "AveragePool" if _name(call).startswith("Avg") else "MaxPool"
    shape = (x.shape[0], x.shape[-1], *spatial)
    from_channels_first(call, call.write(op, [to_channels_first(call, x)], shape, first_slot(call), **stated))


@lowers("CUSTOM:FlexMaxPoolWithArgmax", signature="F -> = I")
def pool_with_places(call: Call) -> None:
    """MaxPoolWithArgmax: the places count elements of an image with the channels last, or of all images."""
    options = attributes(call)
    way, x = _padding(call, options, 4), _of(call, call.input(0), _FLOATS)
    kernel, strides = _sizes(call, options, "ksize", 4), _sizes(call, options, "strides", 4)
    height, width, channels = static(call, x.shape[1:], "image")
    batch = x.shape[0]
    spatial, stated = windows(way, (height, width), kernel, strides, (1, 1))
    shape = (batch, channels, *spatial)
    slots = [(shape, first_slot(call)), (shape, call.temporary("flat", "int64"))]
    pooled, flat = call.write_many("MaxPool", [to_channels_first(call, x)], slots, **stated)
    from_channels_first(call, pooled)
    size = call.constant(height * width, "size", "int64")
    place = call.write("Mod", [flat, size], shape, call.temporary("place", "int64"))
    lines = [place, call.constant(channels, "channels", "int64")]
    line = call.write("Mul", lines, shape, call.temporary("line", "int64"))
    elements = np.arange(channels).reshape(1, -1, 1, 1)
    if options.get("include_batch_in_index"):
        (images,) = static(call, [batch], "batch")
        firsts = np.arange(images).reshape(-1, 1, 1, 1) * (height * width * channels)
        elements = firsts + elements
    within = call.constant(elements, "element", "int64")
    slot = call.slot(1)
    if slot.dtype == "int64":
        result = call.write("Add", [line, within], shape, call.temporary("places", "int64"))
    else:
        wide = call.write("Add", [line, within], shape, call.temporary("wide", "int64"))
        result = call.write("Cast", [wide], shape, call.temporary("places", slot.dtype), real=slot.dtype, to=slot.dtype)
    call.transpose(result, channels_last(4), slot, pattern=True)


@lowers("CUSTOM:FlexExtractImagePatches", signature="FZ -> =")
def patches(call: Call) -> None:
    """ExtractImagePatches: the pixels of each window, by rows, as channels of one pixel."""
    options = attributes(call)
    way, x, slot = _padding(call, options, 4), _of(call, call.input(0), ("float32", *_INTEGERS)), call.slot()
    kernel, strides = _sizes(call, options, "ksizes", 4), _sizes(call, options, "strides", 4)
    rates, same = _sizes(call, options, "rates", 4), way.option("padding") == 0
    images, channels = x.shape[0], x.shape[3]
    height, width = static(call, x.shape[1:3], "image")
    pads, counts = [], []
    for axis in zip((height, width), kernel, strides, rates, strict=True):
        around = same_pads(*axis) if same else (0, 0)
        pads.append(around or (0, 0))
        counts.append(window(*axis, same, call.arithmetic))
    if any(map(any, pads)):
        x = write_pad(call, x, [(0, 0), *pads, (0, 0)], call.like("padded", x))
    (rows, columns), (down, right) = static(call, counts, "output size"), kernel
    x = _windows(call, x, 1, (rows, down, strides[0], rates[0]))
    x = _windows(call, x, 3, (columns, right, strides[1], rates[1]))
    x = call.transposed(x, (0, 1, 3, 2, 4, 5), "windows")
    call.reshape(x, (images, rows, columns, product((down * right, channels))), slot)


def _windows(call: Call, x: Value, axis: int, geometry: tuple[int, int, int, int]) -> Value:
    """An axis as windows and the elements in them."""
    count, size, stride, rate = geometry
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if not (x.shape[axis] == count * size and rate == 1 and (stride == size or count == 1)):
        call.draft.ask(count * size)
        places = np.arange(count)[:, None] * stride + np.arange(size) * rate
        given = [x, call.constant(places.reshape(-1), "places", "int64")]
        x = call.write("Gather", given, (*before, count * size, *after), call.like("gathered", x), axis=axis)
    return call.reshaped(x, (*before, count, size, *after), "apart")


@lowers("CUSTOM:FlexResizeBicubic", signature="FZ I -> P")
def resize_bicubic(call: Call) -> None:
    """ResizeBicubic: a product by the weights of rows, and one by those of columns, with the channels last.

    Not a Resize: ONNX Runtime moves Transposes through a cubic one, and then refuses it; TensorFlow rounds positions.
    """
    options, x = attributes(call), _of(call, ranked(call, call.input(0), 4), (*_FLOATS, *_INTEGERS))
    halves, aligned = bool(options.get("half_pixel_centers")), bool(options.get("align_corners"))
    sizes = call.integers(1, "size")
    if (halves and aligned) or len(sizes) != 2 or min(sizes) < 1:
        raise ModelError(f"{call.origin} resizes to {list(sizes)}, or has aligned corners and pixels with centres")
    images, channels = x.shape[0], x.shape[3]
    before = static(call, x.shape[1:3], "image")
    if min(before) < 1:
        raise ModelError(f"{call.origin} resizes {x}, which has no pixels")
    rows, columns = (_cubic(call, *axis, halves, aligned) for axis in zip(before, sizes, strict=True))
    lines = call.reshaped(cast_to(call, x, "float32"), (images, before[0], product((before[1], channels))), "lines")
    higher = (images, sizes[0], product((before[1], channels)))
    tall = call.write("MatMul", [call.constant(rows, "rows"), lines], higher, call.temporary("tall"))
    pixels = call.reshaped(tall, (images, sizes[0], before[1], channels), "pixels")
    call.write("MatMul", [call.constant(columns, "columns"), pixels], (images, *sizes, channels), call.slot())


_POSITIONS = 1024
"""The positions within a pixel that TensorFlow tells apart."""


def _cubic(call: Call, before: int, after: int, halves: bool, aligned: bool) -> Array:
    """The weight of each pixel of a line in each pixel of the resized line: by Keys' kernel where pixels have centres,
    and what is outside does not count, else by TensorFlow's older one, for which the border goes on.
    """
    call.draft.ask(before * after)
    scale = np.float32(before - 1) / np.float32(after - 1) if aligned and after > 1 else np.float32(before / after)
    numbers = np.arange(after, dtype=np.float32)
    places = (numbers + np.float32(0.5)) * scale - np.float32(0.5) if halves else numbers * scale
    first = np.floor(places)
    beyond = np.rint((places - first) * _POSITIONS) / _POSITIONS
    weights, a = np.zeros((after, before)), -0.5 if halves else -0.75
    for step in range(-1, 3):
        far, pixel = np.abs(beyond - step), first.astype(np.int64) + step
        near = ((a + 2) * far - (a + 3)) * far**2 + 1
        wide = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
        weight = np.where(far <= 1, near, wide)
        if halves:
            weight[(pixel < 0) | (pixel >= before)] = 0
        np.add.at(weights, (np.arange(after), np.clip(pixel, 0, before - 1)), weight)
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


@lowers("CUSTOM:FlexBitwiseAnd", "CUSTOM:FlexBitwiseOr", "CUSTOM:FlexBitwiseXor", signature="Z = -> =")
def bits(call: Call) -> None:
    """BitwiseAnd, BitwiseOr and BitwiseXor."""
    a, b = (_of(call, each, _INTEGERS) for each in call.inputs())
    call.write(_name(call), [a, b], broadcast([a.shape, b.shape], call.arithmetic), call.slot())


@lowers("CUSTOM:FlexInvert", signature="Z -> =")
def invert(call: Call) -> None:
    """Invert: all bits are turned."""
    x = _of(call, call.input(0), _INTEGERS)
    call.write("BitwiseNot", [x], x.shape, call.slot())


@lowers("CUSTOM:FlexLeftShift", "CUSTOM:FlexRightShift", signature="Z = -> =")
def shift(call: Call) -> None:
    """LeftShift and RightShift of at most 32 bits: the sign stays, and counts are kept within the width."""
    shift_clamped(call, left=_name(call).startswith("Left"))


@lowers("CUSTOM:FlexMatrixDeterminant", signature="F -> =")
def determinant(call: Call) -> None:
    """MatrixDeterminant of the last two axes."""
    x = _of(call, call.input(0), _FLOATS)
    if len(x.shape) < 2 or not call.agree(x.shape[-2:-1], x.shape[-1:]):
        raise ModelError(f"{call.origin} takes the determinant of {x}, which is not square")
    call.write("Det", [x], x.shape[:-2], call.slot())


@lowers("CUSTOM:FlexMatrixBandPart", signature="FZB I I -> =")
def band(call: Call) -> None:
    """MatrixBandPart: so many diagonals below and above the main one, all of them where the number is negative.

    ONNX Runtime has no kernel of the other integers.
    """
    x, slot = _of(call, call.input(0), ("float32", "bool", *_INTEGERS)), call.slot()
    x = x if x.dtype in ("float32", "bool") else cast_to(call, x, "int64")
    (lower,), (upper,) = call.integers(1, "number of diagonals below"), call.integers(2, "number of diagonals above")
    if len(x.shape) < 2:
        raise ModelError(f"{call.origin} takes diagonals of {x}")
    sides = [(limit, at) for limit, at in ((-lower, 1), (upper, 0)) if (limit <= 0 if at else limit >= 0)]
    for place, (limit, at) in enumerate(sides):
        within = slot if place == len(sides) - 1 and slot.dtype == x.dtype else call.like("half", x)
        x = call.write("Trilu", [x, call.constant(limit, "diagonal", "int64")], x.shape, within, upper=at)
    if not sides or slot.dtype != x.dtype:
        store(call, x, slot)


@lowers("CUSTOM:FlexEinsum", signature="FZ =* -> =")
def einsum(call: Call) -> None:
    """Einsum, by the equation that ONNX's has as well."""
    inputs = call.inputs()
    equation = _lettered(str(attributes(call).get("equation", "")).replace(" ", ""), inputs)
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != len(inputs):
        raise GapError(f"its equation is '{equation}'", "name all dimensions")
    sizes: dict[str, Dim] = {}
    for term, value in zip(terms, inputs, strict=True):
        _of(call, value, ("float32", "int32", "int64"))
        if len(term) != len(value.shape) or len(set(term)) != len(term):
            raise GapError(f"its equation '{equation}' takes {value} as '{term}'", "name each dimension once")
        for letter, size in zip(term, value.shape, strict=True):
            if not call.agree((sizes.setdefault(letter, size),), (size,)):
                raise ModelError(f"{call.origin} has '{letter}' of {sizes[letter]} and {size}")
    if len(set(right)) != len(right) or not set(right) <= set(sizes):
        raise ModelError(f"{call.origin} has the equation '{equation}'")
    call.write("Einsum", inputs, tuple(sizes[letter] for letter in right), call.slot(), equation=equation)


def _lettered(equation: str, inputs: Sequence[Value]) -> str:
    """An equation whose dots are letters; as it is where tensors have other numbers of dimensions in their place."""
    terms = equation.partition("->")[0].split(",")
    numbers = [
        len(value.shape) - len(term) + len(_DOTS) for term, value in zip(terms, inputs, strict=False) if _DOTS in term
    ]
    free = [letter for letter in ascii_letters if letter not in equation]
    if (
        len(set(numbers)) != 1
        or not 0 <= numbers[0] <= len(free)
        or any(term.count(".") > len(_DOTS) for term in terms)
    ):
        return equation
    return equation.replace(_DOTS, "".join(free[: numbers[0]]))


@lowers("CUSTOM:FlexRoll", signature="FZB I I -> =")
def roll(call: Call) -> None:
    """Roll along axes: the end of each comes before its beginning."""
    x = call.input(0)
    shifts, axes = call.integers(1, "shift"), call.integers(2, "axis")
    if len(shifts) != len(axes) or x.quant is not None:
        raise ModelError(f"{call.origin} rolls {len(axes)} axes by {len(shifts)} numbers")
    steps = [(axis_of(axis, len(x.shape)), count) for axis, count in zip(axes, shifts, strict=True)]
    for axis, count in steps:
        (size,) = static(call, [x.shape[axis]], "size")
        call.draft.ask(size)
        places = call.constant((np.arange(size) - count) % max(size, 1), "places", "int64")
        x = call.write("Gather", [x, places], x.shape, call.like("rolled", x), axis=axis)
    call.write("Identity", [x], x.shape, call.slot())


@lowers("CUSTOM:FlexIsFinite", signature="F -> B")
def is_finite(call: Call) -> None:
    """IsFinite: neither infinite nor no number."""
    x = _of(call, call.input(0), _FLOATS)
    wrong = [
        call.write(op, [x], x.shape, call.temporary(label, "bool"), real="bool")
        for op, label in (("IsInf", "infinite"), ("IsNaN", "no_number"))
    ]
    either = call.write("Or", wrong, x.shape, call.temporary("wrong", "bool"))
    call.write("Not", [either], x.shape, call.slot())


@lowers("CUSTOM:FlexDivNoNan", "CUSTOM:FlexMulNoNan", "CUSTOM:FlexXdivy", "CUSTOM:FlexXlogy", signature="F = -> =")
def without_nan(call: Call) -> None:
    """Quotients and products that are 0 where one side is: the divisor of DivNoNan, the factor of MulNoNan, the first
    number of Xdivy and of Xlogy, which takes the logarithm of the second.
    """
    a, b = (_of(call, each, _FLOATS) for each in call.inputs())
    shape, name = broadcast([a.shape, b.shape], call.arithmetic), _name(call)
    decides = b if name in ("DivNoNan", "MulNoNan") else a
    zero = call.constant(0, "zero", "float32")
    empty = call.write("Equal", [decides, zero], decides.shape, call.temporary("empty", "bool"), real="bool")
    other = call.write("Log", [b], b.shape, call.temporary("logarithm")) if name == "Xlogy" else b
    op = "Div" if name in ("DivNoNan", "Xdivy") else "Mul"
    result = call.write(op, [a, other], shape, call.temporary("result"))
    call.write("Where", [empty, zero, result], shape, call.slot(), real="float32")


@lowers("CUSTOM:FlexTruncateDiv", "CUSTOM:FlexTruncateMod", signature="Z = -> =")
def truncated(call: Call) -> None:
    """TruncateDiv and TruncateMod: quotients of integers rounded towards zero, and what they leave."""
    a, b = (_of(call, each, ("int8", "uint8", "int16", "int32", "int64")) for each in call.inputs())
    a, b = (each if each.dtype == "int64" else cast_to(call, each, "int32") for each in (a, b))
    shape = broadcast([a.shape, b.shape], call.arithmetic)
    op, more = ("Div", {}) if _name(call) == "TruncateDiv" else ("Mod", {"fmod": 1})
    write_stored(call, op, [a, b], shape, call.slot(), a.dtype, **more)
