"""Scales of channels behind a product of matrices, as a part of its weights.

Networks scale what a fully-connected layer gives, channel by channel (layer scale). Runtimes take such a product into
the weights of a convolution, not into those of a MatMul or Gemm, and not past a bias or a Transpose in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Value
from layoutsolve.ir.names import Names

Row = Sequence[tuple[Node, Mapping[int, Array]]]
"""Operators from a product to what its scale is applied to, each with the constants that it has then, by input."""


def folded(graph: Graph, budget: Budget) -> Graph:
    """The same graph without products of floats with one constant for each channel, where weights can be multiplied by
    them: those that nothing else reads. They count in the ``budget``.
    """
    reads, done = graph.reads + Counter(graph.outputs), dict[Node, Row]()
    for node in graph.nodes:
        row = _row(graph, node, reads)
        arrays = [data for _, constants in row for data in constants.values()]
        if arrays and budget.affords(sum(data.nbytes for data in arrays)):
            done[node] = row
    rows = {each: scale for scale, row in done.items() for each, _ in row}
    if not rows:
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    for node in graph.nodes:
        if node in done:
            nodes += _scaled(node, done[node], values, taken)
        elif node not in rows:
            nodes.append(node)
    return used(graph, nodes, values)


def _row(graph: Graph, node: Node, reads: Counter[str]) -> Row:
    """What a node scales, from the product on, with other constants; nothing where it is no such scale."""
    scale = _scale(graph, node)
    if scale is None:
        return ()
    name, factor, axis = scale
    row: list[tuple[Node, Mapping[int, Array]]] = []
    while reads[name] == 1 and (before := graph.producer(name)) is not None and _is_plain(graph, node, before):
        if before.op == "Transpose":
            axis = before.attributes["perm"][axis]
            row.insert(0, (before, {}))
            name = before.inputs[0]
            continue
        if before.op != "Add":
            found = _weights(graph, before, factor, axis, reads)
            return [(before, found), *row] if found else ()
        given = [number for number, each in enumerate(before.inputs) if graph.values[each].data is None]
        bias = graph.constant(before.inputs[1 - given[0]]) if len(given) == 1 else None
        if bias is None or graph.values[before.inputs[given[0]]].shape != graph.values[name].shape:
            return ()
        sizes = [1] * len(graph.values[name].shape)
        sizes[axis] = factor.size
        row.insert(0, (before, {1 - given[0]: _product(bias, factor.reshape(sizes))}))
        name = before.inputs[given[0]]
    return ()


def _scale(graph: Graph, node: Node) -> tuple[str, Array, int] | None:
    """What a node scales by one number for each channel, these numbers, and along which axis they are."""
    if node.op not in ("Mul", "Div") or node.domain or node.storage:
        return None
    left, right, result = (graph.values[name] for name in (*node.inputs, node.outputs[0]))
    x, constant = (right, left) if right.data is None else (left, right)
    if x.data is not None or constant.data is None or not x.in_floats or not constant.in_floats:
        return None
    wide = [axis - constant.data.ndim for axis, size in enumerate(constant.data.shape) if size > 1]
    if x.shape != result.shape or len(wide) > 1 or (node.op == "Div" and constant is left) or not x.shape:
        return None
    numbers = constant.data.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        factor = numbers if node.op == "Mul" else 1 / numbers
    return x.name, factor, (wide[0] if wide else -1) % len(x.shape)


def _is_plain(graph: Graph, scale: Node, node: Node) -> bool:
    """Whether a node of floats stands where the scale does."""
    floats = all(graph.values[name].in_floats for name in filter(None, (*node.inputs, *node.outputs)))
    return floats and not node.domain and not node.storage and node.region == scale.region


def _weights(graph: Graph, node: Node, factor: Array, axis: int, reads: Counter[str]) -> dict[int, Array]:
    """The constants of a product of matrices, by input, that has the scale in it; nothing where it cannot."""
    data = graph.constant(node.inputs[1]) if node.op in ("MatMul", "Gemm") else None
    last = len(graph.values[node.outputs[0]].shape) - 1
    if data is None or data.ndim != 2 or (axis != last and factor.size > 1) or reads[node.inputs[1]] > 1:
        return {}
    across = node.op == "Gemm" and node.attributes.get("transB", 0)
    found = {1: _product(data, factor.reshape(-1, 1) if across else factor)}
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = graph.constant(node.inputs[2])
        if bias is None:
            return {}
        found[2] = _product(bias, factor)
    return found if _are_finite(data, found[1]) else {}


def _product(data: Array, factor: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(data.astype(np.float64) * factor, np.float32)


def _are_finite(before: Array, weights: Array) -> bool:
    """Whether weights have neither overflown nor vanished."""
    tiny = np.abs(weights) < np.finfo(np.float32).tiny
    return bool(np.isfinite(weights).all() and not (tiny & (before != 0)).any())


def _scaled(scale: Node, row: Row, values: dict[str, Value], taken: Names) -> list[Node]:
    """The nodes in place of a row and its scale: what is between them is another tensor than it was."""
    made, name = list[Node](), ""
    for number, (node, constants) in enumerate(row):
        inputs = list(node.inputs)
        if number:
            inputs[inputs.index(row[number - 1][0].outputs[0])] = name
        for place, data in constants.items():
            inputs[place] = taken.derived(node.inputs[place], "scaled")
            values[inputs[place]] = Value(inputs[place], "float32", data.shape, data=data)
        own, last = node.outputs[0], number == len(row) - 1
        name = scale.outputs[0] if last else taken.derived(own, "scaled")
        values[name] = replace(values[own], name=name)
        made.append(replace(node, inputs=tuple(inputs), outputs=(name,)))
    return made
