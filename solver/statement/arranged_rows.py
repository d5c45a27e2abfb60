"""The rows of a relation in which the slots may come in any arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from functools import partial
from itertools import chain, islice, pairwise, product

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.unenumerated_operators import Relation
from layoutsolve.solver.theory.layout import Group, Layout
from layoutsolve.solver.theory.relation import Arranged, Port, cut, parted
from layoutsolve.solver.theory.row import FREE, Arrangement, Price, Row, Slot

COMBINED = 3
"""The work of combining two arrangements, for each of their slots."""


class Arrangements:
    """The rows of one of the forms of a relation, and its number there."""

    def __init__(self, relation: Relation, number: int, form: Arranged, limit: Limit) -> None:
        self.ports = ports = relation.own.get(number, relation.ports)
        self.form, self.number, self.limit, self.weigh = form, number, limit, relation.weigh
        self.outputs = range(len(ports) - relation.outputs, len(ports))
        self._broadcast = [port for port in range(len(ports) - relation.outputs) if port not in form.pinned]
        self._frame = frame = ports[form.frame]
        moving = [port for number, port in enumerate(ports) if number not in form.pinned]
        self.slots = frozenset(slot for port in moving for slot in port.atoms)
        self._tails = {
            frame.slots[head]: frame.slots[tail] for group in frame.logical for head, tail in pairwise(group)
        }
        read = moving if form.apart else [frame]
        wholes = (self._whole(next(port.readings(port.logical)), False, port) for port in read)
        self.logical = self._legal(tuple(chain.from_iterable(wholes)))
        self._stored = [
            _Stored(port, form, frame, number in self.outputs, number in form.complete)
            for number, port in enumerate(ports)
        ]
        self.full: dict[Arrangement, None] = {}
        self.partial: dict[Arrangement, dict[Slot, None]] = {}

    def copy(self) -> Arrangements:
        """The same, to which nothing was pushed, as to this one."""
        made = copy(self)
        made.full, made.partial = {}, {}
        return made

    def start(self) -> Iterator[Row]:
        """Source order; where the labels with a price are better first or last, with them there."""
        for found in [*self._cheaper(self.logical)] or [self.logical]:
            yield from self._push_full(found)

    def exactly(self, wanted: Row) -> Iterator[Row]:
        """The rows with the arrangement of a wanted one; none where the operator cannot have that."""
        arrangement = wanted.arrangement
        slots = [slot for group in arrangement for slot in group]
        if len(slots) == len(self.slots) and self.slots == {*slots} and self._legal(arrangement) == arrangement:
            yield from self.rows(arrangement)

    def push(self, port: int, layout: Layout, readings: Iterable[Arrangement]) -> Iterator[Row]:
        if port in self.form.pinned:
            return
        for reading in readings:
            visible = {slot for group in reading for slot in group}
            if any(slot not in self.ports[port].atoms for slot in self.slots - visible):
                yield from self._push_partial(reading)
            else:
                for together in (False, True):
                    yield from self._push_full(self._legal(self._whole(reading, together, self._frame)))

    def _push_full(self, arrangement: Arrangement) -> Iterator[Row]:
        """The rows of an arrangement and of all that partial ones make of it, one at a time in the order found."""
        waiting = [iter((arrangement,))]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
            elif found not in self.full:
                if len(waiting) > 1 and self.limit.over:
                    return
                self.limit.spend()
                self.full[found] = None
                yield from self.rows(found)
                merges = partial(self._combined, found)
                waiting.append(chain(self._cheaper(found), map(merges, list(self.partial.values()))))

    def _cheaper(self, full: Arrangement) -> Iterator[Arrangement]:
        """An arrangement with the labels that count for the price innermost, or one dimension, where that costs less.

        Nobody may demand that order. It is worth a Transpose to those whose own order makes the operator slow. The
        labels go anywhere else only where they cost something innermost. Where several labels count, one dimension may
        be in front, if that costs nothing: it moves no data where an operator before it adds that dimension.
        """
        if self.weigh is None or not self.form.sensitive:
            return
        paid = self._price(full)
        if paid == FREE:
            return
        split = [
            tuple(tuple(slot for slot in group if (slot[0] in self.form.sensitive) == counts) for counts in (0, 1))
            for group in full
        ]
        others = tuple(other for other, counting in split if other or not counting)
        moved = tuple(counting for _, counting in split if counting)
        innermost = self._legal((*others, *moved))
        ways = [innermost]
        ways += [self._legal((*full[:place], *full[place + 1 :], full[place])) for place in range(len(full))]
        several = range(1, len(full) if len(self.form.sensitive) > 1 else 0)
        fronts = (self._legal((full[place], *full[:place], *full[place + 1 :])) for place in several)
        ways += [found for found in fronts if self._price(found) == FREE]
        if self._price(innermost) != FREE:
            ways += [self._legal((*others[:place], *moved, *others[place:])) for place in range(len(others))]
        for found in dict.fromkeys(ways):
            price = self._price(found)
            if price is not None and (paid is None or paid.slower(price)):
                yield found

    def joined(self, arrangement: Arrangement) -> Arrangement:
        """The same order in as few dimensions as it can be stored in."""
        joined: list[tuple[Slot, ...]] = []
        for group in arrangement:
            if joined and joined[-1] and group and not self.border(joined[-1][-1], group[0]):
                joined[-1] += group
            else:
                joined.append(group)
        return tuple(joined)

    def _price(self, arrangement: Arrangement) -> Price | None:
        """What the row of an arrangement costs by itself; None if it cannot be run."""
        self.limit.spend(len(self.ports))
        row = next(self.rows(arrangement), None)
        return None if row is None or self.weigh is None else self.weigh(row)

    def _push_partial(self, part: Arrangement) -> Iterator[Row]:
        if part in self.partial:
            return
        wanted = self.partial[part] = dict.fromkeys(slot for group in part for slot in group)
        for full in [*self.full] or [self.logical]:
            if self.limit.over:
                return
            yield from self._push_full(self._combined(full, wanted))

    def _combined(self, full: Arrangement, wanted: dict[Slot, None]) -> Arrangement:
        """A full arrangement with some slots in the wanted order; most often they are in it already."""
        self.limit.spend(COMBINED * (len(self.slots) + 1))
        if [slot for group in full for slot in group if slot in wanted] == list(wanted):
            return full
        return self._legal(_reordered(full, wanted))

    def _whole(self, reading: Arrangement, together: bool, port: Port) -> Arrangement:
        """The arrangement with the slots of a port added that a layout does not show because their size is 1 there.

        With ``together`` a slot that heads a dimension comes before the rest of it, wherever that lies.
        """
        groups = list(reading)
        visible = {slot for group in reading for slot in group}
        sequence = list(port.atoms)
        for slot in sequence:
            if slot in visible or slot not in self.slots:
                continue
            tail = self._tails.get(slot) if together else None
            if tail is not None and tail in visible:
                _put_before(groups, tail, slot)
            elif () in groups:
                groups[groups.index(())] = (slot,)
            else:
                before = set(sequence[: sequence.index(slot)])
                place = max((index + 1 for index, group in enumerate(groups) if before & set(group)), default=0)
                groups.insert(place, (slot,))
        return tuple(groups)

    def _legal(self, arrangement: Arrangement) -> Arrangement:
        """Cut stored dimensions where a port has only a part of them, and where labels must stand alone or begin."""
        return cut(arrangement, self.border)

    def border(self, left: Slot, right: Slot) -> bool:
        """Whether two slots, one after the other, cannot share a stored dimension."""
        alone = self.form.alone
        if right[0] in self.form.heads or left[0] in alone or right[0] in alone:
            return True
        if left[0] in self.form.heads:
            return right[0] not in self.form.tails
        return parted(self.ports, left, right)

    def rows(self, arrangement: Arrangement) -> Iterator[Row]:
        """The rows of an arrangement: several where a port may leave out leading dimensions of size 1."""
        choices = [self._layouts(number, arrangement) for number in range(len(self.ports))]
        for layouts in islice(product(*choices), 16):
            if self.form.broadcast:
                rank = max((len(layouts[number]) for number in self._broadcast), default=0)
                if rank != len(arrangement):
                    continue
            yield Row(layouts, self.number, arrangement, self.form.price)

    def _layouts(self, number: int, arrangement: Arrangement) -> list[Layout]:
        port = self.ports[number]
        if number in self.form.pinned:
            return [self.form.pin(number, port.logical)]
        layout = tuple(chain.from_iterable(map(self._stored[number].__getitem__, arrangement)))
        short = stripped(layout) if self._stored[number].short else layout
        if short == layout or (port.constant and _apart(layout, arrangement)):
            return [layout]
        if port.constant:
            return [short, layout]
        units = len(port.logical) - len(short)  # those that the source has
        return [layout, *([((),) * units + short] if 0 < units < len(layout) - len(short) else []), short]


class _Stored(dict[tuple[Slot, ...], tuple[Group, ...]]):
    """The stored dimensions that groups of slots are at a port: arrangements are many, and groups few. A ``short`` port
    may leave out leading dimensions of size 1.
    """

    def __init__(self, port: Port, form: Arranged, frame: Port, output: bool, complete: bool) -> None:
        super().__init__()
        self.port, self.spread, self.apart = port, form.spread, form.apart
        self.dropped = form.dropped if output else form.gained
        lower = len(port.logical) < len(frame.logical) or len(port.slots) < len(frame.slots)
        self.short = form.broadcast and not output and not complete and (port.constant or lower)

    def __missing__(self, group: tuple[Slot, ...]) -> tuple[Group, ...]:
        return self.setdefault(group, tuple(self._found(group)))

    def _found(self, group: tuple[Slot, ...]) -> list[Group]:
        if any(slot[0] in self.dropped for slot in group) or (self.apart and not self.port.atoms.keys() >= {*group}):
            return []
        atoms = self.port.expand(group)
        if any(slot[0] in self.spread for slot in group):
            return [dimension for dimension in self.port.logical if dimension and dimension[0] in atoms]
        return [atoms]


def _put_before(groups: list[tuple[Slot, ...]], tail: Slot, slot: Slot) -> None:
    """Add a slot right before another one, in exchange for a dimension of size 1 if there is one."""
    if () in groups:
        groups.remove(())
    place = next(index for index, group in enumerate(groups) if tail in group)
    where = groups[place].index(tail)
    groups[place] = (*groups[place][:where], slot, *groups[place][where:])


def _apart(layout: Layout, arrangement: Arrangement) -> bool:
    """Whether a layout is that of a single number beside many whose last dimension is 1. It keeps its dimensions then:
    with less ONNX Runtime (1.31) takes one element at a time.
    """
    return any(arrangement) and not arrangement[-1] and not any(layout)


def stripped(layout: Layout) -> Layout:
    """A layout without its leading dimensions of size 1, which broadcasting supplies."""
    start = next((index for index, group in enumerate(layout) if group), len(layout))
    return layout[start:]


def _reordered(full: Arrangement, wanted: dict[Slot, None]) -> Arrangement:
    """The full arrangement with some slots brought into the wanted order, in the places they have."""
    rest = iter(wanted)
    return tuple(tuple([next(rest) if slot in wanted else slot for slot in group]) for group in full)
