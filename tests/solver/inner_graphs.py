"""Random small graphs with dimensions that one operator adds and another one takes away: nobody else knows them.

Where they lie among the others is free, so that orders of what is in between are demanded by nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from layoutsolve.graph import Graph
from tests.solver.mixed_graphs import LARGEST, Mixed


class Inner(Mixed):
    """As :class:`Mixed`, whose layers often add a dimension and take one away a little later."""

    def add_input(self) -> None:
        shape = [self.among(1, 2, 3, 4) for _ in range(self.among(2, 3, 4))]
        self.pool.append(self.builder.input(*shape, dtype=self.dtype, quant=self.quant))

    def grown(self) -> None:
        """A dimension of size 1 that gets larger: padded, repeated, or joined."""
        x = self.read()
        shape = self.shape(x)
        axes = [axis for axis, dim in enumerate(shape) if dim == 1]
        if not axes or prod(shape) > LARGEST / 3:
            return
        axis = axes[int(self.random.integers(len(axes)))]
        larger = (*shape[:axis], 3, *shape[axis + 1 :])
        kind = self.among(0, 1, 2)
        if kind == 0:
            widths = [int(each == axis) for each in range(len(shape))]
            self.write("Pad", x, self.vector(*widths, *widths), shape=larger)
        elif kind == 1:
            self.write("Tile", x, self.vector(*(3 if each == axis else 1 for each in range(len(shape)))), shape=larger)
        else:
            self.write("Concat", x, x, x, shape=larger, axis=axis)

    def outer(self) -> None:
        """A sum of two, each of which lacks a dimension that the other one has."""
        x = self.read()
        shape = self.shape(x)
        others = [y for y in self.pool if y != x and len(self.shape(y)) == len(shape)]
        for y in self.random.permutation(others).tolist():
            theirs = self.shape(y)
            if all(a == b or 1 in (a, b) for a, b in zip(shape, theirs, strict=True)):
                both = tuple(map(max, zip(shape, theirs, strict=True)))
                if both not in (shape, theirs) and prod(both) <= LARGEST:
                    self.write("Add", x, str(y), shape=both)
                    return

    def taken(self) -> None:
        """A dimension summed up, or one place of it picked."""
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        if shape[axis] == 1:
            return
        if self.chance(0.3):
            self.write("Gather", x, self.vector(0), shape=(*shape[:axis], 1, *shape[axis + 1 :]), axis=axis)
            return
        keep = self.chance(0.7) or len(shape) == 1
        left = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        self.write(("ReduceMean", "ReduceSum", "ReduceMax")[self.among(0, 1, 2)], x, self.vector(axis), shape=left)
        self.builder.nodes[-1].attributes["keepdims"] = int(keep)

    def graph(self, layers: int) -> Graph:
        for _ in range(self.among(1, 2, 3)):
            self.add_input()
        makers: list[Callable[[], None]] = [
            *(self.grown, self.grown, self.grown, self.outer, self.outer, self.outer, self.taken, self.taken),
            *(self.taken, self.taken, self.unary, self.softmax, self.transpose, self.reshape, self.product, self.pad),
        ]
        return self.made(makers, layers)


def inner_graph(seed: int) -> Graph:
    """A graph of four to nine layers."""
    made = Inner(seed)
    return made.graph(int(made.random.integers(4, 10)))
