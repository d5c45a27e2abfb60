"""The rows of a relation in which every port has its stored dimensions in a fixed sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial
from itertools import chain, groupby, islice, product
from math import prod
from typing import Any, NamedTuple

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.unenumerated_operators import Relation
from layoutsolve.solver.theory.layout import Layout, finest
from layoutsolve.solver.theory.relation import Placed, cut, parted
from layoutsolve.solver.theory.row import Arrangement, Row, Slot


class Frame(NamedTuple):
    """What surrounds the fixed dimensions of a :class:`Placed` relation."""

    prefix: Arrangement
    suffix: tuple[Slot, ...]


Key = tuple[str, ...]
"""Labels whose factors are ordered together: one label, or a run of free ones in a mixed place."""

Choice = tuple[Any, ...]
"""A placement: what surrounds the places, and then the sequence of the factors of each key."""


class Placements:
    """The rows of one of the forms of a relation, and its number there.

    What a layout suggests at one port is combined with all that is known about the labels which that port does not
    have.
    """

    def __init__(self, relation: Relation, number: int, form: Placed, limit: Limit, exact: bool) -> None:
        self.ports = ports = relation.own.get(number, relation.ports)
        self.form, self.number, self.limit, self.exact = form, number, limit, exact
        self.turned = [self._turned(port) for port in range(len(ports))] if form.turned else []
        self.waiting: dict[Choice, None] = {}
        self.last: list[Choice] = []
        self.slots: dict[str, list[Slot]] = {}
        for slot in dict.fromkeys(slot for port in ports for slot in port.atoms):
            self.slots.setdefault(slot[0], []).append(slot)
        places = {place for port in form.places for place in port}
        self.keys = {place: self._runs(place) for place in places}
        self.runs = keys = sorted({key for found in self.keys.values() for key in found})
        labels = Counter(chain.from_iterable(keys))
        free = {label for label in form.free if labels[label] == 1}  # others lie elsewhere in their own sequence
        self.counts = {key: len(self.logical(key)) for key in keys if free.issuperset(key)}
        self.around = frozenset(self.logical(form.prefix))
        runs = ((place, key, self.counts.get(key, 0)) for place, key in enumerate(keys, 1))
        self.several = [each for each in runs if each[2] > 1]
        self.learns = bool(form.prefix or self.several)
        self.places: list[dict[Layout, list[Choice]]] = [{} for _ in ports]
        self.filled: list[dict[Choice, Layout]] = [{} for _ in ports]
        at = {key: place for place, key in enumerate(keys, 1)}
        self.shown = [[0, *(at[key] for place in own for key in self.keys[place])] for own in form.places]
        frame = Frame(tuple((slot,) for slot in self.logical(form.prefix)), ())
        self.source: Choice = (frame, *map(self.logical, keys))
        self.known: list[list[Any]] = [[part] for part in self.source]
        self._add(self.source)

    def _runs(self, place: tuple[str, ...]) -> tuple[Key, ...]:
        if not self.form.mixed:
            return tuple((label,) for label in place)
        return tuple(tuple(run) for _, run in groupby(place, self.form.free.__contains__))

    def copy(self) -> Placements:
        """The same, to which nothing was pushed, as to this one."""
        made = copy(self)
        made.waiting, made.last, made.known = dict(self.waiting), [], [[*parts] for parts in self.known]
        made.places = [{layout: [*choices] for layout, choices in each.items()} for each in self.places]
        return made

    def start(self) -> list[Row]:
        return self._taken([*self.waiting])

    def _taken(self, choices: Iterable[Choice]) -> list[Row]:
        """The rows of some choices, which wait no longer."""
        rows = {choice: self.row(choice) for choice in choices}
        for choice in rows:
            del self.waiting[choice]
        return list(rows.values())

    def push(self, port: int, layout: Layout, readings: Iterable[Arrangement]) -> list[Row]:
        """The rows that this layout makes useful: those that have it, or its order, at the port. Others wait. A turned
        form demands its own sequence where a layout shows how it is turned.

        What is new in it is combined with all that is known of the rest.
        """
        readings = tuple(readings)
        self.last.clear()
        self._learn_from(port, readings)
        found = [choice for choice in self.places[port].pop(self._key(layout), []) if choice in self.waiting]
        if self.turned and self.source in self.waiting and any(self._turns(port, each) for each in readings):
            found.append(self.source)
        return self._taken(found)

    def _turned(self, port: int) -> list[str]:
        """The labels of a port that are turned, in the form's sequence; none where that is the usual one."""
        there = self.form.turned & {label for label, _ in self.ports[port].atoms}
        turned = [label for place in self.form.places[port] for label in place if label in there]
        return turned if turned != sorted(turned) else []

    def _turns(self, port: int, reading: Arrangement) -> bool:
        """Whether a reading has the labels that are turned in the form's sequence."""
        turned, labels = self.turned[port], dict.fromkeys(label for label, _ in chain.from_iterable(reading))
        return bool(turned) and turned == [label for label in labels if label in turned]

    def _learn_from(self, port: int, readings: Iterable[Arrangement]) -> None:
        """Combine what is new in a layout with all that is known of the rest."""
        for reading in readings:
            learned = self._learn(port, reading)
            self.last.append(learned)
            for place, part in enumerate(learned):
                if part is None or part in self.known[place]:
                    continue
                self.known[place].append(part)
                parts = [[part] if each == place else known for each, known in enumerate(self.known)]
                for choice in islice(product(*parts), self.limit.granted(prod(map(len, parts)))):
                    self._add(choice)

    def others(self, wanted: Callable[[Row], bool]) -> list[Row]:
        """The wanted ones of the alternatives that have the layout propagated last, but have others, and still wait;
        none of a form with permuted space, which costs as much as its original.
        """
        if self.form.turned:
            return []
        said = [[(place, part) for place, part in enumerate(each) if part is not None] for each in self.last]
        agreeing = [choice for choice in self.waiting if _agrees(choice, said)]
        return self._taken([choice for choice in agreeing if wanted(self.row(choice))])

    def _add(self, choice: Choice) -> None:
        """Let the row of a choice wait until one of its layouts is suggested."""
        self.waiting[choice] = None
        for layout, places in zip(self.row(choice).layouts, self.places, strict=True):
            places.setdefault(self._key(layout), []).append(choice)

    def _filled(self, port: int, choice: Choice) -> Layout:
        """The layout that a port has in a choice, which is the same for all that say the same of what it has."""
        key = tuple([choice[place] for place in self.shown[port]])
        known = self.filled[port]
        if key not in known:
            frame, orders = choice[0], dict(zip(self.runs, choice[1:], strict=True))
            outer, expand = port not in self.form.columns, self.ports[port].expand
            leading = map(expand, self._leading(port, frame.prefix)) if outer else ()
            trailing = (expand(frame.suffix),) if outer and self.form.suffix else ()
            places = [[slot for run in self.keys[place] for slot in orders[run]] for place in self.form.places[port]]
            known[key] = (*leading, *map(expand, places), *trailing)
        return known[key]

    def row(self, choice: Choice) -> Row:
        """The row of a choice."""
        layouts = tuple([self._filled(port, choice) for port in range(len(self.ports))])
        return Row(layouts, self.number, choice[0].prefix, self.form.price)

    def _key(self, layout: Layout) -> Layout:
        """What of a layout has to be suggested: all of it or, in its finest grouping, its order."""
        return layout if self.exact else finest(layout)

    def logical(self, key: Key) -> tuple[Slot, ...]:
        """The factors of some labels in their own sequence."""
        return tuple(slot for label in key for slot in self.slots.get(label, ()))

    def _learn(self, port: int, reading: Arrangement) -> Choice:
        """What a reading says of the orders of free labels, and of what surrounds the places, where it shows all of
        it; None for what it does not.
        """
        if not self.learns:
            return ()
        sequence = [slot for group in reading for slot in group]
        whole = bool(self.form.prefix) and self.around.issubset(sequence)
        learned: list[Any] = [self._frame(port, reading) if whole else None, *(None for _ in self.runs)]
        for place, key, count in self.several:
            found = tuple([slot for slot in sequence if slot[0] in key])
            learned[place] = found if len(found) == count else None
        return tuple(learned)

    def _frame(self, port: int, reading: Arrangement) -> Frame:
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
        return Frame(cut(groups, partial(parted, self.ports)), tuple(after))

    def exactly(self, wanted: Row) -> Iterator[Row]:
        """The rows with what comes before the places of a wanted one, and with what else its layouts show."""
        before = {slot for group in wanted.arrangement for slot in group}
        after = tuple(slot for slot in self.logical(self.form.prefix) if slot not in before)
        whole = sorted((*chain.from_iterable(wanted.arrangement), *after)) == sorted(self.around)
        legal = cut(wanted.arrangement, partial(parted, self.ports)) == wanted.arrangement
        if not whole or not legal or (after and not self.form.suffix):
            return
        for port, layout in enumerate(wanted.layouts):
            self._learn_from(port, self.ports[port].readings(layout))
        frames = dict.fromkeys((after, *(frame.suffix for frame in self.known[0] if {*frame.suffix} == {*after})))
        for suffix, *orders in product(frames, *self.known[1:]):
            yield self.row((Frame(wanted.arrangement, suffix), *orders))

    def _leading(self, port: int, prefix: Arrangement) -> Arrangement:
        """Those stored dimensions before the places that a port has."""
        has, start = self.ports[port].atoms, 0
        if port in self.form.short:
            start = next((index for index, group in enumerate(prefix) if group and group[0] in has), len(prefix))
        elif port in self.form.bare:
            start = len(prefix)
        return tuple(g for index, g in enumerate(prefix) if index >= start or not g or g[0] in has) if start else prefix


def _agrees(choice: Choice, said: Iterable[Iterable[tuple[int, Any]]]) -> bool:
    """Whether a choice is as some reading says of parts, by place."""
    for parts in said:
        for place, part in parts:
            if choice[place] != part:
                break
        else:
            return True
    return False
