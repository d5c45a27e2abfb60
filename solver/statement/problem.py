"""The layout problem: plain data that states which layouts go together, and what moving between them costs.

A *variable* is a piece of data that some operator produces: a tensor together with all its views (Transpose and
Reshape of it), which are the same data read differently. A *row* of an operator says in which layouts it can take its
inputs together with the layouts in which it then gives its outputs. An assignment picks one row per operator.
Wherever a reader wants a variable in another layout than its producer gives, data is moved; all readers that want the
same layout share the move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from layoutsolve.graph import Dim, Size
from layoutsolve.solver.theory.layout import Layout, scattered, scatterings
from layoutsolve.solver.theory.row import Row


@dataclass(frozen=True, slots=True)
class Operator:
    """A relation between variables. ``ports`` holds a variable's number per port, the first ``inputs`` of them are
    read.

    ``node`` is the number of the node in the graph, or -1 for an end of the graph: an input, an output, an explicit
    layout, which are relations on one variable alone; ``end`` then names the tensor. ``title`` is for people.
    """

    title: str
    node: int
    ports: tuple[int, ...]
    inputs: int
    rows: tuple[Row, ...]
    end: str = ""
    meaning: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """Data that lies in memory in some layout. ``readings`` maps each of its tensors to that tensor's own, logical
    layout.

    ``constant`` data is rearranged while converting, which costs nothing; each reader has a variable of its own.
    """

    title: str
    sizes: tuple[Dim, ...]
    bytes: int
    readings: Mapping[str, Layout]
    constant: bool = False

    @property
    def rigid(self) -> bool:
        """Whether several sizes are known by name only, so that a Reshape cannot state them all."""
        return sum(isinstance(size, Size) for size in self.sizes) > 1


@dataclass(frozen=True)
class Constant:
    """A constant that several ports read: the variable of each, and the bytes that one copy takes.

    One that is an ``output`` of the graph as well is stored as in the source model in any case.
    """

    variables: tuple[int, ...]
    bytes: int
    output: bool = False


Clock = Callable[[Variable, Layout, Layout], int]


@dataclass(frozen=True)
class LayoutProblem:
    """Variables, operators with their rows, and whether the cap on candidate layouts was hit (``capped``).

    With ``clock`` moves are also priced by time: it gives the nanoseconds of a variable's move between two layouts.
    ``constants`` are those that are wanted several times.
    ``scatter`` is the number of hidden transpositions that a scattered Transpose is worth.
    """

    variables: tuple[Variable, ...]
    operators: tuple[Operator, ...]
    capped: bool = False
    clock: Clock | None = None
    constants: tuple[Constant, ...] = ()
    scatter: int = 0

    def lost(self, source: Layout, target: Layout) -> int:
        """The hidden transpositions of a Transpose from ``source`` to ``target``."""
        return self.scatter * scattered(source, target)

    def losses(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> list[list[int]]:
        """The same for each of the sources to each of the targets."""
        return [[self.scatter * each for each in row] for row in scatterings(sources, targets)]

    def loses(self, sources: Iterable[Layout], targets: Iterable[Layout]) -> bool:
        """Whether a Transpose from one of the sources to one of the targets has hidden transpositions."""
        return any(map(any, self.losses(list(sources), list(targets))))

    @cached_property
    def writers(self) -> tuple[tuple[int, int] | None, ...]:
        """For each variable the operator and port that produces it, None for a constant."""
        found: list[tuple[int, int] | None] = [None] * len(self.variables)
        for number, operator in enumerate(self.operators):
            for port in range(operator.inputs, len(operator.ports)):
                found[operator.ports[port]] = (number, port)
        return tuple(found)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each variable the operators and ports that read it."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.variables]
        for number, operator in enumerate(self.operators):
            for port in range(operator.inputs):
                found[operator.ports[port]].append((number, port))
        return tuple(tuple(places) for places in found)

    def moving(self) -> list[int]:
        """The variables whose moves cost something: those that are not constant."""
        return [number for number, variable in enumerate(self.variables) if not variable.constant]


def chosen(problem: LayoutProblem, rows: Sequence[int], number: int) -> Row:
    """The row that a list of choices gives an operator."""
    return problem.operators[number].rows[rows[number]]
