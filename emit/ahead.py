"""Which quantised constants a runtime may turn into floats when it loads a model."""

from __future__ import annotations

from layoutsolve.graph import Graph

FOLDED = frozenset(("int8", "int16", "int32", "uint8", "uint16"))
"""Types of integers that Cast turns into floats in every operator set."""


COMBINING = frozenset(
    ("Add", "Conv", "ConvTranspose", "Div", "GRU", "Gemm", "Identity", "LSTM", "MatMul", "Mul", "PRelu", "RNN", "Sub")
)
"""Operators that compute with all of a constant each time; an Identity to floats is what it means. Others, such as
Gather, may want little of a large one.
"""


def among_floats(graph: Graph) -> frozenset[str]:
    """The quantised constants that are only combined with floats, so that no kernel on integers wants them.

    Those with blocks are left out: runtimes have kernels for these that take floats beside them.
    """
    candidates = {
        name
        for name, value in graph.values.items()
        if value.data is not None and value.quant is not None and not value.quant.block and value.dtype in FOLDED
    }
    for node in graph.nodes if candidates else ():
        others = [graph.values[name].quant for name in node.inputs if name and name not in candidates]
        if node.op == "Identity":
            others.append(graph.values[node.outputs[0]].quant)
        if not node.storage and (node.op not in COMBINING or node.domain or any(others)):
            candidates.difference_update(node.inputs)
    return frozenset(candidates)
