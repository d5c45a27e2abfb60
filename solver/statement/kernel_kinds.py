"""Tables by operator and kind: a kind is a name with facts after commas, of which an entry may leave some out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import combinations
from typing import TypeVar

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.theory.row import Price

Entry = TypeVar("Entry")

Key = tuple[str, str]
"""An operator and a kind, perhaps with fewer facts than the kinds that it stands for."""


def entry(table: Mapping[Key, Entry], operator: str, kind: str, default: Entry) -> Entry:
    """What a table says of a kind. Its own entry says it, or that with the most of its facts: ``NT, int8`` holds for
    ``NT, int8, quantised``, before ``NT`` does.
    """
    name, *facts = kind.split(", ")
    for count in range(len(facts), -1, -1):
        for some in combinations(facts, count):
            key = (operator, ", ".join((name, *some)))
            if key in table:
                return table[key]
    return default


@dataclass(frozen=True)
class Class:
    """Those ways of a kind that have certain sizes: at ``least`` so much of some, at ``most`` so much of some. Their
    kind has another ``name``.
    """

    of: str
    name: str
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)

    def has(self, sizes: Mapping[str, int]) -> bool:
        """Whether a way with these sizes belongs to it; one whose sizes are not known does not."""
        enough = all(name in sizes and sizes[name] >= least for name, least in self.least.items())
        return enough and all(name in sizes and sizes[name] <= most for name, most in self.most.items())


@dataclass(frozen=True)
class Verdict:
    """What a target says of a kind: whether it runs it, the hidden transpositions, and seconds lost per byte."""

    runs: bool
    hidden: int
    extra: float

    @property
    def free(self) -> bool:
        """Whether it runs at no loss."""
        return self.runs and not self.hidden and not self.extra

    def price(self, size: int) -> Price | None:
        """What a row of the kind costs on so many bytes; None where it is refused."""
        return Price(hidden=self.hidden, nanoseconds=round(self.extra * size * 1e9)) if self.runs else None
