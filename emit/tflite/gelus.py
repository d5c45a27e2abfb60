"""GELU, which LiteRT has an operator for, where a source has what it is computed of: x / 2 * (1 + erf(x / sqrt(2)))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.meanings import live, only_number
from layoutsolve.ir.graph import Graph, Node

_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class _Found:
    """What is a GELU: of what value, and the number of the node that gives it."""

    of: str
    last: int


def recognised(graph: Graph) -> Graph:
    """The same graph in which GELU is one operator; what is computed for it alone is gone."""
    found = {
        each.last: each for number, node in enumerate(graph.nodes) if node.op == "Erf" for each in _gelu(graph, number)
    }
    if not found:
        return graph
    nodes = [
        replace(node, op="Gelu", inputs=(found[number].of,), attributes={}) if number in found else node
        for number, node in enumerate(graph.nodes)
    ]
    return replace(graph, nodes=tuple(live(graph, nodes, lambda node: node.op in ("Add", "Div", "Erf", "Mul"))))


def _gelu(graph: Graph, number: int) -> Iterator[_Found]:
    """The GELU that the error function at a number is a part of."""
    erf = graph.nodes[number]
    x = _scaled(graph, erf.inputs[0], 1 / sqrt(2))
    added = None if x is None else _only_reader(graph, erf.outputs[0])
    if (
        x is None
        or added is None
        or graph.nodes[added].op != "Add"
        or _factor(graph, graph.nodes[added], erf.outputs[0]) != 1.0
    ):
        return
    total = graph.nodes[added].outputs[0]
    product = _only_reader(graph, total)
    if product is None or graph.nodes[product].op != "Mul":
        return
    (other,) = [name for name in graph.nodes[product].inputs if name != total] or [total]
    if _scaled(graph, other, 0.5) == x:
        yield _Found(x, product)
        return
    last = _only_reader(graph, graph.nodes[product].outputs[0])
    if last is None or graph.nodes[last].op != "Mul":
        return
    rest = [name for name in graph.nodes[last].inputs if name != graph.nodes[product].outputs[0]]
    factors = [float_number(graph, name) for name in (other, *rest)]
    named = [name for name, factor in zip((other, *rest), factors, strict=True) if factor is None]
    if (
        len(rest) == 1
        and named == [x]
        and np.isclose(next(each for each in factors if each is not None), 0.5, rtol=_CLOSE)
    ):
        yield _Found(x, last)


def _scaled(graph: Graph, name: str, factor: float) -> str | None:
    """What a value is the multiple of by a factor, None where it is none."""
    node = graph.producer(name)
    if node is None or node.op not in ("Div", "Mul") or node.domain or not graph.values[name].in_floats:
        return None
    pairs = (node.inputs, node.inputs[::-1]) if node.op == "Mul" else (node.inputs,)
    for one, other in pairs:
        number = float_number(graph, other)
        if number and np.isclose(number if node.op == "Mul" else 1 / number, factor, rtol=_CLOSE):
            return one
    return None


def _factor(graph: Graph, node: Node, beside: str) -> float | None:
    rest = [name for name in node.inputs if name != beside]
    return float_number(graph, rest[0]) if len(rest) == 1 else None


def float_number(graph: Graph, name: str) -> float | None:
    """The only number of a constant of floats."""
    value = graph.values[name]
    return only_number(value) if value.in_floats else None


def _only_reader(graph: Graph, name: str) -> int | None:
    """The number of the only node that reads a value of floats which is no output."""
    if graph.reads[name] != 1 or name in graph.results or not graph.values[name].in_floats:
        return None
    (reader,) = graph.readers[name]
    return graph.producers[reader.outputs[0]]
