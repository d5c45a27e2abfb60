"""Calls of solvers that end when the program is interrupted: an engine in C++ would go on until it is done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

POLL = 0.1
"""The seconds after which who waits for a search looks for interrupts, which not every system wakes them for."""


def interruptible(run: Callable[[], T], stop: Callable[[], object]) -> T:
    """Result of a call in a thread of its own, so that the caller can be interrupted; ``stop`` is then called as
    well.
    """
    executor = ThreadPoolExecutor(1)
    try:
        future = executor.submit(run)
        while not wait([future], POLL).done:
            pass
        return future.result()
    except BaseException:
        stop()
        raise
    finally:
        executor.shutdown(wait=False)
