"""What is printed, and what becomes of it where nothing can be printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from layoutsolve.errors import FAILED, OutputError
from layoutsolve.io import files

PATIENCE, AGAIN = 2.0, 1.0
"""The seconds after which it is shown that something is being done, and those until it is shown again."""


def say(text: str, stream: TextIO | None) -> None:
    """Print a text, in which what the terminal has no characters for is written as escapes; nothing if it is closed."""
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except OSError:
        _give_up(stream)
        if stream is not sys.stderr:
            raise


def tell(text: str, written: Sequence[str]) -> None:
    """Print the summary: on standard output, unless a file goes there.

    Raises :class:`OutputError` where that is impossible. It is no error that nobody reads any more.
    """
    taken = any(files.is_standard_output(path) for path in written)
    try:
        say(text, sys.stderr if taken else sys.stdout)
    except BrokenPipeError:
        pass
    except OSError as error:
        raise OutputError(f"cannot write the summary to standard output: {error.strerror}") from error


def show(text: str) -> None:
    """Replace the line that the cursor is in."""
    with suppress(OSError):
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a text with the seconds that have gone by, on a terminal, while what is done inside takes long."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done, start = Event(), monotonic()

    def tick() -> None:
        if done.wait(PATIENCE):
            return None
        while True:
            show(f"{text} ... {monotonic() - start:.0f} s")
            if done.wait(AGAIN):
                return show("")

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def finish(code: int) -> int:
    """The exit code when standard output is written out, lest that fails when the interpreter ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return code or unsaid(error)
    return code


def unsaid(error: OSError) -> int:
    """The exit code where standard output takes no more; it is no error that nobody reads it."""
    _give_up(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return 0
    say(f"layoutsolve: cannot write to standard output: {error.strerror}", sys.stderr)
    return FAILED


def _give_up(stream: TextIO) -> None:
    """Let what could not be written go nowhere, lest it is tried again when the program ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
