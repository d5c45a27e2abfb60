"""Solvers of others that take an instance, and a dynamic program: each minimises the first level."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from pathlib import Path

import highspy
import networkx as nx
import numpy as np
import pytoulbar2
from networkx.algorithms.approximation import treewidth_min_fill_in
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from experiments.compare.formulations import NEAR
from experiments.instances.formats import program, tables, top, wcsp
from experiments.instances.instance import Instance
from experiments.onnx_shared import apart

PATIENCE = 120.0
"""Seconds of the clock that an engine in a process of its own has beside its limit."""

LARGEST = 2**24
"""The most entries of a table of the dynamic program."""

INFINITE = np.int64(2**40)
"""The cost of what is not allowed: more than any other sum, and a sum of many fits."""


@dataclass(frozen=True)
class Answer:
    """An assignment (None where none was found), a bound on the first level, and the processor's seconds."""

    values: Sequence[int] | None
    bound: int
    seconds: float = 0.0


def highs(instance: Instance, seconds: float) -> Answer:
    """HiGHS: branch and bound on the program in zeros and ones."""
    model = program(instance)
    model.setOptionValue("time_limit", seconds)
    model.setOptionValue("threads", 1)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.run()
    found = model.getInfo()
    bound = max(0, ceil(found.mip_dual_bound - NEAR)) if found.mip_dual_bound > -highspy.kHighsInf else 0
    if found.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Answer(None, bound)
    chosen, values = list(model.getSolution().col_value), []
    for variable in instance.variables:
        part, chosen = chosen[: len(variable.costs)], chosen[len(variable.costs) :]
        values.append(int(np.argmax(part)))
    return Answer(values, bound)


def relaxation(instance: Instance, seconds: float) -> Answer:
    """HiGHS on the linear relaxation: a bound alone."""
    model = program(instance)
    model.setOptionValue("time_limit", seconds)
    model.setOptionValue("threads", 1)
    model.setOptionValue("solve_relaxation", True)
    model.run()
    solved = model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Answer(None, max(0, ceil(model.getInfo().objective_function_value - NEAR)) if solved else 0)


def toulbar2(instance: Instance, seconds: float) -> Answer:
    """toulbar2: branch and bound with soft local consistencies, on the WCSP."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{instance.name}.wcsp"
        path.write_text(wcsp(instance))
        pytoulbar2.tb2.init()  # its options are those of a thread
        network = pytoulbar2.CFN(ubinit=top(instance), resolution=0, verbose=-1)
        network.Read(str(path))
        found = network.Solve(timeLimit=max(1, round(seconds)))
    bound = max(0, ceil(network.GetDDualBound() - NEAR))
    return Answer(None, bound) if found is None else Answer([int(value) for value in found[0]], bound)


def cp_sat(instance: Instance, seconds: float) -> Answer:
    """CP-SAT on the instance as it is."""
    model = cp_model.CpModel()
    literals = [[model.new_bool_var("") for _ in variable.costs] for variable in instance.variables]
    for some in literals:
        model.add_exactly_one(some)
    for each in instance.never:
        one = [literals[each.first][value] for value in each.values]
        model.add_at_most_one([*one, *(literals[each.second][value] for value in each.others)])
    model.minimize(
        sum(
            cost[0] * literal
            for variable, some in zip(instance.variables, literals, strict=True)
            for cost, literal in zip(variable.costs, some, strict=True)
            if cost[0]
        )
    )
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    bound = max(0, ceil(solver.best_objective_bound - NEAR))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None, bound)
    return Answer([next(n for n, each in enumerate(some) if solver.boolean_value(each)) for some in literals], bound)


Table = tuple[tuple[int, ...], NDArray[np.int64]]
"""Costs by the values of some variables, an axis for each."""


def elimination(instance: Instance, seconds: float) -> Answer:
    """Dynamic programming over a tree decomposition (fewest edges filled in): exact, and given up on where a table
    would be too large.
    """
    sizes = [len(variable.costs) for variable in instance.variables]
    left: list[Table] = [
        ((number,), np.array([cost[0] for cost in variable.costs], np.int64))
        for number, variable in enumerate(instance.variables)
    ]
    graph = nx.Graph()
    graph.add_nodes_from(range(len(sizes)))
    for first, second, pairs in tables(instance):
        costs = np.zeros((sizes[first], sizes[second]), np.int64)
        costs[tuple(np.array(pairs).T)] = INFINITE
        left.append(((first, second), costs))
        graph.add_edge(first, second)
    best: list[Table] = []
    for number in _sequence(graph):
        mine = [each for each in left if number in each[0]]
        left = [each for each in left if number not in each[0]]
        scope = (*sorted({each for table in mine for each in table[0]} - {number}), number)
        if prod(sizes[each] for each in scope) > LARGEST:
            return Answer(None, 0)
        total = sum(_spread(table, scope, sizes) for table in mine)
        assert isinstance(total, np.ndarray), "a variable has a table at least"
        total = np.minimum(total, INFINITE)
        best.append((scope, total.argmin(axis=-1)))
        left.append((scope[:-1], total.min(axis=-1)))
    values = [0] * len(sizes)
    for scope, choice in reversed(best):
        values[scope[-1]] = int(choice[tuple(values[each] for each in scope[:-1])])
    return Answer(values, int(sum(costs for _, costs in left)))


def _sequence(graph: nx.Graph[int]) -> list[int]:
    """The variables, leaves of the decomposition first."""
    _, tree = treewidth_min_fill_in(graph)
    found: list[int] = []
    for part in nx.connected_components(tree):
        root = next(iter(part))
        parents = nx.dfs_predecessors(tree, root)
        for bag in nx.dfs_postorder_nodes(tree, root):
            found += sorted(bag - parents.get(bag, frozenset()))
    return found


def _spread(table: Table, scope: Sequence[int], sizes: Sequence[int]) -> NDArray[np.int64]:
    """A table over more variables: axes are in the order of ``scope``."""
    own, costs = table
    ordered = [own.index(each) for each in scope if each in own]
    return costs.transpose(ordered).reshape([sizes[each] if each in own else 1 for each in scope])


ENGINES: Mapping[str, Callable[[Instance, float], Answer]] = {
    "HiGHS": highs,
    "toulbar2": toulbar2,
    "CP-SAT": cp_sat,
    "LP relaxation (HiGHS)": relaxation,
    "tree decomposition": elimination,
}


ALONE = ("toulbar2",)
"""Engines that run in a process of their own: this one leaves a timer running, with which the processor's clock counts
in ticks of milliseconds, for whatever is timed after it.
"""


def solve(engine: str, instance: Instance, seconds: float) -> Answer:
    """What an engine makes of an instance within a limit of seconds."""
    work = partial(_timed, engine, instance, seconds)
    return apart(work, PATIENCE + seconds) if engine in ALONE else work()


def _timed(engine: str, instance: Instance, seconds: float) -> Answer:
    began = time.process_time()
    found = ENGINES[engine](instance, seconds)
    return Answer(found.values, found.bound, time.process_time() - began)
