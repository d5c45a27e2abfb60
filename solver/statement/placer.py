"""The rows of a relation in which every port has its stored dimensions in a fixed sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.theory.layout import Layout, finest
from layoutsolve.solver.theory.relation import Placed, Port, cut, parted
from layoutsolve.solver.theory.row import Arrangement, Row, Slot


@dataclass(frozen=True)
class _Frame:
    """What surrounds the fixed dimensions of a :class:`Placed` relation."""

    prefix: Arrangement
    suffix: tuple[Slot, ...]


Key = tuple[str, ...]
"""Labels whose factors are ordered together: one label, or a run of free ones in a mixed place."""


@dataclass(frozen=True, eq=False)
class _Choice:
    """One way to fill the places of a :class:`Placed` relation."""

    frame: _Frame
    orders: Mapping[Key, tuple[Slot, ...]]


_Learned = tuple[_Frame | None, tuple[tuple[Key, tuple[Slot, ...]], ...]]
"""What a reading says."""


class Placer:
    """The rows of a :class:`Placed` relation.

    What a layout suggests at one port is combined with all that is known about the labels which that port does not
    have.
    """

    def __init__(self, ports: tuple[Port, ...], form: Placed, exact: bool, limit: Limit) -> None:
        self.ports, self.form, self.exact, self.limit = ports, form, exact, limit
        self.slots: dict[str, list[Slot]] = {}
        for slot in dict.fromkeys(slot for port in ports for slot in port.atoms):
            self.slots.setdefault(slot[0], []).append(slot)
        places = {place for port in form.places for place in port}
        self.keys = {place: self._runs(place) for place in places}
        self.runs = keys = sorted({key for found in self.keys.values() for key in found})
        self.counts = {key: len(self.logical(key)) for key in keys if form.free.issuperset(key)}
        self.around = frozenset(self.logical(form.prefix))
        self.choices = set[tuple[object, ...]]()
        self.listed: list[_Choice] = []
        self.met: dict[_Learned, int] = {}
        self.waiting: dict[int, Row] = {}
        self.last: list[_Learned] = []
        self.places: list[dict[Layout, list[int]]] = [{} for _ in ports]
        self._add(self._logical_frame(), {key: self.logical(key) for key in keys})

    def _runs(self, place: tuple[str, ...]) -> tuple[Key, ...]:
        if not self.form.mixed:
            return tuple((label,) for label in place)
        return tuple(tuple(run) for _, run in groupby(place, self.form.free.__contains__))

    def start(self) -> list[Row]:
        taken = list(self.waiting.values())
        self.waiting.clear()
        return taken

    def push(self, port: int, layout: Layout, readings: Iterable[Arrangement]) -> list[Row]:
        """The rows that this layout makes useful: those that have it (or its order) at the port. Others wait.

        What was learned before has been combined with all choices that were known then.
        """
        self.last.clear()
        for reading in readings:
            frame, orders = self._learn(port, reading)
            learned = (frame, tuple(orders.items()))
            self.last.append(learned)
            others = self.listed[self.met.get(learned, 0) :]
            for choice in others[: self.limit.granted(len(others))]:
                self._add(frame or choice.frame, {**choice.orders, **orders})
            self.met[learned] = len(self.listed)
        found = self.places[port].pop(self._key(layout), [])
        return [self.waiting.pop(number) for number in found if number in self.waiting]

    def others(self, wanted: Callable[[Row], bool]) -> list[Row]:
        """The wanted ones of those rows that say what the layout pushed last does, but have others, and still wait."""
        found = [
            number
            for number, row in self.waiting.items()
            if wanted(row) and any(_agrees(self.listed[number - 1], each) for each in self.last)
        ]
        return [self.waiting.pop(number) for number in found]

    def _add(self, frame: _Frame, orders: dict[Key, tuple[Slot, ...]]) -> None:
        """Let the row of a choice wait until one of its layouts is suggested."""
        choice = (frame.prefix, frame.suffix, *orders.items())
        if choice not in self.choices:
            self.choices.add(choice)
            self.listed.append(_Choice(frame, orders))
            row, number = self.row(frame.prefix, frame.suffix, orders), len(self.listed)
            self.waiting[number] = row
            for layout, places in zip(row.layouts, self.places, strict=True):
                places.setdefault(self._key(layout), []).append(number)

    def _key(self, layout: Layout) -> Layout:
        """What of a layout has to be suggested: all of it or, in its finest grouping, its order."""
        return layout if self.exact else finest(layout)

    def logical(self, key: Key) -> tuple[Slot, ...]:
        """The factors of some labels in their own sequence."""
        return tuple(slot for label in key for slot in self.slots.get(label, ()))

    def _learn(self, port: int, reading: Arrangement) -> tuple[_Frame | None, dict[Key, tuple[Slot, ...]]]:
        """What a reading says of the orders of free labels, and of what surrounds the places, where it shows all of
        it.
        """
        sequence = [slot for group in reading for slot in group]
        orders = {}
        for key, count in self.counts.items():
            if count > 1:
                found = tuple(slot for slot in sequence if slot[0] in key)
                if len(found) == count:
                    orders[key] = found
        whole = bool(self.form.prefix) and self.around.issubset(sequence)
        return (self._frame(port, reading) if whole else None), orders

    def _frame(self, port: int, reading: Arrangement) -> _Frame:
        """What comes before the operator's own dimensions and, where the form allows it, what comes after.

        Own dimensions of size 1 are taken to be the last ones of size 1: else each reading would be one longer.
        """
        groups: list[tuple[Slot, ...]] = []
        after: list[Slot] = []
        passed = False
        for group in reading:
            kept = tuple(slot for slot in group if slot[0] in self.form.prefix)
            if self.form.suffix and passed:
                after += kept
            elif kept or not (group or passed):
                groups.append(kept)
            passed |= len(kept) < len(group)
        own = 0 if passed else len(self.form.places[port]) + self.form.suffix
        while own and groups and groups[-1] == ():
            groups.pop()
            own -= 1
        return _Frame(cut(groups, partial(parted, self.ports)), tuple(after))

    def _logical_frame(self) -> _Frame:
        return _Frame(tuple((slot,) for slot in self.logical(self.form.prefix)), ())

    def row(self, prefix: Arrangement, suffix: tuple[Slot, ...], orders: Mapping[Key, tuple[Slot, ...]]) -> Row:
        """The row with something before the places, something behind, and some orders of what is in them."""
        frame = _Frame(prefix, suffix)
        layouts = tuple(self._layout(number, frame, orders) for number in range(len(self.ports)))
        return Row(layouts, arrangement=prefix, price=self.form.price)

    def _layout(self, number: int, frame: _Frame, orders: Mapping[Key, tuple[Slot, ...]]) -> Layout:
        port = self.ports[number]
        outer = number not in self.form.columns
        leading = tuple(port.expand(group) for group in frame.prefix) if outer else ()
        trailing = (port.expand(frame.suffix),) if outer and self.form.suffix else ()
        places = (
            port.expand(slot for key in self.keys[place] for slot in orders[key]) for place in self.form.places[number]
        )
        return (*leading, *places, *trailing)


def _agrees(choice: _Choice, learned: _Learned) -> bool:
    """Whether a choice is as a reading says."""
    frame, orders = learned
    return frame in (None, choice.frame) and set(orders) <= choice.orders.items()
