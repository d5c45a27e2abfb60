"""Whole networks of TensorFlow Lite whose optimum is known are hidden by equivalences and found again."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments.fuzz import planted_tflite
from experiments.fuzz.planted_models import MISSES, case, outcome

FEWEST = 8
"""The networks that are tried of each."""


@pytest.mark.members(2)
@pytest.mark.parametrize("part", range(3))
def test_planted_in_tensorflow_lite(part: int) -> None:
    """As few Transposes as were planted where it is called optimal, no more than one above, none less in a second run,
    and the results of LiteRT.
    """
    found = Counter[str]()
    for seed in range(part * FEWEST, (part + 1) * FEWEST):
        result = outcome(case(seed, planted_tflite.base))
        assert result.kind not in MISSES and result.kind not in ("disguise", "refused"), (seed, result)
        found[result.kind] += 1
    assert found["as planted"] >= FEWEST - 1


def test_disguises_of_tensorflow_lite_hide_something() -> None:
    """Most networks have moves that they do not need; all operators are in some."""
    moves, operators = list[int](), set[str]()
    for seed in range(200):
        made = case(seed, planted_tflite.base)
        net, _ = made.hidden()
        moves.append(sum(node.op == "Transpose" for node in net.nodes))
        operators |= {node.op for node in made.base.nodes}
    assert sum(count > 0 for count in moves) > 120
    assert len(operators) > 45
