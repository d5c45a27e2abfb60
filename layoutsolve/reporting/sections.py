"""Sections of a report above the graphs. Measured values, which differ from run to run, are in elements of the class
``measured``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutsolve.base.wording import first_name, kept_as_is, level_name, minimal, penalty_cell, sizes
from layoutsolve.errors import StrategyError
from layoutsolve.reporting.markup import Markup, element, joined, table

if TYPE_CHECKING:
    from layoutsolve.api import Comparison
    from layoutsolve.measurement.profile import Profile, Spent
    from layoutsolve.result import Conversion
    from layoutsolve.verification.layer_table import Layer
    from layoutsolve.verification.verdict import Verification

NOISELESS = 150.0
"""The SQNR in dB of a tensor that is off by nothing but what 32-bit floats round."""

SHORT = 20
"""Characters of a name that stays on one line of a table."""

BARS = 14
"""Operators whose share of time is shown by itself."""


@dataclass(frozen=True)
class File:
    """A file: what it is, its name, its size and its SHA-256."""

    what: str
    name: str
    bytes: int
    digest: str


def asked(options: Mapping[str, object]) -> str:
    """The options that are not the default, as they are given."""
    return " ".join(_option(name.replace("_", "-"), value) for name, value in options.items()) or "default options"


def _option(name: str, value: object) -> str:
    values = value if isinstance(value, list) else [value]
    return " ".join(f"--{name}" if each is True else f"--{name} {each}" for each in values)


def measured(text: str) -> Markup:
    """A time."""
    return element("span", text, class_="measured")


def section(title: str, *content: object) -> Markup:
    """A part of the page under a heading."""
    return element("section", element("h2", title), *content)


def head(tool: str, title: str, below: str) -> Markup:
    """The first lines, and the switch between light and dark."""
    told = element("div", element("div", tool, class_="tool"), element("h1", title), element("p", below))
    return element("header", told, element("button", "Dark", class_="theme", type="button"), class_="top")


def figures(rows: Sequence[tuple[str, object, str]]) -> Markup:
    """Key figures of a report: for each its name, the number, and a note."""
    return element(
        "dl",
        *(
            element("div", element("dt", what), element("dd", number, element("small", f" {more}") if more else None))
            for what, number, more in rows
        ),
        class_="figures",
    )


PLANNED = "by a plan, not proven again"
"""What is told of the layouts of a plan."""


def numbers(conversion: Conversion, files: Sequence[File], seconds: float) -> Markup:
    """What it comes to."""
    report: Mapping[str, Any] = conversion.report
    least = minimal(conversion.price.transposes, report["objective"], conversion.assignment.kept)
    proof = {"optimal": least, "planned": PLANNED}.get(conversion.assignment.status, "not proven")
    source = conversion.graph.figures
    before = f" from {source.operators}" if conversion.graph.imports else ""
    rows = [
        ("Transposes", report["transposes"], f"from {source.transposes}, {proof}"),
        ("layout penalty", penalty_cell(report["hidden_transposes"]), ""),
        ("Reshapes", report["reshapes"], f"from {source.reshapes}"),
        ("moved by Transposes", sizes(report["bytes_moved"]), ""),
        (f"operators, {conversion.format_told}", report["operators"], before.strip()),
        ("size", sizes(sum(each.bytes for each in files[1:])), f"from {sizes(files[0].bytes)}"),
        ("time", measured(f"{seconds:.2f} s"), ""),
    ]
    return figures(rows)


def tiers(conversion: Conversion) -> Markup:
    """What was minimised, the most important first, and what is proven of it."""
    kept = kept_as_is(conversion.assignment.kept)
    said = {"optimal": f"proven minimal{kept}", "feasible": "not proven", "planned": PLANNED}
    rows = []
    for tier in conversion.tiers:
        known = said.get(tier.status, f"minimal {tier.among}")
        mark = element("span", known, class_="bad" if tier.status in ("feasible", "planned") else "good")
        rows.append((element("span", level_name(tier.names), class_="whole"), tier.value, tier.bound, mark))
    ended = conversion.assignment.ended
    note = element("p", f"The search ended by its limit on {ended}.", class_="soft") if ended else None
    ends = [element("p", end, class_="soft") for end in conversion.moved_ends]
    return section(
        "What is minimised, the most important first",
        table(("", "value", "at least", ""), rows, right=(1, 2)),
        note,
        *ends,
    )


def strategies(found: Mapping[str, Comparison | StrategyError], own: str) -> Markup:
    """What each strategy leaves."""
    prices = [each.price for each in found.values() if not isinstance(each, StrategyError)]
    most = max((price.transposes + max(0, price.hidden) for price in prices), default=0)
    bars: list[Markup] = []
    for name, each in found.items():
        bars.append(element("span", name, class_="label own" if name == own else "label"))
        if isinstance(each, StrategyError):
            bars.append(element("span", each, class_="refused", title=each))
            continue
        price = each.price
        value = f"{price.transposes} + {price.hidden} · {sizes(price.bytes)}"
        bars += [_track(most, t=price.transposes, h=max(0, price.hidden)), element("span", value, class_="value")]
    keys = element(
        "div", _key("transpose", "Transposes"), _key("slow", "layout penalty"), "and bytes moved", class_="keys"
    )
    return section("What each strategy leaves", element("div", *bars, class_="chart", id="strategies"), keys)


def _key(colour: str, what: str) -> Markup:
    return element("span", element("i", class_="key", style=f"background: var(--{colour})"), what)


def _track(most: float, **parts: float) -> Markup:
    """A bar of several parts, as long as they are beside the most."""
    bars = [
        element("i", class_=name, style=f"width: {100 * value / most:.2f}%") for name, value in parts.items() if value
    ]
    return element("span", *bars, class_="track")


def verified(found: Verification) -> Markup:
    """The comparison with the source, output by output."""
    if found.refusal:
        said = (element("p", each, class_="bad") for line in found.refused for each in _lines(line))
        layers = found.inspection.layers if found.inspection is not None else ()
        return section("Compared with the source", *said, _layers(layers, True) if layers else None)
    rows = []
    for each in found.outputs:
        mark = element("span", "pass" if each.passed else "FAIL", class_=f"{'good' if each.passed else 'bad'} whole")
        name = element("code", each.name, class_=len(each.name) <= SHORT and "whole")
        rows.append((mark, name, element("span", each.kind, class_="whole"), each.reason))
    inside: list[Markup] = []
    if found.inspection is not None:
        departs = found.inspection.departure is not None
        told = _lines(found.inspection.told)
        inside = [element("p", each, class_="bad" if departs else "soft") for each in told]
    kinds = f" ({', '.join(found.distributions)})" if found.distributions else ""
    drawn = "1 input" if found.samples == 1 else f"{found.samples} inputs"
    steps = f", {found.steps} steps each" if found.steps > 1 else ""
    truth = found.outputs[0].truth if found.outputs else "the source"
    return section(
        f"Compared with {truth} on {drawn}{kinds}{steps}",
        table(("", "output", "kind", "why"), rows),
        *inside,
        _layers(found.inspection.layers, not found.passed) if found.inspection and found.inspection.layers else None,
    )


def _lines(told: object) -> list[str]:
    """A text of several lines, which are paragraphs of a page."""
    return [line.strip() for line in str(told).splitlines()]


def _layers(layers: Sequence[Layer], opened: bool) -> Markup:
    """The noise of each tensor: the longer its bar the larger, up to a noise as large as the signal (0 dB)."""
    bars: list[Markup] = []
    for each in layers:
        ratio = NOISELESS if each.sqnr is None else max(min(each.sqnr, NOISELESS), 0.0)
        bars.append(element("span", f"{each.index} {each.operator} {first_name(each.tensor)}", class_="label"))
        bars.append(_track(NOISELESS, p=NOISELESS - ratio))
        bars.append(element("span", "exact" if each.sqnr is None else f"{each.sqnr:.1f} dB", class_="value"))
    title = element("summary", "Noise of each tensor (SQNR)")
    return element("details", title, element("div", *bars, class_="chart long", id="layers"), open=opened)


def profiled(found: Profile) -> Markup:
    """Where the time goes, operator by operator."""
    share = f"{found.moving:.1%} for Transposes and reorders"
    told = f"{found.milliseconds:.3f} ms a run on one thread of ONNX Runtime, {share}"
    return element(
        "section",
        element("h2", "Share of time of each operator"),
        element("p", told, class_="soft"),
        element("div", *_bars(found.operators), class_="chart long", id="profile"),
        data_measured="profile",
    )


def _bars(found: Sequence[Spent]) -> Iterator[Markup]:
    most = max((each.share for each in found), default=0.0)
    for each in found[:BARS]:
        yield element("span", each.what, class_="label")
        yield _track(most or 1.0, p=each.share)
        yield element("span", f"{each.share:.1%}", class_="value")
    if len(found) > BARS:
        rest = found[BARS:]
        yield element("span", f"{len(rest)} others", class_="label soft")
        yield _track(1.0)
        yield element("span", f"{sum(each.share for each in rest):.1%}", class_="value")


def made(
    conversion: Conversion,
    version: str,
    files: Sequence[File],
    options: Mapping[str, object],
    seconds: Mapping[str, float],
) -> Markup:
    """By what, of what and how: all that is needed to make it again."""
    report = conversion.report
    rows: list[tuple[str, object]] = [("layoutsolve", version)]
    rows += [(name, report[name]) for name in ("strategy", "objective", "target")]
    rows.append(("options", asked(options)))
    for each in files:
        rows.append(
            (each.what, joined((f"{each.name}, {sizes(each.bytes)}", element("br"), element("code", each.digest))))
        )
    rows.append(("time", measured(", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items()))))
    told = [part for name, value in rows for part in (element("dt", name), element("dd", value))]
    return section("How it was made", element("dl", *told, class_="facts"))


def graphs(written: str, source: str) -> Markup:
    """Where the graphs are drawn."""
    kinds = (("transpose", "Transpose"), ("slow", "slow kernel"), ("reshape", "Reshape"))
    orders = (("same", "source's order"), ("first", "channels first"), ("other", "another order"), ("none", "no order"))
    edges = {"transpose": "ink", "slow": "ink", "reshape": "none-edge"}
    legend = [
        element("span", _swatch(name, f"{name}-edge"), what, title="how the result is stored") for name, what in orders
    ]
    legend += [
        element(
            "button", _swatch(name if name != "reshape" else "paper", edges[name]), what, type="button", data_kind=name
        )
        for name, what in kinds
    ]
    box = element(
        "input",
        id="find",
        type="search",
        placeholder="Search operators and tensors   /",
        autocomplete="off",
        spellcheck="false",
        role="combobox",
        aria_label="Search operators and tensors",
        aria_controls="matches",
        aria_expanded="false",
    )
    matches = element("ul", id="matches", role="listbox", aria_label="Found operators", hidden=True)
    bar = element(
        "div",
        element("div", box, matches, class_="find"),
        element("output", id="found", aria_live="polite"),
        element("div", *legend, class_="legend"),
        class_="bar",
    )
    details = element("aside", id="details", aria_live="polite", aria_label="Chosen operator", tabindex=0)
    panels = element("div", _panel("written", written), _panel("source", source), details, class_="panels")
    return element("section", bar, panels, id="graphs")


def _swatch(fill: str, edge: str) -> Markup:
    return element("i", class_="key", style=f"background: var(--{fill}); border-color: var(--{edge})")


def _panel(name: str, title: str) -> Markup:
    def button(kind: str, text: str, label: str) -> Markup:
        return element("button", text, type="button", class_=kind, aria_label=label)

    parts = element(
        "span",
        button("before", "‹", "previous part"),
        element("output"),
        button("after", "›", "next part"),
        class_="parts",
        hidden=True,
    )
    zoom = element(
        "span",
        element("output", class_="level"),
        button("out", "−", "zoom out"),
        button("in", "+", "zoom in"),
        button("fold", "unfold", "show all operators, or fold what repeats and what quantizes"),
        button("fit", "fit", "show all"),
        class_="zoom",
    )
    caption = element("figcaption", element("b", title), element("select", aria_label="graph"), parts, zoom)
    around = element(
        "div",
        element("div", class_="canvas", tabindex=0, role="application", aria_label=f"graph of {title}"),
        element("div", "There is no operator.", class_="blank", hidden=True),
        class_="stage",
    )
    return element("figure", caption, around, id=name, class_="panel")
