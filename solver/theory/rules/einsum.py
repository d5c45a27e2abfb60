"""Einsum: each operand and the result in an order of dimensions of its own, which the equation follows."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_letters

from layoutsolve.ir.einsum_equation import ELLIPSIS, terms_of
from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.relation import Arranged
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Dims, Rule, Site, Step, Way, rule

SPARE = 8
"""Letters that have to be left for dimensions of size 1."""

Terms = tuple[tuple[str, ...], ...]
"""The letters of each operand, and of the result."""


@rule("Einsum")
def einsum(site: Site) -> Rule | None:
    """Any order at each port; the equation is written anew. Dimensions of size 1 that a layout has beside those of the
    source get a letter of their own.
    """
    inputs = tuple(range(len(site.node.inputs)))
    shapes = [*(site.required(number).shape for number in inputs), site.output().shape]
    terms = _terms(site.attribute("equation", ""), shapes)
    if terms is None:
        return None
    dims: tuple[Dims, ...] = tuple(
        tuple((f"{port}.{axis}",) for axis in range(len(term))) for port, term in enumerate(terms)
    )
    letters = {
        label: letter
        for each, term in zip(dims, terms, strict=True)
        for (label,), letter in zip(each, term, strict=True)
    }
    left = [letter for letter in ascii_letters if letter not in letters.values()]
    if len(left) < SPARE:
        return None

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        units = iter(left)
        stored = [[slot[0] for slot in group] or [next(units)] for group in row.arrangement]
        written = [
            "".join(letters.get(label, label) for (label,) in stored if label not in letters or (label,) in own)
            for own in dims
        ]
        return site.same({"equation": f"{','.join(written[:-1])}->{written[-1]}"})

    labels = frozenset(letters)
    return Rule(inputs, dims, (Way(Arranged(frame=0, alone=labels, apart=True), rewrite),), solid=labels)


def _terms(equation: str, shapes: list[Shape]) -> Terms | None:
    """The terms of an equation whose ellipses are letters."""
    operands, result = terms_of(equation)
    terms = [*operands, result]
    if len(terms) != len(shapes):
        return None
    hidden = [len(shape) - len(term.replace(ELLIPSIS, "")) for term, shape in zip(terms, shapes, strict=True)]
    more = [letter for letter in ascii_letters if letter not in equation][: max(hidden)]
    if len(more) < max(hidden) or any(
        count and ELLIPSIS not in term for count, term in zip(hidden, terms, strict=True)
    ):
        return None
    return tuple(tuple(_spelt(term, more, count)) for term, count in zip(terms, hidden, strict=True))


def _spelt(term: str, more: list[str], count: int) -> Iterator[str]:
    """The letters of a term, with the last ``count`` of some in place of an ellipsis."""
    before, dots, after = term.partition(ELLIPSIS)
    yield from before
    if dots:
        yield from more[len(more) - count :]
    yield from after
