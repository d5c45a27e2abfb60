"""Stating a graph as a layout problem: its variables, and by closure the rows of its operators.

Closure starts at what is fixed: the ends of the graph, explicit layouts, and operators with a fixed data format. Each
of their layouts is pushed through the relations of all operators that touch the variable, until nothing new appears.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from layoutsolve.graph import Graph, Region, Value, element_bytes, static_elements
from layoutsolve.solver.atoms import Atoms, port_names
from layoutsolve.solver.boundary import Boundary, Permutation, whole_dimensions
from layoutsolve.solver.generator import Generator
from layoutsolve.solver.layout import Layout, finest, order
from layoutsolve.solver.problem import Goal, LayoutProblem, Operator, Price, Row, Variable
from layoutsolve.solver.relation import Port
from layoutsolve.solver.rule import Rule
from layoutsolve.solver.shared import Shared, Walker
from layoutsolve.solver.target import Target, default_target

CANDIDATES = 256
"""The most layouts that one variable may have where orders and groupings are decided one after the other. A problem in
which the cap was hit is optimal within its candidates only.
"""

AT_ONCE = 64
"""The same where both are decided at once, which makes far more of them."""

TURNS = 10
"""How often the body of a loop is taken to run, for bytes and time: a move outside of it is better than one inside."""


@dataclass
class _Draft:
    """An operator in the making. ``free`` ends of the graph take any layout that keeps their dimensions whole."""

    title: str
    node: int
    ports: list[int]
    inputs: int
    fixed: tuple[Row, ...] = ()
    op: str = ""
    relations: tuple[Port, ...] = ()
    meaning: Rule | None = None
    free: Layout | None = None
    end: str = ""

    def operator(self, rows: Sequence[Row]) -> Operator:
        return Operator(self.title, self.node, tuple(self.ports), self.inputs, tuple(rows), self.end, self.meaning)


Orders = Sequence[Row]
"""One row per operator whose orders are to be kept."""


class Statement:
    """A graph as a layout problem, in two grains.

    Transposes depend on the orders of atoms alone, so :meth:`orders` states the problem with one candidate per order;
    what is left when the orders are chosen is how to group them, which :meth:`layouts` states. ``opaque_views`` are
    numbers of Transposes and Reshapes that have to stay operators, as heuristics see them. ``target`` prices rows, by
    default ONNX Runtime; ``goal`` says whether in time as well. Raises :class:`LayoutError` where an explicit
    layout does not fit.
    """

    def __init__(
        self,
        graph: Graph,
        boundary: Boundary | None = None,
        goal: Goal | None = None,
        opaque_views: Collection[int] = (),
        target: Target | None = None,
    ) -> None:
        self.graph, self.boundary = graph, boundary or Boundary()
        self.goal, self.target = goal or Goal(), target or default_target()
        self.boundary.check(graph)
        self._atoms = Atoms(graph, opaque_views, self.goal.contrib)
        self._variables: list[Variable] = []
        self._readings: list[dict[str, Layout]] = []
        self._home: dict[str, int] = {}
        self._drafts: list[_Draft] = []
        self._state()

    def orders(self) -> LayoutProblem:
        """The problem in which layouts of the same order are one candidate; Reshapes do not count in it."""
        return _Closure(self._variables, self._drafts, self.target, self.goal.timed, finest_only=True).problem()

    def layouts(self, kept: Orders | None = None) -> LayoutProblem:
        """The problem over full layouts; with ``kept``, over those that have the orders of the given rows."""
        return _Closure(self._variables, self._drafts, self.target, self.goal.timed, kept=kept).problem()

    def _state(self) -> None:
        fixed = self.boundary.fixed(self.graph)
        for name in self.graph.inputs:
            self._new_variable(name)
            self._end(name, fixed.inputs[name], reads=False)
        nodes = range(len(self.graph.nodes))
        for number in nodes:
            self._outputs(number)
        for number in nodes:
            if number not in self._atoms.views:
                self._node(number)
        for name in dict.fromkeys(self.graph.outputs):
            if name in self._home and name not in fixed.inputs:
                self._end(name, fixed.outputs[name], reads=True)
        for name, permutation in fixed.inner.items():
            logical = self._readings[self._home[name]][name]
            self._fixed(f"layout of {name}", name, tuple(logical[axis] for axis in permutation), reads=True)

    def _new_variable(self, name: str) -> int:
        """The variable of a tensor that is produced by something other than a view."""
        weight = _turns(self.graph.region(name))
        self._home[name] = self._variable(name, self._atoms.reading(name), weight * _bytes(self.graph.values[name]))
        return self._home[name]

    def _variable(self, name: str, reading: tuple[Layout, list[int]], size: int, constant: bool = False) -> int:
        logical, leaves = reading
        sizes = tuple(self._atoms.size(leaf) for leaf in leaves)
        self._readings.append({name: logical})
        self._variables.append(Variable(name, sizes, size, self._readings[-1], constant))
        return len(self._variables) - 1

    def _end(self, name: str, permutation: Permutation | None, reads: bool) -> None:
        """An input or output of the graph; one without a permutation is free."""
        logical = self._readings[self._home[name]][name]
        title = f"{'output' if reads else 'input'} {name}"
        if permutation is None:
            self._drafts.append(
                _Draft(title, -1, [self._home[name]], int(reads), (Row((logical,)),), free=logical, end=name)
            )
        else:
            self._fixed(title, name, tuple(logical[axis] for axis in permutation), reads)

    def _fixed(self, title: str, name: str, layout: Layout, reads: bool) -> None:
        self._drafts.append(_Draft(title, -1, [self._home[name]], int(reads), (Row((layout,)),), end=name))

    def _outputs(self, number: int) -> None:
        """Enter what a node produces: new variables, or another reading of the one that it is a view of."""
        node = self.graph.nodes[number]
        if number in self._atoms.views:
            source = self._home[node.inputs[0]]
            self._home[node.outputs[0]] = source
            self._readings[source][node.outputs[0]] = self._atoms.seen_through(
                number, self._readings[source][node.inputs[0]]
            )
            return
        for name in node.outputs:
            if name:
                self._new_variable(name)

    def _node(self, number: int) -> None:
        node = self.graph.nodes[number]
        found = self._atoms.rule(number)
        ports, relations = [], []
        for port, name in enumerate(port_names(self.graph, number, found)):
            constant = self.graph.values[name].data is not None
            if constant:
                variable = self._variable(name, self._atoms.constant_reading(number, port), 0, constant=True)
            else:
                variable = self._home[name]
            ports.append(variable)
            sizes = self._variables[variable].sizes
            relations.append(self._atoms.port(number, port, self._readings[variable][name], sizes, constant))
        title = str(node.origin) if node.origin else " ".join((node.op, *node.outputs[:1]))
        rows = self._view_rows(number, relations) if node.op in ("Transpose", "Reshape") else ()
        self._drafts.append(_Draft(title, number, ports, len(found.inputs), rows, node.op, tuple(relations), found))

    def _view_rows(self, number: int, ports: Sequence[Port]) -> tuple[Row, ...]:
        """A view that has to stay an operator: it costs what it is."""
        node = self.graph.nodes[number]
        layouts = tuple(port.logical for port in ports)
        if node.op == "Reshape":
            return (Row(layouts, price=Price(reshapes=1)),)
        size = _turns(node.region) * _bytes(self.graph.values[node.outputs[0]])
        return (Row(layouts, price=Price(transposes=1, bytes=size)),)


def _bytes(value: Value) -> int:
    """The bytes that a tensor takes, symbolic dimensions counted as 1."""
    return int(static_elements(value.shape) * element_bytes(value.dtype))


def _turns(region: Region | None) -> int:
    """How often a region is taken to run where the main graph runs once."""
    if region is None:
        return 1
    return _turns(region.parent) * (TURNS if region.role == "body" else 1)


class _Closure:
    """Finds the rows of all operators: every layout is pushed through every operator that touches its variable."""

    def __init__(
        self,
        variables: Sequence[Variable],
        drafts: Sequence[_Draft],
        target: Target,
        timed: bool,
        finest_only: bool = False,
        kept: Orders | None = None,
    ) -> None:
        self.variables, self.drafts, self.finest_only, self.kept = variables, drafts, finest_only, kept
        self.target, self.timed = target, timed
        self.most = CANDIDATES if finest_only or kept is not None else AT_ONCE
        self.capped = False
        self.rows: list[list[Row]] = [[] for _ in drafts]
        self.shared: dict[object, Shared] = {}
        self.generators = [self._walker(draft) for draft in drafts]
        self.seen: list[dict[Layout, None]] = [{} for _ in variables]
        self.queue: deque[tuple[int, Layout]] = deque()
        self.touching: list[list[tuple[int, int]]] = [[] for _ in variables]
        for number, draft in enumerate(drafts):
            for port, variable in enumerate(draft.ports):
                if not variables[variable].constant:
                    self.touching[variable].append((number, port))

    def _walker(self, draft: _Draft) -> Walker | None:
        """What finds the rows of an operator, shared by all that are alike; None for one whose rows are fixed."""
        if draft.fixed or draft.meaning is None:
            return None
        found, outputs = draft.meaning, len(draft.ports) - draft.inputs
        size = max((self.variables[variable].bytes for variable in draft.ports), default=0) if self.timed else 0
        weigh, exact = self.target.weigh(draft.op, found.kind, size), self.kept is not None
        key = ((draft.op, size) if weigh else "", found.forms, tuple(port.key for port in draft.relations))
        if key not in self.shared:
            self.shared[key] = Shared(
                lambda: Generator(draft.relations, found.forms, outputs, self.finest_only, exact, weigh)
            )
        return self.shared[key].walker()

    def problem(self) -> LayoutProblem:
        for number, draft in enumerate(self.drafts):
            generator = self.generators[number]
            self._found(number, draft.fixed if generator is None else generator.start())
        self._exhaust()
        for number, generator in enumerate(self.generators):
            if self.kept is not None and not self.rows[number]:
                self._seed(number, self.kept[number].layouts, generator)
                self._exhaust()
        for number, generator in enumerate(self.generators):
            if generator is not None:
                self.rows[number] += self._keeping(number, generator.source())
                self.capped |= generator.capped
        operators = tuple(draft.operator(rows) for draft, rows in zip(self.drafts, self.rows, strict=True))
        clock = self.target.clock if self.timed else None
        return LayoutProblem(tuple(self.variables), operators, self.capped, clock)

    def _seed(self, number: int, kept: Sequence[Layout], generator: Walker | None) -> None:
        """No layout that is demanded leads to the orders to be kept: suggest those orders themselves."""
        for port, layout in enumerate(kept):
            if not self.variables[self.drafts[number].ports[port]].constant:
                self._found(number, self._pushed(number, port, finest(layout)))
        if generator is not None:
            self._found(number, generator.rest())

    def _exhaust(self) -> None:
        while self.queue:
            variable, layout = self.queue.popleft()
            for number, port in self.touching[variable]:
                self._found(number, self._pushed(number, port, layout))

    def _pushed(self, number: int, port: int, layout: Layout) -> Sequence[Row]:
        generator = self.generators[number]
        if generator is not None:
            return generator.push(port, layout)
        free = self.drafts[number].free
        if free is None:
            return []
        whole = whole_dimensions(free, layout)
        return [] if whole is None else [Row((whole,))]

    def _found(self, number: int, rows: Iterable[Row]) -> None:
        """Add rows to an operator, and suggest their layouts to all others that touch its variables."""
        draft = self.drafts[number]
        for row in self._keeping(number, rows):
            if self.finest_only:
                row = replace(row, layouts=tuple(map(finest, row.layouts)))
            if self.generators[number] is None and row in self.rows[number]:
                continue
            self.rows[number].append(row)
            for variable, layout in zip(draft.ports, row.layouts, strict=True):
                self._suggest(variable, layout)

    def _suggest(self, variable: int, layout: Layout) -> None:
        seen = self.seen[variable]
        if self.variables[variable].constant or layout in seen:
            return
        if len(seen) >= self.most:
            self.capped = True
            return
        seen[layout] = None
        self.queue.append((variable, layout))

    def _keeping(self, number: int, rows: Iterable[Row]) -> list[Row]:
        """Those rows that have the orders to be kept."""
        if self.kept is None:
            return list(rows)
        wanted = self.kept[number].layouts
        moving = [
            port for port, variable in enumerate(self.drafts[number].ports) if not self.variables[variable].constant
        ]
        return [row for row in rows if all(order(row.layouts[port]) == order(wanted[port]) for port in moving)]
