"""Kinds: short texts that classify the alternatives of an operator, which a target prices.

A kind is a name, and facts after commas: ``NT, float32`` is a product of some form on numbers of some type. Where the
kind depends on the row it is a function of it. Such functions are values: two that say the same are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Shape, product
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


def every(kind: Kind) -> tuple[str, ...] | None:
    """The texts for any rows; None where that may be any text."""
    if isinstance(kind, Along):
        return (INNERMOST, *FURTHER_OUT)
    return (kind,) if isinstance(kind, str) else None


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


SHORT = (1, 2, 4, 8)
"""Elements in a row up to which copying takes longer for each."""

MANY = 1 << 40
"""What a size that is known by name counts as."""


def cutting(label: str, dtype: str, first: int, parts: Sequence[Dim]) -> Kind:
    """The kind of an operator that joins parts along an axis, or cuts them off, given their sizes along it."""
    numbers = [size for size in parts if isinstance(size, int)]
    short = len(numbers) == len(parts) and sum(numbers) <= SHORT[-1] * len(parts)
    return Pieces(label, dtype, first, len(parts)) if short else Along(label)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The kinds of an operator that cuts tensors along an axis, or joins them: where few elements of a part lie in a
    row, ``pieces of`` up to so many, and the type; otherwise that of :class:`Along`.

    ``first`` is the first of the ports of parts, ``parts`` how many there are, and ``sizes`` has those of the atoms at
    each of them, once they are known: see :func:`sized`.
    """

    label: str
    dtype: str
    first: int
    parts: int
    sizes: tuple[tuple[Dim, ...], ...] = ()

    def __call__(self, row: Row) -> str:
        where = position(row.arrangement, self.label)
        stored = zip(self.sizes, row.layouts[self.first :], strict=False)
        runs = [product(sizes[atom] for group in layout[where:] for atom in group) for sizes, layout in stored]
        elements = sum(run if isinstance(run, int) else MANY for run in runs)
        few = next((most for most in SHORT if 0 < elements <= most * self.parts), None)
        return Along(self.label)(row) if few is None else f"pieces of {few}, {self.dtype}"


def repeating(operands: Sequence[Shape], output: Shape, dtype: str) -> Kind:
    """The kind of an operator of single elements, given the shapes of its operands and of its result: that of
    :class:`Repeats` where all the dimensions that operands share, or lack, in one way have few elements.
    """
    runs: dict[tuple[bool, ...], int] = {}
    for place in (place for place in range(1, len(output) + 1) if output[-place] != 1):
        going = tuple(len(shape) >= place and shape[-place] != 1 for shape in operands)
        size = output[-place]
        runs[going] = runs.get(going, 1) * (size if isinstance(size, int) else MANY)
    return Repeats(dtype) if len(runs) > 1 and min(runs.values()) <= SHORT[-1] else ""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The kinds of an operator of single elements, whose operands are repeated along some dimensions: where few of the
    result's elements lie in a row within which each operand either is the same or goes on, ``repeats of`` up to so
    many, and the type; otherwise nothing. ``sizes`` has those of the result's atoms, once they are known.
    """

    dtype: str
    sizes: tuple[Dim, ...] = ()

    def __call__(self, row: Row) -> str:
        *operands, output = row.layouts
        if not self.sizes:
            return ""
        run, pattern = 1, None
        for place in range(1, len(output) + 1):
            if not output[-place]:
                continue
            going = tuple(len(each) >= place and bool(each[-place]) for each in operands)
            if pattern not in (None, going):
                few = next((most for most in SHORT if run <= most), None)
                return "" if few is None else f"repeats of {few}, {self.dtype}"
            size = product(self.sizes[atom] for atom in output[-place])
            pattern, run = going, run * (size if isinstance(size, int) else MANY)
        return ""


def sized(kind: Kind, sizes: Sequence[Sequence[Dim]]) -> Kind:
    """A kind with the sizes of the atoms at each port of its operator."""
    if isinstance(kind, Repeats):
        return replace(kind, sizes=tuple(sizes[-1]))
    if not isinstance(kind, Pieces):
        return kind
    return replace(kind, sizes=tuple(tuple(each) for each in sizes[kind.first : kind.first + kind.parts]))


@dataclass(frozen=True, slots=True)
class Among:
    """Where the innermost of several axes lies; ``nowhere`` where there is none."""

    labels: frozenset[str]

    def __call__(self, row: Row) -> str:
        order = (INNERMOST, *FURTHER_OUT)
        return min((Along(label)(row) for label in self.labels), key=order.index, default="nowhere")


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of kept (K) and reduced (R) stored dimensions above 1, as in ``KRK``; ``unit`` where none is. Then the
    ``facts``, each behind a comma. Where dimensions of size 1 are not ``merged`` with others, those in front count.
    """

    reduced: frozenset[str]
    facts: tuple[str, ...] = ()
    merged: bool = True

    def __call__(self, row: Row) -> str:
        found = "" if self.merged or row.layouts[0][:1] != ((),) else "1"
        for group, stored in zip(row.arrangement, row.layouts[0], strict=True):
            letter = "R" if any(slot[0] in self.reduced for slot in group) else "K"
            if stored and not found.endswith(letter):
                found += letter
        runs = found if found == "1RK" else found.removeprefix("1")
        return ", ".join((runs or "unit", *self.facts))


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
