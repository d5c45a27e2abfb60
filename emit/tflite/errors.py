"""What LiteRT does not express."""

from __future__ import annotations


class ExpressionError(Exception):
    """A node that no operator of LiteRT expresses: why, and what to do about it."""

    def __init__(self, reason: str, remedy: str = "change the model so that it does without") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy
