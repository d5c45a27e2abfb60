"""Formulations and solvers compared: components with many combinations of rows, each stated in several ways.

Every model is stated over orders with few candidates, which is where the search begins; components that are alike are
taken once. Each is solved level by level, within one limit, by

* ``cp-sat, pairs``: a literal for each move of a variable from one layout to another order, which is 1 where the one is
  written and any reader has the other;
* ``cp-sat, facilities``: the same literals, of which one at most serves an order, and only if its layout is written;
* ``cp-sat, reduced costs``: that, without what the dual values of its relaxation and a rounded solution strike out;
* ``rounding``: the relaxation of that alone, its bounds, and of each operator the row of which there is most;
* ``scip``: the same program, solved by branch and bound;
* ``layoutsolve``: what the search does, with one literal for all moves that cost the same.

A row has the share of components that the formulation states within the size that the search allows, and of those of
which all levels are proven; over the components that all ways state, the sums of the first level's values and bounds
and the processor's seconds; and, of the relaxation of the first level (GLOP), in how many components it comes out in
zeros and ones, and in how many its bound is the least value that is known. The limit is one on work, of which a second
is a million units (:mod:`layoutsolve.solver.limit`); branch and bound counts the processor's seconds.

    python -m experiments.compare.formulations [FOLDER] [--families] [--only swin] [--seconds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, prod
from pathlib import Path

import numpy as np
from ortools.linear_solver.linear_solver_pb2 import MPModelProto, MPSolutionResponse
from ortools.linear_solver.pywraplp import Solver

from experiments.corpus import graph_of, models, write_json
from experiments.make.hard_networks import FAMILIES
from experiments.measure.scale import network
from layoutsolve import ConversionError
from layoutsolve.ir.graph import Array, Graph
from layoutsolve.solver import OBJECTIVES, Goal
from layoutsolve.solver.limit import DETERMINISTIC_SECOND, Limit
from layoutsolve.solver.search.component_search import Outcome, solve_component
from layoutsolve.solver.search.cpsat import Found, searched
from layoutsolve.solver.search.formulation import Formulation
from layoutsolve.solver.search.glop import Optimum
from layoutsolve.solver.search.integer_program import Level, Literals, Program, Terms, dual_bound, limited
from layoutsolve.solver.search.lp_relaxation import relaxed
from layoutsolve.solver.search.presolve import Component, Domains, components, every_row, price_of_component
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import Levels, coarse_levels, ranked
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.statement.statement import FEW, Statement
from layoutsolve.solver.theory.row import Price

NEAR = 1e-6
"""What a solver of floats takes for zero."""


EXACT = "limits/gap = 0\nlimits/absgap = 0\ntiming/clocktype = 1\n"
"""Parameters with which branch and bound leaves no gap, and counts the processor's seconds."""


class Facilities(Formulation):
    """A literal for each layout that is written and order that is read: it serves all that read the order, and needs
    that the layout is written.
    """

    def _moves(
        self,
        variable: int,
        needs: Sequence[Literals | None],
        supply: Sequence[Literals | None],
        written: Sequence[Terms | None],
        prices: Sequence[Price],
        column: Array,
    ) -> Literals:
        if needs and column.any() and None not in supply:
            moved = self._pairs(prices, column)
            for place, literal in moved.items():
                self._only(literal, [written[place]])
            self._serve([*(literal for some in supply for literal in some or ()), *moved.values()], needs)
        return []

    def _pairs(self, prices: Sequence[Price], column: Array) -> dict[int, int]:
        """The literal of the move from each layout that is written in another order, which is charged for it."""
        moved = {}
        for place in np.flatnonzero(column).tolist():
            moved[place] = self._new()
            self._charge(moved[place], prices[column[place]])
        return moved


class Pairs(Facilities):
    """The same literals, each of which is 1 where its layout is written and some reader has its order."""

    def _moves(
        self,
        variable: int,
        needs: Sequence[Literals | None],
        supply: Sequence[Literals | None],
        written: Sequence[Terms | None],
        prices: Sequence[Price],
        column: Array,
    ) -> Literals:
        for place, moved in self._pairs(prices, column).items() if needs else ():
            given = [literal for literal, _ in written[place] or ()]
            for need in needs:
                literals, sure = [*given, *(need or ())], (written[place] is None) + (need is None)
                self._row([(moved, 1), *((literal, -1) for literal in literals)], sure - 1)
        return []


@dataclass(frozen=True)
class Task:
    """A component of a problem, the rows that are known before anything is searched, and what is minimised."""

    problem: LayoutProblem
    domains: Domains
    component: Component
    start: Sequence[int]
    levels: Levels

    def program(self, formulation: type[Formulation], limit: Limit) -> Program | None:
        """The component in a formulation; None where that is too large."""
        stated = formulation(self.problem, self.domains, self.component, self.levels, limit)
        return stated.program() if stated.complete else None

    @property
    def begun(self) -> dict[int, int]:
        """The rows of its operators that are known."""
        return {number: self.start[number] for number in self.component.operators}

    def values(self, rows: Mapping[int, int]) -> tuple[int, ...]:
        """The levels of what rows of its operators cost."""
        every = list(self.start)
        for number, row in rows.items():
            every[number] = row
        return ranked(price_of_component(self.problem, every, self.component), self.levels)


def by_cpsat(task: Task, program: Program, limit: Limit) -> Outcome:
    """CP-SAT alone."""
    return _by_levels(task, program, lambda left, level: searched(left, level, -_most_saved(level), limit))


def by_branch_and_bound(task: Task, program: Program, limit: Limit) -> Outcome:
    """A solver of integer programs alone."""
    return _by_levels(task, program, lambda left, level: branched(left, level, limit))


def _most_saved(level: Level) -> int:
    """The most that a sum of a level may be below zero."""
    return sum(max(0, -weight) for _, weight in level.terms)


def _by_levels(task: Task, program: Program, minimise: Callable[[Program, Level], Found]) -> Outcome:
    """One level after the other, each with those before it at their least."""
    rows, bounds = dict[int, int](), list[int]()
    for names in task.levels:
        level = program.level(names)
        found = minimise(program, level)
        rows = rows if found.rows is None else dict(found.rows)
        bounds.append(level.value(found.bound))
        if task.values(rows or task.begun)[len(bounds) - 1] > bounds[-1]:
            break
        program = limited(program, level, found.bound)
    return _outcome(task, rows, bounds)


def _outcome(task: Task, rows: Mapping[int, int], bounds: Sequence[int]) -> Outcome:
    return Outcome(rows, (*(max(0, bound) for bound in bounds), *(0 for _ in task.levels[len(bounds) :])))


def by_reduced_costs(task: Task, program: Program, limit: Limit) -> Outcome:
    """CP-SAT, without what the dual values of each level's relaxation show to be worse than a rounded solution."""
    rows, bounds = dict[int, int](), list[int]()
    for place, names in enumerate(task.levels):
        level = program.level(names)
        relaxation = relaxed(program, level, limit)
        if relaxation is None:
            break
        proven = dual_bound(program, level, relaxation.duals)
        rows = min(rows or task.begun, rounded(program, relaxation), key=task.values)
        among = proven.restricted(level.total(task.values(rows)[place]))
        sought = among.level(names)
        found = searched(among, sought, sought.total(level.value(proven.least)), limit)
        rows = rows if found.rows is None else dict(found.rows)
        bounds.append(sought.value(found.bound))
        if task.values(rows)[place] > bounds[-1]:
            break
        program = proven.restricted(level.total(bounds[-1]))
    return _outcome(task, rows, bounds)


def by_rounding(task: Task, program: Program, limit: Limit) -> Outcome:
    """The relaxation of each level among what is left at the bounds of those before it, and the best of what rounding
    them comes to.
    """
    rows, bounds = task.begun, list[int]()
    for names in task.levels:
        level = program.level(names)
        relaxation = relaxed(program, level, limit)
        if relaxation is None:
            break
        proven = dual_bound(program, level, relaxation.duals)
        rows = min(rows, rounded(program, relaxation), key=task.values)
        bounds.append(level.value(proven.least))
        program = proven.restricted(proven.least)
    return _outcome(task, rows, bounds)


def rounded(program: Program, relaxation: Optimum) -> dict[int, int]:
    """Of each operator the row of which there is most, the first of equals."""
    most: dict[int, tuple[float, int]] = {}
    for (number, row), literal in program.choices.items():
        most[number] = max(most.get(number, (-1.0, 0)), (relaxation.values[literal], -row))
    return {**program.fixed, **{number: -row for number, (_, row) in most.items()}}


def branched(program: Program, level: Level, limit: Limit) -> Found:
    """What a solver of integer programs makes of a level, without a gap that it may leave."""
    solver = Solver.CreateSolver("SCIP")
    solver.LoadModelFromProto(_model(program, level))
    solver.set_time_limit(int(limit.deterministic_seconds * 1000))
    solver.SetSolverSpecificParametersAsString(EXACT)
    began = time.process_time()
    status = solver.Solve()
    limit.searched(time.process_time() - began, status == Solver.OPTIMAL)
    if status not in (Solver.OPTIMAL, Solver.FEASIBLE):
        return Found(None, -_most_saved(level), empty=False)
    response = MPSolutionResponse()
    solver.FillSolutionResponseProto(response)
    chosen = (key for key, literal in program.choices.items() if response.variable_value[literal] > 0.5)
    known = round(response.objective_value)
    bound = known if status == Solver.OPTIMAL else ceil(max(-_most_saved(level), response.best_objective_bound) - NEAR)
    return Found({**program.fixed, **dict(chosen)}, bound, empty=False)


def _model(program: Program, level: Level) -> MPModelProto:
    model, weights = MPModelProto(), dict(level.terms)
    for literal in range(program.count):
        weight = float(weights.get(literal, 0))
        model.variable.add(lower_bound=0.0, upper_bound=1.0, is_integer=True, objective_coefficient=weight)
    rows = [*(([(literal, 1) for literal in each], 1, True) for each in program.exactly), *program.rows]
    for terms, least, equal in rows:
        model.constraint.add(
            var_index=[literal for literal, _ in terms],
            coefficient=[weight for _, weight in terms],
            lower_bound=least,
            upper_bound=least if equal else float("inf"),
        )
    return model


def by_search(task: Task, program: Program, limit: Limit) -> Outcome:
    """What the library does, which states the program by itself."""
    return solve_component(task.problem, task.domains, task.component, list(task.start), task.levels, limit)


WAYS: Mapping[str, tuple[type[Formulation], Callable[[Task, Program, Limit], Outcome]]] = {
    "cp-sat, pairs": (Pairs, by_cpsat),
    "cp-sat, facilities": (Facilities, by_cpsat),
    "cp-sat, reduced costs": (Facilities, by_reduced_costs),
    "rounding": (Facilities, by_rounding),
    "scip": (Facilities, by_branch_and_bound),
    "layoutsolve": (Formulation, by_search),
}
"""How components are stated and solved."""


@dataclass(frozen=True)
class Solved:
    """What a way makes of one component: whether its program is small enough, the levels, bounds that are proven of
    them, and the processor's seconds.
    """

    stated: bool
    values: tuple[int, ...]
    bounds: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Relaxation:
    """The relaxation of the first level of a component: its bound, and whether it is in zeros and ones."""

    bound: int
    whole: bool


@dataclass(frozen=True)
class Compared:
    """One component: what each way makes of it, and its relaxation in each formulation that could be stated."""

    model: str
    operators: int
    rows: int
    ways: Mapping[str, Solved]
    relaxations: Mapping[str, Relaxation]

    @property
    def best(self) -> int:
        """The least value of the first level that is known."""
        return min(solved.values[0] for solved in self.ways.values())


def solved(task: Task, way: str, seconds: float) -> Solved:
    """Solve a component in a way."""
    formulation, solve = WAYS[way]
    began, limit = time.process_time(), Limit(int(seconds * DETERMINISTIC_SECOND))
    program = task.program(formulation, limit)
    found = _outcome(task, {}, []) if program is None else solve(task, program, limit)
    return Solved(program is not None, task.values(found.rows), found.bounds, time.process_time() - began)


def relaxation(task: Task, formulation: type[Formulation], seconds: float) -> Relaxation | None:
    """The relaxation of a component; None where it is too large, or takes too long."""
    limit = Limit(int(seconds * DETERMINISTIC_SECOND))
    program = task.program(formulation, limit)
    if program is None:
        return None
    level = program.level(task.levels[0])
    found = relaxed(program, level, limit)
    if found is None:
        return None
    whole = all(min(value, abs(1 - value)) < NEAR for value in found.values)
    return Relaxation(level.value(dual_bound(program, level, found.duals).least), whole)


def compared(name: str, task: Task, seconds: float) -> Compared:
    """Solve a component in all ways."""
    found = {each.__name__: relaxation(task, each, seconds) for each in (Pairs, Facilities, Formulation)}
    return Compared(
        name,
        len(task.component.operators),
        sum(len(task.domains[number]) for number in task.component.operators),
        {way: solved(task, way, seconds) for way in WAYS},
        {each: known for each, known in found.items() if known is not None},
    )


def _key(problem: LayoutProblem, domains: Domains, component: Component) -> Hashable:
    """What alike components have in common: their open rows and how they hang together, with numbers of their own."""
    own: dict[int, int] = {}
    operators = []
    for number in component.operators:
        operator = problem.operators[number]
        ports = tuple(own.setdefault(variable, len(own)) for variable in operator.ports)
        operators.append((ports, operator.inputs, tuple(operator.rows[row] for row in domains[number])))
    sizes = tuple((problem.variables[variable].sizes, problem.variables[variable].bytes) for variable in own)
    return tuple(operators), sizes


COMBINATIONS = 4096
"""Components with at most so many combinations of rows are left out."""


def coarse(goal: Goal) -> Levels:
    """The levels of a goal that orders alone decide. Raises ValueError where it has none."""
    levels = coarse_levels(goal.levels)
    if levels is None:
        raise ValueError(f"{goal.objective} does not choose orders first")
    return levels


def tasks(graph: Graph, goal: Goal) -> Iterator[Task]:
    """The components of a graph that have many combinations of rows."""
    stepped, levels = in_steps(graph), coarse(goal)
    problem = Statement(stepped, goal=goal).orders(Limit.of(len(stepped.nodes)), FEW)
    domains = every_row(problem)
    start = [domain[0] for domain in domains]
    for component in components(problem, domains):
        if prod(len(domains[number]) for number in component.operators) > COMBINATIONS:
            yield Task(problem, domains, component, start, levels)


class Tasks:
    """The components of models that are searched; those that are alike are taken once."""

    def __init__(self, objective: str) -> None:
        self.goal = Goal(objective)
        self.keys = set[Hashable]()

    def of(self, graph: Graph) -> Iterator[Task]:
        """Those of a graph that no other one before has had."""
        for task in tasks(graph, self.goal):
            key = _key(task.problem, task.domains, task.component)
            if key not in self.keys:
                self.keys.add(key)
                yield task


GENERATED: Mapping[str, tuple[Callable[[int], bytes | Graph], Sequence[int]]] = {
    **FAMILIES,
    "mixed": (network, (3000,)),
}
"""The hard networks of :mod:`experiments.make.hard_networks`, and one with the operator mix of real ones."""


def graphs(folder: Path | None, families: bool, only: Sequence[str]) -> Iterator[tuple[str, bytes | Graph]]:
    """The models of a folder, and those of generated families, whose names have one of some texts."""
    for model in models(folder) if folder else ():
        if not only or any(text in model.name for text in only):
            yield model.name, model.source
    for family, (make, sizes) in GENERATED.items() if families else ():
        for size in sizes:
            if not only or any(text in f"{family}:{size}" for text in only):
                yield f"{family}:{size}", make(size)


def table(found: Sequence[Compared]) -> str:
    """A row for each way."""
    common = [each for each in found if all(way.stated for way in each.ways.values())]
    lines = [
        f"{len(found)} components, of which all ways state {len(common)}",
        "",
        "| way | stated | proven | value | bound | seconds | in zeros and ones | tight |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way, (formulation, _) in WAYS.items():
        ways = [each.ways[way] for each in found]
        known = [(each.best, each.relaxations.get(formulation.__name__)) for each in found]
        shares = [
            [each.stated for each in ways],
            [each.values == each.bounds for each in ways],
            [each is not None and each.whole for _, each in known],
            [each is not None and each.bound == best for best, each in known],
        ]
        stated, proven, whole, tight = (f"{100 * sum(each) / max(1, len(each)):.0f} %" for each in shares)
        value, bound = (sum(getattr(each.ways[way], name)[0] for each in common) for name in ("values", "bounds"))
        seconds = sum(each.ways[way].seconds for each in common)
        lines.append(f"| {way} | {stated} | {proven} | {value} | {bound} | {seconds:.1f} | {whole} | {tight} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder of .tflite files")
    parser.add_argument("--families", action="store_true", help="generated families as well")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="models whose names contain TEXT")
    objectives = [name for name, levels in OBJECTIVES.items() if coarse_levels(levels) is not None]
    parser.add_argument("--objective", default=Goal().objective, choices=objectives)
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="for each component and way")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    options = parser.parse_args(arguments)
    tasks, found, count = Tasks(options.objective), list[Compared](), 0
    for name, made in graphs(options.folder, options.families, options.only):
        try:
            graph = graph_of(made)
        except ConversionError as error:
            print(f"{name}: {type(error).__name__}")
            continue
        count += 1
        found += [compared(name, task, options.seconds) for task in tasks.of(graph)]
    print(f"{count} models, {options.objective}, {options.seconds:g} s for each component", "", table(found), sep="\n")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
