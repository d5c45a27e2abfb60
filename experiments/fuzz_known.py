"""Failures of mutants whose cause is known and lies elsewhere, or is a limit that the documentation tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A cause, and the failures that it explains: verdict, a pattern in the detail, operators one of which occurs."""

    cause: str
    verdict: str
    detail: str = ""
    operators: frozenset[str] = frozenset()

    def explains(self, verdict: str, detail: str, operators: Sequence[str]) -> bool:
        """Whether a failure is of this kind."""
        return (
            verdict == self.verdict
            and re.search(self.detail, detail) is not None
            and (not self.operators or not self.operators.isdisjoint(operators))
        )


KNOWN: tuple[Known, ...] = ()


def cause_of(verdict: str, detail: str, operators: Sequence[str], mutations: Sequence[str]) -> str:
    """The known cause of a failure, '' where there is none."""
    return next((known.cause for known in KNOWN if known.explains(verdict, detail, operators)), "")
