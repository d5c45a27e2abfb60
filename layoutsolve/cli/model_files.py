"""The files that a command reads and writes: models from names, pipes and archives, and where results go."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from layoutsolve.base.platforms import STANDARD_OUTPUT
from layoutsolve.base.wording import printable
from layoutsolve.cli import console
from layoutsolve.errors import ConversionError, LoweringError, ModelError, OptionError, OutputError
from layoutsolve.io import files
from layoutsolve.io.archives import beside, split
from layoutsolve.io.patterns import STANDARD_INPUT, format_of

if TYPE_CHECKING:
    from layoutsolve.io.source import Content


def loaded(options: argparse.Namespace) -> Content:
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


def _waits(name: str) -> bool:
    """Whether a file is a pipe that somebody may have forgotten to write to; a shell's own are not."""
    with suppress(OSError):
        return Path(name).is_fifo() and not name.startswith("/dev/")
    return False


def register(options: argparse.Namespace) -> None:
    """Run the files that register lowerings: no file is run that was not named."""
    import runpy

    from layoutsolve.frontend.tflite.lowering.user_lowerings import registering

    for path in options.lowering:
        try:
            with registering(path):
                runpy.run_path(path, run_name="lowering")
        except ConversionError:
            raise
        except Exception as error:
            raise LoweringError(f"'{printable(path)}' cannot be run: {type(error).__name__}: {error}") from error


def cut_of(options: argparse.Namespace, source: Content) -> Content:
    """The part of a model that is asked for."""
    if not options.cut_from and not options.cut_to:
        return source
    if options.signature:
        raise OptionError("--from and --to cut the main subgraph: leave out --signature")
    from layoutsolve.conversion.cut import cut_content

    return cut_content(source, options.cut_from, options.cut_to)


def read(options: argparse.Namespace) -> list[str]:
    """The files that are read, which are not to be overwritten."""
    named = (options.target, options.by_plan, options.verify_data, *options.lowering)
    others = [name for name in named if name is not None and Path(name).is_file()]
    inside = split(Path(options.model))
    return [options.model if inside is None else str(inside[0]), *others]


def target_of(options: argparse.Namespace, source: Content) -> str:
    """Where the model is written."""
    if options.file == "-":
        if sys.stdout is None:
            raise OutputError("cannot write the model to standard output: it is closed")
        return STANDARD_OUTPUT
    if options.file is not None:
        return str(options.file)
    if source.file is None or not Path(source.file).is_file():
        raise OutputError(f"'{printable(options.model)}' is no file whose name the model could have: give one with -o")
    return str(files.default_output(beside(Path(options.model)), f".{format_of(options.format, None)}"))


def planned(options: argparse.Namespace, target: str) -> list[files.Output]:
    """The files that will be written, as far as their names are certain; of a dry run those that it names, unless
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
