"""What MkDocs does with pages of the site besides."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

_ROLE = re.compile(r":[a-z]+:<code>~?([\w.]+)</code>")
_ID = re.compile(r'id="(layoutsolve\.[\w.]+)"')


def on_startup(**_: Any) -> None:
    """The package in one folder, as it is installed: the reference is read from there."""
    root = Path(__file__).parents[1]
    tree = root / "build" / "site" / "layoutsolve"
    shutil.rmtree(tree, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "layoutsolve", tree, ignore=skipped)
    for stage in ("frontend", "solver", "emit"):
        shutil.copytree(root / stage, tree / stage, ignore=skipped)


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings name what they speak of as Sphinx has it, and are shown as Markdown: each such name becomes a link to
    where the page describes it, and plain code where the page does not, or has several of that name.
    """
    places = dict.fromkeys(_ID.findall(html))

    def linked(found: re.Match[str]) -> str:
        short = found[1].rpartition(".")[2]
        fitting = [place for place in places if place.endswith(f".{short}")]
        return f'<a href="#{fitting[0]}"><code>{short}</code></a>' if len(fitting) == 1 else f"<code>{short}</code>"

    return _ROLE.sub(linked, html)
