"""Plots are SVG, whose bars are as long as what they are of."""

from __future__ import annotations

from math import log2
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments.make.plot import LABEL, WIDTH, bars

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("seed", range(5))
def test_bars_go_from_one_to_each_ratio(seed: int) -> None:
    random = np.random.default_rng(seed)
    series = [f"<{name}> & co" for name in range(int(random.integers(1, 5)))]
    groups = {
        f"model {number}": {name: float(2 ** random.uniform(-4, 4)) for name in series if random.random() < 0.8}
        for number in range(int(random.integers(0, 9)))
    }
    drawn = ElementTree.fromstring(bars("title", groups))
    found = [each for each in drawn.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    ratios = [(label, name, ratio) for label, group in groups.items() for name, ratio in group.items()]
    assert [each.findtext(f"{SVG}title") for each in found] == [
        f"{label}, {name}: {each:.2f}" for label, name, each in ratios
    ]
    ticks = {
        each.text: float(each.attrib["x"])
        for each in drawn.iter(f"{SVG}text")
        if each.attrib.get("text-anchor") == "middle"
    }
    step = ticks["2"] - ticks["1"]
    for each, (_, _, ratio) in zip(found, ratios, strict=True):
        left, width = float(each.attrib["x"]), float(each.attrib["width"])
        assert width == pytest.approx(abs(log2(ratio)) * step, abs=0.2)
        assert left == pytest.approx(ticks["1"] - (width if ratio < 1 else 0), abs=0.2)
        assert LABEL <= left <= left + width <= LABEL + WIDTH + 0.1
