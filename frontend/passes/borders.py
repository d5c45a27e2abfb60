"""Zeros around images that only convolutions read, as the padding of those: exporters write them as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from layoutsolve.frontend.passes.live import live, used
from layoutsolve.graph import Graph, Node, Value

Readers = Mapping[str, Sequence[Node]]


def absorbed(graph: Graph) -> Graph:
    """The same graph without a Pad wherever convolutions can pad."""
    pads = [node for node in graph.nodes if node.op == "Pad" and not node.domain]
    if not pads:
        return graph
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    values, changed = dict(graph.values), dict[Node, Node]()
    for pad in pads:
        amounts = _amounts(graph, pad)
        if amounts is not None:
            _absorb(graph, pad, amounts, readers, values, changed)
    if not changed:
        return graph
    nodes = [changed.get(node, node) for node in graph.nodes]
    return used(graph, live(nodes, graph.outputs, values, graph.formulas), values)


def _absorb(
    graph: Graph,
    pad: Node,
    amounts: Sequence[tuple[int, int]],
    readers: Readers,
    values: dict[str, Value],
    changed: dict[Node, Node],
) -> None:
    """Have all that a Pad is read by read what it pads, if those are convolutions, or Transposes before such."""
    source, padded = pad.inputs[0], pad.outputs[0]
    found: list[tuple[Node, Node]] = []
    for reader in readers.get(padded, ()):
        read, convolutions, order = padded, [reader], tuple(range(len(amounts)))
        if reader.op == "Transpose":
            read, order = reader.outputs[0], tuple(reader.attributes["perm"])
            convolutions = list(readers.get(read, ()))
            found.append((reader, replace(reader, inputs=(source,))))
        for node in convolutions:
            wider = _wider(node, [amounts[axis] for axis in order])
            if wider is None or node.inputs[0] != read or read in node.inputs[1:] or node in changed:
                return
            found.append((node, replace(wider, inputs=(source, *node.inputs[1:])) if read == padded else wider))
        if read in graph.outputs:
            return
    if padded in graph.outputs or not found:
        return
    changed.update(found)
    for node, _ in found:
        if node.op == "Transpose":
            name, perm = node.outputs[0], node.attributes["perm"]
            values[name] = replace(values[name], shape=tuple(values[source].shape[axis] for axis in perm))


def _wider(node: Node, amounts: Sequence[tuple[int, int]]) -> Node | None:
    """A convolution that pads by so much more, for each dimension of what it reads; None where that is none."""
    if node.op != "Conv" or node.domain or node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    if any(amounts[0]) or any(amounts[1]):
        return None
    more = [side for sides in zip(*amounts[2:], strict=True) for side in sides]
    pads = node.attributes.get("pads", (0,) * len(more))
    return replace(node, attributes={**node.attributes, "pads": tuple(a + b for a, b in zip(pads, more, strict=True))})


def _amounts(graph: Graph, pad: Node) -> list[tuple[int, int]] | None:
    """What a Pad puts before and behind each dimension; None where that is no zeros, or not known."""
    before, after = graph.values[pad.inputs[0]], graph.values[pad.outputs[0]]
    given, rank = graph.constant(pad.inputs[1]), len(before.shape)
    if given is None or len(pad.inputs) > 3 or pad.attributes.get("mode", "constant") != "constant":
        return None
    if given.min(initial=0) < 0 or not all(isinstance(size, int) for size in (*before.shape[1:], *after.shape[1:])):
        return None
    return None if not _of_zeros(graph, pad) else [(int(given[axis]), int(given[axis + rank])) for axis in range(rank)]


def _of_zeros(graph: Graph, pad: Node) -> bool:
    """Whether a Pad fills in what means zero."""
    quant, after = graph.values[pad.inputs[0]].quant, graph.values[pad.outputs[0]].quant
    filler = graph.values[pad.inputs[2]] if len(pad.inputs) == 3 and pad.inputs[2] else None
    if filler is not None and (filler.data is None or filler.data.size != 1):
        return False
    filled = 0 if filler is None or filler.data is None else filler.data.reshape(-1)[0]
    if quant is None:
        return after is None and filled == 0
    return pad.storage and quant.axis is None and quant.matches(after) and filled == quant.zero_point[0]
