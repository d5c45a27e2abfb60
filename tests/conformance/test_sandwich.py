"""Every operator between two convolutions: the rules for its layouts are used, and it computes what LiteRT computes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import layoutsolve
from tests.audited import audited
from tests.conformance.networks import NETWORK
from tests.conformance.running import FEW_LEVELS, judge
from tests.conformance.sandwich import sandwiches
from tests.conformance.test_conformance import CASES

OPERATORS = sorted({case.operator for case in CASES} - {NETWORK})
WITHOUT: Mapping[str, str] = {
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), "tables of strings"),
    **dict.fromkeys(
        ("CUSTOM:FlexIsFinite", "CUSTOM:FlexIsInf", "CUSTOM:FlexIsNan"), "a convolution spreads what is no number"
    ),
    **dict.fromkeys(
        ("CUSTOM:RaggedTensorToTensor", "CUSTOM:FlexRaggedTensorToTensor"),
        "it is given rows one after the other, and the sizes of what it gives depend on data",
    ),
    "CUSTOM:FlexFill": "its inputs are constant",
    "CUSTOM:SignalFilterBank": "its output is of 64 bits without sign",
    "CUSTOM:SignalFilterBankSquareRoot": "its input is of 64 bits without sign",
    "RANGE": "its inputs are single numbers",
}
"""Operators that no case puts between convolutions, and why."""

ENDS = ("keep", "free")
"""What is asked of inputs and outputs: both of the first kind of an operator's data, in turn of the others."""


@pytest.mark.parametrize("operator", OPERATORS)
def test_sandwich(operator: str) -> None:
    found = list(sandwiches([case for case in CASES if case.operator == operator]))
    assert bool(found) == (operator not in WITHOUT)
    for at, (case, model) in enumerate(found):
        for ends in ENDS if not at else ENDS[at % 2 :][:1]:
            conversion = layoutsolve.convert(model.source, inputs=ends, outputs=ends)
            assert not conversion.assignment.ended, case.name
            audited(conversion.model, conversion.assignment, conversion.graph)
            stored = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
            try:
                judge(case, model, conversion.model, *stored, levels=FEW_LEVELS)
            except AssertionError as error:
                raise AssertionError(f"{case.name} with ends '{ends}': {error}") from error
