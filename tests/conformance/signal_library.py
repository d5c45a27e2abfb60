"""tflite-micro's signal library. LiteRT's package has no kernels for it: what is expected is what its C++ computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.conformance import signal_reference as reference
from tests.conformance.cases import Operand, Table, cases, declare
from tests.conformance.mediapipe import add


def packed(**options: Any) -> bytes:
    """Options as the kernels read them."""
    return bytes(flexbuffers.Dumps(options))


def loud(table: Table, dtype: str, *shape: int) -> Operand:
    """Integers of all magnitudes, the extremes among them."""
    limits = np.iinfo(dtype)
    bits = table.random.integers(0, limits.bits, shape)
    spread = table.random.integers(limits.min, limits.max, shape, dtype, endpoint=True) >> bits.astype(dtype)
    ends = table.random.choice(np.array([limits.min, limits.max], dtype), shape)
    return Operand(np.where(table.random.random(shape) < 0.1, ends, spread), dtype)


@cases("CUSTOM:SignalWindow")
def windows(table: Table) -> None:
    for shape in ((16,), (1, 24), (2, 3, 8), (2, 2, 12)):
        for shift in (0, 8, 12, 15):
            weights = loud(table, "int16", min(shape[-1], 24) if shape[-1] != 12 else 6)
            given = [loud(table, "int16", *shape), weights.fixed]
            add(table, f"{shape}-{shift}", given, packed(shift=shift), reference.window, shift=shift)
    given = [loud(table, "int16", 2, 10), loud(table, "int16", 10)]
    add(table, "computed", given, packed(shift=3), reference.window, shift=3)


@cases("CUSTOM:SignalFftAutoScale")
def scales(table: Table) -> None:
    for most in (0, 1, 2, 255, 256, 16383, 16384, 32767):
        x = Operand(table.random.integers(-most, most, 30, endpoint=True).astype(np.int16), "int16")
        add(table, f"most-{most}", [x], b"", reference.auto_scale)
    patterns = (
        [-32768], [5, -32768], [-32768, -5], [-32768, -5, -4, -3], [-32768, -5, -4, 3], [-32768, -5, -4, -4],
        [-32768, -5, -9, 3], [300, -32768, 7, -2], [-32768, 0], [-32768, -32768, -3, 1], [-7, -3, -1],
        [-32768, -9, -32768, -5, -4, 12],
    )  # fmt: skip
    for pattern in patterns:
        add(table, f"lowest-{pattern}", [Operand(np.array(pattern, np.int16), "int16")], b"", reference.auto_scale)


def _extremes(table: Table, kernel: Callable[..., reference.Outputs], more: int) -> None:
    """Transforms of which every product is as large as can be."""
    for dtype, lengths in (("int16", (8, 20)), ("int32", (12, 32))):
        limits = np.iinfo(dtype)
        for length in lengths:
            ends = np.array([limits.min, limits.min + 1, limits.max], dtype)
            x = Operand(table.random.choice(ends, (24, length + more)), dtype)
            add(table, f"{dtype}-extreme-{length}", [x], packed(T=0, fft_length=length), kernel, length=length)


@cases("CUSTOM:SignalRfft")
def spectra(table: Table) -> None:
    _extremes(table, reference.rfft, 0)
    sizes = ((4, 4), (6, 6), (16, 16), (24, 20), (30, 30), (40, 40), (50, 44), (64, 64), (512, 480))
    for dtype in ("int16", "int32", "float32"):
        for length, given in sizes[1::2] if dtype == "int32" else sizes:
            outer = () if length > 100 else (2,) if length % 3 else (2, 1, 2)
            x = table.real(*outer, given) if dtype == "float32" else loud(table, dtype, *outer, given)
            options = packed(T=0, fft_length=length)
            add(table, f"{dtype}-{given}-of-{length}", [x], options, reference.rfft, length=length)


@cases("CUSTOM:SignalIrfft")
def inverses(table: Table) -> None:
    _extremes(table, reference.irfft, 2)
    for dtype in ("int16", "int32", "float32"):
        for length in (4, 24, 40, 128) if dtype == "int32" else (4, 6, 16, 24, 30, 40, 64, 128):
            outer = (2,) if length % 3 else (2, 1, 2)
            shape = (*outer, length + 2)
            x = table.real(*shape) if dtype == "float32" else loud(table, dtype, *shape)
            add(table, f"{dtype}-{length}", [x], packed(T=0, fft_length=length), reference.irfft, length=length)


@cases("CUSTOM:SignalEnergy")
def energies(table: Table) -> None:
    for start, end, count in ((0, 8, 8), (2, 5, 8), (4, 8, 9), (3, 3, 8)):
        options, more = packed(start_index=start, end_index=end), {"start": start, "end": end, "count": count}
        add(table, f"{start}-{end}-{count}", [loud(table, "int16", 2 * 8 + 2)], options, reference.energy, **more)
    options = packed(start_index=0, end_index=2)
    lowest = Operand(np.full(4, -32768, np.int16), "int16")
    add(table, "lowest", [lowest], options, reference.energy, start=0, end=2, count=2)


@cases("CUSTOM:SignalFilterBank")
def banks(table: Table) -> None:
    for channels, count, dtype in ((4, 20, "uint32"), (16, 70, "uint32"), (1, 9, "uint32")):
        widths = table.random.integers(0, 6, channels + 1).astype(np.int16)
        places = (np.cumsum(widths) - widths).astype(np.int16)
        starts = table.random.integers(0, count - 5, channels + 1).astype(np.int16)
        weights = [loud(table, "int16", int(widths.sum()) + 1).fixed for _ in range(2)]
        tables = [Operand(each, "int16", constant=True) for each in (starts, places, widths)]
        given = [loud(table, dtype, count), *weights, *tables]
        options = packed(num_channels=channels)
        add(table, f"{channels}-{count}", given, options, reference.filter_bank, channels=channels)


@cases("CUSTOM:SignalFilterBankSquareRoot")
def roots(table: Table) -> None:
    bits = table.random.integers(1, 33, 40)
    bases = np.array([int(table.random.integers(1, 1 << 32)) >> int(32 - each) for each in bits], np.uint64)
    squares = bases * bases
    near = [squares - np.uint64(1), squares, squares + np.uint64(1), squares + bases, squares + bases + np.uint64(1)]
    edges = [0, 1, 2, 3, 65535**2 + 65535, 65535**2 + 65536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1]
    edges += [((1 << 32) - 1) ** 2 + extra for extra in (-1, 0, (1 << 32) - 1, 1 << 32)]
    for shift in (0, 1, 7, 15):
        for label, x in (("near", np.concatenate(near)), ("edges", np.array(edges, np.uint64))):
            given = [Operand(x.astype(np.uint64), "uint64"), Operand(np.array(shift, np.int32), "int32")]
            add(table, f"{label}-{shift}", given, b"", reference.square_root)


SUBTRACTION = {
    "alternate_one_minus_smoothing": 15401, "alternate_smoothing": 983, "clamping": False, "min_signal_remaining": 819,
    "num_channels": 12, "one_minus_smoothing": 15975, "smoothing": 409, "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
}  # fmt: skip


@cases("CUSTOM:SignalFilterBankSpectralSubtraction")
def subtractions(table: Table) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {}, {"clamping": True}, {"smoothing_bits": 0}, {"num_channels": 1}, {"spectral_subtraction_bits": 0},
        {"smoothing": (1 << 31) - 1, "spectral_subtraction_bits": 31, "clamping": True},
        {"smoothing": 1 << 14, "min_signal_remaining": 1 << 14},
    )  # fmt: skip
    for at, change in enumerate(changes):
        options: dict[str, Any] = {**SUBTRACTION, **change}
        x = loud(table, "uint32", options["num_channels"])
        silence = np.zeros(options["num_channels"], np.uint32)
        add(table, f"{at}", [x], packed(**options), reference.spectral_subtraction, noise=silence, stated=options)


@cases("CUSTOM:SignalPCAN")
def gains(table: Table) -> None:
    for shift, dtype in ((0, "int16"), (6, "int16"), (20, "int16")):
        for label, most in (("small", 2000), ("any", 32767)):
            lut = Operand(table.random.integers(-most, most, 125, endpoint=True).astype(dtype), dtype, constant=True)
            noise = np.concatenate([np.arange(20), 1 << np.arange(32), (1 << np.arange(32)) - 1]).astype(np.uint32)
            noise = np.concatenate([noise, loud(table, "uint32", 16).values])
            given = [loud(table, "uint32", noise.size), Operand(noise, "uint32"), lut]
            add(table, f"{label}-{shift}", given, packed(snr_shift=shift), reference.pcan, shift=shift)
    quiet = [table.integers(12, low=0, high=5000, dtype="uint32") for _ in range(2)]
    lut = table.integers(125, low=0, high=100, dtype="int16").fixed
    add(table, "quiet", [*quiet, lut], packed(snr_shift=12), reference.pcan, shift=12)


@cases("CUSTOM:SignalFilterBankLog")
def logarithms(table: Table) -> None:
    numbers = np.concatenate([np.arange(20), 1 << np.arange(32), (1 << np.arange(32)) - 1]).astype(np.uint32)
    for bits, scale in ((0, 1), (3, 64), (3, 1600), (7, 60000)):
        x = Operand(np.concatenate([numbers, loud(table, "uint32", 40).values]), "uint32")
        options = packed(input_correction_bits=bits, output_scale=scale)
        add(table, f"{bits}-{scale}", [x], options, reference.log, correction_bits=bits, scale=scale)
    quiet = table.integers(12, low=0, high=5000, dtype="uint32")
    add(table, "quiet", [quiet], options, reference.log, correction_bits=bits, scale=scale)


def first(make: Callable[[], Callable[[Array], reference.Outputs]]) -> Callable[[Array], reference.Outputs]:
    """The first run of a kernel that keeps a state."""
    return lambda x: make()(x)


@cases("CUSTOM:SignalDelay")
def delays(table: Table) -> None:
    for shape, length in (((8,), 1), ((2, 4), 4), ((2, 2, 3), 7), ((5,), 0)):
        kernel = first(partial(reference.Delay, length))
        add(table, f"{shape}-{length}", [loud(table, "int16", *shape)], packed(delay_length=length), kernel)


@cases("CUSTOM:SignalFramer")
def frames(table: Table) -> None:
    for shape, size, step, prefill in (((12,), 6, 4, True), ((2, 6), 5, 2, True), ((2, 6), 3, 3, False)):
        x, options = loud(table, "int16", *shape), packed(frame_size=size, frame_step=step, prefill=prefill)
        kernel = first(partial(reference.Framer, size, step, prefill))
        add(table, f"{shape}-{size}-{step}", [x], options, kernel)


@cases("CUSTOM:SignalStacker")
def stacks(table: Table) -> None:
    for channels, left, step in ((4, 2, 1), (3, 1, 2), (5, 0, 1)):
        kernel = first(partial(reference.Stacker, channels, left, 0, step))
        add(
            table,
            f"{channels}-{left}-{step}",
            [loud(table, "int16", channels)],
            stacking(channels, left, 0, step),
            kernel,
        )


def stacking(channels: int, left: int, right: int, step: int) -> bytes:
    """The options of SignalStacker."""
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    return packed(**dict(zip(names, (channels, left, right, step), strict=True)))


@cases("CUSTOM:SignalOverlapAdd")
def overlaps(table: Table) -> None:
    for shape, step in (((3, 96), 48), ((2, 3, 7), 3), ((1, 5), 5), ((2, 2, 5, 9), 2)):
        for dtype in ("int16", "float32"):
            x = table.real(*shape) if dtype == "float32" else loud(table, "int16", *shape)
            kernel = first(partial(reference.OverlapAdd, shape[-1], step))
            add(table, f"{dtype}-{shape}-{step}", [x], packed(T=0, frame_step=step), kernel)


declare("CUSTOM:SignalFilterBank", unlayered="its output is of 64 bits without sign")
declare("CUSTOM:SignalFilterBankSquareRoot", unlayered="its input is of 64 bits without sign")
