"""Signedness of 8-bit weights: int8 stored as uint8 or uint8 as int8, with zero points shifted by 128.

ONNX Runtime's kernels for x86 that multiply activations without a sign by weights with one take a single instruction
for it on processors that have one (VNNI). On others they add pairs of products in 16 bits, which saturate, and results
are wrong; kernels whose weights have no sign either are right on every processor. Depthwise convolutions add no pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from layoutsolve.frontend.passes.unsigned import HALF, WEIGHED, shifted
from layoutsolve.ir.graph import KEPT, Graph, Node, Quant, Value
from layoutsolve.ir.saturation import may_have_kernel, may_saturate
from layoutsolve.ir.storage_options import WeightStorage


def stored(graph: Graph, way: WeightStorage) -> Graph:
    """The same graph with 8-bit weights stored another way where nothing but products reads them.

    Those that are stored without a sign are weights of kernels on bytes whose sums may saturate, or all of them.
    """
    if way == "source":
        return graph
    if way in ("signed", "selected"):
        return _stored(graph, "uint8", "int8", lambda _: True)
    fits = may_have_kernel if way == "uint8" else may_saturate
    return _stored(graph, "int8", "uint8", lambda node: fits(graph, node))


def alike(graph: Graph) -> Graph:
    """The same graph with int8 weights of one scale stored as uint8 where activations are."""

    def fits(node: Node) -> bool:
        data, weights = (graph.values[name] for name in node.inputs[:2])
        return data.dtype == "uint8" and weights.quant is not None and weights.quant.axis is None

    return _stored(graph, "int8", "uint8", fits)


def _stored(graph: Graph, source: str, target: str, fits: Callable[[Node], bool]) -> Graph:
    """The graph with weights of type ``source`` as ``target`` where all that reads them are products that ``fits``."""
    weights, others = set[str](), {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        place = WEIGHED.get(node.op.removeprefix(KEPT), len(node.inputs))
        product = place < len(node.inputs) and not (node.storage or node.domain) and fits(node)
        for port, name in enumerate(node.inputs):
            (weights if product and port == place else others).add(name)
    chosen = (graph.values[name] for name in weights - others)
    changed = {value.name: _shifted(value, target) for value in chosen if _is_stored_as(value, source)}
    return replace(graph, values={**graph.values, **changed}) if changed else graph


def _is_stored_as(value: Value, dtype: str) -> bool:
    return value.data is not None and value.dtype == dtype and value.quant is not None and not value.quant.block


def _shifted(value: Value, dtype: str) -> Value:
    quant, data = value.steps, value.constant
    by = HALF if dtype == "uint8" else -HALF
    zero = shifted(quant.zero_point, by, dtype)
    return replace(value, dtype=dtype, quant=Quant(quant.scale, zero, quant.axis), data=shifted(data, by, dtype))
