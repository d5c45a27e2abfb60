"""Stops that nobody demands pay only where they are tied to what somebody does."""

from __future__ import annotations

import pytest

from layoutsolve.solver.search.search import solve
from layoutsolve.solver.search.tied import tied
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_tiers
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.graphs import GraphBuilder
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.turned_graphs import turned_graph

FAMILIES = (mixed_graph, broadcast_graph, turned_graph)


def charged(statement: Statement) -> tuple[LayoutProblem, LayoutProblem]:
    """The problem without stops, and the one that has all orders of whatever moves, at full price."""
    plain = statement.orders()
    return plain, statement.orders(charged=plain.moving()).charging(None)


def count(problem: LayoutProblem) -> int:
    return sum(len(operator.rows) for operator in problem.operators)


@pytest.mark.parametrize("objective", ["min-transpose", "min-bytes"])
def test_the_least_price_is_kept(objective: str) -> None:
    """Mostly few stops are left."""
    tiers = coarse_tiers(OBJECTIVES[objective]) or ()
    struck = 0
    for seed in range(90):
        plain, every = charged(Statement(FAMILIES[seed % 3](seed // 3), goal=Goal(objective)))
        left = tied(every, plain)
        assert (seed, solve(left, tiers).values) == (seed, solve(every, tiers).values)
        struck += count(left) - count(plain) < (count(every) - count(plain)) / 2
    assert struck > 30


def test_an_order_that_a_result_shows_is_tied() -> None:
    """A reduction may read its input in any order that has its result's, which may be quicker to move to."""
    b = GraphBuilder()
    x = b.input(2, 3, 4, 5)
    y = b.op("ReduceMax", x, b.constant([0], "int64"), shape=(3, 4, 5), keepdims=0)
    b.transpose(y, 2, 0, 1)
    plain, every = charged(Statement(b.graph(b.nodes[-1].outputs[0]), goal=Goal("min-transpose")))
    reduction = next(place for place, each in enumerate(plain.operators) if each.node == 0)
    tiers = coarse_tiers(OBJECTIVES["min-transpose"]) or ()
    assert solve(plain, tiers).values > solve(tied(every, plain), tiers).values == solve(every, tiers).values
    left = tied(every, plain).operators[reduction]
    assert {row.layouts[1] for row in left.rows} == {row.layouts[1] for row in plain.operators[reduction].rows}
    assert len(plain.operators[reduction].rows) < len(left.rows) < len(every.operators[reduction].rows)
