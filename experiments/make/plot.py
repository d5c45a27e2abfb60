"""Ratios as bars, in SVG that any browser shows: no package is needed."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log2
from xml.sax.saxutils import escape

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")

BAR, GAP, LABEL, WIDTH, HEAD = 9, 8, 330, 560, 60
"""Pixels: the height of a bar, between two groups, for names, for the scale, and above all bars."""


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A group of bars for each name, a bar in it for each of the same series: from 1 to the ratio, on a logarithmic
    scale.
    """
    series = list(dict.fromkeys(name for ratios in groups.values() for name in ratios))
    values = [ratio for ratios in groups.values() for ratio in ratios.values()]
    low, high = floor(log2(min(values, default=0.5))), ceil(log2(max(values, default=2)))
    low, high = min(low, -1), max(high, 1)
    parts, y = [], float(HEAD)

    def place(ratio: float) -> float:
        return LABEL + WIDTH * (log2(ratio) - low) / (high - low)

    for label, ratios in groups.items():
        middle = y + BAR * len(ratios) / 2 + 4
        parts.append(f'<text x="{LABEL - 8}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>')
        for name, ratio in ratios.items():
            left, right = sorted((place(1), place(ratio)))
            told = f"<title>{escape(f'{label}, {name}: {ratio:.2f}')}</title>"
            colour = COLOURS[series.index(name) % len(COLOURS)]
            box = f'x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{BAR - 1}" fill="{colour}"'
            parts.append(f"<rect {box}>{told}</rect>")
            y += BAR
        y += GAP
    lines = [_line(place(2.0**power), f"{2.0**power:g}", y, power == 0) for power in range(low, high + 1)]
    legend = [_key(number, name) for number, name in enumerate(series)]
    head = f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>'
    size = f'width="{LABEL + WIDTH + 20}" height="{y + 10:.0f}"'
    style = 'font-family="sans-serif" font-size="11"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', head, *legend, *lines, *parts, "</svg>\n"]
    )


def _line(x: float, label: str, bottom: float, thick: bool) -> str:
    colour = "#000" if thick else "#ddd"
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 6}" y2="{bottom:.1f}" stroke="{colour}"/>'
    return f'{line}<text x="{x:.1f}" y="{HEAD - 10}" text-anchor="middle">{label}</text>'


def _key(number: int, name: str) -> str:
    x = 8 + number * 170
    colour = COLOURS[number % len(COLOURS)]
    return f'<rect x="{x}" y="26" width="9" height="9" fill="{colour}"/><text x="{x + 13}" y="35">{escape(name)}</text>'
