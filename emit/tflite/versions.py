"""Versions of LiteRT's operators: the lowest that has a kernel for the types and forms that an operator uses.

They are those of ``op_version.cc`` in LiteRT: a runtime refuses a version that it does not know, and looks no further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.frontend.tflite.reading.model import Operator, Tensor

_BYTES = {"int8": 2}
_SHORT = {"int8": 2, "int16": 3}
_MOVED = {"bool": 3, "int8": 2}

_BY_TYPE: Mapping[str, Mapping[str, int]] = {
    **dict.fromkeys(
        ("ARG_MAX", "ARG_MIN", "CONV_2D_TRANSPOSE", "DEPTH_TO_SPACE", "GELU", "GREATER", "LESS_EQUAL", "LOG_SOFTMAX"),
        _BYTES,
    ),
    **dict.fromkeys(("SELECT", "SPACE_TO_DEPTH", "SPLIT_V", "SQUARED_DIFFERENCE", "SUM"), _BYTES),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN"), _SHORT),
    **dict.fromkeys(("GREATER_EQUAL", "LESS", "LOGISTIC", "RELU6", "RSQRT", "TANH", "TOPK_V2"), _SHORT),
    **{key: {"int8": 2, "int16": 2} for key in ("EXP", "LOG", "REDUCE_PROD", "SQRT")},
    "ABS": {"int32": 5, "int16": 3, "int8": 2, "uint8": 2},
    "ADD": {"float16": 6, "int64": 4, "int16": 3, "int8": 2},
    "BATCH_MATMUL": _SHORT,
    "BROADCAST_TO": {"int8": 3, "int16": 3},
    "CONCATENATION": {"float16": 6, "int4": 5, "uint32": 4, "int16": 3, "int8": 2},
    "DEQUANTIZE": {"uint4": 8, "int2": 7, "int4": 6, "int16": 3, "float16": 3, "int8": 2},
    "DIV": {},
    "EQUAL": {"int16": 5, "string": 3, "int8": 2},
    "FLOOR_DIV": {"int16": 3, "int8": 3, "float32": 2},
    "FLOOR_MOD": {"int16": 2, "int8": 2},
    "GATHER": {"int4": 7, "int16": 4, "bool": 3, "int8": 2},
    "GATHER_ND": {"bool": 5, "int16": 3, "string": 2},
    "LEAKY_RELU": {"int16": 2},
    "MAXIMUM": {"int16": 4, "int8": 2},
    "MINIMUM": {"int16": 4, "int8": 2},
    "MUL": {"float16": 8, "uint32": 7, "complex64": 6, "int64": 5, "int16": 4, "int8": 3},
    "NOT_EQUAL": {"int16": 4, "string": 3, "int8": 2},
    "PACK": {"int8": 2, "int16": 3, "uint32": 4},
    "PAD": {"bool": 5, "int16": 3, "int8": 2},
    "PADV2": {"bool": 5, "int16": 3, "int8": 2},
    "RANGE": {"int64": 2},
    "RELU": {"int16": 3, "int8": 2, "uint8": 2},
    "RESIZE_BILINEAR": {"int16": 4, "int8": 2},
    "RESIZE_NEAREST_NEIGHBOR": {"int16": 4, "int8": 2},
    "REVERSE_V2": {"int8": 3, "bool": 2},
    "SELECT_V2": {"uint32": 2},
    "SIGN": {"int32": 2},
    "SLICE": {"float16": 8, "int4": 7, "uint32": 6, "int16": 4, "string": 3, "int8": 2},
    "SOFTMAX": {"float16": 4, "int16": 3, "int8": 2},
    "STRIDED_SLICE": {"uint32": 7, "string": 5, "bool": 3, "int8": 2},
    "SUB": {"int16": 5, "int64": 4, "int8": 2},
    "TILE": {"int8": 3, "string": 2},
    "TRANSPOSE": {"float16": 9, "int4": 7, "int16": 5, "bool": 3, "int8": 2},
    "UNPACK": {"int8": 2, "uint8": 2, "bool": 3, "int16": 4, "float16": 5},
}
"""By operator, the version for the type of its first input, where that is not the lowest."""

_LOWEST = {"BROADCAST_TO": 2}

_BY_RANK = {"PAD": ((4, 4),), "PADV2": ((4, 4),), "SLICE": ((4, 5),), "STRIDED_SLICE": ((4, 4),)}
"""By operator, the version for more dimensions than a number."""

_BROADCAST = {"DIV": 2, "MAXIMUM": 3, "MINIMUM": 3, "SUB": 3}
"""By operator, the version that broadcasts more than four dimensions."""

_CAST = {
    8: ("int2", "uint4"),
    7: ("bfloat16",),
    6: ("int4",),
    5: ("float64", "float16"),
    4: ("uint16",),
    3: ("int8",),
    2: ("uint32",),
}
"""The version of CAST that has a type, on either side."""

_PLAIN_RANK = 4


def version_of(operator: Operator, tensors: Sequence[Tensor]) -> int:
    """The version of an operator on some tensors: the one that its file states, where it is from one."""
    if operator.version:
        return operator.version
    read = [tensors[index] if index >= 0 else None for index in operator.inputs]
    first = read[0] if read else None
    name = operator.name
    if first is None or name.startswith("CUSTOM:"):
        return 1
    special = _SPECIAL.get(name)
    found = max(_LOWEST.get(name, 1), _BY_TYPE.get(name, {}).get(first.dtype, 1))
    found = max(found, *(version for rank, version in _BY_RANK.get(name, ()) if len(first.shape) > rank), 1)
    ranks = [len(tensor.shape) for tensor in read if tensor is not None]
    if name in _BROADCAST and max(ranks) > _PLAIN_RANK and len({tensor.shape for tensor in read if tensor}) > 1:
        found = max(found, _BROADCAST[name])
    return max(found, special(operator, read, [tensors[index] for index in operator.outputs]) if special else 1)


Read = Sequence[Tensor | None]


def _type(read: Read, number: int) -> str:
    tensor = read[number] if number < len(read) else None
    return "" if tensor is None else tensor.dtype


def _per_channel(read: Read) -> bool:
    weights = read[1]
    return weights is not None and weights.quant is not None and weights.quant.scale.size > 1


def _convolution(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    data, weights = (_type(read, number) for number in range(2))
    grouped = read[0] is not None and read[1] is not None and read[0].shape[-1] != read[1].shape[-1]
    if operator.name == "CONV_2D" and grouped:
        return 6
    if (data, weights) == ("int8", "int8"):
        return 3
    if (data, weights) == ("int8", "int4"):
        return 7
    depthwise = operator.name == "DEPTHWISE_CONV_2D"
    if (data, weights) == ("float32", "int8"):
        return (6 if depthwise else 5) if _per_channel(read) else (4 if depthwise else 2)
    dilated = any(operator.options.get(f"dilation_{side}_factor", 1) != 1 for side in ("h", "w"))
    return 2 if depthwise and dilated else 1


def _fully_connected(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    data, weights = (_type(read, number) for number in range(2))
    if (data, weights) == ("float32", "int8") and _per_channel(read):
        return 12
    if len(read) == 2 or read[2] is None:
        return 6
    if operator.options.get("keep_num_dims"):
        return 5
    return {("int8", "int8"): 4, ("int8", "int4"): 10, ("float32", "int8"): 3}.get((data, weights), 1)


def _transposed_convolution(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    if operator.options.get("fused_activation_function"):
        return 4
    return 3 if len(read) > 3 else 2 if _type(read, 1) == "int8" else 1


def _transpose(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    rank = 0 if read[0] is None else len(read[0].shape)
    return 8 if rank > 6 else 6 if rank > 5 else 4 if rank > 4 else 1


def _cast(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    types = {_type(read, 0), written[0].dtype}
    return max((version for version, known in _CAST.items() if types.intersection(known)), default=1)


def _quantize(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return {"uint4": 5, "int4": 4, "int16": 2}.get(written[0].dtype, 1)


def _split(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return {"int16": 4, "int32": 3, "int8": 2}.get(_type(read, 1), 1)


def _resize(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    nearest = operator.name == "RESIZE_NEAREST_NEIGHBOR"
    later = operator.options.get("half_pixel_centers") or (nearest and operator.options.get("align_corners"))
    return 3 if later else 1


def _update(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return 2 if _type(read, 2) == "int64" else 1


def _gather(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return 5 if operator.options.get("batch_dims") else 1


def _where(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return 1 if _type(read, 0) == "bool" else 2


def _fill(operator: Operator, read: Read, written: Sequence[Tensor]) -> int:
    return {"float16": 4, "int8": 3, "int16": 3, "bool": 2, "string": 2}.get(_type(read, 1), 1)


_SPECIAL = {
    "CAST": _cast,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "DYNAMIC_UPDATE_SLICE": _update,
    "FILL": _fill,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "QUANTIZE": _quantize,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SPLIT": _split,
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transposed_convolution,
    "WHERE": _where,
}
