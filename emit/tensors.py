"""Arrays as ONNX stores them: the codes of types, and tensors with their bytes."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.emit.external import External
from layoutsolve.ir.elements import HALVED, unpacked
from layoutsolve.ir.graph import PACKED, Array
from layoutsolve.proto.messages import TYPES, TensorProto

_NAMES = {code: name for name, code in TYPES.items()}


def tensor(name: str, dtype: str, data: Array, external: External | None = None) -> TensorProto:
    """A TensorProto of an array that holds elements of ``dtype``."""
    proto = TensorProto()
    fill(proto, name, dtype, data, external)
    return proto


def fill(proto: TensorProto, name: str, dtype: str, data: Array, external: External | None = None) -> None:
    """Make an array of an empty TensorProto."""
    proto.name, proto.data_type = name, TYPES[dtype]
    proto.dims.extend(data.shape)
    if dtype == "string":
        texts = data.reshape(-1).tolist()
        proto.string_data.extend(each.encode() if isinstance(each, str) else each for each in texts)
        return
    if dtype in PACKED:
        stored = _packed(data)
    else:
        stored = np.ascontiguousarray(data).astype(np.dtype(dtype).newbyteorder("<"), copy=False)
    if external is None or not external.take(proto, stored):
        proto.raw_data = stored.tobytes()


def elements(proto: TensorProto) -> Array:
    """The array of a TensorProto that :func:`fill` has filled, and that holds its elements itself."""
    dtype, shape = _NAMES[proto.data_type], tuple(proto.dims)
    if dtype == "string":
        return np.array([*proto.string_data, None], object)[:-1].reshape(shape)
    if dtype in PACKED:
        return unpacked(np.frombuffer(proto.raw_data, np.uint8), dtype)[: prod(shape)].reshape(shape)
    return np.frombuffer(proto.raw_data, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def half_of(data: Array) -> Array | None:
    """An array of float32 as float16 where these are the same numbers, else None; it is not for a few of them."""
    if data.size < HALVED:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        half = data.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), data) else None


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
