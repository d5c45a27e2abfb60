"""How many dimensions of size 1 operators may bring along to each other.

An operator with a dimension that one of its tensors lacks stores that tensor with a dimension of size 1 there. What
else touches the tensor may have to have it as well, and passes it on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from layoutsolve.solver.statement.entry import Entry
from layoutsolve.solver.statement.filler import level
from layoutsolve.solver.statement.problem import Variable
from layoutsolve.solver.theory.kind import Kind
from layoutsolve.solver.theory.relation import Arranged, Form, Port


def brought_along(variables: Sequence[Variable], entries: Sequence[Entry]) -> list[int]:
    """For each operator how many dimensions of size 1 others may bring along to it, or itself by a way around."""
    moving = [[each for each in entry.ports if not variables[each].constant and _passes(entry)] for entry in entries]
    return carried(moving, [_asked(variables, entry) for entry in entries])


def carried(moving: Sequence[Sequence[int]], asked: Sequence[Mapping[int, int]]) -> list[int]:
    """For each operator the sum of what others ask for, by variable, where it is connected with that variable without
    passing them; and of what it asks for itself of a variable that leads back to it. Operators connect the variables
    that are ``moving`` there, each as often as it is one of their ports.
    """
    walk = _Walk(moving)
    changes = [0] * (walk.length + 1)
    found = [0] * len(moving)
    for number, counts in enumerate(asked):
        ports = Counter(walk.side(number, each) for each in moving[number])
        sides = Counter[int]()
        for variable, count in counts.items():
            sides[walk.side(number, variable)] += count
        for side, count in sides.items():
            found[number] += count if ports[side] > 1 else 0
            for first, end, sign in walk.ranges(number, side):
                changes[first] += sign * count
                changes[end] -= sign * count
    sums = list(accumulate(changes))
    return [found[number] + (sums[walk.first[~number]] if ports else 0) for number, ports in enumerate(moving)]


class _Walk:
    """A depth-first walk through variables and operators, of which ``~number`` stands for the latter: what an operator
    keeps apart are ranges of places in it.
    """

    def __init__(self, moving: Sequence[Sequence[int]]) -> None:
        self._next: dict[int, list[int]] = {}
        for number, ports in enumerate(moving):
            for variable in dict.fromkeys(ports):
                self._next.setdefault(variable, []).append(~number)
                self._next.setdefault(~number, []).append(variable)
        self.first: dict[int, int] = {}
        self._end: dict[int, int] = {}
        self._whole: dict[int, tuple[int, int]] = {}
        self._apart: dict[int, list[int]] = {each: [] for each in self._next}
        for variable in self._next:
            if variable >= 0 and variable not in self.first:
                self._from(variable)
        self.length = len(self.first)

    def _from(self, root: int) -> None:
        """Walk through all that is connected with a variable: what is reached behind an operator is apart from all else
        where nothing in it touches what came before that operator.
        """
        began = self.first[root] = len(self.first)
        lowest = {root: began}
        waiting = [(root, iter(self._next[root]))]
        while waiting:
            here, rest = waiting[-1]
            for there in rest:
                if there not in lowest:
                    lowest[there] = self.first[there] = len(self.first)
                    waiting.append((there, iter(self._next[there])))
                    break
                lowest[here] = min(lowest[here], self.first[there])
            else:
                waiting.pop()
                self._end[here] = len(self.first)
                if waiting:
                    before = waiting[-1][0]
                    lowest[before] = min(lowest[before], lowest[here])
                    if lowest[here] >= self.first[before]:
                        self._apart[before].append(here)
        self._whole |= dict.fromkeys(lowest, (began, len(self.first)))

    def side(self, number: int, variable: int) -> int:
        """Which of the parts that an operator keeps apart one of its variables is in: -1 is that which it was reached
        from.
        """
        apart = self._apart[~number]
        found = bisect_right(apart, self.first[variable], key=self.first.__getitem__) - 1
        return found if found >= 0 and self.first[variable] < self._end[apart[found]] else -1

    def ranges(self, number: int, side: int) -> Iterator[tuple[int, int, int]]:
        """Places of a part, from the first to before the last, to add (1) or to take away (-1)."""
        if side >= 0:
            there = self._apart[~number][side]
            yield self.first[there], self._end[there], 1
            return
        yield *self._whole[~number], 1
        yield self.first[~number], self.first[~number] + 1, -1
        for there in self._apart[~number]:
            yield self.first[there], self._end[there], -1


def _passes(entry: Entry) -> bool:
    """Whether layouts pass through an operator."""
    return bool(entry.free) or entry.relations is not None


def _asked(variables: Sequence[Variable], entry: Entry) -> dict[int, int]:
    """The dimensions of size 1 that an operator may ask for, by variable."""
    found: dict[int, int] = {}
    if entry.rule is None or entry.relations is None:
        return found
    moving = [port for port, each in enumerate(entry.ports) if not variables[each].constant]
    for number, way in enumerate(entry.rule.ways):
        ports = entry.own.get(number, entry.relations)
        for port, count in _own(way.form, way.kind, ports, moving).items():
            if count:
                found[entry.ports[port]] = max(found.get(entry.ports[port], 0), count)
    return found


def _own(form: Form, kind: Kind, ports: Sequence[Port], moving: Sequence[int]) -> dict[int, int]:
    """The same of one form, by port: one for each slot that is not there, or all where their number has a price."""
    slots = {slot for port in ports for slot in port.atoms}
    if isinstance(form, Arranged):
        free = [port for port in moving if port not in form.pinned]
        if not level(kind):
            return {port: ports[port].units for port in free}
        own = {port: slots.intersection(ports[port].atoms) if form.apart else slots for port in free}
        return {port: sum(not ports[port].atoms.get(slot) for slot in own[port]) for port in free}
    if not form.prefix:
        return {}
    around = [slot for slot in slots if slot[0] in form.prefix]
    return {
        port: sum(not ports[port].atoms.get(slot) for slot in around)
        + sum(not ports[port].expand(slot for slot in slots if slot[0] in place) for place in form.places[port])
        for port in moving
        if port not in form.columns
    }
