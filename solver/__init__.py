"""The choice of layouts: atoms, relations, the layout problem, and the strategies that solve it. Knows no file
format.
"""

from layoutsolve.solver.boundary import Boundary
from layoutsolve.solver.problem import DEFAULT_OBJECTIVE, OBJECTIVES, Assignment, Goal, LayoutProblem, Price
from layoutsolve.solver.runs import in_steps
from layoutsolve.solver.strategies import STRATEGIES, assign

__all__ = [
    "DEFAULT_OBJECTIVE",
    "OBJECTIVES",
    "STRATEGIES",
    "Assignment",
    "Boundary",
    "Goal",
    "LayoutProblem",
    "Price",
    "assign",
    "in_steps",
]
