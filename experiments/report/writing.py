"""The report as Markdown, HTML, tables of LaTeX and plots, made of rows alone: the same rows, the same text."""

from __future__ import annotations

from pathlib import Path

import markdown
import matplotlib
import pandas as pd

from experiments.report.findings import findings, with_findings
from experiments.report.tables import PLOTS, Rows, Table, good, tables

TITLE = "Layout algorithms and tools on one problem, with bounds"

INTRODUCTION = """Every model is read into one graph, whose layouts are chosen by several strategies under the same
prices. `transpose` puts a pattern around every operator, `propagate` is tflite2onnx's algorithm, `push` is that of
ONNX Runtime's transpose optimizer, `mincut` a minimum cut between two orders of each tensor, `cpsat` layoutsolve's own,
whose lower bounds are proven. `docs/research.md` states the problem, what is new, and how it could be false. The rows
are in `rows/`, a file for each measurement.
"""

_STYLE = "body{font:15px sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}table{border-collapse:collapse;" \
    "display:block;overflow-x:auto}td,th{padding:2px 9px;border-bottom:1px solid #bbb}img{max-width:100%}"  # fmt: skip

_DARK = (
    "@media(prefers-color-scheme:dark){:root{fill:#e4e8ec}"
    "[style*='fill: #ffffff']{fill:#1c2025!important}[style*='stroke: #000000']{stroke:#e4e8ec!important}}"
)
"""What a plot looks like on dark pages: ground, and what is drawn in black."""


def read(folder: Path) -> Rows:
    """The rows in a folder, by measurement."""
    return {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}


def text(rows: Rows) -> str:
    """The report in Markdown."""
    parts = [f"# {TITLE}", INTRODUCTION]
    if len(good(rows, "strategies")):
        parts += ["## What the rows show", findings(rows)]
    for table in tables(rows):
        parts += [f"## {table.title}", _markdown(table.frame), table.note]
        if table.name in PLOTS:
            parts.append(f"![{table.title}](plots/{table.name}.svg)")
    parts += ["## What failed", _failed(rows)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def write(folder: Path, rows: Rows) -> None:
    """Write the report, its tables and its plots, and its findings into a page of the folder's name beside it."""
    told, page = text(rows), folder.with_name(f"{folder.name}.md")
    if page.is_file() and len(good(rows, "strategies")):
        page.write_text(with_findings(page.read_text(), findings(rows, folder.name)))
    matplotlib.rcParams["svg.hashsalt"] = TITLE  # the same plot, the same bytes
    (folder / "REPORT.md").write_text(told)
    body = markdown.markdown(told, extensions=["tables"])
    head = f'<!doctype html><meta charset="utf-8"><title>{TITLE}</title><style>{_STYLE}</style>'
    (folder / "REPORT.html").write_text(f"{head}\n{body}\n")
    for name in ("tables", "plots"):
        (folder / name).mkdir(exist_ok=True)
    for table in tables(rows):
        (folder / "tables" / f"{table.name}.tex").write_text(_latex(table))
        if table.name in PLOTS:
            figure = PLOTS[table.name](rows)
            path = folder / "plots" / f"{table.name}.svg"
            figure.savefig(path, metadata={"Date": None})
            path.write_text(path.read_text().replace("</style>", f"{_DARK}</style>", 1))
            figure.savefig(folder / "plots" / f"{table.name}.png", dpi=150)


def _markdown(frame: pd.DataFrame) -> str:
    """A table of Markdown, numbers to the right."""
    cells = frame.astype(object).where(frame.notna(), "").astype(str)
    sides = ["--:" if all(_number(cell) for cell in cells[name]) else "---" for name in cells]
    lines = [list(cells.columns), sides, *cells.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(cell: str) -> bool:
    return not cell or cell[0].isdigit() or (cell[0] == "-" and cell[1:2].isdigit())


def _latex(table: Table) -> str:
    frame = table.frame.rename(columns=lambda name: name.replace("%", r"\%"))
    shown = frame.map(lambda cell: cell.replace("%", r"\%").replace("_", r"\_") if isinstance(cell, str) else cell)
    return shown.to_latex(index=False, caption=f"{table.title}. {table.note}", label=f"tab:{table.name}")


def _failed(rows: Rows) -> str:
    lines = []
    for name, frame in rows.items():
        if name == "cost":
            continue
        if name != "tools" and "error" in frame:
            bad = frame[frame["error"].notna()]
            kinds = bad["error"].str.split(":").str[0].value_counts().sort_index()
            told = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            lines.append(f"* {name}: {len(bad)} of {frame['model'].nunique()} models ({told})")
        else:
            lines.append(f"* {name}: none of {good(rows, name)['model'].nunique()} models")
    return "\n".join(lines)
