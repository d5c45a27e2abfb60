"""Forms that only some targets have: offered and chosen there, absent elsewhere, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Graph, Shape
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import CONTRIB_TARGET, DEFAULT_TARGET, default_target, shipped
from layoutsolve.solver.theory.offer import FORMS, FormFunction, Offer, form, rule_of
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import RULES, Dims, Rule, Site, Step, Way
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import CASES, Random, graph_of
from tests.solver.theory.test_rules import check, random_ends, samples

DOMAIN = "made.up"


def last(dims: Dims) -> Dims:
    """Dimensions of an image or a kernel with the second one, its channels, behind all others."""
    return (dims[0], *dims[2:], dims[1]) if len(dims) > 2 else dims


def channels_last(site: Site, rule: Rule) -> Iterator[Way]:
    """A convolution of images [n, h, w, c] and kernels [o, h, w, c]."""
    if site.attribute("group", 1) == 1 and site.constant(1) is not None:

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            (step,) = site.same()
            return (replace(step, op="LastConv", domain=DOMAIN),)

        yield Way(Placed(tuple(map(last, rule.dims)), free=frozenset("nco")), rewrite, "channels-last")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target that has the form, registered for the duration of a test."""
    before = dict(FORMS)
    monkeypatch.setattr("layoutsolve.solver.theory.offer.FORMS", before)
    form("Conv", DOMAIN, writes="")(channels_last)
    return replace(default_target(), name=DOMAIN)


def blocked(size: int) -> FormFunction:
    """Pooling of images [n, C, h, w, c] whose channels are blocks of c of that size: a pooling of volumes, in ONNX."""

    def blocked_channels(site: Site, rule: Rule) -> Iterator[Way]:
        channels = site.required(0).shape[1]
        if not isinstance(channels, int) or channels % size:
            return

        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({name: (*site.attribute(name), 1) for name in ("kernel_shape", "strides")})

        places = tuple((("n",), ("C",), *dims[2:], ("B",)) for dims in rule.dims)
        factors = {"c": {"C": channels // size, "B": size}}
        yield Way(Placed(places, free=frozenset("nC")), rewrite, "blocked", factors=factors)

    return blocked_channels


@pytest.fixture(params=[2, 3])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Target, int]:
    """A target that pools in blocks of channels, and their size."""
    monkeypatch.setattr("layoutsolve.solver.theory.offer.FORMS", dict(FORMS))
    form("MaxPool", DOMAIN, writes="")(blocked(request.param))
    return replace(default_target(), name=DOMAIN), request.param


def pooled(seed: int) -> tuple[Graph, Random]:
    """A pooling of channels that the tensor before it, or the one after it, has as a product."""
    random, builder = np.random.default_rng(seed), GraphBuilder(seed)
    n, h, w, c = 2, 4, 4, int(random.choice([6, 12]))
    before, after = ([(2, c // 2), (3, c // 3), (c // 2, 2), (c // 3, 3)][at] for at in random.integers(0, 4, 2))
    order = [int(axis) for axis in random.permutation(5)]
    given = builder.input(*([n, h, w, *before][axis] for axis in order))
    x = builder.reshape(builder.transpose(given, *(order.index(axis) for axis in range(5))), n, h, w, c)
    y = builder.channels_last("MaxPool", x, shape=(n, 2, 2, c), kernel_shape=(2, 2), strides=(2, 2))
    return builder.graph(builder.reshape(y, n, 2, 2, *after) if random.random() < 0.5 else y), random


@pytest.mark.slow
def test_a_way_with_factors_of_its_own(blocks: tuple[Target, int]) -> None:
    """Where its factors cannot be linked it is not available, and the others are what they are without it."""
    counts = {True: 0, False: 0}
    for seed in range(24):
        graph, random = pooled(seed)
        boundary, permutations = random_ends(graph, random)
        statement = Statement(graph, boundary, Goal(target=blocks[0]))
        (kinds,) = {
            tuple(str(way.kind) for way in rule.ways)
            for number, rule in statement.rules.items()
            if graph.nodes[number].op == "MaxPool"
        }
        assert {"channels-first, float32"} <= {*kinds} <= {"channels-first, float32", "blocked"}
        counts["blocked" in kinds] += 1
        data = feeds(graph, seed)
        truth = run(graph, data)
        for assignment in samples(statement, random):
            check(graph, assignment, permutations, data, truth)
        found = [solved(graph, target, boundary).price.transposes for target in (blocks[0], default_target())]
        assert found[0] <= found[1]
    assert counts[True] >= 3 and counts[False] >= 3


def test_blocks_are_chosen(blocks: tuple[Target, int]) -> None:
    """What is stored in blocks is pooled in blocks, with nothing moved."""
    builder, size = GraphBuilder(), blocks[1]
    given = builder.input(2, 12 // size, 4, 4, size)
    x = builder.reshape(builder.transpose(given, 0, 1, 4, 2, 3), 2, 12, 4, 4)
    y = builder.op("MaxPool", x, shape=(2, 12, 2, 2), kernel_shape=(2, 2), strides=(2, 2))
    apart = builder.reshape(y, 2, 12 // size, size, 2, 2)
    graph = builder.graph(builder.transpose(apart, 0, 1, 3, 4, 2))
    found = solved(graph, blocks[0])
    assert found.price == Price()
    (node,) = apply(found).nodes
    assert node.attributes["kernel_shape"] == (2, 2, 1)
    assert solved(graph, default_target()).price.transposes == 2
    data = feeds(graph)
    check(graph, found, {}, data, run(graph, data))


def solved(graph: Graph, target: Target, boundary: Boundary | None = None) -> Assignment:
    goal = Goal("min-transpose", target)
    statement = Statement(graph, boundary, goal)
    problem = statement.layouts()
    rows = tuple(solve(problem, goal.levels, unlimited()).rows)
    return Assignment(graph, statement.rules, problem, rows, price(problem, rows), goal, "test")


def network() -> Graph:
    """Two convolutions one after the other: where they want channels first, both ends are moved."""
    builder = GraphBuilder()
    x = builder.conv(builder.input(2, 4, 5, 6), 7, kernel=3)
    return builder.graph(builder.conv(builder.relu(x), 3, kernel=3))


def test_offered_and_chosen_by_its_target(made_up: Target) -> None:
    found = solved(network(), made_up)
    applied = apply(found)
    assert [(node.domain, node.op) for node in applied.nodes if "Conv" in node.op] == [(DOMAIN, "LastConv")] * 2
    assert found.price.transposes == 0
    kernels = [applied.values[node.inputs[1]].shape for node in applied.nodes if node.op == "LastConv"]
    assert kernels == [(7, 3, 3, 6), (3, 3, 3, 7)]


def test_absent_for_the_default_target(made_up: Target) -> None:
    found = solved(network(), default_target())
    assert [node.op for node in apply(found).nodes if "Conv" in node.op] == ["Conv", "Conv"]
    assert found.price.transposes == 2


@pytest.mark.parametrize("operator", sorted(CASES))
def test_all_other_ways_are_unchanged(operator: str, made_up: Target) -> None:
    """Whatever a target has beside them, the ways of all rules are the same ones, in the same order."""
    for seed in range(6):
        graph, _ = graph_of(operator, seed)
        for node in graph.nodes:
            site = Site(graph, node)
            plain, more = rule_of(site), rule_of(site, Offer(frozenset({DOMAIN})))
            own = more.ways[len(plain.ways) :]
            kept = more.ways[: len(plain.ways)]
            assert [(way.form, way.kind) for way in kept] == [(way.form, way.kind) for way in plain.ways]
            assert (plain.dims, plain.inputs, plain.solid) == (more.dims, more.inputs, more.solid)
            assert [way.kind for way in own] in ([], ["channels-last"])
            assert not own or node.op == "Conv"


def test_what_a_target_refuses_is_not_offered(made_up: Target) -> None:
    refusing = replace(made_up, kernels={**made_up.kernels, ("Conv", "channels-last"): False})
    found = solved(network(), refusing)
    assert "LastConv" not in [node.op for node in apply(found).nodes]
    first = ["channels-first", *(each.name for each in made_up.classes["Conv"] if each.of == "channels-first")]
    only = replace(made_up, kernels={**made_up.kernels, **{("Conv", kind): False for kind in first}})
    (ways,) = {
        tuple(str(way.kind) for way in rule.ways)
        for number, rule in Statement(network(), goal=Goal(target=only)).rules.items()
        if network().nodes[number].op == "Conv"
    }
    assert ways == ("channels-last",)


def test_nothing_left_is_an_error() -> None:
    """An operator all of whose ways are refused cannot be written for the target."""
    refused = default_target().kernels | {("MaxPool", "channels-first"): False}
    builder = GraphBuilder()
    y = builder.op("MaxPool", builder.input(2, 3, 4, 4), shape=(2, 3, 2, 2), kernel_shape=(2, 2), strides=(2, 2))
    graph = builder.graph(y)
    with pytest.raises(OptionError, match="refuses every alternative of MaxPool of MaxPool: choose another target"):
        rule_of(Site(graph, graph.nodes[0]), Offer(runs=replace(default_target(), kernels=refused).runs))


@pytest.mark.parametrize("target", [DEFAULT_TARGET, CONTRIB_TARGET])
def test_fused_products_need_their_domain(target: str) -> None:
    builder = GraphBuilder()
    left, right = builder.input(4, 5, 6), builder.input(4, 6, 7)
    graph = builder.graph(builder.op("MatMul", left, right, shape=(4, 5, 7)))
    (rule,) = Statement(graph, goal=Goal(target=shipped(target))).rules.values()
    assert any(str(way.kind).startswith("fused ") for way in rule.ways) is (target == CONTRIB_TARGET)


def test_forms_are_of_operators_with_rules() -> None:
    assert FORMS and {operator for _, operator in FORMS} <= set(RULES)


def test_a_function_for_two_names_counts_once() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 4, 4, 2), 3, kernel=3))
    (node,) = [node for node in graph.nodes if node.op == "Conv"]
    before = dict(FORMS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("layoutsolve.solver.theory.offer.FORMS", dict(FORMS))
        form("Conv", "one", "other", writes="")(channels_last)
        rule = rule_of(Site(graph, node), Offer(frozenset({"one", "other"})))
    assert [str(way.kind) for way in rule.ways].count("channels-last") == 1
    assert before == FORMS
