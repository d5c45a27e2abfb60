"""Orders that nobody demands are among the candidates where they need no move."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from layoutsolve.graph import Graph
from layoutsolve.solver import assign
from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.strategies.undemanded import Shared, admits, placed_orders, undemanded, ways
from layoutsolve.solver.theory.layout import order
from layoutsolve.solver.theory.relation import Placed
from tests.graphs import GraphBuilder
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.inner_graphs import inner_graph
from tests.solver.mixed_graphs import mixed_graph

FAMILIES: tuple[Callable[[int], Graph], ...] = (mixed_graph, broadcast_graph, inner_graph)


def summed(axis: int) -> Graph:
    """A dimension that a Pad adds, and a sum that takes the one before it away."""
    b = GraphBuilder()
    x = b.op("ReduceSum", b.input(1, 4, 3, 2), b.constant([1, 3], "int64"), shape=(1, 1, 3, 1), keepdims=1)
    x = b.op("Pad", x, b.constant([0, 0, 0, 1, 0, 0, 0, 1], "int64"), shape=(1, 1, 3, 3))
    axes = [each for each in range(4) if each != axis]
    return b.graph(b.op("ReduceMean", x, b.constant(axes, "int64"), shape=(3,), keepdims=0))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_rows_have_is_admitted(family: Callable[[int], Graph]) -> None:
    """No order of a row is taken for one that its form cannot have, or for one that the order at another port rules
    out.
    """
    compared = 0
    for seed in range(30):
        statement = Statement(family(seed))
        for entry, operator in zip(statement.entries, statement.orders().operators, strict=True):
            forms = list(ways(entry))
            for row in operator.rows if forms else ():
                form, ports = forms[row.form]
                moving = [port for port, each in enumerate(ports) if not each.constant]
                for port in moving:
                    atoms = order(row.layouts[port])
                    assert admits(form, ports[port], port, atoms), (seed, entry.title)
                    if isinstance(form, Placed):
                        assert atoms in placed_orders(form, ports[port], port), (seed, entry.title)
                for one, other in combinations(moving, 2):
                    tells = Shared.of(form, (one, ports[one]), (other, ports[other]))
                    if tells is not None:
                        told = [tells(ports[port], order(row.layouts[port])) for port in (one, other)]
                        assert told[0] == told[1], (seed, entry.title)
                        compared += 1
    assert compared > 300


def test_nobody_knows_what_lies_between_two_operators() -> None:
    """Of the two dimensions between the Pad and the sum either may come first; elsewhere ends tell all orders."""
    for axis in (2, 3):
        statement = Statement(summed(axis))
        found = undemanded(statement.entries, statement.orders(), unlimited())
        titles = {statement.variables[variable].title: orders for variable, orders in (found or {}).items()}
        assert titles == {"t4": {(1, 0)}}


def test_such_orders_may_need_fewer_reshapes() -> None:
    """The last dimension of the four is what is left, and an end wants it alone."""
    found = assign(summed(3), objective="min-transpose")
    assert found.status == "optimal"
    assert found.price.reshapes == 0


def test_none_where_all_have_one_order() -> None:
    """A chain of what keeps all dimensions is told by its ends."""
    b = GraphBuilder()
    x = b.input(2, 3, 4)
    for _ in range(3):
        x = b.relu(x)
    statement = Statement(b.graph(b.transpose(x, 2, 0, 1)))
    assert undemanded(statement.entries, statement.orders(), unlimited()) == {}
