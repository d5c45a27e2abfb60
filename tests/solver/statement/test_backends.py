"""Backends that are chosen: as cheap as the cheapest of all partitions, each solved by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import NOTHING, Graph
from layoutsolve.solver import Assignment, assign
from layoutsolve.solver.statement.backends import backend_of, crossings
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.targets.form_table import Backend, Line, Match, Table
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import parsed, shipped
from tests.graphs import GraphBuilder, assert_same, feeds

FORM = {"data": "NHWC", "kernel": "OHWI", "out": "NHWC"}
HERE = {"data": "NCHW", "kernel": "OIHW", "out": "NCHW"}
FOLLOW = Line(("Relu",), policy="follow")


def network(seed: int) -> Graph:
    """Convolutions in planes one after the other or side by side, and operators between them that are in no backend."""
    builder, random = GraphBuilder(seed), np.random.default_rng(seed)
    live = [builder.input(2, 4, 6, 6)]
    for _ in range(int(random.integers(3, 6))):
        x = live[int(random.integers(len(live)))]
        x = builder.op("Conv", x, builder.weights(4, 4, 3, 3), shape=(2, 4, 6, 6), pads=[1] * 4)
        if random.random() < 0.4:
            x = builder.relu(x)
        if random.random() < 0.4:
            x = builder.add(x, live[int(random.integers(len(live)))])
        if random.random() < 0.2:
            x = builder.op("Softmax", x, shape=(2, 4, 6, 6), axis=1)
        live.append(x)
    return builder.graph(live[-1], *([live[-2]] if random.random() < 0.3 else []))


def lines(random: np.random.Generator) -> tuple[list[Line], int]:
    """What a backend has for convolutions, what there is without it, and what a crossing costs."""
    prices = [int(random.integers(0, 4)) for _ in range(2)]
    return [Line(("Conv",), FORM, prices[0], backend="acl"), Line(("Conv",), HERE, prices[1])], int(
        random.integers(1, 4)
    )


def least_of(found: Assignment) -> int:
    """What an optimal answer costs, with what crosses."""
    assert found.status == "optimal"
    return found.price.transposes + found.price.hidden + sum(each.price for each in crossings(found))


def assert_least(found: Assignment, prices: list[int]) -> None:
    """An answer of chosen backends costs the least of all partitions' prices, and has no marker left."""
    assert found.status == "optimal"
    assert found.tiers[0].value == found.bound == found.price.transposes + found.price.hidden == min(prices)
    own = sum(found.row(number).price.hidden for number in range(len(found.rows)))
    assert found.price.hidden == own + sum(each.price for each in crossings(found))
    assert not any(value.dtype == NOTHING for value in found.graph.values.values())
    assert sum(node.op == "Transpose" for node in apply(found).nodes) == found.price.transposes


def target(own: list[Line], crossing: int, chooses: bool) -> Target:
    table = Table((*own, FOLLOW), {"acl": Backend(crossing)}, chooses)
    return replace(shipped("onnx"), name="arm", table=table)


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_cheaper_than_what_is_chosen(seed: int) -> None:
    graph, ends = network(seed), ("keep", "free")[seed % 2]
    (there, here), crossing = lines(np.random.default_rng(seed))
    boundary = Boundary(ends, ends)
    found = assign(graph, boundary, target=target([there, here], crossing, True))
    convolutions = [node.outputs[0] for node in graph.nodes if node.op == "Conv"]
    prices = []
    for chosen in product((False, True), repeat=len(convolutions)):
        names = tuple(name for name, taken in zip(convolutions, chosen, strict=True) if taken)
        own = [replace(there, match=Match(name=names))] if names else []
        prices.append(least_of(assign(graph, boundary, target=target([*own, here], crossing, False))))
    assert_least(found, prices)
    if ends == "keep":
        assert_same(graph, apply(found), feeds(graph, seed), rtol=1e-4, atol=1e-5)


def mixed(seed: int) -> Graph:
    """Convolutions, sums, limits and joined channels in planes, of which some are read several times."""
    builder, random = GraphBuilder(seed), np.random.default_rng(seed)
    live, chosen = [builder.input(2, 4, 6, 6)], 0
    while chosen < 4:
        one, other = (live[int(random.integers(max(len(live) - 3, 0), len(live)))] for _ in range(2))
        draw = int(random.integers(6))
        if draw < 3:
            live.append(builder.op("Conv", one, builder.weights(4, 4, 3, 3), shape=(2, 4, 6, 6), pads=[1] * 4))
        elif draw == 3:
            live.append(builder.add(one, other))
        elif draw == 4:
            live.append(builder.relu(one))
        else:
            live.append(builder.op("Softmax", one, shape=(2, 4, 6, 6), axis=int(random.integers(1, 4))))
        chosen += draw < 4
    return builder.graph(live[-1], *([live[-2]] if random.random() < 0.5 else []))


def several(graph: Graph, random: np.random.Generator) -> tuple[list[Line], dict[str, Backend]]:
    """What two or three backends have for each convolution and sum, and what there is without a name."""
    names = ["a", "b", "c"][: int(random.integers(2, 4))]
    backends = {name: Backend(int(random.integers(0, 3))) for name in names}
    found = []
    for node in graph.nodes:
        match = Match(name=(node.outputs[0],))
        named = [name for name in names if random.random() < 0.7]
        if node.op == "Conv":
            forms = [FORM if random.random() < 0.5 else HERE for _ in named]
            pairs = zip([*forms, HERE], [*named, ""], strict=True)
            found += [Line((node.op,), form, int(random.integers(0, 5)), "", match, name) for form, name in pairs]
        elif node.op == "Add":
            policies = ["source" if random.random() < 0.3 else "any" for _ in range(len(named) + 1)]
            pairs = zip(policies, [*named, ""], strict=True)
            found += [Line((node.op,), {}, 0, policy, match, name) for policy, name in pairs]
    return found, backends


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_cheaper_than_what_is_chosen_of_several(seed: int) -> None:
    """All partitions, each with the lines of the backends that its operators run in and solved by itself."""
    graph, ends = mixed(seed), ("keep", "free")[seed % 2]
    lines, backends = several(graph, np.random.default_rng(seed))

    def among(own: list[Line], chooses: bool) -> Target:
        return replace(shipped("onnx"), name="some", table=Table((*own, FOLLOW), backends, chooses))

    boundary = Boundary(ends, ends)
    found = assign(graph, boundary, target=among(lines, True))
    names = [node.outputs[0] for node in graph.nodes if node.op in ("Conv", "Add")]
    prices = []
    for own in product(*([line for line in lines if line.match.name == (name,)] for name in names)):
        prices.append(least_of(assign(graph, boundary, target=among([*own], False))))
    assert_least(found, prices)
    if ends == "keep":
        assert_same(graph, apply(found), feeds(graph, seed), rtol=1e-4, atol=1e-5)


def test_crossings_keep_operators_together() -> None:
    """Where a form is slow elsewhere but crossing is slower, everything stays, until there is enough to gain."""
    for count, backend in ((1, ""), (2, ""), (3, "acl")):
        builder = GraphBuilder()
        x = builder.input(2, 4, 6, 6)
        for _ in range(count):
            x = builder.relu(builder.op("Conv", x, builder.weights(4, 4, 3, 3), shape=(2, 4, 6, 6), pads=[1] * 4))
        here = Line(("Conv",), {"data": "NCHW", "kernel": "OIHW", "out": "NCHW"}, 3)
        own = [Line(("Conv",), {**FORM, "data": "NCHW", "out": "NCHW"}, backend="acl"), here]
        found = assign(builder.graph(x), target=target(own, 4, True))
        numbers = [number for number, each in enumerate(found.problem.operators) if not each.end]
        assert {backend_of(found, number) for number in numbers} == {backend}
        assert found.price.hidden == (8 if backend else 3 * count)


def test_what_cannot_be_chosen() -> None:
    head = 'name = "x"\nextends = "onnx"\nchoose = true\nforms = []\n'
    with pytest.raises(OptionError, match="choose: there are no backends to choose from"):
        parsed(head.encode(), "x.toml")
    with pytest.raises(OptionError, match=r"backends.b.crossing: where backends are chosen, it is at most 10"):
        parsed(f"{head}[backends.a]\ncrossing = 1\n[backends.b]\ncrossing = 11\n".encode(), "x.toml")
    own = [Line(("Conv",), FORM, backend="acl"), Line(("Conv",), policy="any")]
    with pytest.raises(OptionError, match="use another objective than min-nodes"):
        assign(network(0), objective="min-nodes", target=target(own, 1, True))
    dear = replace(target(own, 1, True), hidden={("Transpose", "swap"): 1})
    with pytest.raises(OptionError, match=r"leave out hidden.Transpose.swap"):
        assign(network(0), target=dear)
    follow = [*own, Line(("Add",), policy="follow")]
    with pytest.raises(OptionError, match="reads two tensors, and cannot follow"):
        for seed in range(10):
            assign(network(seed), target=target(follow, 1, True))
