"""All groupings of some operators, stated once for all that are alike: networks repeat their blocks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.brought import brought_along
from layoutsolve.solver.statement.closure import Closure
from layoutsolve.solver.statement.entry import Entry, Orders
from layoutsolve.solver.statement.problem import LayoutProblem, Variable
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.theory.row import Row

LOOKED_UP = 20
"""The work of finding an operator among those of problems that were stated."""


class Repeated:
    """States problems of all groupings, and knows those that no limit has cut short."""

    def __init__(self, target: Target, timed: bool, most: int) -> None:
        """``most`` is how many layouts a variable may have."""
        self.target, self.timed, self.most = target, timed, most
        self._known: dict[Hashable, tuple[list[tuple[Row, ...]], bool]] = {}

    def problem(
        self,
        variables: Sequence[Variable],
        entries: Sequence[Entry],
        kept: Orders,
        moved: Collection[int],
        limit: Limit,
        enough: int | None,
    ) -> LayoutProblem:
        """The problem of some operators and all variables at them, over all groupings of the orders that are ``kept``;
        of the variables those that are ``moved`` may change their order. One of more rows than are ``enough`` is
        capped.
        """
        limit.spend(LOOKED_UP * len(entries))
        operators = tuple((self._entry(entry), tuple(rows)) for entry, rows in zip(entries, kept, strict=True))
        key = (operators, tuple(map(self._variable, variables)), tuple(sorted(moved)), enough)
        known = self._known.get(key)
        if known is not None:
            made = tuple(entry.operator(rows) for entry, rows in zip(entries, known[0], strict=True))
            return LayoutProblem(tuple(variables), made, known[1], self.target, self.timed)
        stated = Closure(
            variables,
            entries,
            self.target,
            self.timed,
            limit,
            self.most,
            kept=kept,
            moved=moved,
            complete=brought_along(variables, entries),
            enough=enough,
        ).problem()
        if not limit.over:
            self._known[key] = [operator.rows for operator in stated.operators], stated.capped
        return stated

    def _entry(self, entry: Entry) -> Hashable:
        """All that the rows of an operator depend on."""
        own, ways = tuple(entry.own.items()), () if entry.rule is None else entry.rule.ways
        kinds = tuple((way.form, self.target.named(entry.op, way)) for way in ways)
        return entry.op, kinds, entry.relations, own, entry.fixed, entry.free, tuple(entry.ports), entry.inputs

    @staticmethod
    def _variable(variable: Variable) -> Hashable:
        """The same of a variable."""
        readings = tuple(variable.readings.values())
        return variable.sizes, variable.bytes, readings, variable.constant, variable.turns
