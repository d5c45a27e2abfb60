"""The target that comes with the package, and how Transposes are told apart."""

from __future__ import annotations

import json

import pytest

from layoutsolve.solver.statement.target import default_target, load, motion_of


@pytest.mark.parametrize(
    ("shape", "permutation", "motion", "block"),
    [
        ((2, 5, 5, 3), (0, 1, 2, 3), None, 150),
        ((1, 5, 1, 3), (2, 1, 0, 3), None, 15),
        ((1, 5, 6, 3), (0, 3, 1, 2), "swap", 1),
        ((7, 5, 6, 3), (0, 2, 3, 1), "swap", 1),
        ((7, 5, 6, 3), (2, 3, 0, 1), "swap", 1),
        ((1, 5, 4, 3), (0, 2, 1, 3), "rows", 3),
        ((2, 5, 4, 3, 6), (0, 2, 1, 3, 4), "rows", 18),
        ((2, 5, 4, 1), (0, 2, 1, 3), "swap", 1),
        ((4, 5, 6), (2, 1, 0), "general", 1),
        ((2, 4, 5, 6, 7), (0, 1, 4, 2, 3), "swap", 1),
        ((2, 4, 5, 6, 7), (1, 0, 3, 2, 4), "rows", 7),
        ((2, 4, 5, 6), (1, 0, 3, 2), "general", 1),
    ],
)
def test_motion(shape: tuple[int, ...], permutation: tuple[int, ...], motion: str | None, block: int) -> None:
    assert motion_of(shape, permutation) == (motion, block)


def test_default_target_is_complete() -> None:
    target = default_target()
    assert target is default_target()
    assert target.hidden["Softmax", "innermost"] == 0
    assert target.hidden["Softmax", "outermost"] == 2
    assert ("Resize", "linear float32 KRKR") in target.unsupported
    assert set(target.hidden.values()) == {0, 1, 2}
    assert not target.unsupported & set(target.hidden)
    assert set(target.latency.extra) == {key for key, hidden in target.hidden.items() if hidden}


def test_latency_orders_transposes() -> None:
    latency = default_target().latency
    swap = latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 4)
    assert latency.transposition((1, 56, 56, 64), (0, 1, 2, 3), 4) < swap
    assert swap < latency.transposition((64, 56, 56), (2, 1, 0), 4)
    assert latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 1) < swap
    assert latency.transposition((1, 56, 56, 64), (0, 3, 1, 2), 8) == pytest.approx(2 * swap, rel=0.2)


def test_an_unmeasured_element_size_costs_as_the_next_larger_one() -> None:
    costs = {"fixed": 0.0, "per_byte": 1.0}
    text = {
        "name": "t",
        "hidden": {},
        "unsupported": {"Resize": ["linear"]},
        "extra": {"Softmax": {"middle": 2.0}},
        "latency": {
            "transpose": {"swap": {"1": costs, "4": {"fixed": 5.0, "per_byte": 2.0}}},
            "reshape": {"fixed": 3.0, "per_byte": 0.0},
        },
    }
    target = load(json.dumps(text))
    assert target.latency.transposition((2, 3), (1, 0), 1) == 6
    assert target.latency.transposition((2, 3), (1, 0), 2) == 29
    assert target.latency.transposition((2, 3), (0, 1), 2) == 3
    assert target.latency.extra == {("Softmax", "middle"): 2.0}
    assert target.unsupported == {("Resize", "linear")}
