"""Concatenations in steps: which operands are joined first, and which steps are operators in the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import layoutsolve
from layoutsolve.emit import apply, serialise
from layoutsolve.emit.concats import joined
from layoutsolve.frontend import read
from layoutsolve.ir.graph import Graph, Quant, symbol
from layoutsolve.solver import STRATEGIES, Boundary, Goal, assign
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.strategies.orders_then_groupings import solve_graph
from tests.graphs import GraphBuilder, feeds, run
from tests.networks import Network

QUANT = Quant(np.array([0.05], np.float32), np.array([3], np.int8))

CHOOSING = [name for name in STRATEGIES if name != "mincut"]
"""The strategies that take any number of orders: steps have more than the two of a cut."""


def maps(b: GraphBuilder, anchors: Sequence[int], kernel: int = 3, width: int = 4, batch: object = 1) -> list[str]:
    """Rows [N, H*W*A, width] of maps that halve from one to the next, the first of 16x16."""
    x, found = b.input(batch, 32, 32, 3), []
    for number, count in enumerate(anchors):
        size = 16 >> number
        pooled = (batch, size, size, b.shape(x)[3])
        x = b.channels_last("MaxPool", x, shape=pooled, kernel_shape=[2, 2], strides=[2, 2])
        head = b.conv(x, count * width, kernel)
        found.append(b.reshape(b.relu(head), batch, size * size * count, width))
    return found


def concat(b: GraphBuilder, parts: Sequence[str], axis: int = 1) -> str:
    shape = list(b.shape(parts[0]))
    shape[axis] = sum(int(str(b.shape(part)[axis])) for part in parts)
    quant, dtype = b.values[parts[0]].quant, b.values[parts[0]].dtype
    return b.op("Concat", *parts, shape=shape, axis=axis, quant=quant, dtype=dtype)


def runs(graph: Graph) -> list[int]:
    """The numbers of operands of all Concats, in order."""
    return [len(node.inputs) for node in graph.nodes if node.op == "Concat"]


@pytest.mark.parametrize(
    ("anchors", "found"),
    [
        ((3, 3, 3), [3]),
        ((2, 3, 3), [2, 2]),
        ((3, 3, 2), [2, 2]),
        ((3, 2, 3), [3]),
        ((1, 1, 3, 3), [2, 2, 2]),
        ((2, 1, 1), [2, 2]),
        ((2, 3, 3, 3, 6), [3, 3]),
        ((3, 3, 2, 2, 2), [2, 3, 2]),
    ],
)
def test_runs(anchors: Sequence[int], found: list[int]) -> None:
    """Neighbours with the same A, where others have another one. A map of one pixel (the fifth) fits any A."""
    b = GraphBuilder()
    assert runs(in_steps(b.graph(concat(b, maps(b, anchors))))) == found


def test_constants_fit_everywhere() -> None:
    b = GraphBuilder()
    first, *rest = maps(b, (2, 3, 3))
    graph = in_steps(b.graph(concat(b, [b.weights(1, 5, 4), first, rest[0], b.weights(1, 7, 4), rest[1]])))
    assert runs(graph) == [2, 3, 2]


def test_nothing_to_do() -> None:
    """Two operands, plain channels, and sizes that are known by name only."""
    b = GraphBuilder()
    x = b.input(1, 4, 4, 6)
    convs = [b.conv(x, channels, 3) for channels in (2, 4, 4, 6)]
    open_rows = [b.input(symbol("rows"), 4) for _ in range(3)]
    rows = b.op("Concat", *open_rows, shape=(symbol("all"), 4), axis=0)
    graph = b.graph(concat(b, convs, 3), concat(b, maps(b, (2, 3))), rows)
    assert in_steps(graph) is graph


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("batch", [1, 2, symbol("batch")])
def test_steps_that_stay(kernel: int, batch: object) -> None:
    """With 3x3 heads one Transpose serves each run. 1x1 heads of one image turn, and one Reshape serves each run; of
    several they turn as well where pools have channels before images, and nothing is joined in steps.
    """
    b = GraphBuilder()
    graph = b.graph(concat(b, maps(b, (2, 2, 3, 3), kernel, batch=batch)))
    found = assign(graph)
    applied = apply(found)
    assert (found.status, found.price.transposes) == ("optimal", 1 if kernel == 1 else 3)
    assert runs(applied) == ([4] if kernel == 1 and batch != 1 else [2, 2, 2])
    data = feeds(graph)
    for expected, result in zip(run(graph, data), run(applied, data), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("objective", ["min-transpose", "min-executed"])
@pytest.mark.parametrize(("anchors", "kernel"), [((1, 1, 2), 3), ((2, 1, 1), 1)])
def test_no_step_for_nothing(anchors: Sequence[int], kernel: int, objective: str) -> None:
    """Where steps save no Transpose and no Reshape there are none."""
    b = GraphBuilder()
    whole = b.graph(concat(b, maps(b, anchors, kernel, width=1)))
    with_steps = assign(whole, objective=objective)
    assert len(runs(with_steps.graph)) == 2
    without = solve_graph(whole, Boundary(), Goal(objective), unlimited())
    assert without.graph is whole
    assert with_steps.price == without.price
    assert runs(apply(with_steps)) == [3]


@pytest.mark.parametrize("strategy", CHOOSING)
def test_strategies(strategy: str) -> None:
    """Every strategy solves the graph in steps; where nothing is moved there are none in the file."""
    b = GraphBuilder()
    graph = b.graph(concat(b, maps(b, (2, 3, 3), 1)))
    found = assign(graph, strategy=strategy)
    applied = apply(found)
    assert len(runs(found.graph)) == 2
    assert sum(node.op == "Transpose" for node in applied.nodes) == found.price.transposes
    assert runs(applied) == [3] or strategy != "transpose"
    data = feeds(graph)
    np.testing.assert_allclose(run(applied, data)[0], run(graph, data)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [0.05, 0.08])
def test_quantized(scale: float) -> None:
    """Steps have the result's scale: operands of another one are quantized anew once, as without steps."""
    b = GraphBuilder()
    shapes = [(1, 3, size, size, 4) for size in (8, 4, 2)]
    rows = []
    for number, (n, a, h, w, c) in enumerate(shapes):
        quant = QUANT if number == 0 else Quant(np.array([scale], np.float32), QUANT.zero_point)
        planes = b.input(n, a if number else 2, c, h, w, dtype="int8", quant=quant)
        count = b.shape(planes)[1]
        rows.append(b.reshape(b.transpose(planes, 0, 3, 4, 1, 2), n, h * w * count, c))  # type: ignore[operator]
    whole = b.graph(concat(b, rows))
    found = assign(whole)
    graph = found.graph
    assert runs(graph) == [2, 2]
    assert all(graph.values[node.outputs[0]].quant is QUANT for node in graph.nodes if node.op == "Concat")
    assert found.price.transposes == 2
    random = np.random.default_rng(0)
    data = [random.integers(-128, 128, [int(str(dim)) for dim in b.shape(name)], np.int8) for name in graph.inputs]
    np.testing.assert_array_equal(run(apply(found), data)[0], run(whole, data)[0])


def test_what_is_joined_again() -> None:
    """A Concat that another one along the same axis reads alone; not one that is read twice, kept, or means less."""

    def left(axis: int = 0, kept: bool = False, twice: bool = False, quant: Quant | None = None) -> list[int]:
        b = GraphBuilder()
        x = b.input(2, 2, dtype="int8" if quant else "float32", quant=quant)
        first = concat(b, [x, x], axis)
        shape = [2, 2 * 3] if axis else [6, 2]
        rest = [x] if axis == 0 else [b.reshape(concat(b, [x, x], 0), 2, 4)]
        dtype = b.values[x].dtype
        other = None if quant is None else Quant(QUANT.scale * 2, QUANT.zero_point)
        parts = [first, *rest]
        whole = b.op("Concat", *parts, shape=shape, axis=axis - 2, dtype=dtype, quant=other)
        graph = b.graph(whole, *([b.relu(first)] if twice else []))
        return runs(joined(graph, [first] if kept else []))

    assert left() == [3]
    assert left(axis=1) == [2, 3]
    assert left(kept=True) == [2, 2]
    assert left(twice=True) == [2, 2]
    assert left(quant=QUANT) == [2, 2]


@pytest.mark.parametrize("strategy", CHOOSING)
@pytest.mark.parametrize(
    ("anchors", "steps"), [((3, 3, 3), 1), ((2, 3, 3), 2), ((2, 2, 6, 6), 3), ((1, 4, 4, 2, 2), 3)]
)
def test_all_ways_lead_to_the_same(anchors: Sequence[int], steps: int, strategy: str) -> None:
    """What is read, assigned and applied is what is converted: the same assignment and the same bytes."""
    net = Network()
    x, rows = net.input(1, 32, 32, 3), []
    for count in anchors:
        x = net.conv(x, count * 4, stride=2)
        _, height, width, _ = net.shapes[x]
        rows.append(net.reshape(x, 1, height * width * count, 4))
    source = net.model(net.concat(1, *rows)).source
    whole, conversion = read(source), layoutsolve.convert(source, strategy=strategy)
    found = assign(whole, strategy=strategy)
    assert found == conversion.assignment
    assert (len(runs(whole)), len(runs(conversion.graph)), len(runs(found.graph))) == (1, 1, steps)
    written = serialise(apply(found)).graph.SerializeToString(deterministic=True)
    assert written == conversion.model.graph.SerializeToString(deterministic=True)
