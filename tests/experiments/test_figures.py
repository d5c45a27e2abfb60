"""Figures of the documentation are what the script makes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.compare import processors
from experiments.make.figures import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_up_to_date(name: str) -> None:
    text = FIGURES[name]()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert (DOCS / "assets" / name).read_text(encoding="utf-8") == text, (
        "python -m experiments.make.figures docs/assets"
    )
    assert f"assets/{name}" in (DOCS / "theory.md").read_text(encoding="utf-8")


def test_processors_are_up_to_date() -> None:
    """The table of other processors is that of the rows beside the script."""
    rows = json.loads(Path(processors.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    assert processors.table(rows) in (DOCS / "compared.md").read_text(encoding="utf-8")
