"""What ONNX Runtime's int8 kernels take longer for than its kernels on floats, as measured on x86, and more of it
where a target asks for that.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import groupby, zip_longest
from math import prod

from layoutsolve.ir.graph import Graph, Node
from layoutsolve.ir.storage_options import Storage

_FEW_CHANNELS, _FEW_MOVED, _SHORT_ROW = 8, 16, 16
"""Groups of so many channels take longer in bytes, and of so many for each pixel that is moved to; rows of less numbers
do not.
"""

_PIXEL, _FEW_RESULTS, _FEW_WEIGHTS, _FEW_PIXELS = 4, 32, 1600, 144
"""The channels that kernels on bytes read at once. Of less they take longer, up to so many results and weights, from so
many pixels on.
"""

_IMAGE = 4

ACTIVATIONS = ("Add", "Clip", "Identity", "LeakyRelu", "Relu")
"""What activations are written as, LeakyRelu also as a sum of its operand and what a Clip leaves of it."""

VIEWS = ("Reshape", "Transpose")

_FEW_MEANS, _FEW_PIECES = 256, 256
"""Below these a copy and two conversions more cost as much as they gain."""

_VECTOR, _HALF = 32, 16
"""How many bytes are added at once, or multiplied, where two operands have so many beside each other."""


def convolutions(graph: Graph) -> frozenset[str]:
    """The results of convolutions that are better computed in floats.

    Kernels on bytes lie channels-last, those on floats do not. ONNX Runtime moves Transposes between them through what
    is read on the way, unless several operators read it: so few channels of many pixels alone are no reason where
    others than convolutions read the result, or what an activation makes of it.
    """
    small, few = set[str](), set[str]()
    for node in graph.nodes:
        if node.op == "Conv" and not node.domain:
            weights, made = (sizes(graph, name) for name in (node.inputs[1], node.outputs[0]))
            groups, strides = node.attributes.get("group", 1), node.attributes.get("strides", ())
            if of_groups(weights, groups, strides):
                small.add(node.outputs[0])
            elif groups == 1 and of_pixels(weights, made) and graph.reads[node.outputs[0]]:
                few.add(node.outputs[0])
    return frozenset(small | (few - _read_by_others(graph, few)))


def of_target(graph: Graph, storage: Storage) -> frozenset[str]:
    """The results of int8 products that a target wants in floats; sizes that are not known count as 1."""
    found = set[str]()
    if storage.float_rows or storage.float_pixels:
        found = {node.outputs[0] for node in graph.nodes if not node.domain and _is_wanted(graph, node, storage)}
        within = set(found)
        for node in reversed(graph.nodes) if storage.float_terms else ():
            if node.op not in ("Conv", *ACTIVATIONS, *VIEWS) or node.domain or not _read_within(graph, node, within):
                continue
            if node.op != "Conv":
                within.add(node.outputs[0])
            elif node.attributes.get("group", 1) == 1 and prod(sizes(graph, node.inputs[1])[1:]) <= storage.float_terms:
                found.add(node.outputs[0])
                within.add(node.outputs[0])
    return frozenset(found)


def _is_wanted(graph: Graph, node: Node, storage: Storage) -> bool:
    """Whether a node is a depthwise convolution of many pixels, or a product by constants of few rows."""
    if node.op == "Conv":
        groups, (_, read, *_) = node.attributes.get("group", 1), sizes(graph, node.inputs[1])
        pixels = prod(sizes(graph, node.outputs[0])[2:])
        return bool(storage.float_pixels) and groups > 1 == read and pixels >= storage.float_pixels
    if node.op not in ("Gemm", "MatMul") or not storage.float_rows:
        return False
    constant = [graph.values[name].data is not None for name in node.inputs[:2]]
    made = sizes(graph, node.outputs[0])
    rows = made[:-1] if constant[1] else made[-1:]
    return any(constant) and prod(size or 1 for size in rows) <= storage.float_rows


def _read_within(graph: Graph, node: Node, results: Set[str]) -> bool:
    """Whether all that reads what a node gives has its own result among some."""
    made = node.outputs[0]
    readers = graph.readers.get(made, ())
    return made not in graph.results and bool(readers) and all({*each.outputs} <= results for each in readers)


def _read_by_others(graph: Graph, results: Set[str]) -> set[str]:
    """The results that others than convolutions read, also behind an activation that reads one of them alone."""
    origins, others = {name: name for name in results}, set[str]()
    for node in graph.nodes if results else ():
        if node.op == "Conv":
            continue
        found = {origins.get(name) for name in node.inputs if name and graph.values[name].data is None}
        if node.op in ACTIVATIONS and len(found) == 1:
            origins.update((name, each) for name in node.outputs for each in found if each is not None)
        else:
            others.update(filter(None, found))
    return others.union(origins[name] for name in graph.outputs if name in origins)


def sizes(graph: Graph, name: str) -> list[int]:
    """The sizes of a tensor, 0 for one that is not known."""
    return [size if isinstance(size, int) else 0 for size in graph.values[name].shape]


def of_groups(weights: Sequence[int], groups: int, strides: Sequence[int]) -> bool:
    """Whether a convolution by weights of this shape has small groups that are not one channel with one result each:
    1.3 to 10 times as long.
    """
    given, read = (*weights, 0, 0)[:2]
    return (
        groups > 1 and 0 < read <= _FEW_CHANNELS and read * prod(strides) <= _FEW_MOVED and (given, read) != (groups, 1)
    )


def of_pixels(weights: Sequence[int], made: Sequence[int]) -> bool:
    """Whether a convolution by weights of this shape, which gives images of a shape, reads few channels of many pixels:
    up to 2.3 times.
    """
    if not len(weights) == len(made) == _IMAGE:
        return False
    given, read, *_ = weights
    return (
        0 < read < _PIXEL and given <= _FEW_RESULTS and prod(weights) <= _FEW_WEIGHTS and prod(made[2:]) >= _FEW_PIXELS
    )


def of_rows(shape: Sequence[int], axis: int) -> bool:
    """Whether a softmax along an axis, of a tensor of this shape, has rows that are not short: 1.9 to 4 times."""
    return -len(shape) <= axis < len(shape) and not 0 < shape[axis] < _SHORT_ROW


def of_windows(given: Sequence[int], made: Sequence[int], kernel: Sequence[int]) -> bool:
    """Whether an average pool, from one shape to another, has windows that are not whole images: 1.4 to 14 times."""
    return [*given[2:]] != [*kernel] and not 0 < prod(made) < _FEW_MEANS


def of_pieces(operator: str, left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether Add or Mul of two tensors of these shapes goes over short pieces, within which one of them stays the same
    number or both go on: 1.1 to 3 times.
    """
    pairs = [*zip_longest(reversed(left), reversed(right), fillvalue=1)]
    if min((size for pair in pairs for size in pair), default=0) < 1 or 1 in (prod(left), prod(right)):
        return False
    alike = [[*run] for _, run in groupby((pair for pair in pairs if pair != (1, 1)), lambda pair: _repeated(*pair))]
    piece, whole = prod(map(max, alike[0])) if alike else 0, prod(map(max, pairs))
    slow = piece < _VECTOR and not (operator == "Mul" and piece % _HALF == 0)
    return len(alike) > 1 and slow and whole >= piece * _FEW_PIECES


def _repeated(left: int, right: int) -> int:
    """Which of two operands is repeated along a dimension: -1 the left one, 1 the right one, 0 neither."""
    return (left > right) - (left < right)
