"""From a frame of sound to its spectrum: tflite-micro's SignalWindow, -FftAutoScale, -Rfft, -Irfft and -Energy."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.operators.custom.options import integer
from layoutsolve.frontend.tflite.operators.padding import write_pad
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, cast_to, ranked, static, store
from layoutsolve.frontend.tflite.operators.shared.fixed_point import (
    apply,
    bit_length,
    chosen,
    looked_up,
    saturated,
    shift_right,
    wrapped,
)
from layoutsolve.frontend.tflite.operators.signal.kissfft import KissFft, combined, divided, multiplied, transformed
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Shape, Value

_MOST_BITS = 31
_TABLES = 4
"""Elements that tables of a transform have for each of its length, those of one stage."""


def shift(call: Call, key: str) -> int:
    """An option that is a number of bits to shift 32-bit numbers by."""
    bits = integer(call, call.settings(), key)
    if not 0 <= bits <= _MOST_BITS:
        raise ModelError(f"{call.origin} shifts by {bits} bits, its option '{key}'")
    return bits


@lowers("CUSTOM:SignalWindow", signature="H H -> =")
def window(call: Call) -> None:
    """SignalWindow: frames one after the other times a window, shifted right and saturated."""
    x, weights, bits = call.input(0), ranked(call, call.input(1), 1), shift(call, "shift")
    (length,) = static(call, weights.shape, "window")
    if not x.shape or x.shape[-1] != length:
        total = prod(static(call, x.shape, "input shape"))
        if not length or total % length:
            raise ModelError(f"{call.origin} puts a window of {length} over {total} numbers")
    rows = x.shape if x.shape and x.shape[-1] == length else (total // length, length)
    frames = call.reshaped(as_int64(call, x, "wide"), rows, "frames")
    product = apply(call, "Mul", frames, as_int64(call, weights, "weights"), "product")
    clamped = saturated(call, shift_right(call, product, bits, "shifted"), "int16", "clamped")
    store(call, call.reshaped(clamped, x.shape, "unframed"), call.slot())


@lowers("CUSTOM:SignalFftAutoScale", signature="H -> = W")
def auto_scale(call: Call) -> None:
    """SignalFftAutoScale: numbers shifted left as far as the largest of them allows, and by how many bits."""
    x = ranked(call, call.input(0), 1)
    (length,) = static(call, x.shape, "length")
    call.draft.ask(length)
    wide = as_int64(call, x, "wide")
    most = _largest(call, wide, length)
    # The kernel takes 0 for a number of all 32 bits: it is not shifted.
    bits = looked_up(call, np.array([0, *range(14, -1, -1)]), bit_length(call, most, "bits"), "shift")
    power = looked_up(call, np.int64(1) << np.arange(15), bits, "power")
    store(call, apply(call, "Mul", wide, power, "scaled"), call.slot(0))
    store(call, call.reshaped(bits, (), "scalar"), call.slot(1))


def _largest(call: Call, x: Value, length: int) -> Value:
    """The largest magnitude as the kernel finds it, a vector of one element.

    -32768 has no counterpart in int16: the kernel negates it to itself and starts again after it. It then keeps the
    number before as long as that is negative and the next one larger. If that goes to the end, the result is 0.
    """
    axes, places = call.vector([0], "axes"), call.constant(np.arange(length), "places", "int64")

    def extreme(op: str, numbers: Value, label: str) -> Value:
        return call.write(op, [numbers, axes], (1,), call.temporary(label, "int64"), keepdims=1)

    lowest = apply(call, "Equal", x, -32768, "lowest", "bool")
    last = extreme("ReduceMax", chosen(call, lowest, places, -1, "at"), "last")
    before = looked_up(call, x, call.vector(np.maximum(np.arange(length) - 1, 0).tolist(), "previous"), "before")
    climbing = apply(call, "Greater", x, before, "climbing", "bool")
    negative = apply(call, "Less", x, 0, "negative", "bool")
    again = apply(call, "GreaterOrEqual", last, 0, "again", "bool")
    kept = apply(call, "And", apply(call, "And", climbing, negative, "both", "bool"), again, "kept", "bool")
    bar = chosen(call, kept, call.constant(length, "never", "int64"), last, "bar")
    starting = apply(call, "Greater", places, bar, "starting", "bool")
    start = extreme("ReduceMin", chosen(call, starting, places, length, "from"), "start")
    counted = apply(call, "GreaterOrEqual", places, start, "counted", "bool")
    magnitude = call.write("Abs", [x], x.shape, call.temporary("magnitude", "int64"))
    return extreme("ReduceMax", chosen(call, counted, magnitude, 0, "magnitudes"), "most")


@lowers("CUSTOM:SignalRfft", signature="HWP -> =")
def rfft(call: Call) -> None:
    """SignalRfft: the spectrum of each row, padded with zeros to the length; its parts follow each other."""
    x, (length, rows) = call.input(0), _lengths(call)
    (given,) = static(call, x.shape[-1:], "length")
    if given > length:
        raise ModelError(f"{call.origin} reads rows of {given}, more than its transform of {length} takes")
    shape = _stated(call, (*x.shape[:-1], length + 2))
    real = call.reshaped(x if x.dtype == "float32" else as_int64(call, x, "wide"), (rows, given), "rows")
    if given < length:
        real = write_pad(call, real, [(0, 0), (0, length - given)], call.temporary("padded", real.dtype))
    if x.dtype == "float32":
        inputs = [call.reshaped(real, (rows, length, 1), "real"), *_along(call, length)]
        spectrum = call.write("DFT", inputs, (rows, length // 2 + 1, 2), call.temporary("spectrum"), onesided=1)
        call.reshape(spectrum, shape, call.slot())
    else:
        fft = KissFft(length // 2, x.dtype, inverse=False)
        store(call, call.reshaped(_spectrum(call, real, rows, fft), shape, "spectra"), call.slot())


def _spectrum(call: Call, x: Value, rows: int, fft: KissFft) -> Value:
    """The spectrum [rows, 2 * length + 2] of real numbers [rows, 2 * length]."""
    packed = transformed(call, x, rows, fft)
    constant = take(call, packed, {2: Span(0, 1)}, call.temporary("constant", "int64"))
    ends = combined(call, divided(call, constant, 2, fft), np.array([[1, 1], [0, 0], [1, -1], [0, 0]]), "ends")
    doubled = combined(call, _pairs(call, packed, rows, fft), _MIRRORED, "doubled")
    if fft.dtype == "int32":
        doubled = wrapped(call, doubled, "int32", "doubled")
    return _unfolded(call, ends, shift_right(call, doubled, 1, "halved"), rows, fft, ends=2)


@lowers("CUSTOM:SignalIrfft", signature="HWP -> =")
def irfft(call: Call) -> None:
    """SignalIrfft: the numbers of which each row, parts in turn, is the spectrum. Integers are divided on the way."""
    x, (length, rows) = call.input(0), _lengths(call)
    if x.shape[-1] != length + 2:
        raise ModelError(f"{call.origin} reads rows of {x.shape[-1]}, where its transform of {length} has {length + 2}")
    shape = _stated(call, (*x.shape[:-1], length))
    if x.dtype == "float32":
        call.reshape(_inverse(call, x, rows, length), shape, call.slot())
        return
    fft = KissFft(length // 2, x.dtype, inverse=True)
    fft.check()
    pairs = call.reshaped(as_int64(call, x, "wide"), (rows, fft.length + 1, 2), "pairs")
    parts = call.transposed(pairs, (0, 2, 1), "parts")
    real = take(call, parts, {1: Span(0, 1)}, call.temporary("real", "int64"))
    ends = looked_up(call, real, call.vector([0, fft.length], "ends"), "ends", axis=2)
    both = combined(call, call.reshaped(ends, (rows, 2, 1), "column"), np.array([[1, 1], [1, -1]]), "both")
    first = divided(call, wrapped(call, both, fft.dtype, "both"), 2, fft)
    first = combined(call, first, np.array([[1, 0], [0, 1], [0, 0], [0, 0]]), "first")
    inner = wrapped(call, combined(call, _pairs(call, parts, rows, fft), _MIRRORED, "mixed"), fft.dtype, "mixed")
    numbers = transformed(call, _unfolded(call, first, inner, rows, fft, ends=1), rows, fft)
    store(call, call.reshaped(call.transposed(numbers, (0, 2, 1), "turned"), shape, "numbers"), call.slot())


_MIRRORED = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, -1, 0], [0, -1, 0, 1]])
"""From a sum and a turned difference (see :func:`_pairs`) to the lower frequency and the upper one that mirrors it."""


def _pairs(call: Call, x: Value, rows: int, fft: KissFft) -> Value:
    """For frequencies k from 1 up to half of all in ``x``, [rows, 2, length or more]: the sum of x[k] and the conjugate
    of x[length - k], and their difference turned; [rows, 4, half].
    """
    half = fft.length // 2
    steps = np.arange(1, half + 1)
    both = looked_up(call, x, call.constant(np.stack([steps, fft.length - steps]), "mirror", "int64"), "both", axis=2)
    conjugate = apply(call, "Mul", both, np.array([[[1], [1]], [[1], [-1]]]), "conjugate")
    halves = divided(call, wrapped(call, conjugate, fft.dtype, "conjugate"), 2, fft)
    columns = call.reshaped(halves, (rows, 4, half), "halves")
    mixed = combined(call, columns, np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, -1, 0, 0], [0, 0, 1, -1]]), "mixed")
    turns = np.stack([np.ones(half), fft.super_twiddles])
    turned = multiplied(call, call.reshaped(mixed, (rows, 2, 2, half), "mixed"), turns, fft)
    return call.reshaped(wrapped(call, turned, fft.dtype, "turned"), (rows, 4, half), "turned")


def _unfolded(call: Call, first: Value, inner: Value, rows: int, fft: KissFft, ends: int) -> Value:
    """Complex numbers in turn, [rows, 2 * frequencies]: of ``inner`` [rows, 4, half] the lower ones, then from its end
    the upper ones; around them those of ``first`` [rows, 4, 1], or with one of the ``ends`` the first one alone.
    """
    size = fft.length // 2 + 1
    joined = call.write("Concat", [first, inner], (rows, 4, size), call.temporary("joined", "int64"), axis=2)
    table = np.arange(4 * size).reshape(4, size)
    columns = [table[:2, 0], *table[:2, 1 : fft.length - size + 1].T, *table[2:, :0:-1].T, table[2:, 0]]
    places = np.concatenate(columns[: fft.length - 1 + ends]).tolist()
    flat = call.reshaped(joined, (rows, 4 * size), "flat")
    return looked_up(call, flat, call.vector(places, "places"), "unfolded", axis=1)


def _inverse(call: Call, x: Value, rows: int, length: int) -> Value:
    """The inverse transform of floats: the spectrum is completed by its mirror image."""
    x = call.reshaped(x, (rows, length // 2 + 1, 2), "pairs")
    rest = looked_up(call, x, call.vector(list(range(length // 2 - 1, 0, -1)), "mirror"), "rest", axis=1)
    conjugate = apply(call, "Mul", rest, np.array([1, -1]), "conjugate")
    whole = call.write("Concat", [x, conjugate], (rows, length, 2), call.temporary("whole"), axis=1)
    slot = call.temporary("numbers")
    numbers = call.write("DFT", [whole, *_along(call, length)], (rows, length, 2), slot, inverse=1)
    return take(call, numbers, {2: Span(0, 1)}, call.temporary("real"))


def _along(call: Call, length: int) -> list[Value]:
    """Length and axis of a transform of floats, as ONNX's DFT takes them."""
    return [call.constant(length, "length", "int64"), call.constant(1, "axis", "int64")]


def _lengths(call: Call) -> tuple[int, int]:
    """The length of the transform and the number of rows."""
    x, length = call.input(0), integer(call, call.settings(), "fft_length")
    if not x.shape or length < 2 or length % 2:
        raise ModelError(f"{call.origin} transforms '{x.name}' of rank {len(x.shape)} with the length {length}")
    if call.slot().dtype != x.dtype:
        raise ModelError(f"{call.origin} transforms {x.dtype} to {call.slot().dtype}")
    call.draft.ask(_TABLES * length)
    return length, prod(static(call, x.shape, "input shape")[:-1])


def _stated(call: Call, shape: Shape) -> Shape:
    """The shape of the output, which the file has to state alike: the kernel goes by it."""
    if tuple(call.tensor().shape) != shape:
        raise ModelError(f"{call.origin} states {list(call.tensor().shape)} for its output, which is {list(shape)}")
    return shape


@lowers("CUSTOM:SignalEnergy", signature="H -> L")
def energy(call: Call) -> None:
    """SignalEnergy: the squares of complex numbers in a range of the spectrum. The others, not written, are 0."""
    x, options = ranked(call, call.input(0), 1), call.settings()
    start, end = (integer(call, options, key) for key in ("start_index", "end_index"))
    (total,), (count,) = static(call, x.shape, "length"), static(call, call.tensor().shape, "length")
    if not 0 <= start <= end <= min(count, total // 2):
        raise ModelError(f"{call.origin} takes numbers {start} to {end} of {total // 2}, and has room for {count}")
    used = take(call, as_int64(call, x, "wide"), {0: Span(2 * start, 2 * end)}, call.temporary("used", "int64"))
    squares = apply(call, "Mul", used, used, "squares")
    pairs = call.reshaped(squares, (end - start, 2), "pairs")
    axes = call.vector([1], "axes")
    sums = call.write("ReduceSum", [pairs, axes], (end - start,), call.temporary("sums", "int64"), keepdims=0)
    if end - start < count:
        sums = write_pad(call, sums, [(start, count - end)], call.temporary("padded", "int64"))
    store(call, cast_to(call, sums, "uint32"), call.slot())
