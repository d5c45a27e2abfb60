"""Mutants of cases that execute what no other test does: refused as noted, with a remedy, or right."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np
import onnx
import pytest

from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from tests.conformance import families
from tests.conformance.cases import Case, Model
from tests.conformance.reaching import CONSTANT, EXACT, LINES, OF_SIZES, changes, outcome, place_of
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


def inputs_of(mutant: bytes, change: str, given: tuple[Array, ...]) -> tuple[Array, ...]:
    """What a mutant is given."""
    subgraph = parse(mutant).subgraphs[0]
    more = [np.zeros(subgraph.tensors[index].shape, np.float32) for index in subgraph.inputs[len(given) :]]
    return () if change.endswith(CONSTANT) else (*given, *more) if change.endswith(OF_SIZES) else given


def test_messages_are_for_people() -> None:
    """They name tensors, and show no objects of Python."""
    assert [text for lines in NOTED.values() for *_, text in lines if re.search(r"\w\(\w+=", text)] == []


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", NOTED)
def test_what_becomes_of_mutants(operator: str) -> None:
    for case, change, text in NOTED[operator]:
        source = case.make().source
        given = case.make().inputs
        mutant = dict(changes(source, place_of(case, source), given))[change.removeprefix(EXACT)]()
        found, converted = outcome(mutant, change.startswith(EXACT))
        assert found == text, f"{case.name} | {change}"
        if converted is not None:
            model = Model(mutant, inputs_of(mutant, change, given))
            judge(operator, change, mutant, onnx.load_from_string(converted), replace(case, make=lambda of=model: of))
