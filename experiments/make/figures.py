"""Figures of the documentation, drawn from small models as they are converted: SVG that any browser shows.

``strategies.svg`` is one network as three strategies write it, ``views.svg`` a channel shuffle in the source and as it
is written. Operators are coloured by the order of dimensions of what they give, as in reports.

    python -m experiments.make.figures docs/assets
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

import layoutsolve
from layoutsolve.io.source import load
from layoutsolve.reporting.graph_view import Side
from layoutsolve.reporting.source_view import source_side
from layoutsolve.reporting.written_view import written_side
from tests.builder import Builder

FILLS = {
    "same": ("#dbeaf7", "#0072b2"),
    "first": ("#d3efe4", "#00855f"),
    "other": ("#f5dfec", "#a8497f"),
    "none": ("#f0f2f4", "#98a1aa"),
}
TRANSPOSE, LINE, INK = "#bd5200", "#9aa4ae", "#1a1e22"

SCHEMES = (
    f":root{{fill:{INK}}}.ground{{fill:#fff}}"
    "@media(prefers-color-scheme:dark){:root{fill:#e4e8ec}.ground{fill:#1c2025}}"
)
"""What is not in a box is drawn for light pages or for dark ones."""
KEYS = {"same": "the source's order", "first": "channels first", "other": "another order"}

HEIGHT, MARGIN, HEAD, KEY = 26, 26, 54, 150
"""Pixels: of a box, around a graph, above it, and for a part of the legend."""


def residual() -> bytes:
    """Two convolutions with a sum around them, attention to channels, and scores of each pixel."""
    builder, random = Builder(), np.random.default_rng(0)

    def tensor(name: str, channels: int) -> int:
        return builder.tensor(name, (1, 8, 8, channels))

    def convolution(x: int, read: int, given: int, name: str) -> int:
        weights = builder.constant(f"{name}/weights", random.normal(size=(given, 3, 3, read)), "float32")
        bias, y = builder.constant(f"{name}/bias", np.zeros(given), "float32"), tensor(name, given)
        builder.operator("CONV_2D", [x, weights, bias], [y], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
        return y

    image = builder.input("image", (1, 8, 8, 3))
    first = convolution(image, 3, 4, "first")
    gate, gated, total, scores = (tensor(name, 4) for name in ("gate", "gated", "total", "scores"))
    builder.operator("SOFTMAX", [first], [gate], {"beta": 1.0})
    builder.operator("MUL", [first, gate], [gated])
    builder.operator("ADD", [convolution(gated, 4, 4, "second"), first], [total])
    builder.operator("SOFTMAX", [total], [scores], {"beta": 1.0})
    return builder.finish(scores)


def shuffle() -> bytes:
    """Channels that are shuffled between two convolutions: split, turned and joined again."""
    builder, random = Builder(), np.random.default_rng(0)
    shapes = ((1, 8, 8, 6), (1, 8, 8, 2, 3), (1, 8, 8, 3, 2), (1, 8, 8, 6))
    weights = builder.constant("weights", random.normal(size=(6, 3, 3, 6)), "float32")
    bias = builder.constant("bias", np.zeros(6), "float32")
    said = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    image = builder.input("image", shapes[0])
    tensors = [builder.tensor(f"t{number}", shape) for number, shape in enumerate(shapes)]
    builder.operator("CONV_2D", [image, weights, bias], [tensors[0]], said)
    turns = [builder.constant(f"to{number}", np.array(shapes[number], np.int32)) for number in (1, 3)]
    order = builder.constant("order", np.array([0, 1, 2, 4, 3], np.int32))
    builder.operator("RESHAPE", [tensors[0], turns[0]], [tensors[1]])
    builder.operator("TRANSPOSE", [tensors[1], order], [tensors[2]])
    builder.operator("RESHAPE", [tensors[2], turns[1]], [tensors[3]])
    result = builder.tensor("result", shapes[0])
    builder.operator("CONV_2D", [tensors[3], weights, bias], [result], said)
    return builder.finish(result)


def strategies() -> str:
    """One network as several strategies write it."""
    content = load(residual())
    sides = {}
    for strategy in ("transpose", "propagate", "cpsat"):
        conversion = layoutsolve.convert(content, strategy=strategy)
        price = conversion.price
        title = f"{strategy}: {price.transposes} Transposes, layout penalty {price.hidden}"
        sides[title] = written_side(conversion, conversion.explain(), source_side(content)[1])
    return drawn(sides)


def views() -> str:
    """A channel shuffle in the source, and as it is written with its ends channels first."""
    content = load(shuffle())
    source, numbers = source_side(content)
    conversion = layoutsolve.convert(content, inputs="nchw", outputs="nchw")
    written = written_side(conversion, conversion.explain(), numbers)
    return drawn({"source": source, "written, ends channels first": written})


def drawn(sides: Mapping[str, Side]) -> str:
    """Graphs beside each other, each under its title, and what the colours mean."""
    parts, left, bottom = [], float(MARGIN), 0.0
    for title, side in sides.items():
        plain: Any = side.as_dict()
        nodes = plain["nodes"]
        begin = min(node["x"] - node["w"] / 2 for node in nodes)
        wide = max(max(node["x"] + node["w"] / 2 for node in nodes) - begin, 8.0 * len(title))
        parts.append(f'<text x="{left:.0f}" y="{HEAD - 26}" font-weight="bold">{escape(title)}</text>')
        body = [_line(nodes, edge) for edge in plain["edges"]] + [_box(node) for node in nodes]
        parts.append(f'<g transform="translate({left - begin:.0f} {HEAD})">{"".join(body)}</g>')
        left, bottom = left + wide + 2 * MARGIN, max(bottom, HEAD + max(node["y"] for node in nodes) + MARGIN)
    orders = {node.order for side in sides.values() for node in side.nodes}
    keys = [(*FILLS[name], what) for name, what in KEYS.items() if name in orders]
    if any(node.kind == "transpose" for side in sides.values() for node in side.nodes):
        keys.append((TRANSPOSE, INK, "Transpose"))
    legend = [_key(MARGIN + number * KEY, bottom + 18, *key) for number, key in enumerate(keys)]
    size = f'width="{max(left, MARGIN + len(keys) * KEY):.0f}" height="{bottom + 44:.0f}"'
    style = 'font-family="system-ui, sans-serif" font-size="12"'
    ground = f'<style>{SCHEMES}</style><rect class="ground" width="100%" height="100%"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
    return "\n".join([head, ground, *parts, *legend, "</svg>\n"])


def _line(nodes: Any, edge: list[int]) -> str:
    first, last, *bends = edge
    points = [nodes[first]["x"], nodes[first]["y"], *bends, nodes[last]["x"], nodes[last]["y"]]
    return f'<polyline points="{" ".join(map(str, points))}" fill="none" stroke="{LINE}" stroke-width="1.3"/>'


def _box(node: Mapping[str, Any]) -> str:
    moves = node.get("kind") == "transpose"
    fill, edge = (TRANSPOSE, INK) if moves else FILLS[node["order"]]
    shape = (
        f'x="{node["x"] - node["w"] / 2:.0f}" y="{node["y"] - HEIGHT / 2:.0f}" width="{node["w"]}" height="{HEIGHT}"'
    )
    round_ = HEIGHT / 2 if node.get("kind") == "end" else 5
    ink = "#fff" if moves else INK
    text = f'<text x="{node["x"]}" y="{node["y"] + 4}" text-anchor="middle" fill="{ink}">{escape(node["label"])}</text>'
    return f'<rect {shape} rx="{round_}" fill="{fill}" stroke="{edge}" stroke-width="1.5"/>{text}'


def _key(x: float, y: float, fill: str, edge: str, what: str) -> str:
    box = f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12" rx="3" fill="{fill}" stroke="{edge}"/>'
    return f'{box}<text x="{x + 18:.0f}" y="{y:.0f}">{escape(what)}</text>'


FIGURES = {"strategies.svg": strategies, "views.svg": views}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, figure in FIGURES.items():
        (folder / name).write_text(figure(), encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main()
