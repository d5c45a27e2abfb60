"""One LiteRT process for the whole test session."""

from __future__ import annotations

import atexit
from functools import cache

from layoutsolve.verification.runtimes import LiteRT


@cache
def litert() -> LiteRT:
    """LiteRT as the tests share it; ended with the session."""
    runtime = LiteRT(timeout=60)
    atexit.register(runtime.close)
    return runtime
