"""Models whose reports are looked at, and what of a page is the same each time."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from layoutsolve.cli.command_line import main
from tests.builder import Builder

HOSTILE = (
    "</script><script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 1">',
    "<!--<script>",
    "'`${window.broken = 1}",
    "right\u202eto\u2066left",
    "line\nfeed\r\x00\x07\x1b[31m\u2028",
    "<b>&amp;</b>",
)
"""Names that would do harm if they were anything but text."""


def moved(names: tuple[str, str, str] = ("image", "inner", "scores")) -> bytes:
    """A convolution between ends that are channels-last: a Transpose before and one behind it."""
    image, inner, scores = names
    builder, random = Builder(), np.random.default_rng(0)
    x = builder.input(image, (1, 8, 6, 3))
    weights = builder.constant("weights", random.normal(size=(5, 3, 3, 3)), "float32")
    bias = builder.constant("bias", random.normal(size=5), "float32")
    y, z = builder.tensor(inner, (1, 8, 6, 5)), builder.tensor(scores, (1, 8, 6, 5))
    builder.operator("CONV_2D", [x, weights, bias], [y], {"padding": "SAME", "stride_h": 1, "stride_w": 1})
    builder.operator("SOFTMAX", [y], [z], {"beta": 1.0})
    return builder.finish(z)


def custom(name: str) -> bytes:
    """An operator that nobody knows, on a batch of any size whose input has a name."""
    builder = Builder()
    x = builder.input(f"x{name}", (1, 4), signature=(-1, 4))
    y = builder.tensor("y", (1, 4), signature=(-1, 4))
    builder.operator(f"CUSTOM:{name}", [x], [y])
    return builder.finish(y)


def chain(count: int) -> bytes:
    """So many operators, one behind the other, with names that search can tell apart."""
    builder = Builder()
    x = builder.input("image", (1, 4))
    for number in range(count):
        y = builder.tensor(f"step{number}", (1, 4))
        builder.operator("TANH" if number % 2 else "NEG", [x], [y])
        x = y
    return builder.finish(x)


def empty() -> bytes:
    """A model that gives back what it is given."""
    builder = Builder()
    return builder.finish(builder.input("image", (1, 4)))


def reported(folder: Path, source: bytes, *options: str) -> Path:
    """The report of a model."""
    model, page = folder / "a.tflite", folder / "report.html"
    model.write_bytes(source)
    assert main([str(model), "-q", "--report", str(page), *options]) == 0
    return page


def unmeasured(page: str) -> str:
    """A page without times, and without how many inputs were tried in a given one."""
    return re.sub(r'<span class="measured">[^<]*</span>|on \d+ inputs', "", page)


def data_of(page: str) -> dict[str, Any]:
    """The graphs of a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return dict(json.loads(found))


def text_of(page: str) -> str:
    """What a page says above the graphs."""
    body = page[page.index("<main>") : page.index("</main>")]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))
