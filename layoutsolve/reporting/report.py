"""The report of a conversion: one page with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from layoutsolve.api import tried
from layoutsolve.certification.checker import Digest
from layoutsolve.conversion import arguments
from layoutsolve.conversion.stages import Stages
from layoutsolve.io.source import Content, Source, load
from layoutsolve.reporting import sections
from layoutsolve.reporting.graph_view import Side
from layoutsolve.reporting.markup import asset, element, page
from layoutsolve.reporting.sections import File
from layoutsolve.reporting.source_view import source_side
from layoutsolve.reporting.written_view import written_side
from layoutsolve.result import Conversion
from layoutsolve.version import VERSION

if TYPE_CHECKING:
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.io.files import Output
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.verification.verdict import Verification

PART = 2500
"""Operators of a graph that are drawn at a time: more make a browser slow."""


@dataclass(frozen=True)
class Told:
    """What a report is made of: the conversion of a source to a file called ``target``, with the ``options`` that are
    not the default, and what was asked for besides. ``limit`` bounds the search of each strategy it is compared with.
    """

    source: Content
    conversion: Conversion
    target: str
    explanation: Explanation
    options: Mapping[str, object] = field(default_factory=dict)
    verification: Verification | None = None
    profile: Profile | None = None
    limit: float | None = None
    written: bool = True


def report(
    source: Source,
    conversion: Conversion,
    *,
    verification: Verification | None = None,
    profile: Profile | None = None,
    time_limit: float | None = None,
) -> str:
    """HTML report of a conversion, as the command line's ``--report`` writes it: one self-contained page, as text to be
    written in UTF-8.

    A ``verification`` and a ``profile`` are included where given. The model is explained, and solved by all strategies,
    each within ``time_limit`` seconds.
    """
    asked, limit = arguments.instance("conversion", conversion, Conversion), arguments.seconds("time_limit", time_limit)
    _check_shown(verification, profile)
    content, name = load(source), f"{asked.graph.name}.{asked.to}"
    said = asked.provenance.options
    return page_of(Told(content, asked, name, asked.explain(limit), said, verification, profile, limit))


def _check_shown(verification: object, profile: object) -> None:
    """Raise :class:`TypeError` for what cannot be shown beside a conversion."""
    if verification is not None:
        from layoutsolve.verification.verdict import Verification

        arguments.instance("verification", verification, Verification)
    if profile is not None:
        from layoutsolve.measurement.profile import Profile

        arguments.instance("profile", profile, Profile)


def page_of(told: Told) -> str:
    """The page. The same conversion gives the same bytes but for what was measured."""
    stage = Stages(told.source)
    with stage("report"):
        return _content(told, stage)


def _content(told: Told, stage: Stages) -> str:
    conversion = told.conversion
    files = _files(told)
    found = tried(
        conversion.graph, conversion.boundary, conversion.assignment.goal, stage, told.limit, [conversion.assignment]
    )
    spent = conversion.seconds
    columns = [
        sections.tiers(conversion),
        sections.strategies(found, conversion.assignment.strategy),
        sections.verified(told.verification) if told.verification is not None else None,
        sections.profiled(told.profile) if told.profile is not None else None,
        sections.made(conversion, VERSION, files, told.options, spent),
    ]
    below = f"{files[0].name} → {files[1].name}" + ("" if told.written else " (not written)")
    body = element(
        "main",
        sections.head("layoutsolve report", conversion.graph.name, below),
        sections.numbers(conversion, files, sum(spent.values())),
        element("div", *columns, class_="columns"),
        sections.graphs(files[1].name, files[0].name),
    )
    scripts = [asset("theme.js"), asset("cytoscape.min.js"), asset("report.js")]
    return page(f"{conversion.graph.name} · layoutsolve", body, [asset("report.css")], scripts, _data(told))


def _data(told: Told) -> str:
    """Both graphs, for the page's program."""
    source, numbers = source_side(told.source, told.conversion.reading.storage.decomposed)
    written = written_side(told.conversion, told.explanation, numbers)
    if told.profile is not None:
        _share(told.profile, told.conversion, source, written)
    first = min((origin.subgraph for origin in told.conversion.origins.values()), default=0)
    sides = {
        "source": {**source.as_dict(), "main": first},
        "written": {**written.as_dict(), "main": told.conversion.main},
    }
    return json.dumps({"part": PART, **sides}, separators=(",", ":"))


def _share(profile: Profile, conversion: Conversion, source: Side, written: Side) -> None:
    """Note at each operator of the source, and at what it became, how much of the time it takes."""
    names = {each.what.rpartition(" (")[0]: each.share for each in profile.operators}
    shares = {name: f"{name} takes {share:.1%} of the time of a run" for name, share in names.items()}
    for node in (each for each in source.nodes if each.kind != "end"):
        node.share = shares.get(node.name, "")
    for node in (each for each in written.nodes if each.name in conversion.origins):
        node.share = shares.get(str(conversion.origins[node.name]), "")


def _files(told: Told) -> list[File]:
    """The source, and what is written, as it would be."""
    source, target = memoryview(told.source.data), told.target
    name = Path(told.source.file).name if told.source.file is not None else told.source.name
    found = [File("source", name, source.nbytes, told.source.digest)]
    written = [_file(each) for each in told.conversion.outputs(target)]
    return [*found, *written[::-1]]


def _file(output: Output) -> File:
    found = Digest()
    output.write(cast(BinaryIO, found))
    return File(output.what, Path(output.path).name, found.size, found.hash.hexdigest())
