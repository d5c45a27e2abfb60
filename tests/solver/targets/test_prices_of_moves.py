"""What moves cost on a target, in time and in Transposes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from layoutsolve.ir.graph import Dim, symbol
from layoutsolve.solver import OBJECTIVES, assign
from layoutsolve.solver.statement.problem import LayoutProblem
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import default_target, parsed
from layoutsolve.solver.theory.layout import finest, order
from layoutsolve.solver.theory.motion import Motion
from tests.graphs import GraphBuilder
from tests.solver.targets.test_target import image, spent
from tests.solver.theory.test_motion import random_layout


def test_latency_orders_transposes() -> None:
    swap = spent((1, 56, 56, 64), (0, 3, 1, 2))
    assert spent((1, 56, 56, 64), (0, 1, 2, 3)) == 0
    assert 0 < swap < spent((64, 56, 56), (2, 1, 0))
    assert spent((1, 56, 56, 64), (0, 3, 1, 2), 1) < swap
    assert spent((1, 56, 56, 64), (0, 3, 1, 2), 8) == pytest.approx(2 * swap, rel=0.2)
    assert spent((1, 56, 56, 64), (0, 3, 1, 2), turns=10) == 10 * swap


def test_a_size_that_is_known_by_name_counts_as_one_in_time_alone() -> None:
    """Elements and blocks are those of a batch of 1; the motion is that of any other."""
    target, batch = default_target(), symbol("batch")
    source, moved = ((0,), (1,), (2,), (3,)), ((1,), (0,), (3,), (2,))
    price = target.move_price(image(batch, 3, 4, 5), source, moved, timed=True)
    known = target.move_price(image(2, 3, 4, 5), source, moved, timed=True)
    assert price.hidden == known.hidden == target.hidden["Transpose", "general"] > 0
    assert price.bytes * 2 == known.bytes
    assert 0 < price.nanoseconds < known.nanoseconds


@pytest.mark.parametrize("atoms", range(7))
def test_many_moves_at_once_are_priced_as_one_by_one(atoms: int) -> None:
    random = np.random.default_rng(atoms)
    sizes = tuple(symbol(f"n{atom}") if random.random() < 0.5 else 2 + atom for atom in range(atoms))
    layouts = [random_layout(random, atoms) for _ in range(20)]
    kinds = ("swap", "rows", "general")
    for hidden in ((0, 0, 0), (0, 0, 2), (1, 2, 5), (3, 0, 3)):
        target = Target("any", {("Transpose", kind): lost for kind, lost in zip(kinds, hidden, strict=True)})
        problem = LayoutProblem((image(*sizes),), (), target=target)
        table = problem.losses(0, layouts, layouts)
        plain, whole = (problem.move_prices(0, layouts, layouts, reshapes) for reshapes in (False, True))
        for number, source in enumerate(layouts):
            for place, wanted in enumerate(layouts):
                price = problem.move_price(0, source, wanted)
                assert whole[number][place] == price
                assert plain[number][place] == replace(price, reshapes=0)
                assert price.hidden == table[number][place]
                assert price.transposes == (order(source) != order(wanted))
                assert price.bytes == price.transposes * problem.variables[0].bytes
        assert problem.loses(0, layouts, layouts) == any(map(any, table))
        assert problem.even == (not any(hidden))


def test_nothing_is_moved_in_little_time() -> None:
    """A tensor without elements."""
    for sizes in ((0,), (0, 3), (2, 0, 0, 4)):
        assert default_target().least_price(image(*sizes), timed=True).nanoseconds >= 0


@pytest.mark.parametrize("atoms", range(7))
def test_many_moves_at_once_take_the_time_of_one_by_one(atoms: int) -> None:
    """Between orders; where a move may cost as little as any, all take the least time."""
    random = np.random.default_rng(atoms)
    sizes = tuple(symbol(f"n{atom}") if random.random() < 0.5 else 2 + atom for atom in range(atoms))
    orders = list(dict.fromkeys(finest(random_layout(random, atoms)) for _ in range(20)))
    for timed, charged in ((True, None), (True, frozenset[int]()), (False, None)):
        problem = LayoutProblem((image(*sizes),), (), target=default_target(), timed=timed, charged=charged)
        together = zip(problem.times(0, orders, orders), problem.move_prices(0, orders, orders, False), strict=True)
        for source, (times, prices) in zip(orders, together, strict=True):
            for wanted, taken, price in zip(orders, times, prices, strict=True):
                alone = replace(problem.move_price(0, source, wanted), reshapes=0)
                assert price == alone and (source == wanted or taken == alone.nanoseconds)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("shape", [(symbol("batch"), 3, 4, 5), (2, 3, 4, 5)])
def test_a_transpose_that_stays_costs_what_its_move_does(shape: tuple[Dim, ...], objective: str) -> None:
    """A Transpose between tensors as they are in the source, as an operator and as a move."""
    for permutation in permutations(range(4)):
        builder = GraphBuilder()
        x = builder.input(*shape)
        moved = tuple(shape[axis] for axis in permutation)
        graph = builder.graph(builder.op("Transpose", x, shape=moved, perm=permutation))
        moving, staying = (
            assign(graph, objective=objective, strategy=strategy).price for strategy in ("cpsat", "transpose")
        )
        assert moving == staying or not moving.transposes
        assert staying.transposes == 1


def test_an_unmeasured_element_size_costs_as_the_next_larger_one() -> None:
    costs = {"fixed": 0.0, "per_byte": 0.01}
    text = {
        "name": "t",
        "hidden": {},
        "unsupported": {"Resize": ["linear"]},
        "kernels": {},
        "classes": {},
        "extra": {"Softmax": {"middle": 0.5}},
        "latency": {
            "transpose": {
                "swap": {"1": costs, "4": {"fixed": 0.05, "per_byte": 0.02}},
                "rows": {"4": costs},
                "general": {"4": costs},
            },
            "reshape": {"fixed": 0.03},
        },
    }
    target = parsed(json.dumps(text).encode(), "t.json")
    assert target.latency.transposition(Motion.SWAP, 6, 1, 1) == pytest.approx(0.06)
    assert target.latency.transposition(Motion.SWAP, 6, 1, 2) == pytest.approx(0.29)
    assert target.reshape_price(2, 5, timed=True).nanoseconds == 300_000_000
    assert target.latency.extra == {("Softmax", "middle"): 0.5}
    assert target.unsupported == {("Resize", "linear")}
