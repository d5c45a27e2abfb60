"""Partitions: which backend runs which operator, and where data cross from one to another."""

from __future__ import annotations

from collections.abc import Iterator

from layoutsolve.records import dataclass
from layoutsolve.solver.statement.assignment import Assignment


@dataclass(frozen=True)
class Crossing:
    """A variable that is written in one backend and read in another one, by operators whose numbers are ``readers``.

    ``price`` is in Transposes. The ends of a model are in the backend '', that of everything that no other one runs.
    """

    variable: int
    source: str
    target: str
    readers: tuple[int, ...]
    price: int


def backend_of(assignment: Assignment, number: int) -> str:
    """The backend that runs an operator of the problem."""
    operator = assignment.problem.operators[number]
    rule = assignment.rules.get(operator.node)
    return "" if rule is None else rule.ways[assignment.row(number).form].backend


def crossings(assignment: Assignment) -> Iterator[Crossing]:
    """What crosses from one backend to another: each variable once for all that read it in the same one."""
    table = assignment.goal.target.table
    if table is None or not table.backends:
        return
    problem = assignment.problem
    for variable in problem.moving():
        writer = problem.writers[variable]
        if writer is None:
            continue
        source = backend_of(assignment, writer[0])
        readers: dict[str, list[int]] = {}
        for reader, _ in problem.readers[variable]:
            readers.setdefault(backend_of(assignment, reader), []).append(reader)
        for target in sorted(readers.keys() - {source}):
            own = table.backends.get(target or source)
            price = 0 if own is None else own.crossing
            yield Crossing(variable, source, target, tuple(dict.fromkeys(readers[target])), price)
