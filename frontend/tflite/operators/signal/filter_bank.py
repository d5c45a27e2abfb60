"""From a spectrum to features: tflite-micro's SignalFilterBank and what follows it, in 32 and 64 bits without sign."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.custom.options import flag, integer
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, cast_to, ranked, static, store
from layoutsolve.frontend.tflite.operators.shared.fixed_point import apply, bit_length, chosen, looked_up, shift_right
from layoutsolve.frontend.tflite.operators.signal.spectrum import shift
from layoutsolve.ir.graph import Array, Value

_SNR_BITS, _OUTPUT_BITS = 12, 6
"""Bits behind the point in SignalPCAN, of what it computes and of what it gives."""

_LOG_BITS, _SEGMENT_BITS = 16, 9
_LN_2 = 45426
_SEGMENTS = np.arange(129) / 128
_LOG = np.round((np.log2(1 + _SEGMENTS) - _SEGMENTS) * (1 << _LOG_BITS)).astype(np.int64)
"""How far the logarithm to the base 2 is above a straight line, at 129 places between two powers of two."""


@lowers("CUSTOM:SignalFilterBank", signature="L H H H H H -> M")
def filter_bank(call: Call) -> None:
    """SignalFilterBank: overlapping bands of a spectrum, each summed with its weights; modulo 2^64."""
    x = ranked(call, call.input(0), 1)
    (count,) = static(call, x.shape, "length")
    channels = integer(call, call.settings(), "num_channels")
    if channels < 1 or tuple(call.tensor().shape) != (channels,):
        raise ModelError(f"{call.origin} fills {list(call.tensor().shape)} with {channels} channels")
    call.draft.ask(channels * count)
    matrix = call.constant(_bands(call, channels, count), "bands", "uint64")
    wide = call.reshaped(cast_to(call, x, "uint64", "wide"), (count, 1), "column")
    sums = call.write("MatMul", [matrix, wide], (channels, 1), call.temporary("sums", "uint64"), real="uint64")
    call.reshape(sums, (channels,), call.slot())


def _bands(call: Call, channels: int, count: int) -> Array:
    """The weights as a matrix [channels, count]. What a band leaves of its weights goes to the channel before it; the
    first band has none, so that there is one band more than there are channels.
    """
    weights, unweights, starts, places, widths = (_table(call, position) for position in range(1, 6))
    if min(starts.size, places.size, widths.size) <= channels:
        raise ModelError(f"{call.origin} has fewer than {channels + 1} bands for {channels} channels")
    matrix = np.zeros((channels + 2, count), np.int64)
    for band in range(channels + 1):
        start, place, width = int(starts[band]), int(places[band]), max(int(widths[band]), 0)
        if width and not (0 <= start <= count - width and 0 <= place <= min(weights.size, unweights.size) - width):
            raise ModelError(f"{call.origin} has band {band} at {start}, beyond its {count} numbers or its weights")
        matrix[band, start : start + width] += weights[place : place + width]
        matrix[band + 1, start : start + width] += unweights[place : place + width]
    return matrix[1:-1].astype(np.uint64)


def _table(call: Call, position: int) -> Array:
    """An input that is a constant vector."""
    value = ranked(call, call.input(position), 1)
    if value.data is None:
        raise GapError(f"its table '{value.name}' is computed at run time", "make it constant")
    return value.data


@lowers("CUSTOM:SignalFilterBankSquareRoot", signature="M W -> L")
def square_root(call: Call) -> None:
    """SignalFilterBankSquareRoot: the square root of 64 bits, rounded, shifted right.

    A root in double precision is the one wanted or the next one. The largest of 16 and of 32 bits are not rounded up.
    """
    x, bits = ranked(call, call.input(0), 1), call.reshaped(call.input(1), (), "shift")
    real = call.write("Sqrt", [cast_to(call, x, "float64", "real")], x.shape, call.temporary("real_root", "float64"))
    whole = call.write("Floor", [real], x.shape, call.temporary("floor", "float64"))
    within = apply(call, "Min", whole, (1 << 32) - 1, "within")
    root = cast_to(call, within, "uint64", "root")
    above = apply(call, "Greater", apply(call, "Mul", root, root, "square"), x, "above", "bool")
    root = apply(call, "Sub", root, cast_to(call, above, "uint64", "excess"), "lowered")
    rest = apply(call, "Sub", x, apply(call, "Mul", root, root, "squared"), "rest")
    up = apply(call, "Greater", rest, root, "up", "bool")
    for most in (0xFFFF, 0xFFFFFFFF):
        less = call.write(
            "Not", [apply(call, "Equal", root, most, "full", "bool")], x.shape, call.temporary("open", "bool")
        )
        up = apply(call, "And", up, less, "rounded", "bool")
    rounded = apply(call, "Add", root, cast_to(call, up, "uint64", "one"), "nearest")
    store(call, _shifted(call, rounded, cast_to(call, bits, "uint64", "bits"), "shifted"), call.slot())


def _shifted(call: Call, x: Value, bits: Value | int, label: str) -> Value:
    """Numbers of 64 bits without sign, shifted right."""
    return apply(call, "BitShift", x, bits, label, direction="RIGHT")


def _low(call: Call, x: Value, label: str) -> Value:
    """The lower 32 bits of 64, in int64."""
    return cast_to(call, cast_to(call, x, "uint32", f"{label}_stored"), "int64", label)


def _unsigned(call: Call, x: Value, label: str) -> Value:
    return cast_to(call, x, "uint64", label)


@lowers("CUSTOM:SignalFilterBankSpectralSubtraction", signature="L -> L L")
def spectral_subtraction(call: Call) -> None:
    """SignalFilterBankSpectralSubtraction: an estimate of the noise, kept from run to run, is subtracted."""
    x, options = ranked(call, call.input(0), 1), call.settings()
    (count,) = static(call, x.shape, "length")
    if integer(call, options, "num_channels") != count:
        raise ModelError(f"{call.origin} has {options['num_channels']} channels, but reads {count} numbers")
    smoothing_bits, bits = shift(call, "smoothing_bits"), shift(call, "spectral_subtraction_bits")

    def alternating(key: str) -> Array:
        pair = [integer(call, options, name) % (1 << 32) for name in (key, f"alternate_{key}")]
        return np.resize(np.array(pair, np.uint64), count)

    before = call.kept("noise", (count,), "uint32")
    scaled = _low(call, apply(call, "Mul", _unsigned(call, x, "wide"), 1 << smoothing_bits, "scaled"), "signal")
    part = apply(call, "Mul", _unsigned(call, scaled, "signal_wide"), alternating("smoothing"), "new")
    rest = apply(call, "Mul", _unsigned(call, before, "noise_wide"), alternating("one_minus_smoothing"), "old")
    noise = _low(call, _shifted(call, apply(call, "Add", part, rest, "mixed"), bits, "smoothed"), "noise")
    louder = apply(call, "Greater", noise, scaled, "louder", "bool")
    estimate = chosen(call, louder, scaled, noise, "estimate")
    after = cast_to(call, estimate if flag(call, options, "clamping") else noise, "uint32", "after")
    remaining = integer(call, options, "min_signal_remaining") % (1 << 32)
    least = apply(call, "Mul", _unsigned(call, x, "wide"), remaining, "remaining")
    floor = _low(call, _shifted(call, least, bits, "least"), "floor")
    clean = shift_right(call, apply(call, "Sub", scaled, estimate, "clean"), smoothing_bits, "subtracted")
    above = apply(call, "Greater", clean, floor, "above", "bool")
    store(call, chosen(call, above, clean, floor, "result"), call.slot(0))
    call.keep("noise", after)
    store(call, after, call.slot(1))


@lowers("CUSTOM:SignalPCAN", signature="L L H -> L")
def pcan(call: Call) -> None:
    """SignalPCAN: gain by the estimate of the noise, a piecewise quadratic function, then compression."""
    x, noise, bits = ranked(call, call.input(0), 1), ranked(call, call.input(1), 1), shift(call, "snr_shift")
    table = _table(call, 2).astype(np.int64)
    if table.size < 4 * 32 - 3:
        raise ModelError(f"{call.origin} has a table of {table.size}, it needs {4 * 32 - 3}")
    gain = _gain(call, as_int64(call, noise, "noise"), table)
    gain = _unsigned(call, cast_to(call, cast_to(call, gain, "int16", "gain_stored"), "uint32", "gain_bits"), "gain")
    product = apply(call, "Mul", _unsigned(call, x, "wide"), gain, "amplified")
    snr = _low(call, _shifted(call, product, bits, "snr_shifted"), "snr")
    squared = apply(call, "Div", apply(call, "Mul", snr, snr, "square"), 1 << (2 + 2 * _SNR_BITS - _OUTPUT_BITS), "low")
    linear = apply(call, "Div", snr, 1 << (_SNR_BITS - _OUTPUT_BITS), "line")
    linear = apply(call, "Sub", linear, 1 << _OUTPUT_BITS, "high")
    small = apply(call, "Less", snr, 2 << _SNR_BITS, "small", "bool")
    store(call, chosen(call, small, squared, linear, "shrunk"), call.slot())


def _gain(call: Call, x: Value, table: Array) -> Value:
    """The function that a table holds: its values at 0, 1 and 2, then three coefficients for each number of bits."""
    length = bit_length(call, x, "length")
    tiny = apply(call, "LessOrEqual", x, 2, "tiny", "bool")
    place = apply(call, "Sub", apply(call, "Mul", length, 4, "fourfold"), 6, "place")
    place = chosen(call, tiny, x, place, "piece")
    high = apply(call, "Mul", x, 1 << 11, "high")
    moved = apply(call, "Div", high, looked_up(call, np.int64(1) << np.arange(33), length, "power"), "moved")
    fraction = chosen(
        call, tiny, call.constant(0, "nothing", "int64"), apply(call, "Mod", moved, 1 << 10, "low"), "part"
    )
    last = table.size - 2
    first, second, third = (looked_up(call, table[at : last + at], place, f"part{at}") for at in range(3))
    bent = shift_right(call, apply(call, "Mul", third, fraction, "bend"), 5, "bent")
    slope = apply(call, "Add", bent, apply(call, "Mul", second, 1 << 5, "straight"), "slope")
    rise = shift_right(call, apply(call, "Mul", slope, fraction, "climb"), 15, "rise", 1 << 14)
    return apply(call, "Add", rise, first, "sum")


@lowers("CUSTOM:SignalFilterBankLog", signature="L -> H")
def log(call: Call) -> None:
    """SignalFilterBankLog: the natural logarithm of numbers shifted left, scaled, at most 32767; 0 of 0."""
    x, options = ranked(call, call.input(0), 1), call.settings()
    bits, scale = shift(call, "input_correction_bits"), integer(call, options, "output_scale") % (1 << 32)
    scaled = apply(call, "Mod", apply(call, "Mul", as_int64(call, x, "wide"), 1 << bits, "moved"), 1 << 32, "scaled")
    # Both 0 and 1 count as 1 here, of which the logarithm comes out as 0.
    powers = looked_up(call, np.array([0, *range(32)]), bit_length(call, scaled, "length"), "exponent")
    power = looked_up(call, np.int64(1) << np.arange(32), powers, "power")
    rest = apply(call, "Mul", apply(call, "Mod", scaled, power, "rest"), 1 << _LOG_BITS, "rest_wide")
    fraction = apply(call, "Div", rest, power, "fraction")
    segment = apply(call, "Div", fraction, 1 << _SEGMENT_BITS, "segment")
    within = apply(call, "Mod", fraction, 1 << _SEGMENT_BITS, "within")
    steps = apply(call, "Mul", looked_up(call, np.diff(_LOG), segment, "step"), within, "slope")
    bent = apply(
        call, "Add", looked_up(call, _LOG[:-1], segment, "bend"), shift_right(call, steps, _LOG_BITS, "bent"), "above"
    )
    whole = apply(call, "Mul", powers, 1 << _LOG_BITS, "whole")
    binary = apply(call, "Add", apply(call, "Add", whole, fraction, "line"), bent, "binary")
    natural = shift_right(call, apply(call, "Mul", binary, _LN_2, "natural"), _LOG_BITS, "log", 1 << (_LOG_BITS - 1))
    product = apply(call, "Add", apply(call, "Mul", natural, scale, "product"), 1 << (_LOG_BITS - 1), "half")
    total = apply(call, "Div", apply(call, "Mod", product, 1 << 32, "low"), 1 << _LOG_BITS, "result")
    most = np.iinfo(np.int16).max
    fits = apply(call, "Less", total, most, "fits", "bool")
    store(call, chosen(call, fits, total, most, "clamped"), call.slot())
