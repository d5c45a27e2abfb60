"""Weights of 8 bits without a sign, stored with one: the same numbers, 128 lower.

Kernels that multiply activations without a sign by weights with one do so in a single instruction on processors that
have it. On others the very kernels add pairs of products in 16 bits, which saturate: there such weights stay as they
are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from layoutsolve.frontend.passes.unsigned import WEIGHED
from layoutsolve.graph import Array, Graph, Quant, Value

HALF = 128
"""What every stored integer is lower by."""


def stored(graph: Graph) -> Graph:
    """The same graph with weights of 8 bits stored with a sign where nothing but products reads them."""
    weights, others = set[str](), {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        for port, name in enumerate(node.inputs):
            (weights if WEIGHED.get(node.op) == port and not (node.storage or node.domain) else others).add(name)
    chosen = [name for name in weights - others if _is_unsigned(graph.values[name])]
    lowered = {name: _lowered(graph.values[name]) for name in chosen}
    return replace(graph, values={**graph.values, **lowered}) if lowered else graph


def _is_unsigned(value: Value) -> bool:
    return value.data is not None and value.dtype == "uint8" and value.quant is not None and not value.quant.block


def _lowered(value: Value) -> Value:
    quant, data = value.quant, value.data
    if quant is None or data is None:
        raise TypeError(f"'{value.name}' holds no quantised weights")
    lower = Quant(quant.scale, _lower(quant.zero_point), quant.axis)
    return replace(value, dtype="int8", quant=lower, data=_lower(data))


def _lower(numbers: Array) -> Array:
    return (numbers.astype(np.int16) - HALF).astype(np.int8)
