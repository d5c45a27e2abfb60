"""What derived sizes mean: sums, quotients and the like of other sizes, exactly.

A dimension is a number or a :class:`~layoutsolve.ir.graph.Size`, a product of symbols. A symbol is *free*, so that only
a tensor tells how large it is (a dimension of an input, a size that depends on data), or it has a :class:`Formula`.
Sizes are compared and computed with as polynomials over symbols that are free or no sums themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce
from math import gcd

from layoutsolve.base.fast_dataclasses import dataclass

Symbols = tuple[str, ...]
"""A product of symbols, sorted, with repetition."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of symbols: the product and its coefficient, which is not 0, for each in the order of the
    products.
    """

    terms: tuple[tuple[Symbols, int], ...]

    @staticmethod
    def of(terms: Mapping[Symbols, int]) -> Polynomial:
        """The polynomial with these terms."""
        return Polynomial(tuple(sorted((symbols, factor) for symbols, factor in terms.items() if factor)))

    @staticmethod
    def number(value: int) -> Polynomial:
        """A number."""
        return Polynomial.of({(): value})

    @staticmethod
    def symbol(name: str) -> Polynomial:
        """A single symbol."""
        return Polynomial((((name,), 1),))

    @property
    def symbols(self) -> frozenset[str]:
        """All symbols in it."""
        return frozenset(name for symbols, _ in self.terms for name in symbols)

    @property
    def constant(self) -> int | None:
        """The number that it is, None where it has symbols."""
        if not self.terms:
            return 0
        symbols, factor = self.terms[0]
        return factor if not symbols and len(self.terms) == 1 else None

    @staticmethod
    def sum_of(polynomials: Iterable[Polynomial]) -> Polynomial:
        """Their sum."""
        terms: dict[Symbols, int] = {}
        for polynomial in polynomials:
            for symbols, factor in polynomial.terms:
                terms[symbols] = terms.get(symbols, 0) + factor
        return Polynomial.of(terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial.sum_of((self, other))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.number(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Symbols, int] = {}
        for left, one in self.terms:
            for right, two in other.terms:
                symbols = tuple(sorted(left + right))
                terms[symbols] = terms.get(symbols, 0) + one * two
        return Polynomial.of(terms)

    def content(self) -> tuple[Symbols, int]:
        """The largest product that divides every term; its coefficient is positive."""
        products = [Counter(symbols) for symbols, _ in self.terms]
        common = reduce(lambda one, other: one & other, products, products[0] if products else Counter())
        return tuple(sorted(common.elements())), gcd(*(factor for _, factor in self.terms))

    def over(self, symbols: Symbols, factor: int) -> Polynomial | None:
        """The quotient by a product, None where that leaves a remainder."""
        terms: dict[Symbols, int] = {}
        for own, mine in self.terms:
            rest = list(own)
            for name in symbols:
                if name not in rest:
                    return None
                rest.remove(name)
            if mine % factor:
                return None
            terms[tuple(rest)] = mine // factor
        return Polynomial.of(terms)


@dataclass(frozen=True)
class Formula:
    """What a derived symbol means. ``op`` is one of

    * 'sum': its one operand;
    * 'quotient': the first operand divided by the second, rounded down;
    * 'max', 'min': the largest or smallest operand;
    * 'broadcast': what the operands broadcast to, which are equal but for those that are 1.
    """

    op: str
    operands: tuple[Polynomial, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that it is computed from."""
        return frozenset(name for operand in self.operands for name in operand.symbols)


def free_symbols(symbols: Iterable[str], formulas: Mapping[str, Formula], seen: set[str] | None = None) -> set[str]:
    """The symbols without a formula from which some symbols are computed, but for those that are ``seen`` already."""
    seen = set() if seen is None else seen
    found: set[str] = set()
    stack = list(symbols)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            if name in formulas:
                stack += formulas[name].symbols
            else:
                found.add(name)
    return found
