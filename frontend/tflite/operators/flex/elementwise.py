"""Flex operators: those of TensorFlow that a converter kept as they were, and that have an equal here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowering_of, lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.shared.common import cast_to, write_stored
from layoutsolve.frontend.tflite.reading.flexbuffer import decode
from layoutsolve.frontend.tflite.reading.nodedef import Attribute, node_def

BUILTIN: Mapping[str, str] = {
    "Abs": "ABS",
    "Add": "ADD",
    "AddN": "ADD_N",
    "AddV2": "ADD",
    "All": "REDUCE_ALL",
    "Any": "REDUCE_ANY",
    "Atan2": "ATAN2",
    "BatchMatMul": "BATCH_MATMUL",
    "BatchMatMulV2": "BATCH_MATMUL",
    "BatchMatMulV3": "BATCH_MATMUL",
    "BiasAdd": "ADD",
    "BroadcastTo": "BROADCAST_TO",
    "Cast": "CAST",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Cumsum": "CUMSUM",
    "DepthToSpace": "DEPTH_TO_SPACE",
    "Elu": "ELU",
    "Equal": "EQUAL",
    "Exp": "EXP",
    "ExpandDims": "EXPAND_DIMS",
    "Fill": "FILL",
    "Floor": "FLOOR",
    "FloorDiv": "FLOOR_DIV",
    "FloorMod": "FLOOR_MOD",
    "GatherNd": "GATHER_ND",
    "Greater": "GREATER",
    "GreaterEqual": "GREATER_EQUAL",
    "LeakyRelu": "LEAKY_RELU",
    "Less": "LESS",
    "LessEqual": "LESS_EQUAL",
    "Log": "LOG",
    "LogSoftmax": "LOG_SOFTMAX",
    "LogicalAnd": "LOGICAL_AND",
    "LogicalNot": "LOGICAL_NOT",
    "LogicalOr": "LOGICAL_OR",
    "Max": "REDUCE_MAX",
    "Maximum": "MAXIMUM",
    "Mean": "MEAN",
    "Min": "REDUCE_MIN",
    "Minimum": "MINIMUM",
    "Mul": "MUL",
    "Multinomial": "MULTINOMIAL",
    "Neg": "NEG",
    "NotEqual": "NOT_EQUAL",
    "Pow": "POW",
    "Prod": "REDUCE_PROD",
    "RandomStandardNormal": "RANDOM_STANDARD_NORMAL",
    "RandomUniform": "RANDOM_UNIFORM",
    "RealDiv": "DIV",
    "Relu": "RELU",
    "Relu6": "RELU6",
    "Reshape": "RESHAPE",
    "ReverseV2": "REVERSE_V2",
    "Rint": "ROUND",
    "Round": "ROUND",
    "Rsqrt": "RSQRT",
    "ScatterNd": "SCATTER_ND",
    "Select": "SELECT",
    "SelectV2": "SELECT_V2",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Softmax": "SOFTMAX",
    "SpaceToDepth": "SPACE_TO_DEPTH",
    "Sqrt": "SQRT",
    "Square": "SQUARE",
    "SquaredDifference": "SQUARED_DIFFERENCE",
    "StridedSlice": "STRIDED_SLICE",
    "Sub": "SUB",
    "Sum": "SUM",
    "Tanh": "TANH",
    "Tile": "TILE",
    "Transpose": "TRANSPOSE",
    "ZerosLike": "ZEROS_LIKE",
}
"""TensorFlow's operators that are a built-in one, with its options under the same names."""

_WIDER = ("Relu", "Square", "Transpose")
"""Those of them that compute on more types (:func:`wider`)."""

_CONSTANT_OPTIONS: Mapping[str, Mapping[str, Any]] = {"Softmax": {"beta": 1.0}, "LeakyRelu": {"alpha": 0.2}}

IDENTITIES = ("Identity", "PreventGradient", "Snapshot", "StopGradient")
"""TensorFlow's operators that return their input."""

UNARY: Mapping[str, str] = {
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Inv": "Reciprocal",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Reciprocal": "Reciprocal",
    "Selu": "Selu",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Tan": "Tan",
}
"""TensorFlow's functions of one number, by their names in ONNX."""


def attributes(call: Call) -> dict[str, Attribute]:
    """The attributes of a Flex operator. Its options are a FlexBuffer of its name and a NodeDef."""
    found = decode(call.custom_options)
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(item, (str, bytes)) for item in found):
        raise ModelError(f"{call.origin} has custom options that are no pair of a name and a NodeDef")
    name, stated = call.origin.operator.removeprefix("CUSTOM:Flex"), found[1]
    operator, known = node_def(stated if isinstance(stated, bytes) else stated.encode("utf-8", "surrogateescape"))
    if operator != name:
        raise ModelError(f"{call.origin} has the options of the operator '{operator}'")
    return known


@lowers(*(f"CUSTOM:Flex{name}" for name in IDENTITIES), signature="FZBS -> =")
def identity(call: Call) -> None:
    """A Flex operator that returns its input: it stands at each result of a model that is all of Flex operators."""
    attributes(call)
    call.write("Identity", [call.input(0)], call.input(0).shape, call.slot(), storage=True)


@lowers(*(f"CUSTOM:Flex{name}" for name in BUILTIN if name not in _WIDER))
def builtin(call: Call) -> None:
    """A Flex operator that is a built-in one."""
    name = call.operator.name.removeprefix("CUSTOM:Flex")
    target = lowering_of(BUILTIN[name])
    if target is None:
        raise GapError("no conversion for this operator", "express it by other operators in the source model")
    options = attributes(call)
    if options.get("data_format", "NHWC") != "NHWC":
        raise GapError(f"its data format is {options['data_format']!r}", "use NHWC")
    target(call.restated({**_CONSTANT_OPTIONS.get(name, {}), **options}, BUILTIN[name]))


@lowers("CUSTOM:FlexTranspose", signature="FZBSC I -> =")
@lowers("CUSTOM:FlexRelu", signature="FQI -> =")
@lowers("CUSTOM:FlexSquare", signature="FZ -> =")
def wider(call: Call) -> None:
    """A Flex operator that is a built-in one of more types: Relu and Square of integers, Transpose by 64 bits."""
    x, name = call.input(0), call.operator.name.removeprefix("CUSTOM:Flex")
    if name == "Transpose" or not np.issubdtype(x.dtype, np.integer):
        builtin(call)
        return
    attributes(call)
    x = x if x.dtype in ("int32", "int64") else cast_to(call, x, "int32")
    op, other = ("Mul", x) if name == "Square" else ("Max", call.constant(0, "zero", x.dtype))
    write_stored(call, op, [x, other], x.shape, call.slot(), x.dtype)


@lowers(*(f"CUSTOM:Flex{name}" for name in UNARY if name.startswith("Is")), signature="F -> B")
@lowers(*(f"CUSTOM:Flex{name}" for name in UNARY if not name.startswith("Is")), signature="F -> =")
def unary(call: Call) -> None:
    """A Flex operator that ONNX has."""
    x, slot = call.input(0), call.slot()
    name = UNARY[call.operator.name.removeprefix("CUSTOM:Flex")]
    if x.dtype != "float32":
        raise GapError(f"it computes on {x.dtype}", "use float32")
    call.write(name, [x], x.shape, slot, real="bool" if name.startswith("Is") else "float32")
