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

from layoutsolve.verification.refusals import RefusedError

Version = tuple[int, ...]


def _of(package: str) -> Version:
    return tuple(map(int, re.findall(r"\d+", version(package))[:3]))


LITERT, ONNXRUNTIME = _of("ai-edge-litert"), _of("onnxruntime")
"""The installed versions."""


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
    Otherwise(r"EMBEDDING_LOOKUP-int[48]-\w+-float16", (2, 2), "EMBEDDING_LOOKUP writes float32 as float16"),
    Otherwise(r"CONV_3D-float32-SAME-s111-d2", (2, 3), "CONV_3D that is dilated ends the process"),
    Otherwise(
        r"^test_(mutants|types_of_activations|policy|zero_points)\[CONV_3D\]$", (2, 3), "CONV_3D that is mutated, too"
    ),
    Otherwise(r"SPARSE_TO_DENSE-one-index", (2, 3), "SPARSE_TO_DENSE of one index for all values ends the process"),
    Otherwise(r"BIDIRECTIONAL_SEQUENCE_LSTM-float32-auxiliary", (2, 3), "auxiliary inputs are misread"),
    Otherwise(r"^test_\w+\[PADV2\]$", (2, 2), "PADV2 of int8 in other steps than its input gives anything"),
    Otherwise(r"^test_without_options\[MIRROR_PAD-\w+-REFLECT-", (2, 2), "MIRROR_PAD without options is anything"),
    Otherwise(r"-by-uint4-", (2, 2), "the schema has no uint4"),
    Otherwise(r"^test_one_verdict\[0\]$", (2, 3), "SQUARED_DIFFERENCE of five dimensions ends the process"),
)  # fmt: skip

LITERT_COMPLETE: Version = (2, 3)
"""The version of LiteRT that has all types of :data:`TYPES`, and refuses nothing of :data:`REFUSALS`."""

_ALSO = "FLOAT16|FLOAT64|UINT16|UINT32|UINT64"
"""Types that operators which move elements lack."""

TYPES = {
    "ADD": "FLOAT16",
    "BATCH_TO_SPACE_ND": f"{_ALSO}|BOOL",
    "COS": "FLOAT16",
    "DYNAMIC_UPDATE_SLICE": "UINT8",
    "EQUAL": "FLOAT16",
    "FILL": f"{_ALSO}|UINT8",
    "FULLY_CONNECTED": "INT16",
    "GELU": "FLOAT16",
    "GREATER": "FLOAT16|INT16",
    "GREATER_EQUAL": "FLOAT16|INT16",
    "LESS": "FLOAT16|INT16",
    "LESS_EQUAL": "FLOAT16|INT16",
    "MUL": "FLOAT16",
    "NOT_EQUAL": "FLOAT16",
    "RESIZE_NEAREST_NEIGHBOR": f"{_ALSO}|BOOL|INT32",
    "SELECT": _ALSO,
    "SELECT_V2": _ALSO,
    "SIN": "FLOAT16",
    "SLICE": _ALSO,
    "SOFTMAX": "FLOAT16",
    "SPACE_TO_BATCH_ND": f"{_ALSO}|BOOL",
    "STABLEHLO_GATHER": "BOOL",
    "STRIDED_SLICE": _ALSO,
    "TILE": f"{_ALSO}|INT16",
    "TRANSPOSE": f"{_ALSO}|COMPLEX64",
    "UNPACK": "FLOAT16",
}
"""The types that operators of older versions of LiteRT lack."""

REFUSALS = {
    "BATCH_MATMUL": r"lhs_data->type == rhs_data->type was not true",
    "EMBEDDING_LOOKUP": r"Type not currently supported|(value|output)->type == kTfLite",
    "FULLY_CONNECTED": r"Invalid tensor index 0 \(not in \[0, 0\)\)",
    "MIRROR_PAD": r"RuntimeError: Node number",
    "QUANTIZE": r"output->type == kTfLiteUInt8 \|\| output->type == kTfLiteInt8 was not true",
    "SPARSE_TO_DENSE": r"SizeOfDimension\(indices, 0\) != NumElements\(values\)",
    "SQUARED_DIFFERENCE": r"NumDimensions|broadcast",
}
"""What else operators of older versions refuse: products of two types, tables of 16 bits and results of float16, blocks
of weights, other types to be padded and quantized, one value at all places, differences of five dimensions.
"""

KERNELS = {
    "BitShift": (1, 32),
    "DepthToSpace": (1, 28),
    "SpaceToDepth": (1, 28),
    "TopK": (1, 26),
    "Where": (1, 31),
}
"""Operators of which ONNX Runtime has kernels of some types from a version on only."""

_NODE = re.compile(r"Node number \d+ \((\w+)\) failed")
_NUMBERED = re.compile(r"(?<=ype |got )\d+\b")
"""A type that LiteRT states by its number in C."""

_NUMBERS = {3: "UINT8", 6: "BOOL", 7: "INT16", 10: "FLOAT16", 11: "FLOAT64", 13: "UINT64", 16: "UINT32", 17: "UINT16"}

_MISSING = re.compile(r"Could not find an implementation for (\w+)\(")
_UNREAD = "Cannot parse data from external tensors"


def excuse(error: RefusedError) -> str:
    """Why an installed runtime refuses what a newer one runs; '' for an error that none excuses."""
    text = str(error)
    if text.startswith("LiteRT "):
        return f"LiteRT {LITERT}: {text}" if LITERT < LITERT_COMPLETE and _lacks(text) else ""
    missing = _MISSING.search(text)
    if missing is not None:
        lacks = KERNELS.get(missing[1], ()) > ONNXRUNTIME
        return f"ONNX Runtime {ONNXRUNTIME} lacks a kernel of {missing[1]}" if lacks else ""
    if _UNREAD in text and ONNXRUNTIME < (1, 23, 2):
        return f"ONNX Runtime {ONNXRUNTIME} loses constants of more than 127 bytes that a body's sizes follow from"
    return ""


def _lacks(refusal: str) -> bool:
    """Whether an older version of LiteRT refuses a type or a form that it is known to lack."""
    node = _NODE.search(refusal)
    if node is None:
        return False
    complaint = f"{refusal[: node.start()]} "
    named = _NUMBERED.sub(lambda found: _NUMBERS.get(int(found[0]), found[0]), complaint)
    known = TYPES.get(node[1])
    lacking = known is not None and re.search(rf"\b({known})\b", named) is not None
    return lacking or (node[1] in REFUSALS and re.search(REFUSALS[node[1]], refusal) is not None)


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
