"""What of tflite-micro's signal library is refused, and why; and how many operators a transform becomes."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.draft import Draft
from tests.builder import Builder
from tests.conformance.signal_library import SUBTRACTION, packed, stacking

Tensor = tuple[str, tuple[int, ...]]


def model(operator: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], options: bytes) -> bytes:
    """One operator, of which the inputs after the first are constants of zeros."""
    builder = Builder()
    given = [
        builder.constant(f"x{at}", np.zeros(shape), dtype) if at else builder.input("x0", shape, dtype)
        for at, (dtype, shape) in enumerate(inputs)
    ]
    results = [builder.tensor(f"y{at}", shape, dtype) for at, (dtype, shape) in enumerate(outputs)]
    builder.operator(f"CUSTOM:{operator}", given, results, custom_options=options)
    return builder.finish(*results)


def short(*shape: int) -> Tensor:
    return "int16", shape


def word(*shape: int) -> Tensor:
    return "uint32", shape


FLAG: Tensor = ("bool", ())
BANK = [word(20), short(9), short(9), short(5), short(5), short(5)]

REFUSED = {
    "options": (model("SignalWindow", [short(8), short(8)], [short(8)], b""), "no number as its option 'shift'"),
    "shift": (model("SignalWindow", [short(8), short(8)], [short(8)], packed(shift=32)), "shifts by 32 bits"),
    "window": (model("SignalWindow", [short(8), short(3)], [short(8)], packed(shift=1)), "window of 3 over 8"),
    "odd": (model("SignalRfft", [short(9)], [short(11)], packed(fft_length=9)), "the length 9"),
    "radix": (model("SignalRfft", [short(28)], [short(30)], packed(fft_length=28)), "a stage of radix 7"),
    "short": (model("SignalIrfft", [short(4)], [short(2)], packed(fft_length=2)), "a stage of radix 1"),
    "long": (model("SignalRfft", [short(9)], [short(10)], packed(fft_length=8)), "rows of 9"),
    "stated": (model("SignalRfft", [short(8)], [short(8)], packed(fft_length=8)), "which is \\[10\\]"),
    "spectrum": (model("SignalIrfft", [short(8)], [short(8)], packed(fft_length=8)), "has 10"),
    "types": (model("SignalRfft", [("int32", (8,))], [short(10)], packed(fft_length=8)), "int16 as output 0"),
    "energy": (model("SignalEnergy", [short(8)], [word(4)], packed(start_index=0, end_index=5)), "numbers 0 to 5 of 4"),
    "channels": (model("SignalFilterBank", BANK, [("uint64", (5,))], packed(num_channels=5)), "fewer than 6 bands"),
    "room": (model("SignalFilterBank", BANK, [("uint64", (3,))], packed(num_channels=4)), "with 4 channels"),
    "noise": (
        model("SignalFilterBankSpectralSubtraction", [word(5)], [word(5), word(5)], packed(**SUBTRACTION)),
        "has 12 channels, but reads 5",
    ),
    "table": (model("SignalPCAN", [word(4), word(4), short(99)], [word(4)], packed(snr_shift=6)), "it needs 125"),
    "delay": (model("SignalDelay", [short(4)], [short(4)], packed(delay_length=-1)), "by -1"),
    "frames": (
        model("SignalFramer", [short(5)], [short(2, 4), FLAG], packed(frame_size=4, frame_step=2, prefill=True)),
        "cuts 5 numbers",
    ),
    "filled": (
        model("SignalFramer", [short(4)], [short(1, 3), FLAG], packed(frame_size=3, frame_step=4, prefill=True)),
        "frames of 3, 4 apart",
    ),
    "stack": (model("SignalStacker", [short(4)], [short(8), FLAG], stacking(4, 1, 0, 3)), "in steps of 3"),
    "overlap": (model("SignalOverlapAdd", [short(2, 4)], [short(10)], packed(frame_step=5)), "of 4, 5 apart"),
    "dense": (model("SignalOverlapAdd", [short(2, 65)], [short(2)], packed(frame_step=1)), "65 of its frames overlap"),
    **{
        f"huge-{operator}": (model(operator, [short(8)], outputs, options), "far beyond")
        for operator, outputs, options in (
            ("SignalDelay", [short(8)], packed(delay_length=1 << 30)),
            ("SignalFramer", [short(1, 1 << 30), FLAG], packed(frame_size=1 << 30, frame_step=8, prefill=True)),
            ("SignalStacker", [short(8 << 27), FLAG], stacking(8, 1 << 28, 0, 1)),
            ("SignalRfft", [short((1 << 30) + 2)], packed(fft_length=1 << 30)),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, message = REFUSED[case]
    with pytest.raises((ModelError, UnsupportedError), match=message):
        layoutsolve.convert(source)


@pytest.mark.parametrize("operator", ["SignalRfft", "SignalIrfft"])
def test_tables_are_asked_for_by_their_length(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of a transform has four in tables."""
    asked, ask = list[int](), Draft.ask
    monkeypatch.setattr(Draft, "ask", lambda draft, elements: (asked.append(elements), ask(draft, elements)))
    ends = [short(128), short(130)][:: 1 if operator == "SignalRfft" else -1]
    read(model(operator, ends[:1], ends[1:], packed(fft_length=128)))
    assert asked[0] == 4 * 128


@pytest.mark.parametrize("length", [8, 32, 128, 512, 2048])
def test_operators_grow_with_the_number_of_stages(length: int) -> None:
    source = model("SignalRfft", [short(length)], [short(length + 2)], packed(fft_length=length))
    assert len(read(source).nodes) <= 60 + 18 * (log(length // 2, 4) + 0.5)
