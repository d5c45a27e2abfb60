"""Idioms: what they write computes the operator, in every layout in which they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.graph import Array, Graph
from layoutsolve.solver import assign
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.statement.target_file import default_target
from layoutsolve.solver.theory.offer import IDIOMS
from layoutsolve.solver.theory.rule import RULES
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import graph_of
from tests.solver.theory.test_rules import random_ends, samples

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 1, -1], np.float32)
"""Numbers at which a sum of two parts may differ from the part that counts."""


SUMMING = frozenset(("ReduceMean", "Resize"))
"""The operators whose kernels add up in another order in other layouts, idiom or not."""


def only(operator: str, *names: str) -> Target:
    """A target with these idioms of one operator, and no others."""
    return replace(default_target(), idioms={operator: names})


def with_edges(data: Array, random: np.random.Generator) -> Array:
    """Data of which a third are numbers that are hard to compute with."""
    if data.dtype != np.float32:
        return data
    where = random.random(data.shape) < 1 / 3
    return np.where(where, random.choice(EDGES, data.shape), data).astype(np.float32)


@pytest.mark.parametrize(("operator", "name"), sorted(IDIOMS))
@pytest.mark.parametrize("seed", range(30))
def test_idioms_compute_the_operator(operator: str, name: str, seed: int) -> None:
    graph, random = graph_of(operator, seed)
    boundary, permutations = random_ends(graph, random)
    data = feeds(graph, seed)
    if operator not in SUMMING:
        data = [with_edges(each, random) for each in data]
    (expected,) = run(graph, data)
    wanted = expected.transpose(permutations.get(graph.outputs[0], range(expected.ndim)))
    given = zip(graph.inputs, data, strict=True)
    moved = [array.transpose(permutations.get(name, range(array.ndim))) for name, array in given]
    for assignment in samples(Statement(graph, boundary, Goal(target=only(operator, name))), random):
        found = run(apply(assignment), moved)[0]
        if operator in SUMMING:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


def activated(channels: int, slopes: Callable[[GraphBuilder], str]) -> Graph:
    """A PRelu between two convolutions that want channels first."""
    b = GraphBuilder()
    y = b.conv(b.input(1, 6, 6, 3), channels, 3)
    y = b.op("PRelu", y, slopes(b), shape=(1, 6, 6, channels))
    return b.graph(b.conv(y, 4, 3))


def operators(graph: Graph, target: Target) -> Counter[str]:
    """What a graph is written as."""
    return Counter(node.op for node in apply(assign(graph, target=target)).nodes)


def test_the_first_that_fits_is_written() -> None:
    by_channel, by_pixel = activated(16, lambda b: b.weights(1, 1, 16)), activated(16, lambda b: b.weights(6, 6, 16))
    both = only("PRelu", "depthwise", "limits")
    assert operators(by_channel, both)["Conv"] == 4
    assert operators(by_pixel, both) >= Counter({"Conv": 2, "Min": 1, "Mul": 1, "Relu": 1, "Add": 1})
    assert operators(by_pixel, only("PRelu", "depthwise"))["PRelu"] == 1
    assert operators(by_channel, only("PRelu"))["PRelu"] == 1


def test_layouts_stay_what_they_are() -> None:
    """An idiom changes nothing but how an operator is written."""
    for seed in range(12):
        graph, _ = graph_of("PRelu", seed)
        plain, other = (assign(graph, target=only("PRelu", *names)) for names in ((), ("limits",)))
        assert [plain.row(number).layouts for number in range(len(plain.rows))] == [
            other.row(number).layouts for number in range(len(other.rows))
        ]
        assert plain.price == other.price


def test_idioms_are_of_operators_with_rules() -> None:
    assert IDIOMS and {operator for operator, _ in IDIOMS} <= set(RULES)
