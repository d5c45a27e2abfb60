"""Linear programs, solved by GLOP: what knows its interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from ortools.linear_solver.linear_solver_pb2 import MPModelProto, MPSolutionResponse
from ortools.linear_solver.pywraplp import Solver

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.search.interruptible import interruptible

Terms = Iterable[tuple[int, float]]
"""Variables, each at most once, and their weights in a sum."""

DUAL = "use_dual_simplex: true"
"""The dual simplex algorithm takes a tenth of the time or less."""


@dataclass(frozen=True)
class Optimum:
    """The least sum, the amount of each variable in it, and the dual value of each row."""

    value: float
    values: Sequence[float]
    duals: Sequence[float]


class Linear:
    """A linear program: variables that are not negative, and rows, which keep sums of them between two bounds."""

    def __init__(self) -> None:
        self._model = MPModelProto()
        self._weighed: list[int] = []
        self.steps = 0
        """How many steps of the simplex algorithm the last call of :meth:`minimised` has taken."""

    @property
    def variables(self) -> int:
        """How many variables there are."""
        return len(self._model.variable)

    @property
    def rows(self) -> int:
        """Number of constraints."""
        return len(self._model.constraint)

    def variable(self) -> int:
        """A new variable."""
        self._model.variable.add(lower_bound=0.0)
        return self.variables - 1

    def row(self, terms: Terms, least: float = -inf, most: float = inf) -> int:
        """A new row."""
        variables, weights = tuple(zip(*terms, strict=True)) or ((), ())
        self._model.constraint.add(var_index=variables, coefficient=weights, lower_bound=least, upper_bound=most)
        return self.rows - 1

    def bound(self, variable: int, most: float) -> None:
        """Keep a variable from being more than a number."""
        self._model.variable[variable].upper_bound = most

    def limit(self, row: int, most: float) -> None:
        """Keep a row from being more than a number."""
        self._model.constraint[row].upper_bound = most

    def minimised(
        self, weights: Mapping[int, float], parameters: str, seconds: float = inf, alone: bool = True
    ) -> Optimum | None:
        """The least sum of weighted variables; None where there is none, or the ``parameters`` or ``seconds`` end the
        search for it. A program that may take long is not solved ``alone``: the call can be interrupted then.
        """
        for variable in self._weighed:
            self._model.variable[variable].objective_coefficient = 0.0
        for variable, weight in weights.items():
            self._model.variable[variable].objective_coefficient = weight
        self._weighed = list(weights)
        solver = Solver.CreateSolver("GLOP")
        solver.LoadModelFromProto(self._model)
        solver.SetSolverSpecificParametersAsString(f"{DUAL} {parameters}")
        if seconds < inf:
            solver.set_time_limit(max(1, int(seconds * 1000)))
        status = solver.Solve() if alone else interruptible(solver.Solve, solver.InterruptSolve)
        self.steps = solver.iterations()
        if status != Solver.OPTIMAL:
            return None
        found = MPSolutionResponse()
        solver.FillSolutionResponseProto(found)
        return Optimum(found.objective_value, list(found.variable_value), self._duals(found.dual_value))

    def _duals(self, found: Sequence[float]) -> Sequence[float]:
        """The dual values of all rows; those without bounds, which are not loaded, have none."""
        if len(found) == self.rows:
            return list(found)
        rest = iter(found)
        return [
            0.0 if row.lower_bound == -inf and row.upper_bound == inf else next(rest) for row in self._model.constraint
        ]
