"""What older runtimes that are supported lack, or compute otherwise than newer ones: there is nothing to compare with
then. Each fault is named with the version that has mended it, so that the newest runtimes excuse nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version

import pytest

from layoutsolve.verification.runtimes import RefusedError

Version = tuple[int, ...]


def _of(package: str) -> Version:
    return tuple(map(int, re.findall(r"\d+", version(package))[:3]))


LITERT, ONNXRUNTIME = _of("ai-edge-litert"), _of("onnxruntime")
"""The installed versions."""

LITERT_COMPLETE: Version = (2, 3)
"""The version of LiteRT that runs every case; older ones refuse operators or types, or abort."""


@dataclass(frozen=True)
class Otherwise:
    """What LiteRT computes otherwise up to the version ``mended``, in tests whose name matches ``named``."""

    named: str
    mended: Version
    what: str


OTHERWISE = (
    Otherwise(r"SIGN-float32-special", (2, 2), "SIGN of what is not a number is 0"),
    Otherwise(r"CAST-range-float\d\d-to-", (2, 2), "CAST of floats beyond the range of an integer gives anything"),
    Otherwise(r"STABLEHLO_GATHER-windows-clipped-", (2, 2), "STABLEHLO_GATHER reads beyond its operand"),
    Otherwise(r"EMBEDDING_LOOKUP-int8-tensor-float16", (2, 2), "EMBEDDING_LOOKUP writes float32 as float16"),
    Otherwise(r"BIDIRECTIONAL_SEQUENCE_LSTM-float32-auxiliary", (2, 3), "auxiliary inputs are misread"),
    Otherwise(r"^test_\w+\[PADV2\]$", (2, 2), "PADV2 of int8 in other steps than its input gives anything"),
    Otherwise(r"^test_without_options\[MIRROR_PAD-\w+-REFLECT-", (2, 2), "MIRROR_PAD without options is anything"),
    Otherwise(r"-by-uint4-", (2, 2), "the schema has no uint4"),
)  # fmt: skip

KERNELS = {
    "BitShift": (1, 32),
    "DepthToSpace": (1, 28),
    "SpaceToDepth": (1, 28),
    "TopK": (1, 26),
    "Where": (1, 31),
}
"""Operators of which ONNX Runtime has kernels of some types from a version on only."""

_MISSING = re.compile(r"Could not find an implementation for (\w+)\(")
_UNREAD = "Cannot parse data from external tensors"


def excuse(error: RefusedError) -> str:
    """Why an installed runtime refuses what a newer one runs; '' for an error that none excuses."""
    text = str(error)
    if text.startswith("LiteRT "):
        return f"LiteRT {LITERT}: {text}" if LITERT < LITERT_COMPLETE else ""
    missing = _MISSING.search(text)
    if missing is not None:
        lacks = KERNELS.get(missing[1], ()) > ONNXRUNTIME
        return f"ONNX Runtime {ONNXRUNTIME} lacks a kernel of {missing[1]}" if lacks else ""
    if _UNREAD in text and ONNXRUNTIME < (1, 23, 2):
        return f"ONNX Runtime {ONNXRUNTIME} loses constants of more than 127 bytes that a body's sizes follow from"
    return ""


@contextmanager
def excused(name: str) -> Iterator[None]:
    """Skip the test of a name where an installed runtime has a fault that a newer one has not."""
    for fault in OTHERWISE:
        if fault.mended > LITERT and re.search(fault.named, name):
            pytest.skip(f"LiteRT {LITERT}: {fault.what}")
    try:
        yield
    except RefusedError as error:
        if reason := excuse(error):
            pytest.skip(reason)
        raise
