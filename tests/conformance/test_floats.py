"""Quantized operators that are computed with real numbers, ``quant="float"``: as near to LiteRT as with integers."""

from __future__ import annotations

from zlib import crc32

import onnx
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import Reading, read
from tests.conformance import families
from tests.conformance.cases import Case
from tests.conformance.networks import NETWORK
from tests.conformance.running import check

KINDS = ("int8", "uint8", "int16", "quantized", "wide", "scales")
"""What the labels of cases have where an operator computes with quantized numbers."""

APART = (NETWORK, "SVDF")
"""Whole networks, in which roundings would add up, and what is compared to the last bit."""

CASES = [
    case
    for case in families.every_case()
    if case.operator not in APART and any(kind in case.label for kind in KINDS) and not crc32(case.name.encode()) % 4
]


def floats(source: bytes) -> onnx.ModelProto:
    """The reference graph as it stands, its quantized activations computed with real numbers."""
    return serialise(read(source, "case", Reading(quant="float")))


@pytest.mark.members(1, each="operator")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_floats(case: Case) -> None:
    try:
        read(case.make().source, "case")
    except ConversionError:
        pytest.skip("it is refused however its numbers are written")
    check(case, floats)
