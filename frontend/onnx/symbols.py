"""The symbols that sizes of a model have, which are the same however often the model is lowered, and what is found out
of them: that two sizes are equal wherever the model runs at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from layoutsolve.frontend.arithmetic import Meanings
from layoutsolve.ir.graph import Dim, Size, product, symbol
from layoutsolve.ir.names import Names

_MOST, _STEPS = 1 << 10, 1 << 20
"""How many symbols may be found to be something else, and how many symbols are looked at for that."""

_LONGEST = 64
"""How many symbols are multiplied at most."""


class Symbols:
    """The symbols of one model. Those that are free are known by what they are called after, and by how many were
    called so before in one lowering; those that are derived by what they mean. What inputs call their sizes is
    ``stated``: of two that are equal it is the name that stays.
    """

    def __init__(self) -> None:
        self.equal: dict[str, Dim] = {}
        self.stated = set[str]()
        self.meanings = Meanings(self._unique)
        self._names = Names()
        self._free: dict[tuple[str, int], Size] = {}
        self._asked = Counter[str]()
        self._steps = _STEPS

    def begin(self) -> None:
        """Begin to lower the model."""
        self._asked.clear()

    def fresh(self, name: str) -> Size:
        """A free symbol that nothing has yet in this lowering."""
        wish = name.replace("*", "_")
        key = wish, self._asked[wish]
        self._asked[wish] += 1
        if key not in self._free:
            self._free[key] = symbol(self._names.unique(wish))
        return self._free[key]

    def _unique(self, wish: str) -> str:
        return self._names.unique(wish.replace("*", "_"))

    def equate(self, one: Dim, other: Dim) -> bool:
        """Record that two sizes are equal; whether that determines a symbol. No symbol is determined by what depends on
        itself.
        """
        left, right = (
            dim if isinstance(dim, Size) else Size(dim, ())
            for dim in (resolved(each, self.equal) for each in (one, other))
        )
        common = list((Counter(left.symbols) & Counter(right.symbols)).elements())
        rests = [Counter(each.symbols) - Counter(common) for each in (left, right)]
        sides = [(left, rests[0]), (right, rests[1])]
        if not rests[1].keys() & self.stated and rests[0].keys() & self.stated:
            sides.reverse()
        for (mine, own), (theirs, others) in (sides, sides[::-1]):
            names, rest = list(own.elements()), list(others.elements())
            if mine.coefficient == 0 or theirs.coefficient % mine.coefficient:
                continue
            number = theirs.coefficient // mine.coefficient
            if len(names) == 1 and names != rest and len(rest) <= 1 and not self._depend(rest, names[0]):
                return self._note(names, product([number, *map(symbol, rest)]))
            if names and not rest and number == 1:
                return self._note(names, 1)
        return False

    def _note(self, names: list[str], dim: Dim) -> bool:
        if len(self.equal) + len(names) > _MOST:
            return False
        self.equal.update(dict.fromkeys(names, dim))
        return True

    def _depend(self, names: list[str], name: str) -> bool:
        """Whether one of some symbols depends on another one, as far as that is looked at."""
        seen, stack = set[str](), list(names)
        while stack:
            current = stack.pop()
            if current == name or self._steps < 0:
                return True
            if current in seen:
                continue
            seen.add(current)
            self._steps -= 1
            formula, stands = self.meanings.formulas.get(current), self.equal.get(current)
            stack += formula.symbols if formula is not None else ()
            stack += stands.symbols if isinstance(stands, Size) else ()
        return False


def resolved(dim: Dim, equal: Mapping[str, Dim]) -> Dim:
    """A size in which symbols are replaced by what they are known to be."""
    while isinstance(dim, Size) and not equal.keys().isdisjoint(dim.symbols):
        dim = product([dim.coefficient, *(equal.get(name, symbol(name)) for name in dim.symbols)])
    return dim


def is_size(dim: object) -> bool:
    """Whether something may be a size, or a part of one, that is followed: no product is longer than that."""
    number, symbols = (dim.coefficient, dim.symbols) if isinstance(dim, Size) else (dim, ())
    return isinstance(number, int) and abs(number) < 1 << 63 and len(symbols) <= _LONGEST
