"""Which quantized constants a runtime may turn into floats when it loads a model."""

from __future__ import annotations

from collections.abc import Collection

from layoutsolve.emit import slow_int8_kernels
from layoutsolve.ir.graph import BYTES, Graph, Node
from layoutsolve.ir.storage_options import PLAIN, Storage

FOLDED = frozenset(("int8", "int16", "int32", "uint8", "uint16"))
"""Types of integers that Cast turns into floats in every operator set."""


COMBINING = frozenset(
    ("Add", "Conv", "ConvTranspose", "Div", "GRU", "Gemm", "Identity", "LSTM", "MatMul", "Mul", "PRelu", "RNN", "Sub")
)
"""Operators that compute with all of a constant each time; an Identity to floats is what it means. Others, such as
Gather, may want little of a large one.
"""


PRODUCTS = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
"""Those of them whose constants are weights and biases."""

_MATRICES = ("Gemm", "MatMul")
"""Those of them that multiply matrices."""


def among_floats(graph: Graph, storage: Storage = PLAIN) -> frozenset[str]:
    """The quantized constants that are only combined with floats, so that no kernel on integers wants them, and those
    of products that take longer on integers.

    Those with blocks are left out: runtimes have kernels for these that take floats beside them.
    """
    candidates = {
        name
        for name, value in graph.values.items()
        if value.data is not None and value.quant is not None and not value.quant.block and value.dtype in FOLDED
    }
    slow = frozenset[str]()
    if candidates:
        slow = slow_int8_kernels.convolutions(graph) | slow_int8_kernels.of_target(graph, storage)
    for node in graph.nodes if candidates else ():
        if node.storage or (node.op in PRODUCTS and node.outputs[0] in slow):
            continue
        if node.op not in COMBINING or node.domain or _has_kernel(graph, node, candidates):
            candidates.difference_update(node.inputs)
    return frozenset(candidates)


def _has_kernel(graph: Graph, node: Node, constants: Collection[str]) -> bool:
    """Whether some kernel on integers may take a node with quantized constants: none computes on 16 bits, or gives
    them. ONNX Runtime has none for ConvTranspose, and those for MatMul and Gemm want a scale for each column of a
    matrix: with other scales along an axis they refuse what they were taken for (Gemm up to version 1.27).
    """
    if node.op == "ConvTranspose":
        return False
    if node.op in _MATRICES and any(
        name in constants and _is_refused(graph, node, port) for port, name in enumerate(node.inputs[:2])
    ):
        return False
    others = [graph.values[name] for name in node.inputs if name and name not in constants]
    results = [graph.values[name] for name in node.outputs if name]
    if node.op == "Identity":
        others += results
    quantized = any(each.quant is not None for each in others)
    wide = any(each.quant is not None and each.dtype not in BYTES for each in (*others, *results))
    return quantized and not (wide and node.op in PRODUCTS)


def _is_refused(graph: Graph, node: Node, port: int) -> bool:
    """Whether a product of bytes may not have a constant at a port: one with scales along an axis that are none of the
    columns of a matrix.
    """
    value, columns = graph.values[node.inputs[port]], 0 if node.attributes.get("transB") else 1
    return value.steps.scale.size > 1 and (port, len(value.shape), value.steps.axis) != (1, 2, columns)
