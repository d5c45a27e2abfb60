"""SHA-256 digests, without imports that take longer than a small conversion."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

Buffer = bytes | memoryview

_LARGE = 1 << 20
"""Bytes from which on OpenSSL is faster, which takes 3 ms and 4 MB to load."""


def digest(data: Buffer) -> str:
    """SHA-256 of a buffer, in hexadecimal."""
    return str(_sha256(memoryview(data).nbytes)(data).hexdigest())


def _sha256(size: int) -> Callable[[Buffer], Any]:
    """What hashes so many bytes: Python's own function where that is there, or hashlib's, which is OpenSSL's."""
    if size < _LARGE:
        for name in ("_sha2", "_sha256"):  # from Python 3.12 on, and before
            with suppress(ImportError):
                found: Callable[[Buffer], Any] = import_module(name).sha256
                return found
    import hashlib

    return hashlib.sha256
