"""Means that runtimes compute faster where what is reduced stays as dimensions of size 1."""

from __future__ import annotations

from collections import Counter

import pytest

from layoutsolve.emit.apply import apply
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.targets.target_file import shipped
from tests.graphs import GraphBuilder, assert_same, feeds


def pooled(seed: int, rows: int, columns: int, batch: int = 1, keep: int = 0) -> Graph:
    """The mean over the rows of a matrix, and a product of it."""
    b = GraphBuilder(seed)
    data = b.op("Softmax", b.input(batch, rows, columns), shape=(batch, rows, columns), axis=-1)
    shape = (batch, *(1,) * keep, columns)
    mean = b.op("ReduceMean", data, b.constant([1], "int64"), shape=shape, keepdims=keep)
    return b.graph(b.op("MatMul", mean, b.weights(columns, 3), shape=(*shape[:-1], 3)))


LARGE = [(20, 300), (300, 20), (260, 17), (17, 257)]
SMALL = [(16, 300), (20, 256), (4, 7)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rows", "columns"), [*LARGE, *SMALL])
def test_a_batch_of_one(seed: int, rows: int, columns: int) -> None:
    """Where there is a faster kernel it is reduced with the rows, which takes a Reshape more; a target says so."""
    graph = pooled(seed, rows, columns)
    written = apply(assign(graph))
    (mean,) = (node for node in written.nodes if node.op == "ReduceMean")
    moved = Counter(node.op for node in written.nodes)["Reshape"]
    axes = written.values[mean.inputs[1]].constant.tolist()
    faster = (rows, columns) in LARGE
    assert (axes, mean.attributes["keepdims"], moved) == (([0, 1], 1, 1) if faster else ([1], 0, 0))
    assert_same(graph, written, feeds(graph, seed))
    plain = apply(assign(graph, target=shipped("onnx")))
    assert "Reshape" not in {node.op for node in plain.nodes}


@pytest.mark.parametrize(("batch", "keep"), [(3, 0), (1, 1), (2, 1)])
def test_what_has_nothing_to_gain(batch: int, keep: int) -> None:
    """Several matrices, and dimensions that are kept anyway."""
    graph = pooled(0, 20, 300, batch, keep)
    written = apply(assign(graph))
    assert Counter(node.op for node in written.nodes) == Counter(node.op for node in graph.nodes)
    assert assign(graph).price.reshapes == 0
