"""Backends: which of them runs which operator, where data cross from one to another, and how these are chosen.

Where a target chooses its backends, in which of them operators run, or in none, is decided with layouts.

A tensor that is written in one backend and read in another one crosses. That is stated as a layout, so that nothing
that searches has to know of it: each tensor at such an operator gets *markers* for each backend in which it may be
written or read, as many as a crossing costs (:mod:`layoutsolve.solver.theory.markers`). Where reader and writer are in
different backends markers are moved, once for all readers of a backend, which costs as much as so many Transposes. What
runs in no backend with a name has its markers at the ends of the graph. What follows has markers beside its results
that the operator writes which it follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import NOTHING, Graph, Node, Value
from layoutsolve.ir.names import Names
from layoutsolve.solver.statement.assignment import MOVES, Assignment
from layoutsolve.solver.statement.boundary import OTHERS, Boundary, Ends
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.markers import MARKS, SHAPE, Marks, uncoupled
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.row import Price
from layoutsolve.solver.theory.rule import Rule, Site


@dataclass(frozen=True)
class Crossing:
    """A variable that is written in one backend and read in another one, by operators whose numbers are ``readers``.

    ``price`` is in Transposes. The ends of a model are in the backend '', that of everything that no other one runs.
    """

    variable: int
    source: str
    target: str
    readers: tuple[int, ...]
    price: int


def backend_of(assignment: Assignment, number: int) -> str:
    """The backend that runs an operator of the problem."""
    operator = assignment.problem.operators[number]
    rule = assignment.rules.get(operator.node)
    return "" if rule is None else rule.ways[assignment.row(number).form].backend


def crossings(assignment: Assignment) -> Iterator[Crossing]:
    """What crosses from one backend to another: each variable once for all that read it in the same one."""
    table = assignment.goal.target.table
    if table is None or not table.backends:
        return
    problem = assignment.problem
    for variable in problem.moving():
        writer = problem.writers[variable]
        if writer is None:
            continue
        source = backend_of(assignment, writer[0])
        readers: dict[str, list[int]] = {}
        for reader, _ in problem.readers[variable]:
            readers.setdefault(backend_of(assignment, reader), []).append(reader)
        for target in sorted(readers.keys() - {source}):
            own = table.backends.get(target or source)
            price = 0 if own is None else own.crossing
            yield Crossing(variable, source, target, tuple(dict.fromkeys(readers[target])), price)


def marked(graph: Graph, target: Target) -> Graph:
    """The graph with markers for a target that chooses backends; the very graph for any other, and where there is
    nothing to choose. Raises :class:`OptionError` for operators that are to follow two tensors, and where
    the target has the moves of markers cost more than one Transpose.
    """
    if not target.chooses:
        return graph
    if target.lost[Motion.SWAP]:
        raise OptionError(
            f"target '{target.name}' chooses backends, where a crossing is counted as fast Transposes are: leave out "
            "hidden.Transpose.swap"
        )
    atoms = Atoms(graph, (), target.offer)
    backends = {
        number: tuple(dict.fromkeys(way.backend for way in atoms.rule(number).ways))
        for number in range(len(graph.nodes))
        if number not in atoms.views
    }
    chosen = {number: each for number, each in backends.items() if any(each)}
    if not chosen:
        return graph
    marking = _Marking(graph, target, atoms.views, chosen)
    return marking.result() if any(marking.markers.values()) else graph


def fixed(boundary: Boundary, graph: Graph) -> Boundary:
    """The boundary of a graph with markers, which stay where they are at its ends."""
    inputs, outputs = (
        [name for name in names if graph.values[name].dtype == NOTHING] for names in (graph.inputs, graph.outputs)
    )
    ends = _kept(boundary.inputs, inputs), _kept(boundary.outputs, outputs)
    return replace(boundary, inputs=ends[0], outputs=ends[1])


def _kept(ends: Ends, markers: list[str]) -> Ends:
    general = {OTHERS: ends} if isinstance(ends, str) else ends
    return {**general, **dict.fromkeys(markers, "keep")}


def unmarked(found: Assignment, graph: Graph) -> Assignment:
    """An assignment of a graph with markers as one of that without; what crosses is hidden in its price."""
    problem, values = found.problem, found.graph.values
    markers = {number for number, each in enumerate(problem.variables) if values[each.title].dtype == NOTHING}
    places = {old: new for new, old in enumerate(each for each in range(len(problem.variables)) if each not in markers)}
    numbers = [number for number, each in enumerate(problem.operators) if set(each.ports) - markers or not each.ports]
    constants = tuple(
        replace(each, variables=tuple(places[number] for number in each.variables)) for each in problem.constants
    )
    variables = tuple(problem.variables[number] for number in places)
    ways = {number: uncoupled(found.rules[number], marks)[1] for number, marks in _marks(found).items()}
    operators = tuple(_operator(problem.operators[number], places, ways) for number in numbers)
    made = replace(problem, variables=variables, operators=operators, constants=constants, charged=None)
    rows = tuple(found.rows[number] for number in numbers)
    rules = bare_rules(found)
    bare = replace(found, graph=graph, rules=rules, problem=made, rows=rows, parts=(), charged=(), unseen=())
    return priced(replace(bare, price=price(made, rows), marked=found))


def bare_rules(found: Assignment) -> dict[int, Rule]:
    """The rules of a graph with markers without these."""
    bare = {number: uncoupled(found.rules[number], marks)[0] for number, marks in _marks(found).items()}
    return {**found.rules, **bare}


def _marks(found: Assignment) -> dict[int, Marks]:
    """The markers of each operator that has some."""
    every = {number: found.graph.nodes[number].attributes.get(MARKS) for number in found.rules}
    return {number: marks for number, marks in every.items() if marks is not None}


def priced(found: Assignment) -> Assignment:
    """An assignment in which it is known what runs where, with what crosses in its price; the very same one for a
    target that chooses no backends.
    """
    if not found.goal.target.chooses:
        return found
    told = replace(found, rules={**found.rules, **following_rules(found, found.rules)})
    return replace(told, price=told.price + Price(hidden=sum(each.price for each in crossings(told))))


def following_rules(found: Assignment, known: Mapping[int, Rule]) -> dict[int, Rule]:
    """The rules of those operators that run where what they read is written, now that this is known."""
    graph = found.graph
    views = frozenset(range(len(graph.nodes))) - known.keys()
    following = _Following(graph, found.goal.target, views)
    backends = {
        operator.node: known[operator.node].ways[found.row(number).form].backend
        for number, operator in enumerate(found.problem.operators)
        if operator.node in known and operator.node not in following.follow
    }
    rules = {}
    for number in following.follow & known.keys():
        writer = following.home(graph.nodes[number].inputs[0])
        backend = "" if writer is None else backends.get(writer, "")
        ways = tuple(replace(way, backend=backend) for way in known[number].ways)
        rules[number] = replace(known[number], ways=ways)
    return rules


def _operator(operator: Operator, places: Mapping[int, int], ways: Mapping[int, Sequence[int]]) -> Operator:
    """An operator without the ports that are markers, whose ways have other numbers then."""
    kept = [port for port, variable in enumerate(operator.ports) if variable in places]
    numbers = ways.get(operator.node)
    rows = tuple(
        replace(
            row,
            layouts=tuple(row.layouts[port] for port in kept),
            form=row.form if numbers is None else numbers[row.form],
        )
        for row in operator.rows
    )
    return replace(
        operator,
        ports=tuple(places[operator.ports[port]] for port in kept),
        inputs=sum(port < operator.inputs for port in kept),
        rows=rows,
        tensors=tuple(operator.tensors[port] for port in kept) if operator.tensors else (),
    )


class _Following:
    """Which operators of a graph run where what they read is written. ``views`` are nodes that are no operators."""

    def __init__(self, graph: Graph, target: Target, views: Collection[int]) -> None:
        assert target.table is not None
        self.graph, self.target, self.table, self.views = graph, target, target.table, views
        self.follow = frozenset(number for number, node in enumerate(graph.nodes) if self._follows(number, node))

    def tensor(self, name: str) -> str:
        """The tensor that a tensor is a view of."""
        number = self.graph.producers.get(name)
        while number is not None and number in self.views:
            name = self.graph.nodes[number].inputs[0]
            number = self.graph.producers.get(name)
        return name

    def home(self, name: str) -> int | None:
        """The operator that decides in which backend a tensor is written; None for an input of the graph."""
        number = self.graph.producers.get(name)
        while number is not None and (number in self.views or number in self.follow):
            number = self.graph.producers.get(self.graph.nodes[number].inputs[0])
        return number

    def _follows(self, number: int, node: Node) -> bool:
        """Whether an operator runs where what it reads is written. Raises :class:`OptionError` where that is two."""
        if number in self.views:
            return False
        if node.op in MOVES:
            return self.graph.values[node.inputs[0]].data is None
        if not self.table.follows(Site(self.graph, node)):
            return False
        if sum(bool(name) and self.graph.values[name].data is None for name in node.inputs) > 1:
            reading = f"{node.op} of {node.origin or node.outputs[0]} reads two tensors, and cannot follow"
            raise OptionError(f"target '{self.target.name}' chooses backends: {reading}")
        return True


class _Marking:
    """Puts markers into a graph. ``chosen`` has the backends of the operators that run in one with a name, or may."""

    def __init__(
        self, graph: Graph, target: Target, views: Collection[int], chosen: Mapping[int, Sequence[str]]
    ) -> None:
        self.graph, self.chosen = graph, chosen
        self.following = _Following(graph, target, views)
        self.crossings = {name: each.crossing for name, each in self.following.table.backends.items()}
        self.read = {
            number: tuple(dict.fromkeys(self.following.tensor(name) for name in node.inputs if self._computed(name)))
            for number, node in enumerate(graph.nodes)
            if number not in self.following.follow and number not in views
        }
        ends = (self.following.tensor(name) for name in graph.outputs if self._computed(name))
        self.ends = dict.fromkeys((*self._read_elsewhere(), *ends))
        self.taken, self.values = Names(graph.values), dict(graph.values)
        self.markers = self._markers()

    def result(self) -> Graph:
        graph, nodes = self.graph, list(self.graph.nodes)
        written: dict[int | None, list[tuple[str, str]]] = {}
        for name, markers in self.markers.items():
            written.setdefault(self._home(name), []).extend(markers)
        for number in self.chosen:
            nodes[number] = self._beside(number, written.get(number, []))
        given = [marker for marker, _ in written.get(None, [])]
        kept = [
            marker for name in self.ends if self._home(name) is not None for marker, _ in self.markers.get(name, ())
        ]
        return replace(
            graph,
            values=self.values,
            nodes=tuple(nodes),
            inputs=(*graph.inputs, *given),
            outputs=(*graph.outputs, *kept),
        )

    def _beside(self, number: int, written: Sequence[tuple[str, str]]) -> Node:
        """An operator with its markers."""
        node, names = self.graph.nodes[number], self.read.get(number, ())
        pairs = [(place, *each) for place, name in enumerate(names) for each in self.markers.get(name, ())]
        marks = Marks(
            tuple((place, backend) for place, _, backend in pairs),
            tuple(backend for _, backend in written),
            tuple(tuple(each for each in self._sources(name) if self.crossings[each]) for name in names),
        )
        return replace(
            node,
            inputs=(*node.inputs, *(marker for _, marker, _ in pairs)),
            outputs=(*node.outputs, *(marker for marker, _ in written)),
            attributes={**node.attributes, MARKS: marks},
        )

    def _markers(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """By tensor its markers, each with its backend: as many as a crossing costs, of each backend in which it may be
        written or read.
        """
        near: dict[str, set[str]] = {}
        for number, backends in self.chosen.items():
            for name in self.read.get(number, ()):
                near.setdefault(name, set(self._sources(name))).update(backends)
        for name in self.ends:
            near.setdefault(name, set(self._sources(name)))
        return {
            name: tuple(
                (self._marker(name, backend), backend)
                for backend, count in self.crossings.items()
                if backend in backends
                for _ in range(count)
            )
            for name, backends in near.items()
        }

    def _marker(self, name: str, backend: str) -> str:
        marker = self.taken.derived(name, f"in {backend}")
        self.values[marker] = Value(marker, NOTHING, SHAPE)
        return marker

    def _home(self, name: str) -> int | None:
        """The operator that writes the markers of a tensor; None where it is in no backend with a name."""
        number = self.following.home(name)
        return number if number in self.chosen else None

    def _sources(self, name: str) -> tuple[str, ...]:
        """The backends with a name in which a tensor may be written."""
        home = self._home(name)
        return () if home is None else tuple(filter(None, self.chosen[home]))

    def _read_elsewhere(self) -> Iterator[str]:
        """The tensors that are read by what runs in no backend with a name."""
        for number, names in self.read.items():
            if number not in self.chosen:
                yield from names

    def _computed(self, name: str) -> bool:
        return bool(name) and self.graph.values[name].data is None


def restored(fields: Mapping[str, Any]) -> Assignment:
    """An assignment of all fields but the rules."""
    rules = _Rules()
    rules.owner = Assignment(rules=rules, **fields)
    return rules.owner


class _Rules(Mapping[int, Rule]):
    """The rules of an assignment, which are found when something asks for them: few programs do."""

    owner: Assignment

    def __getitem__(self, number: int) -> Rule:
        return self._found[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[int, Rule]:
        found, graph = self.owner, self.owner.graph
        if found.marked is not None:
            rules = bare_rules(found.marked)
        else:
            atoms = Atoms(graph, found.opaque_views, found.goal.target.offer)
            rules = {number: atoms.rule(number) for number in range(len(graph.nodes)) if number not in atoms.views}
        marks = any(MARKS in node.attributes for node in graph.nodes)
        if found.goal.target.chooses and not marks:
            rules |= following_rules(found, rules)
        return rules
