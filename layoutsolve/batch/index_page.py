"""The page that lists what became of many models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from layoutsolve.base.wording import minimal, penalty_cell, sizes
from layoutsolve.reporting.markup import Markup, asset, element, page
from layoutsolve.reporting.sections import asked, figures, head, measured
from layoutsolve.version import VERSION

if TYPE_CHECKING:
    from layoutsolve.batch.jobs import Done

HEADS = ("model", "status", "Transposes", "penalty", "Reshapes", "moved", "operators", "seconds", "LiteRT")
NUMBERS = range(2, 8)
"""The columns of numbers."""

FIGURES: Mapping[str, Callable[[int], str]] = {
    "transposes": str,
    "hidden_transposes": penalty_cell,
    "reshapes": str,
    "bytes_moved": sizes,
    "operators": str,
}
"""What a report has in the first of these, and how it is written."""


def index(done: Sequence[Done], options: Mapping[str, object], folder: str) -> str:
    """The page, to be written to a folder: a table of all models, with links to their reports."""
    good = [each for each in done if not each.failed]
    counts = [
        ("models", len(done), ""),
        ("failed", len(done) - len(good), ""),
        ("Transposes", sum(each.report["transposes"] for each in good), ""),
        ("layout penalty", sum(max(each.report["hidden_transposes"], 0) for each in good), ""),
        ("Reshapes", sum(each.report["reshapes"] for each in good), ""),
        ("moved by Transposes", sizes(sum(each.report["bytes_moved"] for each in good)), ""),
    ]
    heads = [
        element("th", element("button", text, type="button"), scope="col", class_=_side(place))
        for place, text in enumerate(HEADS)
    ]
    rows = [element("tr", *_cells(each, folder)) for each in done]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="index")
    body = element(
        "main",
        head("layoutsolve report", f"{len(done)} models", f"layoutsolve {VERSION}, {asked(options)}"),
        figures(counts),
        element("div", table, class_="scroll"),
    )
    scripts = [asset("theme.js"), asset("index.js")]
    return page(f"{len(done)} models · layoutsolve", body, [asset("report.css")], scripts)


def _side(place: int) -> str | None:
    return "number" if place in NUMBERS else None


def _cells(done: Done, folder: str) -> Iterator[Markup]:
    """The row of one model: its numbers, or why it failed."""
    report: Mapping[str, Any] = done.report
    link = None
    if done.job.report is not None and not done.failed:
        link = quote(os.fsencode(os.path.relpath(done.job.report, folder).replace(os.sep, "/")))
    yield element("td", element("a", done.job.name, href=link) if link else done.job.name, class_="name")
    if done.failed:
        yield element("td", "failed", class_="bad")
        yield element("td", done.reason, colspan=len(HEADS) - 2)
        return
    proven = report["status"] == "optimal"
    least = minimal(report["transposes"], report["objective"], report["kept_operators"])
    yield element("td", least if proven else "not proven", class_="good" if proven else "bad")
    for name, shown in FIGURES.items():
        yield element("td", shown(report[name]), class_="number", data_value=report[name])
    spent = report["seconds"]["total"]
    yield element("td", measured(f"{spent:.2f}"), class_="number")
    verified = report.get("verified")
    verdict = "" if verified is None else verified["verdict"]
    yield element("td", verdict, class_="good" if verdict in ("", "pass") else "bad")
