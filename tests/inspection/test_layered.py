"""Places in a drawing: over random graphs, what holds of each."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from layoutsolve.inspection import layered_drawing
from layoutsolve.inspection.layered_drawing import GAP, STEP, drawing


def random_graph(seed: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Widths and edges; some nodes read nothing, some nobody reads."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    widths = random.integers(20, 200, count).tolist()
    reads = [(int(random.integers(max(0, last - 12), last)), last) for last in range(1, count) for _ in range(3)]
    return widths, [edge for edge in reads if random.random() < 0.6]


@pytest.mark.parametrize("seed", range(40))
def test_boxes_are_apart_and_lines_lead_down(seed: int) -> None:
    widths, edges = random_graph(seed)
    found = drawing(widths, edges)
    assert found == drawing(widths, edges[::-1])  # in whatever order edges come
    for first, last in combinations(range(len(widths)), 2):
        (x, y), (other, level) = found.places[first], found.places[last]
        assert y != level or abs(x - other) >= (widths[first] + widths[last]) / 2 + GAP - 1
    for (first, last), bends in found.bends.items():
        heights = [found.places[first][1], *(y for _, y in bends), found.places[last][1]]
        assert heights == sorted(set(heights)) and all(height % STEP == 0 for height in heights)
    assert set(found.bends) == set(edges)


@pytest.mark.parametrize("seed", range(40))
def test_bends_are_beside_boxes(seed: int) -> None:
    widths, edges = random_graph(seed)
    found = drawing(widths, edges)
    for bends in found.bends.values():
        for x, y in bends:
            assert all(
                level != y or abs(x - at) > width / 2 for (at, level), width in zip(found.places, widths, strict=True)
            )


def test_a_chain_is_straight_whatever_its_weights_are() -> None:
    """Operators in a row, each of which reads two more that read nothing."""
    edges, count = [], 0
    for _ in range(20):
        edges += [(count, count + 3), (count + 1, count + 3), (count + 2, count + 3)]
        count += 3
    places = drawing([40] * (count + 1), edges).places[3::3]
    assert max(x for x, _ in places) - min(x for x, _ in places) <= 4


def test_lines_beyond_the_room_for_them_are_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(number - 1, number) for number in range(1, 50)] + [(0, 49), (20, 23)]
    assert drawing([40] * 50, edges).bends[0, 49]
    monkeypatch.setattr(layered_drawing, "LANES", 0.1)
    found = drawing([40] * 50, edges)
    assert found.bends[20, 23] and not found.bends[0, 49]


def test_nothing() -> None:
    assert drawing([], []).places == () and drawing([30], []).places == ((0, 0),)
