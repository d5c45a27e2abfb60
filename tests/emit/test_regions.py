"""Regions as graphs of If and Loop, and states as inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest

from layoutsolve.emit import serialise
from layoutsolve.ir.graph import CONTROL as TIES
from layoutsolve.ir.graph import STATE, Graph
from layoutsolve.proto.scopes import graphs_of, nodes_of
from tests.graphs import GraphBuilder, run
from tests.solver.random_graphs import CONTROL, random_graph


def inner(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graphs of all branches and loops."""
    return (each for node in nodes_of(graph) for each in graphs_of(node))


def nested(depth: int) -> Graph:
    """Loops in branches in loops, each of which reads what is around it."""
    b = GraphBuilder()
    x, condition = b.input(2, 3), b.constant(True, "bool")

    def write(y: str, left: int) -> str:
        if not left:
            return b.add(y, x)
        if left % 2:
            return b.branch(condition, lambda: write(b.relu(y), left - 1), lambda: y)
        return b.loop(2, lambda now: [write(b.add(now, x), left - 1)], y)[0]

    return b.graph(write(x, depth))


def handed_on() -> Graph:
    """A loop that hands on what it was given, what it computes, that a second time, and what is computed around it."""
    b = GraphBuilder()
    around = b.relu(b.input(2, 3))

    def body(x: str, *_: str) -> list[str]:
        y = b.add(x, around)
        return [x, y, y, around]

    return b.graph(*b.loop(3, body, *(b.input(2, 3) for _ in range(4))))


@pytest.mark.parametrize(
    "graph", [handed_on(), *map(nested, range(1, 6)), *(random_graph(seed, 16, CONTROL) for seed in range(12))]
)
def test_graphs_of_regions(graph: Graph) -> None:
    """Each region is one graph, which computes its results itself and lists each once; no operator is lost."""
    model = serialise(graph)
    onnx.checker.check_model(model, full_check=True)
    regions = {region for node in graph.nodes if node.op in ("If", "Loop") for region in node.regions}
    graphs = list(inner(model.graph))
    assert len(graphs) == len(regions)
    for each in graphs:
        results, made = [port.name for port in each.output], {name for node in each.node for name in node.output}
        assert len(set(results)) == len(results) and made.issuperset(results)
    written = Counter(node.op_type for node in nodes_of(model.graph))
    stated = Counter(node.op for node in graph.nodes if node.op not in TIES - {"If", "Loop"})
    written.pop("Identity", 0)
    stated.pop("Identity", 0)
    assert written == stated


@pytest.mark.parametrize("depth", range(1, 6))
def test_nested_regions_compute(depth: int) -> None:
    """What is nested gives what Python's own control flow gives."""
    x = np.random.default_rng(depth).normal(size=(2, 3)).astype(np.float32)

    def value(y: np.ndarray, left: int) -> np.ndarray:
        if not left:
            return y + x
        if left % 2:
            return value(np.maximum(y, 0), left - 1)
        for _ in range(2):
            y = value(y + x, left - 1)
        return y

    np.testing.assert_allclose(run(nested(depth), [x])[0], value(x, depth), rtol=1e-5, atol=1e-5)


def test_states() -> None:
    """A state is an input with a value to begin with, and the output that replaces it, which the metadata name."""
    b = GraphBuilder()
    x = b.input(2, 3)
    states = [b.state(2, 3) for _ in range(2)]
    total = x
    for now, become in states:
        total = b.add(total, now)
        become(total)
    graph = b.graph(total)
    model = serialise(graph)
    following = {entry.key.removeprefix(STATE): entry.value for entry in model.metadata_props}
    assert following.keys() == {now for now, _ in states}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given, names = np.ones((2, 3), np.float32), [port.name for port in session.get_outputs()]
    assert sorted(names) == sorted([*graph.outputs, *following.values()])
    held = {node.outputs[0]: graph.values[node.inputs[0]].data for node in graph.nodes if node.op == "State"}
    feed: dict[str, np.ndarray] = {}
    for _ in range(3):
        found = dict(zip(names, session.run(None, {x: given, **feed}), strict=True))
        expected = given
        for now, _ in states:
            expected = expected + held[now]
            held[now] = expected
            np.testing.assert_allclose(found[following[now]], expected, rtol=1e-5)
        np.testing.assert_allclose(found[graph.outputs[0]], expected, rtol=1e-5)
        feed = {now: found[following[now]] for now, _ in states}
