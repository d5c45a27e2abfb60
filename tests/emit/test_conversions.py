"""Bytes beside what computes in floats keep the type that ends of a model have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import layoutsolve
from layoutsolve.emit.conversions import left_out
from layoutsolve.ir.graph import Graph, Quant
from layoutsolve.ir.storage_options import Storage
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.graphs import GraphBuilder, assert_same, feeds
from tests.networks import Quantized

FLOATS = Storage(float_rows=8)
OTHERS = ("", "views", "activation", "another scale", "read by bytes", "output", "kept", "many rows")
"""What keeps conversions where they are, and nothing that does."""
STAY = frozenset(("another scale", "many rows"))


def layer(seed: int, other: str) -> Graph:
    """A product of few rows between two conversions, from int8 to uint8 and back or the other way round."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    rows, columns = (9 if other == "many rows" else int(random.integers(1, 4))), int(random.integers(3, 7))
    zeros = {"int8": int(random.integers(-128, 127))}
    zeros["uint8"] = zeros["int8"] + 128
    types = ("int8", "uint8") if random.random() < 0.5 else ("uint8", "int8")
    outer, inner = (
        {"dtype": each, "quant": Quant(np.array([0.02], np.float32), np.array([zeros[each]], each))} for each in types
    )
    if other == "another scale":
        inner = {**inner, "quant": replace(inner["quant"], scale=np.array([0.03], np.float32))}
    shape = (rows, columns)
    x = b.op("Identity", b.input(rows, columns, **outer), shape=shape, **inner)
    end = x
    if other == "views":
        x = b.op("Reshape", x, b.constant([1, *shape], "int64"), shape=(1, *shape), **inner)
        x = b.op("Reshape", x, b.constant(shape, "int64"), shape=shape, **inner)
    weights = b.constant(
        random.integers(-40, 40, (columns, columns)), "int8", Quant(np.array([0.01], np.float32), np.zeros(1, np.int8))
    )
    if other == "activation":
        x = b.op("Relu", b.op("MatMul", x, weights, shape=shape), shape=shape, **inner)
    else:
        x = b.op("MatMul", x, weights, shape=shape, **inner)
    if other == "views":
        x = b.op("Transpose", x, perm=(1, 0), shape=shape[::-1], **inner)
    y = b.op("Identity", x, shape=b.shape(x), **outer)
    more = []
    if other == "read by bytes":
        more = [b.op("Add", end, end, shape=shape, **inner), b.op("Neg", x, shape=shape)]
    graph = b.graph(y, *more, *([end, x] if other == "output" else []))
    return replace(
        graph, nodes=tuple(replace(node, storage=node.op in ("Reshape", "Transpose")) for node in graph.nodes)
    )


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("seed", range(8))
def test_results_stay_what_they_are(seed: int, other: str) -> None:
    graph = layer(seed, other)
    kept = [name for node in graph.nodes if node.op == "Identity" for name in node.outputs + node.inputs]
    found = left_out(graph, FLOATS, kept if other == "kept" else ())
    stays = other in STAY or other in ("read by bytes", "output", "kept")
    assert (found is graph) == stays
    if not stays:
        operators = Counter(node.op for node in graph.nodes)
        assert Counter(node.op for node in found.nodes) == operators - Counter({"Identity": 2})
    assert_same(graph, found, feeds(graph, seed))
    assert left_out(graph, Storage(), ()) is graph


@pytest.mark.parametrize("seed", range(4))
def test_networks_have_none(seed: int) -> None:
    """A fully-connected layer of int8 is one conversion on either side for a target that computes it in floats."""
    net, random = Quantized(seed), np.random.default_rng(seed)
    source = net.model(net.dense(net.input(1, int(random.integers(4, 20))), int(random.integers(3, 9)))).source
    found = layoutsolve.convert(source, target="ort-web")
    operators = Counter(node.op_type for node in found.model.graph.node)
    assert (operators["QuantizeLinear"], operators["DequantizeLinear"]) == (1, 1)
    plain = layoutsolve.convert(source)
    (name,) = (port.name for port in found.model.graph.input)
    shape = [dim.dim_value for dim in found.model.graph.input[0].type.tensor_type.shape.dim]
    data = {name: random.integers(-128, 128, shape).astype(np.int8)}
    results = [OnnxRuntime(each.model.SerializeToString()).run(data)[0].astype(int) for each in (found, plain)]
    assert np.abs(results[0] - results[1]).max() <= 1
