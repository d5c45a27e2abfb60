"""Spectrograms, cepstral coefficients, the check of quantized numbers: custom operators with kernels in LiteRT."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flatbuffers import flexbuffers

from tests.conformance.cases import Operand, Table, cases, constant, fed


def mapping(options: Mapping[str, float | bool]) -> bytes:
    """A FlexBuffer map of numbers and truth values."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            if isinstance(value, bool):
                builder.Bool(value)
            elif isinstance(value, int):
                builder.Int(value)
            else:
                builder.Float(value)
    return bytes(builder.Finish())


@cases("CUSTOM:AudioSpectrogram")
def spectrograms(table: Table) -> None:
    for samples, channels, window, stride, squared in (
        (400, 1, 64, 32, True), (400, 1, 64, 32, False), (333, 2, 50, 20, True), (333, 3, 50, 77, False),
        (64, 1, 64, 1, True), (16, 1, 2, 3, True), (1600, 1, 640, 320, True),
    ):  # fmt: skip
        options = mapping({"window_size": window, "stride": stride, "magnitude_squared": squared})
        label = f"{samples}x{channels}-{window}-{stride}-{squared}"
        x = table.real(samples, channels)
        table.add(label, [x], custom_options=options)
        if channels < 3 and samples > 64:
            table.add(f"{label}-open", [x.dynamic(0)] if samples < window else [x], custom_options=options)


@cases("CUSTOM:Mfcc")
def coefficients(table: Table) -> None:
    for rate, bins, upper, lower, channels, count in (
        (16000, 257, 4000, 20, 40, 13), (16000, 129, 8000, 0, 20, 20), (8000, 65, 3900, 300, 10, 1),
        (44100, 513, 12000, 125, 80, 40), (16000, 33, 7999, 1, 60, 12),
    ):  # fmt: skip
        options = mapping(
            {
                "upper_frequency_limit": float(upper),
                "lower_frequency_limit": float(lower),
                "filterbank_channel_count": channels,
                "dct_coefficient_count": count,
            }
        )
        x = Operand(np.square(table.real(2, 5, bins).values) * 100)
        table.add(f"{rate}-{bins}-{count}", [x, constant(rate)], custom_options=options)
        broken = Operand(x.values.copy())
        broken.values[0, 1, 5], broken.values[0, 2, -1] = -1, -1
        table.add(f"{rate}-{bins}-{count}-broken", [broken, constant([rate])], custom_options=options)
        silent = Operand(x.values * (table.random.random(x.values.shape) < 0.5))
        silent.values[0, 0] = 0
        table.add(f"{rate}-{bins}-{count}-silent", [silent, constant([rate])], custom_options=options)


@cases("CUSTOM:NumericVerify")
def verified(table: Table) -> None:
    for dtype in ("int8", "uint8", "int16"):
        options = mapping({"tolerance": 5.0, "log_if_failed": False})
        table.add(dtype, [table.quantized(dtype, 2, 3, 4), table.real(2, 3, 4)], custom_options=options)
    halves = fed(table.real(2, 3).values, "float16")
    table.add("float16", [halves, table.real(2, 3)], custom_options=options)
