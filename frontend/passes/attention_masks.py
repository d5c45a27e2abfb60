"""Infinite constants that are added to numbers, as masks of attention have them, as the largest finite ones.

LiteRT's ADD and SUB keep their results within the finite numbers, with or without an activation. A row of a softmax in
which minus infinity was added to everything has equal parts there, where ONNX's Add leaves nothing that is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from layoutsolve.ir.graph import Graph, Node, Value
from layoutsolve.ir.names import Names

LARGEST = float(np.finfo(np.float32).max)

ADDING: Mapping[str, str] = {"ADD": "Add", "SUB": "Sub"}
"""By operators of TensorFlow Lite whose results are finite, what they are written as."""

PASSING: Mapping[str, frozenset[int]] = {
    **dict.fromkeys(
        ("Expand", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose"),
        frozenset((0,)),
    ),
    "Pad": frozenset((0, 2)),
    "Unsqueeze": frozenset((0,)),
    "Where": frozenset((1, 2)),
}
"""By operator, the inputs of which elements go on as they are; of a Concat those are all."""


def bounded(graph: Graph) -> Graph:
    """The same graph with finite constants in place of infinite ones that nothing but ADD and SUB read in the end.
    Where others read them too, what is added is kept within the finite numbers, and so is the sum of two such.
    """
    changed, apart, low = dict[str, Value](), set[str](), set[str]()
    for value in graph.values.values():
        if value.data is None or not value.in_floats or not np.isinf(value.data).any():
            continue
        reached, alone = _reached(graph, value.name)
        low.update(reached)
        if alone:
            changed[value.name] = replace(value, data=np.clip(value.data, -LARGEST, LARGEST))
        else:
            apart.update(reached)
    found = replace(graph, values={**graph.values, **changed}) if changed else graph
    sums = _sums(graph, low) if low else set()
    return _clipped(found, apart, sums) if apart or sums else found


def _sums(graph: Graph, low: set[str]) -> set[str]:
    """The sums of two values that may both be the largest numbers, as two masks are that are added one by one."""
    sums = set[str]()
    for node in graph.nodes:
        if _adds(node):
            count = len([name for name in node.inputs if name in low])
            low.update(node.outputs if count else ())
            sums.update(node.outputs if count > 1 else ())
        elif any(node.inputs[port] in low for port in _passing(node) if port < len(node.inputs)):
            low.update(each for each in node.outputs if each)
    return sums


def _reached(graph: Graph, constant: str) -> tuple[set[str], bool]:
    """What becomes of a constant, and whether all of it is added to something."""
    reached, waiting, alone = {constant}, [constant], True
    for name in waiting:  # which grows on the way
        alone = alone and name not in graph.results
        for node in graph.readers.get(name, []):
            if _adds(node):
                continue
            ports = {port for port, each in enumerate(node.inputs) if each == name}
            if ports <= _passing(node):
                found = [each for each in node.outputs if each and each not in reached]
                reached.update(found)
                waiting += found
            else:
                alone = False
    return reached, alone


def _passing(node: Node) -> AbstractSet[int]:
    """The inputs of a node of which elements go on as they are."""
    if node.domain:
        return frozenset()
    return {*range(len(node.inputs))} if node.op == "Concat" else PASSING.get(node.op, frozenset())


def _adds(node: Node) -> bool:
    return node.origin is not None and ADDING.get(node.origin.operator) == node.op and not node.domain


def _clipped(graph: Graph, infinite: AbstractSet[str], sums: AbstractSet[str]) -> Graph:
    """The graph with some values clipped where they are added, and some sums."""
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    bounds = [taken.derived(name, "finite") for name in ("lowest", "largest")]
    for name, number in zip(bounds, (-LARGEST, LARGEST), strict=True):
        values[name] = Value(name, "float32", (), data=np.array(number, np.float32))
    for node in graph.nodes:
        if _adds(node):
            inputs = list(node.inputs)
            for port, name in enumerate(inputs):
                if name in infinite:
                    inputs[port] = taken.derived(name, "finite")
                    values[inputs[port]] = replace(values[name], name=inputs[port], data=None)
                    nodes.append(replace(node, op="Clip", inputs=(name, *bounds), outputs=(inputs[port],)))
            node = replace(node, inputs=tuple(inputs))
        if node.outputs and node.outputs[0] in sums:
            (name,), whole = node.outputs, taken.derived(node.outputs[0], "whole")
            values[whole] = replace(values[name], name=whole)
            nodes.append(replace(node, outputs=(whole,)))
            node = replace(node, op="Clip", inputs=(whole, *bounds), attributes={})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), values=values)
