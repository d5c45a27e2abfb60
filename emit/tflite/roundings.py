"""What a source in ONNX adds to round as LiteRT's kernels on integers do, whose own rounding takes its place.

They round twice, halves upwards, where QuantizeLinear rounds once. A model that was made of a TensorFlow Lite one has a
small part of a step added (:mod:`layoutsolve.frontend.tflite.lowering.rounding`), or is multiplied by nearly 1, before
it is quantized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.emit.tflite.meanings import STRETCH, in_steps
from layoutsolve.emit.tflite.rows import QUANTIZED
from layoutsolve.emit.tflite.rows.reduction import POOLING
from layoutsolve.frontend.tflite.lowering.rounding import pooling_offset
from layoutsolve.ir.functions import PLAN
from layoutsolve.ir.graph import Graph, Node, Quant, product

SHIFT = 0.75
"""No more than this part of a step is no more than a way to round: kernels that average are off by that much."""

_TWO, _SIGNED, _EQUAL = 2, 128, 1e-4
_WEIGHED = frozenset(("Conv", "Gemm", "MatMul"))
"""Operators to which something may be added that is small, and no rounding."""


def settled(graph: Graph) -> Graph:
    """The same graph without them behind nodes that a kernel computes on integers."""
    draft, gone, anew = Draft(graph, {}), set[int](), dict[int, Node]()
    for number, node in enumerate(graph.nodes):
        if node.storage or len(node.outputs) != 1 or number in gone:
            continue
        if _is_requantized(graph, node):
            anew[number] = replace(node, op="Identity", inputs=node.inputs[:1], attributes={})
            continue
        before = _lift(graph, node)
        if before is not None:
            whole = replace(node, inputs=(graph.nodes[before].inputs[0], *node.inputs[1:]))
            if QUANTIZED[node.op](Call(draft, whole, whole.outputs[0])):
                anew[number] = whole
                gone.add(before)
            continue
        if not graph.values[node.outputs[0]].in_floats:
            continue
        op = graph.functions[node.op].op if node.domain == PLAN else node.op
        steps = [] if op not in QUANTIZED or op in _WEIGHED else [*_steps(graph, node)]
        if steps:
            end = graph.nodes[steps[-1]].outputs[0]
            whole = replace(node, outputs=(end,), attributes={**node.attributes, **_pooling(graph, node, steps)})
            if QUANTIZED[op](Call(draft, whole, end)):
                anew[number] = whole
                gone.update(steps)
    nodes = [anew.get(number, node) for number, node in enumerate(graph.nodes) if number not in gone]
    return replace(graph, nodes=tuple(nodes)) if anew else graph


def _pooling(graph: Graph, node: Node, steps: Sequence[int]) -> dict[str, int]:
    """What tells that a mean is rounded as by LiteRT's kernel for height and width, which no other one does."""
    axes = graph.values[node.inputs[1]].data if node.op == "ReduceMean" and len(node.inputs) > 1 else None
    before, after = graph.values[node.inputs[0]], graph.values[graph.nodes[steps[-1]].outputs[0]]
    added = [graph.values[name].data for name in graph.nodes[steps[0]].inputs if graph.values[name].data is not None]
    if axes is None or before.quant is None or after.quant is None or not added or added[0] is None:
        return {}
    count = product(before.shape[axis] for axis in axes.reshape(-1).tolist())
    shift = _SIGNED if before.dtype == "uint8" else 0
    signed = replace(before.quant, zero_point=before.quant.zero_point.astype(np.int32) - shift)
    if not isinstance(count, int) or added[0].size != 1:
        return {}
    off = (pooling_offset(each, after.quant, count) - float(added[0].reshape(-1)[0]) for each in (before.quant, signed))
    return {POOLING: 1} if min(map(abs, off)) < _EQUAL * float(after.quant.scale[0]) else {}


def _lift(graph: Graph, node: Node) -> int | None:
    """The number of the node that does no more than round what another one on elements makes of bytes, as bytes."""
    made = graph.values[node.outputs[0]]
    if node.domain or node.op not in QUANTIZED or not node.inputs or not in_steps(made) or made.quant is None:
        return None
    number = graph.producers.get(node.inputs[0], -1)
    before = graph.nodes[number] if number >= 0 else None
    if before is None or before.op not in ("Add", "Mul") or before.domain or len(before.inputs) != _TWO:
        return None
    one, other = (graph.values[name] for name in before.inputs)
    alone = graph.reads[before.outputs[0]] == 1 and before.outputs[0] not in graph.results
    plain = in_steps(one) and other.data is not None and graph.values[before.outputs[0]].in_floats
    fits = alone and plain and not before.storage and node.op not in _WEIGHED
    return number if fits and _is_slight(graph, before, made.quant) else None


def _is_requantized(graph: Graph, node: Node) -> bool:
    """Whether a node does no more to bytes than to store them anew."""
    if node.op not in ("Add", "Mul") or node.domain or len(node.inputs) != _TWO:
        return False
    one, made = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
    constant = graph.values[node.inputs[1]].data is not None
    return (
        constant and in_steps(one) and made.quant is not None and in_steps(made) and _is_slight(graph, node, made.quant)
    )


def _steps(graph: Graph, node: Node) -> Iterator[int]:
    """The numbers of the nodes that do no more than round what a node gives, the last of which gives bytes."""
    found, name = list[int](), node.outputs[0]
    while not in_steps(graph.values[name]):
        if name in graph.results:
            return
        readers = graph.readers.get(name, ())
        if not all(each.outputs for each in readers):
            return
        numbers = sorted(graph.producers[each.outputs[0]] for each in readers)
        last = graph.nodes[numbers[-1]] if numbers else None
        if last is None or last.storage or last.region is not node.region or last.op not in ("Add", "Mul", "Identity"):
            return
        found += _chain(graph, name, numbers)
        if not found or found[-1] != numbers[-1]:
            return
        name = last.outputs[0]
    quant = graph.values[name].steps
    if all(_is_slight(graph, graph.nodes[number], quant) for number in found):
        yield from found


def _chain(graph: Graph, name: str, numbers: list[int]) -> list[int]:
    """The nodes that read a value, by their numbers, as far as they are one step: a sum with a constant, a product by
    one, or a sum with a product of its sign.
    """
    last = graph.nodes[numbers[-1]]
    if len(numbers) == 1:
        others = [each for each in last.inputs if each != name]
        plain = last.op == "Identity" or (len(others) == 1 and graph.values[others[0]].data is not None)
        return numbers if plain else []
    sign = graph.nodes[numbers[0]]
    product = graph.producer(next((each for each in last.inputs if each != name), ""))
    if len(numbers) != 2 or (sign.op, last.op) != ("Sign", "Add") or product is None or product.op != "Mul":
        return []
    if sign.outputs[0] not in product.inputs or graph.reads[sign.outputs[0]] != 1 != graph.reads[product.outputs[0]]:
        return []
    return [numbers[0], graph.producers[product.outputs[0]], numbers[1]]


def _is_slight(graph: Graph, node: Node, quant: Quant) -> bool:
    """Whether a node changes numbers by no more than what rounds them, in steps of a result."""
    constants = [graph.values[name] for name in node.inputs if graph.values[name].data is not None]
    if node.op in ("Sign", "Identity") or not constants:
        return True
    data = constants[0].data
    if not constants[0].in_floats or data is None or data.size != 1:
        return False
    least = float(np.abs(data).max())
    sign = any(made.op == "Sign" for name in node.inputs if (made := graph.producer(name)) is not None)
    if node.op == "Add" or sign:
        return least <= SHIFT * float(quant.scale[0])
    return bool(np.abs(data - 1).max() <= STRETCH)
