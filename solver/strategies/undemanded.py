"""Orders that nobody demands, and that need no move.

Operators that share an order which nobody demands border on others, by a move that is saved where they take the order
of these. There is no such move where each of them has, at its other ports, an order that is a candidate: of a
dimension that some operator adds and another one sums up nobody knows but the two. To the price of orders that makes no
difference, but such an order may need fewer Reshapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, permutations
from math import factorial

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.closure import Entry
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Order, order
from layoutsolve.solver.theory.relation import Arranged, Form, Placed, Port
from layoutsolve.solver.theory.row import Slot

SLOTS = 7
"""The most slots of a variable all of whose orders are looked at: there are 5040."""

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
    fresh = {variable: each - found.known(variable) for variable, each in orders.items()}
    return {variable: each for variable, each in sorted(fresh.items()) if each}


def every_order(problem: LayoutProblem, variable: int) -> bool:
    """Whether a problem's rows have all orders of a variable, at each operator that follows what it reads: one that
    suggests an order may be the only one to have it.
    """
    return len(_candidates(problem, variable)) == factorial(len(problem.variables[variable].sizes))


def _candidates(problem: LayoutProblem, variable: int) -> set[Order]:
    """The orders of a variable at all operators that follow what they read."""
    places = [(problem.operators[number], port) for number, port in problem.places(variable)]
    at = [(each.follows, {order(row.layouts[port]) for row in each.rows}) for each, port in places]
    following = [orders for follows, orders in at if follows]
    return set.intersection(*following) if following else set[Order]().union(*(orders for _, orders in at))


class _Undemanded:
    """Finds them: first the variables that may have any, then their orders, as far as neighbours agree on these."""

    def __init__(self, entries: Sequence[Entry], problem: LayoutProblem, limit: Limit) -> None:
        self.entries, self.problem, self.limit = entries, problem, limit
        self._known: Orders = {}

    def known(self, variable: int) -> set[Order]:
        """The orders of a variable that are candidates."""
        if variable not in self._known:
            self._known[variable] = _candidates(self.problem, variable)
        return self._known[variable]

    def orders(self) -> Orders | None:
        """All orders that such variables may have, candidates among them."""
        free = self._free()
        found: Orders = {}
        for variable in sorted(free):
            every = self._every(variable)
            if every is None:
                return None
            found[variable] = set(every)
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

    def _every(self, variable: int) -> Iterator[Order] | None:
        """All orders of a variable that keep what is one slot somewhere together; None where these are too many."""
        blocks: list[Order] = [(atom,) for atom in range(len(self.problem.variables[variable].sizes))]
        for number, port in self.problem.places(variable):
            for atoms in (self.entries[number].relations or ())[port].atoms.values():
                touched = [block for block in blocks if not set(block).isdisjoint(atoms)]
                if len(touched) > 1 and all(set(block) <= set(atoms) for block in touched):
                    blocks = [*(block for block in blocks if block not in touched), tuple(atoms)]
        if len(blocks) > SLOTS:
            return None
        self.limit.spend(factorial(len(blocks)))
        return (tuple(chain.from_iterable(each)) for each in permutations(blocks))

    def _agreeing(self, number: int, port: int, found: Orders) -> set[Order]:
        """Those orders of a port's variable that an operator can have with orders which its other ports may have."""
        entry = self.entries[number]
        mine = found[entry.ports[port]]
        left = set[Order]()
        for form, ports in ways(entry):
            shared = [
                (tells, {tells(ports[other], each) for each in found.get(variable) or self.known(variable)})
                for other, variable in enumerate(entry.ports)
                if other != port and not ports[other].constant
                if (tells := Shared.of(form, (port, ports[port]), (other, ports[other]))) is not None
            ]
            self.limit.spend(len(mine))
            left.update(
                each
                for each in mine - left
                if admits(form, ports[port], port, each)
                and all(tells(ports[port], each) in seen for tells, seen in shared)
            )
        return left


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
        return number not in form.pinned or atoms == order(port.logical)
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
