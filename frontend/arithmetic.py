"""Arithmetic with sizes that are known by name only. What has no name yet gets a symbol, and the symbol a meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from math import lcm

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Size, product, quotient, symbol
from layoutsolve.ir.symbolic_sizes import Formula, Polynomial, Symbols

_ONE = Polynomial.number(1)
_TERMS = 64
"""The most terms of a polynomial, and operands of a formula: symbols whose meaning would lead to more are left as they
are.
"""

_BOUNDS = 16
"""How often a polynomial is bounded by another one to find out whether it may be negative."""


@dataclass(eq=False)
class Meanings:
    """What the derived symbols of a graph mean, each in terms of symbols that were there before. ``fresh`` makes a new
    symbol's name of a wish; ``dimensions`` are sizes that tensors have. ``natural`` tells whether a derived symbol is
    known not to be negative.
    """

    fresh: Callable[[str], str]
    formulas: dict[str, Formula] = field(default_factory=dict)
    dimensions: set[Dim] = field(default_factory=set)
    natural: dict[str, bool] = field(default_factory=dict)
    _names: dict[Formula, str] = field(default_factory=dict)

    def symbol_of(self, formula: Formula, name: str) -> str:
        """The symbol of a formula, called ``name`` if it is new."""
        if formula not in self._names:
            fresh = self.fresh(name)
            self._names[formula] = fresh
            self.formulas[fresh] = formula
        return self._names[formula]


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic on sizes; new symbols are named after ``name``. Equal results are equal sizes."""

    meanings: Meanings
    name: str

    # -- what can be computed --------------------------------------------------------------------------------------

    def total(self, dims: Iterable[Dim], label: str = "sum") -> Dim:
        """The sum of sizes."""
        return self._size(Polynomial.sum_of(map(self._expanded, dims)), label)

    def difference(self, left: Dim, right: Dim, label: str = "difference") -> Dim:
        """One size less another one. It may be negative where it is no size but a part of one."""
        return self._size(self._expanded(left) - self._expanded(right), label)

    def quotient(self, dividend: Dim, divisor: Dim, label: str = "quotient") -> Dim:
        """The quotient, rounded down. Raises ZeroDivisionError."""
        exact = quotient(dividend, divisor)
        if exact is not None:
            return exact
        return self._size(self._divided(self._expanded(dividend), self._expanded(divisor), label), label)

    def remainder(self, dividend: Dim, divisor: Dim) -> Dim:
        """What :meth:`quotient` leaves."""
        return self.difference(dividend, product((self.quotient(dividend, divisor), divisor)), "remainder")

    def largest(self, dims: Iterable[Dim], label: str = "largest") -> Dim:
        """The largest of some sizes."""
        return self._size(self._extreme("max", [*map(self._expanded, dims)], label), label)

    def smallest(self, dims: Iterable[Dim], label: str = "smallest") -> Dim:
        """The smallest of some sizes."""
        return self._size(self._extreme("min", [*map(self._expanded, dims)], label), label)

    def broadcast(self, dims: Iterable[Size]) -> Dim:
        """What sizes broadcast to that are equal, but for those that are 1."""
        whole = {self._expanded(dim) for dim in dims}
        operands = {operand for each in whole for operand in self._alternatives(each)}
        if len(operands) > _TERMS:
            operands = whole
        if len(operands) == 1:
            return self._size(operands.pop(), "broadcast")
        ordered = tuple(sorted(operands, key=lambda each: each.terms))
        return self._size(self._named(Formula("broadcast", ordered), "broadcast"), "broadcast")

    def window(self, size: Dim, extent: int, stride: int) -> Dim:
        """How often a window of ``extent`` elements fits into ``size`` elements, with steps of ``stride``."""
        return self.total((self.quotient(self.total((size, -extent)), stride, "window"), 1), "window")

    def never_negative(self, dim: Dim) -> bool:
        """Whether a size that was computed is known not to be negative; dimensions of tensors are not."""
        return dim in self.meanings.dimensions or self._natural(self._expanded(dim))

    # -- how ---------------------------------------------------------------------------------------------------------

    def _expanded(self, dim: Dim) -> Polynomial:
        """A size over symbols that are no sums."""
        if not isinstance(dim, Size):
            return Polynomial.number(int(dim))
        result = Polynomial.number(dim.coefficient)
        for name in dim.symbols:
            formula = self.meanings.formulas.get(name)
            meant = formula.operands[0] if formula is not None and formula.op == "sum" else None
            small = meant is not None and len(meant.terms) * len(result.terms) <= _TERMS
            result *= meant if meant is not None and small else Polynomial.symbol(name)
        return result

    def _size(self, polynomial: Polynomial, label: str) -> Dim:
        """A polynomial as a size: its content times the symbol of what is left. Raises :class:`OverflowError` where its
        numbers are beyond those that sizes have.
        """
        if any(abs(factor) >> 63 for _, factor in polynomial.terms):
            raise OverflowError("a size exceeds int64")
        if polynomial.constant is not None:
            return polynomial.constant
        symbols, factor = polynomial.content()
        rest = polynomial.over(symbols, factor)
        if rest is None or rest == _ONE:
            return Size(factor, symbols)
        name = self._symbol(Formula("sum", (rest,)), label)
        return product((Size(factor, symbols) if symbols else factor, symbol(name)))

    def _named(self, formula: Formula, label: str) -> Polynomial:
        return Polynomial.symbol(self._symbol(formula, label))

    def _symbol(self, formula: Formula, label: str) -> str:
        name, known = self.meanings.symbol_of(formula, f"{self.name}_{label}"), self.meanings.natural
        if name not in known:
            decide = any if formula.op == "max" else all
            known[name] = decide(map(self._natural, formula.operands))
        return name

    def _alternatives(self, polynomial: Polynomial) -> tuple[Polynomial, ...]:
        """What a size was broadcast from, else the size itself."""
        ((symbols, factor), *others) = polynomial.terms
        formula = self.meanings.formulas.get(symbols[0]) if len(symbols) == factor == 1 and not others else None
        return formula.operands if formula is not None and formula.op == "broadcast" else (polynomial,)

    def _divided(self, dividend: Polynomial, divisor: Polynomial, label: str) -> Polynomial:
        number = divisor.constant
        if number is None:
            (symbols, factor), *others = divisor.terms
            exact = None if others else dividend.over(symbols, factor)
            return exact or self._named(Formula("quotient", (dividend, divisor)), label)
        if number < 0:
            dividend, number = dividend * Polynomial.number(-1), -number
        whole = Polynomial.of({symbols: factor // number for symbols, factor in dividend.terms})
        rest = dividend - whole * Polynomial.number(number)
        rest, number = self._unnested(rest, number)
        if rest.constant is not None:
            return whole + Polynomial.number(rest.constant // number)
        return whole + self._named(Formula("quotient", (rest, Polynomial.number(number))), label)

    def _unnested(self, dividend: Polynomial, divisor: int) -> tuple[Polynomial, int]:
        """The same division where the dividend is itself a quotient by a number, plus a number."""
        parts = dict(dividend.terms)
        offset = parts.pop((), 0)
        if len(parts) != 1:
            return dividend, divisor
        ((symbols, factor),) = parts.items()
        formula = self.meanings.formulas.get(symbols[0]) if factor == 1 and len(symbols) == 1 else None
        inner = formula.operands[1].constant if formula is not None and formula.op == "quotient" else None
        if formula is None or inner is None:
            return dividend, divisor
        return formula.operands[0] + Polynomial.number(offset * inner), divisor * inner

    def _extreme(self, op: str, operands: Sequence[Polynomial], label: str) -> Polynomial:
        """The largest or smallest of polynomials, without those that another one is known to outdo."""
        sign = 1 if op == "max" else -1
        kept: list[Polynomial] = []
        for operand in dict.fromkeys(operands):
            if any(self._outdoes(other, operand, sign) for other in kept):
                continue
            kept = [other for other in kept if not self._outdoes(operand, other, sign)]
            kept.append(operand)
        if len(kept) == 1:
            return kept[0]
        return self._named(Formula(op, tuple(sorted(kept, key=lambda each: each.terms))), label)

    def _outdoes(self, left: Polynomial, right: Polynomial, sign: int) -> bool:
        return self._natural((left - right) * Polynomial.number(sign))

    def _natural(self, polynomial: Polynomial) -> bool:
        """Whether a polynomial is known not to be negative: no coefficient is, and no symbol; or a lower bound is."""
        for _ in range(_BOUNDS):
            if all(factor > 0 and all(map(self._natural_symbol, symbols)) for symbols, factor in polynomial.terms):
                return True
            bound, number = self._bound(polynomial)
            if number == 1 or len(bound.terms) > _TERMS:
                return False
            polynomial = bound + Polynomial.number(number - 1)
        return False

    def _bound(self, polynomial: Polynomial) -> tuple[Polynomial, int]:
        """A lower bound, times a number: by it quotients are replaced, which are at most one short of the division."""
        divisions: dict[Symbols, tuple[Polynomial, int]] = {}
        for symbols, _ in polynomial.terms:
            formula = self.meanings.formulas.get(symbols[0]) if len(symbols) == 1 else None
            divisor = formula.operands[1].constant if formula is not None and formula.op == "quotient" else None
            if formula is not None and divisor is not None:
                divisions[symbols] = formula.operands[0], divisor
        number = lcm(*(divisor for _, divisor in divisions.values()))
        parts = []
        for symbols, factor in polynomial.terms:
            if symbols in divisions:
                dividend, divisor = divisions[symbols]
                least = dividend - Polynomial.number(divisor - 1) if factor > 0 else dividend
                parts.append(least * Polynomial.number(number // divisor * factor))
            else:
                parts.append(Polynomial.of({symbols: factor * number}))
        return Polynomial.sum_of(parts), number

    def _natural_symbol(self, name: str) -> bool:
        return self.meanings.natural.get(name, True)
