"""What an operator is composed of, for a runtime that has no such operator: nodes on floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from layoutsolve.frontend.passes.live_nodes import substituted
from layoutsolve.ir.graph import Array, Dim, Graph, Node, Size, Value
from layoutsolve.ir.names import Names


def means_floats(value: Value) -> bool:
    """Whether a tensor is of floats, or of the integers of steps that mean such."""
    return value.dtype == "float32" or value.quant is not None


def replaced(
    graph: Graph,
    op: str,
    fits: Callable[[Graph, Node], bool],
    nodes_for: Callable[[Node, dict[str, Value], Names], Sequence[Node]],
) -> Graph:
    """The same graph with nodes in place of each one of an operator of ONNX that ``fits``: ``nodes_for`` it, of which
    it notes the values and the names that are taken.
    """
    composed = {node: op for node in graph.nodes if node.op == op and not node.domain and fits(graph, node)}
    return substituted(graph, composed, lambda node, _, values, taken: nodes_for(node, values, taken))


class Composer:
    """The nodes in place of one. Operands in steps are read as the floats that they mean; the result becomes what the
    node's is.
    """

    def __init__(self, node: Node, values: dict[str, Value], taken: Names) -> None:
        self.node, self.values, self.taken = node, values, taken
        self.nodes: list[Node] = []

    def real(self, number: int) -> str:
        """An operand as floats."""
        value = self.values[self.node.inputs[number]]
        if value.quant is None:
            return value.name
        if value.data is not None:
            return self.constant(value.real, "real")
        return self.write("Identity", (value.name,), value.shape, "real")

    def write(
        self, op: str, inputs: Sequence[str], shape: Sequence[Dim], label: str = "", /, **attributes: object
    ) -> str:
        """Write a node whose result is of floats."""
        name = self.taken.derived(self.node.outputs[0], label or op.lower())
        self.values[name] = Value(name, "float32", tuple(shape))
        self.nodes.append(Node(op, tuple(inputs), (name,), attributes, self.node.origin, region=self.node.region))
        return name

    def reshape(self, name: str, shape: Sequence[Dim]) -> str:
        """A view in another shape, in which one size may be open."""
        if list(self.values[name].shape) == list(shape):
            return name
        sizes = self.integers([-1 if isinstance(size, Size) else size for size in shape])
        return self.write("Reshape", (name, sizes), shape, "shaped")

    def constant(self, data: Array, label: str) -> str:
        """A constant."""
        name = self.taken.derived(self.node.outputs[0], label)
        self.values[name] = Value(name, str(data.dtype), data.shape, None, data)
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """A constant vector of sizes or axes."""
        return self.constant(np.array(numbers, np.int64), "sizes")

    def end(self, name: str) -> list[Node]:
        """All nodes, the last of which gives the node's result."""
        node = self.node
        return [*self.nodes, Node("Identity", (name,), node.outputs, {}, node.origin, region=node.region)]
