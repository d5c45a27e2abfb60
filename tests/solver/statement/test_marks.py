"""What is said of moves between layouts that leave atoms out holds for whatever layouts show them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, permutations, product

import numpy as np

from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.search import solve
from layoutsolve.solver.statement.marks import EITHER, ends
from layoutsolve.solver.statement.objective import OBJECTIVES, Goal, coarse_tiers
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.layout import Layout, finest, order
from layoutsolve.solver.theory.motion import Motion, motion_between, motions_showing
from tests.solver.broadcast_graphs import broadcast_graph
from tests.solver.mixed_graphs import mixed_graph
from tests.solver.turned_graphs import turned_graph

FAMILIES = (mixed_graph, broadcast_graph, turned_graph)

ATOMS = 4


def shown(layout: Layout, unseen: Collection[int], mark: int = ATOMS) -> Layout:
    """What is left of a layout without some atoms, with its mark."""
    atoms = order(layout)
    left = tuple(atom for atom in atoms if atom not in unseen)
    return finest(((*left, mark) if atoms[-1] in unseen else (mark, *left),))


def test_motions() -> None:
    """Of all Transposes of four atoms, whatever is left out; mostly the motion is known where it is a slow one."""
    layouts = [finest((atoms,)) for atoms in permutations(range(ATOMS))]
    slow = 0
    for unseen in (some for count in range(ATOMS) for some in combinations(range(ATOMS), count)):
        for source, target in product(layouts[:1], layouts[1:]):
            motion, seen = motion_between(source, target)[0], [shown(each, unseen) for each in (source, target)]
            if seen[0] != seen[1]:
                possible = motions_showing(*seen, ATOMS)
                assert motion in possible, (source, target, unseen)
                slow += len(unseen) > 0 and possible == (Motion.GENERAL,)
    assert slow > 10


def test_every_row_is_one_of_the_cases() -> None:
    """Of all orders of what moves."""
    compared = fewer = 0
    for seed in range(36):
        statement = Statement(FAMILIES[seed % 3](seed), goal=Goal("min-executed"))
        problem, random = statement.orders(charged=statement.orders().moving()), np.random.default_rng(seed)
        factors = [factor for factor in sorted(statement.unseen(0)) if random.random() < 0.5]
        unseen = [{atom for atom, factor in enumerate(own) if factor in factors} for own in statement._factors]
        for entry, operator in zip(statement.entries, problem.operators, strict=True):
            ports = [port for port, each in enumerate(operator.ports) if unseen[each] and each in problem.moving()]
            for row in operator.rows:
                cases = ends(entry, row.form, ports, [unseen[each] for each in operator.ports])
                last = [order(row.layouts[port])[-1] in unseen[operator.ports[port]] for port in ports]
                assert tuple(last) in cases, (seed, operator.title, row)
                compared += bool(ports)
                fewer += len(cases) < len(EITHER) ** len(ports)
    assert compared > 500 and fewer > 300


def test_charging_makes_a_higher_bound() -> None:
    """The least price where some atoms are seen grows with what is charged, and is never above that of all atoms."""
    tiers, grown = coarse_tiers(OBJECTIVES["min-executed"]) or (), 0
    for seed in range(36):
        statement = Statement(turned_graph(seed) if seed % 2 else mixed_graph(seed), goal=Goal("min-executed"))
        moving, random = statement.orders().moving(), np.random.default_rng(seed)
        unseen = [factor for factor in sorted(statement.unseen(0)) if random.random() < 0.4]
        problems = [
            *(statement.orders(charged=charged, without=unseen) for charged in ((), moving[::2], moving)),
            statement.orders(charged=moving),
        ]
        values = [solve(problem, tiers, Limit(10_000_000)).values for problem in problems]
        assert values == sorted(values), seed
        grown += values[0] < values[2]
    assert grown > 5
