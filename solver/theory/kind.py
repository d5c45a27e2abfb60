"""Kinds: short texts that classify the alternatives of an operator, which a target prices.

A kind is a name, and facts after commas: ``NT, float32`` is a product of some form on numbers of some type. Where the
kind depends on the row it is a function of it. Such functions are values: two that say the same are equal.
"""

from __future__ import annotations

from collections.abc import Callable

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.solver.theory.row import Row, position

Kind = str | Callable[[Row], str]
"""A text, or a function from a row to it."""

INNERMOST, FURTHER_OUT = "innermost", ("middle", "outermost")
"""Where an axis lies: with nothing that is stored behind it, or with something."""


def possible(kind: Kind, row: Row) -> tuple[str, ...] | None:
    """The texts for rows of which this one shows some atoms alone; None where that may be any text.

    What lies behind an axis in some atoms does so in all of them.
    """
    if isinstance(kind, str):
        return (kind,)
    if isinstance(kind, Among) and kind.labels:
        return tuple(dict.fromkeys(text for label in sorted(kind.labels) for text in Along(label).possible(row)))
    return kind.possible(row) if isinstance(kind, Along) else None


@dataclass(frozen=True, slots=True)
class Along:
    """Where an axis lies among the stored dimensions above 1: ``innermost``, ``middle`` or ``outermost``."""

    label: str

    def __call__(self, row: Row) -> str:
        where, layout = position(row.arrangement, self.label), row.layouts[0]
        if not any(layout[where + 1 :]):
            return INNERMOST
        return FURTHER_OUT[not any(layout[:where])]

    def possible(self, row: Row) -> tuple[str, ...]:
        """See :func:`possible`. An axis of which nothing is seen may lie anywhere."""
        where, layout = position(row.arrangement, self.label), row.layouts[0]
        told = len(layout) == len(row.arrangement) and layout[where]
        return FURTHER_OUT if told and any(layout[where + 1 :]) else (INNERMOST, *FURTHER_OUT)


@dataclass(frozen=True, slots=True)
class Among:
    """Where the innermost of several axes lies; ``nowhere`` where there is none."""

    labels: frozenset[str]

    def __call__(self, row: Row) -> str:
        order = (INNERMOST, *FURTHER_OUT)
        return min((Along(label)(row) for label in self.labels), key=order.index, default="nowhere")


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of kept (K) and reduced (R) stored dimensions above 1, as in ``KRK``; ``unit`` where none is."""

    reduced: frozenset[str]

    def __call__(self, row: Row) -> str:
        found = ""
        for group, stored in zip(row.arrangement, row.layouts[0], strict=True):
            letter = "R" if any(slot[0] in self.reduced for slot in group) else "K"
            if stored and not found.endswith(letter):
                found += letter
        return found or "unit"


@dataclass(frozen=True, slots=True)
class Marked:
    """A name, then R for each stored dimension of some labels and K for each run of others above 1, then facts. Where
    that is more than ``most``, or what has size 1 makes it so, the dimensions are ``many``, wherever they lie.
    """

    name: str
    labels: frozenset[str]
    facts: str
    most: int

    def __call__(self, row: Row) -> str:
        stored, found = row.layouts[0], ""
        for group, atoms in zip(row.arrangement, stored, strict=True):
            if any(slot[0] in self.labels for slot in group):
                found += "R"
            elif atoms and not found.endswith("K"):
                found += "K"
        many = max(len(found), len(stored) if () in stored else 0) > self.most
        return f"{self.name} {'many' if many else found}, {self.facts}"
