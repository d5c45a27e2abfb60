"""The types that LiteRT's reference kernels compute with, by operator, and which of its inputs has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.reading.model import Tensor

_REAL = ("float32",)
_BYTES = ("int8", "uint8")
_STORED = (*_BYTES, "int16")
_WHOLE = ("int32", "int64")
_PLAIN = (*_REAL, *_STORED, *_WHOLE)
_MOVED = (*_PLAIN, "bool")

TYPES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "PRELU", "ROUND", "RSQRT", "SIN"), (*_REAL, *_BYTES)
    ),
    **dict.fromkeys(("CEIL", "LOG_SOFTMAX", "SQRT", "LOCAL_RESPONSE_NORMALIZATION", "CONV_3D"), _REAL),
    **dict.fromkeys(
        ("LEAKY_RELU", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "SOFTMAX", "TANH"),
        (*_REAL, *_STORED),
    ),
    **dict.fromkeys(
        ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D"), (*_REAL, *_STORED)
    ),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"), (*_REAL, *_STORED)),
    **dict.fromkeys(("BATCH_MATMUL", "DEQUANTIZE"), (*_REAL, *_STORED, "float16")),
    **dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "TOPK_V2"), _PLAIN),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"), _PLAIN),
    **dict.fromkeys(("CUMSUM", "FLOOR_MOD", "NEG", "REDUCE_PROD"), (*_REAL, *_WHOLE)),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"), ("bool",)),
    **dict.fromkeys(("POW", "SIGN", "SQUARED_DIFFERENCE"), (*_REAL, "int32")),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _MOVED),
    **dict.fromkeys(("CONCATENATION", "SLICE", "STRIDED_SLICE"), (*_MOVED, "uint32")),
    **dict.fromkeys(
        ("BROADCAST_TO", "GATHER", "GATHER_ND", "ONE_HOT", "PAD", "PADV2", "REVERSE_V2", "SPLIT_V"), _MOVED
    ),
    **dict.fromkeys(("TILE", "TRANSPOSE", "UNPACK"), _MOVED),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), (*_REAL, *_BYTES, *_WHOLE)),
    **dict.fromkeys(("MIRROR_PAD", "PACK"), _PLAIN),
    "ABS": (*_REAL, "int16", "int8", "int32"),
    "ADD": _PLAIN,
    "ARG_MAX": (*_REAL, *_BYTES, "int32"),
    "ARG_MIN": (*_REAL, *_BYTES, "int32"),
    "ATAN2": _REAL,
    "CAST": (*_MOVED, "uint16", "uint32", "float64"),
    "DIV": (*_REAL, *_BYTES, "int32"),
    "MUL": (*_PLAIN, "uint32"),
    "QUANTIZE": (*_REAL, *_STORED),
    "RESHAPE": (*_MOVED, "uint16", "uint32", "float16", "float64"),
    "SCATTER_ND": (*_REAL, *_BYTES, *_WHOLE, "bool"),
    "SELECT_V2": (*_MOVED, "uint32"),
    "SPLIT": _MOVED,
    "SUB": (*_REAL, *_STORED, *_WHOLE),
}
"""By operator, the types of what it computes with."""

_PLACE = {"ONE_HOT": 2, "SCATTER_ND": 1, "SELECT_V2": 1, "SPLIT": 1, "TRANSPOSE_CONV": 2}
"""By operator, which of its inputs that is, where it is not the first."""


def check(operator: str, inputs: Sequence[int], outputs: Sequence[int], tensors: Sequence[Tensor]) -> None:
    """Raise :class:`ExpressionError` where there is no kernel for the types that an operator reads and writes."""
    known = TYPES[operator]
    for index in (inputs[_PLACE.get(operator, 0)], *(outputs[:1] if operator == "CAST" else ())):
        if tensors[index].dtype not in known:
            raise ExpressionError(f"{operator} has no kernel for {tensors[index].dtype}", "cast it to float32 or int32")
