"""What LiteRT's kernels read otherwise than the file states it, so that their numbers are no truth to compare with."""

from __future__ import annotations

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph

_WINDOWS = ("CONV_2D", "CONV_3D", "CONV_3D_TRANSPOSE", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


def reading(subgraph: Subgraph, operator: Operator, constant: bool) -> str:
    """What LiteRT computes instead of what an operator states, '' where it conforms. ``constant`` is whether all
    elements of its result are equal.
    """
    tensors = [subgraph.tensors[index] if index >= 0 else None for index in operator.inputs]
    made = subgraph.tensors[operator.outputs[0]]
    if operator.name == "SVDF" and made.dtype == "int8" and tensors[2] is not None and tensors[2].dtype == "int8":
        return "reads weights of 8 bits as ones of 16"
    weights = tensors[1] if len(tensors) > 1 else None
    quant = None if weights is None else quant_of(weights)
    if weights is None or quant is None:
        return ""
    if operator.name == "BATCH_MATMUL" and quant.scale.size > 1 and constant:
        return "gives zeros: it ignores scales per channel"
    if operator.name == "EMBEDDING_LOOKUP":
        if quant.zero_point.any() and (quant.block or made.dtype == "float16"):
            return "ignores zero points of tables in blocks, and of those given as float16"
        if weights.dtype in ("int16", "uint4") and made.dtype.startswith("float"):
            return f"misreads tables of {weights.dtype}"
    if operator.name in _WINDOWS and weights.dtype != "uint8" and quant.zero_point.any():
        return "ignores zero points of weights"
    return ""
