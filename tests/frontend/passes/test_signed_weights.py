"""Weights stored with a sign: the same numbers, where nothing but products reads them."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.frontend.passes.signed_weights import stored
from layoutsolve.graph import Graph, Quant
from tests.graphs import GraphBuilder, feeds, run

ACTIVATION = Quant(np.array([0.04], np.float32), np.array([130], np.uint8))


def network(seed: int, beside: bool = False) -> tuple[Graph, str]:
    """A random product by weights of bytes, which with ``beside`` something else reads as well; and their name."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    op = ["Conv", "Gemm", "MatMul", "ConvTranspose"][seed % 4]
    shape = (4, 4, 1, 1) if op.startswith("Conv") else (4, 4)
    axis = int(op == "ConvTranspose") if random.random() < 0.5 and op != "MatMul" else None
    count = 1 if axis is None else 4
    steps = random.uniform(0.01, 0.1, count).astype(np.float32)
    quant = Quant(steps, random.integers(0, 256, count).astype(np.uint8), axis)
    weights = b.constant(random.integers(0, 256, shape), "uint8", quant)
    shape = (1, 4, 3, 3) if op.startswith("Conv") else (3, 4)
    x = b.input(*shape, dtype="uint8", quant=ACTIVATION)
    results = [b.op(op, x, weights, shape=shape, dtype="uint8", quant=ACTIVATION)]
    if beside:
        results.append(b.op("Relu", weights, shape=b.shape(weights), dtype="uint8", quant=ACTIVATION))
    return b.graph(*results), weights


@pytest.mark.parametrize("seed", range(40))
def test_results_stay_what_they_are(seed: int) -> None:
    graph, weights = network(seed)
    signed = stored(graph)
    assert signed.values[weights].dtype == "int8"
    np.testing.assert_array_equal(run(signed, feeds(graph, seed))[0], run(graph, feeds(graph, seed))[0])


@pytest.mark.parametrize("seed", range(4))
def test_what_others_read_stays(seed: int) -> None:
    graph, _ = network(seed, beside=True)
    assert stored(graph) is graph
