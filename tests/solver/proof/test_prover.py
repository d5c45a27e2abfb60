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

from layoutsolve.solver import OBJECTIVES, Goal
from layoutsolve.solver.proof.prover import prove
from layoutsolve.solver.proof.text import tree_facts, tree_of
from layoutsolve.solver.proof.tree import Branch, Leaf, Question, Tree, grain
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.bound import Offers
from layoutsolve.solver.statement.objective import Tiers, coarse_tiers, ranked
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.solver.random_graphs import CONTROL, LAYERS, random_graph
from tests.solver.strategies.test_mincut import random_problem

COMBINATIONS = 2000


def questions(problem: LayoutProblem, tiers: Tiers, values: tuple[int, ...]) -> list[Question]:
    return [Question(problem, tiers[: count + 1], values[:count]) for count in range(len(tiers))]


def leaves(tree: Tree | None) -> int:
    """How many cases a proof has."""
    if isinstance(tree, Branch):
        return leaves(tree.inside) + leaves(tree.outside)
    return int(tree is not None)


def disturbed(tree: Tree, seed: int) -> Iterator[Leaf]:
    """The same offers but for some that are higher or lower, and the same weights but for one."""
    random = np.random.default_rng(seed)
    for _ in range(4):
        if isinstance(tree, Branch):
            return
        layouts = {
            place: {each: max(0, amount + int(random.integers(-1, 2))) for each, amount in said.items()}
            for place, said in tree.offers.layouts.items()
        }
        yield replace(tree, offers=replace(tree.offers, layouts=layouts))
        yield replace(tree, earlier=tuple(max(0, each + int(random.integers(-1, 2))) for each in tree.earlier))


def proven(problem: LayoutProblem, tiers: Tiers, counts: Counter[str]) -> list[tuple[Question, Tree]]:
    """Prove every tier of the optimum of a problem, and compare with brute force; the questions and their proofs."""
    best = solve(problem, tiers).values
    found = []
    asked = questions(problem, tiers, best)
    for count, (question, (bound, tree)) in enumerate(zip(asked, prove(asked, best, best[0]), strict=True)):
        assert bound <= best[count]
        counts["reached" if bound == best[count] else "short"] += 1
        counts["in cases"] += leaves(tree) > 1
        if tree is not None:
            assert question.answer(tree) == bound
            assert question.answer(tree_of(tree_facts(tree))) == bound
            for forged in disturbed(tree, count):
                counts["disturbed"] += 1
                proves = question.answer(forged)
                assert proves is not None
                assert proves <= best[count]
            found.append((question, tree))
    sizes = [len(operator.rows) for operator in problem.operators]
    if prod(sizes) <= COMBINATIONS:
        counts["brute force"] += 1
        assert min(ranked(price(problem, rows), tiers) for rows in product(*map(range, sizes))) == best
    return found


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_random_graphs(objective: str) -> None:
    """Every tier of the optimum is proven, over orders and over layouts, the Reshapes among them."""
    goal, counts = Goal(objective), Counter[str]()
    for seed in range(60):
        graph = random_graph(seed, 1 + seed % 9, CONTROL if seed % 2 else LAYERS)
        statement = Statement(graph, goal=goal)
        coarse = coarse_tiers(goal.tiers)
        if coarse is not None:
            proven(statement.orders(), coarse, counts)
        if seed % 9 < 4:
            proven(statement.layouts(), goal.tiers[:-1], counts)
    assert counts["brute force"] >= 20
    assert counts["short"] <= 0.01 * counts["reached"]
    assert counts["disturbed"] >= 100


def test_random_relations() -> None:
    """Relations that no operator has, some of which the relaxation leaves a gap for: cases close it."""
    counts = Counter[str]()
    for seed in range(400):
        proven(random_problem(seed), (("transposes",), ("hidden",), ("bytes",)), counts)
    assert counts["short"] == 0
    assert counts["in cases"] >= 3


def in_cases() -> tuple[Question, Branch]:
    """A bound that takes cases to prove."""
    for seed in range(400):
        for question, tree in proven(random_problem(seed), (("transposes",), ("hidden",), ("bytes",)), Counter()):
            if isinstance(tree, Branch):
                return question, tree
    raise AssertionError("there is none")


def test_forged_cases() -> None:
    """Cases that are left out, or told apart by something else, prove less or nothing."""
    question, tree = in_cases()
    bound = question.answer(tree)
    assert bound is not None
    for forged in (tree.inside, tree.outside, replace(tree, inside=Leaf(1, (0,) * len(question.values), Offers()))):
        proves = question.answer(forged)
        assert proves is not None
        assert proves < bound
    for operator, port in ((-1, 0), (10**6, 0), (tree.operator, -1), (tree.operator, 99)):
        with pytest.raises(ValueError, match="there is no operator"):
            question.answer(replace(tree, operator=operator, port=port))


def test_what_no_row_has() -> None:
    """A case without rows needs no proof, and does not raise the bound of the other."""
    question, tree = in_cases()
    nothing = replace(tree, layout=((99,),), inside=tree, outside=tree)
    assert question.answer(nothing) == question.answer(tree)


def test_units() -> None:
    """A bound in parts of a unit is rounded up to what a tier can be; units and weights are not negative."""
    question, tree = in_cases()
    leaf = tree.inside
    while isinstance(leaf, Branch):
        leaf = leaf.inside
    for forged in (replace(leaf, unit=0), replace(leaf, unit=-1), replace(leaf, earlier=(*leaf.earlier, 0))):
        with pytest.raises(ValueError, match="count by so much"):
            question.answer(forged)
    if leaf.earlier:
        with pytest.raises(ValueError, match="count by so much"):
            question.answer(replace(leaf, earlier=(-1, *leaf.earlier[1:])))


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
    tiers: Tiers = (("transposes", "hidden"),)
    best = solve(problem, tiers).values
    ((bound, _),) = prove(questions(problem, tiers, (best[0] + 2,)), (best[0] + 2,), best[0] + 2)
    assert bound == best[0]
