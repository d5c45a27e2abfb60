"""Loops over the cells of recurrent networks become operators, and give what they did; others stay loops."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

import layoutsolve
from layoutsolve.graph import Array
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.recurrent_loops import CELLS, ODD, ONLY, Network
from tests.truth import litert

LOOSE = 0.06
"""How far apart results are of which one rounds what it reads to bytes."""


def same(source: bytes, given: list[Array], tolerance: float) -> Counter[str]:
    """A model gives what LiteRT gives, at all levels; the operators that it has."""
    found = layoutsolve.convert(source)
    truth = litert().run(source, given).results
    for level in LEVELS:
        session = OnnxRuntime(found.model.SerializeToString(), threads=1, level=level)
        results = session.run(dict(zip([name for name, *_ in session.inputs], given, strict=True)))
        for one, other in zip(truth, results, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
    return Counter(node.op_type for node in found.model.graph.node)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("op", CELLS)
def test_cells(op: str, seed: int) -> None:
    network = Network(op, seed)
    kinds = same(*network.model(), 1e-5)
    assert kinds[op] == 1 and not kinds["Loop"]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("op", CELLS)
def test_weights_of_bytes(op: str, seed: int) -> None:
    network = Network(op, seed, hybrid=True)
    kinds = same(*network.model(), LOOSE)
    assert kinds[op] == 1 and not kinds["Loop"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("op", "odd"), [(op, odd) for op, odd in product(CELLS, ODD) if odd not in ONLY or op in ONLY[odd]]
)
def test_other_loops(op: str, odd: str, seed: int) -> None:
    network = Network(op, seed, odd)
    kinds = same(*network.model(), 1e-5)
    assert not kinds[op] and kinds["Loop"] == 1


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("op", CELLS)
def test_loops_that_share_a_body_share_weights(op: str, hybrid: bool) -> None:
    network = Network(op, 3, hybrid=hybrid, sizes=(2, 3, 40, 50), loops=8)
    source, given = network.model()
    assert same(source, given, LOOSE if hybrid else 1e-5)[op] == 8
    assert layoutsolve.convert(source).model.ByteSize() < 1.5 * len(source)
