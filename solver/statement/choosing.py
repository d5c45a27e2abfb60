"""Choosing backends: whether operators run in a backend that a target has, or out of it, is decided with layouts.

A tensor that is written in one backend and read in another one crosses. That is stated as a layout, so that nothing
that searches has to know of it: each tensor at such an operator gets *markers*, as many as a crossing costs
(:mod:`layoutsolve.solver.theory.markers`). Where reader and writer are in different backends a marker is moved, once
for all readers of a backend, which costs as much as a Transpose. What runs in no backend with a name has its markers at
the ends of the graph.
"""

from __future__ import annotations

from dataclasses import replace

from layoutsolve.errors import OptionError
from layoutsolve.graph import NOTHING, Graph, Node, Value
from layoutsolve.names import Names
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import OTHERS, Boundary, Ends
from layoutsolve.solver.statement.partition import crossings
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.theory.markers import SHAPE
from layoutsolve.solver.theory.offer import rule_of
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price
from layoutsolve.solver.theory.rule import Rule, Site

VIEWS = ("Reshape", "Transpose")


def marked(graph: Graph, target: Target) -> Graph:
    """The graph with markers for a target that chooses backends; the very graph for any other, and where there is
    nothing to choose. Raises :class:`OptionError` for operators that are to follow two tensors.
    """
    if target.table is None or not target.table.chooses:
        return graph
    chosen = {number for number, node in enumerate(graph.nodes) if _is_chosen(Site(graph, node), target)}
    return _Marking(graph, target, chosen).result() if chosen else graph


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
    operators = tuple(_operator(problem.operators[number], places) for number in numbers)
    constants = tuple(
        replace(each, variables=tuple(places[number] for number in each.variables)) for each in problem.constants
    )
    variables = tuple(problem.variables[number] for number in places)
    made = replace(problem, variables=variables, operators=operators, constants=constants, charged=None)
    rows = tuple(found.rows[number] for number in numbers)
    rules = {
        number: _rule(rule, graph.nodes[number], found.graph.nodes[number]) for number, rule in found.rules.items()
    }
    bare = replace(found, graph=graph, rules=rules, problem=made, rows=rows, parts=(), charged=(), unseen=())
    return priced(replace(bare, price=price(made, rows)))


def priced(found: Assignment) -> Assignment:
    """An assignment in which it is known what runs where, with what crosses in its price; the very same one for a
    target that chooses no backends.
    """
    table = found.goal.target.table
    if table is None or not table.chooses:
        return found
    told = replace(found, rules={**found.rules, **_following(found)})
    return replace(told, price=told.price + Price(hidden=sum(each.price for each in crossings(told))))


def _following(found: Assignment) -> dict[int, Rule]:
    """The rules of those operators that run where what they read is written, now that this is known."""
    graph = found.graph
    chosen = {number for number, rule in found.rules.items() if any(way.backend for way in rule.ways)}
    marking = _Marking(graph, found.goal.target, chosen)
    backends = {
        operator.node: found.rules[operator.node].ways[found.row(number).form].backend
        for number, operator in enumerate(found.problem.operators)
        if operator.node in chosen
    }
    rules = {}
    for number in marking.follow & found.rules.keys():
        writer = graph.producers.get(marking.root(graph.nodes[number].inputs[0]))
        backend = backends.get(writer, "") if writer is not None else ""
        ways = tuple(replace(way, backend=backend) for way in found.rules[number].ways)
        rules[number] = replace(found.rules[number], ways=ways)
    return rules


def _operator(operator: Operator, places: dict[int, int]) -> Operator:
    """An operator without the ports that are markers."""
    kept = [port for port, variable in enumerate(operator.ports) if variable in places]
    rows = tuple(replace(row, layouts=tuple(row.layouts[port] for port in kept)) for row in operator.rows)
    return replace(
        operator,
        ports=tuple(places[operator.ports[port]] for port in kept),
        inputs=sum(port < operator.inputs for port in kept),
        rows=rows,
        tensors=tuple(operator.tensors[port] for port in kept) if operator.tensors else (),
    )


def _rule(rule: Rule, node: Node, with_markers: Node) -> Rule:
    """A rule without its markers, which are the last of the inputs and of the outputs."""
    read, written = (
        len(more) - len(own) for own, more in ((node.inputs, with_markers.inputs), (node.outputs, with_markers.outputs))
    )
    if not read and not written:
        return rule
    count = len(rule.inputs)
    kept = [port for port in range(len(rule.dims)) if not count - read <= port < count]
    kept = kept[: len(kept) - written]
    ways = tuple(
        replace(way, form=replace(way.form, places=tuple(way.form.places[port] for port in kept)))
        for way in rule.ways
        if isinstance(way.form, Placed)
    )
    letters = tuple(rule.letters[port] for port in kept) if rule.letters else ()
    dims = tuple(rule.dims[port] for port in kept)
    return replace(rule, inputs=rule.inputs[: count - read], dims=dims, ways=ways, letters=letters)


def _is_chosen(site: Site, target: Target) -> bool:
    """Whether an operator runs in a backend with a name, or may."""
    if site.node.op in VIEWS:
        return False
    rule = rule_of(site, target.offer)
    return any(way.backend for way in rule.ways) and all(isinstance(way.form, Placed) for way in rule.ways)


class _Marking:
    def __init__(self, graph: Graph, target: Target, chosen: set[int]) -> None:
        assert target.table is not None
        self.graph, self.target, self.table, self.chosen = graph, target, target.table, chosen
        (backend,) = self.table.backends.values()
        self.count = backend.crossing
        self.taken = Names(graph.values)
        self.values = dict(graph.values)
        self.markers: dict[str, tuple[str, ...]] = {}
        self.follow = {number for number, node in enumerate(graph.nodes) if self._follows(node)}

    def result(self) -> Graph:
        graph, nodes, inputs, read = self.graph, list(self.graph.nodes), list[str](), dict[str, None]()
        for number in sorted(self.chosen):
            for name in filter(None, nodes[number].outputs):
                self._mark(name)
        for number, node in enumerate(graph.nodes):
            names = dict.fromkeys(self.root(name) for name in node.inputs if name and graph.values[name].data is None)
            if number in self.chosen:
                inputs += [marker for name in names if name not in self.markers for marker in self._mark(name)]
                before = [marker for name in names for marker in self.markers[name]]
                after = [marker for name in node.outputs if name for marker in self.markers[name]]
                nodes[number] = replace(node, inputs=(*node.inputs, *before), outputs=(*node.outputs, *after))
            elif number not in self.follow:
                read |= names
        read |= dict.fromkeys(self.root(name) for name in graph.outputs if graph.values[name].data is None)
        ends = [marker for name in read if graph.producers.get(name) in self.chosen for marker in self.markers[name]]
        return replace(
            graph,
            values=self.values,
            nodes=tuple(nodes),
            inputs=(*graph.inputs, *inputs),
            outputs=(*graph.outputs, *ends),
        )

    def _mark(self, name: str) -> tuple[str, ...]:
        """Markers for a tensor."""
        made = tuple(self.taken.derived(name, f"backend{number}") for number in range(self.count))
        self.values.update({marker: Value(marker, NOTHING, SHAPE) for marker in made})
        self.markers[name] = made
        return made

    def root(self, name: str) -> str:
        """The tensor that a tensor is a view of, or what follows that."""
        number = self.graph.producers.get(name)
        while number is not None and number in self.follow:
            name = self.graph.nodes[number].inputs[0]
            number = self.graph.producers.get(name)
        return name

    def _follows(self, node: Node) -> bool:
        """Whether an operator runs where what it reads is written. Raises :class:`OptionError` where that is two."""
        if node.op in VIEWS:
            return self.graph.values[node.inputs[0]].data is None
        if not self.table.follows(Site(self.graph, node)):
            return False
        if sum(bool(name) and self.graph.values[name].data is None for name in node.inputs) > 1:
            reading = f"{node.op} of {node.origin or node.outputs[0]} reads two tensors, and cannot follow"
            raise OptionError(f"target '{self.target.name}' chooses backends: {reading}")
        return True
