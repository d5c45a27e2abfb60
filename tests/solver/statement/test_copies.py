"""Constants that several operators read are copied as rarely as the chosen layouts of activations allow."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.graph import Graph
from layoutsolve.solver import assign
from tests.graphs import GraphBuilder, feeds, run

ROWS, WIDTH = 40, 16
BYTES = 4 * ROWS * WIDTH


def checked(graph: Graph) -> tuple[int, int]:
    """The bytes of copies that the price states, and those in the written graph, which computes the same."""
    found = assign(graph)
    applied = apply(found)
    for expected, result in zip(run(graph, feeds(graph)), run(applied, feeds(graph)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    read = {name for node in applied.nodes for name in node.inputs if name}
    sizes = [value.data.nbytes for name, value in applied.values.items() if name in read and value.data is not None]
    return found.price.copies, sum(size for size in sizes if size == BYTES) - BYTES


@pytest.mark.parametrize("transposed", [False, True])
def test_tied_embedding(transposed: bool) -> None:
    """A table of rows to gather from that also gives the scores of all rows: one copy serves both, whichever way the
    product is stated."""
    b = GraphBuilder()
    table = b.weights(ROWS, WIDTH)
    indices = b.input(3, dtype="int64")
    x = b.relu(b.op("Gather", table, indices, shape=(3, WIDTH), axis=0))
    if transposed:
        scores = b.op("Gemm", x, table, shape=(3, ROWS), transB=1)
    else:
        scores = b.op("Gemm", table, b.transpose(x, 1, 0), shape=(ROWS, 3))
    assert checked(b.graph(scores)) == (0, 0)


def test_a_form_that_shares_is_chosen() -> None:
    """Alone, the product would store its weights the other way round."""
    b = GraphBuilder()
    table = b.weights(ROWS, WIDTH)
    rows = b.op("Gather", table, b.input(3, dtype="int64"), shape=(3, WIDTH), axis=0)
    mixed = b.op("Gemm", b.relu(b.input(5, ROWS)), table, shape=(5, WIDTH))
    assert checked(b.graph(b.op("Softmax", rows, shape=(3, WIDTH), axis=1), mixed)) == (0, 0)


def test_two_orders_are_two_copies() -> None:
    """An image of weights is added to what convolutions give, and to what stays channels-last."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    x = b.input(1, 4, 8, 20)
    outer = b.op("Softmax", b.add(x, image), shape=(1, 4, 8, 20), axis=3)
    inner = b.conv(b.add(b.conv(b.input(1, 4, 8, 20), 20, 3), image), 20, 3)
    copies, written = checked(b.graph(outer, inner))
    assert (copies, written) == (BYTES, BYTES)


def test_small_constants_are_not_counted() -> None:
    b = GraphBuilder()
    vector = b.weights(8)
    x = b.input(1, 4, 4, 8)
    assert assign(b.graph(b.add(x, vector), b.conv(b.add(b.conv(x, 8, 3), vector), 8, 3))).price.copies == 0
