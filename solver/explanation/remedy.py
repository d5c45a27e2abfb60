"""What would lead to fewer Transposes: other choices at the inputs and outputs of the graph, each tried by solving
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary, Fixed, chosen, tensor_named
from layoutsolve.solver.strategies.assign import assign
from layoutsolve.solver.theory.layout import Layout

END_KINDS = ("input", "output", "layout")
"""What a user may choose: how inputs and outputs are stored, and explicit layouts of tensors in between."""

SOLVES = 8
"""How often a model is solved again at most."""

Freeing = frozenset[tuple[str, str]]
"""Ends to leave to the solver, each by its kind and its tensor's name in the graph."""

Sides = tuple[Freeing | None, ...]
"""For both sides of a Transpose, what would free that side: None where an operator keeps it."""


@dataclass(frozen=True)
class Change:
    """Another choice for an input or output, by its public name, or an explicit layout to give up (``choice`` '').

    ``instead`` says that it takes the place of an explicit layout of that end. The kind 'strategy', with no tensor, is
    to let the solver find what a heuristic did not.
    """

    kind: str
    tensor: str
    choice: str
    instead: bool = False


@dataclass(frozen=True)
class Remedy:
    """Changes that, made together, lead to a model with ``transposes`` Transposes."""

    changes: tuple[Change, ...]
    transposes: int


@dataclass(frozen=True)
class Outcome:
    """What the trials showed: what helps, and whether the Transposes that nothing helps against are proven to stay.

    ``common`` is what helps all of them.
    """

    found: Mapping[Freeing, Remedy]
    proven: bool
    common: tuple[Remedy, ...] = ()

    def remedies(self, sides: Sides) -> tuple[Remedy, ...]:
        """What helps against a Transpose."""
        own = (self.found[side] for side in dict.fromkeys(sides) if side is not None and side in self.found)
        return (*self.common, *own)

    def necessary(self, sides: Sides) -> bool:
        """Whether a Transpose stays whatever the inputs and outputs are."""
        return self.proven and not self.remedies(sides)


class Trials:
    """Solves a graph again under changed boundaries, with the objective of an assignment.

    For what a heuristic found the first remedy is to solve; no other is tried.
    """

    def __init__(self, graph: Graph, boundary: Boundary, assignment: Assignment, limit: Limit) -> None:
        self.graph, self.boundary, self.assignment, self.limit = graph, boundary, assignment, limit
        self.given = {tensor_named(graph, name) for name in boundary.layouts}

    def run(self, moved: Sequence[Sides]) -> Outcome:
        """Try what would free a side of each Transpose, until nothing is left or :data:`SOLVES` is reached."""
        present, proven = self.assignment.price.transposes, self._proven(self.assignment)
        if self.assignment.status != "optimal" and self.assignment.strategy != "cpsat":
            fewest = self._solved(frozenset()).price.transposes
            remedy = Remedy((Change("strategy", "", "cpsat"),), fewest)
            return Outcome({}, False, (remedy,) if fewest < present else ())
        ends = self._fixed_ends()
        if not (moved and ends):
            return Outcome({}, proven)
        free = self._solved(ends)
        fewest, sure = free.price.transposes, proven and self._proven(free)
        if sure and fewest >= present:
            return Outcome({}, True)
        found: dict[Freeing, Remedy] = {}
        complete = True
        wanted = dict.fromkeys(side for sides in moved for side in sides if side is not None)
        for side in list(wanted)[: SOLVES - 1]:
            if side != ends and self.limit.expired:
                complete = False
                break
            solved = free if side == ends else self._solved(side)
            if solved.price.transposes < present:
                found[side] = Remedy(self._changes(side, solved), solved.price.transposes)
        staying = sum(not found.keys() & set(sides) for sides in moved)
        return Outcome(found, sure and complete and staying <= fewest)

    @staticmethod
    def _proven(assignment: Assignment) -> bool:
        """Whether all answers as good as this one have as many Transposes. An objective without a level of them alone
        proves less: Reshapes may stand for some.
        """
        return assignment.status == "optimal" and ("transposes",) in assignment.goal.levels

    def _fixed_ends(self) -> Freeing:
        """Everything that the user could leave to the solver and did not."""
        fixed = self.boundary.fixed(self.graph)
        inputs = {("input", name) for name, choice in fixed.inputs.items() if choice is not None}
        outputs = {
            ("output", name)
            for name, choice in fixed.outputs.items()
            if choice is not None and name not in fixed.inputs and self.graph.values[name].data is None
        }
        return frozenset(inputs | outputs | {("layout", name) for name in fixed.inner})

    def _solved(self, side: Freeing) -> Assignment:
        inputs, outputs, inner = ([name for kind, name in sorted(side) if kind == wanted] for wanted in END_KINDS)
        outputs += [name for name in inputs if name in self.graph.outputs]
        changed = self.boundary.freed(self.graph, inputs, outputs, inner)
        goal = self.assignment.goal
        return assign(self.graph, changed, objective=goal.objective, target=goal.target, limit=self.limit.part(1.0))

    def _changes(self, side: Freeing, solved: Assignment) -> tuple[Change, ...]:
        """What the solver chose for the freed ends, as it is asked for.

        To ask for what it chose is to get the same number of Transposes.
        """
        fixed = self.boundary.fixed(self.graph)
        stored = solved.ends
        changes = []
        for kind, name in sorted(side, key=lambda end: (END_KINDS.index(end[0]), end[1])):
            public = self.graph.names.get(name, name)
            choice = "" if kind == "layout" else _choice(self.graph, *stored[name, kind == "output"])
            if kind == "layout" or not _asked(self.graph, fixed, kind, name, choice):
                changes.append(Change(kind, public, choice, kind != "layout" and name in self.given))
        return tuple(changes)


def _asked(graph: Graph, fixed: Fixed, kind: str, name: str, choice: str) -> bool:
    """Whether that choice is what is asked for already."""
    asked = (fixed.inputs if kind == "input" else fixed.outputs)[name]
    if asked is None or choice == "free":
        return False
    return asked == chosen(graph, len(asked), choice)


def _choice(graph: Graph, logical: Layout, stored: Layout) -> str:
    """How an end that is stored so is asked for."""
    if stored == logical:
        return "keep"
    orders = {choice: chosen(graph, len(logical), choice) or () for choice in ("nchw", "nhwc")}
    return next((name for name, order in orders.items() if stored == tuple(logical[axis] for axis in order)), "free")
