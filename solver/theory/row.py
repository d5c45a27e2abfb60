"""Rows: the alternatives of an operator, and what a way costs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from layoutsolve.solver.theory.layout import Layout

Slot = tuple[str, int]
"""A factor of an operator's own index space: the label of a dimension and the number of the factor within it."""

Arrangement = tuple[tuple[Slot, ...], ...]
"""An order and grouping of an operator's slots, as :data:`Layout` is one of a tensor's atoms."""


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of layouts, by kind.

    ``transposes`` and ``reshapes`` are operators in the file. ``hidden`` is the layout penalty: extra time of kernels,
    which transpose inside or take a generic path, in Transposes. ``bytes`` are those that Transposes move, dynamic
    sizes as 1. ``nanoseconds`` are those of conversions and slow alternatives by a target's table; 0 where the
    objective has no time. ``copies`` are bytes of duplicated initializers, without the first. ``regrouped`` decides
    where all else is equal: it counts conversions of what is better left joined, and, where only orders are decided,
    the ports at which an alternative merges dimensions, an estimate of the Reshapes to come.
    """

    transposes: int = 0
    hidden: int = 0
    reshapes: int = 0
    bytes: int = 0
    nanoseconds: int = 0
    copies: int = 0
    regrouped: int = 0

    def __add__(self, other: Price) -> Price:
        return Price(
            self.transposes + other.transposes,
            self.hidden + other.hidden,
            self.reshapes + other.reshapes,
            self.bytes + other.bytes,
            self.nanoseconds + other.nanoseconds,
            self.copies + other.copies,
            self.regrouped + other.regrouped,
        )

    def times(self, count: int) -> Price:
        """So many times as much."""
        return Price(*(count * getattr(self, each.name) for each in fields(self)))

    def slower(self, other: Price) -> bool:
        """Whether a row at this price loses more inside than one at another."""
        return self.hidden > other.hidden or self.nanoseconds > other.nanoseconds


FREE = Price()


@dataclass(frozen=True, slots=True)
class Row:
    """One alternative of an operator: the layout of each of its ports, inputs first.

    ``form`` is the number of the alternative among those of the operator's rule, ``arrangement`` the order of the
    operator's slots from which the layouts come, ``price`` what the row itself costs.
    """

    layouts: tuple[Layout, ...]
    form: int = 0
    arrangement: Arrangement = ()
    price: Price = FREE

    def same(self, other: Row) -> bool:
        """Whether it writes the operator as another row does: by the same form and arrangement, in the same layouts."""
        return (self.form, self.arrangement, self.layouts) == (other.form, other.arrangement, other.layouts)


def position(arrangement: Arrangement, label: str) -> int:
    """The stored dimension in which a label lies."""
    return next(index for index, group in enumerate(arrangement) if any(slot[0] == label for slot in group))


def positions(arrangement: Arrangement, labels: frozenset[str]) -> list[int]:
    """The stored dimensions in which any of some labels lie."""
    return [index for index, group in enumerate(arrangement) if any(slot[0] in labels for slot in group)]
