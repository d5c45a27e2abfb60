"""Older runtimes are excused for what newer ones do, and these for nothing."""

from __future__ import annotations

import pytest

from layoutsolve.verification.refusals import RefusedError
from tests import older

REFUSALS = [
    *(
        f"LiteRT refuses this model: RuntimeError: {what}Node number 0 ({operator}) failed to {when}."
        for what, operator, when in (
            ("Type 11 is currently not supported by Slice.", "SLICE", "invoke"),
            ("Does not support type other than bool|float|int, got 17", "SELECT_V2", "invoke"),
            ("tflite/kernels/add.cc:431 Type FLOAT16 is unsupported by op Add.", "ADD", "invoke"),
            (
                "tflite/kernels/fully_connected.cc:221 input->type != kTfLiteFloat32 (INT16 != FLOAT32)",
                "FULLY_CONNECTED",
                "prepare",
            ),
            ("SizeOfDimension(indices, 0) != NumElements(values) (2 != 1)", "SPARSE_TO_DENSE", "prepare"),
        )
    ),
    *(
        f"ONNX Runtime refuses the model: NOT_IMPLEMENTED : Could not find an implementation for {name}(16) node"
        for name in older.KERNELS
    ),
    "ONNX Runtime refuses the model: FAIL : Node (If) Op (If) Cannot parse data from external tensors",
]
OWN = [
    "LiteRT aborted on this model or took more than 60 s",
    "LiteRT refuses this model: RuntimeError: Type INT8 is not supported by Slice.Node number 0 (SLICE) failed",
    "LiteRT refuses this model: RuntimeError: Type 11 is not supported by Conv.Node number 0 (CONV_2D) failed",
    "ONNX Runtime refuses the model: NOT_IMPLEMENTED : Could not find an implementation for Conv(11) node",
    "ONNX Runtime refuses the model: INVALID_GRAPH",
]
NAMES = ["SIGN-float32-special", "test_case[CAST-range-float32-to-int8]", "test_solved[PADV2]"]


def skips(
    name: str, refusal: str, monkeypatch: pytest.MonkeyPatch, litert: older.Version, runtime: older.Version
) -> bool:
    """Whether a test that ends with a refusal is skipped with some versions, or else ends with it."""
    monkeypatch.setattr(older, "LITERT", litert)
    monkeypatch.setattr(older, "ONNXRUNTIME", runtime)
    try:
        with older.excused(name):
            raise RefusedError(refusal)
    except pytest.skip.Exception:
        return True
    except RefusedError:
        return False


@pytest.mark.parametrize("refusal", [*REFUSALS, *OWN])
def test_only_older_runtimes_are_excused(refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert skips("test_case[ADD]", refusal, monkeypatch, (2, 1, 0), (1, 23, 0)) == (refusal in REFUSALS)
    assert not skips("test_case[ADD]", refusal, monkeypatch, (2, 3, 0), (1, 32, 0))


@pytest.mark.parametrize("name", NAMES)
def test_what_older_ones_compute_otherwise_is_not_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert skips(name, OWN[0], monkeypatch, (2, 1, 0), (1, 32, 0))
    assert not skips(name, OWN[0], monkeypatch, (2, 3, 0), (1, 32, 0))
