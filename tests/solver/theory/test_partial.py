"""Dimensions that a neighbour factors in another way than an operator: it keeps the forms that do not need them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod

import numpy as np
import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.assign import assign
from layoutsolve.solver.theory import atoms
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.offer import rule_of
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.rule import Rule, Site
from tests.graphs import GraphBuilder, feeds, run
from tests.solver.cases import result
from tests.solver.theory.test_rules import check, random_ends, samples

SEEDS = range(24)
SPLITS = {6: ((2, 3), (3, 2)), 12: ((3, 4), (4, 3), (2, 6), (6, 2))}


def entangled(operator: str, seed: int) -> tuple[Graph, np.random.Generator]:
    """An operator whose dimensions are products, over a tensor whose dimensions are products in a random other way."""
    random = np.random.default_rng(seed)
    builder = GraphBuilder(seed)
    shape = [4, *(int(size) for size in random.choice([6, 12], 3))]
    if operator == "DepthToSpace":
        shape[3] = 12
    factored: list[int] = []
    for size in shape:
        options = SPLITS.get(size, ((2, 2),))
        factored += options[int(random.integers(len(options)))] if random.random() < 0.7 else [size]
    perm = [int(axis) for axis in random.permutation(len(factored))]
    given = builder.input(*(factored[axis] for axis in perm))
    x = builder.reshape(builder.transpose(given, *(perm.index(axis) for axis in range(len(perm)))), *shape)
    n, h, w, c = shape
    if operator == "Conv":
        y = builder.conv(x, 6, group=int(random.choice([2, 3])))
    elif operator == "SpaceToDepth":
        y = builder.channels_last(operator, x, shape=(n, h // 2, w // 2, c * 4), blocksize=2)
    else:
        y = builder.channels_last(operator, x, shape=(n, h * 2, w * 2, c // 4), blocksize=2)
    return builder.graph(result(builder, random, y)), random


def rule_in(graph: Graph, operator: str) -> Rule:
    (number,) = [number for number, node in enumerate(graph.nodes) if node.op == operator]
    return Atoms(graph).rule(number)


OPERATORS = ("Conv", "DepthToSpace", "SpaceToDepth")


@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_of_what_is_left(operator: str) -> None:
    """They compute what the operator computes, and channels that are in no such dimension may still be torn."""
    left = 0
    for seed in SEEDS:
        graph, random = entangled(operator, seed)
        rule = rule_in(graph, operator)
        renamed = {label for port in rule.dims for labels in port for label in labels if "." in label}
        (node,) = [node for node in graph.nodes if node.op == operator]
        before = rule_of(Site(graph, node))
        labels = {label for port in rule.dims for each in port for label in each}
        assert rule.solid >= renamed | (before.solid & labels)
        if renamed:
            left += 1
            boundary, permutations = random_ends(graph, random)
            data = feeds(graph, seed)
            for assignment in samples(Statement(graph, boundary), random):
                check(graph, assignment, permutations, data, run(graph, data))
    assert 3 <= left < len(SEEDS)


@pytest.mark.parametrize("operator", ["DepthToSpace", "SpaceToDepth"])
def test_forms_that_tear_a_dimension_are_not_available(operator: str) -> None:
    """Between stored dimensions the operator runs in any case; where nothing fails it may vanish as well."""
    torn, kept = 0, 0
    for seed in SEEDS:
        graph, _ = entangled(operator, seed)
        rule = rule_in(graph, operator)
        fails = any("." in label for port in rule.dims for labels in port for label in labels)
        assert any(isinstance(form, Placed) and form.free for form in rule.forms)
        assert any(isinstance(form, Arranged) for form in rule.forms) is not fails
        torn, kept = torn + fails, kept + (not fails)
    assert torn and kept


def transposes(graph: Graph, boundary: Boundary, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The fewest Transposes, as they are and where an operator would be opaque."""
    found = assign(graph, boundary, objective="min-transpose").price.transposes
    with monkeypatch.context() as patched:
        patched.setattr(atoms, "partial", lambda *_: None)
        return found, assign(graph, boundary, objective="min-transpose").price.transposes


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("operator", OPERATORS)
def test_never_worse_than_opaque(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        graph, random = entangled(operator, seed)
        found, opaque = transposes(graph, random_ends(graph, random)[0], monkeypatch)
        assert found <= opaque


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_links_moves_through(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors of a batch change places before and after an operator that is entangled in other dimensions."""
    builder = GraphBuilder()
    shallow, deep = ((2, 3), (4,), (2, 3), (4,)), ((2, 3), (16,), (3,), (2,))
    before, after = {
        "Conv": (((2, 3), (2, 3), (5,), (5,)), ((2, 3), (6,), (5,), (5,))),
        "DepthToSpace": (deep, shallow),
        "SpaceToDepth": (shallow, deep),
    }[operator]

    def swapped(sizes: Sequence[tuple[int, ...]]) -> list[int]:
        (one, other), *rest = sizes
        return [other, one, *chain.from_iterable(rest)]

    given = builder.input(*swapped(before))
    turn = [1, 0, *range(2, len(builder.shape(given)))]
    x = builder.reshape(builder.transpose(given, *turn), *map(prod, before))
    if operator == "Conv":
        y = builder.op("Conv", x, builder.weights(6, 2, 1, 1), shape=(6, 6, 5, 5), group=3)
    else:
        y = builder.op(operator, x, shape=tuple(map(prod, after)), blocksize=2)
    apart = builder.reshape(y, *chain.from_iterable(after))
    graph = builder.graph(builder.transpose(apart, 1, 0, *range(2, len(builder.shape(apart)))))
    assert transposes(graph, Boundary(), monkeypatch) == (0, 2)
