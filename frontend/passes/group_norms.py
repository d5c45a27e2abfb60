"""GroupNormalization as an InstanceNormalization of groups, a product and a sum, for a runtime that has none of it."""

from __future__ import annotations

import numpy as np

from layoutsolve.frontend.passes.composing import Composer, means_floats, replaced
from layoutsolve.ir.graph import Graph, Node, Size, product


def composed(graph: Graph) -> Graph:
    """The same graph without GroupNormalizations of floats of which one size at most is open; others stay."""
    return replaced(graph, "GroupNormalization", _is_plain, lambda *given: _composed(Composer(*given)))


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether all is of floats, for each channel, and known but for one size."""
    shape = graph.values[node.inputs[0]].shape
    counts = [graph.values[name].shape for name in node.inputs[1:3]]
    known = len(shape) > 1 and sum(isinstance(size, Size) for size in shape) <= 1 and isinstance(shape[1], int)
    of_floats = all(means_floats(graph.values[name]) for name in (*node.inputs, *node.outputs))
    return known and of_floats and counts == [shape[1:2]] * 2


def _composed(made: Composer) -> list[Node]:
    node, shape = made.node, made.values[made.node.inputs[0]].shape
    groups = node.attributes["num_groups"]
    ones, zeros = (made.constant(np.full(groups, each, np.float32), "groups") for each in (1.0, 0.0))
    flat = made.reshape(made.real(0), [shape[0], groups, product((shape[1] // groups, *shape[2:]))])
    told = {"epsilon": node.attributes.get("epsilon", 1e-5)}
    normal = made.write("InstanceNormalization", (flat, ones, zeros), made.values[flat].shape, **told)
    column = [shape[1], *(1 for _ in shape[2:])]
    factor, added = (made.reshape(made.real(number), column) for number in (1, 2))
    scaled = made.write("Mul", (made.reshape(normal, shape), factor), shape)
    return made.end(made.write("Add", (scaled, added), shape))
