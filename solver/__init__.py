"""The choice of layouts: atoms, relations, the layout problem, and the strategies that solve it. Knows no file
format.
"""

from layoutsolve.solver.statement.assignment import Assignment, Tier
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES, Goal
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.row import Price

TYPE_CHECKING = False
if TYPE_CHECKING:
    from layoutsolve.solver.strategies.assign import STRATEGIES, assign

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


def __getattr__(name: str) -> object:
    """The strategies, imported when they are asked for: a certificate is checked without them."""
    if name not in ("STRATEGIES", "assign"):
        raise AttributeError(f"module 'layoutsolve.solver' has no attribute '{name}'")
    from layoutsolve.solver.strategies import assign

    found: object = getattr(assign, name)
    globals()[name] = found
    return found
