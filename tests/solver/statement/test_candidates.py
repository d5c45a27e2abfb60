"""How candidates are suggested."""

from __future__ import annotations

import pytest

from layoutsolve.solver import assign
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.theory.layout import Layout
from tests.graphs import GraphBuilder


def test_suggestions_do_not_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Transpose makes of a layout has others made of it, and so on: calls that nest as deeply would be too many.
    Of an outer sum all dimensions may be in any order.
    """
    builder = GraphBuilder()
    x = builder.input(1, 4, 6)
    outer = builder.add(builder.reshape(x, 4, 6, 1, 1, 1), builder.reshape(x, 1, 1, 1, 4, 6))
    first = builder.op("ReduceMax", outer, builder.constant([0], "int64"), shape=(1, 6, 1, 4, 6), keepdims=1)
    graph = builder.graph(first, builder.reshape(outer, 4, 6, 4, 6))
    suggest, nested, deepest = Candidates._suggest, 0, 0

    def counted(candidates: Candidates, variable: int, layout: Layout) -> bool:
        nonlocal nested, deepest
        nested += 1
        deepest = max(deepest, nested)
        try:
            return suggest(candidates, variable, layout)
        finally:
            nested -= 1

    monkeypatch.setattr(Candidates, "_suggest", counted)
    assign(graph, objective="min-latency")
    assert 0 < deepest < 3
