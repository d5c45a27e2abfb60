"""The strategies, by name: each makes an assignment of layouts of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from layoutsolve.base import gc_pause
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.backend_markers import fixed, marked
from layoutsolve.solver.statement.backends import priced, unmarked
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE, OBJECTIVES, Goal
from layoutsolve.solver.strategies.baselines import propagate, transpose
from layoutsolve.solver.strategies.mincut import mincut
from layoutsolve.solver.strategies.orders_then_groupings import solve_graph
from layoutsolve.solver.strategies.push_down import push
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target

STRATEGIES: Mapping[str, Callable[[Graph, Boundary, Goal, Limit], Assignment]] = {
    "cpsat": solve_graph,
    "mincut": mincut,
    "push": push,
    "propagate": propagate,
    "transpose": transpose,
}


def assign(
    graph: Graph,
    boundary: Boundary | None = None,
    *,
    strategy: str = "cpsat",
    objective: str = DEFAULT_OBJECTIVE,
    target: Target | None = None,
    seconds: float | None = None,
    limit: Limit | None = None,
) -> Assignment:
    """Choose a layout for every tensor of a graph, whose concatenations may be made in steps.

    ``target`` is the runtime that the model is for, by default ONNX Runtime on the CPU without operators of its own.
    The search is limited by counted work, so that the result is the same on any machine, or by ``seconds``, or by a
    ``limit`` that several solves share; the best that is known by then, heuristics included, is returned with status
    'feasible' and a bound. Raises :class:`OptionError` for an unknown strategy or objective, :class:`StrategyError`
    where 'mincut' cannot solve the graph, :class:`LayoutError` for explicit layouts that do not fit.
    """
    if objective not in OBJECTIVES:
        raise OptionError(f"unknown objective '{objective}': use one of {', '.join(OBJECTIVES)}")
    if strategy not in STRATEGIES:
        raise OptionError(f"unknown strategy '{strategy}': use one of {', '.join(STRATEGIES)}")
    if seconds is not None and not seconds > 0:
        raise OptionError(f"a time limit of {seconds} seconds is not positive")
    with gc_pause.paused():
        stepped, goal = in_steps(graph), Goal(objective, target or default_target())
        limit, boundary = limit or Limit.of(len(stepped.nodes), seconds), boundary or Boundary()
        marking = marked(stepped, goal.target)
        if marking is stepped:
            return replace(priced(STRATEGIES[strategy](stepped, boundary, goal, limit)), ended=limit.ended)
        if not any({"transposes", "hidden"} <= {*level} for level in goal.levels):
            raise OptionError(f"target '{goal.target.name}' chooses backends: use another objective than {objective}")
        boundary.fixed(stepped)
        found = STRATEGIES[strategy](marking, fixed(boundary, marking), goal, limit)
        return replace(unmarked(found, stepped), ended=limit.ended)
