"""What operators come to exactly, where LiteRT's kernels look it up in coarse tables or round in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erfc, pi, sqrt

import numpy as np

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph, Tensor
from layoutsolve.ir.graph import Array

_erfc = np.vectorize(erfc, [float])


Constants = Sequence[Array | None]
"""What an operator reads beside its first input, None where that is computed."""

Shape = tuple[int, ...]


def _softmax(x: Array, operator: Operator, *_: object) -> Array:
    powers = np.exp((x - x.max(-1, keepdims=True)) * float(operator.options.get("beta", 0.0)))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _gelu(x: Array, operator: Operator, *_: object) -> Array:
    if operator.options.get("approximate"):
        return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * _erfc(-x / sqrt(2)))


def _resized(x: Array, operator: Operator, shape: Shape, _: Constants) -> Array:
    for axis in (1, 2):
        size, made, places = x.shape[axis], shape[axis], np.arange(shape[axis], dtype=np.float64)
        if operator.options["align_corners"] and made > 1:
            places *= (size - 1) / (made - 1)
        elif operator.options["half_pixel_centers"]:
            places = (places + 0.5) * size / made - 0.5
        else:
            places *= size / made
        places = np.clip(places, 0, size - 1)
        before = np.floor(places).astype(int)
        share = (places - before).reshape([-1 if each == axis else 1 for each in range(x.ndim)])
        x = x.take(before, axis) * (1 - share) + x.take(np.minimum(before + 1, size - 1), axis) * share
    return x


def _product(x: Array, _: Operator, shape: Shape, constants: Constants) -> Array:
    if constants[0] is None:
        return np.full(shape, np.nan)
    axes = {axis % max(x.ndim, 1) for axis in constants[0].reshape(-1).tolist()}
    return np.asarray(x.prod(tuple(axes))).reshape(shape)


def _prelu(x: Array, _: Operator, shape: Shape, constants: Constants) -> Array:
    return np.full(shape, np.nan) if constants[0] is None else np.where(x < 0, x * constants[0], x)


FUNCTIONS: Mapping[str, Callable[[Array, Operator, Shape, Constants], Array]] = {
    "EXP": lambda x, *_: np.exp(x),
    "GELU": _gelu,
    "LEAKY_RELU": lambda x, operator, *_: np.where(x < 0, x * float(operator.options.get("alpha", 0.0)), x),
    "LOG": lambda x, *_: np.log(x),
    "LOGISTIC": lambda x, *_: 1 / (1 + np.exp(-x)),
    "PRELU": _prelu,
    "REDUCE_PROD": _product,
    "RESIZE_BILINEAR": _resized,
    "RSQRT": lambda x, *_: 1 / np.sqrt(x),
    "SOFTMAX": _softmax,
    "TANH": lambda x, *_: np.tanh(x),
}
"""Operators by name, as functions of real numbers; NaN is what cannot be told."""

TYPES: Mapping[str, tuple[str, ...]] = {
    "GELU": ("float16", "int16"),
    "LEAKY_RELU": ("int8", "uint8", "int16"),
    "PRELU": ("int8", "uint8", "int16"),
    "REDUCE_PROD": ("int8", "int16"),
    "RESIZE_BILINEAR": ("int8", "int16"),
}
"""The types of which they are needed, by default int16 alone: LiteRT rounds a REDUCE_PROD after each factor, a GELU in
float16 after each operation, a LEAKY_RELU or PRELU to a whole number before it is divided by a power of two, and a
RESIZE_BILINEAR the distance of positions.
"""


def _real(tensor: Tensor) -> Array | None:
    """The real numbers of a constant."""
    quant = quant_of(tensor)
    return tensor.data if quant is None or tensor.data is None else quant.real(tensor.data).astype(np.float64)


def exact(subgraph: Subgraph, operator: Operator, tensors: Mapping[int, Array]) -> tuple[Array, Array] | None:
    """The result of an operator for what LiteRT has of its input, rounded as its type is, and LiteRT's where it is no
    number; and the real numbers that are rounded. None for operators, and types of them, that LiteRT does not
    approximate so, and where nothing can be told.
    """
    ends = (operator.inputs[0], operator.outputs[0]) if operator.name in FUNCTIONS else ()
    if not ends or any(index not in tensors or not tensors[index].size for index in ends):
        return None
    stated = [subgraph.tensors[index] for index in ends]
    if {each.dtype for each in stated} not in [{each} for each in TYPES.get(operator.name, ("int16",))]:
        return None
    known, x = tensors[operator.outputs[0]], tensors[operator.inputs[0]].astype(np.float64)
    constants = [_real(subgraph.tensors[index]) for index in operator.inputs[1:]]
    if known.dtype.kind == "f":
        with np.errstate(all="ignore"):
            result = FUNCTIONS[operator.name](x, operator, known.shape, constants)
        return np.where(np.isnan(result), known, result).astype(known.dtype), result
    read, made = (quant_of(each) for each in stated)
    if read is None or made is None:
        return None
    x = (x - float(read.zero_point[0])) * float(read.scale[0])
    with np.errstate(all="ignore"):
        result = FUNCTIONS[operator.name](x, operator, known.shape, constants)
        found = np.rint(result / float(made.scale[0]) + float(made.zero_point[0]))
    if np.isnan(result).all():
        return None
    limits = np.iinfo(known.dtype)
    return np.clip(np.where(np.isnan(found), known, found), limits.min, limits.max).astype(known.dtype), result
