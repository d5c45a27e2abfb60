"""Marks: what tells slow moves apart where layouts leave atoms out.

A Transpose is no simpler than what it does to the atoms that are seen, but for one thing: it may copy rows of what is
not seen, if that lies innermost before and behind. So a layout of a charged variable has a *mark*, one more atom:
behind all others where something lies innermost that is not seen, else before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import product

from layoutsolve.solver.statement.entry import Entry
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.relation import Arranged, Placed, Port
from layoutsolve.solver.theory.row import Row, Slot

EITHER = frozenset({False, True})
"""Something that is not seen lies innermost, or does not."""

Ends = list[tuple[bool, ...]]
"""At which of some ports something lies innermost that is not seen, for each case that there is."""


def marked(problem: LayoutProblem, entries: Sequence[Entry], unseen: Sequence[Set[int]]) -> LayoutProblem:
    """A problem of some atoms with marks at the charged variables, given the operators with all atoms, and those of
    each variable that are ``unseen``. A row becomes one for each case that there is of rows which show it.
    """
    told = frozenset(variable for variable in problem.charged or () if unseen[variable])
    operators = list(problem.operators)
    for number, operator in enumerate(operators):
        if not told.isdisjoint(operator.ports):
            operators[number] = replace(operator, rows=tuple(_rows(problem, operator, entries[number], told, unseen)))
    return replace(problem, operators=tuple(operators))


def _rows(
    problem: LayoutProblem, operator: Operator, entry: Entry, told: Set[int], unseen: Sequence[Set[int]]
) -> Iterator[Row]:
    ports = [port for port, variable in enumerate(operator.ports) if variable in told]
    here = [unseen[variable] for variable in operator.ports]
    cases: dict[int, Ends] = {}
    for row in operator.rows:
        if row.form not in cases:
            cases[row.form] = ends(entry, row.form, ports, here)
        for case in cases[row.form]:
            layouts = list(row.layouts)
            for port, last in zip(ports, case, strict=True):
                mark = ((problem.mark(operator.ports[port]),),)
                layouts[port] = (*layouts[port], *mark) if last else (*mark, *layouts[port])
            yield replace(row, layouts=tuple(layouts))


def ends(entry: Entry, number: int, ports: Sequence[int], unseen: Sequence[Set[int]]) -> Ends:
    """The cases of some ports in rows of a form, given the operator with all atoms and those that are not seen at each
    port: all that are possible, and maybe others.
    """
    if entry.rule is None or entry.relations is None:
        (row,) = entry.fixed
        return list(product(*(EITHER if entry.free else _innermost(row.layouts[port], unseen[port]) for port in ports)))
    if entry.fixed:
        return list(product(EITHER, repeat=len(ports)))
    form, relations = entry.rule.forms[number], entry.own.get(number, entry.relations)
    if isinstance(form, Placed):
        return list(product(*(_last(_ending(form, port, relations[port]), unseen[port]) for port in ports)))
    return _alike(form, ports, relations, unseen)


def _alike(form: Arranged, ports: Sequence[int], relations: Sequence[Port], unseen: Sequence[Set[int]]) -> Ends:
    """Ports that have the same slots, and see the same of them, have them in the same order."""
    kinds = [object() if port in form.pinned else _kind(relations[port], unseen[port]) for port in ports]
    known = list(dict.fromkeys(kinds))
    several = [
        _innermost(form.pin(port, relations[port].logical), unseen[port]) if port in form.pinned else EITHER
        for port, kind in ((ports[kinds.index(kind)], kind) for kind in known)
    ]
    return [tuple(case[known.index(kind)] for kind in kinds) for case in product(*several)]


def _kind(port: Port, unseen: Set[int]) -> frozenset[tuple[Slot, bool]]:
    """The slots of a port, and of which of them the innermost atom is not seen."""
    return frozenset((slot, group[-1] in unseen) for slot, group in port.atoms.items() if group)


def _ending(form: Placed, number: int, port: Port) -> Sequence[int]:
    """The atoms of a port that may lie innermost in a fixed form; none where any may."""
    if form.suffix and number not in form.columns:
        return ()
    for place in reversed(form.places[number]):
        for label in reversed(place):
            groups = [group for slot, group in sorted(port.atoms.items()) if slot[0] == label and group]
            if groups:
                if form.mixed and label in form.free:
                    return [atom for slot, group in port.atoms.items() if slot[0] in place for atom in group]
                return [atom for group in groups for atom in group] if label in form.free else groups[-1][-1:]
    return ()


def _innermost(layout: Layout, unseen: Set[int]) -> frozenset[bool]:
    """Whether something that is not seen is innermost in a layout."""
    return _last(order(layout)[-1:], unseen)


def _last(atoms: Sequence[int], unseen: Set[int]) -> frozenset[bool]:
    """Whether something that is not seen is innermost, where that is one of some atoms; of any where there are none."""
    return frozenset(atom in unseen for atom in atoms) or EITHER
