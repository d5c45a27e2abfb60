"""Hard sigmoids and swishes that are written out are operators of their own; what is another function is left alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from layoutsolve.frontend.passes.hard_activations import recognise
from layoutsolve.ir.graph import Array, Graph
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime
from tests.builder import Builder, Quant
from tests.graphs import GraphBuilder
from tests.truth import litert

NUMBERS = np.array([np.inf, -np.inf, 3, -3, 2.9999998, -2.9999998, 0, -0.0, 1e-30, 1e30], np.float32)
"""Where slopes change, and beyond."""


class Gates(GraphBuilder):
    """Ramps that are scaled, their constants of random rank and on either side."""

    def number(self, number: float) -> str:
        return self.constant(np.full([1] * int(self.random.integers(0, 3)), number, np.float32))

    def sides(self, op: str, x: str, y: str) -> str:
        names = (x, y) if self.random.random() < 0.5 else (y, x)
        return self.op(op, *names, shape=self.shape(x))

    def ramp(self, x: str, offset: float, limit: float) -> str:
        given = x if offset == 0 else self.sides("Add", x, self.number(offset))
        return self.op("Clip", given, self.constant(0.0), self.constant(limit), shape=self.shape(x))

    def scaled(self, x: str, by: float) -> str:
        if self.random.random() < 0.5:
            return self.op("Div", x, self.number(by), shape=self.shape(x))
        return self.sides("Mul", x, self.number(1 / by))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def data(seed: int) -> Array:
    random = np.random.default_rng(seed)
    return np.concatenate([NUMBERS, random.uniform(-8, 8, 90).astype(np.float32)]).reshape(2, 5, 10)


def same(graph: Graph, expected: Sequence[str], seed: int) -> None:
    """It becomes some operators, and computes what it did."""
    found = recognise(graph)
    assert ops(found) == list(expected)
    feeds = {name: data(seed + place) for place, name in enumerate(graph.inputs)}
    truth = OnnxRuntime(serialise(graph).SerializeToString(), threads=1, level="none").run(feeds)
    for level in LEVELS:
        results = OnnxRuntime(serialise(found).SerializeToString(), threads=1, level=level).run(feeds)
        for one, other in zip(truth, results, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("offset", "limit"), [(3.0, 6.0), (0.0, 6.0), (1.0, 2.0), (0.5, 1.5), (-1.0, 4.0)])
def test_hard_sigmoid(offset: float, limit: float, seed: int) -> None:
    b = Gates(seed)
    x = b.input(2, 5, 10)
    graph = b.graph(b.scaled(b.ramp(x, offset, limit), limit))
    same(graph, ["HardSigmoid"], seed)
    (written,) = serialise(recognise(graph)).graph.node
    assert [each.f for each in written.attribute if each.name == "beta"] != [0.0]  # OpenVINO reads that as 0.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("first", [False, True])
def test_hard_swish(first: bool, seed: int) -> None:
    """The product may be scaled, or the ramp; only that with the number itself is a hard swish."""
    b = Gates(seed)
    x, other = b.input(2, 5, 10), b.input(2, 5, 10)
    y = x if seed % 2 else other
    ramp = b.ramp(x, 3.0, 6.0)
    result = b.sides("Mul", y, b.scaled(ramp, 6.0)) if first else b.scaled(b.sides("Mul", y, ramp), 6.0)
    swish, product = ["HardSwish"], ["HardSigmoid", "Mul"]
    same(b.graph(result, other), swish if seed % 2 else product, seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("multiplied", [False, True])
def test_views_of_a_ramp(multiplied: bool, seed: int) -> None:
    """They are views of the gate then, as around the operators that have a fixed data format."""
    b = Gates(seed)
    x, other = b.input(2, 5, 10), b.input(2, 5, 10)
    ramp = b.reshape(b.transpose(b.ramp(x, 0.0, 6.0), 0, 2, 1), 2, 5, 10)
    result = b.scaled(b.sides("Mul", other, ramp), 6.0) if multiplied else b.scaled(ramp, 6.0)
    expected = ["HardSigmoid", "Transpose", "Reshape", *(["Mul"] if multiplied else [])]
    same(b.graph(result, other), expected, seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_gate_that_others_read(seed: int) -> None:
    """It stays one, and so does what is multiplied by it."""
    b = Gates(seed)
    x = b.input(2, 5, 10)
    gate = b.scaled(b.ramp(x, 3.0, 6.0), 6.0)
    same(b.graph(b.sides("Mul", x, gate), gate), ["HardSigmoid", "Mul"], seed)


@pytest.mark.parametrize("case", ["low", "high", "read", "wide", "given", "vector", "falling"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_something_else(case: str, seed: int) -> None:
    """Another range, a ramp that is read elsewhere, more dimensions, limits or factors that are no numbers."""
    b = Gates(seed)
    x = b.input(2, 5, 10)
    low, high = (b.constant(-1.0 if case == "low" else 0.0), b.constant({"high": 5.9, "falling": -6.0}.get(case, 6.0)))
    if case == "given":
        high = b.input(name="high")
    ramp = b.op("Clip", x, low, high, shape=b.shape(x))
    sixth = -1 / 6 if case == "falling" else 1 / 6
    factor = np.full({"wide": (1, 1, 1, 1), "vector": (10,)}.get(case, ()), sixth, np.float32)
    shape = (1, 2, 5, 10) if case == "wide" else b.shape(x)
    result = b.op("Mul", ramp, b.constant(factor), shape=shape)
    graph = b.graph(result, ramp) if case == "read" else b.graph(result)
    assert recognise(graph) is graph


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("swish", [False, True])
def test_models_are_read_so(swish: bool, dtype: str) -> None:
    """In floats; quantized numbers are rounded between operators, and stay so."""
    builder, shape = Builder(), (1, 4, 4, 3)
    quant = None if dtype == "float32" else Quant([6 / 127], [0])
    x = builder.input("x", shape, dtype, quant=quant)
    numbers = (np.array(3), np.array(1 / 6)) if quant is None else (np.array(63), np.array(3))
    three, sixth = (
        builder.constant(f"c{place}", each.astype(dtype), quant=quant) for place, each in enumerate(numbers)
    )
    ramp, gate, result = (builder.tensor(name, shape, dtype, quant=quant) for name in ("ramp", "gate", "result"))
    builder.operator("ADD", [x, three], [ramp], {"fusedActivationFunction": 3})
    builder.operator("MUL", [ramp, sixth], [gate], {})
    if swish:
        builder.operator("MUL", [x, gate], [result], {})
    source = builder.finish(result if swish else gate)
    graph = read(source)
    assert ("HardSwish" in ops(graph), "HardSigmoid" in ops(graph)) == (
        swish and quant is None,
        not swish and quant is None,
    )
    given = np.random.default_rng(0).uniform(-100, 100, shape).astype(dtype)
    (truth,) = litert().run(source, [given]).results
    (found,) = OnnxRuntime(serialise(graph).SerializeToString(), threads=1).run({"x": given})
    np.testing.assert_allclose(found.astype(float), truth.astype(float), atol=1e-5 if quant is None else 1)
