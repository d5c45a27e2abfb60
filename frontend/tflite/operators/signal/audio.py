"""Spectrograms and cepstral coefficients, as speech commands of TensorFlow compute them."""

from __future__ import annotations

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.custom.options import flag, number
from layoutsolve.frontend.tflite.operators.padding import write_pad
from layoutsolve.frontend.tflite.operators.shared.common import static
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.ir.graph import Array, Size

_FLOOR = 1e-12
"""The least energy of which a logarithm is taken."""


@lowers("CUSTOM:AudioSpectrogram", signature="P -> P")
def audio_spectrogram(call: Call) -> None:
    """AudioSpectrogram: squared magnitudes, or their roots, of windows that are padded to a power of two."""
    x, slot, options = call.input(0), call.slot(), call.settings()
    size, stride = (int(number(call, options, key, 0)) for key in ("window_size", "stride"))
    if len(x.shape) != 2 or size < 2 or stride < 1:
        raise ModelError(f"{call.origin} takes windows of {size} samples each {stride} of rank {len(x.shape)}")
    samples, channels = x.shape
    length = 1 << (size - 1).bit_length()
    if isinstance(samples, int) and samples < size:
        raise GapError(f"it has {samples} samples, which are no window of {size}", "give it more samples")
    call.draft.ask(length)
    lines = call.transposed(x, (1, 0), "lines") if channels != 1 else call.reshaped(x, (1, samples), "lines")
    if length > size:
        lines = write_pad(call, lines, [(0, 0), (0, length - size)], call.temporary("padded"))
    signal = call.reshaped(lines, (*lines.shape, 1), "signal")
    window = np.zeros(length)
    window[:size] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames, bins = call.arithmetic.window(samples, size, stride), length // 2 + 1
    if not isinstance(samples, Size):
        frames = (samples - size) // stride + 1
    given = [signal, call.constant(stride, "stride", "int64"), call.constant(window, "window", "float32")]
    shape = (channels, frames, bins)
    spectrum = call.write("STFT", given, (*shape, 2), call.temporary("spectrum"), onesided=1)
    reduction = "ReduceSumSquare" if flag(call, options, "magnitude_squared") else "ReduceL2"
    call.write(reduction, [spectrum, call.vector([3], "parts")], shape, slot, keepdims=0)


@lowers("CUSTOM:Mfcc", signature="P W -> P")
def mfcc(call: Call) -> None:
    """Mfcc: the cosine transform of logarithms of magnitudes, weighted by triangles that are even on the mel scale."""
    x, slot, options = call.input(0), call.slot(), call.settings()
    (rate,) = call.integers(1, "sample rate")
    names = ("upper_frequency_limit", "lower_frequency_limit", "filterbank_channel_count", "dct_coefficient_count")
    upper, lower, channels, count = (int(number(call, options, name, 0)) for name in names)
    if len(x.shape) != 3:
        raise ModelError(f"{call.origin} reads a spectrogram of rank {len(x.shape)}")
    (bins,) = static(call, x.shape[2:], "number of frequencies")
    if not (1 <= count <= channels and bins > 1 and rate > 0 and 0 <= lower < upper):
        raise ModelError(
            f"{call.origin} makes {count} coefficients of {channels} channels from {lower} to {upper} Hz of"
            f" {bins} frequencies at {rate} Hz"
        )
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + lower / step), int(upper / step)
    if last >= bins:
        raise ModelError(f"{call.origin} weights up to {upper} Hz, beyond half of the sample rate {rate}")
    call.draft.ask((bins + count) * channels)
    inner = (*x.shape[:2], channels)
    if first > last:
        raise GapError(f"no frequency lies between {lower} and {upper} Hz", "use a wider range")
    cut = take(call, x, {2: Span(first, last + 1)}, call.temporary("weighted"))
    magnitudes = call.write("Sqrt", [cut], cut.shape, call.temporary("magnitudes"))
    triangles = _triangles(step * np.arange(first, last + 1), channels, lower, upper)
    weights = call.constant(triangles, "triangles", "float32")
    energies = call.write("MatMul", [magnitudes, weights], inner, call.temporary("energies"))
    floor = [energies, call.constant(_FLOOR, "floor", "float32")]
    logarithms = call.write(
        "Log", [call.write("Max", floor, inner, call.temporary("floored"))], inner, call.temporary("logarithms")
    )
    angles = np.outer(np.arange(channels) + 0.5, np.arange(count)) * np.pi / channels
    cosines = call.constant(np.sqrt(2 / channels) * np.cos(angles), "cosines", "float32")
    call.write("MatMul", [logarithms, cosines], (*x.shape[:2], count), slot)


def _triangles(frequencies: Array, channels: int, lower: int, upper: int) -> Array:
    """What each frequency adds to each channel: falling from its centre to those beside it, at even steps of mel."""
    low, high = _mel(np.array([lower, upper], np.float64))
    edges = low + (high - low) / (channels + 1) * np.arange(channels + 2)
    mels = _mel(frequencies)[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    return np.asarray(np.maximum(np.minimum(rising, falling), 0))


def _mel(frequencies: Array) -> Array:
    return np.asarray(1127 * np.log1p(frequencies / 700))
