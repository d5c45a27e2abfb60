"""The price of an assignment, counted from its layouts alone.

The models that CP-SAT and minimum cuts solve are stated without it. Enumeration, concatenations in steps and the check
of a certificate ask it. What is independent of it is :mod:`layoutsolve.certification.audit`, which counts in the
written file.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import lru_cache

from layoutsolve.solver.statement.duplicated_initializers import copied_bytes
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.move import move
from layoutsolve.solver.theory.row import FREE, Price

Moves = tuple[tuple[Layout, Layout], ...]
"""How one variable reaches the layouts its readers want: ``(source, target)`` in an order of execution, each source
being the produced layout or an earlier target.
"""


@lru_cache(maxsize=65536)
def deliver(written: Layout, wanted: frozenset[Layout], rigid: bool) -> Moves:
    """One Transpose for each order that is wanted and not written; further groupings of an order are Reshapes of it."""
    orders: dict[tuple[int, ...], list[Layout]] = {}
    for layout in sorted(wanted - {written}):
        orders.setdefault(order(layout), []).append(layout)
    moves: list[tuple[Layout, Layout]] = []
    for atoms, layouts in orders.items():
        source = written
        if atoms != order(written):
            first = min(layouts, key=lambda layout: _nearness(written, layout, rigid))
            layouts.remove(first)
            moves.append((written, first))
            source = first
        moves += [(source, layout) for layout in layouts]
    return tuple(moves)


def _nearness(written: Layout, wanted: Layout, rigid: bool) -> tuple[int, bool, Layout]:
    """Of several layouts of one order a Transpose ends in the least of these."""
    steps = move(written, wanted, rigid)
    return steps.reshapes, steps.hindered, wanted


def price(problem: LayoutProblem, rows: Sequence[int]) -> Price:
    """What the chosen alternatives cost: their own operators, and the moves between a producer and its readers."""
    total = Price()
    for number in range(len(problem.operators)):
        if (own := chosen(problem, rows, number).price) is not FREE:
            total += own
    for variable in problem.moving():
        if (moved := price_of_variable(problem, rows, variable)) is not FREE:
            total += moved
    return replace(total, copies=total.copies + copied_bytes(problem, rows))


def price_of_variable(problem: LayoutProblem, rows: Sequence[int], variable: int) -> Price:
    """What moving one variable to its readers costs."""
    writer = problem.writers[variable]
    if writer is None:
        return FREE
    wanted = {problem.operators[number].rows[rows[number]].layouts[port] for number, port in problem.readers[variable]}
    return price_of_moves(problem, variable, chosen(problem, rows, writer[0]).layouts[writer[1]], wanted)


def price_of_moves(problem: LayoutProblem, variable: int, written: Layout, wanted: Set[Layout]) -> Price:
    """What moving one variable from the layout that it is written in to those that are wanted costs."""
    if not wanted or wanted == {written}:
        return FREE
    moves = deliver(written, frozenset(wanted), problem.variables[variable].rigid)
    return sum((problem.move_price(variable, *each) for each in moves[1:]), problem.move_price(variable, *moves[0]))


def price_of_layouts(problem: LayoutProblem, variable: int, written: Layout, wanted: Set[Layout]) -> Price:
    """What moving a variable to what its readers want costs, and parting what is better left joined."""
    moved = price_of_moves(problem, variable, written, wanted)
    return moved + Price(regrouped=1) if problem.variables[variable].joined and wanted - {written} else moved
