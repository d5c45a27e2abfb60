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
_RARE = ("float16", "float64", "uint16", "uint64")

TYPES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG", "PRELU", "ROUND", "SIN"), (*_REAL, *_BYTES)),
    **dict.fromkeys(("GELU", "RSQRT"), (*_REAL, *_STORED)),
    **dict.fromkeys(
        (
            *("CEIL", "CONV_3D", "CONV_3D_TRANSPOSE", "LOCAL_RESPONSE_NORMALIZATION"),
            *("LOG_SOFTMAX", "SQRT", "SQUARE"),
        ),
        _REAL,
    ),
    **dict.fromkeys(
        ("LEAKY_RELU", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "SOFTMAX", "TANH"),
        (*_REAL, *_STORED),
    ),
    **dict.fromkeys(
        ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D"), (*_REAL, *_STORED)
    ),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV"), (*_REAL, *_STORED)),
    **dict.fromkeys(("BITWISE_XOR", "RIGHT_SHIFT"), (*_STORED, "int32", "uint16", "uint32")),
    "REVERSE_SEQUENCE": (*_REAL, "uint8", "int16", *_WHOLE),
    "WHERE": ("bool",),
    "BATCH_MATMUL": (*_REAL, "int8", "int16"),
    "DEQUANTIZE": (*_REAL, *_STORED, "float16"),
    **dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "TOPK_V2"), _PLAIN),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"), _PLAIN),
    **dict.fromkeys(("CUMSUM", "FLOOR_MOD", "NEG", "REDUCE_PROD"), (*_REAL, *_WHOLE)),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"), ("bool",)),
    **dict.fromkeys(("POW", "SIGN"), (*_REAL, "int32")),
    "SQUARED_DIFFERENCE": (*_REAL, "int8", "int32"),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _MOVED),
    **dict.fromkeys(("BROADCAST_TO", "SLICE", "STRIDED_SLICE", "TILE", "TRANSPOSE"), (*_MOVED, "uint32", *_RARE)),
    **dict.fromkeys(("GATHER_ND", "ONE_HOT", "PAD", "PADV2", "UNPACK"), _MOVED),
    **dict.fromkeys(("GATHER", "REVERSE_V2"), (*_MOVED, "float16")),
    "CONCATENATION": (*_MOVED, "uint32", "float16"),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), (*_REAL, *_BYTES, *_WHOLE)),
    **dict.fromkeys(("MIRROR_PAD", "PACK"), _PLAIN),
    "ABS": (*_REAL, "int16", "int8", "int32"),
    "ADD": _PLAIN,
    "ARG_MAX": (*_REAL, *_BYTES, "int32"),
    "ARG_MIN": (*_REAL, *_BYTES, "int32"),
    "ATAN2": _REAL,
    "BROADCAST_ARGS": _WHOLE,
    "CAST": (*_MOVED, "uint16", "uint32", "float64", "float16"),
    "DIV": (*_REAL, *_BYTES, "int32"),
    "DYNAMIC_UPDATE_SLICE": _MOVED,
    "FILL": (*_REAL, "int8", "int16", *_WHOLE, "bool"),
    "MUL": (*_PLAIN, "uint32"),
    "QUANTIZE": (*_REAL, *_STORED),
    "RANGE": (*_REAL, *_WHOLE),
    **dict.fromkeys(("RESHAPE", "SHAPE"), (*_MOVED, "uint32", *_RARE)),
    "SCATTER_ND": (*_REAL, *_BYTES, *_WHOLE, "bool"),
    "SELECT_V2": (*_MOVED, "uint32"),
    **dict.fromkeys(("SPLIT", "SPLIT_V"), _PLAIN),
    "SUB": (*_REAL, *_STORED, *_WHOLE),
}
"""By operator, the types of what it computes with."""

_PLACE = {
    "FILL": 1,
    "ONE_HOT": 2,
    "SCATTER_ND": 1,
    "SELECT_V2": 1,
    "SPLIT": 1,
    "TRANSPOSE_CONV": 2,
    "CONV_3D_TRANSPOSE": 2,
}
"""By operator, which of its inputs that is, where it is not the first."""


_ALIKE: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(
        (
            "ADD",
            "ATAN2",
            "BATCH_MATMUL",
            "BITWISE_XOR",
            "BROADCAST_ARGS",
            "DIV",
            "FLOOR_MOD",
            "MAXIMUM",
            "MINIMUM",
            "MUL",
            "RIGHT_SHIFT",
        ),
        (0, 1),
    ),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"), (0, 1)),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "POW", "PRELU", "SQUARED_DIFFERENCE", "SUB"), (0, 1)),
    **dict.fromkeys(("CONCATENATION", "PACK"), range(1 << 20)),
    "DYNAMIC_UPDATE_SLICE": (0, 1),
    "ONE_HOT": (2, 3),
    "PADV2": (0, 2),
    "RANGE": (0, 1, 2),
    "SELECT_V2": (1, 2),
}
"""By operator, which of its inputs have one type, where that is not the one of :data:`TYPES` alone."""

_RESULTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"), ("bool",)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _WHOLE),
    "CAST": TYPES["CAST"],
    "DEQUANTIZE": _REAL,
    "QUANTIZE": _STORED,
    "SHAPE": _WHOLE,
    "WHERE": ("int64",),
}
"""By operator, the types of its first result where that is not the one of what it computes with."""

_PRODUCTS: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), (0, 1, 2)),
    **dict.fromkeys(("CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"), (2, 1, 3)),
}
"""By operator that multiplies by weights, the places of what these multiply, of theirs and of what is added."""

_WEIGHTS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "float32": (("float32",), ("float32",)),
    "int8": (("int8", "int4"), ("int32",)),
    "int16": (("int8", "int4"), ("int32", "int64")),
    "uint8": (("uint8",), ("int32",)),
}
"""By the type of what weights multiply, their types and those of what is added."""

_COMPUTING = frozenset(
    (
        *("ABS", "ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "DIV", "EXP"),
        *(
            "FULLY_CONNECTED",
            "HARD_SWISH",
            "LEAKY_RELU",
            "LOGISTIC",
            "MUL",
            "RELU",
            "RELU6",
            "RELU_0_TO_1",
            "RELU_N1_TO_1",
            "SOFTMAX",
        ),
        *("SQUARED_DIFFERENCE", "SUB", "TANH", "TRANSPOSE_CONV"),
    )
)
"""Operators for which stored integers without scales mean nothing."""


def check(operator: str, inputs: Sequence[int], outputs: Sequence[int], tensors: Sequence[Tensor]) -> None:
    """Raise :class:`ExpressionError` where there is no kernel for the types that an operator reads and writes: for one
    that it does not know, for floats that are mixed with integers, or for integers of which it is not said what they
    mean.
    """
    known = TYPES[operator]
    first = tensors[inputs[_PLACE.get(operator, 0)]]
    for each in (first, *(tensors[index] for index in (outputs[:1] if operator == "CAST" else ()))):
        if each.dtype not in known:
            raise ExpressionError(f"{operator} has no kernel for {each.dtype}", "cast it to float32 or int32")
    results = _RESULTS.get(operator, (first.dtype,))
    alike = (inputs[place] for place in _ALIKE.get(operator, ())[: len(inputs)])
    others = {tensors[index].dtype for index in alike} - {first.dtype}
    if operator in _PRODUCTS:
        others |= _mixed(operator, inputs, tensors)
    others |= {tensors[index].dtype for index in outputs[:1] if tensors[index].dtype not in results}
    if others:
        raise ExpressionError(f"{operator} has no kernel for {first.dtype} with {', '.join(sorted(others))}", REPORT)
    read = [tensors[index] for index in (inputs[_PLACE.get(operator, 0)], outputs[0])]
    uneven = [each for each in read if each.dtype == "int16" and each.quant is not None and each.quant.zero_point.any()]
    if uneven and (operator in _COMPUTING or operator in ("DEQUANTIZE", "QUANTIZE")):
        raise ExpressionError(f"{operator} has no kernel for int16 with a zero point", "quantize it symmetrically")
    if operator in _COMPUTING and any(each.dtype in _STORED and each.quant is None for each in read):
        raise ExpressionError(f"{operator} has no kernel for {first.dtype} without scales", REPORT)


REPORT = "report it, as it should have been computed in floats"


def _mixed(operator: str, inputs: Sequence[int], tensors: Sequence[Tensor]) -> set[str]:
    """The types of weights, and of what is added, that do not fit what they multiply."""
    data, *others = _PRODUCTS[operator]
    allowed = _WEIGHTS[tensors[inputs[data]].dtype]
    there = [(place, types) for place, types in zip(others, allowed, strict=True) if place < len(inputs)]
    given = [(tensors[inputs[place]].dtype, types) for place, types in there if inputs[place] >= 0]
    return {dtype for dtype, types in given if dtype not in types}
