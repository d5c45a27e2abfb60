"""Forms that only some targets have: offered and chosen there, absent elsewhere, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from layoutsolve.emit import apply
from layoutsolve.graph import Graph, Shape
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.statement.target import Target, default_target
from layoutsolve.solver.theory.offer import FORMS, Offer, form, rule_of
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import RULES, Dims, Rule, Site, Step, Way
from tests.graphs import GraphBuilder
from tests.solver.cases import CASES, graph_of

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
    form("Conv", DOMAIN)(channels_last)
    return replace(default_target(), name=DOMAIN)


def solved(graph: Graph, target: Target) -> Assignment:
    goal = Goal("min-transpose")
    problem = Statement(graph, goal=goal, target=target).layouts()
    rows = tuple(solve(problem, goal.tiers, unlimited()).rows)
    return Assignment(problem, rows, price(problem, rows), goal, "test", "optimal", 0)


def network() -> Graph:
    """Two convolutions one after the other: where they want channels first, both ends are moved."""
    builder = GraphBuilder()
    x = builder.conv(builder.input(2, 4, 5, 6), 7, kernel=3)
    return builder.graph(builder.conv(builder.relu(x), 3, kernel=3))


def test_offered_and_chosen_by_its_target(made_up: Target) -> None:
    found = solved(network(), made_up)
    applied = apply(network(), found)
    assert [(node.domain, node.op) for node in applied.nodes if "Conv" in node.op] == [(DOMAIN, "LastConv")] * 2
    assert found.price.transposes == 0
    kernels = [applied.values[node.inputs[1]].shape for node in applied.nodes if node.op == "LastConv"]
    assert kernels == [(7, 3, 3, 6), (3, 3, 3, 7)]


def test_absent_for_the_default_target(made_up: Target) -> None:
    found = solved(network(), default_target())
    assert [node.op for node in apply(network(), found).nodes if "Conv" in node.op] == ["Conv", "Conv"]
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
    assert "LastConv" not in [node.op for node in apply(network(), found).nodes]
    only = replace(made_up, kernels={**made_up.kernels, ("Conv", "channels-first"): False})
    (ways,) = {
        tuple(str(way.kind) for way in operator.meaning.ways)
        for operator in Statement(network(), target=only).layouts().operators
        if operator.meaning is not None and "Conv" in operator.title
    }
    assert ways == ("channels-last",)


def test_nothing_left_is_opaque() -> None:
    """An operator all of whose ways are refused stays as it is."""
    refused = default_target().kernels | {("MaxPool", "channels-first"): False}
    builder = GraphBuilder()
    y = builder.op("MaxPool", builder.input(2, 3, 4, 4), shape=(2, 3, 2, 2), kernel_shape=(2, 2), strides=(2, 2))
    graph = builder.graph(y)
    rule = rule_of(Site(graph, graph.nodes[0]), Offer(runs=replace(default_target(), kernels=refused).runs))
    assert rule.solid == {label for port in rule.dims for labels in port for label in labels}
    assert len(rule.ways) == 1


@pytest.mark.parametrize("contrib", [False, True])
def test_fused_products_need_their_domain(contrib: bool) -> None:
    builder = GraphBuilder()
    left, right = builder.input(4, 5, 6), builder.input(4, 6, 7)
    graph = builder.graph(builder.op("MatMul", left, right, shape=(4, 5, 7)))
    statement = Statement(graph, goal=Goal(contrib=contrib))
    (operator,) = [each for each in statement.layouts().operators if each.meaning is not None]
    assert any(str(way.kind).startswith("fused ") for way in operator.meaning.ways) is contrib


def test_forms_are_of_operators_with_rules() -> None:
    assert FORMS and {operator for _, operator in FORMS} <= set(RULES)


def test_a_function_for_two_names_counts_once() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 4, 4, 2), 3, kernel=3))
    (node,) = [node for node in graph.nodes if node.op == "Conv"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("layoutsolve.solver.theory.offer.FORMS", dict(FORMS))
        form("Conv", "one", "other")(channels_last)
        rule = rule_of(Site(graph, node), Offer(frozenset({"one", "other"})))
    assert [str(way.kind) for way in rule.ways].count("channels-last") == 1
    assert all(operator != "Conv" for _, operator in FORMS)
