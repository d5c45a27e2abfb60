"""Applying an assignment to a graph: operators rewritten for their rows, constants rearranged, moves inserted.

This is the only place where a Transpose is made, but for those that a row is written with, which its price counts. The
result is again a graph, in which every node is to be written as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit import views
from layoutsolve.emit.concats import joined
from layoutsolve.emit.constants import Constants
from layoutsolve.emit.conversions import left_out
from layoutsolve.emit.products import beside_products, with_biases
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.functions import Function
from layoutsolve.ir.graph import LATE, Array, Dim, Graph, Node, Region, Value, reshape_entries
from layoutsolve.ir.names import Names, short
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.price import deliver
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.theory.layout import Layout, stored_shape
from layoutsolve.solver.theory.move import move
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Changed, Step


def apply(assignment: Assignment, budget: Budget | None = None) -> Graph:
    """The assignment's graph with every tensor in the layout that it is given; constants count in the ``budget``."""
    return _Applier(assignment, budget or Budget()).result()


def meant(assignment: Assignment, applied: Graph | None = None) -> frozenset[str]:
    """What is moved as floats in what :func:`apply` has ``applied``, or makes, of an assignment, as its target
    wants it.
    """
    if not assignment.goal.target.storage.views:
        return frozenset()
    return views.meant(apply(assignment) if applied is None else applied)


@dataclass(frozen=True)
class Stored:
    """Where a tensor of a graph is written: under what name, in which layout, what its own is, and the atoms' sizes."""

    name: str
    layout: Layout
    logical: Layout
    sizes: tuple[Dim, ...]


def stored(assignment: Assignment) -> dict[str, Stored]:
    """Where each tensor that is computed, or given, is found in what :func:`apply` makes: as it is written first."""
    applier = _Applier(assignment, Budget())
    written, found = applier.result(), dict[str, Stored]()
    real = meant(assignment, written)
    for number, variable in enumerate(assignment.problem.variables):
        layout = assignment.written(number)
        name = "" if layout is None else applier.stored[number, layout]
        if layout is not None and name in written.values and name not in real:
            public = written.names.get(name, name)
            found.update({each: Stored(public, layout, own, variable.sizes) for each, own in variable.readings.items()})
    return found


def located(assignment: Assignment) -> tuple[Graph, dict[str, tuple[int, Layout]]]:
    """What :func:`apply` makes, and by the names in the file the variable that each tensor holds and its layout."""
    applier = _Applier(assignment, Budget())
    written = applier.result()
    return written, {written.names.get(name, name): place for place, name in applier.stored.items()}


class _Applier:
    def __init__(self, assignment: Assignment, budget: Budget) -> None:
        graph = assignment.graph
        self.graph, self.assignment = graph, assignment
        self.inputs, self.outputs = frozenset(graph.inputs), frozenset(graph.outputs)
        self.problem = assignment.problem
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.taken = Names(graph.values)
        self.stored: dict[tuple[int, Layout], str] = {}
        self.retyped: dict[tuple[str, str], str] = {}
        self.constants = Constants(graph.values, self.values, self.taken, budget)
        self.late: dict[int, tuple[int, Layout]] = {}
        self.functions: dict[str, Function] = {}
        self.reserved = self._reserved()
        self.names = frozenset(operator.end for _, operator in self._ends())
        for name in graph.outputs:  # constants that operators may want to have in another order as well
            if graph.values[name].data is not None:
                self.values[name] = graph.values[name]

    def _ends(self) -> Iterator[tuple[int, Operator]]:
        """The graph outputs and explicitly laid out tensors, but for those that are inputs as well."""
        for number, operator in enumerate(self.problem.operators):
            if operator.end and operator.inputs and operator.end not in self.inputs:
                yield number, operator

    def _reserved(self) -> dict[tuple[int, Layout], str]:
        """The stored tensors that have to bear the name of an end; the first one where several are stored alike."""
        reserved: dict[tuple[int, Layout], str] = {}
        for number, operator in self._ends():
            reserved.setdefault((operator.ports[0], self.assignment.row(number).layouts[0]), operator.end)
        return reserved

    def result(self) -> Graph:
        for name in self.graph.outputs:
            if self.graph.values[name].data is not None:
                self._original(name)
        for number, operator in enumerate(self.problem.operators):
            if operator.end and not operator.inputs:
                layout = self.assignment.row(number).layouts[0]
                self._declare(operator.ports[0], layout, operator.end, self.graph.values[operator.end])
                self._deliver(operator.ports[0])
            elif not operator.end:
                self._operator(operator, self.assignment.row(number), self.graph.nodes[operator.node])
        for index, port in self.late.items():
            node = self.nodes[index]
            at = LATE[node.op]
            inputs = (*node.inputs[:at], self._input(node.inputs[at], *port), *node.inputs[at + 1 :])
            self.nodes[index] = replace(node, inputs=inputs)
        for number, operator in enumerate(self.problem.operators):
            if operator.end in self.outputs and operator.inputs:
                self._finish(operator.end, self.stored[operator.ports[0], self.assignment.row(number).layouts[0]])
        for name in self.graph.outputs:
            self.values.setdefault(name, self.graph.values[name])
        made = replace(self.graph, values=self.values, nodes=tuple(self.nodes), functions=self.functions)
        made = joined(made, self.names)
        if self.assignment.goal.target.timed:
            made = with_biases(beside_products(made, self.names), self.names, self.constants.budget)
        storage = self.assignment.goal.target.storage
        made = left_out(made, storage, self.names) if storage.unsigned else made
        return views.as_images(made) if storage.views else made

    def _finish(self, name: str, stored: str) -> None:
        """Give a graph output its own name where its stored tensor is called differently."""
        if stored != name and name not in self.inputs:
            self.values[name] = replace(self.values[stored], name=name)
            self.nodes.append(Node("Identity", (stored,), (name,), storage=True))

    def _operator(self, operator: Operator, row: Row, node: Node) -> None:
        """Write one operator in its row, and move its outputs to where they are read."""
        rule = self.assignment.rules[operator.node]
        ports = list(zip(operator.ports, row.layouts, strict=True))
        late = LATE.get(node.op)
        inputs = {
            index: node.inputs[index] if index == late else self._input(node.inputs[index], *port)
            for index, port in zip(rule.inputs, ports, strict=False)
        }
        produced = [index for index, name in enumerate(node.outputs) if name]
        written = dict(zip(produced, ports[operator.inputs :], strict=True))
        shapes = tuple(stored_shape(layout, self.problem.variables[variable].sizes) for variable, layout in ports)
        steps = rule.rewrite(row, shapes)
        if not steps and not (node.storage or self._means_the_same(node, rule.inputs[0], *written)):
            steps = (Step("Identity", rule.inputs[:1], tuple(written)),)  # what is stored is dequantized, or quantized
        if not steps:
            ((variable, layout),) = written.values()
            self.stored[variable, layout] = inputs[rule.inputs[0]]
        else:
            outputs = {index: self._produce(*port, node.outputs[index]) for index, port in written.items()}
            self._steps(steps, node, inputs, outputs)
        if late in inputs:
            self.late[len(self.nodes) - 1] = ports[rule.inputs.index(late)]
        for variable, _ in written.values():
            self._deliver(variable)

    def _means_the_same(self, node: Node, read: int, written: int) -> bool:
        """Whether what an operator gives may be called what it reads: both are numbers of one type and meaning."""
        before, after = self.graph.values[node.inputs[read]], self.graph.values[node.outputs[written]]
        if before.quant is None or after.quant is None:
            return before.quant is after.quant
        return before.dtype == after.dtype and after.quant.matches(before.quant)

    def _steps(self, steps: Sequence[Step], node: Node, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> None:
        """Write the steps of a rewritten node; names of results between them are made unique."""
        local: dict[str, str] = {}
        main = node.outputs[0] if node.outputs else ""

        def port(number: int) -> str:
            return inputs[number] if number in inputs else self._original(node.inputs[number])

        def read(item: int | str | Array | Value | Changed) -> str:
            if isinstance(item, Changed):
                return self.constants.new(item.how(self.values[port(item.number)].constant), main)
            if isinstance(item, Value):
                return self.constants.given(item)
            if isinstance(item, np.ndarray):
                return self.constants.new(item, main)
            if isinstance(item, str):
                return local.get(item, item)
            return port(item)

        for step in steps:
            names = tuple(read(item) for item in step.inputs)
            results = []
            for item in step.outputs:
                if isinstance(item, Between):
                    local[item.name] = self.taken.derived(main, item.name)
                    self.values[local[item.name]] = Value(local[item.name], item.dtype, item.shape, item.quant)
                    results.append(local[item.name])
                else:
                    results.append(outputs[item] if isinstance(item, int) else "")
            op = step.op if step.function is None else self._called(step.function)
            written = replace(node, op=op, inputs=names, outputs=tuple(results), attributes=step.attributes)
            storage = node.storage or step.storage
            self.nodes.append(replace(written, pattern=False, domain=step.domain, storage=storage))

    def _called(self, function: Function) -> str:
        """The name of a function; one that is another than what is called so gets a number."""
        for number in count(1):
            name = function.name if number == 1 else f"{function.name}_{number}"
            found = self.functions.get(name, function).joined(function)
            if found is not None:
                self.functions[name] = replace(found, name=name)
                return name
        raise AssertionError

    def _input(self, name: str, variable: int, layout: Layout) -> str:
        """The stored tensor from which a port reads."""
        if not self.problem.variables[variable].constant:
            return self._retyped(self.stored[variable, layout], name, self._region(variable))
        return self.constants.arranged(name, self.problem.variables[variable], layout)

    def _retyped(self, stored: str, name: str, region: Region | None) -> str:
        """A view may read the same stored integers with another scale than they were written with, and in a source in
        ONNX with none; or the real numbers that they mean.
        """
        wanted, present = self.graph.values[name], self.values[stored]
        same = present.quant is None if wanted.quant is None else wanted.quant.matches(present.quant)
        if same or (wanted.quant is None and not self.graph.imports):
            return stored
        if (stored, name) not in self.retyped:
            unique = self.taken.derived(stored, f"as/{short(name)}")
            self.values[unique] = replace(present, name=unique, dtype=wanted.dtype, quant=wanted.quant)
            alike = wanted.dtype == present.dtype
            self.nodes.append(Node("Identity", (stored,), (unique,), storage=alike, region=region))
            self.retyped[stored, name] = unique
        return self.retyped[stored, name]

    def _original(self, name: str) -> str:
        """The name of a value of the source, as it stands there."""
        value = self.graph.values[name]
        if value.data is not None:
            return self.constants.original(name)
        self.values.setdefault(name, value)
        return name

    def _produce(self, variable: int, layout: Layout, name: str) -> str:
        """Declare the tensor that an operator writes."""
        like = self.graph.values[name]
        if (variable, layout) in self.reserved:
            name = self.reserved[variable, layout]
        elif name in self.names:
            name = self.taken.derived(name, "stored")
        return self._declare(variable, layout, name, like)

    def _declare(self, variable: int, layout: Layout, name: str, like: Value) -> str:
        shape = stored_shape(layout, self.problem.variables[variable].sizes)
        self.values[name] = replace(like, name=name, shape=shape, data=None)
        self.stored[variable, layout] = name
        return name

    def _region(self, variable: int) -> Region | None:
        """Where a variable is produced, which is also where it is moved: all that read it can see the result."""
        return self.graph.region(next(iter(self.problem.variables[variable].readings)))

    def _deliver(self, variable: int) -> None:
        """Move a variable into every layout that is read, as the price says."""
        written = self.assignment.written(variable)
        if written is None:
            return
        moved = self.problem.variables[variable]
        readings, rigid = moved.readings, moved.rigid
        root = next(iter(readings))
        free: dict[Layout, str] = {}
        for name, layout in readings.items():
            if name not in self.values:
                free.setdefault(layout, name)
        for source, target in deliver(written, frozenset(self.assignment.read(variable)), rigid):
            known = free.get(target)
            name = self.reserved.get((variable, target), "")
            if not name:
                named = known is not None and known not in self.values and known not in self.outputs
                name = known if named and known is not None else self.taken.derived(root, "moved")
            self._move(variable, source, target, name)

    def _move(self, variable: int, source: Layout, target: Layout, name: str) -> None:
        """Write one move: Reshape, Transpose, Reshape, each only where it is needed."""
        steps = move(source, target, self.problem.variables[variable].rigid)
        sizes, region = self.problem.variables[variable].sizes, self._region(variable)
        layout = source
        current = self.stored[variable, source]
        like = self.values[current]
        if steps.split is not None:
            current = self._reshape(current, layout, steps.split, variable, self.taken.derived(name, "split"))
            layout = steps.split
        if steps.perm is not None:
            layout = tuple(layout[axis] for axis in steps.perm)
            moved = name if steps.target is None else self.taken.derived(name, "transposed")
            self.values[moved] = Value(moved, like.dtype, stored_shape(layout, sizes), like.quant)
            self.nodes.append(
                Node("Transpose", (current,), (moved,), {"perm": steps.perm}, storage=True, region=region)
            )
            current = moved
        if steps.target is not None:
            current = self._reshape(current, layout, steps.target, variable, name)
        self.stored[variable, target] = current

    def _reshape(self, current: str, source: Layout, target: Layout, variable: int, name: str) -> str:
        like, sizes = self.values[current], self.problem.variables[variable].sizes
        shape, region = stored_shape(target, sizes), self._region(variable)
        entries = reshape_entries(stored_shape(source, sizes), shape)
        if entries is None:
            vector = self.taken.derived(name, "shape")
            self.values[vector] = Value(vector, "int64", (len(shape),))
            self.nodes.append(Node("Sizes", (), (vector,), {"dims": shape}, region=region))
        else:
            vector = self.constants.new(np.array(entries, np.int64), name)
        self.values[name] = Value(name, like.dtype, shape, like.quant)
        attributes = {"allowzero": 1} if entries is None or 0 in shape else {}
        self.nodes.append(Node("Reshape", (current, vector), (name,), attributes, storage=True, region=region))
        return name
