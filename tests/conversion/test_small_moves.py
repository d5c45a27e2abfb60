"""What LiteRT takes longer for few elements at a time, and layouts that move more of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import layoutsolve
from experiments.make.hard_networks import FAMILIES
from layoutsolve.conversion.small_moves import cost, transposition
from layoutsolve.frontend.tflite.reading.reader import parse


@pytest.mark.parametrize(
    ("shape", "order", "count"),
    [
        ((64, 64), (1, 0), 1),
        ((1, 64, 1, 64), (3, 0, 2, 1), 1),
        ((64, 1, 64), (0, 1, 2), 0),
        ((1, 64, 8), (1, 0, 2), 0),
        ((64, 32, 2), (1, 0, 2), 5),
        ((64, 32, 16), (1, 0, 2), 1),
        ((512, 2, 2), (0, 2, 1), 11),
        ((512, 2, 4), (0, 2, 1), 6),
        ((2, 4096), (1, 0), 3),
        ((4, 2, 8, 64), (1, 0, 2, 3), 1),
    ],
)
def test_transposes(shape: Sequence[int], order: Sequence[int], count: float) -> None:
    assert transposition(shape, order) == count


@pytest.mark.parametrize(("family", "size"), [("shufflenet", 3), ("windowed", 1)])
def test_no_more_is_moved(family: str, size: int) -> None:
    """Fewer Transposes of small pieces are left where LiteRT takes longer for them."""
    source = FAMILIES[family][0](size)
    found = layoutsolve.convert(source, to="tflite")
    assert cost(parse(found.content(""))) <= cost(parse(source))


def test_fewest_transposes_may_move_more() -> None:
    source = FAMILIES["shufflenet"][0](2)
    found = layoutsolve.convert(source, to="tflite")
    fewest = layoutsolve.convert(source, to="tflite", objective="min-transpose")
    assert fewest.moves.transposes < found.moves.transposes
