"""How closure suggests layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from layoutsolve.solver import assign
from layoutsolve.solver.statement import statement as module
from layoutsolve.solver.statement.closure import Closure
from layoutsolve.solver.statement.problem import Variable
from layoutsolve.solver.statement.statement import Statement
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
    suggest, nested, deepest = Closure._suggest, 0, 0

    def counted(closure: Closure, variable: int, layout: Layout) -> bool:
        nonlocal nested, deepest
        nested += 1
        deepest = max(deepest, nested)
        try:
            return suggest(closure, variable, layout)
        finally:
            nested -= 1

    monkeypatch.setattr(Closure, "_suggest", counted)
    assign(graph, objective="min-latency")
    assert 0 < deepest < 3


def test_an_operator_alone_is_stated_with_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the graph has for each of its operators would be too many."""
    builder = GraphBuilder()
    x = builder.input(1, 4, 6)
    for _ in range(40):
        x = builder.op("Softmax", x, shape=(1, 4, 6), axis=0)
    statement, stated = Statement(builder.graph(x)), list[int]()

    def counted(variables: Sequence[Variable], *given: Any, **options: Any) -> Closure:
        stated.append(len(variables))
        return Closure(variables, *given, **options)

    monkeypatch.setattr(module, "Closure", counted)
    for number, operator in enumerate(statement.source().operators):
        if operator.node >= 0:
            assert statement.suggested(number, {0: operator.rows[0].layouts[0]})
    assert stated[0] == len(statement.variables)
    assert set(stated[1:]) == {2}
