"""No answer that is called optimal is beaten by other orders, whether or not anything demands those."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.fuzz.counterexamples import STAGED
from layoutsolve.solver import assign
from layoutsolve.solver.statement.block_orders import FEW_BLOCKS
from layoutsolve.solver.targets.form_table import Line, Table
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import shipped
from tests.graphs import GraphBuilder
from tests.solver.every_grouping import lower_first
from tests.solver.every_layout import TARGETS, TooLargeError, cheapest
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import random_graph
from tests.solver.turned_graphs import large_turned_graph

GRAPHS = 16
"""The random graphs for each objective and target."""


@pytest.mark.members(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("objective", STAGED)
def test_optimal_is_cheapest_of_all_orders(objective: str, target: str) -> None:
    optimal = 0
    first = GRAPHS * (2 * STAGED.index(objective) + TARGETS.index(target))
    count = GRAPHS // 2 if objective == "min-latency" else GRAPHS
    for seed in range(first, first + count):
        found = assign(mixed_graph(seed), objective=objective, target=shipped(target))
        if found.status != "optimal":
            continue
        try:
            if found.goal.timed:  # Reshapes take time, and nothing else of them is claimed
                assert lower_first(found, found.bound) is None, seed
                optimal += 1
                continue
            best = cheapest(found)
        except TooLargeError:
            continue
        assert (seed, best.ranks) == (seed, best.known)
        optimal += 1
    assert optimal > count / 5


RARE = {"min-transpose": (1527, 21058, 9100239), "min-executed": (5789, 20198, 21703, 24319, 24485, 24585, 24880)}
"""Of many random graphs those that need an order which little leads to: that of a turned form, one that has to be
stored in fewer dimensions, one with a dimension elsewhere that makes an operator slow, or that an operator before it
adds and may put anywhere.
"""


@pytest.mark.parametrize(("objective", "seed"), [(name, seed) for name, seeds in RARE.items() for seed in seeds])
def test_orders_that_little_leads_to(objective: str, seed: int) -> None:
    found = assign(mixed_graph(seed), objective=objective)
    assert (cheapest(found).ranks, found.status) == (cheapest(found).known, "optimal")


def random_table(seed: int) -> Target:
    """A target with a few forms of convolutions and pools, in blocks too, at random prices."""
    random = np.random.default_rng(seed)
    texts = [("NCHW", "OIHW"), ("NHWC", "OHWI"), ("NCHW2c", "OIHW2i2o"), ("NCHW2c", "OIHW2o"), ("HWCN", "OIHW")]
    chosen = random.permutation(len(texts))[: int(random.integers(1, 4))]
    lines = []
    for number in chosen:
        (data, kernel), (out, _) = texts[number], texts[int(random.choice(chosen))]
        ports = {"data": data, "kernel": kernel, "out": data if random.random() < 0.7 else out}
        lines.append(Line(("Conv",), ports, int(random.integers(0, 4))))
        lines.append(Line(("MaxPool",), {"data": data, "out": data}, int(random.integers(0, 3))))
    lines.append(Line(("Conv", "MaxPool"), policy=str(random.choice(["any", "source"]))))
    return replace(shipped("onnx"), name="random", table=Table(tuple(lines)))


@pytest.mark.members(1)
@pytest.mark.parametrize("objective", STAGED[:2])
def test_forms_of_a_table_are_the_cheapest(objective: str) -> None:
    """Where a target has forms of its own, in other orders, in blocks and at prices, no other orders are cheaper."""
    optimal = charged = 0
    for seed in range(24):
        found = assign(random_graph(seed, 7), objective=objective, target=random_table(seed))
        if found.status != "optimal":
            continue
        try:
            best = cheapest(found)
        except TooLargeError:
            continue
        assert (seed, best.ranks) == (seed, best.known)
        optimal += 1
        charged += any(best.known)
    assert optimal > 16 and charged > 10


@pytest.mark.parametrize("target", TARGETS)
def test_bounds_are_never_above_the_cheapest_orders(target: str) -> None:
    """Where moves take different times, few answers are proven; their bounds hold all the same."""
    for seed in range(GRAPHS // 3):
        found = assign(mixed_graph(seed), objective="min-latency", target=shipped(target))
        try:
            assert lower_first(found, found.bound) is None, seed
        except TooLargeError:
            continue


@pytest.mark.members(1)
@pytest.mark.slow
@pytest.mark.parametrize("objective", STAGED[:2])
def test_stops_are_the_cheapest_of_all_orders(objective: str) -> None:
    """Where all dimensions change places, of which there may be more than a few, stops are mostly needed: answers are
    proven, and no order that nobody demands is cheaper.
    """
    many = 0
    for seed in range(5):
        found = assign(large_turned_graph(seed), objective=objective)
        assert found.status == "optimal", seed
        try:
            best = cheapest(found)
        except TooLargeError:
            continue
        assert (seed, best.ranks) == (seed, best.known)
        many += any(len(found.problem.variables[each].sizes) > FEW_BLOCKS for each in found.charged)
    assert many > 0


def softmax_after(*perm: int) -> GraphBuilder:
    """A chain of elementwise operators and a softmax between an input and an output in another order."""
    b = GraphBuilder()
    x = b.relu(b.input(2, 3, 4, 5))
    x = b.op("Softmax", x, shape=b.shape(x), axis=1)
    b.transpose(b.relu(x), *perm)
    return b


@pytest.mark.parametrize("perm", [(3, 2, 1, 0), (1, 3, 0, 2), (2, 1, 0, 3), (0, 2, 1, 3)])
@pytest.mark.parametrize("objective", STAGED)
def test_orders_between_what_is_demanded(perm: tuple[int, ...], objective: str) -> None:
    """A slow operator and a slow Transpose are both spared by orders that neither end asks for."""
    b = softmax_after(*perm)
    found = assign(b.graph(b.nodes[-1].outputs[0]), objective=objective)
    best = cheapest(found)
    assert found.bound <= best.ranks[0]
    assert found.status == "feasible" or best.ranks == best.known
