"""Lower bounds on the price of a layout problem that dual values prove, in whole numbers and without any search.

Each reader of a variable has dual values, which it pays for the layout that it reads: so much for the very layout, and
so much for its order. It then pays that on top of its row, whatever row it has. The writer of the variable is paid back
what the dual values could come to beyond the cost of the moves that they pay for, at most. So for any choice of rows
the dual values that are paid, less what is paid back, are no more than the moves cost. What is left are prices of
single rows, and the sum over operators of the least of them is a lower bound on the price of every assignment, whatever
the dual values are.

The dual values are those of the linear relaxation (:mod:`layoutsolve.solver.proof.layout_lp`), but nothing
depends on where they come from. Prices and dual values are multiples of one unit.

A row that is above the least one of its operator by more than the bound leaves to a price is no row of an assignment
that costs no more than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.theory.layout import Layout, Order, order
from layoutsolve.solver.theory.row import FREE, Price

Weights = Mapping[str, int]
"""How much each field of a price counts."""

Place = tuple[int, int]
"""An operator and one of its ports."""

Open = Mapping[int, Sequence[int]]
"""The rows that some operators have to choose from; others have all of theirs."""


@dataclass(frozen=True)
class DualValues:
    """Dual values of readers, never negative: by reader, for ``layouts`` and for ``orders``."""

    layouts: Mapping[Place, Mapping[Layout, int]] = field(default_factory=dict)
    orders: Mapping[Place, Mapping[Order, int]] = field(default_factory=dict)


def prices(
    problem: LayoutProblem, weights: Weights, dual_values: DualValues, opened: Open | None = None
) -> list[dict[int, int]]:
    """Reduced cost of each open alternative of each operator. For any assignment their sum is at most its weighted
    price.

    Raises :class:`ValueError` for dual values that are negative, or of somebody who reads nothing that is moved.
    """
    _check(problem, dual_values)
    opened = opened or {}
    left = [
        {row: weighted(operator.rows[row].price, weights) for row in opened.get(number, range(len(operator.rows)))}
        for number, operator in enumerate(problem.operators)
    ]
    places = {*dual_values.layouts, *dual_values.orders}
    for number, port in sorted(places):
        for row in left[number]:
            layout = problem.operators[number].rows[row].layouts[port]
            left[number][row] += dual_values.layouts.get((number, port), {}).get(layout, 0)
            left[number][row] += dual_values.orders.get((number, port), {}).get(order(layout), 0)
    for variable in sorted({problem.operators[number].ports[port] for number, port in places}):
        number, port = _writer(problem, variable)
        rows = problem.operators[number].rows
        sources = {row: rows[row].layouts[port] for row in left[number]}
        back = _paid_back(problem, variable, weights, dual_values, left)
        for row, source in sources.items():
            left[number][row] -= back.get(source, 0)
    return left


def weighted(price: Price, weights: Weights) -> int:
    """A price as one number."""
    return 0 if price is FREE else sum(weight * int(getattr(price, name)) for name, weight in weights.items())


def _check(problem: LayoutProblem, dual_values: DualValues) -> None:
    for each in (dual_values.layouts, dual_values.orders):
        for (number, port), said in each.items():
            if not (0 <= number < len(problem.operators) and 0 <= port < problem.operators[number].inputs):
                raise ValueError(f"no operator {number} reads at port {port}")
            _writer(problem, problem.operators[number].ports[port])
            if any(amount < 0 for amount in said.values()):
                raise ValueError(f"operator {number} has a negative dual value")


def _writer(problem: LayoutProblem, variable: int) -> Place:
    """Who is paid back. Nobody writes a constant, so that dual values for one would prove what is not true."""
    writer = problem.writers[variable]
    if writer is None:
        raise ValueError(f"no operator writes what has dual values, '{problem.variables[variable].title}'")
    return writer


def _paid_back(
    problem: LayoutProblem,
    variable: int,
    weights: Weights,
    dual_values: DualValues,
    left: Sequence[Mapping[int, int]],
) -> dict[Layout, int]:
    """For each layout that a variable may be written in, the most that the dual values come to beyond the cost of
    moves, where that is more than nothing.
    """
    together, wanted = Counter[Order](), dict[Order, Counter[Layout]]()
    for place in problem.readers[variable]:
        together.update(dual_values.orders.get(place, {}))
        for atoms in (*dual_values.orders.get(place, ()), *map(order, dual_values.layouts.get(place, ()))):
            wanted.setdefault(atoms, Counter())
    for number, port in problem.readers[variable]:
        said = dual_values.layouts.get((number, port), {})
        for layout in {problem.operators[number].rows[row].layouts[port] for row in left[number]}:
            if (known := wanted.get(order(layout))) is not None:
                known[layout] += said.get(layout, 0)
    regrouping = weighted(problem.target.reshape_price(1, problem.variables[variable].turns, problem.timed), weights)
    back: dict[Layout, int] = {}
    for atoms, layouts in wanted.items():
        reduced_costs = {layout: max(0, amount - regrouping) for layout, amount in layouts.items()}
        rest = sum(reduced_costs.values()) + together[atoms]
        most: dict[Layout, int] = {}
        for layout, amount in layouts.items():
            for price, sources in problem.moves_to(variable, layout).items():
                gain = rest + amount - reduced_costs[layout] - weighted(price, weights)
                if gain > 0:
                    most.update((source, gain) for source in sources if gain > most.get(source, 0))
        for source in problem.written[variable].get(atoms, ()):
            most[source] = rest + layouts.get(source, 0) - reduced_costs.get(source, 0)
        for source, gain in most.items():
            back[source] = back.get(source, 0) + gain
    return back
