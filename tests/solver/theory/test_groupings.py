"""What is decided of orders alone holds for all groupings: none costs less in Transposes, hidden ones or bytes."""

from __future__ import annotations

import pytest

from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.solver.theory.layout import order
from layoutsolve.solver.theory.row import Row
from tests.graphs import GraphBuilder
from tests.solver.cases import CASES, graph_of
from tests.solver.every_grouping import every_row
from tests.solver.every_layout import TARGETS, TooLargeError
from tests.solver.theory.test_rules import random_ends


def undercut(statement: Statement) -> int:
    """How many rows of all groupings there are; AssertionError where one costs less than its orders do."""
    compared = 0
    for entry, operator in zip(statement.entries, statement.orders().operators, strict=True):
        moving = [not statement.variables[variable].constant for variable in entry.ports]

        def orders(row: Row, moving: list[bool] = moving) -> tuple[tuple[int, ...], ...]:
            return tuple(order(layout) if moves else () for moves, layout in zip(moving, row.layouts, strict=True))

        known: dict[tuple[tuple[int, ...], ...], list[tuple[int, int, int]]] = {}
        for row in operator.rows:
            known.setdefault(orders(row), []).append((row.price.transposes, row.price.hidden, row.price.bytes))
        try:
            found = every_row(entry, statement, set(known))
        except TooLargeError:
            continue
        for layouts, prices in found.items():
            least = map(min, zip(*known[tuple(map(order, layouts))], strict=True))
            for cheapest, *each in zip(least, *((x.transposes, x.hidden, x.bytes) for x in prices), strict=True):
                assert cheapest <= min(each), (entry.op, layouts)
            compared += 1
    return compared


@pytest.mark.members(64)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", sorted(CASES))
def test_no_grouping_costs_less_than_its_orders(operator: str, target: str) -> None:
    for seed in range(2):
        graph, random = graph_of(operator, seed)
        undercut(Statement(graph, random_ends(graph, random)[0], Goal(target=shipped(target))))


@pytest.mark.parametrize("perm", [(1, 0, 3, 2), (1, 3, 0, 2), (3, 1, 0, 2), (1, 0, 2, 3), (3, 1, 2, 0)])
def test_resampled_dimensions_anywhere(perm: tuple[int, ...]) -> None:
    b = GraphBuilder()
    x = b.relu(b.transpose(b.input(3, 4, 4, 5), *perm))
    result = [2 * size if axis in (1, 2) else size for axis, size in zip(perm, b.shape(x), strict=True)]
    scales = [after / before for before, after in zip(b.shape(x), result, strict=True)]
    y = b.op("Resize", x, "", b.constant(scales), shape=result, mode="nearest")
    assert undercut(Statement(b.graph(b.relu(y)))) > 100
