"""Converted models of tflite-micro's signal library that are fed the states which they return, run after run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.builder import Builder
from tests.conformance import signal_reference as reference
from tests.conformance.cases import Table
from tests.conformance.signal_library import SUBTRACTION, loud, packed, stacking

RUNS = 9
Kernel = Callable[[Array], reference.Outputs]


def subtraction(**change: Any) -> Kernel:
    """SignalFilterBankSpectralSubtraction, which keeps its second output."""
    state = {"noise": np.zeros(SUBTRACTION["num_channels"], np.uint32)}

    def run(x: Array) -> reference.Outputs:
        result, state["noise"] = reference.spectral_subtraction(x, state["noise"], {**SUBTRACTION, **change})
        return result, state["noise"]

    return run


def framing(size: int, step: int, prefill: bool) -> bytes:
    """The options of SignalFramer."""
    return packed(frame_size=size, frame_step=step, prefill=prefill)


Row = tuple[str, str, tuple[int, ...], bytes, Callable[[], Kernel]]
"""An operator, type and shape of its input, its options, and what makes its kernel anew."""

ROWS: Mapping[str, Row] = {
    "delay": ("SignalDelay", "int16", (2, 4), packed(delay_length=6), partial(reference.Delay, 6)),
    "delay-short": ("SignalDelay", "int16", (5,), packed(delay_length=2), partial(reference.Delay, 2)),
    "framer": ("SignalFramer", "int16", (2, 6), framing(7, 3, True), partial(reference.Framer, 7, 3, True)),
    "framer-waits": ("SignalFramer", "int16", (2, 4), framing(9, 2, False), partial(reference.Framer, 9, 2, False)),
    "framer-long": ("SignalFramer", "int16", (3,), framing(12, 3, False), partial(reference.Framer, 12, 3, False)),
    "framer-gaps": ("SignalFramer", "int16", (8,), framing(3, 4, False), partial(reference.Framer, 3, 4, False)),
    "stacker": ("SignalStacker", "int16", (4,), stacking(4, 1, 2, 1), partial(reference.Stacker, 4, 1, 2, 1)),
    "stacker-steps": ("SignalStacker", "int16", (3,), stacking(3, 3, 1, 2), partial(reference.Stacker, 3, 3, 1, 2)),
    "stacker-apart": ("SignalStacker", "int16", (2,), stacking(2, 1, 1, 3), partial(reference.Stacker, 2, 1, 1, 3)),
    "stacker-wide": ("SignalStacker", "int16", (5,), stacking(3, 0, 1, 1), partial(reference.Stacker, 3, 0, 1, 1)),
    "stacker-single": ("SignalStacker", "int16", (3,), stacking(3, 0, 0, 1), partial(reference.Stacker, 3, 0, 0, 1)),
    "overlap": ("SignalOverlapAdd", "int16", (2, 3, 7), packed(T=7, frame_step=3), partial(reference.OverlapAdd, 7, 3)),
    "overlap-long": ("SignalOverlapAdd", "int16", (1, 8), packed(frame_step=1), partial(reference.OverlapAdd, 8, 1)),
    "overlap-float": ("SignalOverlapAdd", "float32", (2, 6), packed(frame_step=4), partial(reference.OverlapAdd, 6, 4)),
    "subtraction": ("SignalFilterBankSpectralSubtraction", "uint32", (12,), packed(**SUBTRACTION), subtraction),
    "subtraction-clamped": (
        "SignalFilterBankSpectralSubtraction", "uint32", (12,), packed(**{**SUBTRACTION, "clamping": True}),
        partial(subtraction, clamping=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_runs(row: str) -> None:
    operator, dtype, shape, options, make = ROWS[row]
    table = Table(row)
    inputs = [
        table.real(*shape).values if dtype == "float32" else loud(table, dtype, *shape).values for _ in range(RUNS)
    ]
    if dtype == "uint32":
        inputs = [x >> 12 for x in inputs]
    kernel = make()
    expected = [kernel(x) for x in inputs]
    builder = Builder()
    given = builder.input("x", shape, dtype)
    results = [builder.tensor(f"y{at}", each.shape, each.dtype.name) for at, each in enumerate(expected[0])]
    builder.operator(f"CUSTOM:{operator}", [given], results, custom_options=options)
    model = layoutsolve.convert(builder.finish(*results)).model.SerializeToString()
    for level in LEVELS:
        runtime = OnnxRuntime(model, threads=1, level=level)
        states: dict[str, Array] = {}
        for x, outputs in zip(inputs, expected, strict=True):
            made = runtime.run({**feeds(runtime, [x], {}), **states})
            _check(outputs, made)
            states = dict(zip(runtime.states, made[len(outputs) :], strict=True))


def _check(expected: reference.Outputs, made: list[Array] | tuple[Array, ...]) -> None:
    """Outputs are equal; where one says whether the others are valid, and they are not, it alone."""
    flags = [each for each in expected if each.dtype == bool]
    compared = [*zip(expected, made, strict=False)]
    for wanted, found in compared:
        assert wanted.shape == found.shape and wanted.dtype == found.dtype
        if wanted.dtype == bool or all(flags):
            assert np.array_equal(wanted, found)


def test_invalid_frames_occur() -> None:
    """The rows say so that wait for more numbers."""
    waiting = set()
    for name, (_, dtype, shape, _, make) in ROWS.items():
        flags = [each for each in make()(np.zeros(shape, dtype)) if each.dtype == bool]
        if not all(flags):
            waiting.add(name)
    assert waiting == {"framer-waits", "framer-long", "stacker", "stacker-steps", "stacker-apart", "stacker-wide"}
