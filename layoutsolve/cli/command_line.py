"""The command line: ``layoutsolve MODEL.tflite``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from layoutsolve.base.wording import nearest, printable
from layoutsolve.cli import commands, console, conversions, parser
from layoutsolve.errors import (
    FAILED,
    INTERNAL,
    INTERRUPTED,
    ConversionError,
    InternalError,
    OptionError,
    UnsupportedError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns one of the exit codes that docs/cli.md lists.

    Files are written where that is 0 or 3, and none otherwise.
    """
    if "_ARGCOMPLETE" in os.environ:
        from layoutsolve.cli.completion import complete

        complete(COMMANDS)
    given = sys.argv[1:] if arguments is None else arguments
    command = COMMANDS.get(given[0]) if given else None
    parse, run = command or (parser.parse, conversions.run)
    try:
        if command is None and given:
            _check_word(given[0])
        options = parse(given[1:] if command else given)
    except OSError as error:  # of printing the help: all else is wrapped
        return console.unsaid(error)
    except ConversionError as error:
        console.say(f"layoutsolve: {_line(error)}", sys.stderr)
        return FAILED
    return attempt(options, run)


def _check_word(word: str) -> None:
    """Raise :class:`OptionError` for a first word that is nearly a command, or an option's, and no file."""
    if not word.isalpha() or Path(word).exists():
        return
    meant = f": that is an option, --{word}" if parser.is_option(f"--{word}") else nearest(word, COMMANDS)
    if meant:
        raise OptionError(f"'{word}' is no command, and no file has that name{meant}")


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


def _line(error: ConversionError) -> str:
    """The message, on one line but for a list of gaps, whose lines have been cared for. An argument that it begins with
    is called as the option is.
    """
    said = str(error)
    if isinstance(error, OptionError):
        from layoutsolve.conversion.arguments import NAMES
        from layoutsolve.conversion.provenance import option_name

        name, colon, told = said.partition(": ")
        said = f"{option_name(name)}: {told}" if colon and name in NAMES else said
    return said if isinstance(error, UnsupportedError) else printable(said)


Command = tuple[Callable[[Sequence[str]], argparse.Namespace], Callable[[argparse.Namespace], int]]

COMMANDS: Mapping[str, Command] = {
    "bench": (parser.parse_bench, commands.bench),
    "calibrate": (parser.parse_calibrate, commands.calibrate),
    "convert": (parser.parse, conversions.run),
    "diff": (parser.parse_diff, commands.diff),
    "info": (parser.parse_info, commands.info),
    "ops": (parser.parse_ops, commands.ops),
    "target": (parser.parse_target, commands.target),
    "view": (parser.parse_view, conversions.view),
}
"""What the first word may ask for, which is a conversion where it is no command: how its options are read, and what
does it. A file of such a name is reached as ``./bench``.
"""
