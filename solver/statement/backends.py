"""Backends of an assignment: which of them runs which operator, and where data cross from one to another.

Where a target chooses its backends, in which of them operators run, or in none, is decided with layouts
(:mod:`layoutsolve.solver.statement.backend_markers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import NOTHING, Graph
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.backend_markers import bare_rules
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.targets.form_table import Backend
from layoutsolve.solver.theory.row import Price


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
            price = table.backends.get(target or source, Backend()).crossing
            yield Crossing(variable, source, target, tuple(dict.fromkeys(readers[target])), price)


def unmarked(found: Assignment, graph: Graph) -> Assignment:
    """An assignment of a graph with markers as one of that without; what crosses is hidden in its price."""
    problem, values = found.problem, found.graph.values
    bare = [number for number, each in enumerate(problem.variables) if values[each.title].dtype != NOTHING]
    places = {old: new for new, old in enumerate(bare)}
    constants = tuple(
        replace(each, variables=tuple(places[number] for number in each.variables)) for each in problem.constants
    )
    variables, (rules, ways) = tuple(problem.variables[number] for number in bare), bare_rules(found.graph, found.rules)
    operators, rows = zip(
        *(
            (_operator(operator, places, ways), row)
            for operator, row in zip(problem.operators, found.rows, strict=True)
            if not operator.ports or not places.keys().isdisjoint(operator.ports)
        ),
        strict=True,
    )
    made = replace(problem, variables=variables, operators=operators, constants=constants, charged=None)
    answer = replace(found, graph=graph, stated=rules, problem=made, rows=rows, parts=(), charged=(), unseen=())
    return priced(replace(answer, price=price(made, rows), marked=found))


def priced(found: Assignment) -> Assignment:
    """An assignment in which it is known what runs where, with what crosses in its price; the very same one for a
    target that chooses no backends.
    """
    if not found.goal.target.chooses:
        return found
    told = replace(found, stated={**found.rules, **found.following(found.rules)})
    return replace(told, price=told.price + Price(hidden=sum(each.price for each in crossings(told))))


def _operator(operator: Operator, places: Mapping[int, int], ways: Mapping[int, Sequence[int]]) -> Operator:
    """An operator without the ports that are markers, whose ways have other numbers then."""
    kept = [port for port, variable in enumerate(operator.ports) if variable in places]
    numbers, rows = ways.get(operator.node), []
    for row in operator.rows:
        form = row.form if numbers is None else numbers[row.form]
        rows.append(replace(row, layouts=tuple(row.layouts[port] for port in kept), form=form))
    ports, inputs = tuple(places[operator.ports[port]] for port in kept), sum(port < operator.inputs for port in kept)
    tensors = operator.tensors and tuple(operator.tensors[port] for port in kept)
    return replace(operator, ports=ports, inputs=inputs, rows=tuple(rows), tensors=tensors)
