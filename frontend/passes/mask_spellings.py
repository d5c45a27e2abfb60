"""Masks of attention that are subtracted, negated, or scaled together with what they were added to, as such that are
added, in which minus infinity is what hides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.frontend.passes.attention_masks import LARGEST
from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.ir.graph import Array, Graph, Node, Value
from layoutsolve.ir.names import Names

_LARGE = LARGEST / 8
"""From here on numbers hide what they are added to."""


def added(graph: Graph) -> Graph:
    """The same graph with masks that are chosen from two constants, or are constants, as they are added in the end."""
    made = _Added(graph)
    nodes = [each for node in graph.nodes for each in made.written(node)]
    return rewritten(graph, nodes, made.values) if len(nodes) > len(graph.nodes) or made.changed else graph


class _Added:
    """What is written in place of each node."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.values, self.taken, self.changed = graph, dict(graph.values), Names(graph.values), False
        self.makers: dict[str, Node] = {}

    def written(self, node: Node) -> Sequence[Node]:
        """The nodes in place of one, itself where it is none of these."""
        found: Sequence[Node] | None = None
        if node.op in ("Neg", "Mul", "Div", "Sub") and not node.domain and not node.storage:
            found = self._scaled(node) if node.op != "Sub" else self._subtracted(node)
        self.changed = self.changed or found is not None
        for each in found or (node,):
            self.makers.update(dict.fromkeys(each.outputs, each))
        return found or (node,)

    def _factor(self, node: Node) -> tuple[str, float] | None:
        """What a node multiplies, and by which number; None for another one, or for 0."""
        if node.op == "Neg":
            return node.inputs[0], -1.0
        for place in (0, 1) if node.op == "Mul" else (1,):
            value = self.values[node.inputs[place]]
            if value.data is not None and value.in_floats and value.data.size == 1 and len(value.shape) == 0:
                number = float(value.data.reshape(()))
                factor = 1 / number if node.op == "Div" and number else number
                return (node.inputs[1 - place], factor) if np.isfinite(factor) and factor else None
        return None

    def _scaled(self, node: Node) -> Sequence[Node] | None:
        """A product of a mask as one of other constants; one of a sum with it as a sum of products."""
        found = self._factor(node)
        if found is None:
            return None
        name, factor = found
        if (mask := self._times(name, factor, node, node.outputs)) is not None and mask[0]:
            return mask[0]
        total = self.makers.get(name)
        plain = total is not None and total.op == "Add" and not total.domain and total.region is node.region
        if total is None or not plain or factor <= 0 or self.graph.reads[name] > 1 or name in self.graph.results:
            return None
        for scores, hidden in (total.inputs, total.inputs[::-1]):
            if (mask := self._times(hidden, factor, node)) is not None:
                product = self._new(node, self.values[scores], "scaled")
                inputs = [scores if each == name else each for each in node.inputs]
                return [
                    *mask[0],
                    Node(node.op, tuple(inputs), (product,), {}, node.origin, region=node.region),
                    Node("Add", (product, mask[1]), node.outputs, {}, node.origin, region=node.region),
                ]
        return None

    def _subtracted(self, node: Node) -> Sequence[Node] | None:
        """A difference to a mask as a sum."""
        mask = self._times(node.inputs[1], -1.0, node)
        if mask is None:
            return None
        total = Node("Add", (node.inputs[0], mask[1]), node.outputs, {}, node.origin, region=node.region)
        return [*mask[0], total]

    def _times(
        self, name: str, factor: float, node: Node, outputs: tuple[str, ...] = ()
    ) -> tuple[list[Node], str] | None:
        """What gives a mask times a number, as ``outputs`` or a value of its own; None for what is no mask."""
        maker, value = self.makers.get(name), self.values[name]
        chosen = maker is not None and maker.op == "Where" and not maker.domain
        if not value.in_floats or (value.data is None and not chosen):
            return None
        inputs = maker.inputs[1:] if maker is not None and value.data is None else (name,)
        known = [data for each in inputs if (data := self.values[each].data) is not None]
        if len(known) < len(inputs) or not any((np.abs(each) >= _LARGE).any() for each in known):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            constants = [self._constant(node, each * np.float32(factor)) for each in known]
        if maker is None or value.data is not None:
            return [], constants[0]
        made = outputs or (self._new(node, value, "mask"),)
        where = Node("Where", (maker.inputs[0], *constants), made, {}, node.origin, region=node.region)
        return [where], made[0]

    def _new(self, node: Node, like: Value, label: str) -> str:
        name = self.taken.derived(node.outputs[0], label)
        self.values[name] = Value(name, like.dtype, like.shape)
        return name

    def _constant(self, node: Node, data: Array) -> str:
        name = self.taken.derived(node.outputs[0], "hidden")
        self.values[name] = Value(name, "float32", data.shape, None, np.asarray(data, np.float32))
        return name
