"""Random small graphs in which stops pay: what most operators take in any order is demanded in reverse.

Where all dimensions change places a Transpose is slow, and two of them with an operator between may be faster. Views
merge and split dimensions, so that Reshapes are left to choose from.
"""

from __future__ import annotations

from layoutsolve.ir.graph import Graph
from tests.solver.broadcast_graphs import Broadcasts


class Turned(Broadcasts):
    """As :class:`Broadcasts`, with dimensions in reverse, of which the input has one of so many."""

    ranks = (3, 3, 4)

    def add_input(self) -> None:
        sizes = [self.among(2, 3, 4) for _ in range(self.among(*self.ranks))]
        self.pool.append(self.builder.input(*sizes, dtype=self.dtype, quant=self.quant))

    def turn(self) -> None:
        """An operator on single elements, and a view with its dimensions in reverse."""
        self.unary()
        x = self.pool[-1]
        rank = len(self.shape(x))
        if rank > 2:
            self.pool.append(self.builder.transpose(x, *reversed(range(rank))))

    def graph(self, layers: int) -> Graph:
        self.add_input()
        makers = [self.turn, self.turn, self.regroup, self.regroup, self.unary, self.concat, self.binary]
        return self.made(makers, layers)


def turned_graph(seed: int) -> Graph:
    """A graph of three to seven layers."""
    made = Turned(seed)
    return made.graph(int(made.random.integers(3, 8)))


class LargeTurned(Turned):
    """The same with more dimensions: what moves slowly may have more than a few blocks."""

    ranks = (4, 5, 5)


def large_turned_graph(seed: int) -> Graph:
    """A graph of two to five layers."""
    made = LargeTurned(seed)
    return made.graph(int(made.random.integers(2, 6)))
