"""Rows of operators on quantized numbers, between their steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.ir.graph import symbol
from layoutsolve.solver import assign
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.offer import rule_of
from layoutsolve.solver.theory.rule import Site
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.theory.test_rules import check, samples


def pointwise(b: GraphBuilder) -> str:
    return b.conv(b.reshape(b.relu(b.input(12, 6)), 1, 3, 4, 6), 5)


def dense(b: GraphBuilder) -> str:
    return b.dense(b.reshape(b.relu(b.input(2, 3, 4)), 6, 4), 5)


def normalised(b: GraphBuilder) -> str:
    x = b.channels_last("MaxPool", b.input(1, 4, 5, 3), shape=(1, 4, 5, 3), kernel_shape=(1, 1))
    return b.op("LayerNormalization", x, b.weights(3), b.weights(3), shape=(1, 4, 5, 3), axis=-1)


def expanded(b: GraphBuilder) -> str:
    shape = (symbol("batch"), 2, symbol("width"), 3)
    x = b.channels_last(
        "MaxPool", b.input(shape[0], 1, *shape[2:]), shape=(shape[0], 1, *shape[2:]), kernel_shape=(1, 1)
    )
    return b.op("Expand", x, b.op("Sizes", shape=(4,), dtype="int64", dims=shape), shape=shape)


def measured(b: GraphBuilder) -> str:
    x = b.channels_last("MaxPool", b.input(2, 4, 5, 3), shape=(2, 4, 5, 3), kernel_shape=(1, 1))
    return b.op("Shape", x, shape=(4,), dtype="int64")


def reversed_lines(b: GraphBuilder) -> str:
    shape, lengths = (2, 5, 4, 3), b.input(2, dtype="int64")
    x = b.op("ReverseSequence", b.input(*shape), lengths, shape=shape, batch_axis=0, time_axis=1)
    return b.transpose(x, 0, 2, 1, 3)


@pytest.mark.parametrize(
    ("write", "wanted"),
    [
        (pointwise, {"product"}),
        (dense, {"product"}),
        (normalised, {"mean", "centred", "squares", "variance", "shifted", "deviation", "normal", "scaled"}),
        (expanded, {"sizes"}),
        (measured, {"stored"}),
        (reversed_lines, {"lengths"}),
    ],
)
def test_between_steps(write: Callable[[GraphBuilder], str], wanted: set[str]) -> None:
    """What an operator in several steps writes between them is of the type and shape that its rule states."""
    builder = GraphBuilder()
    graph = builder.graph(write(builder))
    data = feeds(graph)
    truth, found = run(graph, data), set()
    for assignment in samples(Statement(graph), np.random.default_rng(0)):
        check(graph, assignment, {}, data, truth)
        found.update(name.rpartition("/")[2] for name in apply(assignment).values)
    assert found >= wanted


@pytest.mark.parametrize("leading", [0, 1, 2, 3])
@pytest.mark.parametrize("strategy", ["cpsat", "transpose"])
def test_a_normalised_line_keeps_its_dimensions(leading: int, strategy: str) -> None:
    """It is as fast with dimensions of size 1 before it as without, and takes no Reshape."""
    builder, shape = GraphBuilder(), (1,) * leading + (6,)
    x = builder.op("LayerNormalization", builder.relu(builder.input(*shape)), builder.weights(6), shape=shape, axis=-1)
    found = assign(builder.graph(builder.relu(x)), strategy=strategy).price
    assert (found.transposes, found.hidden, found.reshapes) == (0, 0, 0)


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True), (False, False)])
def test_a_product_is_turned_as_it_is_read(turned: tuple[bool, bool]) -> None:
    """Either side of a product with constant weights may come and go the other way round."""
    builder, (before, after) = GraphBuilder(), turned
    x = builder.input(1, 6, 4) if before else builder.input(1, 4, 6)
    x = builder.transpose(x, 0, 2, 1) if before else x
    y = builder.op("MatMul", x, builder.weights(6, 8), shape=(1, 4, 8))
    y = builder.relu(builder.transpose(y, 0, 2, 1) if after else y)
    assert assign(builder.graph(y), objective="min-transpose").price.transposes == 0


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("others", range(6))
def test_ways_to_merge_are_those_of_few_dimensions(others: int, batch: int) -> None:
    """Each lies by itself, before the batch or behind it, which is the same for a batch of size 1, and the batch before
    the time or behind it; of more dimensions none is merged.
    """
    b = GraphBuilder()
    shape = (batch, 3, *(2,) * others)
    lengths = b.constant(np.full(batch, 2), "int64")
    graph = b.graph(b.op("ReverseSequence", b.input(*shape), lengths, shape=shape, batch_axis=0, time_axis=1))
    ways = rule_of(Site(graph, graph.nodes[-1])).ways
    assert (len(ways) >= 2 * (2 if batch == 1 else 3) ** others) == (others <= 3)
