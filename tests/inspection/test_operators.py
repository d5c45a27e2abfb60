"""The page of operators leaves none out, and what is not converted says why."""

from __future__ import annotations

import re
from collections import Counter

from layoutsolve.frontend.tflite.lowering.registry import RARE, every_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import REFUSED
from layoutsolve.frontend.tflite.reading.schema import BUILTIN_OPERATORS
from tests import operators
from tests.conformance.families import every_case
from tests.conformance.networks import NETWORK

REGISTRY = every_lowering()

BUILTIN = {name for name in BUILTIN_OPERATORS if not name.startswith("STABLEHLO_")}


def test_every_operator_has_a_row() -> None:
    rows = re.findall(r"^\| (\w+|CUSTOM:[\w.]+) \|", operators.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    wanted = {*BUILTIN, *(name for name in (*REGISTRY, *REFUSED) if name.startswith(("STABLEHLO_", "CUSTOM:")))}
    assert sorted(name for name in rows if name != "operator") == sorted(wanted)


def test_what_is_not_converted_has_a_reason() -> None:
    refused = {name for name in REFUSED if not name.startswith("STABLEHLO_")}
    assert BUILTIN - REGISTRY.keys() == refused
    assert not REGISTRY.keys() & REFUSED.keys()


def test_counts_of_cases() -> None:
    """The page has to be written anew where cases come or go."""
    page = operators.PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+|CUSTOM:[\w.]+) \|.*\| (\d+) \|$", page, re.MULTILINE))
    counts = Counter(case.operator for case in every_case() if case.operator in REGISTRY)
    assert {name: int(count) for name, count in rows.items()} == counts


def test_cases_are_of_operators_that_are_converted() -> None:
    """Cases of any other operator would be skipped without a word."""
    assert {case.operator for case in every_case()} - REGISTRY.keys() == {NETWORK}


def test_rare_modules_lower_what_their_names_begin_with() -> None:
    """They are imported for operators of such names only."""
    for module in {module for modules in RARE.values() for module in modules}:
        home = f"layoutsolve.frontend.tflite.operators.{module}"
        found = [name for name, function in REGISTRY.items() if function.__module__ == home]
        prefixes = tuple(prefix for prefix, modules in RARE.items() if module in modules)
        assert found
        assert [name for name in found if not name.startswith(prefixes)] == []
