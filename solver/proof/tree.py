"""Proofs of lower bounds: offers that prove one by themselves, or cases that are each proven.

A bound is one on a tier, of all assignments whose earlier tiers are no higher than those of a known one. An earlier
tier that counts as well, by so much, adds no more than so many times its known value: what is left of the bound holds
for the tier itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from layoutsolve.solver.statement.bound import Offers, Open, lowest, weighted
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout


@dataclass(frozen=True)
class Leaf:
    """Offers, in parts of a ``unit`` of the tier; ``earlier`` is how much each tier before it counts, likewise."""

    unit: int
    earlier: tuple[int, ...]
    offers: Offers


@dataclass(frozen=True)
class Branch:
    """Two cases: an ``operator`` has a row with a ``layout`` at a ``port``, or it has another row."""

    operator: int
    port: int
    layout: Layout
    inside: Leaf | Branch
    outside: Leaf | Branch


Tree = Leaf | Branch


@dataclass(frozen=True)
class Question:
    """How low the last of some ``tiers`` can be where the others are no higher than some ``values``."""

    problem: LayoutProblem
    tiers: Tiers
    values: tuple[int, ...]

    def answer(self, tree: Tree, opened: Open | None = None) -> int | None:
        """The lower bound that a tree proves, of rows that are ``opened``; None where there are none.

        Raises :class:`ValueError` where the tree is about something else.
        """
        opened = opened or {}
        if isinstance(tree, Leaf):
            return self._leaf(tree, opened)
        cases = zip(self.split(tree.operator, tree.port, tree.layout, opened), (tree.inside, tree.outside), strict=True)
        found = [self.answer(each, case) for case, each in cases if case[tree.operator]]
        known = [bound for bound in found if bound is not None]
        return min(known) if known else None

    def split(self, number: int, port: int, layout: Layout, opened: Open) -> tuple[Open, Open]:
        """The open rows with those of one operator that have a layout at a port, and with its others."""
        if not (0 <= number < len(self.problem.operators) and 0 <= port < len(self.problem.operators[number].ports)):
            raise ValueError(f"there is no operator {number} with a port {port}")
        rows = self.problem.operators[number].rows
        known = opened.get(number, range(len(rows)))
        inside = [row for row in known if rows[row].layouts[port] == layout]
        outside = [row for row in known if rows[row].layouts[port] != layout]
        return {**opened, number: inside}, {**opened, number: outside}

    def _leaf(self, leaf: Leaf, opened: Open) -> int:
        if leaf.unit < 1 or len(leaf.earlier) != len(self.values) or any(each < 0 for each in leaf.earlier):
            raise ValueError("the tiers before a bound count by so much each, and none less than nothing")
        weights: dict[str, int] = {}
        for tier, weight in zip(self.tiers, (*leaf.earlier, leaf.unit), strict=True):
            for name in tier:
                weights[name] = weights.get(name, 0) + weight
        spent = sum(weight * value for weight, value in zip(leaf.earlier, self.values, strict=True))
        beyond = lowest(self.problem, weights, leaf.offers, opened) - spent
        step = grain(self.problem, self.tiers[-1])
        return max(0, -(-beyond // (leaf.unit * step)) * step)


def grain(problem: LayoutProblem, tier: Sequence[str]) -> int:
    """What every value of a tier is a multiple of."""
    weights: Mapping[str, int] = dict.fromkeys(tier, 1)
    moved = [problem.variables[variable].bytes for variable in problem.moving()] if tuple(tier) == ("bytes",) else [1]
    own = {weighted(row.price, weights) for operator in problem.operators for row in operator.rows}
    return max(1, gcd(*moved, *own))
