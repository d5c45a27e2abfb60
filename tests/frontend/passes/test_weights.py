"""Weights stored with a sign or without one: the same numbers, where nothing but products reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.frontend.passes.weights import stored
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.storage_options import WeightStorage
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.graphs import GraphBuilder, feeds, run

PRODUCTS = ("Conv", "Gemm", "MatMul", "ConvTranspose", "Depthwise")
RANGES = {"int8": (-128, 128), "uint8": (0, 256)}
OTHER = {"int8": "uint8", "uint8": "int8"}
WAYS: dict[str, WeightStorage] = {"int8": "unsigned", "uint8": "signed"}
"""How weights of a type are stored anew."""


def quant(random: np.random.Generator, dtype: str, count: int = 1, axis: int | None = None) -> Quant:
    zeros = random.integers(*RANGES[dtype], count).astype(dtype)
    return Quant(random.uniform(0.01, 0.1, count).astype(np.float32), zeros, axis)


def network(seed: int, product: str, dtype: str, activation: str = "uint8", beside: bool = False) -> tuple[Graph, str]:
    """A random product by weights of bytes, which with ``beside`` something else reads as well; and their name."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    image, deep = product not in ("Gemm", "MatMul"), product == "Depthwise"
    shape = (4, 1 if deep else 4, 1, 1) if image else (4, 4)
    axis = int(product == "ConvTranspose") if random.random() < 0.5 and product != "MatMul" else None
    weights = b.constant(
        random.integers(*RANGES[dtype], shape), dtype, quant(random, dtype, 1 if axis is None else 4, axis)
    )
    given = None if activation == "float32" else quant(random, activation)
    shape = (1, 4, 3, 3) if image else (3, 4)
    x = b.input(*shape, dtype=activation, quant=given)
    op, groups = ("Conv", {"group": 4}) if deep else (product, {})
    results = [b.op(op, x, weights, shape=shape, dtype=activation, quant=given, **groups)]
    if beside:
        results.append(b.op("Relu", weights, shape=b.shape(weights), dtype=dtype, quant=b.values[weights].quant))
    return b.graph(*results), weights


@pytest.mark.members(20)
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("activation", ["uint8", "int8", "float32"])
def test_results_stay_what_they_are(product: str, dtype: str, activation: str) -> None:
    for seed in range(4):
        graph, weights = network(seed, product, dtype, activation)
        for way in (WAYS[dtype], "uint8") if dtype == "int8" else (WAYS[dtype],):
            again = stored(graph, way)
            zero = graph.values[weights].quant.zero_point
            alone = product == "Depthwise" and way != "uint8" and (zero == zero.flat[0]).all()
            sums = product in ("Conv", "Gemm", "MatMul", "Depthwise") and not alone
            changes = sums and activation != "float32"
            assert again.values[weights].dtype == (OTHER[dtype] if changes or dtype == "uint8" else dtype)
            np.testing.assert_array_equal(run(again, feeds(graph, seed))[0], run(graph, feeds(graph, seed))[0])


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("product", PRODUCTS)
def test_what_others_read_stays(product: str, dtype: str) -> None:
    graph, _ = network(0, product, dtype, beside=True)
    assert stored(graph, WAYS[dtype]) is graph


@pytest.mark.parametrize("dtype", RANGES)
def test_nothing_changes_where_nothing_is_asked(dtype: str) -> None:
    graph, _ = network(0, "Conv", dtype)
    assert stored(graph, "source") is graph


def loud(op: str, shape: Sequence[int], given: Sequence[int], result: Sequence[int], **attributes: object) -> Graph:
    """A product whose weights are as far from 0 as they can be: two of its terms are more than 16 bits hold."""
    b, random = GraphBuilder(), np.random.default_rng(0)
    count = shape[0] if op == "Conv" else 1
    steps = Quant(np.full(count, 0.01, np.float32), np.zeros(count, np.int8), 0 if op == "Conv" else None)
    weights = b.constant(random.choice([-127, 127], shape), "int8", steps)
    unsigned = Quant(np.array([0.01], np.float32), np.array([128], np.uint8))
    wide = Quant(np.array([0.5], np.float32), np.array([128], np.uint8))
    x = b.input(*given, dtype="uint8", quant=unsigned)
    return b.graph(b.op(op, x, weights, shape=result, dtype="uint8", quant=wide, **attributes))


LOUD = {
    "conv": lambda: loud("Conv", (16, 32, 3, 3), (1, 32, 8, 8), (1, 16, 6, 6)),
    "pointwise": lambda: loud("Conv", (24, 40, 1, 1), (1, 40, 5, 5), (1, 24, 5, 5)),
    "grouped": lambda: loud("Conv", (16, 8, 3, 3), (1, 32, 8, 8), (1, 16, 6, 6), group=4),
    "multiplied": lambda: loud("Conv", (32, 1, 3, 3), (1, 16, 8, 8), (1, 32, 6, 6), group=16),
    "depthwise": lambda: loud("Conv", (32, 1, 3, 3), (1, 32, 8, 8), (1, 32, 6, 6), group=32),
    "depthwise 1-D": lambda: loud("Conv", (17, 1, 9), (1, 17, 20), (1, 17, 12), group=17),
    "volume": lambda: loud("Conv", (8, 8, 2, 2, 2), (1, 8, 4, 4, 4), (1, 8, 3, 3, 3)),
    "dense": lambda: loud("Gemm", (64, 24), (3, 64), (3, 24)),
    "product": lambda: loud("MatMul", (64, 24), (2, 5, 64), (2, 5, 24)),
}


@pytest.mark.parametrize("name", LOUD)
def test_no_processor_saturates(name: str) -> None:
    """Kernels on bytes give what floats do, on whatever processor this runs."""
    graph = stored(LOUD[name](), "unsigned")
    model = serialise(graph).SerializeToString()
    shape = graph.values[graph.inputs[0]].shape
    given = {graph.inputs[0]: np.random.default_rng(1).choice(np.array([0, 255], np.uint8), shape)}
    truth = OnnxRuntime(model, threads=1, level=LEVELS[0]).run(given)[0].astype(int)
    assert np.ptp(truth) > 30
    for level in LEVELS[1:]:
        assert np.abs(OnnxRuntime(model, threads=1, level=level).run(given)[0].astype(int) - truth).max() <= 1
