"""Finding proofs of lower bounds: by linear relaxation, and by cases where that leaves a gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.solver.proof.dual_bound import Open, Place
from layoutsolve.solver.proof.layout_lp import Relaxation, Relaxed
from layoutsolve.solver.proof.tree import Branch, Question, Step, Tree
from layoutsolve.solver.theory.layout import Layout

UNITS = (1, 2, 12, 5040, 12252240 << 20)
"""The units that are tried, few dual values needing more than the first ones; the last one is for levels of bytes."""

STEPS, WORK = 200, 10**10
"""The most steps of a proof, and the most that they may come to: each as the square of the number of shares."""

FEWER = 0.9
"""Rows are struck out where at most this part of them is left."""

SURE = 1e-6
"""How far a choice of the relaxation may be from yes or no to count as one."""


def prove(questions: Sequence[Question], values: Sequence[int], first: int) -> list[tuple[int, Tree | None]]:
    """For each level a lower bound on it and its proof, given the questions, which ask about one level more each, and
    what the levels are in some assignment.

    Rows are struck out and cases told apart to reach these values as long as they are reached, for the first level what
    is believed to be its bound. What no level can be below, 0, needs no proof, and nothing else is said of problems
    from which candidates were left out.
    """
    found: list[tuple[int, Tree | None]] = []
    relaxation: Relaxation | None = None
    for count, (question, value) in enumerate(zip(questions, values, strict=True)):
        target = value if count else min(value, first)
        if target == 0 or question.problem.capped:
            found.append((0, None))
            continue
        if relaxation is None or relaxation.problem is not question.problem:
            together = [each.levels for each in questions if each.problem is question.problem]
            relaxation = Relaxation(question.problem, max(together, key=len))
        reached = all(bound == known for (bound, _), known in zip(found, values, strict=False))
        found.append(_Prover(question, relaxation, target, STEPS if reached else 1).proof())
    return found


class _Prover:
    """Finds a proof of a bound on a level, at best the ``target``."""

    def __init__(self, question: Question, relaxation: Relaxation, target: int, steps: int) -> None:
        self.question, self.relaxation, self.target = question, relaxation, target
        self.level = len(question.values)
        self.steps = min(steps, max(1, WORK // relaxation.size**2))
        self.rows = [len(operator.rows) for operator in question.problem.operators]

    def proof(self) -> tuple[int, Tree | None]:
        """The highest bound that is found, and its proof."""
        tree = self._tree({})
        if tree is not None:
            return self.target, tree
        relaxed = self._solve(self.level, {})
        return (0, None) if relaxed is None else self._plain(relaxed)

    def _plain(self, relaxed: Relaxed) -> tuple[int, Tree | None]:
        """The bound that a relaxation proves without striking out rows, and its proof."""
        grain = self.question.grain
        for steps in range(2):
            bound = (int(relaxed.value + (1 - SURE) * grain) // grain - steps) * grain
            for step in self._steps(relaxed, self.level):
                if self.question.proves(step, bound):
                    return max(0, bound), step
        return 0, None

    def _solve(self, level: int, opened: Open) -> Relaxed | None:
        return self.relaxation.solve(level, self.question.values, opened)

    def _tree(self, opened: Open, earlier: bool = True) -> Tree | None:
        """A proof of the target for the rows that are open; with ``earlier`` the earlier levels may strike out some."""
        self.steps -= 1
        if self.steps < 0:
            return None
        relaxed = self._solve(self.level, opened)
        if relaxed is None:
            return self._struck(range(self.level), opened)
        step, left = self._best(relaxed, self.level, opened)
        if left is None:
            return step
        if self._fewer(left, opened):
            rest = self._tree(left, earlier)
            return None if rest is None else replace(step, rest=rest)
        if earlier and self.level:
            return self._struck(range(self.level), opened) or self._cases(relaxed, opened)
        return self._cases(relaxed, opened)

    def _struck(self, levels: Sequence[int], opened: Open) -> Tree | None:
        """A proof that begins with what some earlier level strikes out, None where that is little."""
        for level in levels:
            relaxed = self._solve(level, opened)
            if relaxed is None:
                continue
            step, left = self._best(relaxed, level, opened)
            if left is None:
                return step
            if self._fewer(left, opened):
                rest = self._tree(left, level + 1 < self.level)
                return None if rest is None else replace(step, rest=rest)
        return None

    def _best(self, relaxed: Relaxed, level: int, opened: Open) -> tuple[Step, Open | None]:
        """The step of a relaxation for a level that leaves the fewest rows open, and these."""
        found: list[tuple[Step, Open]] = []
        for step in self._steps(relaxed, level):
            left = self.question.left(step, self.target, opened)
            if left is None:
                return step, None
            found.append((step, left))
        return min(found, key=lambda each: self._count(each[1]))

    def _steps(self, relaxed: Relaxed, level: int) -> list[Step]:
        """The dual values of a relaxation for a level, in several units."""
        later = (0,) * (self.level - level)
        found = []
        for unit in UNITS:
            earlier = tuple(max(0, round(each * unit)) for each in relaxed.earlier)
            counts = (*earlier, unit, *later)
            found.append(Step(counts[-1], counts[:-1], relaxed.dual_values(unit)))
        return found

    def _count(self, opened: Open) -> int:
        return sum(len(opened[number]) if number in opened else rows for number, rows in enumerate(self.rows))

    def _fewer(self, left: Open, opened: Open) -> bool:
        choices = [self._count(each) - len(self.rows) for each in (left, opened)]
        return choices[0] <= FEWER * choices[1] - 1

    def _cases(self, relaxed: Relaxed, opened: Open) -> Tree | None:
        undecided = self._undecided(relaxed)
        if undecided is None:
            return None
        (number, port), layout = undecided
        inside, outside = self.question.split(number, port, layout, opened)
        first = self._tree(inside)
        second = None if first is None else self._tree(outside)
        return None if first is None or second is None else Branch(number, port, layout, first, second)

    def _undecided(self, relaxed: Relaxed) -> tuple[Place, Layout] | None:
        """The layout of a port that is as far from decided as any."""
        shares: dict[tuple[Place, Layout], float] = {}
        for (number, row), share in relaxed.chosen.items():
            operator = self.question.problem.operators[number]
            for port, layout in enumerate(operator.rows[row].layouts):
                if not self.question.problem.variables[operator.ports[port]].constant:
                    key = ((number, port), layout)
                    shares[key] = shares.get(key, 0.0) + share
        undecided = [key for key, share in shares.items() if SURE < share < 1 - SURE]
        return min(undecided, key=lambda key: (round(abs(shares[key] - 0.5), 6), key), default=None)
