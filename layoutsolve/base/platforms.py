"""What operating systems do differently, or do not have."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

STANDARD_OUTPUT = "/dev/stdout"
"""The name of standard output, also where there is no such file."""


def keep_owner(descriptor: int, present: os.stat_result) -> None:
    """Give a file that is open the owner of another one, where the system has owners and allows that."""
    change = getattr(os, "fchown", None)
    if change is not None:
        with suppress(OSError):
            change(descriptor, present.st_uid, present.st_gid)


def processor_clock() -> Callable[[], float]:
    """Tells the seconds of processor time; on Windows, which counts them in steps of 15.6 ms, those of a clock."""
    return time.perf_counter if sys.platform == "win32" else time.process_time


@contextmanager
def one_core() -> Iterator[None]:
    """Keep to one of the cores that the process may use, where the system lets it: a move costs what caches hold."""
    ask, choose = (getattr(os, name, None) for name in ("sched_getaffinity", "sched_setaffinity"))
    if ask is None or choose is None:
        yield
        return
    before = ask(0)
    choose(0, {max(before)})
    try:
        yield
    finally:
        choose(0, before)
