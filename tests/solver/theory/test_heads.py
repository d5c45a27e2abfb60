"""Products by a matrix that the graph splits into heads, with weights that have a matrix for each head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.ir.graph import Graph, symbol
from layoutsolve.solver import assign
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import Random
from tests.solver.theory.test_rules import check, random_ends

ROWS, DEPTH, FACTORS = 5, 6, ((2, 3), (3, 2), (2, 3, 2))
"""Rows of the data, the size that is not split, and what is split."""

WRITTEN = 10
"""How many rows of each kind are written and run."""


def split_graph(op: str, seed: int, *, left: bool, summed: bool) -> tuple[Graph, Random]:
    """A product by constant weights on the ``left`` or on the right, whose result is split into factors in some order,
    or what is contracted (``summed``); sometimes with a bias, and in batches.
    """
    random = np.random.default_rng([seed, left, summed, *op.encode()])
    b, factors = GraphBuilder(seed), FACTORS[int(random.integers(len(FACTORS)))]
    whole, own = int(np.prod(factors)), [2, symbol("rows") if random.random() < 0.3 else ROWS]
    lines = own[int(random.integers(2)) if op == "MatMul" else 1 :]
    k, n = (whole, DEPTH) if summed else (DEPTH, whole)
    given = [*factors] if summed else [DEPTH]
    perm = [int(axis) for axis in random.permutation(len(lines) + len(given))]
    shape = [*lines, *given]
    x = b.transpose(b.input(*(shape[axis] for axis in perm)), *(perm.index(axis) for axis in range(len(shape))))
    x = b.reshape(x, *lines, k)
    if left:
        x = b.transpose(x, *range(len(lines) - 1), len(lines), len(lines) - 1)
        operands, made = [b.weights(n, k), x], [*lines[:-1], n, lines[-1]]
    else:
        operands, made = [x, b.weights(k, n)], [*lines, n]
    biased = op == "Gemm" and not left and random.random() < 0.6
    attributes = {"alpha": 0.5, "beta": -2.0} if biased and random.random() < 0.5 else {}
    y = b.op(op, *operands, *([b.weights(n)] if biased else []), shape=made, **attributes)
    if left:
        y = b.transpose(y, *range(len(lines) - 1), len(lines), len(lines) - 1)
    return b.graph(b.reshape(y, *lines, *([n] if summed else factors))), random


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_of_heads(seed: int, op: str, left: bool, summed: bool) -> None:
    """Each kind of way is offered, and computes the same."""
    graph, random = split_graph(op, seed, left=left, summed=summed)
    boundary, permutations = random_ends(graph, random)
    statement = Statement(graph, boundary, Goal("min-transpose"))
    problem, data = statement.layouts(), feeds(graph, seed)
    truth, tried = run(graph, data), set[str]()
    (at,) = [number for number, each in enumerate(problem.operators) if each.node >= 0]
    ways = statement.rules[problem.operators[at].node].ways
    owned = [number for number, row in enumerate(problem.operators[at].rows) if ways[row.form].factors]
    for number in random.permutation(owned)[:WRITTEN].tolist():
        rows = tuple(number if each == at else 0 for each in range(len(problem.operators)))
        found = Assignment(graph, statement.rules, problem, rows, price(problem, rows), Goal("min-transpose"), "test")
        check(graph, found, permutations, data, truth)
        tried.add(str(ways[problem.operators[at].rows[number].form].kind).split(", ")[0].removeprefix("swapped "))
    assert tried == {"MatMul summed over heads" if summed else "MatMul of heads"}


def attention(heads: int, order: Sequence[str], batch: int = 1, *, left: bool = False) -> Graph:
    """Attention of some heads, whose projections' features are split in an ``order``, with biases; its weights may lie
    on the left.
    """
    b, rows, width = GraphBuilder(), 6, 4
    x, whole, sizes = b.input(batch, rows, 8), heads * width, {"h": heads, "d": width}
    at = {name: 2 + order.index(name) for name in order}

    def product(data: str, columns: int, depth: int) -> str:
        if not left:
            return b.op("MatMul", data, b.weights(depth, columns), shape=(batch, rows, columns))
        turned = b.transpose(data, 0, 2, 1)
        return b.transpose(b.op("MatMul", b.weights(columns, depth), turned, shape=(batch, columns, rows)), 0, 2, 1)

    def projected(*perm: int) -> str:
        y = product(x, whole, 8)
        y = b.op("Add", y, b.weights(whole), shape=(batch, rows, whole))
        return b.transpose(b.reshape(y, batch, rows, *(sizes[name] for name in order)), *perm)

    q, k = projected(0, at["h"], 1, at["d"]), projected(0, at["h"], at["d"], 1)
    v = projected(0, at["h"], 1, at["d"])
    scores = b.op("MatMul", q, k, shape=(batch, heads, rows, rows))
    shares = b.op("Softmax", scores, shape=(batch, heads, rows, rows), axis=-1)
    weighed = b.op("MatMul", shares, v, shape=(batch, heads, rows, width))
    back = {name: axis for axis, name in enumerate("bhsd")}
    joined = b.reshape(b.transpose(weighed, 0, 2, *(back[name] for name in order)), batch, rows, whole)
    return b.graph(product(joined, 8, whole))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("order", ["hd", "dh"])
@pytest.mark.parametrize("batch", [1, 2])
def test_attention(batch: int, order: str, left: bool) -> None:
    """Nothing is moved but what gives the scores one side the other way round, which a Gemm does of one batch. Where
    time counts, one product of all heads and a Transpose take less of it, and what is proven is relative to these.
    """
    graph = attention(3, order, batch, left=left)
    data = feeds(graph)
    truth = run(graph, data)
    fewest, quickest = (assign(graph, objective=each) for each in ("min-transpose", "min-executed"))
    for found in (fewest, quickest):
        check(graph, found, {}, data, truth)
    assert fewest.status == "optimal" and fewest.price.transposes == batch - 1 and not fewest.kept
    assert quickest.status == "optimal" and quickest.price.transposes > 1
    assert quickest.kept == {"MatMul of heads": 4}
    assert quickest.price.transposes + quickest.price.hidden <= fewest.price.transposes + fewest.price.hidden


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2, 2), (4, 8)])
def test_many_factors_are_kept(sizes: tuple[int, ...]) -> None:
    """Of weights that the graph splits into many factors no products of heads are tried, which is told."""
    b = GraphBuilder()
    y = b.op("MatMul", b.input(5, 6), b.weights(6, 32), shape=(5, 32))
    graph = b.graph(b.transpose(b.reshape(y, 5, *sizes), *range(1, len(sizes)), 0, len(sizes)))
    found = assign(graph, objective="min-transpose")
    assert found.kept == ({"MatMul of heads": 1} if len(sizes) > 2 else {})
    assert bool(found.price.transposes) == (len(sizes) > 2)


def test_heads_share_what_they_read() -> None:
    """What is read needs no Reshape: heads come before its own dimensions, which are repeated along them."""
    b = GraphBuilder()
    x = b.input(2, 5, 6)
    made = []
    for _ in range(2):
        y = b.op("MatMul", x, b.weights(6, 8), shape=(2, 5, 8))
        made.append(b.transpose(b.reshape(y, 2, 5, 4, 2), 2, 0, 1, 3))
    applied = apply(assign(b.graph(*made), objective="min-transpose"))
    assert [node.op for node in applied.nodes] == ["MatMul", "MatMul"]
    shapes = {replace(applied.values[node.inputs[1]], name="").shape for node in applied.nodes}
    assert shapes == {(4, 1, 6, 2)}
