"""Rows of sums and products with constants: a product and a sum, and the same numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from layoutsolve.frontend.passes import affine
from layoutsolve.ir.graph import Graph
from tests.graphs import GraphBuilder, assert_same, feeds

SHAPE = (2, 5, 6, 7)
OPERATORS = ("Add", "Div", "Mul", "Sub")


def row(seed: int, length: int) -> Graph:
    """Operators in a row, each with a constant on a random side, for all numbers, each channel or each element."""
    b, random = GraphBuilder(seed), np.random.default_rng(seed)
    x = b.input(*SHAPE)
    wide = [(7,), SHAPE, (5, 1, 1)][int(random.integers(3))]
    for _ in range(length):
        operator = str(random.choice(OPERATORS))
        constant = b.constant(random.uniform(0.5, 2, wide if random.random() < 0.7 else ()))
        first = operator != "Div" and random.random() < 0.3
        x = b.op(operator, *((constant, x) if first else (x, constant)), shape=SHAPE)
    return b.graph(x)


@pytest.mark.parametrize("length", range(1, 7))
@pytest.mark.parametrize("seed", range(10))
def test_numbers_stay_what_they_are(seed: int, length: int) -> None:
    graph = row(seed, length)
    found = affine.folded(graph)
    assert (
        (found is graph) == (length < 3) and len(found.nodes) <= max(length, 2) and (length < 3 or len(found.nodes) < 3)
    )
    assert set(found.outputs) == set(graph.outputs)
    assert_same(graph, found, feeds(graph, seed), rtol=1e-5, atol=1e-5)


def test_only_what_is_there() -> None:
    """No product by 1, no sum with 0, and a product where nothing is left."""
    for operators, numbers, left in (
        (("Add", "Add", "Sub"), (1, 2, 5), ["Add"]),
        (("Mul", "Div", "Mul"), (2, 5, 3), ["Mul"]),
        (("Add", "Sub", "Add"), (1, 3, 2), ["Mul"]),
        (("Sub", "Mul", "Mul", "Add"), (1, 3, 2, 1), ["Mul", "Add"]),
    ):
        b = GraphBuilder()
        x = b.input(*SHAPE)
        for operator, number in zip(operators, numbers, strict=True):
            x = b.op(operator, x, b.constant(np.float32(number)), shape=SHAPE)
        graph = b.graph(x)
        found = affine.folded(graph)
        assert [node.op for node in found.nodes] == left
        assert_same(graph, found, feeds(graph, 1), rtol=1e-6, atol=1e-6)


APART = ("read twice", "output", "cancels", "infinite", "wider", "computed", "parted", "quotient", "")


@pytest.mark.parametrize("case", APART)
def test_what_stays_apart(case: str) -> None:
    """Numbers that others read, that cancel, are infinite or larger than before; what has no constant, or something
    else between. Without any of that nothing does.
    """
    b = GraphBuilder()
    x = b.input(*SHAPE)
    far = 1000.0 if case == "cancels" else 1e30 if case == "infinite" else 1.5
    numbers = {"wider": np.full((7,), far)}.get(case, np.full((), far))
    first = b.op("Sub", x, b.constant(numbers), shape=SHAPE)
    by = np.full((5, 1, 1), 2.0) if case == "wider" else np.float32(1e20 if case == "infinite" else 2)
    if case == "computed":
        second = b.op("Mul", first, x, shape=SHAPE)
    elif case == "quotient":
        second = b.op("Div", b.constant(by), first, shape=SHAPE)
    elif case == "parted":
        second = b.op("Mul", b.op("Relu", first, shape=SHAPE), b.constant(by), shape=SHAPE)
    else:
        second = b.op("Mul", first, b.constant(by), shape=SHAPE)
    last = b.op("Add", second, b.constant(np.float32(0.5)), shape=SHAPE)
    more = {"read twice": [b.op("Relu", second, shape=SHAPE)] if case == "read twice" else [], "output": [first]}
    graph = b.graph(last, *more.get(case, []))
    assert (affine.folded(graph) is graph) == bool(case)


def test_rows_behind_each_other() -> None:
    """What follows a number that others read begins a row of its own."""
    b = GraphBuilder()
    x, numbers = b.input(*SHAPE), [np.float32(number) for number in (1.5, 2, 4)]
    for _ in range(2):
        for operator, number in zip(("Sub", "Mul", "Add"), numbers, strict=True):
            x = b.op(operator, x, b.constant(number), shape=SHAPE)
        other = b.op("Relu", x, shape=SHAPE)
    graph = b.graph(x, other, b.nodes[2].outputs[0])
    found = affine.folded(graph)
    assert Counter(node.op for node in found.nodes) == {"Mul": 2, "Add": 2, "Relu": 1}
    assert_same(graph, found, feeds(graph, 1), rtol=1e-6, atol=1e-6)
