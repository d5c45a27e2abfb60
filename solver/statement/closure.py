"""Closure: the rows of all operators, found by pushing every layout through every operator that touches it.

It starts at what is fixed: the ends of the graph, explicit layouts, and operators with a fixed data format. Each of
their layouts is pushed through the relations of all operators that touch the variable, until nothing new appears.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import factorial

from layoutsolve.errors import OptionError
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.entry import Entry, Orders
from layoutsolve.solver.statement.generator import Generator
from layoutsolve.solver.statement.memo import Shared, Walker
from layoutsolve.solver.statement.problem import LayoutProblem, Operator, Variable
from layoutsolve.solver.statement.stops import BLOCKS, every_order
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.theory.layout import Group, Layout, Order, finest, in_place, order, whole
from layoutsolve.solver.theory.relation import Arranged
from layoutsolve.solver.theory.row import Row

OTHERS = 2
"""How many layouts a variable may have that do not show what is wanted, where something is."""

WITH_STOPS = 4
"""How many times as many layouts a variable may have where slow moves may be made in two."""


class Closure:
    """Finds the rows of all operators: every layout is pushed through every operator that touches its variable."""

    def __init__(
        self,
        variables: Sequence[Variable],
        entries: Sequence[Entry],
        target: Target,
        timed: bool,
        limit: Limit,
        most: int,
        finest_only: bool = False,
        kept: Orders | None = None,
        seeded: bool = False,
        shown: Sequence[Collection[Order]] | None = None,
        enough: int | None = None,
    ) -> None:
        """Where orders are to be ``kept``, they are suggested to operators that nothing else leads to them, with
        ``seeded`` to all. Where it is said what is to be ``shown`` of each, orders of some atoms, other layouts are
        few. A problem of more rows than are ``enough`` is of no use: it ends, ``capped``, where it has them.
        """
        self.enough, self.count = enough, 0
        self.shown, self.others = shown, Counter[int]()
        self.seeded = seeded
        self.variables, self.entries, self.finest_only, self.kept = variables, entries, finest_only, kept
        self.target, self.timed = target, timed
        self.limit, self.most = limit, most
        self.charged: frozenset[int] | None = None
        self.capped = False
        self.rows: list[list[Row]] = [[] for _ in self.entries]
        self.stated: list[Operator | None] = [None for _ in self.entries]
        self.tuples: dict[tuple[int, ...], tuple[Row, ...]] = {}
        self.shared: dict[object, Shared] = {}
        self.moving: list[list[int] | None] = [None for _ in self.entries]
        self.wanted: list[set[tuple[Order, ...]]] = [set() for _ in self.entries]
        self.generators = [self._walker(number, limit) for number in range(len(self.entries))]
        self.seen: list[dict[Layout, None]] = [{} for _ in self.variables]
        self.queue: deque[tuple[int, Layout]] = deque()
        self.several: dict[int, dict[Order, None]] = {}
        self.reordered: dict[tuple[int, frozenset[Group]], list[Layout]] = {}
        self.alike: list[list[object]] = [self._alike(entry) for entry in self.entries]
        self.pushed: set[tuple[int, object, Layout]] = set()
        self.touching: list[list[tuple[int, int]]] = [[] for _ in self.variables]
        for number, entry in enumerate(self.entries):
            for port, variable in enumerate(entry.ports):
                if not self.variables[variable].constant:
                    self.touching[variable].append((number, port))

    def _walker(self, number: int, limit: Limit) -> Walker | None:
        """What finds the rows of an operator, shared by all that are alike; None for one that has no relation."""
        entry = self.entries[number]
        if entry.rule is None or entry.relations is None:
            return None
        found, ports, outputs = entry.rule, entry.relations, len(entry.ports) - entry.inputs
        finest_only = self.finest_only  # what makes a generator must not hold the closure: nothing would free the two
        size = max((self.variables[variable].bytes for variable in entry.ports), default=0) if self.timed else 0
        kinds, exact = tuple(self.target.named(entry.op, way) for way in found.ways), self.kept is not None
        seen = not any(port.unseen for port in ports)
        weigh = self.target.weigh(entry.op, kinds, size, seen)
        alike = (entry.op, size, kinds) if weigh else ()
        forms, own = found.forms, entry.own
        key = (limit, alike, forms, ports, *own.items())

        def make() -> Generator:
            return Generator(ports, forms, outputs, limit, finest_only, exact, weigh, own)

        if key not in self.shared:
            self.shared[key] = Shared(make)
        return self.shared[key].walker(limit)

    def problem(self) -> LayoutProblem:
        """The problem with the rows that all layouts together lead to."""
        for number, entry in enumerate(self.entries):
            if self._in_vain and self.kept is not None:
                break
            generator = self.generators[number]
            self._found(number, self._coarse(entry.fixed))
            self._found(number, () if generator is None else generator.start())
        for variable, each in enumerate(self.variables):
            for logical in each.readings.values():
                self._rearranged(variable, logical)
        self._exhaust()
        sure = unlimited()
        for number, generator in enumerate(self.generators):
            if self.kept is not None and (self.seeded or not self._reaches(number)):
                seeding = self._walker(number, sure) if self.capped else generator
                for row in self.kept[number]:
                    if not self._in_vain:
                        self._seed(number, row.layouts, seeding)
                self._exhaust()
        return self._problem()

    def suggested(self, number: int, layouts: Mapping[int, Layout]) -> list[Row]:
        """The rows of an operator that layouts at some ports lead to, and those that it demands by itself."""
        generator = self.generators[number]
        if generator is None:
            return []
        found = list(generator.start())
        for port, layout in layouts.items():
            found += generator.push(port, layout)
        return found

    def charging(self, charged: Collection[int], limit: Limit, most: int = BLOCKS) -> LayoutProblem:
        """The problem in which moves of some variables alone cost what they do, which have all orders of at ``most`` so
        many blocks. It goes on from the problem that is stated, whose operators it shares but for those that get more
        rows.
        """
        made = self._going_on(limit, max(self.most, factorial(most)) * WITH_STOPS)
        made.charged = made._with_stops(sorted(charged), most)
        return made._problem()

    def _going_on(self, limit: Limit, most: int) -> Closure:
        """A copy with what is found so far, in which a variable may have so many layouts."""
        made = copy(self)
        made.limit, made.most = limit, most
        made.generators = [each and each.copy(limit) for each in self.generators]
        made.rows, made.seen = list(map(list, self.rows)), list(map(dict, self.seen))
        made.stated, made.pushed, made.queue = list(self.stated), set(self.pushed), deque()
        return made

    def _problem(self) -> LayoutProblem:
        operators = tuple(self._operator(number) for number in range(len(self.entries)))
        self.capped |= self.limit.over
        return LayoutProblem(
            tuple(self.variables), operators, self.capped, self.target, self.timed, charged=self.charged
        )

    def _operator(self, number: int) -> Operator:
        """An operator with its rows and, last, those of the source model, which lead to nothing."""
        stated = self.stated[number]
        if stated is None:
            entry, generator, rows = self.entries[number], self.generators[number], self.rows[number]
            if generator is not None:
                ended = generator.copy(self.limit)
                rows = rows + self._keeping(number, ended.source())
                self.capped |= ended.capped
            if not rows and self.kept is None:
                refused = f"target '{self.target.name}' refuses every row of {entry.op} of {entry.title}"
                raise OptionError(f"{refused}: choose another target")
            same = self.tuples.setdefault(tuple(map(id, rows)), tuple(rows))
            stated = self.stated[number] = entry.operator(same)
        return stated

    def _coarse(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows as they are told apart: by orders alone, or by groupings too."""
        if not self.finest_only:
            return rows
        return [replace(row, layouts=tuple(map(finest, row.layouts))) for row in rows]

    @property
    def _in_vain(self) -> bool:
        """Whether there are more rows than are of use."""
        if self.enough is None or self.count <= self.enough:
            return False
        self.capped = True
        return True

    def _reaches(self, number: int) -> bool:
        """Whether an operator has a row that loses nothing."""
        return any(not (row.price.hidden or row.price.transposes or row.price.nanoseconds) for row in self.rows[number])

    def _seed(self, number: int, kept: Sequence[Layout], generator: Walker | None) -> None:
        """No layout that is demanded, or was found in time, leads to the orders to be kept at no loss: suggest those
        orders themselves. Where every row loses, groupings of them may save Reshapes.
        """
        for port, layout in enumerate(kept):
            if not self.variables[self.entries[number].ports[port]].constant:
                for suggested in dict.fromkeys((finest(layout), layout)):
                    self._found(number, self._pushed(number, port, suggested, generator))
        if generator is not None:
            self._found(number, generator.rest())

    def _exhaust(self) -> None:
        while self.queue:
            variable, layout = self.queue.popleft()
            for number, port in self.touching[variable]:
                if self.limit.over or self._in_vain:
                    self.capped = True
                    self.queue.clear()
                    return
                self.limit.spend(2)
                self._found(number, self._pushed(number, port, layout, self.generators[number]))

    def _with_stops(self, charged: Sequence[int], most: int) -> frozenset[int]:
        """Suggest all orders of some variables, and of what those lead to, of at most so many blocks; the variables
        that now have all of them.
        """
        while not self.capped:
            every = {variable: every_order(self.seen[variable], most) for variable in charged}
            charged = [variable for variable, orders in every.items() if orders is not None]
            fresh = [self._suggest(variable, each) for variable in charged for each in every[variable] or ()]
            if not any(fresh):
                break
            self._exhaust()
        return frozenset(charged)

    def _alike(self, entry: Entry) -> list[object]:
        """For each port of an operator what a layout suggested at it leads to depends on: alike ones need it once."""
        found, relations = entry.rule, entry.relations
        if found is None or relations is None or entry.own or not entry.follows:
            return list(range(len(entry.ports)))
        pinned = [form.pinned for form in found.forms if isinstance(form, Arranged)]
        return [(port, *(number in each for each in pinned)) for number, port in enumerate(relations)]

    def _pushed(self, number: int, port: int, layout: Layout, generator: Walker | None) -> Sequence[Row]:
        if generator is not None:
            push = (number, self.alike[number][port], layout)
            if push in self.pushed and generator is self.generators[number]:
                return []
            self.pushed.add(push)
            return generator.push(port, layout)
        return self._coarse(self.entries[number].following(port, layout))

    def _found(self, number: int, rows: Iterable[Row]) -> None:
        """Add rows to an operator, and suggest their layouts to all others that touch its variables."""
        entry = self.entries[number]
        for row in self._keeping(number, rows):
            self.limit.spend(len(entry.ports))
            if self.generators[number] is None and row in self.rows[number]:
                continue
            self.rows[number].append(row)
            self.count += 1
            self.stated[number] = None
            for variable, layout in zip(entry.ports, row.layouts, strict=True):
                self._suggest(variable, layout)

    def _suggest(self, variable: int, layout: Layout) -> bool:
        """Have a layout pushed, unless it was, with what a Transpose makes of it; whether it is."""
        fresh = self._noted(variable, layout)
        if fresh:
            self._rearranged(variable, layout)
        return fresh

    def _noted(self, variable: int, layout: Layout) -> bool:
        """The same of a layout alone, without what a Transpose makes of it."""
        seen = self.seen[variable]
        if self.variables[variable].constant or layout in seen:
            return False
        other = self.shown is not None and not _shows(layout, self.shown[variable])
        if len(seen) >= self.most or (other and self.others[variable] >= OTHERS):
            self.capped = True
            return False
        seen[layout] = None
        self.others[variable] += other
        self.queue.append((variable, layout))
        return True

    def _rearranged(self, variable: int, layout: Layout) -> None:
        """Suggest the stored dimensions of a layout in all orders that are to be kept: a Transpose that keeps these
        needs no Reshape.

        What that leads to is suggested as well, one after the other: there may be more of it than calls can nest.
        """
        pending = [self._reordered(variable, layout)]
        while pending:
            fresh = next(pending[-1], None)
            if fresh is None:
                pending.pop()
            elif self._noted(variable, fresh):
                pending.append(self._reordered(variable, fresh))

    def _reordered(self, variable: int, layout: Layout) -> Iterator[Layout]:
        """The stored dimensions of a layout in all orders that are to be kept and keep these.

        Which those are is one question for all layouts that store the same dimensions in any sequence.
        """
        wanted = self._wanted(variable)
        if not wanted:
            return
        solid = tuple(filter(None, layout))
        key = variable, frozenset(solid)
        if key not in self.reordered:
            self.reordered[key] = [each for atoms in wanted if (each := whole(solid, atoms)) is not None]
        for each in self.reordered[key]:
            yield in_place(layout, each)

    def _wanted(self, variable: int) -> dict[Order, None]:
        """The orders of a variable that are to be kept, where there are several."""
        if self.kept is None:
            return {}
        if variable not in self.several:
            rows = ((row, port) for number, port in self.touching[variable] for row in self.kept[number])
            found = {order(row.layouts[port]): None for row, port in rows}
            self.several[variable] = found if len(found) > 1 else {}
        return self.several[variable]

    def _keeping(self, number: int, rows: Iterable[Row]) -> list[Row]:
        """Those rows that have the orders to be kept."""
        rows = list(rows)
        if self.kept is None or not rows:
            return rows
        moving = self._moving(number)
        return [row for row in rows if _orders(row, moving) in self.wanted[number]]

    def _moving(self, number: int) -> list[int]:
        """The ports of an operator that move; then it is known which orders they are to have."""
        moving = self.moving[number]
        if moving is None:
            ports = enumerate(self.entries[number].ports)
            moving = self.moving[number] = [port for port, each in ports if not self.variables[each].constant]
            self.wanted[number] = {_orders(row, moving) for row in ([] if self.kept is None else self.kept[number])}
        return moving


def _shows(layout: Layout, wanted: Collection[Order]) -> bool:
    """Whether a layout has some of its atoms in one of the wanted orders."""
    atoms = {atom for each in wanted for atom in each}
    return tuple(atom for atom in order(layout) if atom in atoms) in wanted


def _orders(row: Row, ports: Sequence[int]) -> tuple[Order, ...]:
    return tuple(order(row.layouts[port]) for port in ports)
