"""Contracting equalities: an operator that follows any layout of its only input needs no choice of its own.

Let a variable have one reader, which has a free row for every layout in which the variable may be written. Moving
data after that reader is then no worse than moving it before: whatever the reader's result is moved to, a move before
it would have to be made as well or would save one move at most, at the price of one. So the reader takes what is
written, and its producer can be taken to write the result. This holds for orders, where Reshapes do not count, for
moves of the same number of bytes, and where none of them may cost more than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.search.presolve import Domains
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.solver.theory.row import FREE, Row


@dataclass(frozen=True)
class Contraction:
    """A smaller problem with the same operators, of which ``follows`` have no choice: they follow their input."""

    problem: LayoutProblem
    domains: Domains
    follows: dict[int, dict[Layout, int]]
    original: LayoutProblem

    def expand(self, rows: Sequence[int]) -> tuple[int, ...]:
        """The rows of the original problem that a solution of the smaller one stands for."""
        expanded = list(rows)
        for number, choices in self.follows.items():
            operator = self.original.operators[number]
            writer = self.original.writers[_input(self.original, operator)]
            if writer is not None:
                written = self.original.operators[writer[0]].rows[expanded[writer[0]]].layouts[writer[1]]
                expanded[number] = choices[written]
        return tuple(expanded)


def contract(problem: LayoutProblem, domains: Domains, tiers: Tiers, limit: Limit | None = None) -> Contraction:
    """Contract every operator that can follow its input, in the order of execution, so that chains vanish whole.

    Those that the limit leaves no time for stay.
    """
    limit = limit or unlimited()
    operators = list(problem.operators)
    if any("reshapes" in tier for tier in tiers):
        return Contraction(problem, domains, {}, problem)
    follows: dict[int, dict[Layout, int]] = {}
    renamed: dict[object, tuple[Row, ...]] = {}
    home = dict(enumerate(problem.writers))
    for number, operator in enumerate(problem.operators):
        if limit.over:
            break
        limit.spend(len(domains[number]))
        choices = _choices(problem, domains[number], operator)
        if choices is None:
            continue
        source, target = _input(problem, operator), operator.ports[operator.inputs]
        writer = home[source]
        if writer is None or problem.readers[source] != ((number, _port(problem, operator)),):
            continue
        if writer[0] > number:  # a value from the end of a turn or run: what follows it would be its own input
            continue
        producer, port = writer
        if any(operators[producer].rows[row].layouts[port] not in choices for row in domains[producer]):
            continue
        limit.spend(len(domains[producer]) * len(domains[number]))
        if _loses(problem, domains, target, operators[producer], domains[producer], port, choices, operator):
            continue
        key = (id(operators[producer].rows), port, id(operator.rows), _port(problem, operator), *domains[number])
        if key not in renamed:
            renamed[key] = _renamed(operators[producer], port, operator, choices)
        ports = operators[producer].ports
        ports = (*ports[:port], target, *ports[port + 1 :])
        operators[producer] = replace(operators[producer], ports=ports, rows=renamed[key])
        operators[number] = replace(operator, ports=(), inputs=0, rows=(Row(()),))
        home[target] = writer
        follows[number] = choices
    smaller = replace(problem, operators=tuple(operators))
    narrowed = [[0] if number in follows else domain for number, domain in enumerate(domains)]
    return Contraction(smaller, narrowed, follows, problem)


def _loses(
    problem: LayoutProblem,
    domains: Domains,
    result: int,
    producer: Operator,
    domain: Sequence[int],
    port: int,
    choices: dict[Layout, int],
    follower: Operator,
) -> bool:
    """Whether some move of a follower's result may cost more than others, so that a stop on its way may pay."""
    if problem.even:
        return False
    given = {follower.rows[choices[producer.rows[row].layouts[port]]].layouts[follower.inputs] for row in domain}
    wanted = {
        problem.operators[number].rows[row].layouts[place]
        for number, place in problem.readers[result]
        for row in domains[number]
    }
    return problem.loses(result, given, wanted)


def _renamed(producer: Operator, port: int, follower: Operator, choices: dict[Layout, int]) -> tuple[Row, ...]:
    """The rows of a producer that writes the follower's result instead of what the follower reads: one tuple for all
    that are alike, as their rows are.
    """
    rows = []
    for row in producer.rows:
        choice = choices.get(row.layouts[port])
        if choice is not None:
            result = follower.rows[choice].layouts[follower.inputs]
            row = replace(row, layouts=(*row.layouts[:port], result, *row.layouts[port + 1 :]))
        rows.append(row)
    return tuple(rows)


def _choices(problem: LayoutProblem, domain: Sequence[int], operator: Operator) -> dict[Layout, int] | None:
    """The row that follows each layout of an operator's only input; None where there is none or a row costs."""
    moving = [port for port in operator.ports[: operator.inputs] if not problem.variables[port].constant]
    if len(moving) != 1 or len(operator.ports) != operator.inputs + 1 or len(domain) < 2:
        return None
    source, result = (problem.variables[number] for number in (moving[0], operator.ports[-1]))
    if source.bytes != result.bytes or (problem.timed and source.sizes != result.sizes):
        return None
    port, choices = _port(problem, operator), dict[Layout, int]()
    for number in domain:
        row = operator.rows[number]
        if row.price != FREE or choices.setdefault(row.layouts[port], number) != number:
            return None
    return choices


def _port(problem: LayoutProblem, operator: Operator) -> int:
    return next(
        port
        for port, variable in enumerate(operator.ports[: operator.inputs])
        if not problem.variables[variable].constant
    )


def _input(problem: LayoutProblem, operator: Operator) -> int:
    return operator.ports[_port(problem, operator)]
