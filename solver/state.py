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
from layoutsolve.solver.boundary import Boundary, Permutation, permutation, whole_dimensions
from layoutsolve.solver.generator import Generator
from layoutsolve.solver.layout import Layout, finest, order
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.problem import Constant, Goal, LayoutProblem, Operator, Price, Row, Variable
from layoutsolve.solver.relation import Arranged, Placed, Port
from layoutsolve.solver.rule import Rule
from layoutsolve.solver.shared import Shared, Walker
from layoutsolve.solver.target import Target, default_target, motion_of

CANDIDATES, FEW = 1024, 32
"""The most layouts that one variable may have where orders and groupings are decided one after the other, and where a
quick answer is wanted first. A problem in which the cap was hit is optimal within its candidates only.
"""

AT_ONCE = 64
"""The same where both are decided at once, which makes far more of them."""

TURNS = 10
"""How often the body of a loop is taken to run, for bytes and time: a move outside of it is better than one inside."""

SHARED = 1024
"""The fewest bytes of a constant of which copies are counted."""


@dataclass(slots=True)
class _Draft:
    """An operator in the making: it has the rows in ``fixed``, and those that its relation leads to.

    ``free`` ones, which are ends of the graph or states, take any layout that keeps the dimensions of their tensors
    whole, whose logical layouts those are.
    """

    title: str
    node: int
    ports: list[int]
    inputs: int
    fixed: tuple[Row, ...] = ()
    op: str = ""
    relations: tuple[Port, ...] | None = None
    meaning: Rule | None = None
    free: tuple[Layout, ...] = ()
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
        self.variables: list[Variable] = []
        self._readings: list[dict[str, Layout]] = []
        self._home: dict[str, int] = {}
        self._rows: dict[Layout, Row] = {}
        self.drafts: list[_Draft] = []
        self._state()

    def orders(self, limit: Limit | None = None, most: int = CANDIDATES) -> LayoutProblem:
        """The problem in which layouts of the same order are one candidate; Reshapes do not count in it.

        Rows that are not found within the limit, or beyond the ``most`` layouts that one variable may have, are left
        out, and the problem says that it is capped.
        """
        return _Closure(self, limit or unlimited(), most, finest_only=True).problem()

    def layouts(self, kept: Orders | None = None, limit: Limit | None = None) -> LayoutProblem:
        """The problem over full layouts; with ``kept``, over those that have the orders of the given rows."""
        most = AT_ONCE if kept is None else CANDIDATES
        stated = _Closure(self, limit or unlimited(), most, kept=kept).problem()
        return replace(stated, constants=self._constants())

    def source(self) -> LayoutProblem:
        """The problem in which every operator has little more than its row of the source model."""
        return self.layouts(limit=Limit(0))

    def _constants(self) -> tuple[Constant, ...]:
        """The constants that several ports read, but for small ones."""
        ports: dict[str, list[int]] = {}
        for number, variable in enumerate(self.variables):
            if variable.constant:
                ports.setdefault(variable.title, []).append(number)
        sizes = {name: _bytes(self.graph.values[name]) for name, found in ports.items() if len(found) > 1}
        return tuple(Constant(tuple(ports[name]), size) for name, size in sizes.items() if size >= SHARED)

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
        for name, axes in fixed.inner.items():
            logical = self._readings[self._home[name]][name]
            self._fixed(f"layout of {name}", name, tuple(logical[axis] for axis in axes), reads=True)

    def _new_variable(self, name: str) -> int:
        """The variable of a tensor that is produced by something other than a view."""
        weight = _turns(self.graph.region(name))
        self._home[name] = self._variable(name, self._atoms.reading(name), weight * _bytes(self.graph.values[name]))
        return self._home[name]

    def _variable(self, name: str, reading: tuple[Layout, list[int]], size: int, constant: bool = False) -> int:
        logical, leaves = reading
        sizes = tuple(self._atoms.size(leaf) for leaf in leaves)
        self._readings.append({name: logical})
        self.variables.append(Variable(name, sizes, size, self._readings[-1], constant))
        return len(self.variables) - 1

    def _end(self, name: str, permutation: Permutation | None, reads: bool) -> None:
        """An input or output of the graph; one without a permutation is free."""
        logical = self._readings[self._home[name]][name]
        title = f"{'output' if reads else 'input'} {name}"
        if permutation is None:
            row = self._only_row(logical)
            self.drafts.append(_Draft(title, -1, [self._home[name]], int(reads), (row,), free=row.layouts, end=name))
        else:
            self._fixed(title, name, tuple(logical[axis] for axis in permutation), reads)

    def _fixed(self, title: str, name: str, layout: Layout, reads: bool) -> None:
        row = self._only_row(layout)
        self.drafts.append(_Draft(title, -1, [self._home[name]], int(reads), (row,), end=name))

    def _only_row(self, layout: Layout) -> Row:
        """The row of an end, one for all that have the same layout: a graph may have very many."""
        return self._rows.setdefault(layout, Row((layout,)))

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
            sizes = self.variables[variable].sizes
            relations.append(self._atoms.port(number, port, self._readings[variable][name], sizes, constant))
        title = str(node.origin) if node.origin else " ".join((node.op, *node.outputs[:1]))
        draft = _Draft(title, number, ports, len(found.inputs), (), node.op, tuple(relations), found)
        if node.op in ("Transpose", "Reshape"):
            draft.fixed = self._view_rows(number, relations)
        elif node.op == "State":
            draft.free = tuple(port.logical for port in relations)
            draft.fixed = (Row(draft.free),)
        if draft.free or (draft.fixed and all(isinstance(form, Placed) for form in found.forms)):
            draft.relations = None
        self.drafts.append(draft)

    def _view_rows(self, number: int, ports: Sequence[Port]) -> tuple[Row, ...]:
        """A view that has to stay an operator: it costs what it is."""
        node = self.graph.nodes[number]
        layouts = tuple(port.logical for port in ports)
        if node.op == "Reshape":
            return (Row(layouts, price=Price(reshapes=1)),)
        source = self.graph.values[node.inputs[0]]
        motion, _ = motion_of([static_elements((dim,)) for dim in source.shape], node.attributes["perm"])
        hidden = self.target.scatter if motion == "general" else 0
        size = _turns(node.region) * _bytes(source)
        return (Row(layouts, price=Price(transposes=1, hidden=hidden, bytes=size)),)


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
        statement: Statement,
        limit: Limit,
        most: int,
        finest_only: bool = False,
        kept: Orders | None = None,
    ) -> None:
        self.variables, self.drafts, self.finest_only, self.kept = (
            statement.variables,
            statement.drafts,
            finest_only,
            kept,
        )
        self.target, self.timed = statement.target, statement.goal.timed
        self.limit, self.most = limit, most
        self.capped = False
        self.rows: list[list[Row]] = [[] for _ in self.drafts]
        self.shared: dict[object, Shared] = {}
        self.generators = [self._walker(draft, limit) for draft in self.drafts]
        self.seen: list[dict[Layout, None]] = [{} for _ in self.variables]
        self.queue: deque[tuple[int, Layout]] = deque()
        self.moving: list[list[int] | None] = [None for _ in self.drafts]
        self.alike: list[list[object]] = [self._alike(draft) for draft in self.drafts]
        self.pushed: set[tuple[int, object, Layout]] = set()
        self.touching: list[list[tuple[int, int]]] = [[] for _ in self.variables]
        for number, draft in enumerate(self.drafts):
            for port, variable in enumerate(draft.ports):
                if not self.variables[variable].constant:
                    self.touching[variable].append((number, port))

    def _walker(self, draft: _Draft, limit: Limit) -> Walker | None:
        """What finds the rows of an operator, shared by all that are alike; None for one that has no relation."""
        if draft.meaning is None or draft.relations is None:
            return None
        found, ports, outputs = draft.meaning, draft.relations, len(draft.ports) - draft.inputs
        finest_only = self.finest_only  # what makes a generator must not hold the closure: nothing would free the two
        size = max((self.variables[variable].bytes for variable in draft.ports), default=0) if self.timed else 0
        weigh, exact = self.target.weigh(draft.op, found.kind, size), self.kept is not None
        alike = (draft.op, size, tuple(self.variables[variable].sizes for variable in draft.ports)) if weigh else ()
        key = (limit, alike, found.forms, ports)
        if key not in self.shared:
            self.shared[key] = Shared(lambda: Generator(ports, found.forms, outputs, limit, finest_only, exact, weigh))
        return self.shared[key].walker()

    def problem(self) -> LayoutProblem:
        for number, draft in enumerate(self.drafts):
            generator = self.generators[number]
            self._found(number, draft.fixed if generator is None else (*draft.fixed, *generator.start()))
        self._exhaust()
        sure = unlimited()
        for number, generator in enumerate(self.generators):
            if self.kept is not None and not self.rows[number]:
                seeding = self._walker(self.drafts[number], sure) if self.capped else generator
                self._seed(number, self.kept[number].layouts, seeding)
                self._exhaust()
        for number, generator in enumerate(self.generators):
            if generator is not None:
                self.rows[number] += self._keeping(number, generator.source())
                self.capped |= generator.capped
        self.capped |= self.limit.over
        operators = tuple(draft.operator(rows) for draft, rows in zip(self.drafts, self.rows, strict=True))
        clock = self.target.clock if self.timed else None
        return LayoutProblem(tuple(self.variables), operators, self.capped, clock, scatter=self.target.scatter)

    def _seed(self, number: int, kept: Sequence[Layout], generator: Walker | None) -> None:
        """No layout that is demanded, or was found in time, leads to the orders to be kept: suggest those orders
        themselves.
        """
        for port, layout in enumerate(kept):
            if not self.variables[self.drafts[number].ports[port]].constant:
                self._found(number, self._pushed(number, port, finest(layout), generator))
        if generator is not None:
            self._found(number, generator.rest())

    def _exhaust(self) -> None:
        while self.queue:
            variable, layout = self.queue.popleft()
            for number, port in self.touching[variable]:
                if self.limit.over:
                    self.capped = True
                    self.queue.clear()
                    return
                self.limit.spend(2)
                self._found(number, self._pushed(number, port, layout, self.generators[number]))

    @staticmethod
    def _alike(draft: _Draft) -> list[object]:
        """For each port of an operator what a layout suggested at it leads to depends on: alike ones need it once."""
        found, relations = draft.meaning, draft.relations
        if found is None or relations is None or not all(isinstance(form, Arranged) for form in found.forms):
            return list(range(len(draft.ports)))
        pinned = [form.pinned for form in found.forms if isinstance(form, Arranged)]
        return [(port, *(number in each for each in pinned)) for number, port in enumerate(relations)]

    def _pushed(self, number: int, port: int, layout: Layout, generator: Walker | None) -> Sequence[Row]:
        if generator is not None:
            push = (number, self.alike[number][port], layout)
            if push in self.pushed and generator is self.generators[number]:
                return []
            self.pushed.add(push)
            return generator.push(port, layout)
        free = self.drafts[number].free
        if not free:
            return []
        whole = whole_dimensions(free[port], layout)
        if whole is None:
            return []
        axes = permutation(free[port], whole)
        return [Row(tuple(tuple(logical[axis] for axis in axes) for logical in free))]

    def _found(self, number: int, rows: Iterable[Row]) -> None:
        """Add rows to an operator, and suggest their layouts to all others that touch its variables."""
        draft = self.drafts[number]
        for row in self._keeping(number, rows):
            self.limit.spend(len(draft.ports))
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
        rows = list(rows)
        if self.kept is None or not rows:
            return rows
        wanted = self.kept[number].layouts
        moving = self.moving[number]
        if moving is None:
            ports = enumerate(self.drafts[number].ports)
            moving = self.moving[number] = [port for port, each in ports if not self.variables[each].constant]
        return [row for row in rows if all(order(row.layouts[port]) == order(wanted[port]) for port in moving)]
