"""Lower bounds by dual values: whatever is offered, no assignment costs less."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from layoutsolve.solver import Goal
from layoutsolve.solver.proof.dual_bound import DualValues, Open, Weights, prices, weighted
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import order
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.variable import Variable
from tests.solver.random_graphs import CONTROL, LAYERS, random_graph

FIELDS = ("transposes", "hidden", "reshapes", "bytes", "nanoseconds")


def lowest(problem: LayoutProblem, weights: Weights, dual_values: DualValues, opened: Open | None = None) -> int:
    """The lower bound that dual values prove."""
    return sum(min(each.values()) for each in prices(problem, weights, dual_values, opened))


def random_dual_values(problem: LayoutProblem, random: np.random.Generator, most: int) -> DualValues:
    """Dual values of some readers for some layouts and orders that they may read, and for some that they may not."""
    layouts, orders, share = {}, {}, random.choice([0.1, 0.3, 0.6])
    for number, operator in enumerate(problem.operators):
        for port in range(operator.inputs):
            if problem.variables[operator.ports[port]].constant:
                continue
            known = sorted(
                {row.layouts[port] for each in problem.operators for row in each.rows if port < len(row.layouts)}
            )
            own = sorted({row.layouts[port] for row in operator.rows})
            said = [each for each in (*own, known[0]) if random.random() < 0.5]
            if random.random() < share:
                layouts[number, port] = {each: int(random.integers(0, most)) for each in said}
            if random.random() < share / 2:
                orders[number, port] = {order(each): int(random.integers(0, most)) for each in said}
    return DualValues(layouts, orders)


def problems(seed: int) -> list[LayoutProblem]:
    """A random graph over orders and over layouts, in objectives with and without time."""
    graph = random_graph(seed, 1 + seed % 6, CONTROL if seed % 2 else LAYERS)
    statement = Statement(graph, goal=Goal("min-latency" if seed % 3 == 0 else "min-executed"))
    return [statement.orders(), statement.layouts()]


def some_rows(problem: LayoutProblem, opened: Open, random: np.random.Generator, most: int) -> list[tuple[int, ...]]:
    """All combinations of open rows where they are few, else some of them."""
    known = [list(opened.get(number, range(len(each.rows)))) for number, each in enumerate(problem.operators)]
    if prod(map(len, known)) <= most:
        return list(product(*known))
    return [tuple(int(random.choice(rows)) for rows in known) for _ in range(most)]


def test_any_offers_are_sound() -> None:
    """Random dual values, weights and open rows, against all combinations of rows or many of them."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        for problem in problems(seed):
            for most in (2, 4, 1000):
                weights = {name: int(random.integers(0, 3)) for name in FIELDS if random.random() < 0.6}
                opened = {
                    number: sorted({int(row) for row in random.integers(0, len(each.rows), 3)})
                    for number, each in enumerate(problem.operators)
                    if random.random() < 0.2
                }
                bound = lowest(problem, weights, random_dual_values(problem, random, most), opened)
                found = some_rows(problem, opened, random, 60)
                assert bound <= min(weighted(price(problem, rows), weights) for rows in found)


def test_no_more_is_paid_back_than_offers_come_to() -> None:
    """Where layouts stand for orders, by the formula of ``docs/theory.md``."""
    compared = 0
    for seed in range(40):
        random, problem = np.random.default_rng(seed), problems(seed)[0]
        weights = {name: int(random.integers(1, 4)) for name in ("transposes", "hidden", "nanoseconds")}
        dual_values = {
            (number, port): {each: int(random.integers(0, 8)) for each in {row.layouts[port] for row in operator.rows}}
            for number, operator in enumerate(problem.operators)
            for port in range(operator.inputs)
            if not problem.variables[operator.ports[port]].constant and random.random() < 0.6
        }
        found = prices(problem, weights, DualValues(dual_values))
        for number, operator in enumerate(problem.operators):
            for at, row in enumerate(operator.rows):
                cost = weighted(row.price, weights)
                for port, (variable, layout) in enumerate(zip(operator.ports, row.layouts, strict=True)):
                    if port < operator.inputs:
                        cost += dual_values.get((number, port), {}).get(layout, 0)
                        continue
                    said = [dual_values.get(place, {}) for place in problem.readers[variable]]
                    for wanted in {each for own in said for each in own}:
                        moved = (
                            0 if wanted == layout else weighted(problem.move_price(variable, layout, wanted), weights)
                        )
                        back = max(0, sum(own.get(wanted, 0) for own in said) - moved)
                        cost, compared = cost - back, compared + (back > 0)
                assert found[number][at] == cost
    assert compared > 100


def test_one_transpose_is_proven() -> None:
    """A matrix that is written in one order and read in the other: nothing is known without an offer to pay for it."""
    rows, columns = ((0,), (1,)), ((1,), (0,))
    writer = Operator("writer", -1, (0,), 0, (Row((rows,)),))
    reader = Operator("reader", -1, (0,), 1, (Row((columns,)),))
    problem = LayoutProblem((Variable("v", (2, 3), 24, {}),), (writer, reader))
    assert lowest(problem, {"transposes": 1}, DualValues()) == 0
    for offered, proves in ((1, 1), (2, 1), (10, 1)):
        assert lowest(problem, {"transposes": 1}, DualValues({(1, 0): {columns: offered}})) == proves
        assert lowest(problem, {"transposes": 1}, DualValues({}, {(1, 0): {(1, 0): offered}})) == proves
    assert lowest(problem, {"bytes": 1}, DualValues({(1, 0): {columns: 20}})) == 20
    assert lowest(problem, {"bytes": 1}, DualValues({(1, 0): {columns: 40}})) == 24


def test_what_is_no_offer() -> None:
    problem = problems(2)[0]
    reader, constant = next(
        (number, port)
        for number, operator in enumerate(problem.operators)
        for port in range(operator.inputs)
        if problem.variables[operator.ports[port]].constant
    )
    layout = problem.operators[reader].rows[0].layouts[0]
    for dual_values, message in (
        (DualValues({(reader, 0): {layout: -1}}), "negative dual value"),
        (DualValues({}, {(reader, 0): {order(layout): -1}}), "negative dual value"),
        (DualValues({(len(problem.operators), 0): {layout: 1}}), "no operator"),
        (DualValues({(-1, 0): {layout: 1}}), "no operator"),
        (DualValues({(reader, constant): {layout: 1}}), "no operator writes"),
        (DualValues({(reader, problem.operators[reader].inputs): {layout: 1}}), "no operator"),
        (DualValues({(reader, -1): {layout: 1}}), "no operator"),
    ):
        with pytest.raises(ValueError, match=message):
            lowest(problem, {"transposes": 1}, dual_values)
