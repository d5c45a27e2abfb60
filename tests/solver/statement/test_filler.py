"""A filler finds every row that has a layout at a port: those of random operators, held against all groupings."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.statement.entry import Entry
from layoutsolve.solver.statement.filler import Filler
from layoutsolve.solver.statement.generator import Generator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import order
from layoutsolve.solver.theory.row import Row
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.every_grouping import every_row
from tests.solver.every_layout import TooLargeError
from tests.solver.mixed_graphs import mixed_graph

GRAPHS, LOOKED_AT = 25, 40
"""The random graphs of a family, and the layouts of each operator that are looked at."""


def filler(statement: Statement, entry: Entry, rows: tuple[Row, ...], extra: int) -> Filler:
    """The filler of an operator for the orders of some rows."""
    assert entry.rule is not None
    assert entry.relations is not None
    target, moving = statement.target, ports_that_move(statement, entry)
    kinds = tuple(target.named(entry.op, way) for way in entry.rule.ways)
    weigh, outputs = target.weigh(entry.op, kinds), len(entry.ports) - entry.inputs
    made = Generator(entry.relations, entry.rule.forms, outputs, unlimited(), exact=True, weigh=weigh, own=entry.own)
    wanted = sorted({tuple(order(row.layouts[port]) for port in moving) for row in rows})
    return Filler(made, kinds if weigh else (), wanted, moving, extra)


def ports_that_move(statement: Statement, entry: Entry) -> list[int]:
    return [port for port, variable in enumerate(entry.ports) if not statement.variables[variable].constant]


@pytest.mark.parametrize("family", [mixed_graph, broadcast_graph])
def test_every_row_with_a_layout_is_found(family: type) -> None:
    counts = Counter[str]()
    for seed in range(GRAPHS):
        statement = Statement(family(seed))
        for entry, operator in zip(statement.entries, statement.orders().operators, strict=True):
            if entry.relations is None or entry.fixed:
                continue
            moving = ports_that_move(statement, entry)
            kept = tuple(islice(operator.rows, 3))
            orders = {
                tuple(order(layout) if port in moving else () for port, layout in enumerate(row.layouts))
                for row in kept
            }
            try:
                every = every_row(entry, statement, orders)
            except TooLargeError:
                continue
            made = filler(statement, entry, kept, 0)
            assert not made.capped
            known = {_moving(row, moving) for row in made.start()}
            for layouts in islice(sorted(every), 0, None, max(1, len(every) // LOOKED_AT)):
                for port in moving:
                    known |= {_moving(row, moving) for row in made.push(port, layouts[port])}
                    shown = _open(made, port)
                    missing = {each for each in every if each[port] == layouts[port]} - known if shown else set()
                    assert not missing, (seed, entry.title, port, layouts[port])
                    counts["open" if shown else "fixed"] += 1
            counts["loose" if any(not each.even for each in made.fillings) else "even"] += 1
    assert min(counts["open"], counts["loose"], counts["even"]) > 20


def _moving(row: Row, moving: list[int]) -> tuple[object, ...]:
    return tuple(layout if port in moving else () for port, layout in enumerate(row.layouts))


def _open(made: Filler, port: int) -> bool:
    """Whether every form has something to group at a port, so that a layout there tells its rows."""
    return all(each.opens(port) for each in made.fillings)
