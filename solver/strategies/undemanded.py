"""Orders that nobody demands, and that need no move.

Operators that share an order which nobody demands border on others, by a move that is saved where they take the order
of these. There is no such move where each of them has, at its other ports, an order that is a candidate: of a
dimension that some operator adds and another one sums up nobody knows but the two. To the price of orders that makes no
difference, but such an order may need fewer Reshapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain, groupby, islice, permutations, product
from math import factorial

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.entry import Entry
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Order, order
from layoutsolve.solver.theory.relation import Arranged, Form, Placed, Port
from layoutsolve.solver.theory.row import Slot

MOST = 5040
"""The most orders of a variable that are looked at: those of seven blocks."""

Ports = Sequence[Port]
Orders = dict[int, set[Order]]


def undemanded(entries: Sequence[Entry], problem: LayoutProblem, limit: Limit) -> Orders | None:
    """For some variables the orders beside those of a problem's rows that may cost as little as these: all operators
    that touch the variable can have them, with orders at their other ports that are candidates or such as well. There
    may be more than really do.

    ``entries`` are what the problem is stated from. None where there are too many to look at.
    """
    found = _Undemanded(entries, problem, limit)
    orders = found.orders()
    if orders is None or limit.over:
        return None
    fresh = {variable: each - found.known(variable, free=True) for variable, each in orders.items()}
    return {variable: each for variable, each in sorted(fresh.items()) if each}


def every_order(problem: LayoutProblem, variable: int) -> bool:
    """Whether a problem's rows have all orders of a variable, at each operator that follows what it reads: one that
    suggests an order may be the only one to have it.
    """
    at = _at_places(problem, variable, following=True) or [set().union(*_at_places(problem, variable))]
    every = factorial(len(problem.variables[variable].sizes))
    return all(len(orders) == every for orders in at)


def _at_places(problem: LayoutProblem, variable: int, following: bool = False) -> list[set[Order]]:
    """The orders of a variable at each operator that touches it, or follows what it reads."""
    places = [(problem.operators[number], port) for number, port in problem.places(variable)]
    return [{order(row.layouts[port]) for row in each.rows} for each, port in places if each.follows or not following]


class _Undemanded:
    """Finds them: first the variables that may have any, then their orders, as far as neighbours agree on these."""

    def __init__(self, entries: Sequence[Entry], problem: LayoutProblem, limit: Limit) -> None:
        self.entries, self.problem, self.limit = entries, problem, limit
        self._known: Orders = {}
        self._agreed: dict[Hashable, set[Order]] = {}
        self._kinds: dict[int, Hashable] = {}

    def known(self, variable: int, free: bool) -> set[Order]:
        """The orders of a variable that are candidates; of one that is ``free`` those that all operators have: one that
        suggests an order may be the only one to have it.
        """
        if variable not in self._known:
            at = _at_places(self.problem, variable)
            self._known[variable] = set.intersection(*at) if free else set[Order]().union(*at)
        return self._known[variable]

    def orders(self) -> Orders | None:
        """All orders that such variables may have, candidates among them."""
        free = self._free()
        found = self._at_first(free)
        if found is None:
            return None
        waiting = deque(found)
        while waiting and not self.limit.over:
            variable = waiting.popleft()
            before = len(found[variable])
            for number, port in self.problem.places(variable):
                found[variable] &= self._agreeing(number, port, found)
            if len(found[variable]) < before:
                around = {each for number, _ in self.problem.places(variable) for each in self.entries[number].ports}
                waiting += sorted(each for each in around & free if each not in waiting and each != variable)
        return found

    def _free(self) -> set[int]:
        """Variables that no operator ties to an order: where a port has all dimensions of another one, what it has
        tells the order there.
        """
        problem = self.problem
        found = {
            each
            for each in problem.moving()
            if len(problem.variables[each].sizes) > 1 and problem.places(each) and not every_order(problem, each)
        }
        waiting = deque(sorted(found))
        while waiting:
            variable = waiting.popleft()
            places = problem.places(variable)
            if variable in found and not all(self._loose(number, port, found) for number, port in places):
                found.discard(variable)
                waiting += [each for number, _ in places for each in self.entries[number].ports]
        return found

    def _loose(self, number: int, port: int, found: set[int]) -> bool:
        entry = self.entries[number]
        forms = list(ways(entry))
        if not any(_varies(form, ports[port], port) for form, ports in forms):
            return False
        return all(
            variable in found or forms[0][1][other].constant
            for other, variable in enumerate(entry.ports)
            if other != port and all(_slots(ports[port]) <= _slots(ports[other]) for _, ports in forms)
        )

    def _at_first(self, free: set[int]) -> Orders | None:
        """All orders of some variables that keep what is one slot somewhere together, or as few as an operator with
        fixed dimensions can have there, or one that has the same dimensions elsewhere. None where they are too many.
        """
        found: Orders = {}
        for variable in sorted(free):
            fixed = self._fixed(variable)
            if fixed is not None:
                found[variable] = fixed
        waiting, rest = deque(sorted(found)), deque(sorted(free - found.keys()))
        while waiting or rest:
            if not waiting:
                variable = rest.popleft()
                if variable in found:
                    continue
                blocks = self._blocks(variable)
                if factorial(len(blocks)) > MOST:
                    return None
                found[variable] = {tuple(chain.from_iterable(each)) for each in permutations(blocks)}
                waiting.append(variable)
            variable = waiting.popleft()
            self.limit.spend(len(found[variable]))
            for other, told in self._told(variable, found[variable]):
                if other in free and other not in found:
                    found[other] = told
                    waiting.append(other)
        return None if any(len(each) > MOST for each in found.values()) else found

    def _fixed(self, variable: int) -> set[Order] | None:
        """The orders of a variable that an operator can have whose forms all have fixed dimensions; None if there is no
        such operator.
        """
        for number, port in self.problem.places(variable):
            found = list(ways(self.entries[number]))
            if all(isinstance(form, Placed) for form, _ in found):
                some = (placed_orders(form, ports[port], port) for form, ports in found if isinstance(form, Placed))
                return set(islice(chain.from_iterable(some), MOST + 1))
        return None

    def _told(self, variable: int, orders: set[Order]) -> Iterator[tuple[int, set[Order]]]:
        """Variables that an operator with dimensions in any order has the very dimensions of, and their orders."""
        for number, port in self.problem.places(variable):
            (form, ports), *others = ways(self.entries[number])
            if others or not isinstance(form, Arranged) or port in form.pinned:
                continue
            for other, each in enumerate(self.entries[number].ports):
                moves = other not in form.pinned and not ports[other].constant
                if other != port and moves and _slots(ports[other]) == _slots(ports[port]):
                    yield each, {_as_at(ports[other], ports[port], atoms) for atoms in orders}

    def _blocks(self, variable: int) -> list[Order]:
        """The atoms of a variable that are one slot somewhere."""
        blocks: list[Order] = [(atom,) for atom in range(len(self.problem.variables[variable].sizes))]
        for number, port in self.problem.places(variable):
            for atoms in (self.entries[number].relations or ())[port].atoms.values():
                touched = [block for block in blocks if not set(block).isdisjoint(atoms)]
                if len(touched) > 1 and all(set(block) <= set(atoms) for block in touched):
                    blocks = [*(block for block in blocks if block not in touched), tuple(atoms)]
        return blocks

    def _agreeing(self, number: int, port: int, found: Orders) -> set[Order]:
        """Those orders of a port's variable that an operator can have with orders which its other ports may have."""
        entry = self.entries[number]
        mine = frozenset(found[entry.ports[port]])
        theirs = tuple(
            frozenset(found.get(variable, set()) | self.known(variable, variable in found))
            if other != port
            else frozenset[Order]()
            for other, variable in enumerate(entry.ports)
        )
        key = (port, self._kind(number), mine, theirs)
        if key not in self._agreed:
            self.limit.spend(len(mine) * len(theirs))
            left = set[Order]()
            for form, ports in ways(entry):
                left |= _agreeing(form, ports, port, mine - left, theirs)
            self._agreed[key] = left
        return self._agreed[key]

    def _kind(self, number: int) -> Hashable:
        """What operators that are alike have in common."""
        if number not in self._kinds:
            self._kinds[number] = tuple(
                (form, *((each.logical, each.constant, *each.atoms.items()) for each in ports))
                for form, ports in ways(self.entries[number])
            )
        return self._kinds[number]


def _agreeing(
    form: Form, ports: Ports, port: int, mine: Collection[Order], theirs: Sequence[Collection[Order]]
) -> set[Order]:
    """Those orders of a port that a form can have, with one of ``theirs`` at each other port."""
    shared = [
        (tells, {tells(ports[other], each) for each in orders})
        for other, orders in enumerate(theirs)
        if other != port and not ports[other].constant
        if (tells := Shared.of(form, (port, ports[port]), (other, ports[other]))) is not None
    ]
    own = ports[port]
    return {
        each
        for each in mine
        if admits(form, own, port, each) and all(tells(own, each) in seen for tells, seen in shared)
    }


def ways(entry: Entry) -> Iterator[tuple[Form, Ports]]:
    """The forms of an operator, each with its ports."""
    if entry.rule is not None and entry.relations is not None:
        for number, form in enumerate(entry.rule.forms):
            yield form, entry.own.get(number, entry.relations)


def _slots(port: Port) -> set[Slot]:
    return set(port.slots.values())


@dataclass(frozen=True)
class Shared:
    """What two ports of an operator tell of each other's orders: that of the ``slots`` that both have, and in a form
    with a suffix which of these lie behind the slots of the labels that are ``placed``.
    """

    slots: frozenset[Slot]
    placed: frozenset[str]

    @classmethod
    def of(cls, form: Form, one: tuple[int, Port], other: tuple[int, Port]) -> Shared | None:
        """What two ports by their numbers tell of each other; None if that is nothing."""
        if not _alike(form, one[0], other[0]):
            return None
        placed = frozenset[str]()
        if isinstance(form, Placed) and form.suffix:
            labels = [{label for label, _ in _slots(port)}.difference(form.prefix) for _, port in (one, other)]
            placed = placed.union(*labels) if all(labels) else placed
        found = cls(frozenset(_slots(one[1]) & _slots(other[1])), placed)
        return found if len(found.slots) > (not placed) else None

    def __call__(self, port: Port, atoms: Order) -> tuple[Slot | None, ...]:
        """What an order of a port is as far as the two have it in common."""
        slots = (port.slots[atom] for atom in atoms)
        told = (slot if slot in self.slots else None for slot in slots if slot in self.slots or slot[0] in self.placed)
        return tuple(dict.fromkeys(told))


def _varies(form: Form, port: Port, number: int) -> bool:
    """Whether a form has more than one order at a port."""
    if isinstance(form, Arranged):
        return number not in form.pinned
    labels = [label for label, _ in _slots(port)]
    around = 0 if number in form.columns else sum(label in form.prefix for label in labels)
    return around > (not form.suffix) or any(sum(label in run for label in labels) > 1 for run in _runs(form, number))


def _runs(form: Placed, number: int) -> Iterator[set[str]]:
    """The labels whose factors may change places at a port."""
    for place in form.places[number]:
        run = set[str]()
        for label in place:
            if label in form.free and form.mixed:
                run.add(label)
            elif label in form.free:
                yield {label}
            else:
                yield run
                run = set()
        yield run


def placed_orders(form: Placed, port: Port, number: int) -> Iterator[Order]:
    """The orders that a form with fixed dimensions may have at a port."""
    slots = sorted(_slots(port))
    around = [] if number in form.columns else [slot for slot in slots if slot[0] in form.prefix]
    inner = []
    for place in form.places[number]:
        here = [slot for slot in slots if slot[0] in place]
        if form.mixed:
            inner.append(list(permutations(here)))
        else:
            inner += [list(permutations(slot for slot in here if slot[0] == label)) for label in place]
    for outer in permutations(around):
        for behind in range(len(outer) + 1) if form.suffix else (0,):
            split = len(outer) - behind
            for each in product(*inner):
                sequence = (*outer[:split], *chain.from_iterable(each), *outer[split:])
                yield tuple(chain.from_iterable(port.atoms[slot] for slot in sequence))


def _as_at(other: Port, port: Port, atoms: Order) -> Order:
    """An order of a port as that of another one with the same slots."""
    slots = dict.fromkeys(port.slots[atom] for atom in atoms)
    return tuple(chain.from_iterable(other.atoms[slot] for slot in slots))


def _alike(form: Form, port: int, other: int) -> bool:
    """Whether what two ports share has one order at both."""
    if isinstance(form, Arranged):
        return port not in form.pinned and other not in form.pinned
    if port in form.columns or other in form.columns:
        return False
    mine, theirs = (list(chain.from_iterable(form.places[each])) for each in (port, other))
    return [label for label in mine if label in theirs] == [label for label in theirs if label in mine]


def admits(form: Form, port: Port, number: int, atoms: Order) -> bool:
    """Whether a form may have an order at a port."""
    slots = list(dict.fromkeys(port.slots[atom] for atom in atoms))
    if tuple(chain.from_iterable(port.atoms[slot] for slot in slots)) != atoms:
        return False  # a slot is torn apart
    if isinstance(form, Arranged):
        return number not in form.pinned or atoms == order(form.pin(number, port.logical))
    labels = [label for label, _ in slots]
    placed = {label: place for place, group in enumerate(form.places[number]) for label in group}
    inner = [label for label in labels if label in placed]
    places = [placed[label] for label in inner]
    if places != sorted(places):
        return False
    if not form.mixed and len(list(groupby(inner))) > len(set(inner)):
        return False
    where = [place for place, label in enumerate(labels) if label in placed]
    between = where and where[-1] - where[0] + 1 > len(where)  # what comes before or behind is not in between
    behind = where and where[-1] + 1 < len(labels)
    return not between and (form.suffix or not behind)
