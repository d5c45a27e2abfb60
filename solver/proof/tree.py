"""Proofs of lower bounds: dual values that prove one, or remove alternatives by reduced cost, and branches that are
each proven.

A bound is one on a level, of all assignments whose earlier levels are no higher than those of a known one. Assignments
below the bound cost no more than the earlier levels at their known values and the level just below its bound, however
each level counts. Dual values that prove that all cost more prove the bound. Where they do not, they strike out each
row with which an assignment would cost more, and the bound has to be proven for the rows that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from layoutsolve.solver.proof.dual_bound import DualValues, Open, prices, weighted
from layoutsolve.solver.statement.objective import Levels
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout


@dataclass(frozen=True)
class Step:
    """Dual values where the level has weight ``own`` and each one before it a weight in ``earlier``.

    ``rest`` is a proof for the rows that they leave, None where they prove the bound themselves.
    """

    own: int
    earlier: tuple[int, ...]
    dual_values: DualValues
    rest: Step | Branch | None = None


@dataclass(frozen=True)
class Branch:
    """Two cases: an ``operator`` has a row with a ``layout`` at a ``port``, or it has another row."""

    operator: int
    port: int
    layout: Layout
    inside: Step | Branch
    outside: Step | Branch


Tree = Step | Branch


@dataclass(frozen=True)
class Question:
    """Lower bound on the last of some ``levels`` where the others are no higher than some ``values``."""

    problem: LayoutProblem
    levels: Levels
    values: tuple[int, ...]

    def proves(self, tree: Tree | None, bound: int, opened: Open | None = None) -> bool:
        """Whether a tree proves a bound for the rows that are ``opened``. None proves what no level can be below, 0.

        Raises :class:`ValueError` where the tree is about something else.
        """
        opened = opened or {}
        if bound <= 0 or not all(opened.values()):
            return True
        if tree is None:
            return False
        if isinstance(tree, Step):
            left = self.left(tree, bound, opened)
            return left is None or (tree.rest is not None and self.proves(tree.rest, bound, left))
        cases = self.split(tree.operator, tree.port, tree.layout, opened)
        return all(
            self.proves(each, bound, case) for each, case in zip((tree.inside, tree.outside), cases, strict=True)
        )

    def split(self, number: int, port: int, layout: Layout, opened: Open) -> tuple[Open, Open]:
        """The open rows with those of one operator that have a layout at a port, and with its others."""
        if not (0 <= number < len(self.problem.operators) and 0 <= port < len(self.problem.operators[number].ports)):
            raise ValueError(f"there is no operator {number} with a port {port}")
        rows = self.problem.operators[number].rows
        known = opened.get(number, range(len(rows)))
        inside = [row for row in known if rows[row].layouts[port] == layout]
        outside = [row for row in known if rows[row].layouts[port] != layout]
        return {**opened, number: inside}, {**opened, number: outside}

    def left(self, step: Step, bound: int, opened: Open) -> dict[int, list[int]] | None:
        """The rows that assignments below a bound can have, of operators that cannot have all of theirs; None where
        there are no such assignments.
        """
        if step.own < 0 or len(step.earlier) != len(self.values) or any(each < 0 for each in step.earlier):
            raise ValueError("a bound needs one weight per objective level, none negative")
        weights: dict[str, int] = {}
        for level, weight in zip(self.levels, (*step.earlier, step.own), strict=True):
            for name in level:
                weights[name] = weights.get(name, 0) + weight
        below = (-(-bound // self.grain) - 1) * self.grain
        most = sum(
            weight * value for weight, value in zip((*step.earlier, step.own), (*self.values, below), strict=True)
        )
        found = prices(self.problem, weights, step.dual_values, opened)
        least = [min(each.values()) for each in found]
        spare = most - sum(least)
        if spare < 0:
            return None
        kept = {
            number: [row for row, cost in each.items() if cost <= least[number] + spare]
            for number, each in enumerate(found)
        }
        return {
            number: rows
            for number, rows in kept.items()
            if number in opened or len(rows) < len(self.problem.operators[number].rows)
        }

    @cached_property
    def grain(self) -> int:
        """What every value of the level is a multiple of."""
        return grain(self.problem, self.levels[-1])


def grain(problem: LayoutProblem, level: Sequence[str]) -> int:
    """Greatest common divisor of the values of a level: for bytes that of the sizes of whole variables."""
    weights: Mapping[str, int] = dict.fromkeys(level, 1)
    moved = [problem.variables[variable].bytes for variable in problem.moving()] if tuple(level) == ("bytes",) else [1]
    own = {weighted(row.price, weights) for operator in problem.operators for row in operator.rows}
    return max(1, gcd(*moved, *own))
