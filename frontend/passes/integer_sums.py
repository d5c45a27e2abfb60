"""Convolutions of stored integers, as layoutsolve writes those that are computed in floats: their weights and biases as
integers again.

What is multiplied is dequantized by 1 and weights are integers in floats, so that sums are exact; the QuantizeLinear
behind divides by a scale for each channel, which is that of the result over those of the weights. What the result means
is said where it is dequantized, maybe behind operators that move it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.passes.live_nodes import rewritten
from layoutsolve.frontend.passes.unsigned import MOVING
from layoutsolve.ir.graph import Array, Graph, Node, Quant, Value
from layoutsolve.ir.names import Names

CHANNELS = {"Conv": 0, "ConvTranspose": 1}
"""By operator, the dimension of its weights that has the channels of its result."""

_WIDE = 255
"""How far apart bytes may be."""

_ALL = 3
"""The inputs of a QuantizeLinear that names its zero point."""


@dataclass(frozen=True, eq=False)
class _Sum:
    """A convolution of integers whose sums are stored as ``made``, which means ``quant``. ``steps`` is what one of them
    means, one number or one for each channel.
    """

    made: str
    quant: Quant
    steps: Array


def recognise(graph: Graph) -> Graph:
    """The same graph with quantized convolutions in place of those of integers."""
    sums, gone = dict[Node, _Sum](), set[Node]()
    for node in graph.nodes:
        found = _steps(graph, node)
        host = None if found is None else _host(graph, node, found.steps.size)
        if found is not None and host is not None:
            sums[host] = found
            gone.add(node)
        elif (own := _stored(graph, node)) is not None:
            sums[node] = own
    if not sums:
        return graph
    values, taken = dict(graph.values), Names(graph.values)
    nodes = [
        _quantized(graph, node, sums[node], values, taken) if node in sums else node
        for node in graph.nodes
        if node not in gone
    ]
    return rewritten(graph, nodes, values)


def _host(graph: Graph, node: Node, channels: int) -> Node | None:
    """The convolution of integers to so many channels that a QuantizeLinear reads alone."""
    host, alone = graph.producer(node.inputs[0]), graph.reads[node.inputs[0]] == 1
    if host is None or host.region is not node.region or not alone or node.inputs[0] in graph.results:
        return None
    if not _is_of_integers(graph, host):
        return None
    weights = graph.values[host.inputs[1]]
    return host if weights.shape[CHANNELS[host.op]] == channels and _are_integers(weights, "int8") else None


def _is_of_integers(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution of integers."""
    if node.op not in CHANNELS or node.domain or node.storage:
        return False
    x, *constants = (graph.values[name] for name in node.inputs if name)
    one = x.in_bytes and x.quant is not None and bool((x.quant.scale == 1).all())
    grouped = node.op == "ConvTranspose" and node.attributes.get("group", 1) != 1
    return one and not grouped and all(_are_integers(each, "int32") for each in constants)


def _stored(graph: Graph, node: Node) -> _Sum | None:
    """What a convolution of integers gives that is stored in steps for all channels, and read as something else."""
    if not _is_of_integers(graph, node) or not _fits(graph.values[node.inputs[0]], graph.values[node.inputs[1]]):
        return None
    value, readers = graph.values[node.outputs[0]], graph.readers.get(node.outputs[0], ())
    if len(readers) != 1 or readers[0].op != "Identity" or not readers[0].storage or value.name in graph.results:
        return None
    (name,) = readers[0].outputs
    again = graph.values[name]
    if not value.in_bytes or not again.in_bytes or value.quant is None or again.quant is None:
        return None
    if value.dtype != again.dtype or not np.array_equal(value.quant.zero_point, again.quant.zero_point):
        return None
    return _sum(value.name, again.quant, value.quant.scale.reshape(1))


def _sum(made: str, quant: Quant, scale: Array) -> _Sum | None:
    """What is stored after it is divided by ``scale``; None where floats do not hold what one of the sums means."""
    with np.errstate(all="ignore"):
        steps: Array = (quant.scale / scale).astype(np.float32)
    known = np.isfinite(steps).all() and (steps >= np.finfo(np.float32).tiny).all()
    return _Sum(made, quant, steps) if known else None


def _fits(x: Value, weights: Value) -> bool:
    """Whether weights are int8, or could be bytes without a sign as what they multiply."""
    return _are_integers(weights, "int8") or (
        x.dtype == "uint8" and weights.data is not None and bool(np.ptp(weights.data) <= _WIDE)
    )


def _steps(graph: Graph, node: Node) -> _Sum | None:
    """What one of the sums means that a node divides by a scale for each channel, by what is read of its result; None
    where it is none such, or its result has another zero point there.
    """
    made = _meaning(graph, node.outputs[0]) if node.op == "QuantizeLinear" and len(node.inputs) == _ALL else None
    if made is None or not all(node.inputs) or node.attributes.get("axis", 1) != 1:
        return None
    scale, zero = (graph.values[name].data for name in node.inputs[1:])
    if scale is None or zero is None or scale.ndim != 1 or (zero != made.zero_point).any():
        return None
    return _sum(node.outputs[0], made, scale)


def _meaning(graph: Graph, name: str) -> Quant | None:
    """What stored integers mean, or what they are moved to."""
    while (quant := graph.values[name].quant) is None:
        reader = next((each for each in graph.readers.get(name, ()) if each.op in MOVING and not each.domain), None)
        if reader is None:
            return None
        name = reader.outputs[0]
    return quant


def _origin(graph: Graph, name: str) -> tuple[str, Quant | None]:
    """The same stored integers where they mean what they were stored for, and what that is, None for what they mean as
    they are read.
    """
    value, maker = graph.values[name], graph.producer(name)
    if maker is None or not maker.storage or maker.op not in MOVING or maker.domain:
        return name, None
    source = maker.inputs[0] if maker.op == "Identity" else name
    quant = _stored_for(graph, maker.inputs[0])
    same = quant is not None and value.quant is not None and np.array_equal(quant.zero_point, value.quant.zero_point)
    alone = source != name or (graph.reads[name] == 1 and name not in graph.results)
    return (source, quant) if same and alone and graph.values[source].dtype == value.dtype else (name, None)


def _stored_for(graph: Graph, name: str) -> Quant | None:
    """What stored integers mean, or what they are moved from, in steps of one size."""
    while (quant := graph.values[name].quant) is None:
        maker = graph.producer(name)
        if maker is None or maker.op not in MOVING or maker.domain:
            return None
        name = maker.inputs[0]
    return quant if quant.axis is None else None


def _are_integers(value: Value, dtype: str) -> bool:
    """Whether constants are floats that are integers of a type."""
    data, limits = value.data, np.iinfo(dtype)
    if data is None or not value.in_floats:
        return False
    return bool((data == np.rint(data)).all() and (data >= limits.min).all() and (data <= limits.max).all())


def _quantized(graph: Graph, host: Node, found: _Sum, values: dict[str, Value], taken: Names) -> Node:
    """The convolution whose result is stored, with weights and a bias in steps."""
    x, meant = _origin(graph, host.inputs[0])
    values[found.made] = replace(values[found.made], quant=found.quant)
    if meant is not None:
        values[x] = replace(values[x], quant=meant)
    scale = np.float32(1) if meant is None else meant.scale[0]
    inputs = [x]
    axes = (CHANNELS[host.op], 0)
    for name, dtype, axis in zip(host.inputs[1:], ("int8", "int32"), axes, strict=False):
        data = values[name].data if name else None
        inputs.append(name if data is None else taken.derived(name, "stored"))
        if data is not None:
            each = (found.steps / scale).astype(np.float32) if dtype == "int8" else found.steps
            zero = _zero(data) if dtype == "int8" else 0
            quant = Quant(each, np.full(each.size, zero, dtype), axis if each.size > 1 else None)
            values[inputs[-1]] = Value(inputs[-1], dtype, values[name].shape, quant, (data + zero).astype(dtype))
    return replace(host, inputs=tuple(inputs), outputs=(found.made,), given=False)


def _zero(weights: Array) -> int:
    """What int8 weights are moved by: 0, but for those of bytes without a sign."""
    limits = np.iinfo(np.int8)
    fits = weights.min(initial=0) >= limits.min and weights.max(initial=0) <= limits.max
    return 0 if fits else int(limits.min - weights.min())
