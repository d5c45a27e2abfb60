"""Lowerings that users register: for which operators, and from which files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layoutsolve.base.digest import digest

FOREIGN: dict[str, tuple[str, str]] = {}
"""The operators whose lowering a user has registered, each with the name of the file that did and its SHA-256, '' for
none.
"""

_running: list[str] = []


@contextmanager
def registering(path: str) -> Iterator[None]:
    """Have what is registered meanwhile come from a file that is run."""
    _running.append(path)
    try:
        yield
    finally:
        _running.pop()


def file_of(function: object) -> tuple[str, str]:
    """The file that registers a lowering, and its SHA-256: the one that is run, else where the function is defined."""
    code = getattr(function, "__code__", None)
    path = Path(_running[-1] if _running else getattr(code, "co_filename", ""))
    try:
        return path.name, digest(path.read_bytes())
    except OSError:  # a program that was typed, or is within an archive
        return "", ""
