"""The commands that convert: one model, each of its signatures or a batch, and what is made of a conversion beside."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutsolve.base import gc_pause
from layoutsolve.base.wording import printable
from layoutsolve.cli import console, model_files, parser
from layoutsolve.cli.options import arguments_of
from layoutsolve.errors import OptionError, OutputError, UnsupportedError
from layoutsolve.io import files

if TYPE_CHECKING:
    from layoutsolve.certification.certificate import Certificate
    from layoutsolve.certification.checker import Recheck
    from layoutsolve.conversion.stages import Stages
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.io.source import Content
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.result import Conversion
    from layoutsolve.verification.verdict import Verification


def run(options: argparse.Namespace) -> int:
    return _run_batch(options) if parser.is_batch(options) else run_one(options)


@gc_pause.resumed()
def _run_batch(options: argparse.Namespace) -> int:
    """Convert many models."""
    from layoutsolve.conversion.stages import Stages

    with Stages(options=parser.said(options))("batch"):
        from layoutsolve.batch.batch import batch

        if options.verify:
            _require_runtimes()
        tell, warn = partial(console.tell, written=[]), partial(console.say, stream=sys.stderr)
        return batch(options, parser.said(options), tell, warn)


@gc_pause.paused()
def run_one(options: argparse.Namespace) -> int:
    """Convert one model."""
    start = time.perf_counter()
    from layoutsolve.conversion.stages import Stages

    said = parser.said(options)
    with Stages(options=said)("start"):
        given = arguments_of(options)
        if options.lowering:
            model_files.register(options)
        _check_format(options, given["to"])
        source = model_files.cut_of(options, model_files.loaded(options))
        target = "" if options.stage is not None else model_files.target_of(options, source)
        if options.verify:
            from layoutsolve.frontend import is_onnx

            _require_runtimes(tflite=not is_onnx(source.data) or given["to"] == "tflite")
        if target and options.check is None:
            files.check(model_files.planned(options, target), model_files.read(options))
    stage = Stages(source, said)
    with stage("run"):
        if options.signature == "all" and (keys := _all_signatures(options, source)) is not None:
            return _convert_each(options, keys, given, source, target, stage)
        if options.stage is not None:
            return _print(options.stage, given, source)
        if options.check is not None:
            return _check(options, source, target, start)
        return _convert(options, given, source, target, stage, start)


def _check_format(options: argparse.Namespace, to: str) -> None:
    """Raise :class:`OptionError` for what is known of ONNX alone."""
    if options.profile and to == "tflite":
        raise OptionError("--profile: that is about ONNX Runtime, and TensorFlow Lite is written; leave it out")


def _all_signatures(options: argparse.Namespace, source: Content) -> list[str] | None:
    """The signatures of a model that is asked for all of them, None where one is asked for.

    Raises :class:`OptionError` where there are none, or other options are for one model only.
    """
    from layoutsolve.batch.signatures import keys_of

    if (keys := keys_of(source)) == [options.signature]:
        return None
    if not keys:
        raise OptionError("the model has no signatures: leave out --signature all")
    single = ("by_plan", "certify", "check", "extract", "plan", "report", "stage")
    given = [parser.option_of(name) for name in single if getattr(options, name) is not None]
    if given or options.file == "-":
        what = given[0] if given else "-o -"
        raise OptionError(f"--signature all writes several models, and {what} is for one: name a signature")
    return keys


def _convert_each(
    options: argparse.Namespace, keys: Sequence[str], given: dict[str, Any], source: Content, target: str, stage: Stages
) -> int:
    """Convert each signature, to a file that has its name before the ending; the worst of the exit codes."""
    from layoutsolve.batch.signatures import files_of

    names, worst = files_of(target, keys), 0
    files.check([files.Output("model", name) for name in names], model_files.read(options))
    for key, name in zip(keys, names, strict=True):
        one = argparse.Namespace(**{**vars(options), "signature": key})
        start = time.perf_counter()
        worst = max(worst, _convert(one, {**given, "signature": key}, source, name, stage, start))
    return worst


def _convert(
    options: argparse.Namespace, given: dict[str, Any], source: Content, target: str, stage: Stages, start: float
) -> int:
    from layoutsolve.api import convert, verify
    from layoutsolve.cli.summary import Done, as_json, as_text

    with nullcontext() if options.quiet else console.waiting(f"converting {printable(options.model)}"):
        conversion = convert(source, **given) if options.by_plan is None else _by_plan(options, source)
    outputs, rechecked = _written(options, source, conversion, target, stage)
    checked = verify(source, conversion, **_compared(options)) if options.verify else None
    explained = cache(lambda: conversion.explain(options.time_limit))
    explanation = explained() if options.explain else None
    profile = conversion.profile() if options.profile else None
    extracted = () if options.extract is None else _extracted(source, options.extract)
    shown = []
    if options.report is not None:
        shown.append(_report(options, source, conversion, target, explained(), checked, profile))
    writing = shown if options.dry_run else [*shown, *extracted, *outputs]
    folder = files.folder(options.extract) if extracted and writing else nullcontext()
    with stage("write"), folder, files.written(writing, model_files.read(options)):
        done = Done(
            target,
            conversion,
            rechecked,
            checked,
            explanation,
            profile,
            time.perf_counter() - start,
            not options.dry_run,
            None if options.extract is None else tuple(output.path for output in extracted),
            options.report,
            () if source.cut is None else source.cut.others,
            _unused(options, conversion),
        )
        if options.json or not options.quiet:
            console.tell(as_json(options, done) if options.json else as_text(done), [output.path for output in writing])
    return 0 if checked is None else checked.code


def _unused(options: argparse.Namespace, conversion: Conversion) -> tuple[str, ...]:
    """The operators that files have registered lowerings for, where the model has none of a file's."""
    if not options.lowering:
        return ()
    from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN
    from layoutsolve.ir.graph import LOWERINGS

    lowered = {} if conversion.graph.imports else json.loads(conversion.graph.metadata.get(LOWERINGS, "{}"))
    used = {FOREIGN[name] for name in lowered if name in FOREIGN}
    return tuple(name for name, file in FOREIGN.items() if file not in used)


def view(options: argparse.Namespace) -> int:
    """Show the report of a conversion in a browser; no model is written."""
    import tempfile
    import webbrowser

    if parser.is_batch(options):
        raise OptionError("view shows one model: give one")
    options.dry_run = True
    if options.report is None:
        try:
            folder = tempfile.mkdtemp(prefix="layoutsolve-")
        except OSError as error:
            raise OutputError(f"cannot write a temporary file: {error.strerror}; name one with --report") from error
        options.report = str(Path(folder, f"{Path(options.model).stem or 'model'}.html"))
    code = run_one(options)
    if not webbrowser.open(Path(options.report).absolute().as_uri()):
        console.say(f"no browser is found: open {printable(options.report)}", sys.stderr)
    return code


def _by_plan(options: argparse.Namespace, source: Content) -> Conversion:
    """Convert as a plan says."""
    from layoutsolve.planning.plan import Plan
    from layoutsolve.planning.planning import convert_by

    return convert_by(source, Plan.load(options.by_plan), target=options.target)


def _certified(source: Content, conversion: Conversion, target: str) -> tuple[Certificate, Recheck]:
    """The certificate of the files that are about to be written, and how far it could be checked."""
    from layoutsolve.certification.certify import certify
    from layoutsolve.certification.checker import check

    certificate = certify(source, conversion, target)
    table = conversion.assignment.goal.target
    return certificate, check(certificate, source, conversion.content(target), certificate.data, target, table)


def _written(
    options: argparse.Namespace, source: Content, conversion: Conversion, target: str, stage: Stages
) -> tuple[list[files.Output], Recheck | None]:
    """The files of a conversion, the model last, and how far its certificate could be checked if one is asked for."""
    with stage("write"):
        *outputs, model = conversion.outputs(target)
    rechecked = None
    if options.certify is not None:
        certificate, rechecked = _certified(source, conversion, target)
        outputs.append(certificate.output(options.certify))
    if options.plan is not None:
        outputs.append(_plan(source, conversion, options.plan))
    return [*outputs, model], rechecked


def _plan(source: Content, conversion: Conversion, path: str) -> files.Output:
    """The plan of a conversion, as a file."""
    from layoutsolve.planning.planning import plan

    return plan(source, conversion).output(path)


def _report(
    options: argparse.Namespace,
    source: Content,
    conversion: Conversion,
    target: str,
    explanation: Explanation,
    checked: Verification | None,
    profile: Profile | None,
) -> files.Output:
    """The page that shows all of it."""
    from layoutsolve.reporting.report import Told, page_of

    said, written = parser.said(options), not options.dry_run
    told = Told(source, conversion, target, explanation, said, checked, profile, options.time_limit, written)
    text = page_of(told).encode()
    return files.Output("report", options.report, lambda file: file.write(text))


def _extracted(source: Content, place: str) -> tuple[files.Output, ...]:
    """The files that are packed behind a model, in a folder."""
    from layoutsolve.api import associated_files

    def output(name: str, content: bytes) -> files.Output:
        return files.Output("metadata", os.path.join(place, name), lambda file: file.write(content))  # noqa: PTH118

    return tuple(output(name, content) for name, content in associated_files(source).items())


def _require_runtimes(tflite: bool = True) -> None:
    """What a comparison needs has to be there before anything is converted."""
    from layoutsolve.verification.refusals import require

    for package in ("onnxruntime", "ai_edge_litert") if tflite else ("onnxruntime",):
        require(package)


def _compared(options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`layoutsolve.verify` is called with."""
    return {"data": options.verify_data, "samples": options.verify_samples, "tensors": options.verify_tensors}


def _print(stage: str, given: dict[str, Any], source: Content) -> int:
    """Print what a stage of the conversion made. In place of the graph of a model with operators that cannot be
    converted the source's own is printed, and these are listed.
    """
    from layoutsolve.api import convert
    from layoutsolve.conversion.arguments import choice
    from layoutsolve.inspection.printing import STAGES

    asked = choice("stage", stage, STAGES)
    try:
        console.tell(convert(source, **given).text(asked), [])
    except UnsupportedError as error:
        if asked != "graph":
            raise
        from layoutsolve.reporting.source_view import source_text

        console.tell(source_text(source), [])
        console.say(f"layoutsolve: this is the source's graph: {error}", sys.stderr)
    return 0


def _check(options: argparse.Namespace, source: Content, target: str, start: float) -> int:
    """Check a certificate, instead of converting."""
    from layoutsolve.certification.certificate import Certificate
    from layoutsolve.certification.certify import check_certificate
    from layoutsolve.cli.summary import check_as_json, check_as_text

    found = check_certificate(source, target, Certificate.load(options.check), target=options.target)
    spent = time.perf_counter() - start
    told = check_as_json(options, target, found, spent) if options.json else check_as_text(target, found, spent)
    console.tell(told, [])
    return 0
