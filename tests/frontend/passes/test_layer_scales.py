"""Scales of channels behind products of matrices: a part of the weights, and the same numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.passes import layer_scales
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from tests.frontend.onnx.test_random import run
from tests.graphs import GraphBuilder, assert_same, feeds
from tests.random_onnx import Writer

APART = ("read twice", "output", "both", "weights read twice", "rows", "computed", "quotient", "vanishes", "wide", "")


def scaled(seed: int, case: str = "") -> Graph:
    """A MatMul or Gemm, perhaps with a bias, perhaps transposed, and a scale on either side."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    gemm, bias, moved, side, single = (random.random() < 0.5 for _ in range(5))
    rows = (6,) if gemm else (2, 3, 6)
    across = gemm and random.random() < 0.5
    x, weights = b.input(*rows, 4), b.weights(5, 4) if across else b.weights(4, 5)
    if gemm:
        y = b.op("Gemm", x, weights, *[b.weights(5)] * bias, shape=(*rows, 5), alpha=0.5, transB=int(across))
    else:
        y = b.op("MatMul", x, weights, shape=(*rows, 5))
    inner = y
    if bias:
        y = b.op("Add", *(y, b.weights(5))[:: -1 if side else 1], shape=(*rows, 5))
    shape, wide = (*rows, 5), (5,)
    if moved:
        perm = (len(rows), *range(len(rows)))
        y, shape, wide = b.transpose(y, *perm), (5, *rows), (5, *[1] * len(rows))
    numbers = np.full(() if single else wide, 1e-42 if case == "vanishes" else 2.0)
    numbers = random.uniform(0.5, 2, shape[-1:] if moved else (6, 1)) if case == "rows" else numbers
    numbers = random.uniform(0.5, 2, shape) if case == "wide" else numbers
    factor = b.input(*shape) if case == "computed" else b.constant(numbers)
    ends = (factor, y) if side or case == "quotient" else (y, factor)
    z = b.op("Div" if case == "quotient" or (not side and seed % 2) else "Mul", *ends, shape=shape)
    more = {"read twice": lambda: [b.relu(y)], "output": lambda: [inner], "both": lambda: [b.relu(y), y]}.get(
        case, list
    )()
    if case == "weights read twice":
        more = [b.op("MatMul", b.input(2, b.shape(weights)[0]), weights, shape=(2, b.shape(weights)[1]))]
    return b.graph(z, *more)


@pytest.mark.parametrize("seed", range(40))
def test_numbers_stay_what_they_are(seed: int) -> None:
    graph = scaled(seed)
    found = layer_scales.folded(graph, Budget())
    assert len(found.nodes) == len(graph.nodes) - 1 and found.outputs == graph.outputs
    assert not {"Mul", "Div"} & {node.op for node in found.nodes}
    assert_same(graph, found, feeds(graph, seed), rtol=1e-5, atol=1e-5)
    between = {name for node in graph.nodes[:-1] for name in node.outputs}
    assert not between & {name for node in found.nodes for name in node.outputs}  # what has other numbers


@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("seed", range(6))
def test_what_stays_apart(case: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others read, what is no scale of channels, and what would vanish. Without any of that nothing does."""
    graph = scaled(seed, case)
    assert (layer_scales.folded(graph, Budget()) is graph) == bool(case)
    if not case:
        monkeypatch.setattr(Budget, "affords", lambda *_: False)
        assert layer_scales.folded(graph, Budget()) is graph


def test_models_are_read_so() -> None:
    w = Writer(3)
    x = w.input(2, 9, 8)
    y = w.op("Add", w.op("MatMul", x, w.weights(8, 6), shape=(2, 9, 6)), w.weights(6), shape=(2, 9, 6))
    y = w.op("Mul", w.weights(6), y, shape=(2, 9, 6))
    model = w.model(w.transpose(y, (0, 2, 1)))
    found = layoutsolve.convert(model.SerializeToString())
    assert Counter(node.op_type for node in found.model.graph.node)["Mul"] == 0
    given = {x: np.random.default_rng(0).normal(size=(2, 9, 8)).astype(np.float32)}
    for one, other in zip(run(model, given), run(found.model, given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
