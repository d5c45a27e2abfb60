"""How far many models are, on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from layoutsolve.io.files import registered

if TYPE_CHECKING:
    from layoutsolve.batch.jobs import Done


class _Cursor:
    """A terminal's cursor, which is hidden beside a bar."""

    def clear(self) -> None:
        """Show it again; past the stream, which may be at work when a signal comes."""
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"\x1b[?25h")


@contextmanager
def bar(count: int) -> Iterator[Callable[[Done], object]]:
    """A bar on standard error, and what moves it: errors are printed above it as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    progress = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    with registered(_Cursor()), progress:
        task = progress.add_task("", total=count)

        def step(done: Done) -> None:
            if done.failed:
                console.print(escape(f"{done.job.name}: {done.reason}"))
            progress.update(task, advance=1, description=escape(done.job.name[-40:]))

        yield step
