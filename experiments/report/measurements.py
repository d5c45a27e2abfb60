"""What is measured of each model: every function gives tidy rows, one for each way.

A row is a mapping of columns to numbers and words. What belongs to the model (its family and name) is added by
:mod:`experiments.report.running`, which also makes a row of what a function raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from experiments.compare.formulations import coarse, tasks
from experiments.corpus import graph_of
from experiments.instances.engines import ENGINES
from experiments.instances.engines import solve as solve_instance
from experiments.instances.instance import Statement as InstanceStatement
from experiments.report.runtimes import runtimes
from layoutsolve.errors import StrategyError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver import STRATEGIES, Goal, assign
from layoutsolve.solver.limit import DETERMINISTIC_SECOND, Limit
from layoutsolve.solver.search.component_search import solve_component
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import OBJECTIVES, ranked
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import FEW, Statement
from layoutsolve.solver.strategies.baselines import source_row
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import Row as Alternative

Row = Mapping[str, Any]

COMPARED = ("min-executed", "min-transpose")
"""The objectives that strategies are compared by."""

CHANNELS_FROM = 3
"""From how many dimensions on a tensor has channels."""

SECONDS = 5.0
"""The limit of each engine for an instance, and of ours in units of work of as many seconds."""


def strategies(source: bytes | Graph) -> list[Row]:
    """Every strategy by each objective: what it leaves, and what is proven of the minimum."""
    graph, found = graph_of(source), []
    for objective in COMPARED:
        bound = 0
        for strategy in STRATEGIES:  # the one that proves comes first
            if strategy == "propagate" and graph.imports:  # in ONNX there is no operator that it begins with
                continue
            began = time.process_time()
            try:
                answer = assign(graph, objective=objective, strategy=strategy)
            except StrategyError:
                continue
            seconds, price = time.process_time() - began, answer.price
            bound = answer.bound if strategy == "cpsat" else bound
            found.append(
                {
                    "objective": objective,
                    "strategy": strategy,
                    "format": "onnx" if graph.imports else "tflite",
                    "operators": len(graph.nodes),
                    "value": ranked(price, OBJECTIVES[objective])[0],
                    "bound": bound,
                    "status": answer.tiers[0].status if strategy == "cpsat" else "",
                    "transposes": price.transposes,
                    "penalty": price.hidden,
                    "bytes": price.bytes,
                    "reshapes": price.reshapes,
                    "seconds": round(seconds, 4),
                }
            )
    return found


# -- what each part of the statement is worth ----------------------------------------------------------------------


def ablation(source: bytes | Graph) -> list[Row]:
    """The first level of both objectives over orders, where a part of the statement is left out."""
    graph, found = in_steps(graph_of(source)), []
    for objective in COMPARED:
        goal = Goal(objective)
        levels = coarse(goal)
        for way, stated in PARTS.items():
            problem = stated(graph, goal)
            answer = solve(problem, levels, Limit.of(len(graph.nodes)))
            row = {"value": answer.values[0], "proven": answer.values[0] == answer.bounds[0]}
            found.append({"objective": objective, "without": way, **row})
    return found


def _whole(graph: Graph, goal: Goal) -> LayoutProblem:
    return Statement(graph, goal=goal).orders(Limit.of(len(graph.nodes)), FEW)


def _without_views(graph: Graph, goal: Goal) -> LayoutProblem:
    """Transposes and Reshapes of the source are operators like others, and cost what they are."""
    views = [number for number, node in enumerate(graph.nodes) if node.op in ("Transpose", "Reshape")]
    return Statement(graph, goal=goal, opaque_views=views).orders(Limit.of(len(graph.nodes)), FEW)


def _without_absorption(graph: Graph, goal: Goal) -> LayoutProblem:
    """Constants are written in their source layout, and moved from there as what is computed is."""
    problem = _whole(graph, goal)
    written = {port for each in problem.operators for port in each.ports[each.inputs :]}
    sources = []
    for number, variable in enumerate(problem.variables):
        if variable.constant and number not in written and variable.readings:
            logical = next(iter(variable.readings.values()))
            sources.append(Operator(variable.title, -1, (number,), 0, (Alternative((logical,)),), end=variable.title))
    variables = tuple(replace(each, constant=False) for each in problem.variables)
    return replace(problem, variables=variables, operators=(*problem.operators, *sources))


def _without_alternatives(graph: Graph, goal: Goal) -> LayoutProblem:
    """Every operator is written by the first of its forms alone, with its dimensions in any order that it takes."""
    problem = _whole(graph, goal)
    operators = []
    for each in problem.operators:
        first = min(row.form for row in each.rows)
        operators.append(replace(each, rows=tuple(row for row in each.rows if row.form == first)))
    return replace(problem, operators=tuple(operators))


def _two_labels(graph: Graph, goal: Goal) -> LayoutProblem:
    """Every tensor has two orders, its own and the one with its channels at the other end; each operator is computed
    as in the source where those leave nothing else.
    """
    problem = _whole(graph, goal)
    labels = [
        {name: _labels(layout, bool(graph.imports)) for name, layout in variable.readings.items()}
        for variable in problem.variables
    ]

    def fits(operator: Operator, row: Alternative) -> bool:
        ends = zip_longest(operator.ports, operator.tensors, row.layouts)  # what enters or leaves has no names
        return all(
            problem.variables[variable].constant
            or order(layout) in labels[variable].get(name, set().union(*labels[variable].values()))
            for variable, name, layout in ends
        )

    operators = []
    for each in problem.operators:
        rows = tuple(row for row in each.rows if fits(each, row))
        operators.append(replace(each, rows=rows or (each.rows[source_row(problem, each)],)))
    return replace(problem, operators=tuple(operators))


def _labels(layout: Layout, channels_first: bool) -> set[Order]:
    """The order of a tensor, and that with its channels at the other end."""
    if len(layout) < CHANNELS_FROM:
        return {order(layout)}
    batch, *rest = layout
    turned = (batch, *rest[1:], rest[0]) if channels_first else (batch, rest[-1], *rest[:-1])
    return {order(layout), order(turned)}


def _without_sharing(graph: Graph, goal: Goal) -> LayoutProblem:
    """Every reader of a tensor pays for a Transpose of its own."""
    problem = _whole(graph, goal)
    variables, ports = list(problem.variables), [list(each.ports) for each in problem.operators]
    more: dict[int, list[tuple[int, int]]] = {}
    for number in problem.moving():
        writer = problem.writers[number]
        for reader, port in problem.readers[number][1:] if writer is not None else ():
            ports[reader][port] = len(variables)
            more.setdefault(writer[0], []).append((writer[1], len(variables)))  # type: ignore[index]
            variables.append(problem.variables[number])
    operators = []
    for number, each in enumerate(problem.operators):
        own = more.get(number, [])
        rows = tuple(replace(row, layouts=(*row.layouts, *(row.layouts[port] for port, _ in own))) for row in each.rows)
        operators.append(replace(each, ports=(*ports[number], *(made for _, made in own)), rows=rows))
    return replace(problem, variables=tuple(variables), operators=tuple(operators))


PARTS: Mapping[str, Callable[[Graph, Goal], LayoutProblem]] = {
    "": _whole,
    "views": _without_views,
    "absorption into weights": _without_absorption,
    "alternatives": _without_alternatives,
    "more than two labels": _two_labels,
    "sharing": _without_sharing,
}
"""How the problem is stated without a part of it."""


# -- engines -------------------------------------------------------------------------------------------------------


def engines(source: bytes | Graph) -> list[Row]:
    """Each component by each engine, on the instance that is exported, and by what the library does."""
    found = []
    for number, task in enumerate(tasks(graph_of(source), Goal(COMPARED[0]))):
        stated = InstanceStatement(task)
        instance = stated.instance(f"component-{number}")
        began = time.process_time()
        limit = Limit(int(SECONDS * DETERMINISTIC_SECOND))
        own = solve_component(task.problem, task.domains, task.component, list(task.start), task.levels, limit)
        seconds = time.process_time() - began
        cost = instance.cost(stated.assignment(own.rows or task.begun))
        size = {"component": number, "variables": len(instance.variables), "values": instance.values}
        answers = {"layoutsolve": (cost, own.bounds[0], seconds)}
        for engine in ENGINES:
            answer = solve_instance(engine, instance, SECONDS)
            given = None if answer.values is None else instance.cost(answer.values)
            answers[engine] = (given, answer.bound, answer.seconds)
        for engine, (given, bound, spent) in answers.items():
            value = None if given is None else given[0]
            found.append({**size, "engine": engine, "value": value, "bound": bound, "seconds": round(spent, 4)})
    return found


def growth(source: bytes | Graph) -> list[Row]:
    """The time of solving by both objectives."""
    graph, found = graph_of(source), []
    for objective in COMPARED:
        began = time.process_time()
        answer = assign(graph, objective=objective)
        spent = round(time.process_time() - began, 4)
        found.append(
            {
                "objective": objective,
                "operators": len(graph.nodes),
                "status": answer.tiers[0].status,
                "ended": answer.ended,
                "seconds": spent,
            }
        )
    return found


MEASUREMENTS: Mapping[str, Callable[[bytes | Graph], Sequence[Row]]] = {
    "strategies": strategies,
    "ablation": ablation,
    "engines": engines,
    "growth": growth,
    "runtimes": runtimes,
}
"""What is measured of every model, by the name of the file of its rows."""
