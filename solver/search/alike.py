"""Readers of a variable that are alike have one choice: a tensor may have thousands of them.

Let a reader have a choice that matters to others at one variable alone, where all else that it touches is fixed. Then
it is known what each of its rows costs, with the moves of what it touches besides. Of readers that are alike the
cheapest one shows all others a row that costs them no more, and that needs no other move of the variable. So it is of
orders: of groupings fewer that are wanted may take more Reshapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from layoutsolve.solver.search.contract import Contraction
from layoutsolve.solver.search.presolve import Domains, varying
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.theory.row import Row

MANY = 64
"""How many readers a variable has where those that are alike are looked for: fewer are no trouble."""


def merged(contraction: Contraction) -> Contraction:
    """The same with one operator in the place of all that are alike."""
    problem, domains = contraction.problem, contraction.domains
    crowded = [variable for variable in problem.moving() if len(problem.readers[variable]) > MANY]
    alike: dict[Hashable, list[tuple[int, int]]] = {}
    for variable in crowded:
        ports = Counter(number for number, _ in problem.readers[variable])
        for number, port in problem.readers[variable]:
            if ports[number] == 1 and (key := _key(problem, domains, number, port)) is not None:
                alike.setdefault((variable, key), []).append((number, port))
    operators, left, leaders = list(problem.operators), list(domains), dict[int, int]()
    for (leader, port), *others in alike.values():
        if others:
            operators[leader] = _leader(problem, domains, leader, port, 1 + len(others))
            for number, _ in others:
                leaders[number] = leader
                operators[number] = _only(operators[number], _fixed(problem, domains, number), [domains[number][0]])
                left[number] = [0]
    if not leaders:
        return contraction
    return replace(contraction, problem=replace(problem, operators=tuple(operators)), domains=left, leaders=leaders)


def _key(problem: LayoutProblem, domains: Domains, number: int, port: int) -> Hashable | None:
    """All that counts of a reader but for the variable that it reads at a port; None where it has no choice there, or
    one that matters to others as well.
    """
    ports = varying(problem, domains, number)
    if port not in ports:
        return None
    operator, around = problem.operators[number], []
    for other in ports:
        variable = operator.ports[other]
        if other != port:
            places = [place for place in problem.places(variable) if place != (number, other)]
            found = [{problem.operators[at].rows[row].layouts[by] for row in domains[at]} for at, by in places]
            if variable == operator.ports[port] or any(len(layouts) > 1 for layouts in found):
                return None
            each, writer = problem.variables[variable], problem.writers[variable]
            wanted = [(place == writer, *layouts) for place, layouts in zip(places, found, strict=True)]
            around.append((other, each.sizes, each.bytes, each.turns, problem.charges(variable), *wanted))
    return port, operator.inputs, id(operator.rows), *domains[number], *around


def _fixed(problem: LayoutProblem, domains: Domains, number: int) -> list[int]:
    """The ports of an operator at which it has no choice."""
    ports = varying(problem, domains, number)
    return [port for port in range(len(problem.operators[number].ports)) if port not in ports]


def _only(operator: Operator, ports: Sequence[int], rows: Sequence[int]) -> Operator:
    """What is left of an operator at some of its ports, with some rows that cost nothing."""
    return operator.at(ports, (Row(tuple(operator.rows[row].layouts[port] for port in ports)) for row in rows))


def _leader(problem: LayoutProblem, domains: Domains, number: int, port: int, count: int) -> Operator:
    """A reader that stands for so many: its rows cost what all of them pay, with all moves but those of what they
    share.
    """
    operator, rows = problem.operators[number], [domain[0] for domain in domains]
    own = {operator.ports[other] for other in varying(problem, domains, number) if other != port}
    made = _only(operator, sorted((port, *_fixed(problem, domains, number))), range(len(operator.rows)))
    paid = []
    for row, bare in enumerate(made.rows):
        rows[number] = row
        moved = (price_of_variable(problem, rows, variable) for variable in sorted(own))
        paid.append(replace(bare, price=sum(moved, operator.rows[row].price).times(count)))
    return replace(made, rows=tuple(paid))
