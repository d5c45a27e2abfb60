"""Finding all rows that an operator has in some orders: those with a layout at a port, however else it is grouped.

An *even* form may have each of its slots in a dimension of its own at no loss, and shows every slot at every port. One
that is not is *loose*: it has all its groupings from the start, with as many dimensions of size 1 beside its own as
others may bring along (:mod:`layoutsolve.solver.statement.brought`). Why nothing else can save a Reshape is in
``docs/theory.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.arranger import Arranger
from layoutsolve.solver.statement.filling import ArrangedFilling, Filling, PlacedFilling, Slots
from layoutsolve.solver.statement.generator import Generator
from layoutsolve.solver.statement.placer import Placer
from layoutsolve.solver.theory.kind import Along, Among, Kind, Runs
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.relation import Port
from layoutsolve.solver.theory.row import Arrangement, Row, Slot

SEQUENCES = 64
"""The most sequences of slots that are told apart for one choice of orders."""

GROUPINGS = 2048
"""The most groupings that a loose form has in one sequence of its slots."""

GROUPED = 10
"""The work of making a grouping, for each of its slots."""


class Filler:
    """Answers as a :class:`Generator` does, with all rows of some orders that have a layout.

    ``wanted`` are the orders at the ports that are ``moving``, ``kinds`` those of the forms where rows have prices.
    ``extra`` is how many dimensions of size 1 others may bring along. It is ``capped`` where it leaves out rows.
    """

    def __init__(
        self,
        generator: Generator,
        kinds: Sequence[Kind],
        wanted: Iterable[tuple[Order, ...]],
        moving: Sequence[int],
        extra: int,
    ) -> None:
        self.generator, self.kinds, self.moving = generator, kinds, moving
        self.limit, self.most = generator.limit, max(generator.units, default=0)
        self.extra = min(extra, self.most)
        self.fillings: list[Filling] = []
        self._showing: dict[tuple[int, Order], list[Filling]] = {}
        self._met: dict[Filling, set[Arrangement]] = {}
        self._left_out = False
        for orders in wanted:
            at = dict(zip(moving, orders, strict=True))
            found = [each for maker, number in generator.makers for each in self._filled(maker, number, at)]
            self._left_out |= not found
            self.fillings += found
            self._met.update((each, set()) for each in found)
            for place in at.items():
                self._showing.setdefault(place, []).extend(found)

    @property
    def capped(self) -> bool:
        """Whether rows were left out."""
        return self._left_out or self.generator.capped

    def spend_from(self, limit: Limit) -> None:
        """Have what follows spend from a limit, and be cut off when it is over."""
        self.limit = limit
        self.generator.spend_from(limit)

    def start(self) -> list[Row]:
        """The finest row of what is even, and all of what is loose."""
        found: list[Row] = []
        for each in self.fillings:
            if self.limit.over or (not each.even and each.count(self.extra) > GROUPINGS):
                self._left_out = True
                return found
            for grouping in [each.finest] if each.even else each.groupings(self.extra):
                found += self._rows(each, grouping)
        return found

    def push(self, port: int, layout: Layout) -> list[Row]:
        """All rows that have a layout at a port, with others of their groupings, without those known already."""
        found: list[Row] = []
        if not self.generator.candidate(port, layout):
            return found
        for each in self._showing.get((port, order(layout)), ()):
            self.limit.spend(GROUPED)
            for grouping in each.having(port, layout, self.most):
                found += self._rows(each, grouping)
        return found

    def _rows(self, filling: Filling, grouping: Arrangement) -> list[Row]:
        """The rows of a grouping, once."""
        met = self._met[filling]
        if grouping in met:
            self.limit.spend()
            return []
        met.add(grouping)
        self.limit.spend(GROUPED * (len(filling.slots) + 1))
        return self.generator.fresh([(filling.number, filling.rows(grouping))])

    def rest(self) -> list[Row]:
        """Nothing waits."""
        return []

    def source(self) -> list[Row]:
        """Nothing is there only to make the source's layouts available."""
        return []

    def _filled(self, maker: Arranger | Placer, number: int, orders: Mapping[int, Order]) -> Iterator[Filling]:
        if isinstance(maker, Arranger):
            return self._arranged(maker, number, orders)
        return self._placed(maker, number, orders)

    def _arranged(self, maker: Arranger, number: int, orders: Mapping[int, Order]) -> Iterator[Filling]:
        ports, form = maker.ports, maker.form
        free = [port for port in self.moving if port not in form.pinned]
        pinned = [port for port in self.moving if port in form.pinned]
        if any(order(form.pin(port, ports[port].logical)) != orders[port] for port in pinned):
            return
        for slots in (
            self._apart(maker, free, orders)
            if form.apart
            else self._sequences(ports, free, orders, sorted(maker.slots))
        ):
            yield ArrangedFilling(number, slots, self._even(maker, number, free), maker)

    def _apart(self, maker: Arranger, free: Sequence[int], orders: Mapping[int, Order]) -> list[Slots]:
        """The same of a form whose ports have no slots in common: those of each port, one port after the other."""
        ports = maker.ports
        own = [self._sequences(ports, [port], orders, sorted(ports[port].atoms)) for port in free]
        rest = tuple(sorted(maker.slots.difference(slot for port in free for slot in ports[port].atoms)))
        if prod(map(len, own)) > SEQUENCES:
            self._left_out = True
            return []
        return [(*chain.from_iterable(each), *rest) for each in product(*own)]

    def _sequences(
        self, ports: Sequence[Port], free: Sequence[int], orders: Mapping[int, Order], slots: Sequence[Slot]
    ) -> list[Slots]:
        """The sequences of slots in which ports have their orders; slots of size 1 may be anywhere."""
        first = max(free, key=lambda port: (len(set(ports[port].slots.values())), -port), default=None)
        if first is None:
            return []
        found: list[Slots] = [tuple(dict.fromkeys(ports[first].slots[atom] for atom in orders[first]))]
        for slot in slots:
            if slot not in found[0]:
                tried = ((*each[:at], slot, *each[at:]) for each in found for at in range(len(each) + 1))
                found = [each for each in tried if all(_has(ports[port], each, orders[port]) for port in free)]
            if not found:
                return []
            if len(found) > SEQUENCES:
                self._left_out = True
                return []
        return [each for each in found if all(ports[port].expand(each) == orders[port] for port in free)]

    def _even(self, maker: Arranger, number: int, free: Sequence[int]) -> bool:
        """Whether the finest grouping of a form costs what any other does, with one atom for each slot at each port."""
        form = maker.form
        if form.dropped or form.gained or form.apart or form.spread or form.price.reshapes or form.price.transposes:
            return False
        if self.kinds and not level(self.kinds[number]):
            return False
        return all(len(maker.ports[port].atoms.get(slot, ())) == 1 for port in free for slot in maker.slots)

    def _placed(self, maker: Placer, number: int, orders: Mapping[int, Order]) -> Iterator[Filling]:
        ports, form = maker.ports, maker.form
        seen = {port: tuple(dict.fromkeys(ports[port].slots[atom] for atom in orders[port])) for port in self.moving}
        if not all(maker.has(port, slots) for port, slots in seen.items()):
            return
        maker.begin()
        around = next(
            (each for port, each in seen.items() if maker.around.issubset(each) and port not in form.columns), None
        )
        inner = _inner(maker, list(seen.values()))
        if around is None or inner is None:
            self._left_out |= bool(maker.around) or inner is None
            if maker.around or inner is None:
                return
        outer = tuple(slot for slot in around or () if slot in maker.around)
        for behind in range(len(outer) + 1) if form.suffix else (0,):
            cut = len(outer) - behind
            made = PlacedFilling(number, outer[:cut], outer[cut:], inner, self.moving, maker)
            row = next(made.rows(made.finest))
            if all(order(row.layouts[port]) == orders[port] for port in self.moving):
                yield made


def _has(port: Port, slots: Slots, wanted: Order) -> bool:
    """Whether slots lie at a port as in an order, as far as they are there."""
    found = port.expand(slots)
    among = set(found)
    return found == tuple(atom for atom in wanted if atom in among)


def _inner(maker: Placer, seen: Sequence[Slots]) -> dict[tuple[str, ...], Slots] | None:
    """The orders of what is in the places, as ports show them; None where no port shows all of what is free there."""
    found = {}
    for key in maker.runs:
        found[key] = maker.logical(key)
        if key not in maker.counts:
            continue
        showing = next((each for each in seen if set(found[key]) <= set(each)), None)
        if showing is not None:
            found[key] = tuple(slot for slot in showing if slot in found[key])
        elif any(set(found[key]) & set(each) for each in seen):
            return None
    return found


def level(kind: Kind) -> bool:
    """Whether a kind depends on the orders of a row alone, not on how they are grouped."""
    return isinstance(kind, str | Along | Among | Runs)
