"""Operators of models in ONNX between Transposes that cancel out: none is left, whatever a file says of sizes."""

from __future__ import annotations

import onnx
import pytest

import layoutsolve
from layoutsolve.emit import serialise
from tests.solver.theory.test_hidden_transposes import OPERATORS, hidden

COMPUTED = frozenset(("Slice",))
"""Operators of whose results nothing but the file says the sizes, where their bounds are computed."""


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in COMPUTED])
def test_transposes_around_an_operator_vanish(operator: str) -> None:
    """As the file says sizes of its ends alone, those of all else are inferred."""
    for _, around in [each for seed in range(2) for each in hidden(operator, seed)][:2]:
        model = onnx.ModelProto.FromString(serialise(around).SerializeToString())
        model.graph.ClearField("value_info")
        found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
        assert (found.report["transposes"], found.report["status"]) == (0, "optimal")
        assert found.report["kept_operators"] == {}
