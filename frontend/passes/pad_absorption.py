"""What a Pad puts around images that only convolutions and pools read, as padding of theirs: exporters write it apart.

Convolutions pad by zeros, a maximum by less than every number, and an average by zeros, which it may count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.ir.graph import Graph, Node, Shape, Value


def absorbed(graph: Graph) -> Graph:
    """The same graph without a Pad wherever its readers can pad."""
    pads = [node for node in graph.nodes if node.op == "Pad" and not node.domain]
    if not pads:
        return graph
    values, changed = dict(graph.values), dict[Node, Node]()
    for pad in pads:
        amounts, kinds = _amounts(graph, pad), _padding_alike(graph, pad)
        if amounts is not None and kinds:
            _absorb(graph, pad, amounts, kinds, values, changed)
    if not changed:
        return graph
    nodes = [changed.get(node, node) for node in graph.nodes]
    return rewritten(graph, nodes, values)


def _absorb(
    graph: Graph,
    pad: Node,
    amounts: Sequence[tuple[int, int]],
    kinds: Collection[str],
    values: dict[str, Value],
    changed: dict[Node, Node],
) -> None:
    """Have all that reads a Pad, itself or behind Transposes, read what it pads, if those are of some kinds."""
    source, padded = pad.inputs[0], pad.outputs[0]
    found: list[tuple[Node, Node]] = []
    reached, shapes = [(padded, source, tuple(range(len(amounts))))], dict[str, Shape]()
    for read, given, order in reached:  # which grows on the way
        if read in graph.results:
            return
        for node in graph.readers.get(read, ()):
            if node.op == "Transpose":
                name, inner = node.outputs[0], tuple(order[axis] for axis in node.attributes["perm"])
                reached.append((name, name, inner))
                shapes[name] = tuple(values[source].shape[axis] for axis in inner)
                found.append((node, replace(node, inputs=(given,))))
                continue
            wider = _wider(graph, node, [amounts[axis] for axis in order]) if node.op in kinds else None
            if wider is None or node.inputs[0] != read or read in node.inputs[1:] or node in changed:
                return
            found.append((node, replace(wider, inputs=(given, *node.inputs[1:]))))
    if not found:
        return
    changed.update(found)
    values.update({name: replace(values[name], shape=shape) for name, shape in shapes.items()})


def _wider(graph: Graph, node: Node, amounts: Sequence[tuple[int, int]]) -> Node | None:
    """A convolution or pool that pads by so much more, for each dimension of what it reads; None where none can."""
    if node.domain or node.attributes.get("auto_pad", "NOTSET") != "NOTSET" or any(amounts[0]) or any(amounts[1]):
        return None
    more = [side for sides in zip(*amounts[2:], strict=True) for side in sides]
    before = node.attributes.get("pads", (0,) * len(more))
    pads = tuple(a + b for a, b in zip(before, more, strict=True))
    attributes = {**node.attributes, "pads": pads}
    if node.op == "Conv" and set(graph.values[node.inputs[1]].shape[2:]) == {1}:
        return None  # as a product it reads rows in any layout, and OpenVINO strides before it pads
    if node.op != "Conv":
        window = node.attributes["kernel_shape"]
        if len(node.outputs) > 1 or any(pad >= size for pad, size in zip(pads, (*window, *window), strict=True)):
            return None
    if node.op == "AveragePool":
        attributes["count_include_pad"] = 1
        if any(before):
            return None
    return replace(node, attributes=attributes)


def _amounts(graph: Graph, pad: Node) -> list[tuple[int, int]] | None:
    """How much a Pad puts before and behind each dimension; None where that is not known."""
    before, after = graph.values[pad.inputs[0]], graph.values[pad.outputs[0]]
    given, rank = graph.constant(pad.inputs[1]), len(before.shape)
    if given is None or len(pad.inputs) > 3 or pad.attributes.get("mode", "constant") != "constant":
        return None
    if given.min(initial=0) < 0 or not all(isinstance(size, int) for size in (*before.shape[1:], *after.shape[1:])):
        return None
    return [(int(given[axis]), int(given[axis + rank])) for axis in range(rank)]


def _padding_alike(graph: Graph, pad: Node) -> Collection[str]:
    """The operators that pad by themselves by what a Pad fills in."""
    quant, after = graph.values[pad.inputs[0]].quant, graph.values[pad.outputs[0]].quant
    filler = graph.values[pad.inputs[2]] if len(pad.inputs) == 3 and pad.inputs[2] else None
    if filler is not None and (filler.data is None or filler.data.size != 1):
        return ()
    filled = 0 if filler is None or filler.data is None else filler.data.reshape(-1)[0]
    dtype = np.dtype(graph.values[pad.inputs[0]].dtype)
    if quant is None:
        zero = dtype == np.float32 and filled == 0
        least = dtype == np.float32 and (filled <= np.finfo(dtype).min or (zero and _positive(graph, pad.inputs[0])))
        alike = after is None
    else:
        zero, least = filled == quant.zero_point[0], dtype.kind in "iu" and filled == np.iinfo(dtype).min
        alike = pad.storage and quant.axis is None and quant.matches(after)
    averaging = zero and quant is None
    kinds = (("Conv", zero), ("MaxPool", least), ("AveragePool", averaging))
    return [kind for kind, fits in kinds if fits and alike]


def _positive(graph: Graph, name: str) -> bool:
    """Whether no number of a value is below zero, because of the operator that writes it."""
    while (index := graph.producers.get(name)) is not None:
        node = graph.nodes[index]
        if node.op != "Transpose":
            break
        name = node.inputs[0]
    else:
        return False
    if node.domain or node.op not in ("Clip", "Relu", "Sigmoid"):
        return False
    if node.op != "Clip":
        return True
    bound = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return bound is not None and bound.dtype == np.float32 and bool((bound >= 0).all())
