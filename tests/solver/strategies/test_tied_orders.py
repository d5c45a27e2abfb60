"""Where Reshapes are left, other orders that cost as little are tried, and dimensions of size 1 are put elsewhere."""

from __future__ import annotations

import pytest

from layoutsolve.solver import assign
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_tiers
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.orders import cheapest_orders
from layoutsolve.solver.strategies.tied_orders import with_tied_orders
from tests.graphs import GraphBuilder
from tests.solver.mixed_graphs import mixed_graph

COARSE = coarse_tiers(OBJECTIVES["min-executed"]) or ()


def test_reshapes_get_fewer_and_nothing_else_more() -> None:
    fewer = 0
    for seed in range(60):
        statement = Statement(mixed_graph(seed), goal=Goal("min-executed"))
        orders = cheapest_orders(statement, COARSE, unlimited())
        tiers = statement.goal.tiers
        before = solve(statement.layouts([[row] for row in orders.chosen]), tiers)
        after = with_tied_orders(statement, orders, COARSE, before, unlimited())
        count = len(COARSE)
        assert after.values[:count] == before.values[:count] == orders.values, seed
        assert after.values[count] <= before.values[count], seed
        fewer += after.values[count] < before.values[count]
    assert fewer > 1


def reductions(axis: int, *operators: str) -> GraphBuilder:
    """Reductions of one tensor along an axis, each stored with two more dimensions in front."""
    b = GraphBuilder()
    x = b.input(3, 4, 5)
    left = tuple(size for each, size in enumerate((3, 4, 5)) if each != axis)
    for op in operators:
        b.reshape(b.op(op, x, b.constant([axis], "int64"), shape=left, keepdims=0), 1, 1, *left)
    return b


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_one_reshape_before_several_reductions(axis: int, count: int) -> None:
    """Dimensions of size 1 that all results have are put in front of what is reduced, by one Reshape."""
    b = reductions(axis, *("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd")[:count])
    found = assign(b.graph(*[node.outputs[0] for node in b.nodes if node.op == "Reshape"]))
    assert (found.price.transposes, found.price.reshapes) == (0, 1)
