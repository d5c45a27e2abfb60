"""Graphs with markers of backends, for targets that choose these.

A tensor that is written in one backend and read in another one crosses. That is stated as a layout, so that nothing
that searches has to know of it: each tensor at such an operator gets *markers* for each backend in which it may be
written or read, as many as a crossing costs (:mod:`layoutsolve.solver.theory.markers`). Where reader and writer are in
different backends markers are moved, once for all readers of a backend, which costs as much as so many Transposes. What
runs in no backend with a name has its markers at the ends of the graph. What follows has markers beside its results
that the operator writes which it follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import NOTHING, Graph, Node, Value
from layoutsolve.ir.names import Names
from layoutsolve.solver.statement.boundary import OTHERS, Boundary, Ends
from layoutsolve.solver.statement.proof_scope import MOVES
from layoutsolve.solver.targets.form_table import Table
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.theory.atoms import Atoms
from layoutsolve.solver.theory.markers import MARKS, SHAPE, Marks, uncoupled
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.offer import Offer
from layoutsolve.solver.theory.rule import Rule, Site


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
    rules = graph_rules(graph, target.offer)
    backends = {number: tuple(dict.fromkeys(way.backend for way in rule.ways)) for number, rule in rules.items()}
    chosen = {number: each for number, each in backends.items() if any(each)}
    if not chosen:
        return graph
    marking = _Marking(graph, target, {*range(len(graph.nodes))} - rules.keys(), chosen)
    return marking.result() if any(marking.markers.values()) else graph


def graph_rules(graph: Graph, offer: Offer, opaque_views: Collection[int] = ()) -> dict[int, Rule]:
    """The rule of each node that is no view."""
    atoms = Atoms(graph, opaque_views, offer)
    return {number: atoms.rule(number) for number in range(len(graph.nodes)) if number not in atoms.views}


def fixed(boundary: Boundary, graph: Graph) -> Boundary:
    """The boundary of a graph with markers, which stay where they are at graph inputs and outputs."""

    def kept(ends: Ends, names: Sequence[str]) -> Ends:
        markers = (name for name in names if graph.values[name].dtype == NOTHING)
        return {**({OTHERS: ends} if isinstance(ends, str) else ends), **dict.fromkeys(markers, "keep")}

    return replace(boundary, inputs=kept(boundary.inputs, graph.inputs), outputs=kept(boundary.outputs, graph.outputs))


def bare_rules(graph: Graph, marked: Mapping[int, Rule]) -> tuple[dict[int, Rule], dict[int, Sequence[int]]]:
    """The rules of a graph with markers without these, and the number that each way of those with markers has there."""
    rules, ways = dict(marked), dict[int, Sequence[int]]()
    for number, rule in marked.items():
        if MARKS in graph.nodes[number].attributes:
            rules[number], ways[number] = uncoupled(rule, graph.nodes[number].attributes[MARKS])
    return rules, ways


def following_rules(
    graph: Graph, target: Target, forms: Mapping[int, int], known: Mapping[int, Rule]
) -> dict[int, Rule]:
    """The rules of those operators that run where what they read is written, once it is known by which of its ways each
    operator is written: ``forms``, by the number of its node.
    """
    following = _Following(graph, target, frozenset(range(len(graph.nodes))) - known.keys())
    backends = {
        number: known[number].ways[form].backend
        for number, form in forms.items()
        if number in known and number not in following.follow
    }
    rules = {}
    for number in following.follow & known.keys():
        writer = following.home(graph.nodes[number].inputs[0])
        backend = "" if writer is None else backends.get(writer, "")
        ways = tuple(replace(way, backend=backend) for way in known[number].ways)
        rules[number] = replace(known[number], ways=ways)
    return rules


class _Following:
    """Which operators of a graph run where what they read is written. ``views`` are nodes that are no operators."""

    def __init__(self, graph: Graph, target: Target, views: Collection[int]) -> None:
        self.graph, self.target, self.table, self.views = graph, target, target.table or Table(), views
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
        elsewhere = (name for number, names in self.read.items() if number not in chosen for name in names)
        ends = (self.following.tensor(name) for name in graph.outputs if self._computed(name))
        self.ends = dict.fromkeys((*elsewhere, *ends))
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
        ends = (name for name in self.ends if self._home(name) is not None)
        kept = [marker for name in ends for marker, _ in self.markers.get(name, ())]
        inputs, outputs = (*graph.inputs, *given), (*graph.outputs, *kept)
        return replace(graph, values=self.values, nodes=tuple(nodes), inputs=inputs, outputs=outputs)

    def _beside(self, number: int, written: Sequence[tuple[str, str]]) -> Node:
        """An operator with its markers."""
        node, names = self.graph.nodes[number], self.read.get(number, ())
        pairs = [(place, *each) for place, name in enumerate(names) for each in self.markers.get(name, ())]
        marks = Marks(
            tuple((place, backend) for place, _, backend in pairs),
            tuple(backend for _, backend in written),
            tuple(tuple(each for each in self._sources(name) if self.crossings[each]) for name in names),
        )
        inputs = (*node.inputs, *(marker for _, marker, _ in pairs))
        outputs = (*node.outputs, *(marker for marker, _ in written))
        return replace(node, inputs=inputs, outputs=outputs, attributes={**node.attributes, MARKS: marks})

    def _markers(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """By tensor its markers, each with its backend: as many as a crossing costs, of each backend in which it may be
        written or read.
        """
        read = [(name, backends) for number, backends in self.chosen.items() for name in self.read.get(number, ())]
        near = {name: {*self._sources(name)} for name in (*dict(read), *self.ends)}
        for name, backends in read:
            near[name].update(backends)
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in near}
        for name, among in near.items():
            for backend in chain.from_iterable([each] * count for each, count in self.crossings.items()):
                if backend in among:
                    marker = self.taken.derived(name, f"in {backend}")
                    self.values[marker] = Value(marker, NOTHING, SHAPE)
                    found[name].append((marker, backend))
        return found

    def _home(self, name: str) -> int | None:
        """The operator that writes the markers of a tensor; None where it is in no backend with a name."""
        number = self.following.home(name)
        return number if number in self.chosen else None

    def _sources(self, name: str) -> tuple[str, ...]:
        """The backends with a name in which a tensor may be written."""
        home = self._home(name)
        return () if home is None else tuple(filter(None, self.chosen[home]))

    def _computed(self, name: str) -> bool:
        return bool(name) and self.graph.values[name].data is None
