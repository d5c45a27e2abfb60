"""Tables by operator and kind: a kind is a name with facts after commas, of which an entry may leave some out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import combinations
from typing import TypeVar

from layoutsolve.base.fast_dataclasses import dataclass

Entry = TypeVar("Entry")

Key = tuple[str, str]
"""An operator and a kind, perhaps with fewer facts than the kinds that it stands for."""


def entry(table: Mapping[Key, Entry], operator: str, kind: str, default: Entry) -> Entry:
    """Entry of a table for a kind: its own, or the most specific one. ``NT, int8`` holds for ``NT, int8, quantized``,
    before ``NT`` does.
    """
    name, *facts = kind.split(", ")
    for count in range(len(facts), -1, -1):
        for some in combinations(facts, count):
            key = (operator, ", ".join((name, *some)))
            if key in table:
                return table[key]
    return default


def between(sizes: Mapping[str, int], least: Mapping[str, int], most: Mapping[str, int]) -> bool:
    """Whether sizes lie within lower and upper bounds for some of them; an unknown size does not."""
    return all(name in sizes and sizes[name] >= bound for name, bound in least.items()) and all(
        name in sizes and sizes[name] <= bound for name, bound in most.items()
    )


@dataclass(frozen=True)
class Class:
    """Those ways of a kind that have certain sizes: at ``least`` so much of some, at ``most`` so much of some. Their
    kind has another ``name``.
    """

    of: str
    name: str
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
