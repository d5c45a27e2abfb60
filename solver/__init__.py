"""The choice of layouts: atoms, relations, the layout problem, and the strategies that solve it. Knows no file
format.
"""

from layoutsolve.solver.statement.assignment import Assignment, Tier
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES, Goal
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.strategies.assign import STRATEGIES, assign
from layoutsolve.solver.theory.row import Price

__all__ = [
    "DEFAULT_OBJECTIVE",
    "OBJECTIVES",
    "STRATEGIES",
    "Assignment",
    "Boundary",
    "Goal",
    "LayoutProblem",
    "Price",
    "Tier",
    "assign",
]
