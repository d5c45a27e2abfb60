"""Linear programs: what is the least, what proves it, and what does not change it."""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest

from layoutsolve.solver.search.glop import Linear, Optimum

Row = tuple[list[tuple[int, float]], float, float]


def random_rows(random: np.random.Generator, variables: int) -> list[Row]:
    """Rows that the point of all ones is between the bounds of; some have none, or but one."""
    rows: list[Row] = []
    for _ in range(int(random.integers(2, 6))):
        terms = [(each, float(random.integers(-2, 4))) for each in range(variables) if random.random() < 0.6]
        ones = sum(weight for _, weight in terms)
        least, most = ones - float(random.integers(0, 3)), ones + float(random.integers(0, 3))
        kind = int(random.integers(4))
        rows.append((terms, -inf if kind in (0, 1) else least, inf if kind in (0, 2) else most))
    return rows


def stated(variables: int, rows: list[Row]) -> Linear:
    """The program with these rows."""
    program = Linear()
    assert [program.variable() for _ in range(variables)] == list(range(variables))
    assert [program.row(*each) for each in rows] == list(range(len(rows)))
    assert (program.variables, program.rows) == (variables, len(rows))
    return program


def least(variables: int, rows: list[Row], weights: dict[int, float]) -> float:
    """The least weighted sum over all corners: where as many sums as there are variables are at a bound."""
    sides = [(dict(terms), bound) for terms, low, high in rows for bound in {low, high} if abs(bound) < inf]
    sides += [({each: 1.0}, 0.0) for each in range(variables)]
    found = inf
    for corner in combinations(sides, variables):
        matrix = np.array([[terms.get(each, 0.0) for each in range(variables)] for terms, _ in corner])
        if abs(np.linalg.det(matrix)) < 1e-9:
            continue
        point = np.linalg.solve(matrix, [bound for _, bound in corner])
        sums = [sum(weight * point[each] for each, weight in terms) for terms, _, _ in rows]
        inside = all(low - 1e-7 <= total <= high + 1e-7 for total, (_, low, high) in zip(sums, rows, strict=True))
        if inside and (point > -1e-7).all():
            found = min(found, sum(weight * point[each] for each, weight in weights.items()))
    return found


def proven(found: Optimum, rows: list[Row]) -> float:
    """The bound that multipliers prove: a positive one is of a row's least, a negative one of its most."""
    ends = (low if dual > 0 else high for dual, (_, low, high) in zip(found.duals, rows, strict=True))
    return sum(dual * end for dual, end in zip(found.duals, ends, strict=True) if abs(dual) > 1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_the_least_and_its_multipliers(seed: int) -> None:
    """As at the best corner, for one sum after the other; what was minimised before counts no more, and rows without
    bounds, which have no multiplier, are counted all the same.
    """
    random = np.random.default_rng(seed)
    variables = int(random.integers(1, 4))
    rows = random_rows(random, variables)
    program = stated(variables, rows)
    for _ in range(3):
        weights = {each: float(random.integers(0, 5)) for each in range(variables) if random.random() < 0.8}
        found = program.minimised(weights, "")
        assert found is not None
        assert found.value == pytest.approx(least(variables, rows, weights))
        assert found.value == pytest.approx(sum(weight * found.values[each] for each, weight in weights.items()))
        assert proven(found, rows) == pytest.approx(found.value)


def test_bounds_that_change() -> None:
    """Variables and rows that are limited, and are not any more."""
    program = stated(2, [([(0, 1.0), (1, 1.0)], 2.0, inf), ([(0, 1.0), (1, 3.0)], -inf, inf)])
    values = []
    for most, spent in ((inf, inf), (0.5, inf), (inf, 4.0), (inf, inf)):
        program.bound(0, most)
        program.limit(1, spent)
        found = program.minimised({0: 1.0, 1: 2.0}, "", alone=False)
        assert found is not None
        values.append(found.value)
    assert values == pytest.approx([2.0, 3.5, 2.0, 2.0])
    program.bound(0, 0.5)
    program.limit(1, 4.0)
    assert program.minimised({0: 1.0, 1: 2.0}, "") is None


def test_steps_are_counted_and_limited() -> None:
    random = np.random.default_rng(0)
    rows: list[Row] = [([(each, float(random.random())) for each in range(30)], 1.0, inf) for _ in range(30)]
    program, weights = stated(30, rows), {each: float(random.random()) for each in range(30)}
    assert program.minimised(weights, "") is not None
    taken = program.steps
    assert taken > 2
    assert program.minimised(weights, f"max_number_of_iterations: {taken // 2}") is None
    assert program.steps <= taken // 2
