"""``--verify`` and ``--verify-tensors`` say the same, of right conversions and of wrong ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import layoutsolve
from experiments.compare.verdicts import FAULTS, broken
from layoutsolve import Conversion, Verification
from layoutsolve.verification import verify as verification
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.verdict import OutputComparison
from tests import older
from tests.random_models import network

KINDS = ("float32", "int8", "uint8", "dynamic")
"""Kinds of random networks."""

FEW = 2
"""How many faults are tried in each network."""


def conversions(seed: int) -> list[tuple[str, Conversion]]:
    """The right conversion of a random network, and some with one fault."""
    source = network(seed, KINDS[seed % len(KINDS)]).source
    right, random = layoutsolve.convert(source), np.random.default_rng(seed)
    faults = ((name, broken(right, name, seed)) for name in random.permutation(list(FAULTS)).tolist())
    return [("", right), *itertools.islice(((name, each) for name, each in faults if each is not None), FEW)]


def judged(found: Verification) -> Verification:
    """A verdict without the accuracy of every tensor, which is told where that is asked for."""
    inside = found.inspection
    return found if inside is None else replace(found, inspection=replace(inside, layers=()))


@pytest.mark.members(1)
@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("seed", range(4))
def test_one_verdict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tensors are too large to be compared unasked, outputs alone may pass what operators do not, never the other
    way round.
    """
    source = network(seed, KINDS[seed % len(KINDS)]).source
    for name, conversion in conversions(seed):
        monkeypatch.setattr(verification, "MOST_BYTES", 1 << 29)
        plain, thorough = (judged(layoutsolve.verify(source, conversion, tensors=tensors)) for tensors in (False, True))
        assert plain == thorough, name
        if plain.verdict == "not verified":
            with older.excused(f"test_one_verdict[{seed}]"):
                raise RefusedError(plain.refusal)
        assert name or plain.verdict == "pass"
        monkeypatch.setattr(verification, "MOST_BYTES", -1)
        unseen = layoutsolve.verify(source, conversion)
        assert unseen.verdict == "pass" or unseen == thorough, name
        if unseen.verdict == "pass" and thorough.verdict == "FAIL":
            assert unseen.inspection is not None and "are not compared" in str(unseen)


def test_what_operators_excuse_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs that are off by what roundings come to pass, also where tensors are too large to be compared unasked."""
    monkeypatch.setattr(verification, "MOST_BYTES", -1)
    monkeypatch.setattr(OutputComparison, "no_further_than_xnnpack", False)
    monkeypatch.setattr("layoutsolve.verification.metrics.NEAR", 2.0)
    source = network(1, "int8").source
    conversion = layoutsolve.convert(source)
    found = layoutsolve.verify(source, conversion)
    assert found.verdict == "pass" and not found.agrees and found.inspection is not None and found.inspection.compared
