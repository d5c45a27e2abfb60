"""Every operator between two convolutions: the rules for its layouts are used, and it computes what LiteRT computes."""

from __future__ import annotations

import pytest

import layoutsolve
from tests.audited import audited
from tests.conformance.cases import UNLAYERED
from tests.conformance.networks import NETWORK
from tests.conformance.running import FEW_LEVELS, judge
from tests.conformance.sandwich import sandwiches
from tests.conformance.test_conformance import CASES

OPERATORS = sorted({case.operator for case in CASES} - {NETWORK})
ENDS = ("keep", "free")
"""What is asked of inputs and outputs, in turn of each kind of an operator's data and of each operator."""


@pytest.mark.members(40)
@pytest.mark.parametrize("operator", OPERATORS)
def test_sandwich(operator: str) -> None:
    found = list(sandwiches([case for case in CASES if case.operator == operator]))
    assert bool(found) == (operator not in UNLAYERED)
    for at, (case, model) in enumerate(found):
        ends = ENDS[(at + OPERATORS.index(operator)) % 2]
        conversion = layoutsolve.convert(model.source, inputs=ends, outputs=ends)
        assert not conversion.assignment.ended, case.name
        audited(conversion.model, conversion.assignment, conversion.graph)
        stored = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
        try:
            judge(case, model, conversion.model, *stored, levels=FEW_LEVELS)
        except AssertionError as error:
            raise AssertionError(f"{case.name} with ends '{ends}': {error}") from error
