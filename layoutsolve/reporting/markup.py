"""Pieces of pages: every text is escaped, and shown on one line."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from layoutsolve.base.wording import printable


class Markup(str):
    """A piece of a page, as opposed to a text."""


EMPTY = frozenset(("br", "col", "input", "meta"))
"""Elements without a content."""


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An element. Attributes that are None or False are left out; ``class_`` is class, ``data_x`` is data-x."""
    told = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(printable(str(value)))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{told}>" if tag in EMPTY else f"<{tag}{told}>{joined(content)}</{tag}>")


def joined(content: Iterable[object]) -> Markup:
    """Pieces and texts, one behind the other; None is nothing."""
    return Markup("".join(_piece(each) for each in content if each is not None))


def _piece(each: object) -> str:
    return each if isinstance(each, Markup) else escape(printable(str(each)))


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], right: Sequence[int] = (), **more: object
) -> Markup:
    """A table; columns at some places hold numbers, which are set to the right."""
    sides = ["number" if place in right else None for place in range(len(heads))]
    head = [element("th", each, class_=side, scope="col") for each, side in zip(heads, sides, strict=True)]
    body = [
        element("tr", *(element("td", each, class_=side) for each, side in zip(row, sides, strict=True)))
        for row in rows
    ]
    return element(
        "div",
        element("table", element("thead", element("tr", *head)), element("tbody", *body), **more),
        class_="scroll",
    )


def asset(name: str) -> str:
    """A file that comes with the package."""
    return files("layoutsolve.reporting").joinpath("assets", name).read_text(encoding="utf-8")


def page(title: str, body: Markup, styles: Sequence[str], scripts: Sequence[str], data: str = "") -> str:
    """A whole page, which runs these scripts alone and loads nothing. ``data`` is JSON for them."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        *(Markup(f"<style>{each}</style>") for each in styles),
    )
    told = Markup(f'<script type="application/json" id="data">{_inert(data)}</script>' if data else "")
    run = joined(Markup(f"<script>{each}</script>") for each in scripts)
    return f'<!doctype html>\n<html lang="en">{head}<body>{body}{told}{run}</body></html>\n'


def _inert(data: str) -> str:
    """JSON in which nothing can end the element that it is in."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
