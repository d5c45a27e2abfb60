"""Right conversions pass, of every operator: LiteRT takes what inputs are drawn, and nothing right departs."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from experiments.compare.verdicts import FAULTS, broken
from layoutsolve.verification.litert_quirks import reading
from layoutsolve.verification.output_accuracy import FEW
from tests.conformance.cases import Case
from tests.conformance.families import every_case
from tests.networks import Network, Quantized

EACH = 1
"""How many cases of each operator are tried; with more they are spread over all that it has."""

NOT_RUN = ("CUSTOM:", "STABLEHLO_", "NETWORK")
"""Operators of which LiteRT has no kernel for most."""

MISREAD = ("ignores", "misreads", "gives zeros", "reads weights")
"""What is said of LiteRT where its kernels do not do what the file states."""


def chosen() -> dict[str, list[Case]]:
    """Some cases of each operator."""
    found: dict[str, list[Case]] = {}
    for case in every_case():
        if not case.operator.startswith(NOT_RUN) or case.operator.endswith("Detection_PostProcess"):
            found.setdefault(case.operator, []).append(case)
    return {name: cases[:: -(-len(cases) // EACH)] for name, cases in found.items()}


CASES = chosen()


@pytest.mark.members(10)
@pytest.mark.parametrize("operator", CASES)
def test_right_cases_pass(operator: str) -> None:
    """But for those that LiteRT does not run on the case's own inputs either, or misreads."""
    for case in CASES[operator]:
        model = case.make()
        found = layoutsolve.verify(model.source, layoutsolve.convert(model.source))
        known = model.expected is not None or bool(model.truth)
        assert found.verdict == "pass" or (found.verdict == "not verified" and known), f"{case.label}\n{found}"


def test_what_litert_misreads_is_not_verified() -> None:
    """Nor is it by luck: the operators before and behind are compared all the same."""
    labels = {"int4-blocks-zeros": "EMBEDDING_LOOKUP"}
    for label, operator in labels.items():
        (case,) = [case for case in every_case() if (case.operator, case.label) == (operator, label)]
        source = case.make().source
        found = layoutsolve.verify(source, layoutsolve.convert(source))
        assert found.verdict == "not verified" and f"{operator})" in found.refusal
        assert any(each in found.refusal for each in MISREAD)
    assert reading.__doc__


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("kind", [Network, Quantized])
@pytest.mark.parametrize("channels", [1, 2])
def test_faults_in_few_numbers(channels: int, kind: type[Network]) -> None:
    """A model of a dozen numbers is run on so many inputs that a weight scaled by 1 % shows."""
    net = kind()
    source = net.model(net.dense(net.input(1, 4), channels)).source
    right = layoutsolve.convert(source)
    assert layoutsolve.verify(source, right).samples > 100
    wrong = broken(right, "weight scaled by 1 percent", 0)
    assert wrong is not None and "weight scaled by 1 percent" in FAULTS
    assert layoutsolve.verify(source, wrong).verdict == "FAIL"
    assert np.isfinite([output.distance.mean for output in layoutsolve.verify(source, right).outputs]).all()


def test_faults_in_a_small_tensor() -> None:
    """Four numbers behind thousands are compared on more inputs than the thousands alone would be."""
    net = Quantized()
    source = net.model(net.dense(net.reshape(net.conv(net.input(1, 32, 32, 8), 8), 1, 8192), 4)).source
    right = layoutsolve.convert(source)
    found = layoutsolve.verify(source, right)
    assert found.verdict == "pass" and 4 < found.samples <= FEW // 4
