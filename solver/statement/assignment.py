"""Assignments: an alternative for every operator, and what is proven of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from layoutsolve.base.wording import counted, html_table, level_name
from layoutsolve.errors import StrategyError
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.statement.backend_markers import bare_rules, following_rules, graph_rules
from layoutsolve.solver.statement.objective import Goal, coarse_levels, ranked
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, chosen
from layoutsolve.solver.statement.proof_scope import kept_operators
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.markers import MARKS
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Rule

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True)
class Part:
    """What is known about one component: its operators, how many rows they have to choose from (``booleans``), the
    levels of its price (``values``) and proven lower bounds on them.

    A bound holds where the levels before it are as low as their bounds. ``method`` is what bounds come from:
    'elimination', 'cp-sat' (or the relaxation before it), 'min cut' or 'none'.
    """

    operators: tuple[int, ...]
    booleans: int
    values: tuple[int, ...]
    bounds: tuple[int, ...]
    method: str


TIME = ("nanoseconds",)
"""The level of time."""
_AMONG: Mapping[tuple[str, ...], str] = {
    ("reshapes",): "for the chosen orders",
    ("copies",): "for the chosen layouts",
    TIME: "but for Reshapes",
}
"""What conditional levels are minimised for: what those before them chose."""


@dataclass(frozen=True)
class Tier:
    """Level of a lexicographic objective, with its value, lower bound and status: the sum of the fields ``names`` of a
    price.

    ``bound`` is a proven lower bound among the assignments that are minimal on the levels before; 0 where that is not
    proven. ``status`` is 'optimal' where this level and those before it are at their bounds. It is 'conditional' where
    it was minimised for what the levels before chose (Reshapes for the chosen orders, copies for the chosen layouts),
    where the time of all but Reshapes is proven, or where orders and groupings were decided at once among candidates
    that are not all, so that other assignments that are as good before it may be better on it; else 'feasible'. It is
    'planned' where the alternatives are those of a plan, of which nothing is proven.
    """

    names: tuple[str, ...]
    value: int
    bound: int
    status: str

    @property
    def among(self) -> str:
        """Scope of a conditional minimum."""
        return _AMONG.get(self.names, "among candidates")

    def __str__(self) -> str:
        least = f", at least {self.bound}" if self.status != "optimal" and self.bound else ""
        return f"{level_name(self.names)} {self.value} ({self.status}{least})"


def status_of(tiers: Iterable[Tier]) -> str:
    """'optimal' where the first level is, at least but for Reshapes, and every other one is optimal or conditional,
    else 'feasible'.
    """
    first, *others = tiers
    sure = first.status == "optimal" or (first.status == "conditional" and first.names == TIME)
    return "optimal" if sure and all(tier.status != "feasible" for tier in others) else "feasible"


@dataclass(frozen=True, repr=False)
class Assignment:
    """Solution of a layout problem: the number of the chosen alternative of each operator, its price, and what is
    proven.

    ``graph`` is the graph that the operators' node numbers refer to. It is not always the one that was to be solved:
    concatenations may be in steps (:mod:`layoutsolve.solver.statement.concat_steps`). ``stated`` is how its nodes are
    written, by number, where known. Assignments are compared without these two: all else is plain data. ``bounds`` are
    proven lower bounds on the first levels of the objective, each where those before it are as low as their bounds;
    with ``completed`` the levels that orders alone do not decide (:func:`coarse_levels`) were minimised too.
    ``components`` counts the connected components of the problem, ``branched`` the Boolean variables that reached the
    solver. ``parts`` has the result for each component; it is empty for strategies that prove nothing. ``ended`` is the
    limit that ended the search: 'work', 'seconds' or '' for none. Where orders come before groupings, ``charged`` are
    the numbers of the variables with exact conversion costs in the bounds; all others have their cheapest conversion.
    ``unseen`` are the factors that the projection leaves out. ``opaque_views`` are the numbers of Transposes and
    Reshapes that were stated as operators. ``planned`` are the levels as stated by the plan that the alternatives are
    taken from: nothing of them is proven here. Where backends are chosen ``marked`` is what was solved, with markers
    (:mod:`layoutsolve.solver.statement.backend_markers`). ``relative`` is what the proof of another answer is relative
    to, where that proves this one.
    """

    graph: Graph = field(compare=False, repr=False)
    stated: Mapping[int, Rule] | None = field(compare=False, repr=False)
    problem: LayoutProblem
    rows: tuple[int, ...]
    price: Price
    goal: Goal
    strategy: str
    bounds: tuple[int, ...] = ()
    completed: bool = False
    components: int = 0
    branched: int = 0
    parts: tuple[Part, ...] = ()
    ended: str = ""
    charged: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()
    opaque_views: frozenset[int] = frozenset()
    planned: tuple[Tier, ...] = ()
    marked: Assignment | None = field(default=None, compare=False, repr=False)
    relative: Mapping[str, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the rules, which are functions."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"stated": None}

    @cached_property
    def rules(self) -> Mapping[int, Rule]:
        """How the nodes of the graph are written, by number; found again where something asks for it: few do."""
        if self.stated is not None:
            return self.stated
        if self.marked is None:
            rules = graph_rules(self.graph, self.goal.offer, self.opaque_views)
        else:
            rules, _ = bare_rules(self.marked.graph, self.marked.rules)
        marks = any(MARKS in node.attributes for node in self.graph.nodes)
        return rules if marks or not self.goal.target.chooses else rules | self.following(rules)

    def following(self, known: Mapping[int, Rule]) -> dict[int, Rule]:
        """The rules of those operators that run where what they read is written, as it is chosen."""
        forms = {operator.node: self.row(number).form for number, operator in enumerate(self.problem.operators)}
        return following_rules(self.graph, self.goal.target, forms, known)

    def __repr__(self) -> str:
        variables = counted(len(self.problem.variables), "variable")
        return f"<Assignment by {self.strategy}: {self._size}, {variables}; {', '.join(map(str, self.tiers))}>"

    @property
    def _size(self) -> str:
        return counted(len(self.problem.operators), "operator")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.as_table(f"{self.graph.name}: {self._size}, by {self.strategy}")

    def as_table(self, title: str, notes: Iterable[str] = ()) -> str:
        """The levels as a table of HTML."""
        heads = ("what is minimised", "value", "at least", "proven")
        rows = [(level_name(tier.names), tier.value, tier.bound, tier.status) for tier in self.tiers]
        return html_table(title, heads, rows, notes)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The operators and what they hand to each other, for other programs.

        A node is an operator of the problem, by its number: ``title``, ``op`` (of ONNX, '' for an end of the graph).
        An edge leads from what writes a variable to what reads it, by its number: ``tensor``, ``bytes``, ``written``
        and ``read`` (the layouts: for each stored dimension its atoms), and whether data are ``moved`` between the
        two. Constants have no edges.
        Raises :class:`StrategyError` where networkx is missing.
        """
        try:
            import networkx
        except ImportError as error:
            raise StrategyError("graphs need networkx: pip install networkx") from error
        found = networkx.MultiDiGraph(name=self.graph.name, objective=self.objective, status=self.status)
        for number, operator in enumerate(self.problem.operators):
            op = self.graph.nodes[operator.node].op if operator.node >= 0 else ""
            found.add_node(number, title=operator.title, op=op)
        for number, variable in enumerate(self.problem.variables):
            writer, written = self.problem.writers[number], self.written(number)
            if writer is None or written is None:
                continue
            for reader, port in self.problem.readers[number]:
                read = self.row(reader).layouts[port]
                facts = {"written": written, "read": read, "moved": order(written) != order(read)}
                found.add_edge(writer[0], reader, number, tensor=variable.title, bytes=variable.bytes, **facts)
        return found

    @property
    def objective(self) -> str:
        """The objective that was minimised."""
        return self.goal.objective

    @property
    def status(self) -> str:
        """That of all objective levels; 'planned' for the alternatives of a plan, whatever that states."""
        return "planned" if self.planned else status_of(self.tiers)

    @property
    def bound(self) -> int:
        """A proven lower bound on the first level of the objective."""
        return self.tiers[0].bound

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """What is known about each level of the objective.

        Nothing is lower than 0, whatever was searched. A bound that an answer falls below, as views are no operators
        where it was proven, is none, nor are those of the levels behind it.
        """
        found: list[Tier] = []
        tiers, status = self.goal.levels, "optimal"
        values = ranked(self.price, tiers)
        holding = list(takewhile(lambda pair: pair[0] <= pair[1], zip(self.bounds, values, strict=False)))
        for place, (names, value) in enumerate(zip(tiers, values, strict=True)):
            least = holding[place][0] if place < len(holding) else 0
            bound = least if status == "optimal" else 0
            if value != bound or status != "optimal":
                after = place >= len(coarse_levels(tiers) or ())
                after |= place < len(holding) and least == value - (self._regrouping if names == TIME else 0)
                status = "conditional" if self.completed and after and status != "feasible" else "feasible"
            found.append(Tier(names, value, bound, "planned" if self.planned else status))
        return tuple(found)

    @property
    def _regrouping(self) -> int:
        """The nanoseconds of all Reshapes, which follow from the groupings that were found for the orders."""
        counts = ((each, price_of_variable(self.problem, self.rows, each).reshapes) for each in self.problem.moving())
        price, variables = self.goal.target.reshape_price, self.problem.variables
        return sum(price(count, variables[each].turns, timed=True).nanoseconds for each, count in counts)

    @cached_property
    def ends(self) -> dict[tuple[str, bool], tuple[Layout, Layout]]:
        """Logical and stored layout of each graph input, output and explicit layout, by the tensor's name and whether
        it reads (an output, an explicit layout) or writes (an input).
        """
        found = {}
        for number, operator in enumerate(self.problem.operators):
            if operator.end:
                logical = self.problem.variables[operator.ports[0]].readings[operator.end]
                found[operator.end, bool(operator.inputs)] = logical, self.row(number).layouts[0]
        return found

    @cached_property
    def kept(self) -> dict[str, int]:
        """How many operators of each name are kept in their own layout, the most frequent first: what is proven is
        relative to these (:mod:`layoutsolve.solver.statement.proof_scope`).
        """
        if self.relative is not None:
            return dict(self.relative)
        return kept_operators(self.graph, self.problem, self.rules, self.opaque_views, self.price.transposes)

    def row(self, operator: int) -> Row:
        """The chosen alternative of an operator."""
        return chosen(self.problem, self.rows, operator)

    def written(self, variable: int) -> Layout | None:
        """The layout in which a variable is produced, None for a constant."""
        writer = self.problem.writers[variable]
        return None if writer is None else self.row(writer[0]).layouts[writer[1]]

    def read(self, variable: int) -> list[Layout]:
        """The layouts in which a variable is read, without repetition, in a fixed order."""
        return sorted({self.row(number).layouts[port] for number, port in self.problem.readers[variable]})
