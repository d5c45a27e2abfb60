"""Relations: how the layouts of an operator's ports go together, independent of what the operator computes.

The dimensions of an operator's tensors are labelled, as in einsum: a label that two ports share is one dimension of the
operator's index space. Factors of labels are *slots*. There are two kinds of relation, and they cover every operator:

* :class:`Arranged`: the slots may come in any order and grouping, and every port follows it. Elementwise operators,
  reductions, concatenation, slicing and so on: their axes are renumbered.
* :class:`Placed`: every port has its dimensions in a fixed sequence, only the factors within some of them are free.
  Convolutions, pooling, matrix products, and everything opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from layoutsolve.solver.layout import Group, Layout, finest, order
from layoutsolve.solver.problem import FREE, Arrangement, Price, Row, Slot

ROWS = 256
"""The most rows that one operator gets; a relation with more is cut off, and the problem says so."""


@dataclass(frozen=True)
class Arranged:
    """Any arrangement of the slots.

    ``alone`` labels make up a stored dimension by themselves. ``heads`` begin theirs. ``dropped`` labels are missing
    from the outputs, dimension and all. ``frame`` is the port that has every label: its logical layout is the
    operator's. Labels that occur at some ports only broadcast at the others; with ``broadcast`` those ports may leave
    out leading dimensions of size 1. A label in ``heads`` shares its stored dimension with labels in ``tails`` alone.
    ``pinned`` ports always have their logical layout. ``inner`` labels are best stored innermost.
    """

    frame: int
    alone: frozenset[str] = frozenset()
    heads: frozenset[str] = frozenset()
    tails: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    broadcast: bool = False
    pinned: frozenset[int] = frozenset()
    inner: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Placed:
    """Fixed dimensions: ``places`` has for each port its stored dimensions, each a sequence of labels.

    The factors of a label in ``free`` may come in any order, the same at all ports; with ``mixed`` those of all
    labels of one place may be mixed, else they stay in the place's sequence of labels. ``prefix`` labels come before
    the places of each port that has them, in any arrangement; with ``suffix`` some of them may follow instead,
    together as the last dimension. ``columns`` are ports that stay without prefix and suffix (a matrix of weights).
    """

    places: tuple[tuple[tuple[str, ...], ...], ...]
    free: frozenset[str] = frozenset()
    prefix: tuple[str, ...] = ()
    suffix: bool = False
    mixed: bool = False
    columns: frozenset[int] = frozenset()


Form = Arranged | Placed


@dataclass(frozen=True)
class Port:
    """A port of an operator: its tensor's logical layout and, for each slot, the atoms that stand for it here.

    A slot with no atoms here is a dimension of size 1, or is not there at all: both broadcast. ``symbolic`` atoms have
    sizes that are known by name only.
    """

    logical: Layout
    atoms: Mapping[Slot, Group]
    constant: bool = False
    symbolic: frozenset[int] = frozenset()
    slots: Mapping[int, Slot] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", {atom: slot for slot, group in self.atoms.items() for atom in group})

    @property
    def key(self) -> object:
        """What two ports have in common that behave alike."""
        return self.logical, tuple(self.atoms.items()), self.constant, self.symbolic

    def expressible(self, layout: Layout) -> bool:
        """Whether a Reshape can lead to a layout: it computes one unknown size at most, so none are multiplied anew."""
        if len(self.symbolic) < 2:
            return True
        return all(len(self.symbolic.intersection(group)) < 2 or group in self.logical for group in layout)

    def expand(self, group: Iterable[Slot]) -> Group:
        """The atoms of this port that a group of slots stands for."""
        return tuple(atom for slot in group for atom in self.atoms.get(slot, ()))

    def readings(self, layout: Layout) -> Iterator[Arrangement]:
        """The arrangements of slots that a layout of this port suggests.

        A slot of several atoms that the layout tears apart is gathered where its first and where its last atom lies.
        """
        torn = {slot for slot, group in self.atoms.items() if len(group) > 1 and not _contains(layout, group)}
        for last in (False, True) if torn else (False,):
            yield self._reading(layout, torn, last)

    def _reading(self, layout: Layout, torn: set[Slot], last: bool) -> Arrangement:
        groups: list[tuple[Slot, ...]] = []
        for group in layout:
            current: list[Slot] = []
            for atom in group:
                slot = self.slots[atom]
                atoms = self.atoms[slot]
                if slot in torn:
                    if atom == _outermost(layout, atoms, last):
                        groups += [tuple(current)] if current else []
                        groups.append((slot,))
                        current = []
                elif atom == atoms[0]:
                    current.append(slot)
            if current or not group:
                groups.append(tuple(current))
        return tuple(groups)


def _contains(layout: Layout, atoms: Group) -> bool:
    """Whether ``atoms`` lie side by side in one stored dimension."""
    return any(group[start : start + len(atoms)] == atoms for group in layout for start in range(len(group)))


def _outermost(layout: Layout, atoms: Group, last: bool) -> int:
    lying = [atom for atom in order(layout) if atom in atoms]
    return lying[-1 if last else 0]


class Generator:
    """Finds the rows of one operator: each layout that is suggested at a port is pushed through all of its forms."""

    def __init__(
        self,
        ports: Sequence[Port],
        forms: Sequence[Form],
        outputs: int,
        orders: bool = False,
        exact: bool = False,
        weigh: Callable[[Row], Price | None] | None = None,
    ) -> None:
        """``outputs`` is the number of ports that are written. With ``orders`` the rows tell orders apart, not
        groupings. With ``exact`` an alternative form is offered where its very layout is suggested, else where its
        order is. ``weigh`` prices a row by itself, None if it cannot be run; without it all rows are free.
        """
        self.ports = tuple(ports)
        self.orders, self.exact = orders, exact
        self.weigh = weigh
        self.capped = False
        self._seen: set[tuple[Layout, ...]] = set()
        self._forms = [(self._maker(form, outputs), number) for number, form in enumerate(forms)]

    def _maker(self, form: Form, outputs: int) -> _Arranger | _Placer:
        if isinstance(form, Arranged):
            return _Arranger(self.ports, form, outputs)
        return _Placer(self.ports, form, self.exact)

    def start(self) -> list[Row]:
        """The rows that the operator demands by itself: those of its first form, where that is fixed or priced."""
        maker, number = self._forms[0]
        demands = isinstance(maker, _Placer) or self.weigh is not None
        return self._fresh([(number, maker.start())] if demands else [])

    def push(self, port: int, layout: Layout) -> list[Row]:
        """The rows that a layout suggested at a port makes possible, without those known already."""
        readings = tuple(self.ports[port].readings(layout))
        return self._fresh((number, maker.push(port, layout, readings)) for maker, number in self._forms)

    def rest(self) -> list[Row]:
        """The rows of fixed forms that are known, but that no layout has asked for."""
        return self._fresh((number, maker.start()) for maker, number in self._forms if isinstance(maker, _Placer))

    def source(self) -> list[Row]:
        """The rows in which every port has its logical order of dimensions, as the source model has them."""
        rows = ((number, maker.source()) for maker, number in self._forms if isinstance(maker, _Arranger))
        return self._fresh(rows, anchored=False)

    def _fresh(self, found: Iterable[tuple[int, Iterable[Row]]], anchored: bool = True) -> list[Row]:
        fresh: list[Row] = []
        for number, rows in found:
            for row in rows:
                layouts = tuple(map(finest, row.layouts)) if self.orders else row.layouts
                if layouts in self._seen:
                    continue
                if len(self._seen) >= ROWS:
                    self.capped = True
                    return fresh
                if not all(port.expressible(layout) for port, layout in zip(self.ports, row.layouts, strict=True)):
                    continue
                row = replace(row, form=number)
                price = FREE if self.weigh is None else self.weigh(row)
                if price is not None:
                    self._seen.add(layouts)
                    fresh.append(replace(row, layouts=layouts, price=price, anchored=anchored))
        return fresh


class _Arranger:
    """The rows of an :class:`Arranged` relation."""

    def __init__(self, ports: tuple[Port, ...], form: Arranged, outputs: int) -> None:
        self.ports, self.form = ports, form
        self.outputs = range(len(ports) - outputs, len(ports))
        frame = ports[form.frame]
        self.slots = frozenset(slot for port in ports for slot in port.atoms)
        self.hidden = [slot for slot in frame.atoms if not frame.atoms[slot]]
        self.logical = self._legal(self._whole(next(frame.readings(frame.logical))))
        self.full: list[Arrangement] = []
        self.partial: list[Arrangement] = []

    def source(self) -> Iterator[Row]:
        yield from self._rows(self.logical)

    def start(self) -> Iterator[Row]:
        """The source order with the labels innermost that are best there."""
        groups = [tuple(slot for slot in group if slot[0] not in self.form.inner) for group in self.logical]
        inner = [tuple(slot for slot in group if slot[0] in self.form.inner) for group in self.logical]
        kept = [group for group, whole in zip(groups, self.logical, strict=True) if group or not whole]
        yield from self._push_full(self._legal((*kept, *filter(None, inner))))

    def push(self, port: int, layout: Layout, readings: Iterable[Arrangement]) -> Iterator[Row]:
        if port in self.form.pinned:
            return
        for reading in readings:
            visible = {slot for group in reading for slot in group}
            if any(slot not in self.ports[port].atoms for slot in self.slots - visible):
                yield from self._push_partial(reading)
            else:
                yield from self._push_full(self._legal(self._whole(reading)))

    def _push_full(self, arrangement: Arrangement) -> Iterator[Row]:
        if arrangement in self.full:
            return
        self.full.append(arrangement)
        yield from self._rows(arrangement)
        for partial in list(self.partial):
            yield from self._push_full(self._legal(_merged(arrangement, partial)))

    def _push_partial(self, partial: Arrangement) -> Iterator[Row]:
        if partial in self.partial:
            return
        self.partial.append(partial)
        for full in [*self.full] or [self.logical]:
            yield from self._push_full(self._legal(_merged(full, partial)))

    def _whole(self, reading: Arrangement) -> Arrangement:
        """The arrangement with slots added that no port of this layout shows because their size is 1 there."""
        groups = list(reading)
        visible = {slot for group in reading for slot in group}
        sequence = list(self.ports[self.form.frame].atoms)
        for slot in sequence:
            if slot in visible or slot not in self.slots:
                continue
            if () in groups:
                groups[groups.index(())] = (slot,)
            else:
                before = set(sequence[: sequence.index(slot)])
                place = max((index + 1 for index, group in enumerate(groups) if before & set(group)), default=0)
                groups.insert(place, (slot,))
        return tuple(groups)

    def _legal(self, arrangement: Arrangement) -> Arrangement:
        """Cut stored dimensions where a port has only a part of them, and where labels must stand alone or begin."""
        pieces: list[tuple[Slot, ...]] = []
        for group in arrangement:
            start = 0
            for index in range(1, len(group)):
                if self._border(group[index - 1], group[index]):
                    pieces.append(group[start:index])
                    start = index
            pieces.append(group[start:])
        return tuple(pieces)

    def _border(self, left: Slot, right: Slot) -> bool:
        alone = self.form.alone
        if right[0] in self.form.heads or left[0] in alone or right[0] in alone:
            return True
        if left[0] in self.form.heads:
            return right[0] not in self.form.tails
        return any((left in port.atoms) != (right in port.atoms) for port in self.ports)

    def _rows(self, arrangement: Arrangement) -> Iterator[Row]:
        choices = [self._layouts(number, arrangement) for number in range(len(self.ports))]
        for layouts in islice(product(*choices), 16):
            rank = max((len(layout) for number, layout in enumerate(layouts) if number not in self.outputs), default=0)
            if not self.form.broadcast or rank == len(arrangement):
                yield Row(layouts, arrangement=arrangement)

    def _layouts(self, number: int, arrangement: Arrangement) -> list[Layout]:
        port = self.ports[number]
        if number in self.form.pinned:
            return [port.logical]
        dropped = self.form.dropped if number in self.outputs else frozenset()
        kept = [group for group in arrangement if not any(slot[0] in dropped for slot in group)]
        layout = tuple(port.expand(group) for group in kept)
        if not self.form.broadcast or number in self.outputs:
            return [layout]
        short = stripped(layout)
        frame = self.ports[self.form.frame]
        lower = len(port.logical) < len(frame.logical) or len(port.slots) < len(frame.slots)
        if short == layout or not (port.constant or lower):
            return [layout]
        return [short, layout] if port.constant else [layout, short]


def stripped(layout: Layout) -> Layout:
    """A layout without its leading dimensions of size 1, which broadcasting supplies."""
    start = next((index for index, group in enumerate(layout) if group), len(layout))
    return layout[start:]


def _merged(full: Arrangement, partial: Arrangement) -> Arrangement:
    """The full arrangement with the slots of the partial one brought into the partial one's order, in the places they
    have.
    """
    wanted = iter([slot for group in partial for slot in group])
    moved = {slot for group in partial for slot in group}
    return tuple(tuple(next(wanted) if slot in moved else slot for slot in group) for group in full)


@dataclass(frozen=True)
class _Frame:
    """What surrounds the fixed dimensions of a :class:`Placed` relation."""

    prefix: Arrangement
    suffix: tuple[Slot, ...]


_Key = tuple[str, ...]
"""Labels whose factors are ordered together: one label, or all labels of a mixed place."""


@dataclass(frozen=True)
class _Choice:
    """One way to fill the places of a :class:`Placed` relation."""

    frame: _Frame
    orders: tuple[tuple[_Key, tuple[Slot, ...]], ...]


class _Placer:
    """The rows of a :class:`Placed` relation.

    What a layout suggests at one port is combined with all that is known about the labels which that port does not
    have.
    """

    def __init__(self, ports: tuple[Port, ...], form: Placed, exact: bool) -> None:
        self.ports, self.form, self.exact = ports, form, exact
        self.slots: dict[str, list[Slot]] = {}
        for slot in dict.fromkeys(slot for port in ports for slot in port.atoms):
            self.slots.setdefault(slot[0], []).append(slot)
        places = {place for port in form.places for place in port}
        self.keys = {place: (place,) if form.mixed else tuple((label,) for label in place) for place in places}
        keys = sorted({key for found in self.keys.values() for key in found})
        self.counts = {key: len(self._logical(key)) for key in keys if form.free.issuperset(key)}
        self.around = frozenset(self._logical(form.prefix))
        logical = _Choice(self._logical_frame(), tuple((key, self._logical(key)) for key in keys))
        self.choices: dict[_Choice, None] = {logical: None}
        self.waiting: list[Row] = [self._row(logical)]

    def start(self) -> list[Row]:
        return self._taken(lambda row: True)

    def push(self, port: int, layout: Layout, readings: Iterable[Arrangement]) -> list[Row]:
        """The rows that this layout makes useful: those that have it (or its order) at the port. Others wait."""
        for reading in readings:
            frame, orders = self._learn(reading)
            for choice in list(self.choices):
                merged = {**dict(choice.orders), **orders}
                changed = _Choice(frame or choice.frame, tuple(merged.items()))
                if changed not in self.choices:
                    self.choices[changed] = None
                    self.waiting.append(self._row(changed))
        if self.exact:
            return self._taken(lambda row: row.layouts[port] == layout)
        atoms = order(layout)
        return self._taken(lambda row: order(row.layouts[port]) == atoms)

    def _taken(self, wanted: Callable[[Row], bool]) -> list[Row]:
        taken = [row for row in self.waiting if wanted(row)]
        self.waiting = [row for row in self.waiting if row not in taken]
        return taken

    def _logical(self, key: _Key) -> tuple[Slot, ...]:
        return tuple(slot for label in key for slot in self.slots.get(label, ()))

    def _learn(self, reading: Arrangement) -> tuple[_Frame | None, dict[_Key, tuple[Slot, ...]]]:
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
        return (self._frame(reading) if whole else None), orders

    def _frame(self, reading: Arrangement) -> _Frame:
        """What comes before the operator's own dimensions and, where the form allows it, what comes after."""
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
        return _Frame(self._legal(groups), tuple(after))

    def _legal(self, groups: Iterable[tuple[Slot, ...]]) -> Arrangement:
        pieces: list[tuple[Slot, ...]] = []
        for group in groups:
            start = 0
            for index in range(1, len(group)):
                if any((group[index - 1] in port.atoms) != (group[index] in port.atoms) for port in self.ports):
                    pieces.append(group[start:index])
                    start = index
            pieces.append(group[start:])
        return tuple(pieces)

    def _logical_frame(self) -> _Frame:
        return _Frame(tuple((slot,) for slot in self._logical(self.form.prefix)), ())

    def _row(self, choice: _Choice) -> Row:
        orders = dict(choice.orders)
        layouts = tuple(self._layout(number, choice.frame, orders) for number in range(len(self.ports)))
        return Row(layouts, arrangement=choice.frame.prefix)

    def _layout(self, number: int, frame: _Frame, orders: Mapping[_Key, tuple[Slot, ...]]) -> Layout:
        port = self.ports[number]
        outer = number not in self.form.columns
        leading = tuple(port.expand(group) for group in frame.prefix) if outer else ()
        trailing = (port.expand(frame.suffix),) if outer and self.form.suffix else ()
        places = (
            port.expand(slot for key in self.keys[place] for slot in orders[key]) for place in self.form.places[number]
        )
        return (*leading, *places, *trailing)
