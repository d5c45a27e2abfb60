"""Blocks moved between space and depth, written by hand as Reshape, Transpose, Reshape.

They become DepthToSpace or SpaceToDepth, between Transposes to and from channels-first. As views they demand that the
factors of the depth lie apart from each other; as an operator they need not, and the solver may still choose views.
ONNX's SpaceToDepth has the block outermost in the depth: where it lies innermost, channels are shuffled behind it, of
which nothing is left where they may come in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import unlike, used
from layoutsolve.ir.graph import Dim, Graph, Node, Shape, Value, product, quotient, reshape_entries

_STORED = ("float32",)
"""Stored types for which every ONNX Runtime has DepthToSpace and SpaceToDepth."""

_STACKED, _SPREAD = (3, 1, 1, 1), (2, 2, 1, 1)
"""How many of six factors the dimensions of the deep and of the shallow tensor have, in some order."""

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Block:
    """``deep`` and ``shallow`` say which dimension of the two tensors is the batch, the depth, the height, the
    width.
    """

    size: int
    mode: str
    deep: tuple[int, ...]
    shallow: tuple[int, ...]


@dataclass(frozen=True)
class _Chain:
    """A Reshape, Transposes and a Reshape in a row, by their indices, what the Transposes do together, and the values
    in front of and behind the Reshapes.
    """

    nodes: tuple[int, ...]
    perm: tuple[int, ...]
    values: tuple[Value, ...]


def recognise(graph: Graph) -> Graph:
    """The same graph with DepthToSpace and SpaceToDepth in place of views that compute exactly them."""
    values = dict(graph.values)
    replaced: dict[int, list[Node]] = {}
    for chain in _chains(graph):
        view = replace(graph.nodes[chain.nodes[-2]], attributes={"perm": chain.perm})
        written = _written(view, chain.values, values)
        if written:
            replaced.update({index: written if index == chain.nodes[-1] else [] for index in chain.nodes})
    if not replaced:
        return graph
    nodes = tuple(new for index, node in enumerate(graph.nodes) for new in replaced.get(index, [node]))
    return used(graph, nodes, values)


def _chains(graph: Graph) -> Iterator[_Chain]:
    """All Reshape -> Transpose -> Reshape over ranks 4, 6, 4 with nothing else reading what lies in between; the
    Transpose may be several in a row.
    """
    uses = graph.reads + Counter(graph.outputs)
    for last, after in enumerate(graph.nodes):
        between, perm = list[int](), tuple(range(6))
        first = graph.producers.get(after.inputs[0]) if _view(graph, after) else None
        while first is not None and uses[graph.nodes[first].outputs[0]] == 1:
            node = graph.nodes[first]
            if node.op != "Transpose" or node.pattern or len(node.attributes["perm"]) != len(perm):
                break
            between.insert(0, first)
            perm = tuple(node.attributes["perm"][axis] for axis in perm)
            first = graph.producers.get(node.inputs[0])
        if first is None or not between or uses[graph.nodes[first].outputs[0]] != 1:
            continue
        before = graph.nodes[first]
        if not _view(graph, before):
            continue
        names = (before.inputs[0], *before.outputs, after.inputs[0], *after.outputs)
        chain = _Chain((first, *between, last), perm, tuple(graph.values[name] for name in names))
        if _moves(chain.values, [graph.nodes[index] for index in chain.nodes]):
            yield chain


def _view(graph: Graph, node: Node) -> bool:
    """Whether a node is a Reshape whose shape is not computed by other nodes."""
    return node.op == "Reshape" and graph.constant(node.inputs[1]) is not None


def _moves(values: Sequence[Value], nodes: Sequence[Node]) -> bool:
    """Whether the values have fitting types, ranks and sizes, and all mean the same by what they store."""
    source, quant = values[0], values[0].quant
    if [len(value.shape) for value in values] != [4, 6, 6, 4] or 0 in source.shape or source.dtype not in _STORED:
        return False
    if any(value.dtype != source.dtype for value in values):
        return False
    if quant is None:
        return all(value.quant is None for value in values)
    same = quant.axis is None and all(quant.matches(value.quant) for value in values)
    return same and all(node.storage for node in nodes)


def _written(view: Node, chain: Sequence[Value], values: dict[str, Value]) -> list[Node]:
    """The nodes that take the place of a chain, whose new values are entered; none where it is no block."""
    source, split, moved, result = chain
    perm = tuple(view.attributes["perm"])
    inverse = tuple(perm.index(axis) for axis in range(len(perm)))
    if block := _block(source.shape, split.shape, perm, result.shape):
        op, before, after = "DepthToSpace", block.deep, block.shallow
        attributes: Mapping[str, object] = {"blocksize": block.size, "mode": block.mode}
    elif block := _block(result.shape, moved.shape, inverse, source.shape):
        op, before, after = "SpaceToDepth", block.shallow, block.deep
        attributes = {"blocksize": block.size}
    else:
        return []
    if op == "SpaceToDepth" and block.mode == "CRD":
        return _shuffled(view, block, source, result, values)
    node = replace(view, op=op, inputs=(source.name,), outputs=(result.name,), attributes=attributes)
    return _between(node, before, after, values)


def _shuffled(view: Node, block: _Block, source: Value, result: Value, values: dict[str, Value]) -> list[Node]:
    """SpaceToDepth, whose channels have the block outermost, and views that put it innermost; none where their sizes
    are not known.
    """
    shape, depth, pixels = result.shape, block.deep[1], block.size**2
    rest = quotient(shape[depth], pixels)
    if rest is None:
        return []
    before = (*shape[:depth], pixels, rest, *shape[depth + 1 :])
    perm = (*range(depth), depth + 1, depth, *range(depth + 2, len(shape) + 1))
    after = tuple(before[axis] for axis in perm)
    sizes = [found for found in (reshape_entries(shape, before), reshape_entries(after, shape)) if found is not None]
    if len(sizes) < 2:
        return []
    mixed = _enter(values, f"{result.name}/blocks", result, shape)
    node = replace(
        view, op="SpaceToDepth", inputs=(source.name,), outputs=(mixed,), attributes={"blocksize": block.size}
    )
    split = _enter(values, f"{result.name}/split", result, before)
    moved = _enter(values, f"{result.name}/shuffled", result, after)
    shapes = []
    for entries in sizes:
        shapes.append(unlike(f"{result.name}/shape", values))
        data = np.array(entries, np.int64)
        values[shapes[-1]] = Value(shapes[-1], "int64", data.shape, None, data)
    return [
        *_between(node, block.shallow, block.deep, values),
        replace(view, op="Reshape", inputs=(mixed, shapes[0]), outputs=(split,), attributes={}),
        replace(view, inputs=(split,), outputs=(moved,), attributes={"perm": perm}),
        replace(view, op="Reshape", inputs=(moved, shapes[1]), outputs=(result.name,), attributes={}),
    ]


def _between(node: Node, before: tuple[int, ...], after: tuple[int, ...], values: dict[str, Value]) -> list[Node]:
    """A node between Transposes from dimensions in the order ``before`` and back to the order ``after``."""
    plain = tuple(range(len(before)))
    nodes: list[Node] = []
    read, given = node.inputs[0], node.outputs[0]
    if before != plain:
        shape = tuple(values[read].shape[axis] for axis in before)
        inner = _enter(values, f"{given}/input_nchw", values[read], shape)
        nodes.append(replace(node, op="Transpose", outputs=(inner,), attributes={"perm": before}, pattern=True))
        read = inner
    if after == plain:
        return [*nodes, replace(node, inputs=(read,))]
    inner = _enter(values, f"{given}/nchw", values[given], tuple(values[given].shape[axis] for axis in after))
    nodes.append(replace(node, inputs=(read,), outputs=(inner,)))
    back = tuple(after.index(axis) for axis in plain)
    nodes.append(replace(node, op="Transpose", inputs=(inner,), attributes={"perm": back}, pattern=True))
    return nodes


def _enter(values: dict[str, Value], name: str, like: Value, shape: Shape) -> str:
    """Enter a new value that is stored as another one is, and give its name."""
    name = unlike(name, values)
    values[name] = replace(like, name=name, shape=shape, data=None)
    return name


def _block(deep: Shape, split: Shape, perm: tuple[int, ...], shallow: Shape) -> _Block | None:
    """The block that moves where a deep tensor, split into six factors, is permuted and joined to a shallow one."""
    for stacked in _groupings(split, deep, _STACKED):
        for spread in _groupings([split[axis] for axis in perm], shallow, _SPREAD):
            found = _roles(split, stacked, tuple(tuple(perm[place] for place in group) for group in spread))
            if found:
                return found
    return None


def _groupings(factors: Sequence[Dim], whole: Shape, lengths: tuple[int, ...]) -> Iterator[Groups]:
    """The ways to join neighbouring factors to a shape by groups of these lengths; sizes 1 may allow several."""
    for order in sorted(set(permutations(lengths)), reverse=True):
        starts = [sum(order[:place]) for place in range(len(order))]
        groups = tuple(tuple(range(start, start + length)) for start, length in zip(starts, order, strict=True))
        if tuple(product(factors[axis] for axis in group) for group in groups) == whole:
            yield groups


def _roles(sizes: Shape, stacked: Groups, spread: Groups) -> _Block | None:
    """What each factor is, by where it lies on both sides: a block lies in the depth here and inside of a space
    there.
    """
    (depth,) = (group for group in stacked if len(group) == 3)
    pairs = {group[1]: group for group in spread if len(group) == 2}
    blocks = [axis for axis in depth if axis in pairs]
    if len(blocks) != 2:
        return None
    high, wide = (pairs[axis] for axis in blocks)
    (rest,) = (axis for axis in depth if axis not in blocks)
    size = sizes[blocks[0]]
    mode = "DCR" if rest == depth[2] or sizes[rest] == 1 else "CRD" if rest == depth[0] else ""
    if not isinstance(size, int) or size < 2 or sizes[blocks[1]] != size or not mode:
        return None
    if not all((pair[0],) in stacked for pair in (high, wide)):
        return None
    (batch,) = (group for group in stacked if len(group) == 1 and group in spread)
    shallow = tuple(spread.index(group) for group in (batch, (rest,), high, wide))
    return _Block(size, mode, tuple(stacked.index(group) for group in (batch, depth, high[:1], wide[:1])), shallow)
