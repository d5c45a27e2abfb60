"""What operators are registered with: a second registration of an operator is a mistake, which says so."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from layoutsolve.frontend.onnx.operators.registry import LOWERINGS, lowering
from layoutsolve.frontend.tflite.exact.registry import EXACT, exactly
from layoutsolve.frontend.tflite.lowering.registry import every_lowering, lowers
from layoutsolve.solver.theory.rule import RULES, rule


@pytest.mark.parametrize(
    ("register", "operator", "known"),
    [
        (lowering, "Sum", lambda: LOWERINGS),
        (lowers, "ADD", every_lowering),
        (exactly, "ADD", lambda: EXACT),
        (rule, "Add", lambda: RULES),
    ],
)
def test_an_operator_is_registered_once(
    register: Callable[..., Any], operator: str, known: Callable[[], dict[str, object]]
) -> None:
    for package in ("frontend.onnx.operators", "frontend.tflite.exact", "solver.theory.rules"):
        import_module(f"layoutsolve.{package}")
    before = known()[operator]
    with pytest.raises(ValueError, match=rf"^operator {operator} has an? .*already$"):
        register(operator)(print)
    assert known()[operator] is before
