"""Stating a graph as a layout problem: its variables, and by candidates the rows of its operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from layoutsolve.ir.elements import element_bytes, memory
from layoutsolve.ir.graph import Graph, Region, Value, static_elements
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.atom_selection import unseen
from layoutsolve.solver.statement.boundary import Boundary, Permutation
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.problem import Constant, LayoutProblem
from layoutsolve.solver.statement.row_enumeration import Alternatives
from layoutsolve.solver.statement.unenumerated_operators import Entry, Orders, Relation
from layoutsolve.solver.theory.atoms import Atoms, port_names
from layoutsolve.solver.theory.kind import sized
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.motion import as_layouts
from layoutsolve.solver.theory.move import hindered
from layoutsolve.solver.theory.relation import Arranged, Placed, Port
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Rule
from layoutsolve.solver.theory.rules.elementwise import ELEMENTWISE
from layoutsolve.solver.theory.variable import Variable

CANDIDATES, FEW = 1024, 16
"""The most layouts that one variable may have where orders and groupings are decided one after the other, and where a
quick answer is wanted first. A problem in which the cap was hit is optimal within its candidates only.
"""

AT_ONCE = 512
"""The same where both are decided at once, which makes far more of them."""

TURNS = 10
"""How often the body of a loop is taken to run, for bytes and time: a move outside of it is better than one inside."""

SHARED = 1024
"""The fewest bytes of a constant of which copies are counted."""


class Statement:
    """A graph as a layout problem, in two grains.

    Transposes depend on the orders of atoms alone, so :meth:`orders` states the problem with one candidate per order;
    what is left when the orders are chosen is how to group them, which :meth:`layouts` states. ``opaque_views`` are
    numbers of Transposes and Reshapes that have to stay operators, as heuristics see them. The target of the ``goal``
    prices rows and moves, its objective says whether in time as well. Raises :class:`LayoutError` where an explicit
    layout does not fit.
    """

    def __init__(
        self,
        graph: Graph,
        boundary: Boundary | None = None,
        goal: Goal | None = None,
        opaque_views: Collection[int] = (),
        atoms: Atoms | None = None,
    ) -> None:
        """``atoms`` are those of the graph, as far as they are to be seen; by default all."""
        self.graph, self.boundary, self.opaque_views = graph, boundary or Boundary(), frozenset(opaque_views)
        self.goal = goal or Goal()
        self.target, self._simple = self.goal.target, (self.goal.target.alike, self.goal.counted)
        self._atoms = atoms or Atoms(graph, opaque_views, self.goal.offer)
        self._factors: list[list[int]] = []
        self.variables: list[Variable] = []
        self._readings: list[dict[str, Layout]] = []
        self._home: dict[str, int] = {}
        self._rows: dict[Layout, Row] = {}
        self._alike: dict[Hashable, int] = {}
        self.entries: list[Entry] = []
        self._state()
        self._bare = LayoutProblem(tuple(self.variables), (), False, self.target, self.goal.timed)

    @property
    def rules(self) -> Mapping[int, Rule]:
        """The rule of each node that is an operator of the problem."""
        return {entry.node: entry.rule for entry in self.entries if entry.rule is not None}

    def orders(
        self, limit: Limit | None = None, most: int = CANDIDATES, charged: Collection[int] | None = None
    ) -> LayoutProblem:
        """The problem in which layouts of the same order are one candidate; Reshapes do not count in it.

        With ``charged`` it is a lower bound on the problem over all orders: the moves of those variables alone cost
        what they do, and they have all orders, whether or not anybody demands them. Those that would have too many are
        not charged in it.
        Rows that are not found within the limit, or beyond the ``most`` layouts that one variable may have, are left
        out, and the problem says that it is capped.
        """
        limit = limit or unlimited()
        candidates = self.candidates(limit, most)
        problem = candidates.problem()
        if charged:
            return candidates.charging(charged, limit)
        return problem if charged is None else replace(problem, charged=frozenset())

    def projected(self, without: Collection[int], limit: Limit | None = None, most: int = CANDIDATES) -> LayoutProblem:
        """The problem of :meth:`orders` where layouts leave out the atoms of some factors, and each move costs the
        least that one of its variable may: a lower bound.
        """
        part = Statement(self.graph, self.boundary, self.goal, atoms=self._atoms.without(without))
        return part.orders(limit, most, charged=())

    def candidates(self, limit: Limit, most: int) -> Candidates:
        """Candidates of :meth:`orders`, of which more and more variables get exact conversion costs."""
        return Candidates(self.entries, self._bare, limit, most, orders=True)

    def unseen(self, most: int) -> frozenset[int]:
        """The factors to leave out so that no variable has more than ``most`` atoms."""
        stated = zip(self.variables, self._factors, strict=True)
        moving = ((each.readings.values(), factors) for each, factors in stated if not each.constant)
        shapes = ((layout, factors) for layouts, factors in moving for layout in layouts)
        return unseen((tuple(tuple(own[atom] for atom in group) for group in layout) for layout, own in shapes), most)

    def layouts(self, kept: Orders | None = None, limit: Limit | None = None) -> LayoutProblem:
        """The problem over full layouts; with ``kept``, over those that have the orders of the given rows."""
        most = AT_ONCE if kept is None else CANDIDATES
        stated = Candidates(self.entries, self._bare, limit or unlimited(), most, kept=kept).problem()
        return replace(stated, constants=self.constants())

    def suggested(self, number: int, layouts: Mapping[int, Layout]) -> list[Row]:
        """Alternatives of an operator that layouts at some ports lead to, and those that it demands by itself."""
        relation = self.entries[number].relation
        if relation is None:
            return []
        alternatives = Alternatives(relation, unlimited())
        found = alternatives.start()
        for port, layout in layouts.items():
            found += alternatives.push(port, layout)
        return found

    def recorded(self, rows: Sequence[Row]) -> LayoutProblem:
        """The problem over layouts in which each operator has the row that is recorded of it and no other; none, where
        it cannot have that.

        Rows are otherwise told apart by their layouts. Where dimensions have size 1, several arrangements of an
        operator are in the same layouts, and what is written depends on which.
        """
        operators = []
        for entry, row in zip(self.entries, rows, strict=True):
            atoms, known = [list(range(len(self.variables[variable].sizes))) for variable in entry.ports], list[Row]()
            if [sorted(order(layout)) for layout in row.layouts] == atoms:
                if entry.relation is None:
                    known = [*entry.fixed, *entry.following(0, row.layouts[0])]
                else:
                    known = [*entry.fixed, *Alternatives(entry.relation, unlimited()).exactly(row)]
            operators.append(entry.operator(tuple(each for each in known if each.same(row))[:1]))
        return replace(self._bare, operators=tuple(operators), constants=self.constants())

    def source(self) -> LayoutProblem:
        """The problem in which every operator has little more than its row of the source model."""
        return self.layouts(limit=Limit(0))

    def constants(self) -> tuple[Constant, ...]:
        """The constants that are wanted more than once, but for small ones; those in the same memory are one."""
        values, found = self.graph.values, dict[object, list[int]]()
        for number, variable in enumerate(self.variables):
            if variable.constant and _bytes(values[variable.title]) >= SHARED:
                found.setdefault(_place(values[variable.title]), []).append(number)
        ends = {_place(values[name]) for name in self.graph.outputs}
        return tuple(
            Constant(tuple(each), _bytes(values[self.variables[each[0]].title]), place in ends)
            for place, each in found.items()
            if len(each) + (place in ends) > 1
        )

    def _state(self) -> None:
        fixed = self.boundary.fixed(self.graph)
        for name in self.graph.inputs:
            self._home[name] = self._variable(name, self._atoms.reading(name))
            self._end(f"input {name}", name, fixed.inputs[name], reads=False)
        nodes = range(len(self.graph.nodes))
        for number in nodes:
            self._outputs(number)
        for number in nodes:
            if number not in self._atoms.views:
                self._node(number)
        for name in dict.fromkeys(self.graph.outputs):
            if name in self._home and name not in fixed.inputs:
                self._end(f"output {name}", name, fixed.outputs[name], reads=True)
        for name, axes in fixed.inner.items():
            self._end(f"layout of {name}", name, axes, reads=True)
        self._join()

    def _join(self) -> None:
        """Mark what one operator hands to another one alone that a runtime may fuse with it, or join with it: runtimes
        fuse operators of single elements with what gives their input, as the bias and the activation of a product.
        """
        writers, readers = dict[int, str](), defaultdict[int, list[str]](list)
        for entry in self.entries:
            for port, variable in enumerate(entry.ports):
                if port < entry.inputs:
                    readers[variable].append(entry.op)
                else:
                    writers[variable] = entry.op
        for variable, ops in readers.items():
            fused = ops[0] in ELEMENTWISE and writers.get(variable)
            if len(ops) == 1 and (fused or ops[0] == writers.get(variable) == "Concat"):
                self.variables[variable] = replace(self.variables[variable], joined=True)

    def _variable(self, name: str, reading: tuple[Layout, list[int]], constant: bool = False) -> int:
        """A variable of a tensor that is produced by something other than a view, or of a constant at a port."""
        logical, leaves = reading
        sizes, turns = tuple(map(self._atoms.size, leaves)), 1 if constant else _turns(self.graph.region(name))
        size = 0 if constant else turns * _bytes(self.graph.values[name])
        self._readings.append({name: logical})
        self._factors.append(leaves)
        self.variables.append(Variable(name, sizes, size, self._readings[-1], constant, turns, *self._simple))
        return len(self.variables) - 1

    def _end(self, title: str, name: str, axes: Permutation | None, reads: bool) -> None:
        """An input or output of the graph, or an explicit layout; one without a permutation is free. There is one row
        for all that have the same layout: a graph may have very many.
        """
        logical = self._readings[self._home[name]][name]
        layout = logical if axes is None else tuple(logical[axis] for axis in axes)
        row = self._rows.setdefault(layout, Row((layout,)))
        free = row.layouts if axes is None else ()
        self.entries.append(Entry(title, -1, [self._home[name]], int(reads), (row,), free=free, end=name))

    def _outputs(self, number: int) -> None:
        """Enter what a node produces: new variables, or another reading of the one that it is a view of."""
        node = self.graph.nodes[number]
        if number in self._atoms.views:
            (seen,), source = node.outputs, self._home[node.inputs[0]]
            known, self._home[seen] = self._readings[source], source
            known[seen] = self._atoms.seen_through(number, known[node.inputs[0]])
        else:
            self._home |= {name: self._variable(name, self._atoms.reading(name)) for name in node.outputs if name}

    def _node(self, number: int) -> None:
        node, found = self.graph.nodes[number], self._atoms.rule(number)
        names = port_names(self.graph, number, found)
        ports = [self._read(number, port, name) for port, name in enumerate(names)]
        views = self._ports(number, names, ports)
        fixed, free = tuple[Row, ...](), tuple[Layout, ...]()
        if node.op in ("Transpose", "Reshape"):
            fixed = self._view_rows(number, views)
        elif node.op == "State":
            free = tuple(port.logical for port in views)
            fixed = (Row(free),)
        still = free or (fixed and all(isinstance(form, Placed) for form in found.forms))
        relation = None if still else self._relation(number, found, names, ports, views)
        title = str(node.origin) if node.origin else " ".join((node.op, *node.outputs[:1]))
        inputs = len(found.inputs)
        self.entries.append(Entry(title, number, ports, inputs, fixed, node.op, relation, found, tuple(names), free))

    def _read(self, number: int, port: int, name: str) -> int:
        """The variable at a port of a node: of a constant it is one of its own."""
        if self.graph.values[name].data is None:
            return self._home[name]
        return self._variable(name, self._atoms.constant_reading(number, port), constant=True)

    def _ports(
        self, number: int, names: Sequence[str], ports: Sequence[int], way: int | None = None
    ) -> tuple[Port, ...]:
        """The ports of a node, as a way with labels of its own has them or as all others do."""
        found = [self.variables[variable] for variable in ports]
        return tuple(
            self._atoms.port(number, port, each.readings[name], each.sizes, each.constant, way)
            for port, (name, each) in enumerate(zip(names, found, strict=True))
        )

    def _relation(
        self, number: int, rule: Rule, names: Sequence[str], ports: Sequence[int], views: tuple[Port, ...]
    ) -> Relation:
        op = self.graph.nodes[number].op
        own = {way: self._ports(number, names, ports, way) for way in self._atoms.factored(number)}
        size = max((self.variables[each].bytes for each in ports), default=0) if self.goal.timed else 0
        sizes = [self.variables[each].sizes for each in ports]
        kinds = tuple(sized(self.target.named(op, way), sizes) for way in rule.ways)
        weigh = self.target.weigh(op, kinds, size, seen=not any(port.unseen for port in views))
        outputs = len(ports) - len(rule.inputs)
        key = ((op, size, kinds) if weigh else (), forms := rule.forms, views, *own.items())
        alike = self._alike.setdefault(key, len(self._alike))
        return Relation(views, forms, outputs, own, weigh, alike)

    def _view_rows(self, number: int, ports: Sequence[Port]) -> tuple[Row, ...]:
        """A view that has to stay an operator: it costs what it is."""
        node = self.graph.nodes[number]
        layouts, turns = tuple(port.logical for port in ports), _turns(node.region)
        still = self.target.reshape_price(1, turns, self.goal.timed)
        if node.op == "Reshape":
            forms = enumerate(self._atoms.rule(number).forms)
            written = next((at for at, form in forms if isinstance(form, Arranged) and form.price.reshapes), 0)
            return (Row(layouts, written, price=still),)
        stored = self.graph.values[node.inputs[0]]
        sizes, source, target = as_layouts(stored.shape, node.attributes["perm"])
        moved = Variable(stored.name, tuple(sizes), turns * _bytes(stored), {}, False, turns, *self._simple)
        price = still
        if source != target:
            slow = hindered(layouts[0], node.attributes["perm"])
            price = self.target.transpose_price(moved, source, target, slow, 0, self.goal.timed)
        return (Row(layouts, price=replace(price, transposes=1, reshapes=0, bytes=moved.bytes)),)


def _bytes(value: Value) -> int:
    """The bytes that a tensor takes, symbolic dimensions counted as 1."""
    return int(static_elements(value.shape) * element_bytes(value.dtype))


def _place(value: Value) -> object:
    """What constants have in common that are written once, None for what is computed."""
    return None if value.data is None else (value.dtype, *memory(value.data))


def _turns(region: Region | None) -> int:
    """How often a region is taken to run where the main graph runs once."""
    if region is None:
        return 1
    return _turns(region.parent) * (TURNS if region.role == "body" else 1)
