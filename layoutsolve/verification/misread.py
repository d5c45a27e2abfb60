"""What LiteRT's kernels read otherwise than the file states it, so that their numbers are no truth to compare with."""

from __future__ import annotations

from layoutsolve.frontend.tflite.lowering.quantisation import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph


def reading(subgraph: Subgraph, operator: Operator, constant: bool) -> str:
    """What LiteRT does instead of what an operator states, '' where it does that. ``constant`` says whether all numbers
    that it gives are one.
    """
    tensors = [subgraph.tensors[index] if index >= 0 else None for index in operator.inputs]
    weights = tensors[1] if len(tensors) > 1 else None
    quant = None if weights is None else quant_of(weights)
    if quant is None:
        return ""
    if operator.name == "BATCH_MATMUL" and quant.scale.size > 1 and constant:
        return "gives zeros: it ignores scales per channel"
    if operator.name == "EMBEDDING_LOOKUP" and quant.block and quant.zero_point.any():
        return "ignores zero points of blocks"
    return ""
