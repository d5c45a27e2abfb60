"""All families of cases; importing this module declares them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from tests.conformance import flex
from tests.conformance.cases import Case, all_cases

for _path in sorted(Path(__file__).parent.glob("*.py")):
    if "\n@cases(" in _path.read_text(encoding="utf-8"):
        import_module(f"tests.conformance.{_path.stem}")

ELSEWHERE = dict.fromkeys(
    ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL", *(f"CUSTOM:Flex{name}" for name in flex.CHANCE)),
    "test_random.py compares how they are distributed",
)
"""Operators that have no cases here, and why."""


@cache
def every_case() -> list[Case]:
    """All cases, of all families: one list for all that ask."""
    return all_cases()
