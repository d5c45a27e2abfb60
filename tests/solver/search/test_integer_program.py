"""Programs of components: their relaxation bounds them, and dual values strike out nothing that is optimal."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from layoutsolve.solver.limit import unlimited
from layoutsolve.solver.search import component_search as component_search
from layoutsolve.solver.search import cpsat
from layoutsolve.solver.search.component_search import solve_component
from layoutsolve.solver.search.formulation import Formulation
from layoutsolve.solver.search.integer_program import FIELDS, UNIT, Program, dual_bound
from layoutsolve.solver.search.lp_relaxation import relaxed
from layoutsolve.solver.search.presolve import Component, Domains, components, price_of_component
from layoutsolve.solver.statement.objective import OBJECTIVES, coarse_levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import Statement
from tests.solver.enumeration import enumerated
from tests.solver.random_graphs import CONTROL, random_graph


def random_program(random: np.random.Generator) -> Program:
    """Up to ten variables, some of which are in sets, random rows that all zeros and ones meet or not, and a sum."""
    sets = [list(range(first, first + 2)) for first in range(0, 2 * int(random.integers(1, 4)), 2)]
    count = 2 * len(sets) + int(random.integers(0, 4))
    rows = []
    for _ in range(int(random.integers(1, 6))):
        terms = [(each, int(random.choice([-1, 1, 2]))) for each in range(count) if random.random() < 0.5]
        rows.append((terms, int(random.integers(-1, 2)), False))
    terms = {name: list[tuple[int, int]]() for name in FIELDS}
    terms["transposes"] = [(each, int(random.integers(0, 5))) for each in range(count)]
    choices = {(number, row): literal for number, each in enumerate(sets) for row, literal in enumerate(each)}
    return Program(count, choices, sets, rows, terms)


def solutions(program: Program) -> list[tuple[int, ...]]:
    """All of a program's solutions."""
    return [
        values
        for values in product((0, 1), repeat=program.count)
        if all(sum(values[each] for each in literals) == 1 for literals in program.exactly)
        and all(
            total == least if equal else total >= least
            for terms, least, equal in program.rows
            for total in [sum(values[each] * weight for each, weight in terms)]
        )
    ]


@pytest.mark.members(10)
@pytest.mark.parametrize("dominance", [0, cpsat.CHOICES])
@pytest.mark.parametrize("seed", range(50))
def test_cpsat(seed: int, dominance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Presolve leaves the least sum as it is, whether it compares alternatives for dominance or not."""
    monkeypatch.setattr(cpsat, "SMALL", 0)
    monkeypatch.setattr(cpsat, "CHOICES", dominance)
    program = random_program(np.random.default_rng(seed))
    level = program.level(("transposes",))
    known = [sum(values[each] * weight for each, weight in level.terms) for values in solutions(program)]
    found = cpsat.searched(program, level, 0, unlimited())
    assert found.empty == (not known)
    if known:
        assert found.rows is not None
        assert found.bound == min(known)


@pytest.mark.members(60)
@pytest.mark.parametrize("seed", range(300))
def test_dual_values(seed: int) -> None:
    """Whatever they are, the bound holds, and just the solutions up to a total are left."""
    random = np.random.default_rng(seed)
    program = random_program(random)
    tier = program.level(("transposes",))
    known = [sum(values[each] * weight for each, weight in tier.terms) for values in solutions(program)]
    if not known:
        return
    found = relaxed(program, tier, unlimited())
    given = [list(random.integers(-2, 5, len(program.rows)) / 3)] + ([] if found is None else [list(found.duals)])
    for duals in given:
        proven = dual_bound(program, tier, duals)
        assert proven.bound <= min(known) * UNIT
        for total in range(min(known), min(known) + 3):
            left = proven.restricted(total)
            own = left.level(("transposes",))
            values = [own.value(sum(each[at] * weight for at, weight in own.terms)) for each in solutions(left)]
            assert sorted(values) == sorted(each * tier.scale for each in known if each <= total)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["min-executed", "min-bytes", "min-nodes"])
def test_components_equal_enumeration(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of all tiers that count, and bounds that meet it, whether operators can be eliminated or not."""
    tiers, compared = coarse_levels(OBJECTIVES[objective]) or OBJECTIVES[objective], 0
    for seed in range(12):
        statement = Statement(random_graph(seed, 9, CONTROL))
        problem = statement.layouts() if coarse_levels(OBJECTIVES[objective]) is None else statement.orders()
        domains = [list(range(min(3, len(operator.rows)))) for operator in problem.operators]
        start = [0] * len(domains)
        for component in components(problem, domains):
            if len(component.operators) > 8:
                continue
            best = enumerated(problem, domains, component, start, tiers)
            least = ranked(price_of_component(problem, best, component), tiers)
            for eliminating in (False, True):
                with monkeypatch.context() as patched:
                    if not eliminating:
                        patched.setattr(component_search, "eliminated", lambda *given: None)
                    found = solve_component(problem, domains, component, start, tiers, unlimited())
                rows = [found.rows.get(number, 0) for number in range(len(domains))]
                assert ranked(price_of_component(problem, rows, component), tiers) == found.bounds == least
            compared += 1
    assert compared >= 4


def test_the_relaxation_is_tight_where_moves_cost_alike() -> None:
    """Its bound is what enumeration comes to."""
    problem = Statement(random_graph(3, 6)).orders()
    domains = [list(range(len(operator.rows))) for operator in problem.operators]
    for component in components(problem, domains):
        bound = _bound(problem, domains, component)
        start = [0] * len(domains)
        best = enumerated(problem, domains, component, start, (("transposes",),))
        assert bound == price_of_component(problem, best, component).transposes


def _bound(problem: LayoutProblem, domains: Domains, component: Component) -> int:
    program = Formulation(problem, domains, component, (("transposes",),), unlimited()).program()
    tier = program.level(("transposes",))
    found = relaxed(program, tier, unlimited())
    assert found is not None
    return tier.value(dual_bound(program, tier, found.duals).least)
