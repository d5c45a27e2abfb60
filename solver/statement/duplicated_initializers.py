"""Copies of constants: one that several operators read is written once for each way in which they want it stored.

That costs bytes in the file and nothing else, so it is decided last: among rows that differ in constants alone, those
that share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations, islice
from math import prod

from layoutsolve.ir.graph import static_elements
from layoutsolve.solver.statement.problem import Constant, LayoutProblem
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.variable import Variable

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
    chosen, settled = list(rows), set[int]()
    for shared in problem.constants:
        free = {problem.readers[variable][0][0]: variable for variable in shared.variables}
        free = {number: variable for number, variable in free.items() if number not in settled}
        settled.update(free)
        if len(_ways(problem, chosen, shared)) < 2:
            continue
        others = (variable for variable in shared.variables if variable not in free.values())
        kept = _source(problem, shared) | {_way(problem, chosen, variable) for variable in others}
        ways = {number: _alike(problem, chosen, variable) for number, variable in free.items()}
        best = _fewest([*ways.values()], kept)
        for number, choice in ways.items():
            chosen[number] = next(row for way, row in choice.items() if way in best)
    return tuple(chosen if copied_bytes(problem, chosen) < copied_bytes(problem, rows) else rows)


def _alike(problem: LayoutProblem, rows: Sequence[int], variable: int) -> dict[Stored, int]:
    """The rows of the operator that reads a constant which are like its own in all else, by how they want it stored;
    its own is first.
    """
    ((number, port),) = problem.readers[variable]
    operator, present = problem.operators[number], problem.operators[number].rows[rows[number]]
    others = [at for at, each in enumerate(operator.ports) if not problem.variables[each].constant]
    found = {_way(problem, rows, variable): rows[number]}
    for at, row in enumerate(operator.rows):
        if row.price == present.price and all(row.layouts[each] == present.layouts[each] for each in others):
            found.setdefault(stored(problem.variables[variable], row.layouts[port]), at)
    return found


def _fewest(choices: Sequence[dict[Stored, int]], kept: set[Stored]) -> set[Stored]:
    """The smallest set of ways, with those kept, that has one for every reader; the first one among equals."""
    ways = [way for way in dict.fromkeys(way for choice in choices for way in choice) if way not in kept]
    sets = chain.from_iterable(combinations(ways, count) for count in range(len(ways)))
    for added in islice(sets, TRIED):
        found = kept.union(added)
        if all(not found.isdisjoint(choice) for choice in choices):
            return found
    return kept.union(next(iter(choice)) for choice in choices)


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
