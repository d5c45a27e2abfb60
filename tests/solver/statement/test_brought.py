"""Dimensions of size 1 that operators bring along to each other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from layoutsolve.solver.statement.brought import carried


def _reached(start: int, without: int, moving: Sequence[Sequence[int]]) -> tuple[set[int], set[int]]:
    """The variables and operators that a variable is connected with where an operator is left out."""
    variables, operators = {start}, set[int]()
    while True:
        found = {
            number
            for number, ports in enumerate(moving)
            if number != without and number not in operators and variables.intersection(ports)
        }
        if not found:
            return variables, operators
        operators |= found
        variables.update(*(moving[number] for number in found))


def _each_by_itself(moving: Sequence[Sequence[int]], asked: Sequence[Mapping[int, int]]) -> list[int]:
    found = [0] * len(moving)
    for number, counts in enumerate(asked):
        ports = Counter(moving[number])
        for variable, count in counts.items():
            variables, operators = _reached(variable, number, moving)
            for each in operators:
                found[each] += count
            found[number] += count if sum(ports[each] for each in variables) > 1 else 0
    return found


@pytest.mark.parametrize("seed", range(300))
def test_is_what_is_found_for_each_by_itself(seed: int) -> None:
    draw = random.Random(seed)
    operators, variables = draw.randint(1, 14), draw.randint(1, 20)
    ports = draw.choice([[1, 2], [0, 1, 2, 2, 3], [1, 5]])
    moving = [[draw.randrange(variables) for _ in range(draw.choice(ports))] for _ in range(operators)]
    asked = [{each: draw.randint(1, 3) for each in here if draw.random() < 0.6} for here in moving]
    assert carried(moving, asked) == _each_by_itself(moving, asked)
