"""Convolutions of stored integers, as layoutsolve writes those that are computed in floats: their weights and biases as
integers again.

What is multiplied is dequantised by 1 and weights are integers in floats, so that sums are exact; the QuantizeLinear
behind divides by a scale for each channel, which is that of the result over those of the weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.live_nodes import used
from layoutsolve.ir.graph import Array, Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

CHANNELS = {"Conv": 0, "ConvTranspose": 1}
"""By operator, the dimension of its weights that has the channels of its result."""


def recognise(graph: Graph) -> Graph:
    """The same graph with quantised convolutions in place of those of integers."""
    found = {node: host for node in graph.nodes if (host := _host(graph, node)) is not None}
    if not found:
        return graph
    values, taken, hosts = dict(graph.values), Names(graph.values), {host: node for node, host in found.items()}
    nodes = []
    for node in graph.nodes:
        if node in hosts:
            node = _quantised(node, hosts[node], values, taken)
        elif node in found:
            continue
        nodes.append(node)
    return used(graph, nodes, values)


def _host(graph: Graph, node: Node) -> Node | None:
    """The convolution of integers that a QuantizeLinear by a scale for each channel reads alone."""
    if node.op != "QuantizeLinear" or len(node.inputs) < 2 or graph.values[node.outputs[0]].quant is None:
        return None
    host, scale = graph.producer(node.inputs[0]), graph.values[node.inputs[1]].data
    if host is None or host.op not in CHANNELS or host.domain or host.storage or host.region is not node.region:
        return None
    x, *others = (graph.values[name] for name in host.inputs if name)
    one = x.in_bytes and x.quant is not None and bool((x.quant.scale == 1).all())
    alone = graph.reads[node.inputs[0]] == 1 and node.inputs[0] not in graph.results
    if not one or not alone or scale is None or scale.ndim != 1 or node.attributes.get("axis", 1) != 1:
        return None
    weights, *biases = others
    grouped = host.op == "ConvTranspose" and host.attributes.get("group", 1) != 1
    if grouped or not _are_integers(weights, "int8") or not all(_are_integers(each, "int32") for each in biases):
        return None
    return host if weights.shape[CHANNELS[host.op]] == scale.size else None


def _are_integers(value: Value, dtype: str) -> bool:
    """Whether constants are floats that are integers of a type."""
    data, limits = value.data, np.iinfo(dtype)
    if data is None or not value.in_floats:
        return False
    return bool((data == np.rint(data)).all() and (data >= limits.min).all() and (data <= limits.max).all())


def _quantised(host: Node, after: Node, values: dict[str, Value], taken: Names) -> Node:
    """The convolution whose result is what a QuantizeLinear gives, with weights and a bias in steps."""
    made, scale = values[after.outputs[0]].quant, values[after.inputs[1]].data
    assert made is not None and scale is not None
    steps = (made.scale / scale).astype(np.float32)
    inputs = [host.inputs[0]]
    for name, dtype, axis in zip(host.inputs[1:], ("int8", "int32"), (CHANNELS[host.op], 0), strict=False):
        inputs.append(_stored(values, taken, name, dtype, Quant(steps, np.zeros(len(steps), dtype), axis)))
    return replace(host, inputs=tuple(inputs), outputs=after.outputs, given=False)


def _stored(values: dict[str, Value], taken: Names, name: str, dtype: str, quant: Quant) -> str:
    data: Array | None = values[name].data
    assert data is not None
    own = taken.derived(name, "stored")
    values[own] = Value(own, dtype, values[name].shape, quant, data.astype(dtype))
    return own
