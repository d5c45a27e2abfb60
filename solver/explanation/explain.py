"""Explaining an assignment: where data is moved or regrouped, between which demands, and what would make it vanish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from layoutsolve.ir.graph import Graph, Shape
from layoutsolve.solver.explanation.demand import Found, Place, Walk
from layoutsolve.solver.explanation.remedy import END_KINDS, Freeing, Outcome, Remedy, Trials
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.price import deliver
from layoutsolve.solver.theory.layout import Layout, stored_shape
from layoutsolve.solver.theory.move import move


@dataclass(frozen=True)
class Demand:
    """What one side of a move insists on.

    ``operator`` keeps ``tensor`` in the order ``dimensions``, numbers of the tensor's dimensions in the source model
    ("0 3 1 2"; "3.1" is the second factor of dimension 3, "1*2" one stored dimension of both). ``kind`` is 'input',
    'output', 'layout' (an explicit one) or 'operator'. ``through`` lists operators between it and the move, which
    follow it. ``costly`` says that it could do otherwise at the price of a transposition inside.
    """

    operator: str
    kind: str
    tensor: str
    dimensions: str
    through: tuple[str, ...] = ()
    costly: bool = False


@dataclass(frozen=True)
class Explained:
    """One Transpose or Reshape of the written model.

    It makes a tensor of shape ``target`` from one of shape ``source``. It lies between the operator ``after``, which
    writes ``tensor``, and the operators ``before``, which read the result. ``bytes`` is what it moves, 0 for a
    Reshape; ``permutation`` is a Transpose's. ``held`` and ``wanted`` are the orders of the tensor's dimensions on both
    sides of the move (see :class:`Demand`), ``gives`` and ``wants`` the demands that they come from, the nearest on
    each side; where it is a part of how the operator ``after`` is written, there are none. ``remedies`` are changes
    that lead to fewer Transposes. ``necessary`` says that there are none, and that at least as many Transposes as are
    called so are proven to stay whatever the inputs, outputs and explicit layouts are.
    """

    operator: str
    tensor: str
    after: str
    before: tuple[str, ...]
    bytes: int
    permutation: tuple[int, ...] | None
    source: tuple[str, ...]
    target: tuple[str, ...]
    held: str = ""
    wanted: str = ""
    gives: Demand | None = None
    wants: Demand | None = None
    necessary: bool = False
    remedies: tuple[Remedy, ...] = ()


def explain(
    graph: Graph, boundary: Boundary, assignment: Assignment, seconds: float | None = None
) -> tuple[Explained, ...]:
    """Explain every Transpose and Reshape that an assignment leads to, in the order of the written model.

    ``graph`` and ``boundary`` are what was solved. What would help is found by solving again, a few times at most, all
    within one limit: ``seconds``, or the work that solving once is allowed.
    """
    limit = Limit.of(len(assignment.graph.nodes), seconds)
    return _Explainer(graph, boundary, assignment).result(limit)


@dataclass(frozen=True)
class _Unjudged:
    """An operator that is explained, with what would free either side of a Transpose: None where nothing would."""

    explained: Explained
    sides: tuple[Freeing | None, ...] = ()


class _Explainer:
    def __init__(self, graph: Graph, boundary: Boundary, assignment: Assignment) -> None:
        self.graph, self.boundary, self.assignment = graph, boundary, assignment
        self.problem = assignment.problem
        self.names = source_names(assignment.graph)

    @cached_property
    def orders(self) -> Walk:
        return Walk(self.boundary, self.assignment, orders=True)

    @cached_property
    def layouts(self) -> Walk:
        return Walk(self.boundary, self.assignment, orders=False)

    def result(self, limit: Limit) -> tuple[Explained, ...]:
        unjudged: list[_Unjudged] = []
        for number, operator in enumerate(self.problem.operators):
            unjudged += self._within(number)
            for port in range(operator.inputs, len(operator.ports)):
                variable = operator.ports[port]
                written = self.assignment.row(number).layouts[port]
                rigid = self.problem.variables[variable].rigid
                for source, target in deliver(written, frozenset(self.assignment.read(variable)), rigid):
                    unjudged += self._moved(variable, source, target)
        moved = [found.sides for found in unjudged if found.explained.operator == "Transpose" and found.sides]
        trials = Trials(self.graph, self.boundary, self.assignment, limit)
        outcome = trials.run(moved)
        return tuple(self._concluded(found, outcome) for found in unjudged)

    @staticmethod
    def _concluded(found: _Unjudged, outcome: Outcome) -> Explained:
        if found.sides:
            remedies, necessary = outcome.remedies(found.sides), outcome.necessary(found.sides)
            return replace(found.explained, remedies=remedies, necessary=necessary)
        return replace(found.explained, remedies=outcome.common if found.explained.permutation else ())

    def _within(self, number: int) -> Iterable[_Unjudged]:
        """Those that are part of how an operator is written."""
        operator = self.problem.operators[number]
        if operator.node < 0:
            return
        row = self.assignment.row(number)
        shapes = tuple(
            stored_shape(layout, self.problem.variables[variable].sizes)
            for variable, layout in zip(operator.ports, row.layouts, strict=True)
        )
        for step in self.assignment.rules[operator.node].rewrite(row, shapes):
            if step.op in ("Transpose", "Reshape"):
                variable = operator.ports[-1]
                size = self.problem.variables[variable].bytes if step.op == "Transpose" else 0
                perm = tuple(step.attributes["perm"]) if step.op == "Transpose" else None
                ends = (_text(shapes[0]), _text(shapes[-1]))
                yield _Unjudged(Explained(step.op, self._tensor(variable), operator.title, (), size, perm, *ends))

    def _moved(self, variable: int, source: Layout, target: Layout) -> Iterable[_Unjudged]:
        """The operators that one move consists of."""
        rigid = self.problem.variables[variable].rigid
        steps = move(source, target, rigid)
        walk = self.layouts if steps.perm is None else self.orders
        before = walk.places(variable, source)
        readers = [place for place in walk.places(variable, target) if place not in before]
        gives, wants = (self._telling(found) for found in (walk.demands(before, target), walk.demands(readers, source)))
        writer = self.problem.writers[variable]
        tensor = self._tensor(variable)
        logical = self.problem.variables[variable].readings[tensor]
        common = Explained(
            "Reshape",
            tensor,
            "" if writer is None else self.problem.operators[writer[0]].title,
            self._titles(readers),
            0,
            None,
            (),
            (),
            dimensions(logical, source),
            dimensions(logical, target),
            self._demand(gives),
            self._demand(wants),
        )
        sides = () if steps.perm is None else (self._freeing(gives), self._freeing(wants))
        sizes = self.problem.variables[variable].sizes
        current = source
        for op, reached in _steps(source, target, rigid):
            shapes = {"source": _text(stored_shape(current, sizes)), "target": _text(stored_shape(reached, sizes))}
            made = replace(common, operator=op, **shapes)  # type: ignore[arg-type]
            if op == "Transpose":
                made = replace(made, bytes=self.problem.variables[variable].bytes, permutation=steps.perm)
            yield _Unjudged(made, sides)
            current = reached

    def _titles(self, places: Sequence[Place]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.problem.operators[number].title for number, _ in places))

    def _telling(self, found: Iterable[Found]) -> list[Found]:
        """The demands up to the first one of an operator: whatever follows, no choice of the ends frees that side."""
        telling = list[Found]()
        for each in found:
            telling.append(each)
            if self._kind(each.operator) == "operator":
                break
        return telling

    def _demand(self, found: Sequence[Found]) -> Demand | None:
        """The nearest demand."""
        if not found:
            return None
        nearest = found[0]
        operator = self.problem.operators[nearest.operator]
        variable = operator.ports[nearest.port]
        tensor = self._tensor(variable)
        logical = self.problem.variables[variable].readings[tensor]
        stored = self.assignment.row(nearest.operator).layouts[nearest.port]
        titles = dict.fromkeys(self.problem.operators[number].title for number in nearest.through)
        through = tuple(title for title in titles if title != operator.title)
        kind = self._kind(nearest.operator)
        return Demand(operator.title, kind, tensor, dimensions(logical, stored), through, nearest.costly)

    def _kind(self, number: int) -> str:
        operator = self.problem.operators[number]
        if operator.node >= 0:
            return "operator"
        if not operator.inputs:
            return "input"
        return "output" if operator.end in self.graph.outputs else "layout"

    def _freeing(self, found: Sequence[Found]) -> Freeing | None:
        """The ends and explicit layouts that make all demands of a side; None where an operator makes one."""
        kinds = [(self._kind(item.operator), self.problem.operators[item.operator].end) for item in found]
        return frozenset(kinds) if kinds and all(kind in END_KINDS for kind, _ in kinds) else None

    def _tensor(self, variable: int) -> str:
        """The name by which the source model knows a variable: its first tensor that is not inside an operator."""
        readings = self.problem.variables[variable].readings
        return next((name for name in readings if name in self.names), next(iter(readings)))


def _steps(source: Layout, target: Layout, rigid: bool) -> Iterable[tuple[str, Layout]]:
    """The operators of a move and what each of them leads to."""
    steps = move(source, target, rigid)
    current = source
    if steps.split is not None:
        current = steps.split
        yield "Reshape", current
    if steps.perm is not None:
        current = tuple(current[axis] for axis in steps.perm)
        yield "Transpose", current
    if steps.target is not None:
        yield "Reshape", steps.target


def dimensions(logical: Layout, stored: Layout) -> str:
    """A stored layout in numbers of the tensor's own dimensions, as :class:`Demand` shows it."""
    units = [str(axis) for axis, group in enumerate(logical) if not group]
    if sorted(logical) != sorted(stored):
        units = ["-"] * stored.count(())
    rest = iter(units)
    return " ".join(_group(logical, group) if group else next(rest) for group in stored)


def _group(logical: Layout, group: Sequence[int]) -> str:
    if tuple(group) in logical:
        return str(logical.index(tuple(group)))
    names: list[str] = []
    for atom in group:
        axis = next(axis for axis, atoms in enumerate(logical) if atom in atoms)
        factors = logical[axis]
        names.append(str(axis) if len(factors) == 1 else f"{axis}.{factors.index(atom)}")
    return "*".join(names)


def _text(shape: Shape) -> tuple[str, ...]:
    return tuple(map(str, shape))


def source_names(graph: Graph) -> set[str]:
    """The tensors between operators of the source model, as opposed to those inside of what one was lowered to."""
    names = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        for name in node.inputs:
            producer = graph.producers.get(name)
            if producer is not None and graph.nodes[producer].origin != node.origin:
                names.add(name)
    return names
