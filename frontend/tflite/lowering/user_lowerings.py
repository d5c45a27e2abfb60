"""Lowerings that users register: for which operators, and from which files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layoutsolve.base.digest import digest
from layoutsolve.base.wording import brief
from layoutsolve.errors import LoweringError

FOREIGN: dict[str, tuple[str, str]] = {}
"""The operators whose lowering a user has registered, each with the name of the file that did and its SHA-256, '' for
none.
"""

_running: list[str] = []
_idle: set[str] = set()
"""The files that are run, and those of them that have registered nothing."""


@contextmanager
def registering(path: str) -> Iterator[None]:
    """Have what is registered meanwhile come from a file that is run.

    Raises :class:`LoweringError` where that is nothing.
    """
    _running.append(path)
    _idle.add(path)
    try:
        yield
        if path in _idle:
            raise LoweringError(f"{brief(path)} registers no lowering: use @layoutsolve.register in it")
    finally:
        _running.pop()


def file_of(function: object) -> tuple[str, str]:
    """The file that registers a lowering, and its SHA-256: the one that is run, else where the function is defined."""
    code = getattr(function, "__code__", None)
    _idle.difference_update(_running)
    path = Path(_running[-1] if _running else getattr(code, "co_filename", ""))
    try:
        return path.name, digest(path.read_bytes())
    except OSError:  # a program that was typed, or is within an archive
        return "", ""
