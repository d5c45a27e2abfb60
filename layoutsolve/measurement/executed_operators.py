"""What ONNX Runtime really executes of a model: the nodes that its optimiser leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from layoutsolve.emit import nodes_of

REORDERS = ("ReorderInput", "ReorderOutput")
"""What moves data into blocks of channels and back."""

INTEGER = ("QGemm", "QAttention", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger", "ConvInteger")
"""Kernels that multiply integers, beside those whose names begin with QLinear."""

_INTO, _OUT_OF = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True)
class Executed:
    """Numbers of nodes: all, Transposes, reorders, kernels on integers; and the kinds that compute in float between
    a DequantizeLinear of data and a QuantizeLinear, with how many of each.
    """

    operators: int
    transposes: int
    reorders: int
    integer: int
    floating: dict[str, int]


def executed(model: onnx.ModelProto) -> Executed:
    """What a model consists of, its branches and loops included."""
    nodes = list(nodes_of(model.graph))
    kinds = [node.op_type for node in nodes]
    return Executed(
        len(nodes),
        kinds.count("Transpose"),
        sum(map(kinds.count, REORDERS)),
        sum(kind.startswith("QLinear") or kind in INTEGER for kind in kinds),
        dict(sorted(Counter(node.op_type for node in floating(model.graph)).items())),
    )


def floating(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes between quantized ones that compute in float, though they read and write what is stored as integers."""
    nodes = list(nodes_of(graph))
    constants = {item.name for item in graph.initializer}
    after: set[str] = set()
    for node in nodes:  # in the order of execution
        begins = node.op_type == _OUT_OF and node.input[0] not in constants
        if begins or (node.op_type not in (_INTO, _OUT_OF) and after.intersection(node.input)):
            after.update(filter(None, node.output))
    before = _before(nodes)
    return [
        node
        for node in nodes
        if node.op_type not in (_INTO, _OUT_OF) and after.intersection(node.input) and before.intersection(node.output)
    ]


def _before(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """The names of the values from which a QuantizeLinear is reached through floats."""
    found: set[str] = set()
    for node in reversed(nodes):
        if node.op_type == _INTO:
            found.add(node.input[0])
        elif node.op_type != _OUT_OF and found.intersection(node.output):
            found.update(filter(None, node.input))
    return found
