"""What keeps ONNX Runtime's optimiser from breaking a model, or from making it slower.

It moves DequantizeLinear down through views and the like (QDQPropagationTransformer), and up to version 1.31 that fails
twice: it aborts the process where it comes to an If or Loop that reads the result inside only, and from opset 21 on it
writes what it then refuses where the numbers are int8. A node that it neither moves through nor removes prevents both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import onnx

_PASSED = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"})
"""The operators that DequantizeLinear is moved through."""

_BARRIER = "Max"
"""Of one operand it is a copy."""

_BROKEN_OPSET = 21


def insert_barriers(graph: onnx.GraphProto, version: int, fresh: Callable[[str], str]) -> None:
    """Put a barrier behind each DequantizeLinear that must not be moved; ``fresh`` makes a name unique."""
    types = {item.name: item.data_type for item in graph.initializer}

    def is_broken(node: onnx.NodeProto) -> bool:
        return version >= _BROKEN_OPSET and len(node.input) > 2 and types.get(node.input[2]) == onnx.TensorProto.INT8

    _guard(graph, is_broken, fresh)


def keep_additions(graph: onnx.GraphProto) -> None:
    """Write the Add before a LayerNormalization as Sum, which is the same.

    ONNX Runtime fuses an Add with the normalisation that alone reads it (SkipLayerNormFusion); up to version 1.31 the
    fused kernel takes several times as long as the two.
    """
    for node in graph.node:
        for inner in graphs_of(node):
            keep_additions(inner)
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    results = {port.name for port in graph.output}
    for node in graph.node:
        if node.op_type == "Add" and node.output[0] not in results:
            alone = [reader.op_type for reader in readers[node.output[0]]] == ["LayerNormalization"]
            node.op_type = "Sum" if alone else "Add"


def _guard(graph: onnx.GraphProto, is_broken: Callable[[onnx.NodeProto], bool], fresh: Callable[[str], str]) -> None:
    for node in graph.node:
        for inner in graphs_of(node):
            _guard(inner, is_broken, fresh)
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input[:1] if node.op_type in _PASSED else node.input:
            readers[name].append(node)
    captured = {name for node in graph.node for inner in graphs_of(node) for name in _outer(inner)}
    results = {port.name for port in graph.output}

    def passed(name: str) -> Iterator[onnx.NodeProto]:
        return (node for node in readers[name] if node.op_type in _PASSED)

    def is_captured(name: str) -> bool:
        behind = [name]
        for reached in behind:
            behind += [node.output[0] for node in passed(reached)]
        return not captured.isdisjoint(behind)

    def ends(name: str) -> bool:
        """Whether a value is quantised at once."""
        return name not in results and all(node.op_type == "QuantizeLinear" for node in readers[name])

    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type != "DequantizeLinear":
            continue
        broken = is_broken(node)
        stopped = [
            view
            for view in passed(node.output[0])
            if is_captured(view.output[0]) or (broken and not ends(view.output[0]))
        ]
        if stopped:
            nodes.append(_barrier(node.output[0], stopped, fresh))
    if len(nodes) > len(graph.node):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _barrier(name: str, readers: Sequence[onnx.NodeProto], fresh: Callable[[str], str]) -> onnx.NodeProto:
    copy = fresh(f"{name}/copy")
    for node in readers:
        node.input[0] = copy
    return onnx.NodeProto(op_type=_BARRIER, name=fresh(f"{_BARRIER}:{copy}"), input=[name], output=[copy])


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs of a node: branches, or the body of a loop."""
    return (attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH)


def _outer(graph: onnx.GraphProto) -> set[str]:
    """The names that a graph reads and does not define."""
    read = {name for node in graph.node for name in node.input} | {port.name for port in graph.output}
    read.update(name for node in graph.node for inner in graphs_of(node) for name in _outer(inner))
    defined = {name for node in graph.node for name in node.output}
    return read - defined - {port.name for port in graph.input} - {item.name for item in graph.initializer}
