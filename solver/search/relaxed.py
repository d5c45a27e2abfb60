"""The linear relaxation of a component's program, solved by GLOP.

What it comes to is a proposal: the multipliers prove a bound whatever they are, and rows are priced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.linear_solver.linear_solver_pb2 import MPModelProto, MPSolutionResponse
from ortools.linear_solver.pywraplp import Solver

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.program import Program, Terms, Tier

AT_ONCE = 400
"""The variables and rows that one step of the simplex algorithm handles in a unit of work."""

DENSE = 5
"""How many entries for each variable and row are dense: a step then costs as the square of what there are more."""

EACH = 3
"""The work of stating a program to GLOP, for each of its variables and rows."""

MORE = 1_000
"""How many more steps than it has rows a relaxation may take: mostly a few for each ten rows are enough."""


@dataclass(frozen=True)
class Relaxed:
    """A solution of the relaxation: how much of each variable there is, and the multiplier of each row."""

    values: Sequence[float]
    duals: Sequence[float]


def relaxed(program: Program, tier: Tier, limit: Limit) -> Relaxed | None:
    """The least sum of a tier where variables may be fractions; None where there is none, or the limit ends before."""
    model = MPModelProto()
    weights = dict(tier.terms)
    for literal in range(program.count):
        model.variable.add(lower_bound=0.0, objective_coefficient=float(weights.get(literal, 0)))
    for literals in program.exactly:
        _row(model, [(literal, 1) for literal in literals], 1, equal=True)
    for terms, least, equal in program.rows:
        _row(model, terms, least, equal)
    size = program.count + len(model.constraint)
    entries = sum(len(terms) for terms, _, _ in program.rows)
    limit.spend(EACH * size)
    each = max(size, entries**2 // (DENSE**2 * size)) // AT_ONCE + 1
    steps = min(len(model.constraint) + MORE, limit.work // each)
    solver = Solver.CreateSolver("GLOP")
    solver.LoadModelFromProto(model)
    solver.SetSolverSpecificParametersAsString(f"use_dual_simplex: true max_number_of_iterations: {steps}")
    if limit.timed:
        solver.set_time_limit(max(1, int(limit.seconds * 1000)))
    status = solver.Solve()
    limit.spend(solver.iterations() * each)
    if status != Solver.OPTIMAL:
        return None
    found = MPSolutionResponse()
    solver.FillSolutionResponseProto(found)
    return Relaxed(list(found.variable_value), list(found.dual_value)[len(program.exactly) :])


def _row(model: MPModelProto, terms: Terms, least: int, equal: bool) -> None:
    model.constraint.add(
        var_index=[literal for literal, _ in terms],
        coefficient=[weight for _, weight in terms],
        lower_bound=least,
        upper_bound=least if equal else float("inf"),
    )
