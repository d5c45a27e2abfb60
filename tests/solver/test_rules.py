"""Every row of every rule: the rewritten operator on rearranged inputs computes the original, rearranged."""

from __future__ import annotations

import string

import numpy as np
import pytest

from layoutsolve.emit import apply
from layoutsolve.graph import Array, Graph
from layoutsolve.solver.boundary import Boundary
from layoutsolve.solver.price import price
from layoutsolve.solver.problem import Assignment, Goal, LayoutProblem
from layoutsolve.solver.rule import RULES
from layoutsolve.solver.state import Statement
from tests.graphs import feeds, run
from tests.solver.cases import CASES, Random, graph_of

SEEDS = range(12)
ROWS = 12
Permutations = dict[str, tuple[int, ...]]


def test_every_rule_has_a_case() -> None:
    assert set(RULES) == set(CASES)


def random_ends(graph: Graph, random: Random) -> tuple[Boundary, Permutations]:
    """A random explicit layout for every input and output."""
    layouts, permutations = {}, {}
    for name in dict.fromkeys((*graph.inputs, *graph.outputs)):
        rank = len(graph.values[name].shape)
        if rank:
            permutation = tuple(int(axis) for axis in random.permutation(rank))
            letters = string.ascii_uppercase[:rank]
            layouts[name] = (letters, "".join(letters[axis] for axis in permutation))
            permutations[name] = permutation
    return Boundary(layouts=layouts), permutations


def samples(problem: LayoutProblem, random: Random) -> list[Assignment]:
    """Assignments that between them choose every row of the operators, up to a number."""
    count = max(len(operator.rows) for operator in problem.operators)
    chosen = range(count) if count <= ROWS else sorted(random.choice(count, ROWS, replace=False).tolist())
    found = []
    for number in chosen:
        rows = tuple(number % len(operator.rows) for operator in problem.operators)
        found.append(Assignment(problem, rows, price(problem, rows), Goal(), "test", "feasible", 0))
    return found


def check(
    graph: Graph, assignment: Assignment, permutations: Permutations, data: list[Array], truth: list[Array]
) -> None:
    """The file has the Transposes and Reshapes of the price, and computes what the reference graph computes."""
    applied = apply(graph, assignment)
    operators = [node.op for node in applied.nodes]
    assert operators.count("Transpose") == assignment.price.transposes
    assert operators.count("Reshape") == assignment.price.reshapes
    stored = [
        array.transpose(permutations.get(name, range(array.ndim)))
        for name, array in zip(graph.inputs, data, strict=True)
    ]
    for name, expected, found in zip(graph.outputs, truth, run(applied, stored), strict=True):
        wanted = expected.transpose(permutations.get(name, range(expected.ndim)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(applied))


@pytest.mark.parametrize(("operator", "contrib"), [*((name, False) for name in sorted(CASES)), ("MatMul", True)])
def test_rows(operator: str, contrib: bool) -> None:
    for seed in SEEDS:
        graph, random = graph_of(operator, seed)
        boundary, permutations = random_ends(graph, random)
        data = feeds(graph, seed)
        truth = run(graph, data)
        for assignment in samples(Statement(graph, boundary, Goal(contrib=contrib)).layouts(), random):
            check(graph, assignment, permutations, data, truth)
