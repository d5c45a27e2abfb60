"""Minimum cuts against CP-SAT and enumeration: where a cut applies, it has to come to the very same number."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layoutsolve.errors import OptionError, StrategyError
from layoutsolve.solver import OBJECTIVES, assign
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search.component_search import solve_component
from layoutsolve.solver.search.presolve import components, every_row, price_of_component
from layoutsolve.solver.search.search import Solution
from layoutsolve.solver.statement.objective import Levels, coarse_levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies import orders_then_groupings as solving
from layoutsolve.solver.strategies.mincut import cut
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.variable import Variable
from tests.graphs import GraphBuilder
from tests.solver.enumeration import enumerated
from tests.solver.random_graphs import CONTROL, LAYERS, random_graph

TIERS = coarse_levels(OBJECTIVES["min-transpose"]) or ()
SIDES = (((0,), (1,)), ((1,), (0,)))
"""The two orders of a matrix."""


def random_problem(seed: int) -> LayoutProblem:
    """A chain of relations between matrices, each with some of the combinations of its ports' orders as rows."""
    random = np.random.default_rng(seed)
    variables: list[Variable] = []
    operators: list[Operator] = []
    for number in range(int(random.integers(2, 7))):
        inputs = [int(random.integers(0, len(variables))) for _ in range(min(len(variables), random.integers(0, 3)))]
        ports = (*inputs, len(variables))
        variables.append(Variable(f"v{number}", (2, 3), int(random.integers(0, 3)), {}))
        everything = list(product(SIDES, repeat=len(ports)))
        few = random.choice(len(everything), int(random.integers(1, min(4, len(everything)) + 1)), replace=False)
        rows = [Row(everything[index], price=Price(hidden=int(random.integers(0, 3)) // 2)) for index in few]
        operators.append(Operator(f"o{number}", -1, ports, len(inputs), tuple(rows)))
    ends = [Operator("end", -1, (len(variables) - 1,), 1, (Row((SIDES[int(random.integers(0, 2))],)),))]
    return LayoutProblem(tuple(variables), (*operators, *ends))


def compared(problem: LayoutProblem, levels: Levels, counts: Counter[str]) -> None:
    """Cut every component of a problem that can be cut, and compare all levels with what searching finds."""
    domains = every_row(problem)
    refused = False
    for component in components(problem, domains):
        start = [domain[0] for domain in domains]
        try:
            found = cut(problem, domains, component, levels)
        except StrategyError as error:
            counts["too many orders" if "orders to choose from" in str(error) else "no lattice"] += 1
            refused = True
            continue
        best = solve_component(problem, domains, component, start, levels, unlimited())
        prices = []
        for rows in (found.rows, best.rows):
            chosen = list(start)
            for number, row in rows.items():
                chosen[number] = row
            prices.append(ranked(price_of_component(problem, chosen, component), levels))
        assert prices[0] == prices[1]
        assert found.value == prices[0][0]
        counts["cut"] += 1
    counts["whole" if not refused else "in part"] += 1


@pytest.mark.members(1)
@pytest.mark.parametrize(("objective", "graphs"), [("min-transpose", 150), ("min-bytes", 100), ("min-executed", 100)])
def test_random_graphs(objective: str, graphs: int) -> None:
    """Two thirds of the graphs lie within two orders as a whole; every component that does comes to the optimum."""
    levels = coarse_levels(OBJECTIVES[objective])
    assert levels is not None
    counts: Counter[str] = Counter()

    @settings(max_examples=graphs, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 10**6), st.integers(1, 10))
    def check(seed: int, size: int) -> None:
        layers = CONTROL if seed % 2 else LAYERS
        compared(Statement(random_graph(seed, size, layers)).orders(), levels, counts)

    check()
    assert counts["whole"] + counts["in part"] >= graphs
    assert counts["whole"] >= graphs / 2
    assert counts["cut"] >= graphs / 6


@pytest.mark.slow
def test_random_relations() -> None:
    """Relations that no operator has: operators whose ports differ, opposite polarities, prices of rows."""
    counts: Counter[str] = Counter()
    for seed in range(800):
        problem = random_problem(seed)
        compared(problem, TIERS, counts)
    assert counts["too many orders"] == 0
    assert counts["cut"] >= 260
    assert counts["no lattice"] >= 25


@pytest.mark.parametrize("size", [4, 8, 12])
def test_the_strategy(size: int) -> None:
    """Through the front door: the same Transposes and bytes as the solver, proven, and a status that says so; where
    Transposes are slow, stops might spare them.
    """
    solved = 0
    for seed in range(30):
        graph = random_graph(seed, size)
        try:
            found = assign(graph, strategy="mincut", objective="min-transpose")
        except StrategyError:
            continue
        best = assign(graph, objective="min-transpose")
        assert ranked(found.price, TIERS) == ranked(best.price, TIERS)
        assert (found.tiers[0].status, found.bound, found.strategy) == ("optimal", best.bound, "mincut")
        assert found.status == "optimal" or found.price.hidden
        assert {part.method for part in found.parts} <= {"min cut"}
        solved += 1
    assert solved >= 2


def test_readers_share_a_move() -> None:
    """A tensor that five convolutions read is moved once; so is what they write, where it is read channels-last."""
    b = GraphBuilder()
    x = b.input(1, 8, 8, 4)
    branches = [b.conv(b.relu(x), 4, 3) for _ in range(5)]
    total = branches[0]
    for branch in branches[1:]:
        total = b.add(total, branch)
    assert assign(b.graph(total), strategy="mincut", objective="min-transpose").price.transposes == 2


def test_bytes_break_ties() -> None:
    """One Transpose is needed before or after the concatenation, and before it there is less to move."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 8, 8, 4), 4, 3)
    found = assign(b.graph(b.op("Concat", x, x, shape=(1, 8, 8, 8), axis=3)), strategy="mincut")
    assert (found.price.transposes, found.price.bytes) == (2, 2 * 8 * 8 * 4 * 4)


def two_rows(first: int, second: int) -> LayoutProblem:
    """A variable with its readers' two rows: ``first`` and ``second`` say on which side its second port then is."""
    variables = tuple(Variable(f"v{number}", (2, 3), 1, {}) for number in range(2))
    both = tuple(Row((side,)) for side in SIDES)
    reader = Operator("reader", -1, (0, 0, 1), 2, (Row((SIDES[0], SIDES[first], SIDES[0])),
                                                   Row((SIDES[1], SIDES[second], SIDES[1]))))  # fmt: skip
    end = Operator("end", -1, (1,), 1, (Row((SIDES[1],)),))
    return LayoutProblem(variables, (Operator("source", -1, (0,), 0, both), reader, end))


def test_crossing_rows_are_refused() -> None:
    """An operator that always reads a tensor in both of its orders cannot be on one side of a cut."""
    for problem, crosses in ((two_rows(0, 1), False), (two_rows(1, 0), True)):
        domains = every_row(problem)
        (component,) = components(problem, domains)
        if crosses:
            with pytest.raises(StrategyError, match=r"component of source, reader: its operators cross"):
                cut(problem, domains, component, TIERS)
        else:
            best = enumerated(problem, domains, component, [0, 0, 0], TIERS)
            assert cut(problem, domains, component, TIERS).rows == {0: best[0], 1: best[1]}


def test_rows_that_are_no_lattice_are_refused() -> None:
    """An even number of upper sides; all but three upper sides; and a price that no single port decides."""
    everything = [tuple(SIDES[side] for side in sides) for sides in product((0, 1), repeat=3)]
    problem = two_rows(0, 1)
    ends = tuple(Operator(f"end {number}", -1, (number,), 1, (Row((SIDES[0],)),)) for number in range(3))
    variables = (*problem.variables, Variable("v2", (2, 3), 1, {}))
    for wanted, prices, message in (
        ((0, 3, 5, 6), (0,) * 8, "not a lattice"),
        ((0, 1, 2, 3, 4, 5, 6), (0,) * 8, "not a lattice"),
        (range(8), (0, 0, 0, 0, 0, 0, 0, 1), "depend on several ports"),
    ):
        rows = tuple(Row(everything[index], price=Price(hidden=prices[index])) for index in wanted)
        problem = LayoutProblem(variables, (Operator("split", -1, (0, 1, 2), 0, rows), *ends))
        domains = every_row(problem)
        (component,) = components(problem, domains)
        with pytest.raises(StrategyError, match=message):
            cut(problem, domains, component, TIERS)


def test_three_orders_are_refused() -> None:
    """The error names the operators and how many orders there are."""
    b = GraphBuilder()
    x = b.relu(b.input(2, 3, 4))
    outputs = [b.relu(b.relu(x)), b.relu(b.transpose(x, 1, 0, 2)), b.relu(b.transpose(x, 2, 1, 0))]
    with pytest.raises(StrategyError, match=r"component of Relu .* has [3-9] orders to choose from"):
        assign(b.graph(*outputs), strategy="mincut")


def test_reshapes_are_refused() -> None:
    with pytest.raises(OptionError, match="min-nodes"):
        assign(random_graph(0, 3), strategy="mincut", objective="min-nodes")


def test_constants_do_not_count() -> None:
    """Rows that differ in constants only are one choice, the cheapest."""
    problem = two_rows(0, 1)
    source, reader, end = problem.operators
    constant = Variable("c", (2, 3), 0, {}, constant=True)
    rows = tuple(
        replace(row, layouts=(*row.layouts[:2], side, row.layouts[2]), price=Price(hidden=index))
        for row in reader.rows
        for index, side in enumerate(SIDES)
    )
    reader = replace(reader, ports=(0, 0, 2, 1), inputs=3, rows=rows)
    wider = LayoutProblem((*problem.variables, constant), (source, reader, end))
    (component,) = components(wider, every_row(wider))
    assert cut(wider, every_row(wider), component, TIERS).rows[1] in (0, 2)


@pytest.mark.members(1)
@pytest.mark.parametrize("fault", ["unproven", "left out"])
def test_minimum_cuts_claim_no_more_than_their_groupings_prove(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels that depend on groupings which are not proven, or on candidates, some left out, are feasible above 0."""
    counts: Counter[tuple[str, str]] = Counter()
    stated, searched = Statement.orders, solving.solve

    def unproven(problem: LayoutProblem, levels: Levels, *more: Any) -> Solution:
        return replace(searched(problem, levels, *more), bounds=(0,) * len(levels))

    def left_out(*given: Any, **named: Any) -> LayoutProblem:
        return replace(stated(*given, **named), capped=True)

    for seed in range(60):
        graph = random_graph(seed, 6)
        try:
            proven = assign(graph, strategy="mincut", objective="min-transpose")
        except StrategyError:
            continue
        with monkeypatch.context() as patch:
            if fault == "unproven":
                patch.setattr("layoutsolve.solver.strategies.orders_then_groupings.solve", unproven)
            else:
                patch.setattr(Statement, "orders", left_out)
            doubted = assign(graph, strategy="mincut", objective="min-transpose")
        doubtful = doubted.tiers[-2:] if fault == "unproven" else doubted.tiers[:-2]
        assert doubted.price == proven.price
        assert doubted.status == ("feasible" if any(tier.value for tier in doubtful) else proven.status)
        assert doubted.bound == (0 if fault == "left out" else proven.bound)
        counts[proven.status, doubted.status] += 1
    assert counts["optimal", "feasible"] > 10
