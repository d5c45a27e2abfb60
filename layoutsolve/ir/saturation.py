"""Sums of int8 products that saturate on some processors.

Processors for x86 without VNNI multiply activations without a sign by weights with one two at a time, and add both
products in 16 bits. That is exact where no two weights that lie next to each other are too large.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import BYTES, KEPT, Array, Graph, Node, Value

SUMMING = frozenset(("Conv", "Gemm", "MatMul"))
"""The operators with kernels on bytes that add products of several weights."""

_INTEGERS: Mapping[str, tuple[int | None, tuple[tuple[int, int], ...]]] = {
    "ConvInteger": (2, ((1, 3),)),
    "MatMulInteger": (2, ((1, 3),)),
    "QLinearConv": (2, ((3, 5),)),
    "QLinearMatMul": (2, ((3, 5),)),
    "com.microsoft:DynamicQuantizeLSTM": (None, ((1, 9), (2, 11))),
    "com.microsoft:DynamicQuantizeMatMul": (None, ((1, 3),)),
    "com.microsoft:MatMulIntegerToFloat": (4, ((1, 5),)),
    "com.microsoft:QAttention": (6, ((1, 7),)),
    "com.microsoft:QGemm": (2, ((3, 5),)),
    "com.microsoft:QLinearConv": (2, ((3, 5),)),
}
"""The products of integers, whose weights are of the type that the model says, and at which of their inputs they have
the zero of what is multiplied, which is the first, and the weights and the zero of these.
"""

_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv")

_LARGEST = 32767 // 255
"""The largest sum of two weights whose products with 255 fit into 16 bits."""


def may_saturate(graph: Graph, node: Node) -> bool:
    """Whether an int8 kernel computes a product, and adds more than one weight at a time."""
    if not may_have_kernel(graph, node):
        return False
    weights = graph.values[node.inputs[1]]
    return not _is_depthwise(node, weights, None if weights.quant is None else weights.quant.zero_point)


def may_have_kernel(graph: Graph, node: Node) -> bool:
    """Whether a node is a product that an int8 kernel may compute."""
    if node.op.removeprefix(KEPT) not in SUMMING or node.domain or node.storage:
        return False
    given, result = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    if given.foreign is not None or given.quant is None:
        return _dequantized_of(graph, given.name) == "uint8"
    return given.dtype in BYTES and (result.quant is None or result.dtype in BYTES)  # no kernel gives other integers


def _dequantized_of(graph: Graph, name: str) -> str:
    """The type of bytes that a DequantizeLinear reads which stays an operator, as one by a computed scale does, and
    gives a value; '' for all others. Of what has an open number of dimensions only the zero may tell.
    """
    before = graph.producer(name)
    if before is None or not _is_dequantizing(before):
        return ""
    types = (graph.values[each].dtype for each in (before.inputs[0], *before.inputs[2:]) if each)
    return next((dtype for dtype in types if dtype in BYTES), "")


def _is_dequantizing(node: Node) -> bool:
    return node.op.removeprefix(KEPT) == "DequantizeLinear" and not node.storage and not node.domain


@dataclass(frozen=True)
class Weights:
    """Weights of a product of integers: at which input it has them, and at which their zero; what they are, and their
    zero where that is no result of anything.
    """

    place: int
    zero_place: int
    value: Value
    zero: Array | None


def places_of(op: str, domain: str) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """At which inputs a product of integers has the zero of what is multiplied, none where that is quantized when the
    model runs, and each of its weights and their zero; no weights for others.
    """
    return _INTEGERS.get(f"{domain}:{op}" if domain else op, (None, ()))


def of_integers(graph: Graph, node: Node) -> tuple[Weights, ...]:
    """The weights of a product of integers whose sums may saturate, as of uint8 by int8, or of a DequantizeLinear that
    stays an operator and gives such a product; none for other nodes.
    """
    if _is_dequantizing(node):
        weights = _weights(graph, node, 0, 2)
        stays = graph.values[node.outputs[0]].quant is None and weights.value.dtype == "int8"
        return (weights,) if stays and _is_multiplied(graph, node.outputs[0], weights) else ()
    given_zero, places = places_of(node.op.removeprefix(KEPT), node.domain)
    found = tuple(_weights(graph, node, *place) for place in places if len(node.inputs) > place[0])
    if len(found) < len(places) or not found or not _is_without_sign(graph, node, given_zero):
        return ()
    signed = all(each.value.dtype == "int8" for each in found)
    return found if signed and any(_may_be_too_large(node, each) for each in found) else ()


def _is_without_sign(graph: Graph, node: Node, zero: int | None) -> bool:
    """Whether a product multiplies bytes without a sign; what is foreign has the type of its zero."""
    given = graph.values[node.inputs[0]]
    if given.foreign is None or zero is None:
        return given.dtype != "int8"
    named = node.inputs[zero] if len(node.inputs) > zero else ""
    return bool(named) and graph.values[named].dtype == "uint8"


def _weights(graph: Graph, node: Node, place: int, zero_place: int) -> Weights:
    named = node.inputs[zero_place] if len(node.inputs) > zero_place else ""
    zero = graph.values[named] if named else None
    known = np.zeros((), np.int8) if zero is None else zero.data
    return Weights(place, zero_place, graph.values[node.inputs[place]], known)


def _may_be_too_large(node: Node, weights: Weights) -> bool:
    """Whether sums may saturate; of weights that are computed nothing is known."""
    if weights.zero is not None and _is_depthwise(node, weights.value, weights.zero):
        return False
    return weights.value.data is None or is_too_large(node, weights.value.data)


def _is_depthwise(node: Node, weights: Value, zero: Array | None) -> bool:
    """Whether each channel is multiplied by weights of its own, all with one zero point: no kernel adds pairs of such
    products. Where zero points differ a product of matrices computes each channel.
    """
    groups = node.attributes.get("group", 1)
    one = zero is None or zero.size == 0 or bool((zero == zero.flat[0]).all())
    return groups != 1 and one and tuple(weights.shape[:2]) == (groups, 1)


def is_too_large(node: Node, weights: Array) -> bool:
    """Whether two weights of a product that kernels may add are too large."""
    found = (too_large(row[np.newaxis])[0] for way in ways(node, weights) for row in way)
    return any(found)  # most do in one of the first rows


def saturating(graph: Graph) -> list[str]:
    """Constant int8 weights with which sums of products may saturate, in the order of their readers."""
    found = dict[str, None]()
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if name in found or not may_saturate(graph, node):
            continue
        weights = graph.values[name]
        if weights.data is None or weights.dtype != "int8" or weights.quant is None or weights.quant.block:
            continue
        if is_too_large(node, weights.data):
            found[name] = None
    return [*found]


def computed(graph: Graph) -> set[str]:
    """The int8 values that are computed, and multiply uint8 in products whose sums may saturate."""
    found = set[str]()
    for node in graph.nodes:
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        value = graph.values.get(name)
        if value is None or value.data is not None or value.quant is None or value.dtype != "int8":
            continue
        if name not in found and may_saturate(graph, node) and _reads_without_sign(graph, node):
            found.add(name)
    return found


def _is_multiplied(graph: Graph, name: str, weights: Weights) -> bool:
    """Whether a product of uint8 reads what a DequantizeLinear makes of weights, and its sums may saturate."""
    for node in graph.readers.get(name, ()):
        product = node.inputs[1:2] == (name,) and may_have_kernel(graph, node) and _reads_without_sign(graph, node)
        if product and _may_be_too_large(node, weights):
            return True
    return False


def _reads_without_sign(graph: Graph, node: Node) -> bool:
    """Whether the first operand of a product is stored without a sign."""
    given = graph.values[node.inputs[0]]
    return (given.dtype if given.quant is not None else _dequantized_of(graph, given.name)) == "uint8"


def ways(node: Node, weights: Array) -> tuple[Array, ...]:
    """The weights of a product with a row for each result, in the orders in which kernels read them: those of images
    that lie channels-last read pixels, then channels, others the other way round.
    """
    if node.op.removeprefix(KEPT) in _CONVOLUTIONS:
        return np.moveaxis(weights, 1, -1).reshape(len(weights), -1), weights.reshape(len(weights), -1)
    by_column = not node.attributes.get("transB", 0)
    return (weights.reshape(-1, weights.shape[-1]).T if by_column else weights,)


def too_large(row: Array) -> tuple[int, int]:
    """How many pairs of neighbours in rows of int8 weights could saturate, and how many there are.

    Kernels pair weights from the first one on, or from the first of each pixel: all neighbours count.
    """
    wide = row.astype(np.int16)
    first, second = wide[:, :-1], wide[:, 1:]
    above = np.maximum(first, 0) + np.maximum(second, 0) > _LARGEST
    below = np.minimum(first, 0) + np.minimum(second, 0) < -_LARGEST
    return int((above | below).sum()), above.size
