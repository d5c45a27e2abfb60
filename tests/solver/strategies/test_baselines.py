"""What the strategies that converters have are said to cost."""

from __future__ import annotations

import pytest

from experiments.corpus import graph_of as read
from experiments.make import plain_networks
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import assign
from tests.solver import siblings, standard
from tests.solver.cases import CASES, RELATED, graph_of

assert siblings.PRIVATE and standard.RELATED is RELATED, "both add cases to these"


def written(graph: Graph, op: str) -> int:
    """How many nodes of an operator a graph has."""
    return sum(node.op == op for node in graph.nodes)


@pytest.mark.members(2)
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


TFLITE2ONNX = (1, 4, 2, 2, 3, 2, 4, 3, 2, 4, 1, 2, 3, 3, 2, 2, 2, 1, 3, 3, 3, 1, 1, 1)
"""The Transposes that tflite2onnx 0.4.1 leaves in plain networks, and inputs and outputs that it turns: ``original``
``tflite2onnx`` of :mod:`experiments.report.originals`.
"""


@pytest.mark.parametrize("seed", range(len(TFLITE2ONNX)))
def test_propagates_as_the_original(seed: int) -> None:
    """A Reshape in front of a convolution keeps its layout to itself. The original has one Transpose more in a network
    where it turns what has one pixel.
    """
    found = assign(read(plain_networks.as_tflite(seed)), strategy="propagate").price.transposes
    assert found == TFLITE2ONNX[seed] - (seed == 7)
