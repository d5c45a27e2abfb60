"""A model's graph as a picture for notebooks: without what quantizes, and with repeated blocks once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from layoutsolve.base.wording import printable
from layoutsolve.inspection.folding import fold
from layoutsolve.inspection.layered_drawing import STEP, drawing
from layoutsolve.proto.data_movement import VIEWS
from layoutsolve.proto.messages import ModelProto
from layoutsolve.proto.scopes import captures

MOST, READ = 400, 5000
"""Operators of a picture, and of a graph that is folded for one; of more, there is none."""

TALL = 640
"""Pixels of a picture's height, beyond which it goes on in another column."""

_CHARACTER, _MARGIN, _HEIGHT, _GAP, _LONGEST = 6.4, 16, 22, 28, 26

_FILL = {"Transpose": "#e8700f", "end": "#dbeaf7"}


@dataclass
class _Node:
    op: str
    kind: str
    reads: list[int]
    gives: list[int]


def picture(model: ModelProto) -> str:
    """The main graph of a model as SVG, '' for one of too many operators."""
    nodes = _nodes(model)
    if len(nodes) > READ:
        return ""
    folded = fold(nodes)
    count = len(nodes)
    if not 0 < len(folded.shown) + len(folded.blocks) <= MOST:
        return ""
    labels: Mapping[int, str] = {
        **{number: printable(nodes[number].op)[:_LONGEST] for number in folded.shown},
        **{count + place: f"\u00d7 {block.times - 1} more" for place, block in enumerate(folded.blocks)},
    }
    ordered = sorted(labels, key=lambda number: folded.behind[number - count][0] if number >= count else number)
    at = {number: place for place, number in enumerate(ordered)}
    widths = [round(_CHARACTER * len(labels[number]) + _MARGIN) for number in ordered]
    drawn = drawing(widths, [(at[one], at[other]) for one, other in folded.ties])
    return _svg(
        [labels[each] for each in ordered],
        widths,
        list(drawn.places),
        [(at[one], at[other]) for one, other in folded.ties],
        [nodes[each].kind if each < count else "block" for each in ordered],
    )


def _nodes(model: ModelProto) -> list[_Node]:
    graph = model.graph
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    held = {each.name for each in graph.initializer}
    found = [_Node(port.name, "end", [], [number(port.name)]) for port in graph.input if port.name not in held]
    for node in graph.node:
        reads = [number(name) for name in (*node.input, *captures(node)) if name and name not in held]
        found.append(_Node(node.op_type, "", reads, [number(name) for name in node.output if name]))
    return found + [_Node(port.name, "end", [number(port.name)], []) for port in graph.output]


def _svg(
    labels: list[str], widths: list[int], places: list[tuple[int, int]], ties: list[tuple[int, int]], kinds: list[str]
) -> str:
    """The picture of nodes at their places, in columns."""
    left = min(x - width / 2 for (x, _), width in zip(places, widths, strict=True))
    wide = max(x + width / 2 for (x, _), width in zip(places, widths, strict=True)) - left + _GAP
    layers = max(y for _, y in places) // STEP + 1
    rows = -(-layers // max(round(layers * STEP / TALL), 1))
    points = []
    for x, y in places:
        column, row = divmod(y // STEP, rows)
        points.append((x - left + column * wide + _GAP / 2, row * STEP + _HEIGHT))
    width = max(x for x, _ in points) + max(widths) / 2 + _GAP
    height = max(y for _, y in points) + _HEIGHT
    lines = "".join(_line(points[one], points[two]) for one, two in ties)
    boxes = "".join(map(_box, points, widths, labels, kinds))
    style = 'style="max-width: 100%; height: auto" font-family="sans-serif" font-size="11" text-anchor="middle"'
    parts = f'<g stroke="#98a1aa">{lines}</g>{boxes}'
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" {style}>{parts}</svg>'


def _line(one: tuple[float, float], two: tuple[float, float]) -> str:
    return f'<line x1="{one[0]:.0f}" y1="{one[1]:.0f}" x2="{two[0]:.0f}" y2="{two[1]:.0f}"/>'


def _box(point: tuple[float, float], width: int, label: str, kind: str) -> str:
    x, y = point
    hollow = kind == "block" or label in VIEWS
    fill = "#ffffff" if hollow else _FILL.get(kind or label, "#f0f2f4")
    dashes = ' stroke-dasharray="4 3"' if hollow else ""
    corner = f'x="{x - width / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{width}" height="{_HEIGHT}" rx="5"'
    box = f'<rect {corner} fill="{fill}" stroke="#98a1aa"{dashes}/>'
    return f'{box}<text x="{x:.0f}" y="{y + 4:.0f}" fill="#1a1e22">{escape(label)}</text>'
