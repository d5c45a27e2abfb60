"""How many dimensions of size 1 operators may bring along to each other.

An operator with a dimension that one of its tensors lacks stores that tensor with a dimension of size 1 there. What
else touches the tensor may have to have it as well, and passes it on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from layoutsolve.solver.statement.entry import Entry
from layoutsolve.solver.statement.filler import level
from layoutsolve.solver.statement.problem import Variable
from layoutsolve.solver.theory.kind import Kind
from layoutsolve.solver.theory.relation import Arranged, Form, Port


def brought_along(variables: Sequence[Variable], entries: Sequence[Entry]) -> list[int]:
    """For each operator how many dimensions of size 1 others may bring along to it, or itself by a way around."""
    touching: dict[int, list[int]] = {}
    moving = [[each for each in entry.ports if not variables[each].constant and _passes(entry)] for entry in entries]
    for number, ports in enumerate(moving):
        for variable in dict.fromkeys(ports):
            touching.setdefault(variable, []).append(number)
    found = [0] * len(entries)
    for number, entry in enumerate(entries):
        own = Counter(moving[number])
        for variable, count in _asked(variables, entry).items():
            reached, operators = _reached(variable, number, moving, touching)
            for each in operators:
                found[each] += count
            if sum(own[each] for each in reached) > 1:
                found[number] += count
    return found


def _reached(
    start: int, without: int, moving: Sequence[Sequence[int]], touching: Mapping[int, Sequence[int]]
) -> tuple[set[int], set[int]]:
    """The variables and operators that a variable is connected with where an operator is left out."""
    reached, operators, waiting = {start}, set[int](), [start]
    while waiting:
        for number in touching[waiting.pop()]:
            if number != without and number not in operators:
                operators.add(number)
                fresh = [each for each in moving[number] if each not in reached]
                reached.update(fresh)
                waiting += fresh
    return reached, operators


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
