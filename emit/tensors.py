"""Arrays as ONNX stores them: the codes of types, and tensors with their bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from layoutsolve.emit.external import External
from layoutsolve.graph import PACKED, Array

TYPES: Mapping[str, int] = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
}
"""The code of each type of elements by its name."""


def tensor(name: str, dtype: str, data: Array, external: External | None = None) -> onnx.TensorProto:
    """A TensorProto of an array that holds elements of ``dtype``."""
    if dtype == "string":
        values = np.asarray(data).reshape(-1).tolist()
        return helper.make_tensor(name, TYPES[dtype], list(data.shape), values)
    if dtype in PACKED:
        stored = _packed(data)
    else:
        stored = np.ascontiguousarray(data).astype(np.dtype(dtype).newbyteorder("<"), copy=False)
    proto = onnx.TensorProto(name=name, data_type=TYPES[dtype], dims=data.shape)
    if external is None or not external.take(proto, stored):
        proto.raw_data = stored.tobytes()
    return proto


def stored_bytes(dtype: str, data: Array) -> int:
    """The bytes that the elements of an array take in a file."""
    if dtype == "string":
        return sum(len(each) + 8 for each in data.reshape(-1).tolist())
    return -(-data.size // 2) if dtype in PACKED else int(data.size * np.dtype(dtype).itemsize)


def _packed(data: Array) -> Array:
    """Integers of four bits, two per byte, the lower bits first."""
    halves = np.asarray(data).reshape(-1).astype(np.uint8) & 15
    pairs = np.append(halves, np.zeros(halves.size % 2, np.uint8)).reshape(-1, 2)
    packed: Array = pairs[:, 0] | pairs[:, 1] << 4
    return packed
