"""Copies of constants: one that several operators read is written once for each way in which they want it stored.

That costs bytes in the file and nothing else, so it is decided last: among rows that differ in constants alone, those
that share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import static_elements
from layoutsolve.solver.statement.problem import Constant, LayoutProblem, Variable
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.row import Row

Stored = tuple[tuple[tuple[int, int], ...], tuple[int, ...]]
"""An array by what it holds: spans of elements of the constant, each with its stride and length, and its shape."""

TRIED = 1000
"""How many sets of ways to store one constant are tried, smaller ones first."""


def copied_bytes(problem: LayoutProblem, rows: Sequence[int]) -> int:
    """The bytes of all copies beyond the first of each constant."""
    return sum(shared.bytes * (len(_ways(problem, rows, shared)) - 1) for shared in problem.constants)


def shared_rows(problem: LayoutProblem, rows: Sequence[int]) -> tuple[int, ...]:
    """The rows with others in their place that differ in constants alone, so that the fewest copies are needed.

    Each operator has a say in one constant only: the first that it shares.
    """
    chosen = list(rows)
    settled: set[int] = set()
    for shared in problem.constants:
        readers = [_Reader(problem, chosen, variable) for variable in shared.variables]
        once = {reader.operator: reader for reader in readers}
        free = [reader for reader in once.values() if reader.operator not in settled]
        settled.update(reader.operator for reader in free)
        if len(_ways(problem, chosen, shared)) < 2:
            continue
        kept = _source(problem, shared) | {reader.way for reader in readers if reader not in free}
        best = _fewest([reader.ways for reader in free], kept)
        for reader in free:
            chosen[reader.operator] = next(row for way, row in reader.ways.items() if way in best)
    return tuple(chosen if copied_bytes(problem, chosen) < copied_bytes(problem, rows) else rows)


@dataclass(init=False)
class _Reader:
    """An operator that reads a constant, and its rows, by how they want it stored, that are alike in all else."""

    operator: int
    way: Stored
    ways: dict[Stored, int]

    def __init__(self, problem: LayoutProblem, rows: Sequence[int], variable: int) -> None:
        ((self.operator, port),) = problem.readers[variable]
        operator = problem.operators[self.operator]
        present = operator.rows[rows[self.operator]]
        others = [at for at, each in enumerate(operator.ports) if not problem.variables[each].constant]
        self.way = stored(problem.variables[variable], present.layouts[port])
        self.ways = {self.way: rows[self.operator]}
        for number, row in enumerate(operator.rows):
            if row.price == present.price and _alike(row, present, others):
                self.ways.setdefault(stored(problem.variables[variable], row.layouts[port]), number)


def _alike(row: Row, other: Row, ports: Iterable[int]) -> bool:
    return all(row.layouts[port] == other.layouts[port] for port in ports)


def _fewest(choices: Sequence[dict[Stored, int]], kept: set[Stored]) -> set[Stored]:
    """The smallest set of ways, with those kept, that has one for every reader; the first one among equals."""
    ways = [way for way in dict.fromkeys(way for choice in choices for way in choice) if way not in kept]
    tried = 0
    for count in range(len(ways)):
        for added in combinations(ways, count):
            found = kept.union(added)
            if all(not found.isdisjoint(choice) for choice in choices):
                return found
            tried += 1
            if tried > TRIED:
                return kept.union(next(iter(choice)) for choice in choices)
    return kept.union(ways)


def _ways(problem: LayoutProblem, rows: Sequence[int], shared: Constant) -> set[Stored]:
    return _source(problem, shared) | {_way(problem, rows, variable) for variable in shared.variables}


def _source(problem: LayoutProblem, shared: Constant) -> set[Stored]:
    """The way in which a constant has to be stored whatever its readers want, if there is one."""
    variable = problem.variables[shared.variables[0]]
    return {stored(variable, layout) for layout in variable.readings.values()} if shared.output else set()


def _way(problem: LayoutProblem, rows: Sequence[int], variable: int) -> Stored:
    ((operator, port),) = problem.readers[variable]
    return stored(problem.variables[variable], problem.operators[operator].rows[rows[operator]].layouts[port])


def stored(variable: Variable, layout: Layout) -> Stored:
    """What a constant is in a layout, whatever atoms it has been factored into."""
    (logical,) = variable.readings.values()
    sizes = [static_elements((size,)) for size in variable.sizes]
    source = order(logical)
    strides = {atom: prod(sizes[later] for later in source[place + 1 :]) for place, atom in enumerate(source)}
    spans: list[tuple[int, int]] = []
    for atom in order(layout):
        if spans and spans[-1][0] == strides[atom] * sizes[atom]:
            spans[-1] = (strides[atom], spans[-1][1] * sizes[atom])
        else:
            spans.append((strides[atom], sizes[atom]))
    return tuple(spans), tuple(static_elements((size,)) for size in stored_shape(layout, sizes))
