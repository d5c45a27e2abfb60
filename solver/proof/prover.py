"""Finding proofs of lower bounds: by linear relaxation, and by cases where that leaves a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TypeVar

from layoutsolve.solver.proof.tree import Branch, Leaf, Question, Tree
from layoutsolve.solver.search.relaxation import Relaxation, Relaxed
from layoutsolve.solver.statement.bound import Offers, Open, Place
from layoutsolve.solver.theory.layout import Layout

What = TypeVar("What")

UNITS = (1, 2, 12, 5040, 12252240 << 20)
"""The units that are tried, few multipliers needing more than the first ones; the last one is for tiers of bytes."""

CASES, SHARES = 200, 400_000
"""The most cases of a proof, and the most shares of all their relaxations together."""

SURE = 1e-6
"""How far a choice of the relaxation may be from yes or no to count as one."""


def prove(questions: Sequence[Question], values: Sequence[int], first: int) -> list[tuple[int, Tree | None]]:
    """For each tier a lower bound on it and its proof, given the questions, which ask about one tier more each, and
    what the tiers are in some assignment.

    Cases are told apart to reach these values, for the first tier what is believed to be its bound. What no tier can
    be below, 0, needs no proof, and nothing else is said of problems from which candidates were left out.
    """
    found: list[tuple[int, Tree | None]] = []
    relaxation: Relaxation | None = None
    for count, (question, value) in enumerate(zip(questions, values, strict=True)):
        target = value if count else min(value, first)
        if target == 0 or question.problem.capped:
            found.append((0, None))
            continue
        if relaxation is None or relaxation.problem is not question.problem:
            together = [each.tiers for each in questions if each.problem is question.problem]
            relaxation = Relaxation(question.problem, max(together, key=len))
        found.append(_Prover(question, relaxation, target).proof())
    return found


class _Prover:
    def __init__(self, question: Question, relaxation: Relaxation, target: int) -> None:
        self.question, self.relaxation, self.target = question, relaxation, target
        self.left = min(CASES, SHARES // relaxation.size)

    def proof(self) -> tuple[int, Tree | None]:
        """The highest bound that is found, and its proof: by cases only where these reach the target."""
        relaxed = self._solve({})
        if relaxed is None:
            return 0, None
        bound, leaf = self._leaf(relaxed, {})
        if bound >= self.target:
            return bound, leaf
        tree = self._cases(relaxed, {})
        return (bound, leaf) if tree is None else (self.target, tree)

    def _solve(self, opened: Open) -> Relaxed | None:
        return self.relaxation.solve(len(self.question.values), self.question.values, opened)

    def _leaf(self, relaxed: Relaxed, opened: Open) -> tuple[int, Leaf]:
        """The best of the bounds that multipliers prove in several units, up to the target."""
        best, found = -1, Leaf(1, (0,) * len(self.question.values), Offers())
        for unit in UNITS:
            earlier = tuple(max(0, round(each * unit)) for each in relaxed.earlier)
            leaf = Leaf(unit, earlier, _offers(relaxed, unit))
            bound = self.question.answer(leaf, opened) or 0
            if bound > best:
                best, found = bound, leaf
            if best >= self.target:
                break
        return best, found

    def _tree(self, opened: Open) -> Tree | None:
        """A proof of the target for the rows that are open."""
        self.left -= 1
        if self.left < 0:
            return None
        relaxed = self._solve(opened)
        if relaxed is None:
            return self._impossible(opened)
        bound, leaf = self._leaf(relaxed, opened)
        return leaf if bound >= self.target else self._cases(relaxed, opened)

    def _impossible(self, opened: Open) -> Leaf | None:
        """A proof that some earlier tier would be higher than it is known to be: it counts for as much as it takes."""
        values = self.question.values
        for tier, value in enumerate(values):
            relaxed = self.relaxation.solve(tier, values, opened)
            if relaxed is None or relaxed.value <= value + SURE:
                continue
            scale = ceil(2 * self.target / (relaxed.value - value))
            for unit in UNITS:
                counts = (*relaxed.earlier, 1.0, *[0.0] * (len(values) - tier - 1))
                earlier = tuple(max(0, round(each * unit)) * scale for each in counts)
                leaf = Leaf(unit, earlier, _offers(relaxed, unit, scale))
                if (self.question.answer(leaf, opened) or 0) >= self.target:
                    return leaf
        return None

    def _cases(self, relaxed: Relaxed, opened: Open) -> Tree | None:
        undecided = self._undecided(relaxed)
        if undecided is None:
            return None
        (number, port), layout = undecided
        trees = []
        for case in self.question.split(number, port, layout, opened):
            tree = self._tree(case)
            if tree is None:
                return None
            trees.append(tree)
        return Branch(number, port, layout, *trees)

    def _undecided(self, relaxed: Relaxed) -> tuple[Place, Layout] | None:
        """The layout of a port that is as far from decided as any."""
        shares: dict[tuple[Place, Layout], float] = {}
        for (number, row), share in relaxed.chosen.items():
            operator = self.question.problem.operators[number]
            for port, layout in enumerate(operator.rows[row].layouts):
                if not self.question.problem.variables[operator.ports[port]].constant:
                    key = ((number, port), layout)
                    shares[key] = shares.get(key, 0.0) + share
        open_ones = [key for key, share in shares.items() if SURE < share < 1 - SURE]
        return min(open_ones, key=lambda key: (round(abs(shares[key] - 0.5), 6), key), default=None)


def _offers(relaxed: Relaxed, unit: int, scale: int = 1) -> Offers:
    """Multipliers as offers in parts of a unit, so many times."""
    return Offers(_whole(relaxed.layouts, unit, scale), _whole(relaxed.orders, unit, scale))


def _whole(multipliers: Mapping[tuple[Place, What], float], unit: int, scale: int) -> dict[Place, dict[What, int]]:
    """Those that come to none are left out."""
    found: dict[Place, dict[What, int]] = {}
    for (place, layout), multiplier in multipliers.items():
        if amount := round(multiplier * unit):
            found.setdefault(place, {})[layout] = amount * scale
    return found
