"""Stating a graph as a layout problem: its variables, and by candidates the rows of its operators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from layoutsolve.ir.graph import Graph, Region, Value, element_bytes, memory, static_elements
from layoutsolve.solver.limit import Limit, unlimited
from layoutsolve.solver.statement.atom_selection import Tensor, unseen
from layoutsolve.solver.statement.boundary import Boundary, Permutation
from layoutsolve.solver.statement.candidates import Candidates
from layoutsolve.solver.statement.network import Entry, Network, Orders
from layoutsolve.solver.statement.objective import Goal, coarse_tiers
from layoutsolve.solver.statement.problem import Constant, LayoutProblem, Variable
from layoutsolve.solver.statement.row_enumeration import Alternatives, Mode
from layoutsolve.solver.theory.atoms import Atoms, port_names
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.solver.theory.motion import Motion, as_layouts, motion_between
from layoutsolve.solver.theory.move import hindered
from layoutsolve.solver.theory.relation import Arranged, Placed, Port
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Rule

CANDIDATES, FEW = 1024, 32
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
        self.target = self.goal.target
        self._simple = self.target.alike, self.goal.counted
        self.boundary.check(graph)
        self._atoms = atoms or Atoms(graph, opaque_views, self.target.offer)
        self._factors: list[list[int]] = []
        self.variables: list[Variable] = []
        self._readings: list[dict[str, Layout]] = []
        self._home: dict[str, int] = {}
        self._rows: dict[Layout, Row] = {}
        self.entries: list[Entry] = []
        self._state()
        self.network = Network(self.variables, self.entries, self.target, self.goal.timed)

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
        """What states the problem of :meth:`orders`, with more and more variables charged."""
        return Candidates(self.network, limit, most, Mode.ORDERS)

    def unseen(self, most: int) -> frozenset[int]:
        """The factors to leave out so that no variable has more than ``most`` atoms."""
        return unseen(self._tensors(), most)

    def _tensors(self) -> Iterator[Tensor]:
        for variable, factors in zip(self.variables, self._factors, strict=True):
            if not variable.constant:
                for layout in variable.readings.values():
                    yield tuple(tuple(factors[atom] for atom in group) for group in layout)

    def layouts(self, kept: Orders | None = None, limit: Limit | None = None) -> LayoutProblem:
        """The problem over full layouts; with ``kept``, over those that have the orders of the given rows."""
        most, mode = (AT_ONCE, Mode.BOTH) if kept is None else (CANDIDATES, Mode.GROUPINGS)
        stated = Candidates(self.network, limit or unlimited(), most, mode, kept).problem()
        return replace(stated, constants=self.constants())

    def suggested(self, number: int, layouts: Mapping[int, Layout]) -> list[Row]:
        """The rows of an operator that layouts at some of its ports lead to, and those that it demands by itself."""
        relation = self.network.relation(number)
        if relation is None:
            return []
        alternatives = Alternatives(relation, Mode.BOTH, unlimited())
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
        for number, (entry, row) in enumerate(zip(self.entries, rows, strict=True)):
            found = [each for each in self._recorded(number, row) if each.same(row)] if self._fits(entry, row) else []
            operators.append(entry.operator(tuple(found[:1])))
        return LayoutProblem(
            tuple(self.variables), tuple(operators), False, self.target, self.goal.timed, constants=self.constants()
        )

    def _recorded(self, number: int, row: Row) -> list[Row]:
        """Rows of an operator, a recorded one among them if there is one."""
        entry, relation = self.entries[number], self.network.relation(number)
        if relation is None:
            return [*entry.fixed, *entry.following(0, row.layouts[0])]
        return [*entry.fixed, *Alternatives(relation, Mode.GROUPINGS, unlimited()).exactly(row)]

    def _fits(self, entry: Entry, row: Row) -> bool:
        """Whether a row has a layout for each port, of just the atoms that are there."""
        atoms = [list(range(len(self.variables[variable].sizes))) for variable in entry.ports]
        return [sorted(order(layout)) for layout in row.layouts] == atoms

    def first(self, limit: Limit) -> LayoutProblem:
        """The problem that is searched first: over orders, where all that groupings decide comes after them."""
        return self.layouts(limit=limit) if coarse_tiers(self.goal.tiers) is None else self.orders(limit)

    def source(self) -> LayoutProblem:
        """The problem in which every operator has little more than its row of the source model."""
        return self.layouts(limit=Limit(0))

    def constants(self) -> tuple[Constant, ...]:
        """The constants that are wanted more than once, but for small ones; those in the same memory are one."""
        ports: dict[object, list[int]] = {}
        for number, variable in enumerate(self.variables):
            if variable.constant and _bytes(self.graph.values[variable.title]) >= SHARED:
                ports.setdefault(_place(self.graph.values[variable.title]), []).append(number)
        ends = {_place(self.graph.values[name]) for name in self.graph.outputs}
        return tuple(
            Constant(tuple(found), _bytes(self.graph.values[self.variables[found[0]].title]), place in ends)
            for place, found in ports.items()
            if len(found) + (place in ends) > 1
        )

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
        turns = _turns(self.graph.region(name))
        size = turns * _bytes(self.graph.values[name])
        self._home[name] = self._variable(name, self._atoms.reading(name), size, turns=turns)
        return self._home[name]

    def _variable(
        self, name: str, reading: tuple[Layout, list[int]], size: int, constant: bool = False, turns: int = 1
    ) -> int:
        logical, leaves = reading
        sizes = tuple(self._atoms.size(leaf) for leaf in leaves)
        self._readings.append({name: logical})
        self._factors.append(leaves)
        self.variables.append(Variable(name, sizes, size, self._readings[-1], constant, turns, *self._simple))
        return len(self.variables) - 1

    def _end(self, name: str, permutation: Permutation | None, reads: bool) -> None:
        """An input or output of the graph; one without a permutation is free."""
        logical = self._readings[self._home[name]][name]
        title = f"{'output' if reads else 'input'} {name}"
        if permutation is None:
            row = self._only_row(logical)
            self.entries.append(Entry(title, -1, [self._home[name]], int(reads), (row,), free=row.layouts, end=name))
        else:
            self._fixed(title, name, tuple(logical[axis] for axis in permutation), reads)

    def _fixed(self, title: str, name: str, layout: Layout, reads: bool) -> None:
        row = self._only_row(layout)
        self.entries.append(Entry(title, -1, [self._home[name]], int(reads), (row,), end=name))

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
        names = port_names(self.graph, number, found)
        for port, name in enumerate(names):
            constant = self.graph.values[name].data is not None
            if constant:
                variable = self._variable(name, self._atoms.constant_reading(number, port), 0, constant=True)
            else:
                variable = self._home[name]
            ports.append(variable)
            sizes = self.variables[variable].sizes
            relations.append(self._atoms.port(number, port, self._readings[variable][name], sizes, constant))
        own = {way: tuple(self._own_ports(number, way, names, ports)) for way in self._atoms.factored(number)}
        title = str(node.origin) if node.origin else " ".join((node.op, *node.outputs[:1]))
        entry = Entry(title, number, ports, len(found.inputs), (), node.op, tuple(relations), own, found, tuple(names))
        if node.op in ("Transpose", "Reshape"):
            entry.fixed = self._view_rows(number, relations)
        elif node.op == "State":
            entry.free = tuple(port.logical for port in relations)
            entry.fixed = (Row(entry.free),)
        if entry.free or (entry.fixed and all(isinstance(form, Placed) for form in found.forms)):
            entry.relations = None
        self.entries.append(entry)

    def _own_ports(self, number: int, way: int, names: Sequence[str], ports: Sequence[int]) -> Iterator[Port]:
        """The ports of a node as a way with labels of its own has them."""
        for port, (name, variable) in enumerate(zip(names, ports, strict=True)):
            found = self.variables[variable]
            yield self._atoms.port(number, port, found.readings[name], found.sizes, found.constant, way)

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
            slow = not moved.unhindered and hindered(layouts[0], node.attributes["perm"])
            motion, together = (Motion.GENERAL, 0) if slow else motion_between(source, target)
            price = self.target.transpose_price(
                moved, motion, order(target)[len(target) - together :], 0, self.goal.timed
            )
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
