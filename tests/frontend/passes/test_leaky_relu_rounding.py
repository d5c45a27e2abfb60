"""Bytes that a LeakyRelu alone reads of a product: real numbers, rounded to the same steps."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.passes import leaky_relu_rounding
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.builder import Quant as Parameters
from tests.graphs import GraphBuilder, assert_same, feeds

CHANGED = ("", "moved")

OTHERS = (*CHANGED, "two readers", "an output", "floats", "int16", "between", "given", "gives floats")
"""How bytes lie between a product and a LeakyRelu: behind a Transpose, or in ways in which they stay what they are."""


def leaking(seed: int, other: str) -> Graph:
    """A product of bytes with a LeakyRelu behind it, in random steps."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    dtype = {"floats": "float32", "int16": "int16"}.get(other, str(random.choice(["int8", "uint8"])))

    def stored() -> Quant | None:
        if other == "floats":
            return None
        limits, scale = np.iinfo(dtype), np.array([random.uniform(0.01, 0.1)], np.float32)
        zero = 0 if other == "int16" else random.integers(limits.min, limits.max + 1)
        return Quant(scale, np.array([zero], dtype))

    def op(name: str, *inputs: str, quant: Quant | None, **options: object) -> str:
        shape = (2, 5, 4, 3) if other == "moved" and name != "Conv" else (2, 3, 5, 4)
        return b.op(name, *inputs, shape=shape, dtype=dtype if quant else "float32", quant=quant, **options)

    x, middle, last = b.input(2, 3, 5, 4, dtype=dtype, quant=stored()), stored(), stored()
    scale = Quant(np.array([0.01], np.float32), np.zeros(1, np.int8))
    kernel = b.constant(random.integers(-90, 90, (3, 3, 1, 1)), "int8", scale)
    product = op("Conv", x, kernel, quant=middle, kernel_shape=(1, 1))
    read = x if other == "given" else product
    if other in ("between", "moved"):
        read = (
            op("Transpose", read, quant=middle, perm=(0, 2, 3, 1))
            if other == "moved"
            else op("Abs", read, quant=middle)
        )
    ends = [op("LeakyRelu", read, quant=None if other == "gives floats" else last, alpha=0.3)]
    if other == "two readers":
        ends.append(op("Abs", read, quant=middle))
    return b.graph(*ends, *([product] if other in ("an output", "given") else []))


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", range(8))
def test_results_stay_what_they_are(seed: int, other: str) -> None:
    graph = leaking(seed, other)
    found = leaky_relu_rounding.rounded(graph)
    assert (found is graph) == (other not in CHANGED)
    if other in CHANGED:
        assert Counter(node.op for node in found.nodes) - Counter(node.op for node in graph.nodes) == Counter(
            leaky_relu_rounding.ROUNDED
        )
        inner = [name for node in found.nodes if node.op != "LeakyRelu" for name in node.outputs]
        assert {found.values[name].dtype for name in inner} == {"float32"}
    data = feeds(graph, seed)
    assert_same(found, graph, data)


@pytest.mark.parametrize("operator", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_models_are_written_so(dtype: str, operator: str, tmp_path: Path) -> None:
    """For the target that asks for it: no bytes before a LeakyRelu, and the same numbers."""
    b, random, step = Builder(), np.random.default_rng(0), Parameters([0.02], [3])
    y = b.input("x", (1, 6, 5, 8), dtype, quant=step)
    for number in range(2):
        shape = (8, 3, 3, 8) if operator == "CONV_2D" else (1, 3, 3, 8)
        weights = random.integers(-99, 99, shape).astype(np.int8).astype(dtype)
        kernel = b.constant(f"w{number}", weights, dtype, Parameters([0.01], [0 if dtype == "int8" else 128]))
        product, leaked = (b.tensor("", (1, 6, 5, 8), dtype, quant=Parameters([s], [9])) for s in (0.06, 0.03))
        options = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
        b.operator(operator, [y, kernel], [product], options)
        b.operator("LEAKY_RELU", [product], [leaked], {"alpha": 0.2})
        y = leaked
    source, other = b.finish(y), tmp_path / "other.json"
    other.write_text(json.dumps({"name": "other", "extends": "openvino-cpu", "storage": {"real": False}}))
    plain, real = (layoutsolve.convert(source, target=name).model for name in (str(other), "openvino-cpu"))
    producers = {name: node.op_type for node in real.graph.node for name in node.output}
    read = [producers[node.input[0]] for node in real.graph.node if node.op_type == "LeakyRelu"]
    assert read == [leaky_relu_rounding.ROUNDED[-1]] * 2
    assert "Round" not in {node.op_type for node in plain.graph.node}
    data = {"x": random.integers(*((-128, 128) if dtype == "int8" else (0, 256)), (1, 6, 5, 8)).astype(dtype)}
    expected, found = (OnnxRuntime(each.SerializeToString(), level="none").run(data)[0] for each in (plain, real))
    np.testing.assert_array_equal(found, expected)
