"""The solved model computes what LiteRT computes, also where inputs and outputs are free to be stored in any order."""

from __future__ import annotations

import onnx
import pytest

import layoutsolve
from tests.audited import audited
from tests.conformance.cases import Case
from tests.conformance.running import check
from tests.conformance.test_conformance import CASES


def solved(source: bytes) -> onnx.ModelProto:
    """Convert as a user does, and see that nothing cut the search off and the file has what the price says."""
    conversion = layoutsolve.convert(source)
    assert not conversion.assignment.ended
    audited(conversion.model, conversion.assignment, conversion.graph)
    return conversion.model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_solved(case: Case) -> None:
    check(case, solved)
