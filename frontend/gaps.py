"""How a lowering says that it cannot express something."""

from __future__ import annotations


class GapError(Exception):
    """Raised by a lowering for what it cannot express; becomes a :class:`layoutsolve.errors.Gap`."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
