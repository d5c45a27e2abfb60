"""Stops: which orders are enough, and what charging a variable does to a problem."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from layoutsolve.solver import assign
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.block_orders import BLOCKS, blocks, every_order
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_levels
from layoutsolve.solver.statement.statement import CANDIDATES, Statement
from layoutsolve.solver.theory.layout import finest
from layoutsolve.solver.theory.motion import motion_between
from tests.graphs import GraphBuilder
from tests.solver.mixed_graphs import mixed_graph

OBJECTIVE = "min-executed"


def test_blocks_are_what_no_order_parts() -> None:
    assert blocks([]) == []
    assert blocks([((0,), (1, 2))]) == [(0, 1, 2)]
    assert blocks([((0,), (1,), (2,)), ((1,), (2,), (0,))]) == [(0,), (1, 2)]
    assert blocks([((0,), (1,), (2,)), ((2,), (1,), (0,))]) == [(0,), (1,), (2,)]


def test_orders_of_blocks_are_as_good_as_all() -> None:
    """Whatever order is between some others, one in which blocks are whole has no dearer motion to any of them."""
    atoms = [finest((each,)) for each in permutations(range(4))]
    parted = 0
    for first, second in product(atoms[:1], atoms):
        demanded = [first, second]
        enough = every_order(demanded) or []
        for between in atoms:
            if between in enough:
                continue
            parted += 1
            assert any(
                all(no_dearer(motion_between(each, stop), motion_between(each, between)) for each in demanded)
                for stop in enough
            ), (demanded, between)
    assert parted > 100


def no_dearer(mine: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a motion is simpler, or as simple with rows as long."""
    return mine[0] < other[0] or (mine[0] == other[0] and mine[1] >= other[1])


def test_too_many_blocks() -> None:
    there = finest((tuple(range(BLOCKS + 1)),))
    back = finest((tuple(reversed(range(BLOCKS + 1))),))
    assert every_order([there, back]) is None
    assert len(every_order([there]) or ()) == 1


def reversed_twice(*shape: int) -> GraphBuilder:
    """Elementwise operators between an input and an output whose dimensions are in reverse."""
    b = GraphBuilder()
    x = b.relu(b.relu(b.input(*shape)))
    b.transpose(x, *reversed(range(len(shape))))
    return b


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7)])
def test_a_slow_transpose_is_made_in_two(shape: tuple[int, ...]) -> None:
    b = reversed_twice(*shape)
    found = assign(b.graph(b.nodes[-1].outputs[0]), objective=OBJECTIVE)
    assert found.status == "optimal"
    assert (found.price.transposes, found.price.hidden) == (2, 0)
    assert found.charged


def test_what_has_too_many_orders_is_not_called_optimal() -> None:
    """With seven dimensions the answer is the cheapest order that is demanded, and its bound that of a fast move."""
    b = reversed_twice(*range(2, BLOCKS + 3))
    found = assign(b.graph(b.nodes[-1].outputs[0]), objective=OBJECTIVE)
    assert (found.status, found.bound, found.charged) == ("feasible", 1, ())
    assert (found.price.transposes, found.price.hidden) == (1, 2)


def test_what_is_charged_makes_a_higher_bound() -> None:
    """The least price only grows with what is charged, and stays below that of any answer."""
    tiers = coarse_levels(OBJECTIVES[OBJECTIVE]) or ()
    grown = 0
    for seed in range(60):
        statement = Statement(mixed_graph(seed), goal=Goal(OBJECTIVE))
        moving = [number for number, variable in enumerate(statement.variables) if not variable.constant]
        answer = solve(statement.orders(), tiers).values
        least = [
            solve(statement.orders(charged=moving[:count]), tiers).values
            for count in (0, len(moving) // 2, len(moving))
        ]
        assert least == sorted(least), seed
        assert least[-1] <= answer, seed
        grown += least[0] < least[-1]
    assert grown


def test_charging_goes_on_from_what_is_stated() -> None:
    """Whatever was charged before, and whenever, the problem is as if it were stated anew; operators that get no more
    rows are the same ones.
    """
    shared = 0
    for seed in range(40):
        statement = Statement(mixed_graph(seed), goal=Goal(OBJECTIVE))
        closure = statement.candidates(unlimited(), CANDIDATES)
        plain = closure.problem()
        for count in (1, 3, 2):
            charged = plain.moving()[:count]
            found = closure.charging(charged, unlimited())
            assert found == statement.orders(charged=charged) and (found.charged or frozenset()) <= set(charged)
            for operator, before in zip(found.operators, plain.operators, strict=True):
                assert set(before.rows) <= set(operator.rows)
                assert (operator is before) == (operator == before)
                shared += operator is before
        assert plain == statement.orders()
    assert shared > 1000


def test_operators_that_are_alike_share_their_rows() -> None:
    b = GraphBuilder()
    x = b.input(2, 3, 4)
    for _ in range(20):
        x = b.transpose(b.relu(x), 0, 2, 1)
    problem = Statement(b.graph(x), goal=Goal(OBJECTIVE)).orders()
    assert len({id(operator.rows) for operator in problem.operators}) < 8
    assert len({id(row) for operator in problem.operators for row in operator.rows}) < 16
