"""One component of a layout problem as a CP-SAT model.

A Boolean per open row of an operator, exactly one of which is true. For each variable, ``moved[order]`` is true where
a Transpose brings it into an order it is not produced in, ``given[layout]`` where a move delivers a layout, and
``first[layout, reshapes]`` where that move is the Transpose itself rather than a Reshape of its result, and starts at
one of the layouts from which it takes so many Reshapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, gcd, isfinite

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.deferred import deferred
from layoutsolve.solver.search.interruptible import interruptible
from layoutsolve.solver.search.presolve import Component
from layoutsolve.solver.statement.objective import Tiers
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, move, order

with deferred("pandas"):
    from ortools.sat.python import cp_model

Literals = list[cp_model.IntVar]


WEIGHT = 10**9
"""How large the sum of tiers that are minimised together may become: well within what a linear relaxation resolves."""

SMALL = 400
"""A component of at most so many Booleans is searched without presolve, which takes longer than it saves."""

CONSTRAINTS = 30_000
"""The most constraints of a model that is searched: CP-SAT takes 5 to 8 kB for each of them."""

LARGEST = 2**50
"""How large a sum may become at all: CP-SAT adds in 64 bits, and reports values that a float holds exactly."""


@dataclass(frozen=True)
class Outcome:
    """The rows found for a component's operators, and for each tier of the objective a proven lower bound.

    It holds where the tiers before it are as low as their bounds, and is 0 where nothing is known.
    """

    rows: Mapping[int, int]
    bounds: tuple[int, ...]


def solve_component(
    problem: LayoutProblem,
    domains: Sequence[Sequence[int]],
    component: Component,
    start: Sequence[int],
    tiers: Tiers,
    limit: Limit,
) -> Outcome:
    """Minimise the tiers one after the other. Once the limit is over the best rows found are returned, at worst
    ``start``, as they are of a component that makes too large a model.
    """
    best = {number: start[number] for number in component.operators}
    if limit.expired:
        return Outcome(best, (0,) * len(tiers))
    model = _Model(problem, domains, component, any("reshapes" in tier for tier in tiers), limit)
    try:
        return _minimised(model, best, tiers, limit)
    finally:
        model.close()


def _minimised(model: _Model, best: dict[int, int], tiers: Tiers, limit: Limit) -> Outcome:
    if not model.complete or limit.expired:
        limit.searched(0.0, finished=False)
        return Outcome(best, (0,) * len(tiers))
    bounds: list[int] = []
    for stage in _stages(tiers, [model.most(tier) for tier in tiers]):
        if not any(model.terms[name] for tier, _ in stage for name in tier):
            bounds += [model.most(tier) for tier, _ in stage]
            continue
        found = model.minimise(stage)
        bounds += _digits(found.bound, stage)
        best = best if found.rows is None else found.rows
        if not found.optimal:
            break
    return Outcome(best, (*bounds, *(0 for _ in tiers[len(bounds) :])))


Stage = list[tuple[tuple[str, ...], int]]


def _stages(tiers: Tiers, most: Sequence[int]) -> list[Stage]:
    """Tiers that are minimised together, each with its weight: as many as leave the numbers small.

    ``most`` is the highest value of each tier. A tier's weight is above all that those after it can come to.
    """
    stages: list[Stage] = []
    weight = WEIGHT + 1
    for tier, highest in zip(reversed(tiers), reversed(most), strict=True):
        if weight * (highest + 1) > WEIGHT:
            stages.insert(0, [])
            weight = 1
        stages[0].insert(0, (tier, weight))
        weight *= highest + 1
    return stages


def _digits(bound: int, stage: Stage) -> list[int]:
    """What a bound on the weighted sum of tiers says of each: it cannot be lower while those before it are as low."""
    digits = []
    for _, weight in stage:
        digit, bound = divmod(bound, weight)
        digits.append(digit)
    return digits


@dataclass(frozen=True)
class _Found:
    """What one search comes to: rows, None where it found none in time, and a proven lower bound."""

    rows: dict[int, int] | None
    optimal: bool
    bound: int


class _Model:
    def __init__(
        self,
        problem: LayoutProblem,
        domains: Sequence[Sequence[int]],
        component: Component,
        reshapes: bool,
        limit: Limit,
    ) -> None:
        self.problem, self.domains, self.reshapes, self.limit = problem, domains, reshapes, limit
        self.model = cp_model.CpModel()
        self.choices: dict[tuple[int, int], cp_model.IntVar] = {}
        for number in component.operators:
            literals = [self.model.new_bool_var("") for _ in domains[number]]
            self.choices.update(
                {(number, row): literal for row, literal in zip(domains[number], literals, strict=True)}
            )
            self.model.add_exactly_one(literals)
        terms: dict[str, list[tuple[cp_model.IntVar, int]]] = {
            "transposes": [],
            "hidden": [],
            "reshapes": [],
            "bytes": [],
            "nanoseconds": [],
            "copies": [],
            "regrouped": [],
        }
        for (number, row), literal in self.choices.items():
            priced = problem.operators[number].rows[row].price
            for name, collected in terms.items():
                if weight := getattr(priced, name):
                    collected.append((literal, weight))
        self.terms = terms
        self.constants = dict.fromkeys(terms, 0)
        for variable in component.variables:
            if not self.complete:
                break
            self._variable(variable)

    @property
    def complete(self) -> bool:
        """Whether the model has all that it is of: neither is the limit over, nor is it too large to be searched."""
        return len(self.model.proto.constraints) <= CONSTRAINTS and not self.limit.over

    def close(self) -> None:
        """Let go of the model: under their old names it holds its own methods, which would keep it in memory."""
        vars(self.model).clear()

    def most(self, tier: tuple[str, ...]) -> int:
        """No value of a tier is higher."""
        return sum(self.constants[name] + sum(max(0, weight) for _, weight in self.terms[name]) for name in tier)

    def minimise(self, stage: Stage) -> _Found:
        """Minimise the weighted sum of some tiers and keep it at its minimum from then on.

        Without hints: a half-told solution leads the search astray for longer than all else takes. Where the sum could
        become too large its weights are rounded down, which leaves the bound a bound, but proves no rows optimal.
        """
        terms = [
            (literal, priced * weight)
            for tier, weight in stage
            for name in tier
            for literal, priced in self.terms[name]
        ]
        fixed = sum(self.constants[name] * weight for tier, weight in stage for name in tier)
        unit = gcd(*(weight for _, weight in terms))
        exact, most = True, sum(abs(weight) for _, weight in terms) // unit
        if most > LARGEST:
            unit, exact = unit * (most // LARGEST + 1), False
        total = cp_model.LinearExpr.weighted_sum(
            [literal for literal, _ in terms], [weight // unit for _, weight in terms]
        )
        self.model.minimize(total)
        solver = self._solver()
        status = _interruptible(solver, self.model)
        self.limit.searched(solver.response_proto.deterministic_time, status == cp_model.OPTIMAL)
        bound = max(0, _lower(solver.best_objective_bound, -most) * unit + fixed)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return _Found(None, False, bound)
        rows = {number: row for (number, row), literal in self.choices.items() if solver.boolean_value(literal)}
        self.model.add(total <= round(solver.objective_value))
        return _Found(rows, exact and status == cp_model.OPTIMAL, bound)

    def _solver(self) -> cp_model.CpSolver:
        """One worker and a fixed seed, so that the same model has the same answer."""
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        if self.limit.timed:
            parameters.max_time_in_seconds = self.limit.seconds
        else:
            parameters.max_deterministic_time = self.limit.deterministic_seconds
        parameters.num_workers = 1
        parameters.random_seed = 0
        parameters.linearization_level = 2
        parameters.cp_model_presolve = len(self.choices) > SMALL
        parameters.catch_sigint_signal = False
        return solver

    def _variable(self, variable: int) -> None:
        """The moves of one variable, given the layouts in which it may be written and read."""
        written = self._literals([self.problem.writers[variable]])[0]
        readers = self._literals(self.problem.readers[variable])
        layouts = sorted({layout for reader in readers for layout in reader})
        self.limit.spend(len(layouts) * len(readers) + sum(map(len, readers)))
        given = {
            layout: self._demand(readers, written, [layout], [layout]) if self.reshapes else 0 for layout in layouts
        }
        supplies, demands = _by_order(written), sorted(_by_order(layouts).items())
        losses = self.problem.losses(list(written), [members[0] for _, members in demands])
        for (atoms, members), lost in zip(demands, zip(*losses, strict=True), strict=True):
            self.limit.spend(len(members) * len(written))
            if not self.complete:
                return
            serving = supplies.get(atoms, [])
            moved = self._demand(readers, written, serving, members)
            spent = {source: hidden for source, hidden in zip(written, lost, strict=True) if source not in serving}
            self._price_order(variable, written, {layout: given[layout] for layout in members}, moved, spent)

    def _literals(self, places: Sequence[tuple[int, int] | None]) -> list[dict[Layout, Literals | None]]:
        """For each place (an operator's port) the literals under which it has each of its layouts; None where it
        always has.
        """
        result: list[dict[Layout, Literals | None]] = []
        for place in places:
            if place is None:
                continue
            number, port = place
            found: dict[Layout, Literals | None] = {}
            rows = self.problem.operators[number].rows
            for row in self.domains[number]:
                literal = self.choices.get((number, row))
                known = found.setdefault(rows[row].layouts[port], [] if literal is not None else None)
                if known is not None and literal is not None:
                    known.append(literal)
            result.append({next(iter(found)): None} if len(found) == 1 else found)
        return result

    def _demand(
        self,
        readers: Sequence[Mapping[Layout, Literals | None]],
        written: Mapping[Layout, Literals | None],
        serving: Sequence[Layout],
        members: Sequence[Layout],
    ) -> cp_model.IntVar | int:
        """A literal that is true where some reader wants one of ``members`` and none of ``serving`` is written: 1 or 0
        where that is certain.
        """
        supply: Literals = []
        for layout in serving:
            literals = written.get(layout, [])
            if literals is None:
                return 0
            supply += literals
        wants = [[reader[layout] for layout in members if layout in reader] for reader in readers]
        certain = not supply and any(None in want for want in wants)
        if certain:
            return 1
        needed = [want for want in wants if want]
        if not needed:
            return 0
        literal = self.model.new_bool_var("")
        for want in needed:
            wanted: Literals = [item for literals in want if literals is not None for item in literals]
            always = None in want
            self.model.add(
                cp_model.LinearExpr.sum([*supply, literal]) >= (1 if always else cp_model.LinearExpr.sum(wanted))
            )
        return literal

    def _price_order(
        self,
        variable: int,
        written: Mapping[Layout, Literals | None],
        given: Mapping[Layout, cp_model.IntVar | int],
        moved: cp_model.IntVar | int,
        lost: Mapping[Layout, int],
    ) -> None:
        """Charge one order of a variable: its Transpose, and a Reshape for every grouping but the one the Transpose
        ends in. ``lost`` has the hidden transpositions of a Transpose from each layout of another order.
        """
        known = self.problem.variables[variable]
        self._charge("transposes", moved, 1)
        self._charge("bytes", moved, known.bytes)
        self._charge_way(variable, written, next(iter(given)), moved, lost)
        if not self.reshapes:
            return
        for literal in given.values():
            self._charge("reshapes", literal, 1)
        if isinstance(moved, int) and moved == 0:
            return
        self._charge("reshapes", moved, -1)
        self.model.add(cp_model.LinearExpr.sum(list(given.values())) >= moved)
        detours: dict[tuple[Layout, int], list[Layout]] = {}
        for target in given:
            for source in written:
                if order(source) != order(target):
                    detours.setdefault((target, move(source, target, known.rigid).reshapes), []).append(source)
        if not any(reshapes for _, reshapes in detours):
            return
        firsts: Literals = []
        for (target, reshapes), sources in detours.items():
            first = self.model.new_bool_var("")
            firsts.append(first)
            self.model.add(first <= given[target])
            literals = [written[source] for source in sources]
            if None not in literals:
                self.model.add(first <= cp_model.LinearExpr.sum([item for each in literals for item in each or ()]))
            self._charge("reshapes", first, reshapes)
        self.model.add(cp_model.LinearExpr.sum(firsts) >= moved)

    def _charge_way(
        self,
        variable: int,
        written: Mapping[Layout, Literals | None],
        target: Layout,
        moved: cp_model.IntVar | int,
        lost: Mapping[Layout, int],
    ) -> None:
        """Charge what a Transpose costs by the order that it starts from: time, and hidden transpositions."""
        if (isinstance(moved, int) and moved == 0) or not lost:
            return
        self._charge_by_source("hidden", written, lost, moved)
        if self.problem.timed:
            spent = {each: self.problem.move_price(variable, each, target).nanoseconds for each in lost}
            self._charge_by_source("nanoseconds", written, spent, moved)

    def _charge_by_source(
        self,
        name: str,
        written: Mapping[Layout, Literals | None],
        spent: Mapping[Layout, int],
        moved: cp_model.IntVar | int,
    ) -> None:
        """Charge a move by what it costs from each source, one literal for all sources from which it costs alike."""
        least = min(spent.values())
        self._charge(name, moved, least)
        slow: dict[int, Literals] = {}
        for source, cost in spent.items():
            literals = written[source]
            if cost > least and literals is not None:
                slow.setdefault(cost, []).extend(literals)
        for cost, literals in slow.items():
            slower = self.model.new_bool_var("")
            self.model.add(slower + 1 >= moved + cp_model.LinearExpr.sum(literals))
            self._charge(name, slower, cost - least)

    def _charge(self, name: str, literal: cp_model.IntVar | int, weight: int) -> None:
        if isinstance(literal, int):
            self.constants[name] += literal * weight
        elif weight:
            self.terms[name].append((literal, weight))


def _by_order(layouts: Iterable[Layout]) -> dict[Order, list[Layout]]:
    """Layouts by their order."""
    found: dict[Order, list[Layout]] = {}
    for layout in layouts:
        found.setdefault(order(layout), []).append(layout)
    return found


def _interruptible(solver: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """Solve, unless the program is interrupted."""
    return interruptible(lambda: solver.solve(model), solver.stop_search)


def _lower(bound: float, least: int) -> int:
    """The least whole number that a bound allows, no less than ``least``."""
    return max(least, ceil(bound - 1e-6)) if isfinite(bound) else least
