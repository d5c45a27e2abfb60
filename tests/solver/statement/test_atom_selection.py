"""What is left out of layouts only makes a problem cheaper, and its rows are those of the whole one, as far as seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.atom_selection import unseen
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_levels, ranked
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.kind import Along, Among, Runs, possible
from layoutsolve.solver.theory.layout import Order, order
from layoutsolve.solver.theory.row import Row
from tests.graphs import GraphBuilder
from tests.solver.every_layout import TooLargeError, every_row
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.random_graphs import CONTROL, random_graph

STAGED = [name for name, tiers in OBJECTIVES.items() if coarse_levels(tiers) is not None]

WORK = 3_000_000
"""Enough for graphs of this size."""


def graph_of(seed: int) -> Graph:
    return mixed_graph(seed) if seed % 2 else random_graph(seed, 1 + seed % 9, CONTROL)


def factors_of(statement: Statement) -> list[int]:
    """All factors that variables have."""
    return sorted(statement.unseen(0))


def least(statement: Statement, without: Collection[int]) -> tuple[int, ...]:
    """The least price of the orders of some atoms, every move at the least that one of its variable may cost."""
    tiers = coarse_levels(statement.goal.levels) or ()
    found = solve(statement.projected(without), tiers, Limit(WORK))
    assert found.optimal
    return found.values


@pytest.mark.slow
@pytest.mark.members(1)
@pytest.mark.parametrize("objective", STAGED)
def test_what_is_left_out_makes_it_cheaper(objective: str) -> None:
    """The more is left out, the less the least price; that of nothing is nothing, and mostly little is lost."""
    counts: Counter[str] = Counter()
    for seed in range(36):
        statement = Statement(graph_of(seed), goal=Goal(objective))
        factors, random = factors_of(statement), np.random.default_rng(seed)
        many = [factor for factor in factors if random.random() < 0.6]
        few = [factor for factor in many if random.random() < 0.5]
        prices = [least(statement, without) for without in (factors, many, few, ())]
        assert prices == sorted(prices), seed
        assert not any(prices[0][:1]) or all(not variable.sizes for variable in statement.variables), seed
        counts["all of it"] += prices[1] == prices[-1] > (0,) * len(prices[0])
        counts["less"] += prices[1] < prices[-1]
    assert min(counts.values()) > 2


def seen(orders: Order, factors: list[int], without: Collection[int]) -> Order:
    return tuple(atom for atom in orders if factors[atom] not in without)


@pytest.mark.members(1)
@pytest.mark.parametrize("objective", ["min-executed", "min-latency"])
def test_every_row_is_shown_by_one_that_costs_no_more(objective: str) -> None:
    """Of all rows of the rules' forms, whether or not closure leads to them."""
    compared, tiers = 0, OBJECTIVES[objective]
    for seed in range(1, 240, 2):
        statement = Statement(graph_of(seed), goal=Goal(objective))
        random = np.random.default_rng(seed)
        without = [factor for factor in factors_of(statement) if random.random() < 0.5]
        part = Statement(statement.graph, goal=statement.goal, atoms=statement._atoms.without(without))
        for whole, less in zip(statement.entries, part.entries, strict=True):
            factors = [statement._factors[variable] for variable in whole.ports]
            try:
                rows, shown = every_row(whole, statement, tiers), every_row(less, part, tiers)
            except TooLargeError:
                continue
            for orders, price in rows.items():
                kept = tuple(seen(*each, without) for each in zip(orders, factors, strict=True))
                assert ranked(shown[kept], tiers)[0] <= ranked(price, tiers)[0], (seed, whole.title, orders)
                compared += 1
    assert compared > 500


def test_layouts_leave_out_atoms_and_nothing_else() -> None:
    """Variables, operators and their ports are those of the whole problem, and so are the numbers of the atoms."""
    for seed in range(20):
        statement = Statement(graph_of(seed))
        without = set(factors_of(statement)[::2])
        whole, part = statement.orders(), statement.projected(without)
        assert [each.ports for each in part.operators] == [each.ports for each in whole.operators]
        assert [each.sizes for each in part.variables] == [each.sizes for each in whole.variables]
        for operator in part.operators:
            for row in operator.rows:
                for variable, layout in zip(operator.ports, row.layouts, strict=True):
                    if not whole.variables[variable].constant:
                        factors = statement._factors[variable]
                        kept = {atom for atom, factor in enumerate(factors) if factor not in without}
                        assert sorted(order(layout)) == sorted(kept)


def windows() -> GraphBuilder:
    """Pixels that are cut into windows: rows and columns of a window go together, and so do those around it."""
    b = GraphBuilder()
    x = b.reshape(b.conv(b.input(1, 12, 12, 4), 4, 1), 1, 4, 3, 4, 3, 4)
    x = b.reshape(b.transpose(x, 0, 1, 3, 2, 4, 5), 16, 9, 4)
    for _ in range(4):
        x = b.relu(x)
    return b


def test_what_goes_together_is_left_out_first() -> None:
    b = windows()
    statement = Statement(b.graph(b.nodes[-1].outputs[0]))
    whole = max(len(variable.sizes) for variable in statement.variables if not variable.constant)
    assert whole == 5
    without = statement.unseen(3)
    sizes = sorted(int(str(statement._atoms.size(factor))) for factor in without)
    assert sizes == [3, 4]
    assert without < statement.unseen(2)
    assert not statement.unseen(5)


def test_choice_of_what_is_left_out() -> None:
    """Never more than needed; of those that go together one stays."""
    assert unseen([((1, 2), (3,))], 3) == frozenset()
    assert unseen([((1, 2), (3,))], 2) == {1}
    assert unseen([((1, 2), (3,)), ((1,), (3,))], 2) == {2}
    assert unseen([((1, 2), (3,)), ((4, 5, 6),)], 2) == {1, 4}
    assert unseen([((1, 2), (3,))], 0) == {1, 2, 3}


def test_kinds_of_rows_that_are_not_seen_whole() -> None:
    """What lies behind an axis is behind it in all atoms; one that is seen innermost may lie anywhere."""
    slots = tuple(((label, 0),) for label in "abc")
    row = Row((((0,), (1,), (2,)),), arrangement=slots)
    anywhere = {"innermost", "middle", "outermost"}
    assert set(possible(Along("a"), row) or ()) == {"middle", "outermost"} == set(possible(Along("b"), row) or ())
    assert set(possible(Along("c"), row) or ()) == anywhere
    assert set(possible(Along("a"), Row((((), (1,), (2,)),), arrangement=slots)) or ()) == anywhere
    assert set(possible(Among(frozenset("ac")), row) or ()) == anywhere
    assert possible(Runs(frozenset("a")), row) is None
    assert possible("NN, float32", row) == ("NN, float32",)
