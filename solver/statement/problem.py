"""The layout problem: plain data that states which layouts go together, and what moving between them costs.

A *variable* is a piece of data that some operator produces: a tensor together with all its views (Transpose and
Reshape of it), which are the same data read differently. A *row* of an operator says in which layouts it can take its
inputs together with the layouts in which it then gives its outputs. An assignment picks one row per operator.
Wherever a reader wants a variable in another layout than its producer gives, data is moved; all readers that want the
same layout share the move.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import FREE, Price, Row
from layoutsolve.solver.theory.variable import Variable

AT_ONCE = 250_000
"""How many conversions are sorted into classes at a time, for the memory that takes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A relation between variables. ``ports`` holds a variable's number per port, the first ``inputs`` of them are
    read.

    ``node`` is the number of the node in the graph, or -1 for an end of the graph: an input, an output, an explicit
    layout, which are relations on one variable alone; ``end`` then names the tensor. ``tensors`` are what a node has at
    its ports, each a reading of the port's variable. ``follows`` says that whatever order comes in at a port may pass
    through. ``title`` is for people.
    """

    title: str
    node: int
    ports: tuple[int, ...]
    inputs: int
    rows: tuple[Row, ...]
    end: str = ""
    tensors: tuple[str, ...] = ()
    follows: bool = False


@dataclass(frozen=True)
class Constant:
    """A constant that several ports read: the variable of each, and the bytes that one copy takes.

    One that is an ``output`` of the graph as well is stored as in the source model in any case.
    """

    variables: tuple[int, ...]
    bytes: int
    output: bool = False


PLAIN = Target("plain")
"""A runtime of which nothing is known: every row is native, and one Transpose is like another."""


@dataclass(frozen=True)
class LayoutProblem:
    """Layout problem (shared-conversion PBQP): variables, operators with their alternatives, and whether the candidate
    limit was reached (``capped``).

    ``target`` prices moves, in time as well where that counts (``timed``). ``constants`` are those that are wanted
    several times. With ``charged`` the moves of those variables alone cost what they do, others the least that any move
    of the variable might: the problem is one over orders, and its least price a lower bound.
    """

    variables: tuple[Variable, ...]
    operators: tuple[Operator, ...]
    capped: bool = False
    target: Target = PLAIN
    timed: bool = False
    constants: tuple[Constant, ...] = ()
    charged: frozenset[int] | None = None

    def move_price(self, variable: int, source: Layout, target: Layout) -> Price:
        """Cost of converting a variable from one layout to another; the time, which is slow to compute, is cached for
        all variables that are alike.
        """
        moved = self.variables[variable]
        least = not self.charges(variable) and order(source) != order(target)
        if least:
            return self.target.least_price(moved, self.timed)
        if not self.timed:
            return self.target.move_price(moved, source, target)
        known = self._prices.setdefault((moved.sizes, moved.bytes, moved.turns), {})
        if (source, target) not in known:
            known[source, target] = self.target.move_price(moved, source, target, timed=True)
        return known[source, target]

    @cached_property
    def _prices(self) -> dict[Hashable, dict[tuple[Layout, Layout], Price]]:
        """Those of moves with their time, where they were asked for."""
        return {}

    @cached_property
    def tables(self) -> dict[Hashable, dict[Hashable, Any]]:
        """By objective levels, those of what rows and moves cost (:mod:`layoutsolve.solver.search.cost_tables`)."""
        return {}

    def moves_to(self, variable: int, target: Layout) -> Mapping[Price, Sequence[Layout]]:
        """What moving a variable to a layout costs from those of other orders that it may be written in, which are few
        prices.
        """
        if (found := self._moves.get((variable, target))) is None:
            found = self._moves[variable, target] = {}
            for atoms, sources in self.written[variable].items():
                for source in sources if atoms != order(target) else ():
                    found.setdefault(self.move_price(variable, source, target), []).append(source)
        return found

    @cached_property
    def _moves(self) -> dict[tuple[int, Layout], dict[Price, list[Layout]]]:
        """Those that were asked for."""
        return {}

    @cached_property
    def written(self) -> Sequence[Mapping[Order, Sequence[Layout]]]:
        """For each variable the layouts that it may be written in, by order."""
        found: list[dict[Order, list[Layout]]] = [{} for _ in self.variables]
        for number, writer in enumerate(self.writers):
            rows = () if writer is None else self.operators[writer[0]].rows
            for layout in dict.fromkeys(row.layouts[writer[1]] for row in rows if writer is not None):
                found[number].setdefault(order(layout), []).append(layout)
        return found

    def losses(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> list[bytes]:
        """For each source the layout penalties of a move of a variable to each of the targets, a byte each, as
        their orders have them: a hindered move has more.
        """
        if self.charges(variable):
            return self.target.losses(sources, targets)
        return [bytes([self.target.least_lost]) * len(targets)] * len(sources)

    def times(self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]) -> Array:
        """For each source the nanoseconds of a Transpose of a variable to each of the targets: 0 where none count."""
        if self.timed and self.charges(variable):
            return self.target.times(self.variables[variable], sources, targets)
        least = self.target.least_price(self.variables[variable], self.timed).nanoseconds
        return np.broadcast_to(np.int64(least), (len(sources), len(targets)))

    def move_prices(
        self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout], reshapes: bool
    ) -> list[list[Price]]:
        """For each source the costs of converting a variable to each of the targets, at once for many conversions where
        ``reshapes`` do not count: they are left out there.
        """
        if reshapes:
            return [[self.move_price(variable, source, target) for target in targets] for source in sources]
        prices, numbers = self.move_classes(variable, sources, targets)
        return [[prices[number] for number in each] for each in numbers.tolist()]

    def move_classes(
        self, variable: int, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> tuple[list[Price], Array]:
        """The costs of converting a variable, without Reshapes, from cheap to dear, and for each source the number of
        that of a conversion to each of the targets: 0 where the order stays.
        """
        number = {atoms: place for place, atoms in enumerate(dict.fromkeys(map(order, (*sources, *targets))))}
        given, wanted = (np.array([number[order(each)] for each in some], np.intp) for some in (sources, targets))
        spent, size = self.times(variable, sources, targets), self.variables[variable].bytes
        lost = np.frombuffer(b"".join(self.losses(variable, sources, targets)), np.uint8).reshape(spent.shape)
        each, step = 1 + spent.max(initial=0), max(1, AT_ONCE // max(1, len(targets)))
        parts = [slice(begin, begin + step) for begin in range(0, max(1, len(sources)), step)]
        known = np.unique(np.concatenate([np.unique(lost[part] * each + spent[part]) for part in parts]))
        costs = (divmod(one, int(each)) for one in known.tolist())
        numbers = np.empty(spent.shape, np.int32)
        for part in parts:
            numbers[part] = 1 + np.searchsorted(known, lost[part] * each + spent[part])
        numbers[np.equal.outer(given, wanted)] = 0
        return [FREE, *(Price(1, hidden, 0, size, time) for hidden, time in costs)], numbers

    def charges(self, variable: int) -> bool:
        """Whether moves of a variable cost what they do, not the least that any of them might."""
        return self.charged is None or variable in self.charged

    @property
    def even(self) -> bool:
        """Whether all moves of a variable between different orders cost the same, so that none pays to make in two."""
        if self.charged is not None and not self.charged:
            return not self.target.least_lost
        return not self.timed and not any(self.target.lost)

    @property
    def uneven(self) -> bool:
        """Whether some move may cost more than others of its variable, so that an intermediate order may pay."""
        for variable in () if self.even else self.moving():
            found = [{row.layouts[port] for row in self.operators[at].rows} for at, port in self.places(variable)]
            wanted = set[Layout]().union(*found[1:])
            if self.writers[variable] is not None and wanted and self.loses(variable, found[0], wanted):
                return True
        return False

    def loses(self, variable: int, sources: Iterable[Layout], targets: Iterable[Layout]) -> bool:
        """Whether some move from one of the sources to one of the targets may cost more than others of the variable."""
        given, wanted = list(sources), list(targets)
        if self.timed:
            return self.charges(variable) and len(set(map(order, (*given, *wanted)))) > 1
        moved = self.variables[variable]
        if moved.counted and not moved.unhindered and any(() in layout for layout in (*given, *wanted)):
            return True
        return any(map(any, self.losses(variable, given, wanted)))

    @cached_property
    def writers(self) -> tuple[tuple[int, int] | None, ...]:
        """For each variable the operator and port that produces it, None for a constant."""
        found: list[tuple[int, int] | None] = [None] * len(self.variables)
        for number, operator in enumerate(self.operators):
            for port in range(operator.inputs, len(operator.ports)):
                found[operator.ports[port]] = (number, port)
        return tuple(found)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each variable the operators and ports that read it."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.variables]
        for number, operator in enumerate(self.operators):
            for port in range(operator.inputs):
                found[operator.ports[port]].append((number, port))
        return tuple(map(tuple, found))

    def places(self, variable: int) -> list[tuple[int, int]]:
        """The operators and ports at a variable: where it is produced, if it is, and then those that read it."""
        return [*filter(None, (self.writers[variable],)), *self.readers[variable]]

    def charging(self, charged: frozenset[int] | None) -> LayoutProblem:
        """The same problem, in which other variables have exact conversion costs."""
        made = replace(self, charged=charged)
        known = vars(self)
        vars(made).update(
            {name: known[name] for name in ("writers", "readers", "written", "_prices", "tables") if name in known}
        )
        return made

    def moving(self) -> list[int]:
        """The variables whose moves cost something: those that are not constant."""
        return [number for number, variable in enumerate(self.variables) if not variable.constant]


def chosen(problem: LayoutProblem, rows: Sequence[int], number: int) -> Row:
    """The row that a list of choices gives an operator."""
    return problem.operators[number].rows[rows[number]]
