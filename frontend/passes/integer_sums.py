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

_ALL = 3
"""The inputs of a QuantizeLinear that names its zero point."""


def recognise(graph: Graph) -> Graph:
    """The same graph with quantised convolutions in place of those of integers."""
    steps = {node: found for node in graph.nodes if (found := _steps(graph, node)) is not None}
    hosts = {host: node for node, found in steps.items() if (host := _host(graph, node, found.size)) is not None}
    if not hosts:
        return graph
    values, taken, gone = dict(graph.values), Names(graph.values), {*hosts.values()}
    nodes = [
        _quantised(node, hosts[node], steps[hosts[node]], values, taken) if node in hosts else node
        for node in graph.nodes
        if node not in gone
    ]
    return used(graph, nodes, values)


def _host(graph: Graph, node: Node, channels: int) -> Node | None:
    """The convolution of integers to so many channels that a QuantizeLinear reads alone."""
    host, alone = graph.producer(node.inputs[0]), graph.reads[node.inputs[0]] == 1
    if host is None or host.op not in CHANNELS or host.domain or host.storage or host.region is not node.region:
        return None
    x, weights, *biases = (graph.values[name] for name in host.inputs if name)
    one = x.in_bytes and x.quant is not None and bool((x.quant.scale == 1).all())
    grouped = host.op == "ConvTranspose" and host.attributes.get("group", 1) != 1
    if not one or not alone or node.inputs[0] in graph.results or grouped:
        return None
    if not _are_integers(weights, "int8") or not all(_are_integers(each, "int32") for each in biases):
        return None
    return host if weights.shape[CHANNELS[host.op]] == channels else None


def _steps(graph: Graph, node: Node) -> Array | None:
    """What one of the sums means that a node divides by a scale for each channel, by what is read of its result; None
    where it is none such, or its result has another zero point there.
    """
    made = graph.values[node.outputs[0]].quant if node.op == "QuantizeLinear" and len(node.inputs) == _ALL else None
    if made is None or not all(node.inputs) or node.attributes.get("axis", 1) != 1:
        return None
    scale, zero = (graph.values[name].data for name in node.inputs[1:])
    if scale is None or zero is None or scale.ndim != 1 or (zero != made.zero_point).any():
        return None
    with np.errstate(all="ignore"):
        steps: Array = (made.scale / scale).astype(np.float32)
    return steps if np.isfinite(scale).all() and (steps >= np.finfo(np.float32).tiny).all() else None


def _are_integers(value: Value, dtype: str) -> bool:
    """Whether constants are floats that are integers of a type."""
    data, limits = value.data, np.iinfo(dtype)
    if data is None or not value.in_floats:
        return False
    return bool((data == np.rint(data)).all() and (data >= limits.min).all() and (data <= limits.max).all())


def _quantised(host: Node, after: Node, steps: Array, values: dict[str, Value], taken: Names) -> Node:
    """The convolution whose result is what a QuantizeLinear gives, with weights and a bias in steps."""
    inputs = [host.inputs[0]]
    for name, dtype, axis in zip(host.inputs[1:], ("int8", "int32"), (CHANNELS[host.op], 0), strict=False):
        data = values[name].data if name else None
        inputs.append(name if data is None else taken.derived(name, "stored"))
        if data is not None:
            quant = Quant(steps, np.zeros(len(steps), dtype), axis)
            values[inputs[-1]] = Value(inputs[-1], dtype, values[name].shape, quant, data.astype(dtype))
    return replace(host, inputs=tuple(inputs), outputs=after.outputs, given=False)
