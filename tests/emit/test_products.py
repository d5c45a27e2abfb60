"""Factors and biases of matrix products are written beside them, and results stay what they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import layoutsolve
from layoutsolve.emit.products import beside_products, with_biases
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from tests.graphs import GraphBuilder, assert_same, feeds

OTHERS = ("", "kept", "read twice", "vector", "added", "divided", "halves", "output")
"""What keeps a factor where it is, and nothing that does."""
STAY = frozenset(OTHERS) - {"", "halves"}


def heads(seed: int, other: str) -> Graph:
    """A product of heads, of which one operand is scaled before it is split and transposed."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    count, rows, size = (int(each) for each in random.integers(2, 5, 3))
    dtype = "float16" if other == "halves" else "float32"
    x, whole = b.input(1, rows, count * size, dtype=dtype), (1, rows, count * size)
    factor = b.constant(random.uniform(0.2, 3, [1] * int(random.integers(0, 2))), dtype)
    factor = b.constant(random.uniform(1, 2, size * count), dtype) if other == "vector" else factor
    op = str(random.choice(["Mul", "Div"])) if other != "divided" else "Div"
    ends = [factor, x] if other == "divided" or (op == "Mul" and random.random() < 0.5) else [x, factor]
    scaled = b.op(op, *ends, shape=whole, dtype=dtype)
    parts = b.op(
        "Reshape", scaled, b.constant([1, rows, count, size], "int64"), shape=(1, rows, count, size), dtype=dtype
    )
    turned = b.op("Transpose", parts, shape=(1, count, rows, size), dtype=dtype, perm=(0, 2, 1, 3))
    shape = (1, count, rows, rows)
    if other == "added":
        return b.graph(b.op("Add", turned, b.input(1, count, rows, size, dtype=dtype), shape=(1, count, rows, size)))
    y = b.op("MatMul", turned, b.input(1, count, size, rows, dtype=dtype), shape=shape, dtype=dtype)
    if other == "read twice":
        return b.graph(y, b.op("Neg", parts, shape=b.shape(parts), dtype=dtype))
    return b.graph(y, *([turned] if other == "output" else []))


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", range(8))
def test_results_stay_what_they_are(seed: int, other: str) -> None:
    graph = heads(seed, other)
    kept = [node.outputs[0] for node in graph.nodes if node.op == "Reshape" and other == "kept"]
    found = beside_products(graph, kept)
    assert (found is graph) == (other in STAY)
    assert Counter(node.op for node in found.nodes) == Counter(node.op for node in graph.nodes)
    if other not in STAY:
        order = [node.op for node in found.nodes]
        assert order[:2] == ["Reshape", "Transpose"] and order[2] in ("Div", "Mul") and order[3:] == ["MatMul"]
    assert_same(graph, found, feeds(graph, seed), rtol=2e-3 if other == "halves" else 0)


ATTENTION = """<ir_version: 8, opset_import: ["" : 18]> g (float[1, {rows}, {wide}] x,
  float[1, {count}, {past}, {size}] k) => (float[1, {count}, {rows}, {past}] y)
  <float c = {{0.5}}, float[{wide}, {wide}] w = {{{weights}}}, int64[4] s = {{1, {rows}, {count}, {size}}}> {{
  p = MatMul(x, w) r = Reshape(p, s) t = Transpose<perm = [0, 2, 1, 3]>(r) q = Mul(t, c)
  u = Transpose<perm = [0, 1, 3, 2]>(k) v = Mul(u, c) m = MatMul(q, v) y = Softmax(m) }}"""


@pytest.mark.parametrize("seed", range(6))
def test_runtimes_take_them_into_products(seed: int, tmp_path: Path) -> None:
    """Attention as PyTorch exports it, both operands scaled: ONNX Runtime has no Mul left of it."""
    random = np.random.default_rng(seed)
    sizes = {name: int(random.integers(2, 6)) for name in ("rows", "count", "past", "size")}
    wide = sizes["count"] * sizes["size"]
    weights = ", ".join(f"{each:.3f}" for each in random.uniform(-1, 1, wide * wide))
    source = parser.parse_model(ATTENTION.format(**sizes, wide=wide, weights=weights))
    found = layoutsolve.optimize(source)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(found.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert "Mul" not in {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}


ADDED = ("", "by column", "viewed", "read twice", "both", "biased", "whole", "kept")
"""What is added to a product, and how; of these no bias:"""
NO_BIAS = frozenset(("read twice", "both", "biased", "whole", "kept"))


def added(seed: int, how: str) -> Graph:
    """A product of matrices to which a constant is added, behind a Reshape or not."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    rows, inner, high, wide = (int(each) for each in random.integers(2, 5, 4))
    x, w = b.input(inner, high * wide), b.weights(rows, inner)
    bias = [b.weights(rows, high * wide)] if how == "biased" else []
    beta = {"beta": 2.0} if how == "biased" else {}
    y, shape = b.op("Gemm", w, x, *bias, shape=(rows, high * wide), alpha=0.5, **beta), (rows, high * wide)
    first = y
    if how == "viewed" or random.random() < 0.5:
        shape = (1, rows, high, wide)
        y = b.op("Reshape", y, b.constant(shape, "int64"), shape=shape)
    sizes = {"by column": shape[-1:] if len(shape) == 2 else shape[2:], "both": shape, "whole": shape}
    row = shape[-len(shape) + (len(shape) > 2) :][:1] + (1,) * (len(shape) - 1 - (len(shape) > 2))
    c = b.input(*shape) if how == "whole" else b.weights(*sizes.get(how, row))
    z = b.op("Add", *((y, c) if random.random() < 0.5 else (c, y)), shape=shape)
    return b.graph(z, b.op("Neg", first, shape=(rows, high * wide))) if how == "read twice" else b.graph(z)


@pytest.mark.parametrize("how", ADDED)
@pytest.mark.parametrize("seed", range(8))
def test_biases(seed: int, how: str) -> None:
    graph = added(seed, how)
    kept = [node.outputs[0] for node in graph.nodes if node.op == "Gemm" and how == "kept"]
    found = with_biases(graph, kept, Budget())
    assert (found is graph) == (how in NO_BIAS)
    if how not in NO_BIAS:
        assert Counter(node.op for node in found.nodes) == Counter(node.op for node in graph.nodes) - Counter(["Add"])
    assert_same(graph, found, feeds(graph, seed))
