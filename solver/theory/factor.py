"""Factoring dimensions into atoms.

Every dimension of every tensor is an *axis*. Operators and views say which sequences of axes are equal products:
``[H*W*C]`` is ``H, W, C``. Linking two sequences splits axes until both have the same factors. A link that has no
common refinement changes nothing and is reported, so that only the operator that asked for it has to do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from layoutsolve.ir.graph import Dim, Shape, Size, product, quotient

Block = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of one shape, by number, and those of another one that are the same number of elements."""


def blocks(before: Shape, after: Shape) -> list[Block] | None:
    """The smallest parts of two shapes, dimensions of size 1 left out, that a Reshape from one to the other keeps
    apart. None where the shapes are not known to have the same number of elements.
    """
    left = [axis for axis, dim in enumerate(before) if dim != 1]
    right = [axis for axis, dim in enumerate(after) if dim != 1]
    found: list[Block] = []
    one: list[int] = []
    other: list[int] = []
    while left or right:
        sizes = product(before[axis] for axis in one), product(after[axis] for axis in other)
        if left and (not right or _extent(sizes[0]) <= _extent(sizes[1])):
            one.append(left.pop(0))
        else:
            other.append(right.pop(0))
        if product(before[axis] for axis in one) == product(after[axis] for axis in other):
            found.append((tuple(one), tuple(other)))
            one, other = [], []
    return None if one or other else found


def _extent(size: Dim) -> tuple[int, int]:
    """What sizes are compared by: the number of unknown factors, then the known one."""
    return (len(size.symbols), size.coefficient) if isinstance(size, Size) else (0, size)


def factors(left: Sequence[Dim], right: Sequence[Dim]) -> list[Dim] | None:
    """The sizes of the coarsest factors that two products have in common, None where they have none."""
    one, other = list(left)[::-1], list(right)[::-1]
    found: list[Dim] = []
    while one and other:
        first, second = one.pop(), other.pop()
        if first == second:
            found.append(first)
        elif rest := quotient(first, second):
            one.append(rest)
            found.append(second)
        elif rest := quotient(second, first):
            other.append(rest)
            found.append(first)
        else:
            return None
    return None if one or other else found


class Factoring:
    """Axes, merged where they are equal and split where they are products. Links are undone by a log, never by
    copies.
    """

    def __init__(self) -> None:
        self._sizes: list[Dim] = []
        self._parents: list[int] = []
        self._ranks: list[int] = []
        self._parts: list[tuple[int, int] | None] = []
        self._log: list[tuple[int, int]] = []

    def axis(self, size: Dim) -> int:
        """A new axis, equal to no other one so far."""
        self._sizes.append(size)
        self._parents.append(len(self._parents))
        self._ranks.append(0)
        self._parts.append(None)
        return len(self._sizes) - 1

    def size(self, axis: int) -> Dim:
        """The size of an axis."""
        return self._sizes[axis]

    def leaves(self, axes: Iterable[int]) -> list[int]:
        """The factors that a sequence of axes is split into, size 1 left out; equal factors have equal numbers."""
        result: list[int] = []
        stack = list(axes)[::-1]
        while stack:
            axis = self._find(stack.pop())
            parts = self._parts[axis]
            if parts is not None:
                stack.extend(parts[::-1])
            elif self._sizes[axis] != 1:
                result.append(axis)
        return result

    def link(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> bool:
        """Make the two sequences of every pair equal products, all or nothing; False where a pair has no common
        refinement.
        """
        mark = len(self._log)
        if all(self._equate(left, right) for left, right in pairs):
            self._log.clear()
            return True
        self._undo(mark)
        return False

    def _equate(self, left: Sequence[int], right: Sequence[int]) -> bool:
        if left == right or (len(left) == len(right) == 1 and self._find(left[0]) == self._find(right[0])):
            return True
        one, other = self.leaves(left)[::-1], self.leaves(right)[::-1]
        while one and other:
            first, second = self._expanded(one), self._expanded(other)
            if self._sizes[first] == self._sizes[second]:
                self._merge(first, second)
            elif (rest := self._factor(first, second)) is not None:
                one.append(rest)
            elif (rest := self._factor(second, first)) is not None:
                other.append(rest)
            else:
                return False
        return not one and not other

    def _expanded(self, stack: list[int]) -> int:
        """Take the next factor off a stack, in its present, perhaps finer state."""
        axis = self._find(stack.pop())
        while (parts := self._parts[axis]) is not None:
            stack.append(parts[1])
            axis = self._find(parts[0])
        return axis

    def _factor(self, axis: int, first: int) -> int | None:
        """Split ``axis`` into ``first`` and a rest, which is returned; None where ``first`` is not a factor of it."""
        rest = quotient(self._sizes[axis], self._sizes[first])
        if rest is None or rest == 0:
            return None
        remaining = self.axis(rest)
        self._parts[axis] = (first, remaining)
        self._log.append((axis, -1))
        return remaining

    def _merge(self, one: int, other: int) -> None:
        if one == other:
            return
        if self._ranks[one] < self._ranks[other]:
            one, other = other, one
        self._parents[other] = one
        self._ranks[one] += self._ranks[one] == self._ranks[other]
        self._log.append((other, one))

    def _find(self, axis: int) -> int:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def _undo(self, mark: int) -> None:
        while len(self._log) > mark:
            axis, root = self._log.pop()
            if root == -1:
                self._parts[axis] = None
            else:
                self._parents[axis] = axis
