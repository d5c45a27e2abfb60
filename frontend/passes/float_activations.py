"""Quantized activations as floats: nothing is rounded any more, but what saturates still does.

A tensor that was stored as integers holds what these mean. Where an operator may give more than the integers could, a
Clip to their range follows, which is one with a clamp beside it. Weights stay as they are stored: what is computed from
constants alone a runtime computes when it loads a model. Inputs, outputs and states keep their types, and so does
what operators look at as integers.

Integers that were given another meaning become products and sums. These are put off as long as operators follow that
do not mind, since mostly the old meaning is given back behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import live, used
from layoutsolve.frontend.passes.quantized_values import ANY, SMALL, Held, Range, is_activation, parameters, range_of
from layoutsolve.frontend.passes.unsigned import MOVING
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import memory
from layoutsolve.ir.graph import CONTROL, Graph, Node, Quant, Region, Value
from layoutsolve.ir.names import Names

AVERAGING = frozenset(("AveragePool", "GlobalAveragePool", "ReduceMean", "Resize"))
"""Operators whose results lie among the numbers that they read, beside those that move or choose them."""

OF_ONE = AVERAGING | {
    "DepthToSpace", "Expand", "Gather", "Identity", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Slice",
    "SpaceToDepth", "Split", "Tile", "Transpose",
}  # fmt: skip
"""Those that read one tensor of numbers, which may be scaled and moved before or after."""

KNOWN: Mapping[str, tuple[float, float]] = {"Sigmoid": (0, 1), "Softmax": (0, 1), "Tanh": (-1, 1)}
"""Operators whose results lie in a range whatever they read."""


def computed(graph: Graph, budget: Budget) -> Graph:
    """The same graph with activations computed as floats. Constants that are written anew count in the
    ``budget``.
    """
    if not any(is_activation(value) for value in graph.values.values()):
        return graph
    return Floats(graph, budget).result()


def _clamped(first: Range, then: Range) -> Range:
    """The one clamp that two in a row are."""
    low, high = (min(max(bound, then[0]), then[1]) for bound in first)
    return low, high


class Floats:
    """Writes the nodes anew. ``held`` has what holds the numbers of a value, ``within`` between which they lie."""

    def __init__(self, graph: Graph, budget: Budget) -> None:
        self.graph, self.budget, self.values = graph, budget, dict(graph.values)
        self.taken = Names(graph.values)
        self.nodes: list[Node] = []
        self.held: dict[str, Held] = {}
        self.within: dict[str, Range] = {}
        self.read: dict[tuple[str, Region | None], str] = {}
        self.meant: dict[tuple[object, ...], str] = {}
        self.ends = {*graph.inputs, *graph.outputs}
        for node in graph.nodes:
            if node.op in CONTROL:
                self.ends.update(filter(None, (*node.inputs, *node.outputs)))
        self.open = {name for name in graph.values if self._is_clamped_later(name)}

    def result(self) -> Graph:
        """The graph that is written."""
        self.compute()
        return self.written()

    def compute(self) -> None:
        """Write all nodes."""
        for node in self.graph.nodes:
            self._node(node)

    def written(self) -> Graph:
        """The graph of what was written, as far as something depends on it."""
        nodes = live(self.nodes, self.graph.outputs, self.values, self.graph.formulas)
        return used(self.graph, nodes, self.values)

    # -- what becomes of a node ------------------------------------------------------------------------------------

    def _node(self, node: Node) -> None:
        small = [self.graph.values[name] for name in (*node.inputs, *node.outputs) if name]
        if node.op in CONTROL or not any(map(is_activation, small)):
            self._keep(node)
        elif node.storage and not self._moves(node):
            self._as_integers(node)
        elif self._is_of_one(node):
            self._of_one(node)
        else:
            self._compute(node)

    def _keep(self, node: Node) -> None:
        """A node without quantized activations; one that reads what was given back as real numbers reads that."""
        inputs = node.inputs if node.op in CONTROL else [self._plain(name, node) for name in node.inputs]
        self.nodes.append(replace(node, inputs=tuple(inputs)))

    def _as_integers(self, node: Node) -> None:
        """A node that looks at integers: they are stored for it, and mean numbers again behind it."""
        inputs = [self._stored(name, node) for name in node.inputs]
        outputs = [self._integers(name) for name in node.outputs]
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(outputs)))
        for stored, name in zip(outputs, node.outputs, strict=True):
            if stored != name:
                self.dequantize(node, stored, self._float(name))
                self._gives(name, Held(name), range_of(self.graph.values[name]))

    def _of_one(self, node: Node) -> None:
        """A node that need not know what its numbers are times a factor, and moved."""
        source = self.graph.values[node.inputs[0]]
        for name in node.outputs:
            value = self.graph.values[name]
            held, within = self._held(node.inputs[0], node), self.within.get(source.name, range_of(source))
            if node.storage and source.quant is not None and value.quant is not None:
                held, within = held.then(source.quant, value.quant), range_of(value)
            self._gives(name, held.settled(self._scale(value)), within)
        first = self._held(node.inputs[0], node).name
        if node.op == "Identity":
            self._close(node, node.outputs[0], first)
            return
        made = tuple(self._float(name) for name in node.outputs)
        others = [self._plain(name, node) for name in node.inputs[1:]]
        self.nodes.append(replace(node, inputs=(first, *others), outputs=made, storage=False))
        for name, numbers in zip(node.outputs, made, strict=True):
            self._close(node, name, numbers)

    def _compute(self, node: Node) -> None:
        """A node that computes with numbers."""
        shared = self._shared(node) if node.storage else None
        within = self._among(node)
        inputs = tuple(self._real(name, node, shared) for name in node.inputs)
        made = []
        for name in node.outputs:
            value, limits = self.graph.values[name], within
            held = Held("").then(shared, value.quant) if shared and value.quant else Held("")
            self._gives(name, held.settled(self._scale(value)), range_of(value) if node.storage else limits)
            made.append(self._float(name))
        bounds = self._bounds(node)
        if bounds is not None:
            self._clamp(node, inputs[0], bounds, node.outputs[0], made[0])
        else:
            self.nodes.append(replace(node, inputs=inputs, outputs=tuple(made), storage=False))
        for name, numbers in zip(node.outputs, made, strict=True):
            self._close(node, name, numbers)

    def _clamp(self, node: Node, source: str, bounds: Range, name: str, made: str) -> None:
        """A clamp together with those of what it reads and of what it gives."""
        value, given = self.graph.values[name], node.inputs[0]
        if given in self.open:
            bounds = _clamped(range_of(self.graph.values[given]), bounds)
        if is_activation(value) and not node.storage and name not in self.open:
            bounds = _clamped(bounds, range_of(value))
        self.within[name] = range_of(value) if node.storage else bounds
        self.clip(node, source, bounds, made)

    def clip(self, node: Node, source: str, bounds: Range, made: str) -> None:
        limits = [self.number(bound, made) if np.isfinite(bound) else "" for bound in bounds]
        if limits == [""] * 2:
            self.write(node, "Identity", (source,), made)
        else:
            self.write(node, "Clip", (source, *limits) if limits[1] else (source, limits[0]), made)

    # -- what is written for a value ---------------------------------------------------------------------------------

    def _gives(self, name: str, held: Held, within: Range) -> None:
        """Note what an output holds, and between which numbers it lies."""
        self.held[name], self.within[name] = held, within

    def _close(self, node: Node, name: str, made: str) -> None:
        """What follows on the numbers of an output: a clamp where they may saturate; an end is stored as it was."""
        value, held = self.graph.values[name], replace(self.held[name], name=made)
        self.held[name] = held
        computed_with = name not in self.ends or name in self.graph.readers  # what is only stored saturates by that
        if computed_with and is_activation(value) and name not in self.open and self._may_saturate(value):
            clipped = self.new(value, name, "clamped")
            self.saturate(node, self._scaled(held, name, node), range_of(value), clipped)
            self.held[name], self.within[name] = Held(clipped), range_of(value)
        if name in self.ends:
            self.quantize(node, self._scaled(self.held[name], name, node), name)

    def _may_saturate(self, value: Value) -> bool:
        """Whether numbers may be more than half a step beyond what the integers could mean."""
        (low, high), (least, greatest) = self.within[value.name], range_of(value)
        slack = self._scale(value) / 2
        return low < least - slack or high > greatest + slack

    def _float(self, name: str) -> str:
        """What a node writes in place of a value: the value itself as real numbers, where it is no end."""
        value = self.graph.values[name]
        if name in self.ends:
            return self.new(value, name, "real")
        if is_activation(value):
            self.values[name] = replace(value, dtype="float32", quant=None)
        return name

    def _integers(self, name: str) -> str:
        """What a node that gives integers writes: those of an activation get a name of their own."""
        value = self.graph.values[name]
        if name in self.ends or not is_activation(value):
            return name
        made = self.taken.derived(name, "stored")
        self.values[made] = replace(value, name=made)
        return made

    # -- what is read ----------------------------------------------------------------------------------------------

    def _held(self, name: str, node: Node) -> Held:
        """What holds the numbers of a value; those of an end are made of what is stored there, once for each region."""
        if name in self.held or not is_activation(self.graph.values[name]):
            return self.held.get(name, Held(name))
        place = name, node.region
        if place not in self.read:
            self.read[place] = self.new(self.graph.values[name], name, "real")
            self.dequantize(node, name, self.read[place])
        return Held(self.read[place])

    def _real(self, name: str, node: Node, shared: Quant | None) -> str:
        """What a node reads that computes; constants beside integers that were ``shared`` become numbers."""
        value = self.graph.values[name] if name else None
        if value is not None and value.data is not None and shared is not None:
            return self._meant(value, shared)
        return self._plain(name, node)

    def _plain(self, name: str, node: Node) -> str:
        """What holds the numbers of a value by themselves: made once for each region of those that it has scaled."""
        held = self._held(name, node) if name else Held(name)
        if held.is_plain:
            return held.name
        place = name, node.region
        if place not in self.read:
            self.read[place] = self._scaled(held, name, node)
        return self.read[place]

    def _stored(self, name: str, node: Node) -> str:
        """What a node reads that looks at integers."""
        if not name or not is_activation(self.graph.values[name]):
            return self._plain(name, node)
        if name in self.ends:
            return name
        made = self._integers(name)
        self.quantize(node, self._plain(name, node), made)
        return made

    def _meant(self, value: Value, shared: Quant) -> str:
        """A constant of integers as the numbers that they mean beside others: once where it is read in several places,
        as the table of a cell that is written step by step.
        """
        quant = value.quant or shared
        if value.data is None or value.dtype not in SMALL:
            return value.name
        key = (*memory(value.data), quant.axis, quant.block, quant.scale.tobytes(), quant.zero_point.tobytes())
        if key not in self.meant:
            data = quant.real(value.data)
            self.budget.keep(data)
            made = self.meant[key] = self.taken.derived(value.name, "real")
            self.values[made] = Value(made, "float32", tuple(data.shape), None, data)
        return self.meant[key]

    def _scaled(self, held: Held, name: str, node: Node) -> str:
        """What holds numbers, times the factor and with the offset."""
        found, value = held.name, self.graph.values[name]
        for op, number, idle in (("Mul", held.factor, 1.0), ("Add", held.offset, 0.0)):
            if number != idle:
                made = self.new(value, name, "scaled" if op == "Mul" else "moved")
                self.write(node, op, (found, self.number(number, made)), made)
                found = made
        return found

    # -- facts -------------------------------------------------------------------------------------------------------

    def _moves(self, node: Node) -> bool:
        """Whether a node on integers does the same with the numbers that they mean."""
        if node.op not in MOVING or node.domain or (node.op == "Pad" and not self._is_filled(node)):
            return False
        values = [self.graph.values[name] for name in (*node.inputs, *node.outputs) if name]
        small = [value for value in values if value.dtype in SMALL]
        if not all(is_activation(value) or value.data is not None for value in small):
            return False
        if any(value.quant is not None and value.quant.axis is not None for value in small):
            return False
        given = [self.graph.values[name].quant for name in node.inputs if name and self._counts(name)]
        return bool(given) and all(quant is not None and quant.matches(given[0]) for quant in given)

    @staticmethod
    def _is_filled(node: Node) -> bool:
        """Whether a Pad has something to fill in, as it stands for numbers: what is left out is a stored 0."""
        return len(node.inputs) > 2 or node.attributes.get("mode", "constant") != "constant"

    def _counts(self, name: str) -> bool:
        """Whether an input is one of numbers that say what they mean."""
        return self.graph.values[name].quant is not None

    def _shared(self, node: Node) -> Quant | None:
        """The parameters of all that a node on integers reads."""
        return next(self.graph.values[name].quant for name in node.inputs if name and self._counts(name))

    def _is_of_one(self, node: Node) -> bool:
        """Whether a node may read numbers before they are scaled: it mixes them in parts that add up to one."""
        if node.op not in OF_ONE or node.domain or (len(node.outputs) > 1 and node.op != "Split"):
            return False
        if not is_activation(self.graph.values[node.inputs[0]]):
            return node.op == "Identity" and self.graph.values[node.inputs[0]].data is None
        beyond = (node.attributes.get("coordinate_transformation_mode"), node.attributes.get("mode"))
        return (
            not node.attributes.get("count_include_pad") and beyond[0] != "tf_crop_and_resize" and beyond[1] != "cubic"
        )

    def _among(self, node: Node) -> Range:
        """Between which numbers the results of a node lie, as far as that is plain."""
        if node.op in KNOWN:
            return KNOWN[node.op]
        if node.op == "Concat":
            ranges = [self._within(name) for name in node.inputs]
            return min(low for low, _ in ranges), max(high for _, high in ranges)
        return ANY

    def _within(self, name: str) -> Range:
        value = self.graph.values[name]
        if value.data is None:
            return self.within.get(name, range_of(value))
        if value.quant is None or not value.data.size:
            return ANY
        return float(value.real.min()), float(value.real.max())

    def _bounds(self, node: Node) -> Range | None:
        """The constant bounds of a clamp, None where a node is none."""
        if node.op == "Relu":
            return 0.0, np.inf
        if node.op != "Clip" or node.domain:
            return None
        found = list(ANY)
        for port, name in enumerate(node.inputs[1:3]):
            value = self.graph.values[name] if name else None
            if value is None:
                continue
            if value.data is None:
                return None
            quant = value.quant or (self._shared(node) if node.storage else None)
            found[port] = float(value.data if quant is None else quant.real(value.data))
        return found[0], found[1]

    def _is_clamped_later(self, name: str) -> bool:
        """Whether all that reads an activation clamps it, so that both are one clamp."""
        readers = self.graph.readers.get(name, [])
        if name in self.ends or not readers or not is_activation(self.graph.values[name]):
            return False
        return all(
            node.inputs[0] == name and (not node.storage or self._moves(node)) and self._bounds(node) is not None
            for node in readers
        )

    # -- where numbers are stored --------------------------------------------------------------------------------------

    def dequantize(self, node: Node, name: str, made: str) -> None:
        """What integers mean that are stored: those of an input, a state, or what an operator on integers gives."""
        self.write(node, "Identity", (name,), made)

    def quantize(self, node: Node, source: str, name: str) -> None:
        """Numbers as the integers that an output, a state, or an operator on integers wants."""
        self.write(node, "Identity", (source,), name)

    def saturate(self, node: Node, source: str, within: Range, made: str) -> None:
        """Numbers that the integers of the source saturate."""
        self.clip(node, source, within, made)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, node: Node, op: str, inputs: tuple[str, ...], output: str) -> None:
        """A node beside another one."""
        self.nodes.append(Node(op, inputs, (output,), origin=node.origin, region=node.region))

    def new(self, value: Value, name: str, label: str) -> str:
        """A new value of floats."""
        made = self.taken.derived(name, label)
        dtype = "float32" if is_activation(value) else value.dtype
        self.values[made] = Value(made, dtype, value.shape)
        return made

    def number(self, number: float, name: str) -> str:
        """A constant."""
        made = self.taken.derived(name, "number")
        self.values[made] = Value(made, "float32", (), None, np.array(number, np.float32))
        return made

    def _scale(self, value: Value) -> float:
        return 0.0 if value.quant is None else parameters(value.quant)[0]
