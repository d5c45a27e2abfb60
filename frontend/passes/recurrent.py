"""Recognition of recurrent networks whose cells are written out in the iterations of a loop, as ONNX's operators.

TensorFlow Lite has no GRU, and newer converters write LSTM and simple cells as loops as well. ONNX's operators multiply
the data of all steps at once, and runtimes do not start a graph anew for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.frontend.passes.recurrent_cells import Cell, Product, Step
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import memory
from layoutsolve.ir.graph import OPENING, Array, Graph, Node, Quant, Region, Shape, Value, reshape_entries
from layoutsolve.ir.names import Names

_COUNTED = 3
"""The inputs of a Loop that says how many turns there are."""

_LABELS = ("y", "y_h", "y_c")
"""What ONNX calls what its operators give: for all steps, and the states after the last one."""


@dataclass(frozen=True)
class _Network:
    """A loop over a cell: the states before the first step, and by each result which of :data:`_LABELS` it is."""

    cell: Cell
    initial: Sequence[str]
    results: Sequence[tuple[str, int]]


def recognise(graph: Graph, budget: Budget) -> Graph:
    """The same graph with GRU, LSTM and RNN in place of loops over their cells. Weights that are put together for that
    count in the ``budget``.
    """
    loops = [node for node in graph.nodes if node.op == "Loop" and len(node.inputs) == _COUNTED]
    if not loops:
        return graph
    inner, ties = defaultdict[Region, list[Node]](list), defaultdict[Region, list[Node]](list)
    for node in graph.nodes:
        if node.region is not None:
            inner[node.region].append(node)
        for region in node.regions if node.op not in OPENING else ():
            ties[region].append(node)
    pairs = ((loop, _network(graph, loop, inner[loop.regions[0]], ties[loop.regions[0]])) for loop in loops)
    found = {loop: network for loop, network in pairs if network is not None}
    if not found:
        return graph
    writer, nodes = _Writer(graph, budget), list[Node]()
    gone = {loop.regions[0] for loop in found}
    for node in graph.nodes:
        if node in found:
            nodes += writer.written(node, found[node])
        elif node.region not in gone and gone.isdisjoint(node.regions):
            nodes.append(node)
    return rewritten(graph, nodes, writer.values)


def _network(graph: Graph, loop: Node, inner: Sequence[Node], ties: Sequence[Node]) -> _Network | None:
    """The network that a loop is, if its turns are counted, each is a step of a cell, and it gives nothing else."""
    count, (region,) = _turns(graph, loop), loop.regions
    if not count or {node.op for node in ties} - {"Carry", "Stack"} or any(node.op in OPENING for node in inner):
        return None
    read = {name for node in inner for name in node.inputs}
    carries = [node for node in ties if node.op == "Carry"]
    counters = [node for node in carries if _is_counter(graph, node)]
    states = [node for node in carries if node not in counters and node.outputs[0] in read]
    step = Step(graph, region, count, [node.outputs[0] for node in counters])
    cell = step.cell({node.outputs[0]: node.inputs[1] for node in states})
    if cell is None:
        return None
    after, results = [*cell.after.values()], list[tuple[str, int]]()
    for tie in ties:
        if graph.reads[tie.outputs[-1]] or tie.outputs[-1] in graph.results:
            end = step.viewed(tie.inputs[-1])
            if tie in counters or end not in after or (tie.op == "Stack" and end != after[0]):
                return None
            results.append((tie.outputs[-1], 0 if tie.op == "Stack" else 1 + after.index(end)))
    first = {node.outputs[0]: node.inputs[0] for node in states}
    shapes = {graph.values[name].shape for name in (*first.values(), *after)}
    if shapes != {(graph.values[cell.sequence].shape[1], graph.values[after[0]].shape[-1])}:
        return None
    return _Network(cell, [first[name] for name in cell.after], results)


def _turns(graph: Graph, loop: Node) -> int | None:
    """How many turns a loop has that ends at no condition."""
    conditions, count = [graph.constant(name) for name in loop.inputs[:2]], graph.constant(loop.inputs[2])
    always = all(each is not None and each.all() for each in conditions)
    return int(count.reshape(())) if always and count is not None else None


def _is_counter(graph: Graph, carry: Node) -> bool:
    """Whether what is carried is the number of the turn."""
    first, node = graph.values[carry.inputs[0]], graph.producer(carry.inputs[1])
    if first.data is None or first.dtype not in ("int32", "int64") or first.data.any():
        return False
    if node is None or node.op != "Add" or carry.outputs[0] not in node.inputs:
        return False
    step = graph.constant(node.inputs[1 - node.inputs.index(carry.outputs[0])])
    return step is not None and bool((step == 1).all())


class _Writer:
    """Writes networks as operators; ``values`` has those that are new."""

    def __init__(self, graph: Graph, budget: Budget) -> None:
        self.graph, self.budget, self.values = graph, budget, dict(graph.values)
        self.taken = Names(graph.values)
        self.known: dict[tuple[object, ...], str] = {}

    def written(self, loop: Node, network: _Network) -> list[Node]:
        """The operator that a network is, with views of what it reads and gives."""
        cell, nodes = network.cell, list[Node]()
        result = next(iter(cell.after.values()))
        steps, batch, _ = self.values[cell.sequence].shape
        units = self.values[result].shape[-1]
        state: Shape = (1, batch, units)

        def view(name: str, target: str) -> None:
            entries = reshape_entries(self.values[name].shape, self.values[target].shape)
            shape = self._constant(target, "shape", np.array(entries, np.int64))
            nodes.append(replace(loop, op="Reshape", inputs=(name, shape), outputs=(target,), regions=()))

        weights = [self._weights(result, "weights", [gate.read for gate in cell.gates])]
        weights.append(self._weights(result, "recurrent", [gate.kept for gate in cell.gates]))
        bias = np.concatenate([*(gate.read_bias for gate in cell.gates), *(gate.kept_bias for gate in cell.gates)])
        weights += [self._constant(result, "bias", bias[None]) if bias.any() else "", ""]
        before = [self._before(name, state, view) for name in network.initial]
        shapes = [(steps, 1, batch, units), state, state]
        made = [self._new(result, label, shape) for label, shape in zip(_LABELS, shapes, strict=True)]
        made = made[: 1 + len(before)]
        attributes = {"direction": "forward", "hidden_size": units, **cell.attributes}
        inputs = (cell.sequence, *weights, *before)
        node = replace(loop, op=cell.op, inputs=inputs, outputs=tuple(made), attributes=attributes, regions=())
        nodes.append(node)
        for name, which in network.results:
            view(made[which], name)
        return nodes

    def _before(self, name: str, shape: Shape, view: Callable[[str, str], None]) -> str:
        """A state before the first step as ONNX has it; '' where it is zero."""
        data, node = self.graph.constant(name), self.graph.producer(name)
        if node is not None and node.op == "Expand":  # of an open batch
            given = self.graph.constant(node.inputs[0])
            if given is not None and not given.any():
                return ""
        if data is not None:
            return self._constant(name, "initial", data[None]) if data.any() else ""
        target = self._new(name, "initial", shape)
        view(name, target)
        return target

    def _weights(self, name: str, label: str, products: Sequence[Product]) -> str:
        """The weights of all gates, [1, units of each gate, features]; the same ones for loops that share a body."""
        key = tuple(_key(product) for product in products)
        if key not in self.known:
            parts, steps = zip(*map(_rows, products), strict=True)
            quant = None
            if steps[0] is not None:
                scale, zero = (np.concatenate(each) for each in zip(*steps, strict=True))
                quant = Quant(scale, zero, 1)
            data = np.concatenate(parts)[None]
            self.budget.keep(data)
            self.known[key] = self._constant(name, label, data, quant)
        return self.known[key]

    def _constant(self, name: str, label: str, data: Array, quant: Quant | None = None) -> str:
        new = self.taken.derived(name, label)
        self.values[new] = Value(new, data.dtype.name, data.shape, quant, data)
        return new

    def _new(self, name: str, label: str, shape: Shape) -> str:
        new = self.taken.derived(name, label)
        self.values[new] = Value(new, "float32", shape)
        return new


def _key(product: Product) -> tuple[object, ...]:
    """Where weights lie, and which of them are meant."""
    data, quant = product.weights.data, product.weights.quant
    steps = () if quant is None else (memory(quant.scale), memory(quant.zero_point))
    return () if data is None else memory(data), steps, product.turned, product.rows


def _rows(product: Product) -> tuple[Array, tuple[Array, Array] | None]:
    """The weights of a gate, [units, features], and the scale and the zero of each row where they are bytes."""
    data, quant, rows = product.weights.constant, product.weights.quant, slice(*product.rows)
    found = (data.T if product.turned else data)[rows]
    if quant is None:
        return found, None
    scale, zero = (
        each[rows] if len(each) > 1 else np.repeat(each, len(found)) for each in (quant.scale, quant.zero_point)
    )
    return found, (scale, zero)
