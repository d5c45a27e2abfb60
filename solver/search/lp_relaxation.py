"""The linear relaxation of a component's program, solved by GLOP: it proves most minima, without any search.

What it comes to is a proposal: the dual values prove a bound whatever they are, and rows are priced.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.glop import Linear, Optimum
from layoutsolve.solver.search.integer_program import Level, Program

AT_ONCE, DENSE = 400, 5
"""The variables and rows that one step of the simplex algorithm handles in a unit of work, and how many entries for
each are dense: a step then costs as the square of what there are more.
"""

EACH, MORE = 3, 1_000
"""The work of stating a program, for each of its variables and rows, and how many more steps than it has rows a
relaxation may take: mostly a few for each ten rows are enough.
"""


def relaxed(program: Program, level: Level, limit: Limit) -> Optimum | None:
    """The least sum of a level where variables may be fractions; None where there is none, or the limit ends before.
    The dual values are those of the program's rows, without those of ``exactly``.
    """
    model, weights = Linear(), dict(level.terms)
    for _ in range(program.count):
        model.variable()
    for literals in program.exactly:
        model.row(((literal, 1) for literal in literals), 1, 1)
    for terms, least, equal in program.rows:
        model.row(terms, least, least if equal else inf)
    size = model.variables + model.rows
    entries = sum(len(terms) for terms, _, _ in program.rows)
    limit.spend(EACH * size)
    each = max(size, entries**2 // (DENSE**2 * size)) // AT_ONCE + 1
    steps = min(model.rows + MORE, limit.work // each)
    found = model.minimised(weights, f"max_number_of_iterations: {steps}", limit.seconds)
    limit.spend(model.steps * each)
    return found and replace(found, duals=found.duals[len(program.exactly) :])
