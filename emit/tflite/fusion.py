"""Operators that LiteRT computes together with another one: activations, and what is added to a product."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.meanings import in_steps, same_steps
from layoutsolve.ir.functions import PLAN
from layoutsolve.ir.graph import Graph, Node, Value

NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
"""The activations that are fused, by their numbers in the schema."""

ANY = (-np.inf, np.inf)
_BOUNDS: Mapping[tuple[float, float], int] = {(0.0, np.inf): RELU, (-1.0, 1.0): RELU_N1_TO_1, (0.0, 6.0): RELU6}
_HOSTS = frozenset(("Add", "AveragePool", "Conv", "Div", "Gemm", "MatMul", "MaxPool", "Mul", "Sub"))
_TWO = 2


@dataclass(frozen=True, eq=False)
class Fused:
    """What is written for a node: its result behind what is fused into it, the activation, and what is added before
    that, '' for nothing.
    """

    result: str
    activation: int = NONE
    bias: str = ""


def fused(graph: Graph, copied: Collection[int] = ()) -> tuple[dict[int, Fused], frozenset[int]]:
    """By the number of each node what is written for it, and the numbers of nodes that others have in them; those that
    are ``copied`` from a source are left alone.
    """
    found, gone = dict[int, Fused](), set[int]()
    places = {name: number for number, node in enumerate(graph.nodes) for name in node.inputs}
    for number, node in enumerate(graph.nodes):
        op = graph.functions[node.op].op if node.domain == PLAN else node.op
        if number in gone or number in copied or op not in _HOSTS or len(node.outputs) != 1:
            continue
        own = Fused(node.outputs[0])
        reader = _reader(graph, own.result, places)
        reader = None if reader in copied else reader
        if reader is not None and op == "MatMul" and _is_bias(graph, node, graph.nodes[reader]):
            (bias,) = (name for name in graph.nodes[reader].inputs if name != own.result)
            own, gone = Fused(graph.nodes[reader].outputs[0], NONE, bias), gone | {reader}
            reader = _reader(graph, own.result, places)
        if reader is not None and (activation := _activation(graph, graph.nodes[reader], node)):
            own, gone = replace(own, result=graph.nodes[reader].outputs[0], activation=activation), gone | {reader}
        found[number] = own
    return found, frozenset(gone)


def _reader(graph: Graph, name: str, places: Mapping[str, int]) -> int | None:
    """The number of the only node that reads a value of floats, or of integers, between operators."""
    value, alone = graph.values[name], graph.reads[name] == 1 and name not in graph.results
    return places[name] if alone and (value.in_floats or in_steps(value)) else None


def _activation(graph: Graph, node: Node, host: Node) -> int:
    """The number of the activation that a node is, NONE where it is none, or computes on other numbers."""
    if node.domain or node.region is not host.region or host.storage:
        return NONE
    read, made = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
    if node.storage:
        limits = stored_bounds(graph, node) if node.op == "Clip" and in_steps(read) else None
        return NONE if limits is None or not same_steps(read, made) else _BOUNDS.get(limits, NONE)
    if not read.in_floats:
        return NONE
    if node.op == "Relu":
        return RELU
    return _BOUNDS.get(bounds(graph, node) or (0.0, 0.0), NONE) if node.op == "Clip" else NONE


def stored_bounds(graph: Graph, node: Node) -> tuple[float, float] | None:
    """The limits that a Clip of stored integers sets, dequantized: those of an activation, or :data:`ANY` where
    none matters; None for others.
    """
    value = graph.values[node.inputs[0]]
    limits = np.iinfo(value.dtype)
    least, most = int(limits.min), int(limits.max)
    found = [least, most]
    for place, name in enumerate(node.inputs[1:3]):
        data = graph.values[name].data if name else None
        if name and data is None:
            return None
        found[place] = found[place] if data is None else int(data.reshape(-1)[0])
    if found == [least, most]:
        return ANY
    pairs = {pair: [_stored(value, each) for each in pair] for pair in (*_BOUNDS, (0.0, 1.0))}
    return next((pair for pair, ends in pairs.items() if ends == found), None)


def _stored(value: Value, number: float) -> int:
    """What stands for a number, or for the nearest that can be stored."""
    limits = np.iinfo(value.dtype)
    whole = np.rint(np.float32(number) / value.steps.scale[0]) + int(value.steps.zero_point[0])
    return int(np.clip(whole, limits.min, limits.max))


def bounds(graph: Graph, node: Node) -> tuple[float, float] | None:
    """The limits of a Clip, infinite where there are none; None where they are computed."""
    limits = [-np.inf, np.inf]
    for place, name in enumerate(node.inputs[1:3]):
        if name:
            value = graph.values[name]
            if value.data is None or value.quant is not None:
                return None
            limits[place] = float(value.data.reshape(-1)[0])
    return limits[0], limits[1]


def _is_bias(graph: Graph, node: Node, reader: Node) -> bool:
    """Whether a node adds a vector to a product by constant weights, one number for each column."""
    if reader.op != "Add" or reader.domain or reader.region is not node.region:
        return False
    weights, others = graph.values[node.inputs[1]], [name for name in reader.inputs if name != node.outputs[0]]
    if weights.data is None or len(weights.shape) != _TWO or len(others) != 1:
        return False
    added = graph.values[others[0]]
    if not graph.values[node.outputs[0]].in_floats:
        return False
    return _is_row(added, weights) and graph.values[reader.outputs[0]].shape == graph.values[node.outputs[0]].shape


def _is_row(added: Value, weights: Value) -> bool:
    plain = added.data is not None and (added.in_floats or (weights.quant is not None and added.dtype == "int32"))
    return plain and bool(added.shape) and added.shape[-1] == weights.shape[-1] == added.data.size  # type: ignore[union-attr]
