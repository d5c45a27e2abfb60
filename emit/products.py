"""What runtimes compute in the kernel of a matrix product where it stands beside that, but not behind a Transpose or
Reshape: products by one number, and biases.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

import numpy as np

from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Array, Graph, Node, Shape, Value
from layoutsolve.ir.names import Names

MOVES = frozenset(("Reshape", "Transpose"))
"""What gives all elements that it reads, so that a factor counts as much behind it."""


def beside_products(graph: Graph, kept: Collection[str]) -> Graph:
    """The graph in which factors of floats stand behind what moves their product to a MatMul alone; ``kept`` are names
    of tensors that have to stay.
    """
    held = graph.results.union(kept)
    chains = {node: chain for node in graph.nodes if _scales(graph, node) and (chain := _moves(graph, node, held))}
    if not chains:
        return graph
    values, taken, nodes = dict(graph.values), Names(graph.values), list[Node]()
    later = {chain[-1]: node for node, chain in chains.items()}
    renamed = {node.outputs[0]: _data(graph, node) for node in chains}
    moving = {move for chain in chains.values() for move in chain}
    for node in graph.nodes:
        if node in chains:
            del values[node.outputs[0]]
        elif node not in moving:
            nodes.append(node)
        else:
            (name,), before = node.outputs, renamed[node.inputs[0]]
            made = renamed[name] = taken.derived(name, "unscaled")
            values[made] = replace(values[before], name=made, shape=graph.values[name].shape)
            nodes.append(replace(node, inputs=(before, *node.inputs[1:]), outputs=(made,)))
            if node in later:
                scaling = later[node]
                inputs = [made if each == _data(graph, scaling) else each for each in scaling.inputs]
                nodes.append(replace(scaling, inputs=tuple(inputs), outputs=(name,)))
            else:
                del values[name]
    return replace(graph, values=values, nodes=tuple(nodes))


def _data(graph: Graph, node: Node) -> str:
    """The operand of a product by a number that is not that number."""
    return next((name for name in node.inputs if graph.values[name].data is None), "")


def _scales(graph: Graph, node: Node) -> bool:
    """Whether a node multiplies floats by one number, or divides them by one."""
    name = _data(graph, node) if node.op in ("Div", "Mul") and not node.domain else ""
    if not name or (node.op == "Div" and name != node.inputs[0]):
        return False
    data, result = graph.values[name], graph.values[node.outputs[0]]
    factor = graph.values[node.inputs[node.inputs[0] == name]]
    one = factor.data is not None and len(factor.shape) <= 1 and factor.data.size == 1
    return one and data.quant is None and result.quant is None and data.shape == result.shape


def _moves(graph: Graph, node: Node, held: Collection[str]) -> tuple[Node, ...]:
    """What moves a product to a MatMul, one behind the other, with no other reader; nothing where that is not so."""
    found, (name,) = list[Node](), node.outputs
    while name not in held and graph.reads[name] == 1:
        (reader,) = graph.readers[name]
        if reader.op == "MatMul" and not reader.domain:
            return tuple(found)
        if reader.op not in MOVES or reader.inputs[0] != name or reader.region is not node.region:
            break
        found.append(reader)
        (name,) = reader.outputs
    return ()


def with_biases(graph: Graph, kept: Collection[str], budget: Budget) -> Graph:
    """The graph in which a Gemm of floats has what is added to its result alone: a constant for each row, or for each
    column. New constants count in the ``budget``; ``kept`` are names of tensors that have to stay.
    """
    held = graph.results.union(kept)
    found = {node: made for node in graph.nodes if _is_unbiased(graph, node) and (made := _sums(graph, node, held))}
    if not found:
        return graph
    values, taken = dict(graph.values), Names(graph.values)
    written = dict[Node, Node]()
    gone = {sums[-1] for sums, _ in found.values()}
    for node, (sums, bias) in found.items():
        budget.keep(bias)
        name, last = taken.derived(node.outputs[0], "bias"), sums[-1].outputs[0]
        values[name] = Value(name, graph.values[last].dtype, bias.shape, data=bias)
        written[node] = replace(node, inputs=(*node.inputs[:2], name))
        before = sums[0] if len(sums) > 1 else node
        written[before] = replace(written.get(before, before), outputs=(last,))
        del values[before.outputs[0]]
    nodes = tuple(written.get(node, node) for node in graph.nodes if node not in gone)
    return replace(graph, values=values, nodes=nodes)


def _is_unbiased(graph: Graph, node: Node) -> bool:
    """Whether a node is a product of matrices of floats, of known sizes, to which nothing is added yet."""
    result = graph.values[node.outputs[0]] if node.op == "Gemm" and not node.domain and len(node.inputs) == 2 else None
    if result is None or result.quant is not None or node.attributes.get("beta", 1.0) != 1:
        return False
    return not any(graph.values[name].quant for name in node.inputs) and all(
        isinstance(dim, int) for dim in result.shape
    )


def _sums(graph: Graph, node: Node, held: Collection[str]) -> tuple[tuple[Node, ...], Array] | None:
    """The Reshape of a product, if there is one, and the sum of it that follows alone, with its constant as the product
    takes it; None where there is no such sum.
    """
    found, (name,) = list[Node](), node.outputs
    while name not in held and graph.reads[name] == 1 and len(found) < 2:
        (reader,) = graph.readers[name]
        if reader.region is not node.region or reader.domain:
            return None
        if reader.op == "Add":
            bias = _bias(graph, reader, name, graph.values[node.outputs[0]].shape)
            return None if bias is None else ((*found, reader), bias)
        if reader.op != "Reshape" or reader.inputs[0] != name:
            return None
        found.append(reader)
        (name,) = reader.outputs
    return None


def _bias(graph: Graph, node: Node, name: str, matrix: Shape) -> Array | None:
    """The constant that a sum adds to a value, for each row of the matrix that this is a view of, or for each column;
    None where it is neither.
    """
    shape = tuple(dim for dim in graph.values[name].shape if isinstance(dim, int))
    result, added = graph.values[node.outputs[0]], graph.values[node.inputs[node.inputs[0] == name]]
    if added.data is None or added.quant is not None or result.quant is not None or result.shape != shape:
        return None
    sizes = (1,) * (len(shape) - len(added.shape)) + added.data.shape
    for cut in range(len(shape) + 1):
        if prod(shape[:cut]) != matrix[0]:
            continue
        if set(sizes[cut:]) <= {1}:
            return np.broadcast_to(added.data.reshape(sizes[:cut]), shape[:cut]).reshape(-1, 1)
        if set(sizes[:cut]) <= {1}:
            return np.broadcast_to(added.data.reshape(sizes[cut:]), shape[cut:]).reshape(-1)
    return None
