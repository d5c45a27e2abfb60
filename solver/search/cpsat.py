"""A component's program solved by CP-SAT, for what neither elimination nor the LP relaxation has an answer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from layoutsolve.base.lazy_imports import deferred
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.integer_program import Level, Program, Terms
from layoutsolve.solver.search.interruptible import interruptible

with deferred("pandas"):
    from ortools.sat.python import cp_model

PAIRS, CHOICES = 2_000_000, 7_000
"""Where an operator's alternatives are more pairs, or all choices more, presolve does not look for dominance, which it
does not count: twenty seconds for sixteen million pairs, or among 14,000 choices that clauses link.
"""

SMALL, EACH = 400, 4
"""The choices up to which presolve takes longer than it saves, and the work of stating a variable to CP-SAT."""

LARGEST = 2**50
"""How large a sum may become at all: CP-SAT adds in 64 bits, and reports values that a float holds exactly."""


@dataclass(frozen=True)
class Found:
    """Rows, None where a search found none in time, a proven bound on the level, and whether there are none at all."""

    rows: Mapping[int, int] | None
    bound: int
    empty: bool


def searched(program: Program, level: Level, least: int, limit: Limit) -> Found:
    """Minimise a level, whose sum is no lower than ``least``.

    Without hints: a half-told solution leads the search astray for longer than all else takes. Where the sum could
    become too large nothing is searched.
    """
    if sum(abs(weight) for _, weight in level.terms) > LARGEST:
        return Found(None, least, empty=False)
    limit.spend(EACH * (program.count + len(program.rows)))
    model = cp_model.CpModel()
    try:
        literals = [model.new_bool_var("") for _ in range(program.count)]
        for group in program.exactly:
            model.add_exactly_one([literals[literal] for literal in group])
        for terms, lowest, equal in program.rows:
            total = _sum(literals, terms)
            model.add(total == lowest if equal else total >= lowest)
        total = _sum(literals, level.terms)
        model.add(total >= least)
        model.minimize(total)
        solver = _solver(program, limit)
        status = interruptible(lambda: solver.solve(model), solver.stop_search)
        limit.searched(solver.response_proto.deterministic_time, status in (cp_model.OPTIMAL, cp_model.INFEASIBLE))
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Found(None, least, status == cp_model.INFEASIBLE)
        chosen = (key for key, literal in program.choices.items() if solver.boolean_value(literals[literal]))
        return Found({**program.fixed, **dict(chosen)}, max(least, ceil(solver.best_objective_bound - 1e-6)), False)
    finally:
        vars(model).clear()  # under their old names it holds its own methods, which would keep it in memory


def _sum(literals: list[cp_model.IntVar], terms: Terms) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.weighted_sum([literals[each] for each, _ in terms], [weight for _, weight in terms])


def _solver(program: Program, limit: Limit) -> cp_model.CpSolver:
    """One worker and a fixed seed, so that the same model has the same answer."""
    choices, pairs = len(program.choices), sum(len(group) ** 2 for group in program.exactly)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if limit.timed:
        parameters.max_time_in_seconds = limit.seconds
    else:
        parameters.max_deterministic_time = limit.deterministic_seconds
    parameters.num_workers = 1
    parameters.random_seed = 0
    parameters.linearization_level = 2
    parameters.cp_model_presolve = choices > SMALL
    parameters.keep_all_feasible_solutions_in_presolve = pairs > PAIRS or choices > CHOICES
    parameters.catch_sigint_signal = False
    return solver
