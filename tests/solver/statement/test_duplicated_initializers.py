"""Constants that several operators read are copied as rarely as the chosen layouts of activations allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutsolve.emit import apply, serialise
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.audited import audited
from tests.graphs import GraphBuilder, feeds, run

ROWS, WIDTH = 40, 16
BYTES = 4 * ROWS * WIDTH


def copies(graph: Graph, strategy: str = "cpsat") -> int:
    """The bytes of copies that the price states, which are in the file; that computes the same."""
    found = assign(graph, strategy=strategy)
    applied = apply(found)
    audited(serialise(applied), found, graph)
    for expected, result in zip(run(graph, feeds(graph)), run(applied, feeds(graph)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return found.price.copies


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
    assert copies(b.graph(scores)) == 0


def test_a_form_that_shares_is_chosen() -> None:
    """Alone, the product would store its weights the other way round."""
    b = GraphBuilder()
    table = b.weights(ROWS, WIDTH)
    rows = b.op("Gather", table, b.input(3, dtype="int64"), shape=(3, WIDTH), axis=0)
    mixed = b.op("Gemm", b.relu(b.input(5, ROWS)), table, shape=(5, WIDTH))
    assert copies(b.graph(b.op("Softmax", rows, shape=(3, WIDTH), axis=1), mixed)) == 0


def test_two_orders_are_two_copies() -> None:
    """An image of weights is added to what convolutions give, and to what stays channels-last."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    assert copies(b.graph(*two_orders(b, image, image))) == BYTES


def two_orders(b: GraphBuilder, image: str, other: str) -> list[str]:
    """An image of weights that is added in two orders, under two names."""
    x = b.input(1, 4, 8, 20)
    outer = b.op("Softmax", b.add(x, image), shape=(1, 4, 8, 20), axis=3)
    return [outer, b.conv(b.add(b.conv(b.input(1, 4, 8, 20), 20, 3), other), 20, 3)]


def test_the_same_memory_is_one_constant() -> None:
    """Two names of one array in two orders are a copy; each in both orders are no more."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    b.values["other"] = replace(b.values[image], name="other")
    both = two_orders(b, image, "other")
    assert copies(b.graph(*both)) == BYTES
    assert copies(b.graph(*both, *two_orders(b, "other", image))) == BYTES


def test_an_output_is_stored_as_in_the_source() -> None:
    """A constant that is an output as well has a copy where something reads it in another order."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    outer, inner = two_orders(b, image, image)
    assert copies(b.graph(inner, outer, image)) == BYTES
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    inner = b.conv(b.add(b.conv(b.input(1, 4, 8, 20), 20, 3), image), 20, 3)
    assert copies(b.graph(inner, image)) == BYTES
    table = b.weights(ROWS, WIDTH)
    rows = b.op("Gather", table, b.input(3, dtype="int64"), shape=(3, WIDTH), axis=0)
    assert copies(b.graph(b.op("Gemm", rows, table, shape=(3, ROWS), transB=1), table)) == 0


def test_small_constants_are_not_counted() -> None:
    b = GraphBuilder()
    vector = b.weights(8)
    x = b.input(1, 4, 4, 8)
    assert assign(b.graph(b.add(x, vector), b.conv(b.add(b.conv(x, 8, 3), vector), 8, 3))).price.copies == 0


LAYERS = {
    "relu": lambda b, x: b.relu(x),
    "conv": lambda b, x: b.conv(x, 20, 3),
    "softmax": lambda b, x: b.op("Softmax", x, shape=b.shape(x), axis=3),
}
layers = st.sampled_from(sorted(LAYERS))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(layers, layers), min_size=2, max_size=4), st.sampled_from(["cpsat", "push", "transpose"]))
def test_random_readers(readers: list[tuple[str, str]], strategy: str) -> None:
    """Whatever stands before and behind sums that read a constant, its copies in the file are those of the price."""
    b = GraphBuilder()
    image = b.weights(1, 4, 8, 20)
    x = b.input(1, 4, 8, 20)
    sums = [LAYERS[after](b, b.add(LAYERS[before](b, x), image)) for before, after in readers]
    assert copies(b.graph(*sums), strategy) in (0, BYTES)
