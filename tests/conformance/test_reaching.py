"""Mutants of cases that execute what no other test does: refused as noted, with a remedy, or right."""

from __future__ import annotations

import re
from collections import defaultdict

import onnx
import pytest

from tests.conformance import families
from tests.conformance.cases import Case
from tests.conformance.reaching import EXACT, LINES, changes, outcome, place_of
from tests.conformance.test_mutants import judge

CASES = {case.name: case for case in families.every_case()}


def noted() -> dict[str, list[tuple[Case, str, str]]]:
    """Case, change and what becomes of it, by operator."""
    found = defaultdict(list)
    for line in LINES.read_text(encoding="utf-8").splitlines():
        name, change, text = line.split(" | ", 2)
        found[CASES[name].operator].append((CASES[name], change, text))
    return found


NOTED = noted()


def test_messages_are_for_people() -> None:
    """They name tensors, and show no objects of Python."""
    assert [text for lines in NOTED.values() for *_, text in lines if re.search(r"\w\(\w+=", text)] == []


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", NOTED)
def test_what_becomes_of_mutants(operator: str) -> None:
    for case, change, text in NOTED[operator]:
        source = case.make().source
        mutant = dict(changes(source, place_of(case, source)))[change.removeprefix(EXACT)]()
        found, converted = outcome(mutant, change.startswith(EXACT))
        assert found == text, f"{case.name} | {change}"
        if converted is not None:
            judge(operator, change, mutant, onnx.load_from_string(converted), case)
