"""Hard sigmoids and hard swishes that are written out: ``Clip(x + 3, 0, 6) / 6``, and x times that.

Converters write them so, often with the 3 in the bias of a convolution. HardSigmoid and HardSwish go over the numbers
once, and ONNX Runtime makes them part of the convolution before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace

from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.ir.graph import Graph, Node
from layoutsolve.ir.names import Names

ROUNDED = 2.0**-22
"""How far numbers of float32 may be from what they stand for."""

SLOPE, OFFSET = 1 / 6, 0.5
"""Those of the hard sigmoid in a hard swish."""

VIEWS = frozenset(("Reshape", "Transpose"))
"""What may lie between a ramp and what scales it."""

_LIMITED = 3
"""The inputs of a Clip that has both limits."""

NOT_ZERO = 2.0**-126
"""An offset that changes no number but 0, which becomes this one. OpenVINO takes 0 for the default offset, 0.5."""


def recognise(graph: Graph) -> Graph:
    """The same graph with HardSigmoid and HardSwish in place of operators that compute them in floats."""
    if not any(node.op == "Clip" and not node.domain for node in graph.nodes):
        return graph
    found = _Gates(graph)
    nodes = [each for node in graph.nodes for each in found.written(node)]
    if not found.gates:
        return graph
    nodes = [found.swished(node) for node in nodes]
    return rewritten(graph, nodes, found.values)


class _Gates:
    """The hard sigmoids that are found in a graph (``gates``), by their results; ``values`` has those that are new."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.values, self.taken = graph, dict(graph.values), Names(graph.values)
        self.read = graph.reads + Counter(graph.outputs)
        self.gates: dict[str, Node] = {}

    def written(self, node: Node) -> Sequence[Node]:
        """A node, or what takes its place: of a ramp that is scaled to end at 1, or of the product with a ramp."""
        scaled = self._scaled(node)
        if scaled is None:
            return [node]
        name, factor = scaled
        if gate := self._gate(node, name, factor, node.outputs[0]):
            return gate
        product = self._made(name, {"Mul"}, node)
        for value, ramp in (product.inputs, product.inputs[::-1]) if product is not None else ():
            if gate := self._gate(node, ramp, factor):
                return [*gate, replace(node, op="Mul", inputs=(value, *gate[-1].outputs))]
        return [node]

    def swished(self, node: Node) -> Node:
        """A node, or the hard swish that a product with the hard sigmoid of a factor is."""
        for value, name in (node.inputs, node.inputs[::-1]) if node.op == "Mul" and not node.domain else ():
            gate = self.gates.get(name)
            if gate is None or gate.op != "HardSigmoid" or gate.inputs != (value,) or self.read[name] > 1:
                continue
            given = gate.attributes["alpha"] - SLOPE, gate.attributes["beta"] - OFFSET
            if max(map(abs, given)) < ROUNDED:
                return replace(node, op="HardSwish", inputs=(value,))
        return node

    def _scaled(self, node: Node) -> tuple[str, float] | None:
        """The operand of a product or quotient of floats by a number, and what it is multiplied by."""
        if node.op not in ("Mul", "Div") or node.domain or not self.values[node.outputs[0]].in_floats:
            return None
        for name, by in (node.inputs, node.inputs[::-1])[: 1 + (node.op == "Mul")]:
            number = self._number(by)
            if number is not None and number > 0 and self.values[name].shape == self.values[node.outputs[0]].shape:
                return name, number if node.op == "Mul" else 1 / number
        return None

    def _gate(self, node: Node, name: str, factor: float, result: str = "") -> list[Node]:
        """What gives a view of ``Clip(x + offset, 0, limit)`` times a factor at ``node`` that makes it end at 1, if it
        is one.
        """
        views = list[Node]()
        while view := self._made(name, VIEWS, node):
            views.insert(0, view)
            name = view.inputs[0]
        clip = self._made(name, {"Clip"}, node)
        low, high = map(self._number, clip.inputs[1:]) if clip and len(clip.inputs) == _LIMITED else (None, None)
        if clip is None or low != 0 or high is None or abs(high * factor - 1) > ROUNDED:
            return []
        x, offset = self._shifted(clip.inputs[0])
        slopes = {"alpha": factor, "beta": factor * offset or NOT_ZERO}
        chain = [replace(clip, op="HardSigmoid", inputs=(x,), attributes=slopes), *views]
        names = [self._new(each.outputs[0]) for each in chain[:-1]]
        names.append(result or self._new(chain[-1].outputs[0]))
        ends = zip(chain, [x, *names], names, strict=False)
        nodes = [replace(each, inputs=(given, *each.inputs[1:]), outputs=(made,)) for each, given, made in ends]
        self.gates[names[-1]] = nodes[-1]
        return nodes

    def _new(self, name: str) -> str:
        """Another value that is like one."""
        new = self.taken.derived(name, "gate")
        self.values[new] = replace(self.values[name], name=new)
        return new

    def _shifted(self, name: str) -> tuple[str, float]:
        """What a number is added to, and the number; 0 where none is."""
        node = self.graph.producer(name)
        added = node is not None and node.op == "Add" and not node.domain
        for x, by in (node.inputs, node.inputs[::-1]) if node is not None and added else ():
            number = self._number(by)
            if number is not None and self.values[x].in_floats and self.values[x].shape == self.values[name].shape:
                return x, number
        return name, 0.0

    def _made(self, name: str, ops: Container[str], reader: Node) -> Node | None:
        """The operator, one of some, that makes floats for one reader, beside it."""
        node = self.graph.producer(name)
        if node is None or node.op not in ops or node.domain or node.region != reader.region or self.read[name] > 1:
            return None
        return node if all(self.values[each].in_floats for each in (node.inputs[0], name)) else None

    def _number(self, name: str) -> float | None:
        """The one number of a constant of floats."""
        value = self.values.get(name)
        if value is None or value.data is None or value.data.size != 1 or not value.in_floats:
            return None
        return float(value.data.reshape(()))
