"""A layout problem stated anew for layouts that somebody recorded, with all that is claimed of them as questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from layoutsolve.errors import CertificateError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.proof.tree import Question
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.backend_markers import fixed, marked
from layoutsolve.solver.statement.backends import crossings, priced, unmarked
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import Goal, Levels, coarse_levels, ranked, without_groupings
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.row import Arrangement, Price, Row

Layouts = tuple[Layout, ...]


@dataclass(frozen=True)
class Restated:
    """The problem over layouts, ``fine``: with the recorded orders, where these are chosen before groupings.

    ``alike`` has for each operator the rows with the recorded layouts, in a fixed order: ways to run it may share them.
    The problem over orders is the one in which moves of the ``charged`` variables alone cost what they do, or layouts
    leave out the ``unseen`` factors. Where backends are chosen it is that of a graph with markers, beside ``bare``.
    """

    bare: Graph
    statement: Statement
    goal: Goal
    fine: LayoutProblem
    alike: tuple[tuple[int, ...], ...]
    charged: tuple[int, ...]
    unseen: tuple[int, ...]

    def assignment(self, which: Sequence[int]) -> Assignment:
        """The recorded assignment, given which of the rows that are alike each operator has, without markers."""
        for operator, alike, one in zip(self.fine.operators, self.alike, which, strict=True):
            if not 0 <= one < len(alike):
                raise _unknown(operator)
        rows = tuple(alike[one] for alike, one in zip(self.alike, which, strict=True))
        graph, total = self.statement.graph, price(self.fine, rows)
        rules = self.statement.rules
        found = Assignment(graph, rules, self.fine, rows, total, self.goal, "recorded")
        return priced(found) if graph is self.bare else unmarked(found, self.bare)

    def ways(self, rows: Sequence[Row]) -> list[int]:
        """Which of the rows that are alike each of some rows is."""
        found = []
        for operator, alike, row in zip(self.fine.operators, self.alike, rows, strict=True):
            known = [_way(operator.rows[number]) for number in alike]
            if _way(row) not in known:
                raise _unknown(operator)
            found.append(known.index(_way(row)))
        return found

    @staticmethod
    def inside(found: Assignment) -> int:
        """The layout penalties that kernels make, what crosses, and Transposes that are not executed, so that no file
        shows them.
        """
        own = [found.row(number).price for number in range(len(found.rows))]
        crossing = sum(each.price for each in crossings(found)) if found.goal.target.chooses else 0
        return crossing + sum(each.hidden for each in own if not each.transposes or each.hidden < 0)

    @property
    def claimed(self) -> Levels:
        """Levels with a claimed bound: not duplicated initializers, which are only counted."""
        return self.goal.levels[:-1]

    def questions(self, total: Price) -> list[Question]:
        """How low each level can be where those before it are no higher than in some price.

        Orders decide all but the Reshapes, where these come last: of them the question is how few they can be in the
        recorded orders. Where they come first together with others, orders bound what has no Reshapes: candidates of
        groupings are never all that there are.
        """
        values, coarse = ranked(total, self.claimed), coarse_levels(self.goal.levels)
        decided = len(coarse) if coarse is not None else 0 if total.reshapes else len(self.claimed)
        free, levels = not any(values[:decided]), without_groupings(self.claimed)
        return [
            Question(self._orders, levels[: count + 1], values[:count])
            if count < decided and not free
            else Question(self.fine, self.claimed[: count + 1], values[:count])
            for count in range(len(self.claimed))
        ]

    @cached_property
    def _orders(self) -> LayoutProblem:
        """The problem over orders. Nothing is cheaper than what costs nothing, so that it is not always needed."""
        if self.unseen:
            return self.statement.projected(self.unseen)
        return self.statement.orders(charged=self.charged)


def restate(
    graph: Graph,
    boundary: Boundary,
    goal: Goal,
    recorded: Sequence[Layouts],
    charged: Collection[int] = (),
    unseen: Collection[int] = (),
) -> Restated:
    """State the problem of a graph with its concatenations in steps, and find the rows with the recorded layouts in it.

    Raises :class:`CertificateError` where there are none, or where nothing moves what is ``charged``, or factors are
    left out beside.
    """
    bare = in_steps(graph)
    marking = marked(bare, goal.target)
    statement = Statement(marking, boundary if marking is bare else fixed(boundary, marking), goal)
    _check_shapes(statement.source(), recorded)
    kept = None if coarse_levels(goal.levels) is None else [[Row(layouts)] for layouts in recorded]
    fine = _with_recorded(statement, statement.layouts(kept), recorded)
    alike = tuple(_alike(operator, layouts) for operator, layouts in zip(fine.operators, recorded, strict=True))
    if charged and unseen:
        raise CertificateError("the certificate charges moves in a problem that leaves factors out")
    if not set(charged) <= set(fine.moving()):
        raise CertificateError("the certificate charges moves of what the source does not compute")
    return Restated(bare, statement, goal, fine, alike, tuple(sorted(charged)), tuple(sorted(unseen)))


def _with_recorded(statement: Statement, problem: LayoutProblem, recorded: Sequence[Layouts]) -> LayoutProblem:
    """The problem with rows of the recorded layouts wherever these are possible: of dimensions of size 1 the source may
    have so many that nothing tells which of them lead to a row.
    """
    operators = [
        operator
        if any(row.layouts == layouts for row in operator.rows)
        else replace(operator, rows=(*operator.rows, *_suggested(statement, number, layouts)))
        for number, (operator, layouts) in enumerate(zip(problem.operators, recorded, strict=True))
    ]
    return replace(problem, operators=tuple(operators))


def _suggested(statement: Statement, number: int, layouts: Layouts) -> list[Row]:
    """The rows of an operator that have some layouts."""
    return [row for row in statement.suggested(number, dict(enumerate(layouts))) if row.layouts == layouts]


def _check_shapes(problem: LayoutProblem, recorded: Sequence[Layouts]) -> None:
    """Every operator needs a row, with a layout of the right atoms for every port."""
    if len(recorded) != len(problem.operators):
        raise CertificateError(f"the source has {len(problem.operators)} operators, the certificate {len(recorded)}")
    for operator, layouts in zip(problem.operators, recorded, strict=True):
        atoms = [list(range(len(problem.variables[variable].sizes))) for variable in operator.ports]
        if [sorted(order(layout)) for layout in layouts] != atoms:
            raise _unknown(operator)


def _unknown(operator: Operator) -> CertificateError:
    return CertificateError(f"operator '{operator.title}' cannot run in the layouts that the certificate records")


def _alike(operator: Operator, layouts: Layouts) -> tuple[int, ...]:
    """The rows with some layouts, each way to run an operator once."""
    found: dict[tuple[int, Arrangement], int] = {}
    for number, row in enumerate(operator.rows):
        if row.layouts == layouts:
            found.setdefault(_way(row), number)
    if not found:
        raise _unknown(operator)
    return tuple(found[way] for way in sorted(found))


def _way(row: Row) -> tuple[int, Arrangement]:
    """What an operator is written by, beside the layouts of its ports."""
    return row.form, row.arrangement
