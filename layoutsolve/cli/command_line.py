"""The command line: ``layoutsolve MODEL.tflite``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutsolve.base import gc_pause
from layoutsolve.base.platforms import STANDARD_OUTPUT
from layoutsolve.base.wording import aligned, printable
from layoutsolve.cli import console, parser
from layoutsolve.cli.options import arguments_of, reading_of
from layoutsolve.errors import (
    FAILED,
    INTERNAL,
    INTERRUPTED,
    ConversionError,
    InternalError,
    LoweringError,
    ModelError,
    OptionError,
    OutputError,
    UnsupportedError,
)
from layoutsolve.io import files
from layoutsolve.io.archives import beside, split
from layoutsolve.io.patterns import STANDARD_INPUT

if TYPE_CHECKING:
    from layoutsolve.certification.certificate import Certificate
    from layoutsolve.certification.checker import Recheck
    from layoutsolve.conversion.stages import Stages
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.io.source import Content
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.result import Conversion
    from layoutsolve.verification.verdict import Verification


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns one of the exit codes that docs/cli.md lists.

    Files are written where that is 0 or 3, and none otherwise.
    """
    if "_ARGCOMPLETE" in os.environ:
        from layoutsolve.cli.completion import complete

        complete(COMMANDS)
    given = sys.argv[1:] if arguments is None else arguments
    command = COMMANDS.get(given[0]) if given else None
    parse, run = command or (parser.parse, _run)
    try:
        options = parse(given[1:] if command else given)
    except OSError as error:  # of printing the help: all else is wrapped
        return console.unsaid(error)
    except ConversionError as error:
        console.say(f"layoutsolve: {_line(error)}", sys.stderr)
        return FAILED
    return attempt(options, run)


def attempt(options: argparse.Namespace, run: Callable[[argparse.Namespace], int]) -> int:
    """Run a command and return its exit code; errors are printed."""
    try:
        return run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConversionError as error:
        debug = options.debug or os.environ.get("LAYOUTSOLVE_DEBUG", "0") not in ("", "0")
        if debug and isinstance(error, InternalError):
            import traceback

            console.say("".join(traceback.format_exception(error)), sys.stderr)
        console.say(f"layoutsolve: {_line(error)}", sys.stderr)
        return INTERNAL if isinstance(error, InternalError) else FAILED


@gc_pause.resumed()
def _bench(options: argparse.Namespace) -> int:
    """Time files."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("bench"):
        from layoutsolve.measurement.bench import bench

        found = bench(options.files, threads=options.threads, level=options.level, openvino=options.openvino)
    console.tell(found.as_json() if options.json else found.as_text(), [])
    return 0


def _ops(options: argparse.Namespace) -> int:
    """List operators."""
    from layoutsolve.conversion.stages import Stages

    if options.onnx:
        from layoutsolve.inspection.operator_support import onnx_operators

        every = onnx_operators()
        rows = aligned([(each.operator, str(each)) for each in every], ())
        facts = {"operators": [each.as_dict() for each in every]}
        console.tell(json.dumps(facts) if options.json else "\n".join(rows), [])
        return 0
    content = _loaded(options)
    _register(options)
    with Stages(content)("ops"):
        from layoutsolve.api import convert
        from layoutsolve.conversion.arguments import Options
        from layoutsolve.frontend import is_onnx
        from layoutsolve.inspection.operator_support import inventory

        given = Options.of(reading_of(options))
        if is_onnx(content.data):
            given.check_onnx()
        graph = written = None
        try:
            conversion = convert(content, **reading_of(options))
            graph, written = conversion.graph, conversion.written_for
        except InternalError:
            raise
        except ConversionError:  # operators that are refused are listed, and anything else is no matter of operators
            pass
        found = inventory(content, given.reading, graph, written)
    told = {"model": options.model, "converts": found.converts, "operators": found.as_dicts()}
    console.tell(json.dumps(told) if options.json else str(found), [])
    return 0 if found.converts else FAILED


def _info(options: argparse.Namespace) -> int:
    """Say how a model was made."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("info"):
        from layoutsolve.conversion.provenance import provenance

        found = provenance(_loaded(options))
    facts = {"version": found.version, "source": found.source, "options": found.options, "target": found.target}
    facts |= {"part": found.part, "lowerings": found.lowerings}
    told = {"model": options.model, **facts, "command": found.command}
    lines = map(printable, f"{options.model}: {found}".splitlines())
    console.tell(json.dumps(told) if options.json else "\n  ".join(lines), [])
    return 0


def _diff(options: argparse.Namespace) -> int:
    """Compare two models."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("diff"):
        from layoutsolve.measurement.difference import difference

        found = difference(options.first, options.second)
    console.tell(found.as_json() if options.json else found.as_text(), [])
    return 0


@gc_pause.resumed()
def _calibrate(options: argparse.Namespace) -> int:
    """Measure what this machine is good at, and write it as a target."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("calibrate"):
        from layoutsolve.verification.runtimes import require

        files.check([files.Output("target", options.file)])
        require("onnxruntime")
        from layoutsolve.measurement.calibrate import calibrate, table
        from layoutsolve.solver.targets.target_file import parsed

        measured = calibrate(_progress)
        text = json.dumps(measured.facts(Path(options.file).stem), indent=1) + "\n"
        parsed(text.encode(), options.file)
        output = files.Output("target", options.file, lambda file: file.write(text.encode()))
        with files.written([output]):
            told = text.rstrip() if options.json else "\n".join([*table(measured), f"wrote {options.file}"])
            console.tell(told, [options.file])
    return 0


def _progress(done: int, count: int, part: str) -> None:
    """A line on a terminal that says how far it is; nothing elsewhere."""
    if sys.stderr is not None and sys.stderr.isatty():
        console.show(f"measuring {done}/{count} {part}" if done < count else "")


def _target_told(options: argparse.Namespace) -> int:
    """Say what a target says."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("target"):
        from layoutsolve.conversion.arguments import target
        from layoutsolve.planning.target_description import described, facts_of

        found = target("target", options.target)
    told = json.dumps(facts_of(found)) if options.json else "\n".join(map(printable, described(found)))
    console.tell(told, [])
    return 0


def _line(error: ConversionError) -> str:
    """The message, on one line but for a list of gaps, whose lines have been cared for."""
    return str(error) if isinstance(error, UnsupportedError) else printable(str(error))


def _run(options: argparse.Namespace) -> int:
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
            _register(options)
        source = _cut(options, _loaded(options))
        target = "" if options.stage is not None else _target(options, source)
        if options.verify:
            from layoutsolve.frontend import is_onnx

            _require_runtimes(tflite=not is_onnx(source.data))
        if target and options.check is None:
            files.check(_planned(options, target), _read(options))
    stage = Stages(source, said)
    with stage("run"):
        if options.signature == "all" and (keys := _all_signatures(options, source)) is not None:
            return _convert_each(options, keys, given, source, target, stage)
        if options.stage is not None:
            return _print(options.stage, given, source)
        if options.check is not None:
            return _check(options, source, target, start)
        return _convert(options, given, source, target, stage, start)


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
    given = [f"--{name.replace('_', '-')}" for name in single if getattr(options, name) is not None]
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
    files.check([files.Output("model", name) for name in names], _read(options))
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
    with stage("write"):
        outputs = conversion.outputs(target)
    rechecked = None
    if options.certify is not None:
        certificate, rechecked = _certified(source, conversion, target)
        outputs = (*outputs[:-1], certificate.output(options.certify), outputs[-1])
    if options.plan is not None:
        from layoutsolve.planning.planning import plan

        planned = plan(source, conversion).output(options.plan)
        outputs = (*outputs[:-1], planned, outputs[-1])
    checked = verify(source, conversion, **_compared(options)) if options.verify else None
    explanation = conversion.explain(options.time_limit) if options.explain or options.report is not None else None
    profile = conversion.profile() if options.profile else None
    extracted = () if options.extract is None else _extracted(source, options.extract)
    shown = (
        () if options.report is None else (_report(options, source, conversion, target, explanation, checked, profile),)
    )
    writing = shown if options.dry_run else (*shown, *extracted, *outputs)
    folder = files.folder(options.extract) if extracted and writing else nullcontext()
    with stage("write"), folder, files.written(writing, _read(options)):
        done = Done(
            target,
            conversion,
            rechecked,
            checked,
            explanation if options.explain else None,
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


def _view(options: argparse.Namespace) -> int:
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


def _report(
    options: argparse.Namespace,
    source: Content,
    conversion: Conversion,
    target: str,
    explanation: Explanation | None,
    checked: Verification | None,
    profile: Profile | None,
) -> files.Output:
    """The page that shows all of it."""
    from layoutsolve.reporting.report import Told, page_of

    assert explanation is not None
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
    from layoutsolve.verification.runtimes import require

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


def _loaded(options: argparse.Namespace) -> Content:
    """The model of a name, or what comes from standard input."""
    from layoutsolve.io.source import load

    if options.model != STANDARD_INPUT:
        if not vars(options).get("quiet") and _waits(options.model):
            console.say(f"reading the pipe '{printable(options.model)}' until it is closed", sys.stderr)
        return load(options.model)
    try:
        data = b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise ModelError(f"cannot read standard input: {error.strerror}") from error
    return load(data, "standard input")


def _register(options: argparse.Namespace) -> None:
    """Run the files that register lowerings: no file is run that was not named."""
    import runpy

    from layoutsolve.frontend.tflite.lowering.registry import registering

    for path in options.lowering:
        try:
            with registering(path):
                runpy.run_path(path, run_name="lowering")
        except ConversionError:
            raise
        except Exception as error:
            raise LoweringError(f"'{printable(path)}' cannot be run: {type(error).__name__}: {error}") from error


def _unused(options: argparse.Namespace, conversion: Conversion) -> tuple[str, ...]:
    """The operators that files have registered lowerings for, where the model has none of a file's."""
    if not options.lowering:
        return ()
    from layoutsolve.frontend.tflite.lowering.registry import FOREIGN

    used = {FOREIGN[name] for name in conversion.provenance.lowerings if name in FOREIGN}
    return tuple(name for name, file in FOREIGN.items() if file not in used)


def _cut(options: argparse.Namespace, source: Content) -> Content:
    """The part of a model that is asked for."""
    if not options.cut_from and not options.cut_to:
        return source
    if options.signature:
        raise OptionError("--from and --to cut the main subgraph: leave out --signature")
    from layoutsolve.conversion.cut import cut_content

    return cut_content(source, options.cut_from, options.cut_to)


def _waits(name: str) -> bool:
    """Whether a file is a pipe that somebody may have forgotten to write to; a shell's own are not."""
    with suppress(OSError):
        return Path(name).is_fifo() and not name.startswith("/dev/")
    return False


def _read(options: argparse.Namespace) -> list[str]:
    """The files that are read, which are not to be overwritten."""
    named = (options.target, options.by_plan, options.verify_data, *options.lowering)
    others = [name for name in named if name is not None and Path(name).is_file()]
    inside = split(Path(options.model))
    return [options.model if inside is None else str(inside[0]), *others]


def _target(options: argparse.Namespace, source: Content) -> str:
    """Where the model is written."""
    if options.file == "-":
        if sys.stdout is None:
            raise OutputError("cannot write the model to standard output: it is closed")
        return STANDARD_OUTPUT
    if options.file is not None:
        return str(options.file)
    if source.file is None or not Path(source.file).is_file():
        raise OutputError(f"'{printable(options.model)}' is no file whose name the model could have: give one with -o")
    return str(files.default_output(beside(Path(options.model))))


def _planned(options: argparse.Namespace, target: str) -> list[files.Output]:
    """The files that will be written, as far as that is known beforehand; of a dry run those that it names, unless
    their folder would be made.
    """
    planned = [] if options.report is None else [files.Output("report", options.report)]
    if options.dry_run and (options.file is None or vars(options).get("folder_made")):
        return planned
    planned.append(files.Output("model", target))
    if options.external_data:
        planned.append(files.Output("data", f"{target}.data"))
    if options.certify is not None:
        planned.append(files.Output("certificate", options.certify))
    if options.plan is not None:
        planned.append(files.Output("plan", options.plan))
    return planned


def _certified(source: Content, conversion: Conversion, target: str) -> tuple[Certificate, Recheck]:
    """The certificate of the files that are about to be written, and how far it could be checked."""
    from layoutsolve.certification.certify import certify
    from layoutsolve.certification.checker import check

    certificate = certify(source, conversion, target)
    table = conversion.assignment.goal.target
    return certificate, check(certificate, source, conversion.content(target), certificate.data, target, table)


Command = tuple[Callable[[Sequence[str]], argparse.Namespace], Callable[[argparse.Namespace], int]]

COMMANDS: Mapping[str, Command] = {
    "bench": (parser.parse_bench, _bench),
    "calibrate": (parser.parse_calibrate, _calibrate),
    "convert": (parser.parse, _run),
    "diff": (parser.parse_diff, _diff),
    "info": (parser.parse_info, _info),
    "ops": (parser.parse_ops, _ops),
    "target": (parser.parse_target, _target_told),
    "view": (parser.parse_view, _view),
}
"""What the first word may ask for, which is a conversion where it is no command: how its options are read, and what
does it. A file of such a name is reached as ``./bench``.
"""
