"""The commands that convert no model for its own sake: bench, calibrate, diff, info, ops and target."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from layoutsolve.base import gc_pause
from layoutsolve.base.wording import aligned, printable
from layoutsolve.cli import console
from layoutsolve.cli.model_files import loaded, register
from layoutsolve.cli.options import reading_of
from layoutsolve.errors import FAILED, ConversionError, Gap, InternalError, UnsupportedError
from layoutsolve.io import files


@gc_pause.resumed()
def bench(options: argparse.Namespace) -> int:
    """Time files."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("bench"):
        from layoutsolve.measurement.bench import bench

        found = bench(options.files, threads=options.threads, level=options.level, openvino=options.openvino)
    console.tell(found.as_json() if options.json else found.as_text(), [])
    return 0


def ops(options: argparse.Namespace) -> int:
    """List operators."""
    from layoutsolve.conversion.stages import Stages

    if options.onnx:
        from layoutsolve.inspection.operator_support import onnx_operators

        every = onnx_operators()
        rows = aligned([(each.operator, str(each)) for each in every], ())
        facts = {"operators": [each.as_dict() for each in every]}
        console.tell(json.dumps(facts) if options.json else "\n".join(rows), [])
        return 0
    content = loaded(options)
    register(options)
    with Stages(content)("ops"):
        from layoutsolve.api import convert
        from layoutsolve.conversion.arguments import Options
        from layoutsolve.frontend import is_onnx
        from layoutsolve.inspection.operator_support import inventory

        given = Options.of({**reading_of(options), "to": options.format})
        if is_onnx(content.data):
            given.check_onnx()
        graph, written = None, None
        gaps: Sequence[Gap] = ()
        try:
            conversion = convert(content, to=options.format, **reading_of(options))
            graph, written = conversion.graph, conversion.written_for
        except InternalError:
            raise
        except ConversionError as error:  # of operators those are listed, and anything else is no matter of these
            if options.format == "tflite" and not isinstance(error, UnsupportedError):
                raise
            gaps = error.gaps if options.format == "tflite" and isinstance(error, UnsupportedError) else ()
        found = inventory(content, given.reading, graph, written, gaps)
    told = {"model": options.model, "converts": found.converts, "operators": found.as_dicts()}
    console.tell(json.dumps(told) if options.json else str(found), [])
    return 0 if found.converts else FAILED


def info(options: argparse.Namespace) -> int:
    """Say how a model was made."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("info"):
        from layoutsolve.conversion.provenance import provenance

        found = provenance(loaded(options))
    facts = {"version": found.version, "source": found.source, "options": found.options, "target": found.target}
    facts |= {"part": found.part, "lowerings": found.lowerings}
    told = {"model": options.model, **facts, "command": found.command}
    lines = map(printable, f"{options.model}: {found}".splitlines())
    console.tell(json.dumps(told) if options.json else "\n  ".join(lines), [])
    return 0


def diff(options: argparse.Namespace) -> int:
    """Compare two models."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("diff"):
        from layoutsolve.measurement.difference import difference

        found = difference(options.first, options.second)
    console.tell(found.as_json() if options.json else found.as_text(), [])
    return 0


@gc_pause.resumed()
def calibrate(options: argparse.Namespace) -> int:
    """Measure what this machine is good at, and write it as a target."""
    from layoutsolve.conversion.stages import Stages

    with Stages()("calibrate"):
        from layoutsolve.verification.refusals import require

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


def target(options: argparse.Namespace) -> int:
    """Describe a target, or list those that come with layoutsolve."""
    from layoutsolve.conversion.stages import Stages

    if options.target is None:
        from layoutsolve.solver.targets.target_file import COUNTED, SHIPPED, SYSTEMS

        kinds = {"measured": SHIPPED, "counted": COUNTED, "layout systems": SYSTEMS}
        told = json.dumps(kinds) if options.json else "\n".join(f"{kind}: {', '.join(kinds[kind])}" for kind in kinds)
        console.tell(told, [])
        return 0

    with Stages()("target"):
        from layoutsolve.conversion import arguments
        from layoutsolve.planning.target_description import described, facts_of

        found = arguments.target("target", options.target)
    told = json.dumps(facts_of(found)) if options.json else "\n".join(map(printable, described(found)))
    console.tell(told, [])
    return 0
