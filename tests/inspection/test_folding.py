"""Graphs that are folded: what is hidden is what quantizes and what repeats, and all that is left hangs together."""

from __future__ import annotations

import random

import pytest

from layoutsolve.inspection.folding import HIDDEN, fold
from layoutsolve.reporting.graph_view import Drawn, Side, Tensor

OPS = ("Conv", "Add", "Relu", "Mul", "MaxPool", "Softmax", "Resize")


def chain(ops: list[str], skips: dict[int, int] | None = None, ends: bool = True) -> list[Drawn]:
    """Operators in a row; some read what stands so far before them as well."""
    nodes = [Drawn("input", "x", [], [0], "end")] if ends else []
    for place, op in enumerate(ops):
        reads = [place] + ([place - (skips or {})[place]] if place in (skips or {}) else [])
        nodes.append(Drawn(op, f"n{place}", reads, [place + 1]))
    return [*nodes, Drawn("output", "y", [len(ops)], [], "end")] if ends else nodes


@pytest.mark.parametrize("seed", range(40))
def test_planted_blocks(seed: int) -> None:
    """A block that comes again is shown once, with the number of its repetitions, where ever it stands."""
    chance = random.Random(seed)
    block = chance.sample(OPS, chance.randint(3, 6))
    times, before, after = chance.randint(2, 9), chance.randint(0, 4), chance.randint(0, 4)
    ops = [f"B{each}" for each in range(before)] + block * times + [f"A{each}" for each in range(after)]
    skips = {before + len(block) * each + len(block) - 1: len(block) - 1 for each in range(times)}
    folded = fold(chain(ops, skips if chance.random() < 0.5 else None))
    (found,) = folded.blocks
    assert found.length * found.times == len(block) * times and found.start == before
    assert len(folded.behind[0]) == len(found.again)
    shown = {*folded.shown, folded.count}
    assert {each for tie in folded.ties for each in tie} == shown  # it hangs together


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_all(seed: int) -> None:
    """Each node is shown, hidden since it quantizes, or stands behind one block; ties are those through what is
    hidden.
    """
    chance = random.Random(seed)
    ops = [chance.choice((*OPS[:3], *HIDDEN)) for _ in range(chance.randint(1, 120))]
    skips = {place: chance.randint(1, min(place, 9)) for place in range(1, len(ops)) if chance.random() < 0.2}
    nodes = chain(ops, skips)
    folded = fold(nodes)
    behind = [each for some in folded.behind for each in some]
    quantizing = [number for number, node in enumerate(nodes) if node.op in HIDDEN]
    assert sorted([*folded.shown, *behind, *quantizing]) == [*range(len(nodes))]
    assert all(one != other for one, other in folded.ties)
    if not folded.blocks and not quantizing:
        assert len(folded.ties) == sum(len(set(node.reads)) for node in nodes)


def test_nothing_is_folded_that_differs() -> None:
    """Operators of one name that read other things are no block."""
    ops = ["Conv", "Relu", "Add"] * 4
    skips = {2: 2, 5: 4, 8: 1, 11: 3}
    assert not any(block.times > 2 for block in fold(chain(ops, skips)).blocks)


def test_pages_have_it_for_many_nodes() -> None:
    """A small graph is drawn as it is; of a large one every node and block has a place of its own."""
    for count in (5, 166):
        side = Side()
        for number in range(count + 1):
            side.add(Tensor(f"t{number}", "float32[1]"))
        side.nodes = chain(["Conv", "Relu", "Add", "Mul"] * count, ends=False)[:count]
        side.tabs = [("graph", 0, count)]
        (folded,) = side.as_dict()["folded"]  # type: ignore[misc]
        assert (folded is None) == (count == 5)
        if folded is not None:
            places = [tuple(each[1:3]) for each in (*folded["nodes"], *folded["more"])]
            assert len(set(places)) == len(places) < 12
            assert len(folded["lines"]) >= len(places) - 1
