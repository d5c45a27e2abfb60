"""What the limit on dimensions of size 1 leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from layoutsolve.solver import assign
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.theory import relation
from layoutsolve.solver.theory.row import Row
from tests.solver.random_graphs import random_graph


def test_what_has_too_many_dimensions_of_size_1_would_not_be_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders that fit in no layout within the limit are no candidates, and no answer is the worse for it: with twice as
    many dimensions of size 1 the values are the same.
    """
    left_out, joined = 0, Alternatives._joined

    def counted(self: Alternatives, row: Row) -> Iterator[Row]:
        nonlocal left_out
        found = list(joined(self, row))
        left_out += not any(map(self._fits, found))
        return iter(found)

    monkeypatch.setattr(Alternatives, "_joined", counted)
    for seed in range(36):
        graph = random_graph(seed, 7)
        before, found = left_out, assign(graph)
        if left_out > before:
            with monkeypatch.context() as wider:
                wider.setattr(relation, "MORE", 2 * relation.MORE)
                wider.setattr(relation, "UNITS", 2 * relation.UNITS)
                assert [tier.value for tier in assign(graph).tiers[:3]] == [tier.value for tier in found.tiers[:3]]
    assert left_out > 2
