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
from layoutsolve.solver.layout import Layout, scattered, scatterings

Slot = tuple[str, int]
"""A factor of an operator's own index space: the label of a dimension and the number of the factor within it."""

Arrangement = tuple[tuple[Slot, ...], ...]
"""An order and grouping of an operator's slots, as :data:`Layout` is one of a tensor's atoms."""


@dataclass(frozen=True, slots=True)
class Price:
    """What layouts cost.

    ``transposes`` and ``reshapes`` are operators in the file, ``hidden`` transpositions that a kernel makes inside, or
    time of that order that it loses to a generic path. ``bytes`` counts what the Transposes move, symbolic dimensions
    as 1. ``nanoseconds`` is what a target's table makes of moves and slow rows; 0 where it was not asked for.
    ``copies`` are the bytes of constants that are stored in more than one way, without the first. ``regrouped`` counts,
    where only orders are decided, the ports at which a row merges dimensions: an estimate of the Reshapes to come.
    """

    transposes: int = 0
    hidden: int = 0
    reshapes: int = 0
    bytes: int = 0
    nanoseconds: int = 0
    copies: int = 0
    regrouped: int = 0

    def __add__(self, other: Price) -> Price:
        return Price(
            self.transposes + other.transposes,
            self.hidden + other.hidden,
            self.reshapes + other.reshapes,
            self.bytes + other.bytes,
            self.nanoseconds + other.nanoseconds,
            self.copies + other.copies,
            self.regrouped + other.regrouped,
        )


FREE = Price()


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run an operator: the layout of each of its ports, inputs first.

    ``form`` is the number of the alternative among those of the operator's rule, ``arrangement`` the order of the
    operator's slots from which the layouts come, ``price`` what the row itself costs. A row that is not ``anchored`` is
    demanded by nothing: it is there to make every tensor's source layout available.
    """

    layouts: tuple[Layout, ...]
    form: int = 0
    arrangement: Arrangement = ()
    price: Price = FREE
    anchored: bool = True


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
    """A constant that several ports read: the variable of each, and the bytes that one copy takes."""

    variables: tuple[int, ...]
    bytes: int


Clock = Callable[[Variable, Layout, Layout], int]


@dataclass(frozen=True)
class LayoutProblem:
    """Variables, operators with their rows, and whether the cap on candidate layouts was hit (``capped``).

    With ``clock`` moves are also priced by time: it gives the nanoseconds of a variable's move between two layouts.
    ``constants`` are those that several operators read.
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


Tiers = tuple[tuple[str, ...], ...]
"""What is minimised: first the first tier, then the second among its minima, and so on; a tier sums fields of Price."""

OBJECTIVES: Mapping[str, Tiers] = {
    "min-executed": (("transposes", "hidden"), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
    "min-transpose": (("transposes",), ("hidden",), ("bytes",), ("reshapes",), ("copies",)),
    "min-bytes": (("bytes",), ("transposes", "hidden"), ("transposes",), ("reshapes",), ("copies",)),
    "min-nodes": (("transposes", "reshapes"), ("hidden",), ("bytes",), ("copies",)),
    "min-latency": (("nanoseconds",), ("transposes",), ("bytes",), ("reshapes",), ("copies",)),
}

DEFAULT_OBJECTIVE = "min-executed"

TIE = ("regrouped",)
"""The tier that decides among orders of equal price: nothing is claimed of it."""


def ranked(price: Price, tiers: Tiers) -> tuple[int, ...]:
    """The price as a tuple that compares as the tiers say."""
    return tuple(sum(getattr(price, name) for name in tier) for tier in tiers)


def coarse_tiers(tiers: Tiers) -> Tiers | None:
    """The tiers that depend on orders alone, where only what depends on groupings too comes after them."""
    return tiers[:-2] if tiers[-2:] == (("reshapes",), ("copies",)) else None


@dataclass(frozen=True)
class Goal:
    """What layouts are chosen for: an objective, and whether operators of ONNX Runtime's own domain may serve it."""

    objective: str = DEFAULT_OBJECTIVE
    contrib: bool = False

    @property
    def tiers(self) -> Tiers:
        """What is minimised."""
        return OBJECTIVES[self.objective]

    @property
    def timed(self) -> bool:
        """Whether rows and moves are priced in time as well."""
        return ("nanoseconds",) in self.tiers


@dataclass(frozen=True)
class Part:
    """What is known about one component: its operators, how many rows they have to choose from (``booleans``), the
    first tier of its price and a proven lower bound on that.

    ``method`` is what the bound comes from: 'enumeration', 'cp-sat' or 'min cut'.
    """

    operators: tuple[int, ...]
    booleans: int
    value: int
    bound: int
    method: str


@dataclass(frozen=True)
class Assignment:
    """A solution: the number of the chosen row of each operator, its price, and what is proven about it.

    ``bound`` is a proven lower bound on the first tier of the objective; ``status`` is 'optimal' where every tier is
    proven, else 'feasible'. ``components`` counts the independent parts the problem fell into after presolve,
    ``branched`` the Boolean variables that reached the solver. ``parts`` has what is known about each component; it
    is empty for strategies that prove nothing. ``ended`` is the limit that cut the search off: 'work', 'seconds' or ''
    for none.
    """

    problem: LayoutProblem
    rows: tuple[int, ...]
    price: Price
    goal: Goal
    strategy: str
    status: str
    bound: int
    components: int = 0
    branched: int = 0
    parts: tuple[Part, ...] = ()
    ended: str = ""

    @property
    def objective(self) -> str:
        """The objective that was minimised."""
        return self.goal.objective

    def row(self, operator: int) -> Row:
        """The chosen row of an operator."""
        return self.problem.operators[operator].rows[self.rows[operator]]

    def written(self, variable: int) -> Layout | None:
        """The layout in which a variable is produced, None for a constant."""
        writer = self.problem.writers[variable]
        return None if writer is None else self.row(writer[0]).layouts[writer[1]]

    def read(self, variable: int) -> list[Layout]:
        """The layouts in which a variable is read, without repetition, in a fixed order."""
        return sorted({self.row(number).layouts[port] for number, port in self.problem.readers[variable]})


def chosen(problem: LayoutProblem, rows: Sequence[int], number: int) -> Row:
    """The row that a list of choices gives an operator."""
    return problem.operators[number].rows[rows[number]]
