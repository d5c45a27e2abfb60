"""Random small graphs of operators whose operands have only a part of their dimensions: broadcasts and reductions.

What such an operand shows of an operator's layout is combined with what others show. Between them views merge
dimensions that were apart, and split them, so that groupings meet that do not agree.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from layoutsolve.ir.graph import Graph
from tests.solver.mixed_graphs import LARGEST, Mixed


class Broadcasts(Mixed):
    """As :class:`Mixed`, with inputs that are broadcast against each other."""

    def add_input(self) -> None:
        sizes = [self.among(2, 3, 4, 6) for _ in range(self.among(2, 3, 3))]
        self.pool.append(self.builder.input(*sizes, dtype=self.dtype, quant=self.quant))
        for _ in range(self.among(1, 2, 3)):
            part = [dim if self.chance(0.6) else 1 for dim in sizes]
            part = part[self.among(*range(len(part))) :] if self.chance(0.4) else part
            self.pool.append(self.builder.input(*part, dtype=self.dtype, quant=self.quant))

    def product(self) -> None:
        """A product of matrices, of which one may lack a part of the batch."""
        x = self.read()
        shape = self.shape(x)
        pairs = [
            (y, turned)
            for y in self.pool
            for turned in (False, True)
            if 2 <= len(self.shape(y)) <= len(shape) < 5 and len(shape) > 2
            if self.shape(y)[-1 if turned else -2] == shape[-1] and self.shape(y)[-2 if turned else -1] < 13
            if all(each in (1, dim) for each, dim in zip(self.shape(y)[-3::-1], shape[-3::-1], strict=False))
        ]
        if not pairs:
            return
        y, turned = pairs[int(self.random.integers(len(pairs)))]
        if turned:
            rank = len(self.shape(y))
            y = self.builder.transpose(y, *range(rank - 2), rank - 1, rank - 2)
        self.write("MatMul", x, y, shape=(*shape[:-1], self.shape(y)[-1]))

    def regroup(self) -> None:
        """A view with two dimensions as one, or one as two."""
        x = self.read()
        shape = list(self.shape(x))
        if len(shape) > 1 and self.chance(0.5):
            first = int(self.random.integers(len(shape) - 1))
            shape[first : first + 2] = [shape[first] * shape[first + 1]]
        else:
            cuts = [(at, by) for at, dim in enumerate(shape) for by in (1, 2, 3) if dim % by == 0 and dim > by]
            if not cuts or len(shape) > 3:
                return
            at, by = cuts[int(self.random.integers(len(cuts)))]
            shape[at : at + 1] = [by, shape[at] // by][:: self.among(1, -1)]
        self.pool.append(self.builder.reshape(x, *shape))

    def spread(self) -> None:
        """A sum with an operand that lacks dimensions: what is left of a tensor after a reduction."""
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        kept = tuple(1 if each == axis else dim for each, dim in enumerate(shape))
        self.write("ReduceMean", x, self.vector(axis), shape=kept, keepdims=1)
        part = self.pool[-1]
        if self.chance(0.5):
            self.unary_of(part)
        if self.chance(0.5) and prod(shape) <= LARGEST:
            self.write("Mul", x, self.pool[-1], shape=shape)

    def unary_of(self, x: str) -> None:
        self.write("Relu", x, shape=self.shape(x))

    def graph(self, layers: int) -> Graph:
        self.add_input()
        makers: list[Callable[[], None]] = [
            *(self.regroup, self.regroup, self.regroup, self.binary, self.binary, self.binary, self.spread),
            *(self.product, self.product, self.unary, self.transpose, self.reduce, self.concat, self.dense),
        ]
        return self.made(makers, layers)


def broadcast_graph(seed: int) -> Graph:
    """A graph of four to ten layers."""
    made = Broadcasts(seed)
    return made.graph(int(made.random.integers(4, 11)))
