"""The reference graph, written as it stands, and the solved model compute what LiteRT computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.frontend.tflite.operators.custom import pooled_places
from layoutsolve.verification.runtimes import LEVELS
from tests.audited import audited
from tests.conformance import families
from tests.conformance.cases import Case
from tests.conformance.networks import NETWORK
from tests.conformance.running import FEW_LEVELS, judge

REGISTRY = every_lowering()

CASES = [case for case in families.every_case() if case.operator in (*REGISTRY, NETWORK)]


SOLVED = [
    *(case for operator in REGISTRY for case in [each for each in CASES if each.operator == operator][::8]),
    *(case for case in CASES if case.operator == NETWORK),
]
"""Every eighth case of an operator is solved as well: what else the frontend writes has the same rules."""

MANY = 250
"""With more operators, as PosenetDecoderOp has, Reshapes may be left to the limit on work."""


def reference(source: bytes) -> onnx.ModelProto:
    """Convert without solving: the reference graph as it stands."""
    return serialise(read(source, "case"))


def solved(source: bytes) -> onnx.ModelProto:
    """Convert as a user does, and see that nothing cut the search off and the file has what the price says."""
    conversion = layoutsolve.convert(source)
    assert not conversion.assignment.ended or len(conversion.assignment.graph.nodes) > MANY
    audited(conversion.model, conversion.assignment, conversion.graph)
    return conversion.model


@pytest.mark.members(1, each="operator")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    model = case.make()
    judge(case, model, reference(model.source), levels=LEVELS[:1])


@pytest.mark.members(1, each="operator")
@pytest.mark.parametrize("case", SOLVED, ids=lambda case: case.name)
def test_solved_case(case: Case) -> None:
    model = case.make()
    judge(case, model, solved(model.source), levels=FEW_LEVELS)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.operator == "CUSTOM:MaxPoolingWithArgmax2D"], ids=lambda case: case.name
)
def test_places_in_many_images(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numbers of pixels are no floats any more, they are computed in integers."""
    monkeypatch.setattr(pooled_places, "EXACT", 0)
    model = case.make()
    found = solved(model.source)
    assert any(node.op_type == "Div" for node in found.graph.node)
    assert not any(node.op_type == "Floor" for node in found.graph.node)
    judge(case, model, found)


def test_whole_quotients_of_floats() -> None:
    """As long as numbers are whole as floats, no quotient is rounded up to the next whole number."""
    for by in (*range(1, 400), *(2**power + more for power in range(9, 23) for more in (-1, 0, 1))):
        multiples = (
            np.arange(1, pooled_places.EXACT // by + 1)
            if by > 4000
            else np.arange(1, 2000) * (pooled_places.EXACT // by // 2000)
        )
        numbers = np.concatenate([multiples * by - 1, multiples * by]).clip(0)
        found = np.floor(numbers.astype(np.float32) / np.float32(by)).astype(np.int64)
        np.testing.assert_array_equal(found, numbers // by)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "BATCH_MATMUL-units" in case.name and "-22" not in case.name],
    ids=lambda case: case.name,
)
def test_constant_matrices_have_no_leading_units(case: Case) -> None:
    """OpenVINO refuses a product by bytes of four dimensions, the first two of size 1. They stay where the other side
    has fewer dimensions than they give the result.
    """
    assert {len(constant.dims) for constant in solved(case.make().source).graph.initializer} <= {0, 1, 2}


def test_every_operator_has_cases() -> None:
    assert REGISTRY.keys() - {case.operator for case in CASES} - families.ELSEWHERE.keys() == set()
