"""What each stage prints of eight small models; ``python -m tests.golden`` writes the texts anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import layoutsolve
from layoutsolve.inspection.printing import STAGES
from tests.conformance import families
from tests.conformance.cases import Case
from tests.golden.models import MODELS
from tests.golden.outlines import FAMILIES, FOLDER, outlines

LONG = ("CUSTOM:PosenetDecoderOp",)
"""What becomes hundreds of operators, as long texts as these are."""

FIRST = list({case.operator: case for case in families.every_case() if case.operator not in LONG}.values())
"""A case of every operator."""


def golden(name: str) -> Path:
    """The file with the expected texts of a model."""
    return Path(__file__).parent / f"{name}.txt"


def printed(name: str) -> str:
    """What all stages print of a model, one after the other, each below its name."""
    conversion = layoutsolve.convert(MODELS[name]())
    about = " ".join((MODELS[name].__doc__ or "").split())
    return "\n".join([about, *(f"\n-- {stage} --\n{conversion.text(stage)}" for stage in STAGES), ""])


@pytest.mark.parametrize("name", MODELS)
def test_stages_print_what_was_read(name: str) -> None:
    assert printed(name) == golden(name).read_text(encoding="utf-8")


@pytest.mark.members(40)
@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.operator)
def test_any_model_can_be_printed(case: Case) -> None:
    """Each stage in as many lines as it has parts, and the same again."""
    conversion = layoutsolve.convert(case.make().source)
    texts = {stage: conversion.text(stage) for stage in STAGES}
    ends = len(conversion.graph.inputs) + len(conversion.graph.outputs)
    assert len(texts["graph"].splitlines()) >= 1 + ends + len(conversion.graph.nodes)
    assert len(texts["assignment"].splitlines()) >= 3 + 2 * len(conversion.assignment.problem.operators)
    assert texts == {stage: conversion.text(stage) for stage in STAGES}


@pytest.mark.parametrize("family", FAMILIES)
def test_networks_become_what_they_did(family: str) -> None:
    assert [*outlines(family)] == (FOLDER / f"{family}.txt").read_text(encoding="utf-8").splitlines()


def test_every_text_has_its_model() -> None:
    assert {path.stem for path in Path(__file__).parent.glob("*.txt")} == set(MODELS)


def test_the_documentation_quotes_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(quoted) > 5
    assert all(text in golden("classifier").read_text(encoding="utf-8") for text in quoted)
