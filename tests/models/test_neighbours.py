"""Operators in a row give the same at all levels of ONNX Runtime's optimisation, whatever follows what.

One in twelve pairs is tried, and all of them where ``LAYOUTSOLVE_SEEDS`` is at least 12.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

import layoutsolve
from experiments.compare.levels import gaps
from tests.neighbours import FOLLOWERS, KINDS, Neighbours, neighbours
from tests.truth import HIGHEST_OPSET

ROUNDS = int(os.environ.get("LAYOUTSOLVE_SEEDS", "1"))

WAYS: tuple[Mapping[str, Any], ...] = (
    {}, {"strategy": "transpose"}, {"opset": 21}, {"strategy": "push"}, {"contrib": True}, {"opset": HIGHEST_OPSET},
    {"strategy": "propagate"}, {"objective": "min-latency"}, {"opset": HIGHEST_OPSET - 1},
    {"objective": "min-transpose"},
)  # fmt: skip

SHARE = 12
"""One in so many pairs is tried in a round, each time others."""


NOT_FIRST = ("best", "one_hot", "cast", "island")
"""Steps that need what only another one makes of the inputs there are, or that few pairs begin with."""


@pytest.mark.members(0)
@pytest.mark.parametrize("first", range(len(FOLLOWERS)), ids=lambda first: FOLLOWERS[first].__name__)
def test_pairs(first: int) -> None:
    """Pairs that begin with one operator, of each type, and every other time with a third one behind them."""
    tried = 0
    for turn, second, kind in product(range(ROUNDS), range(len(FOLLOWERS)), KINDS):
        seed = (turn * len(FOLLOWERS) + first) * len(FOLLOWERS) + second
        if (seed + KINDS.index(kind)) % SHARE != turn % SHARE:
            continue
        steps = [FOLLOWERS[first], FOLLOWERS[second], FOLLOWERS[seed % 23]][: 2 + seed % 2]
        model = neighbours(steps, kind, seed)
        if model is not None:
            tried += 1
            agree(model, WAYS[seed % len(WAYS)])
    assert tried or FOLLOWERS[first].__name__ in NOT_FIRST


def agree(model: Neighbours, way: Mapping[str, Any]) -> None:
    """Raise AssertionError unless all levels compute the same."""
    conversion = layoutsolve.convert(model.source, **way)
    found = gaps(f"{model.operators} with {dict(way)}", conversion.model.SerializeToString(), model.given)
    assert not found, "\n".join(map(str, found))
