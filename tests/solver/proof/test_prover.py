"""Proofs of bounds: they reach what searching finds, they are never above what brute force finds, and forged ones
prove no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from layoutsolve.solver import OBJECTIVES, Boundary, Goal, assign
from layoutsolve.solver.proof.dual_bound import DualValues
from layoutsolve.solver.proof.prover import prove
from layoutsolve.solver.proof.restatement import restate
from layoutsolve.solver.proof.serialisation import tree_facts, tree_of
from layoutsolve.solver.proof.tree import Branch, Question, Step, Tree, grain
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import Levels, coarse_levels, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.graphs import GraphBuilder
from tests.solver.random_graphs import CONTROL, LAYERS, random_graph
from tests.solver.strategies.test_mincut import random_problem

COMBINATIONS = 2000


def questions(problem: LayoutProblem, tiers: Levels, values: tuple[int, ...]) -> list[Question]:
    return [Question(problem, tiers[: count + 1], values[:count]) for count in range(len(tiers))]


def kinds(tree: Tree | None) -> set[str]:
    """What a proof needs beside the dual values of the relaxation."""
    if isinstance(tree, Branch):
        return {"cases"} | kinds(tree.inside) | kinds(tree.outside)
    return set() if tree is None or tree.rest is None else {"struck"} | kinds(tree.rest)


def disturbed(tree: Tree, seed: int) -> Iterator[Step]:
    """The same dual values but for some that are higher or lower, and the same weights but for one."""
    random = np.random.default_rng(seed)
    for _ in range(4):
        if isinstance(tree, Branch):
            return
        layouts = {
            place: {each: max(0, amount + int(random.integers(-1, 2))) for each, amount in said.items()}
            for place, said in tree.dual_values.layouts.items()
        }
        yield replace(tree, dual_values=replace(tree.dual_values, layouts=layouts))
        yield replace(tree, earlier=tuple(max(0, each + int(random.integers(-1, 2))) for each in tree.earlier))
        yield replace(tree, own=max(0, tree.own + int(random.integers(-1, 2))))


def proven(problem: LayoutProblem, tiers: Levels, counts: Counter[str]) -> list[tuple[Question, int, Tree]]:
    """Prove every tier of the optimum of a problem, and compare with brute force; the questions and their proofs."""
    best = solve(problem, tiers).values
    found = []
    asked = questions(problem, tiers, best)
    for count, (question, (bound, tree)) in enumerate(zip(asked, prove(asked, best, best[0]), strict=True)):
        assert bound <= best[count]
        counts["reached" if bound == best[count] else "short"] += 1
        counts.update(kinds(tree))
        assert question.proves(tree, bound)
        assert not question.proves(tree, best[count] + 1)
        if tree is not None:
            assert question.proves(tree_of(tree_facts(tree)), bound)
            for forged in disturbed(tree, count):
                counts["disturbed"] += 1
                assert not question.proves(forged, best[count] + 1)
            found.append((question, bound, tree))
    sizes = [len(operator.rows) for operator in problem.operators]
    if prod(sizes) <= COMBINATIONS:
        counts["brute force"] += 1
        assert min(ranked(price(problem, rows), tiers) for rows in product(*map(range, sizes))) == best
    return found


@pytest.mark.members(2)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_random_graphs(objective: str) -> None:
    """Every tier of the optimum is proven, over orders and over layouts, the Reshapes among them."""
    goal, counts = Goal(objective), Counter[str]()
    for seed in range(36):
        graph = random_graph(seed, 1 + seed % 9, CONTROL if seed % 2 else LAYERS)
        statement = Statement(graph, goal=goal)
        coarse = coarse_levels(goal.levels)
        if coarse is not None:
            proven(statement.orders(), coarse, counts)
        if seed % 9 < 4:
            proven(statement.layouts(), goal.levels[:-1], counts)
    assert counts["brute force"] >= 12
    assert counts["short"] <= 0.01 * counts["reached"]
    assert counts["disturbed"] >= 60


RELATIONS: Levels = (("transposes",), ("hidden",), ("bytes",))


@pytest.mark.slow
def test_random_relations() -> None:
    """Relations that no operator has, some of which the relaxation leaves a gap for: it is closed."""
    counts = Counter[str]()
    for seed in range(200):
        proven(random_problem(seed), RELATIONS, counts)
    assert counts["short"] == 0
    assert counts["struck"] >= 1
    assert counts["cases"] >= 1


def test_rows_that_are_struck_out() -> None:
    """No row is struck out that an assignment with a lower price has: here any price up to twice the lowest."""
    struck = 0
    for seed in range(100):
        problem = random_problem(seed)
        sizes = [len(operator.rows) for operator in problem.operators]
        for question, bound, tree in proven(problem, RELATIONS, Counter()):
            if isinstance(tree, Branch) or prod(sizes) > COMBINATIONS:
                continue
            left = question.left(tree, 2 * bound, {})
            assert left is not None
            for rows in product(*map(range, sizes)):
                *before, value = ranked(price(problem, rows), question.levels)
                if value < 2 * bound and all(map(int.__le__, before, question.values)):
                    assert all(rows[number] in kept for number, kept in left.items())
            struck += any(len(kept) < sizes[number] for number, kept in left.items())
    assert struck >= 8


def first(kind: str) -> tuple[Question, int, Tree]:
    """A bound whose proof needs something."""
    for seed in range(400):
        for question, bound, tree in proven(random_problem(seed), RELATIONS, Counter()):
            if kind in kinds(tree) and (isinstance(tree, Branch) or kind == "struck"):
                return question, bound, tree
    raise AssertionError("there is none")


def test_forged_cases() -> None:
    """Cases that are left out, or told apart by something else, prove less or nothing."""
    question, bound, tree = first("cases")
    assert isinstance(tree, Branch)
    nothing = Step(1, (0,) * len(question.values), DualValues())
    assert question.proves(tree, bound)
    for forged in (tree.inside, tree.outside, replace(tree, inside=nothing), replace(tree, outside=nothing)):
        assert not question.proves(forged, bound)
    for operator, port in ((-1, 0), (10**6, 0), (tree.operator, -1), (tree.operator, 99)):
        with pytest.raises(ValueError, match="there is no operator"):
            question.proves(replace(tree, operator=operator, port=port), bound)


def test_what_no_row_has() -> None:
    """A case without rows needs no proof, and proves nothing of the other."""
    question, bound, tree = first("cases")
    assert isinstance(tree, Branch)
    nothing = Step(1, (0,) * len(question.values), DualValues())
    assert question.proves(replace(tree, layout=((99,),), inside=nothing, outside=tree), bound)
    assert not question.proves(replace(tree, layout=((99,),), inside=tree, outside=nothing), bound)


def test_forged_steps() -> None:
    """What is left has to be proven; units and weights are not negative, and one for each tier."""
    question, bound, tree = first("struck")
    assert isinstance(tree, Step)
    assert not question.proves(replace(tree, rest=None), bound)
    assert not question.proves(replace(tree, dual_values=DualValues()), bound + 1)
    for forged in (replace(tree, own=-1), replace(tree, earlier=(*tree.earlier, 0))):
        with pytest.raises(ValueError, match="one weight per objective level"):
            question.proves(forged, bound)
    later, bound, proof = next(
        (question, bound, tree)
        for seed in range(50)
        for question, bound, tree in proven(random_problem(seed), RELATIONS, Counter())
        if question.values and isinstance(tree, Step)
    )
    with pytest.raises(ValueError, match="one weight per objective level"):
        later.proves(replace(proof, earlier=(-1, *proof.earlier[1:])), bound)


def test_what_tiers_are_multiples_of() -> None:
    """Bytes come in those of whole variables; whatever is chosen, the price is a multiple."""
    random = np.random.default_rng(0)
    for seed in range(20):
        problem = Statement(random_graph(seed, 5)).orders()
        rows = [int(random.integers(0, len(operator.rows))) for operator in problem.operators]
        for tier in (("bytes",), ("transposes",), ("transposes", "hidden")):
            assert ranked(price(problem, rows), (tier,))[0] % grain(problem, tier) == 0
    assert grain(Statement(random_graph(1, 5)).orders(), ("bytes",)) >= 4


def test_a_price_that_is_not_the_lowest() -> None:
    """What is said to be a bound is only as far as it can be proven."""
    problem = Statement(random_graph(3, 6)).orders()
    tiers: Levels = (("transposes", "hidden"),)
    best = solve(problem, tiers).values
    ((bound, _),) = prove(questions(problem, tiers, (best[0] + 2,)), (best[0] + 2,), best[0] + 2)
    assert bound == best[0]


@pytest.mark.members(2)
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose", "min-bytes"])
def test_answers(objective: str) -> None:
    """What the solver calls optimal is proven in every tier, the Reshapes of the chosen orders among them."""
    reshapes = 0
    for seed in range(12):
        graph = random_graph(seed, 3 + seed % 9, CONTROL if seed % 2 else LAYERS)
        found = assign(graph, objective=objective)
        layouts = [found.row(number).layouts for number in range(len(found.rows))]
        stated = restate(graph, Boundary(), found.goal, layouts, found.charged)
        values = ranked(found.price, stated.claimed)
        bounds = [bound for bound, _ in prove(stated.questions(found.price), values, found.bound)]
        assert found.status == "optimal"
        assert tuple(bounds) == values
        reshapes += values[-1]
    assert reshapes > 0


@pytest.mark.parametrize("objective", ["min-transpose", "min-bytes"])
def test_reshapes_where_every_row_loses(objective: str) -> None:
    """A softmax that is slow in any order that is wanted: it may have any grouping of it that others read."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 6, 5, 4), 4, 1)
    rows = b.op("ReduceMean", x, b.constant([0, 3], "int64"), shape=(6, 5), keepdims=0)
    channels = b.op("ReduceMean", x, b.constant([0, 1, 2], "int64"), shape=(4,), keepdims=0)
    slow = b.op("Softmax", x, shape=(1, 6, 5, 4), axis=1)
    found = assign(b.graph(rows, channels, slow), objective=objective)
    assert (found.status, found.price.transposes, found.price.hidden, found.price.reshapes) == ("optimal", 0, 3, 1)
