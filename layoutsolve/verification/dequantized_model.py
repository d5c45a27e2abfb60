"""The float twin of a dynamic-range model: the same file with the quantized weights of float operators dequantized.

LiteRT rounds the activations of such operators to 8 bits at run time. On the twin it does not, so the twin tells errors
of a conversion from that rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.frontend.tflite.reading.sparse import dense
from layoutsolve.ir.graph import Array, Quant
from layoutsolve.verification.flatbuffer_repacking import constant, opened, packed

_Weight = tuple[Tensor, Quant, Array]
"""A quantized constant, its parameters, and its elements."""

WEIGHTS = ("int2", "int4", "int8", "uint8")
EXACT = ("DEQUANTIZE", "DENSIFY", "GATHER", "EMBEDDING_LOOKUP")
"""Operators that read such constants without rounding anything else."""


def dequantized(source: bytes, kept: Collection[tuple[int, int]] = ()) -> bytes | None:
    """The float twin of a model, None where no float operator has quantized weights.

    Operators that are ``kept``, by subgraph and index, stay as they are: the conversion rounds their activations too.
    """
    model = parse(source)
    found = [
        (position, operator.index, slot, weight)
        for position, subgraph in enumerate(model.subgraphs)
        for operator in subgraph.operators
        if (position, operator.index) not in kept
        for slot, weight in _weights(subgraph, operator)
    ]
    return _rewritten(source, found) if found else None


def _weights(subgraph: Subgraph, operator: Operator) -> Iterator[tuple[int, _Weight]]:
    """The inputs of a float operator that are quantized constants, by their numbers."""
    if not operator.outputs or operator.name in EXACT or subgraph.tensors[operator.outputs[0]].dtype != "float32":
        return
    tensors = [subgraph.tensors[index] for index in operator.inputs if index >= 0]
    if not any(tensor.dtype == "float32" and tensor.data is None for tensor in tensors):
        return
    for slot, index in enumerate(operator.inputs):
        if index >= 0 and (weight := _weight(_stored(subgraph, index))) is not None:
            yield slot, weight


def _stored(subgraph: Subgraph, index: int) -> Tensor:
    """A tensor, or the sparse constant that an operator expands to it."""
    makers = (operator for operator in subgraph.operators if operator.name == "DENSIFY" and index in operator.outputs)
    maker = next(makers, None)
    return subgraph.tensors[index if maker is None else maker.inputs[0]]


def _weight(tensor: Tensor) -> _Weight | None:
    """A quantized constant with its parameters and elements, None for another tensor."""
    quant, data = quant_of(tensor), tensor.data
    if data is None or quant is None or tensor.dtype not in WEIGHTS:
        return None
    return tensor, quant, data if tensor.sparsity is None else dense(tensor)


def _real(weight: _Weight) -> Array:
    tensor, quant, data = weight
    if tensor.dtype == "uint8":  # LiteRT's hybrid kernels take these bytes for signed ones
        return Quant(quant.scale, np.zeros(quant.zero_point.shape, np.int8), quant.axis).real(data.view(np.int8))
    return quant.real(data)


def _rewritten(source: bytes, found: list[tuple[int, int, int, _Weight]]) -> bytes:
    twin = opened(source)
    for position, index, slot, weight in found:
        subgraph = twin.subgraphs[position]
        real = np.asarray(_real(weight), np.float32)
        twin.buffers.append(constant(real))
        subgraph.tensors.append(_float_tensor(weight[0], real, len(twin.buffers) - 1))
        inputs = list(subgraph.operators[index].inputs)
        inputs[slot] = len(subgraph.tensors) - 1
        subgraph.operators[index].inputs = inputs
    return packed(twin, source)


def _float_tensor(tensor: Tensor, data: Array, buffer: int) -> Any:
    from ai_edge_litert import schema_py_generated as schema

    made = schema.TensorT()
    made.name = f"{tensor.name}/float".encode()
    made.shape = np.array(data.shape, np.int32)
    made.type = schema.TensorType.FLOAT32
    made.buffer = buffer
    return made
