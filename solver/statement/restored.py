"""Assignments from another process: all but their rules, which are functions, and follow from the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.choosing import bare_rules, following_rules
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.markers import MARKS
from layoutsolve.solver.theory.rule import Rule


def restored(fields: Mapping[str, Any]) -> Assignment:
    """An assignment of all fields but the rules."""
    rules = _Rules()
    rules.owner = Assignment(rules=rules, **fields)
    return rules.owner


class _Rules(Mapping[int, Rule]):
    """The rules of an assignment, which are found when something asks for them: few programs do."""

    owner: Assignment

    def __getitem__(self, number: int) -> Rule:
        return self._found[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[int, Rule]:
        found, graph = self.owner, self.owner.graph
        if found.marked is not None:
            rules = bare_rules(found.marked)
        else:
            atoms = Atoms(graph, found.opaque_views, found.goal.target.offer)
            rules = {number: atoms.rule(number) for number in range(len(graph.nodes)) if number not in atoms.views}
        marks = any(MARKS in node.attributes for node in graph.nodes)
        if found.goal.target.chooses and not marks:
            rules |= following_rules(found, rules)
        return rules
