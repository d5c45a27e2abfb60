"""Loops over the cells of recurrent networks become operators, and give what they did; others stay loops."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

import layoutsolve
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.recurrent_loops import CELLS, ODD, ONLY, Network
from tests.truth import litert, same

LOOSE = 0.06
"""How far apart results are of which one rounds what it reads to bytes."""


def kinds_of(found: layoutsolve.Conversion) -> Counter[str]:
    """How many operators of each kind a conversion has."""
    return Counter(node.op_type for node in found.model.graph.node)


@pytest.mark.members(30)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("op", CELLS)
def test_cells(op: str, seed: int) -> None:
    network = Network(op, seed)
    kinds = kinds_of(same(*network.model(), 1e-5))
    assert kinds[op] == 1 and not kinds["Loop"]


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("op", CELLS)
def test_lists_of_tensorflow(op: str, seed: int) -> None:
    """What a loop puts into one of TensorFlow's lists is what it puts together by slices, which LiteRT runs."""
    found = layoutsolve.convert(Network(op, seed, flex=True).model()[0])
    source, given = Network(op, seed).model()
    session = OnnxRuntime(found.model.SerializeToString(), threads=1)
    results = session.run(dict(zip([name for name, *_ in session.inputs], given, strict=True)))
    for truth, result in zip(litert().run(source, given).results, results, strict=True):
        np.testing.assert_allclose(result, truth, rtol=1e-5, atol=1e-5)
    assert kinds_of(found)[op] == 1 and not kinds_of(found)["Loop"]


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("op", CELLS)
def test_open_batches(op: str, seed: int) -> None:
    """An operator of any batch gives what one of that batch does."""
    source, given = Network(op, seed, flex=True, loose=True).model()
    found = layoutsolve.convert(source)
    assert kinds_of(found)[op] == 1 and not kinds_of(found)["Loop"]
    for batch in (1, 2, 5):
        steps, _, features = given[0].shape
        data = np.random.default_rng(batch).normal(size=(steps, batch, features)).astype(np.float32)
        fixed = layoutsolve.convert(source, shapes={"x": data.shape})
        both = [OnnxRuntime(each.model.SerializeToString(), threads=1).run({"x": data}) for each in (found, fixed)]
        for one, other in zip(*both, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("op", CELLS)
def test_weights_of_bytes(op: str, seed: int) -> None:
    network = Network(op, seed, hybrid=True)
    kinds = kinds_of(same(*network.model(), LOOSE))
    assert kinds[op] == 1 and not kinds["Loop"]


@pytest.mark.members(12)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("op", "odd"), [(op, odd) for op, odd in product(CELLS, ODD) if odd not in ONLY or op in ONLY[odd]]
)
def test_other_loops(op: str, odd: str, seed: int) -> None:
    network = Network(op, seed, odd)
    kinds = kinds_of(same(*network.model(), 1e-5))
    assert not kinds[op] and kinds["Loop"] == 1


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("op", CELLS)
def test_loops_that_share_a_body_share_weights(op: str, hybrid: bool) -> None:
    network = Network(op, 3, hybrid=hybrid, sizes=(2, 3, 40, 50), loops=8)
    source, given = network.model()
    found = same(source, given, LOOSE if hybrid else 1e-5)
    assert kinds_of(found)[op] == 8
    assert found.model.ByteSize() < 1.5 * len(source)
