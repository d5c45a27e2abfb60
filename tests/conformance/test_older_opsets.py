"""Operators in operator sets from 11 on: right, or an error that names the operator that needs more.

``python -m experiments.compare.older_opsets`` runs all cases in all of them.
"""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.conformance import families
from tests.conformance.cases import Case
from tests.conformance.opsets import OPSETS, graph_of, older

SHARE = 24

CASES = [case for case in families.every_case() if not crc32(case.name.encode()) % SHARE]


@pytest.mark.members(76)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_older_opsets(case: Case) -> None:
    """Each in two of them, which differ from case to case, and in the oldest."""
    found = graph_of(case)
    if found is None:
        pytest.skip("it is refused in any set")
    first = crc32(case.name.encode()) // SHARE % len(OPSETS)
    for start in dict.fromkeys((0, first)):
        for _ in older(*found, OPSETS[start : start + 1]):
            pass
