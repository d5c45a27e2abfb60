"""What the strategies that converters have are said to cost."""

from __future__ import annotations

import pytest

from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.solver import siblings, standard
from tests.solver.cases import CASES, RELATED, graph_of

assert siblings.PRIVATE and standard.RELATED is RELATED, "both add cases to these"


def written(graph: Graph, op: str) -> int:
    """How many nodes of an operator a graph has."""
    return sum(node.op == op for node in graph.nodes)


@pytest.mark.parametrize("seed", range(3))
def test_the_graph_as_it_stands(seed: int) -> None:
    """`transpose` has the Transposes of the graph, and its Reshapes. One more is said to be where dimensions of size 1
    are elsewhere in all rows of an operator than they are in the source, which are those of a reduction and of an
    operand that is repeated.
    """
    operators, more = sorted({*CASES, *RELATED}), set[str]()
    for operator in operators:
        graph, _ = graph_of(operator, seed)
        found = assign(graph, strategy="transpose").price
        views = written(graph, "Transpose"), written(graph, "Reshape")
        assert found.transposes == views[0] and 0 <= found.reshapes - views[1] <= 1, operator
        if found.reshapes > views[1]:
            more.add(operator)
            assert any(1 in value.shape for value in graph.values.values()), operator
    assert len(more) * 20 < len(operators)
