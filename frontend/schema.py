"""The schema of TensorFlow Lite: what its numbers stand for, and fields as they lie in the file.

The ``tflite`` package reads most of a model, but not all of it as the schema says: its ``BuiltinCode`` returns another
field for small numbers, and tables and fields that are younger than the package are missing. Those are read here from
the tables themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags, SOffsetTFlags, Uint8Flags, VOffsetTFlags
from flatbuffers.table import Table

from layoutsolve.graph import Array

TYPES: Mapping[int, str] = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    5: "string",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float64",
    11: "complex128",
    12: "uint64",
    13: "resource",
    14: "variant",
    15: "uint32",
    16: "uint16",
    17: "int4",
    18: "bfloat16",
    19: "int2",
    20: "uint4",
}
"""The name of each type of elements by its number."""

OPERATORS: Mapping[int, str] = {
    209: "STABLEHLO_CASE",
    **{code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)},
}
"""The name of each built-in operator by its number."""

BUILTIN_OPERATORS = frozenset(OPERATORS.values())
"""The names of all built-in operators."""

CUSTOM = 32
"""The number that stands for all custom operators."""

CUSTOM_QUANTISATION, BLOCKWISE = 1, 2
"""The kinds of details that quantisation parameters may have, of those that are read."""


@dataclass(frozen=True)
class Field:
    """A field of a table: its place among the table's fields, the flatbuffer type of its numbers, and its default."""

    place: int
    kind: Any = Int32Flags
    default: int = 0

    def number(self, table: Any) -> int:
        """The field's number in a table of the ``tflite`` package, or in a bare one."""
        bare = getattr(table, "_tab", table)
        at = bare.Offset(4 + 2 * self.place)
        return int(bare.Get(self.kind, at + bare.Pos)) if at else self.default

    def numbers(self, table: Any) -> Array:
        """The field's vector of numbers, empty where the table has none."""
        bare = getattr(table, "_tab", table)
        at = bare.Offset(4 + 2 * self.place)
        found: Array = bare.GetVectorAsNumpy(self.kind, at) if at else np.zeros(0, np.int32)
        return found


BUILTIN_CODE = Field(3)
"""An operator code's number: the field that has room for all of them."""

TENSOR_SHAPE, TENSOR_TYPE, TENSOR_BUFFER, TENSOR_NAME, TENSOR_QUANTISATION, TENSOR_VARIABLE, TENSOR_SPARSITY = range(7)
TENSOR_SIGNATURE, TENSOR_EXTERNAL = 7, 10
"""The fields of a tensor. The external one is the number of the buffer outside of the file that holds its data, 0 for
none.
"""

QUANT_SCALE, QUANT_ZERO_POINT, QUANT_DETAILS_TYPE, QUANT_DETAILS, QUANT_AXIS = range(2, 7)
"""The fields of quantisation parameters."""

OPERATOR_CODE, OPERATOR_TENSORS = 0, (1, 2, 8)
OPERATOR_OPTIONS, OPERATOR_LARGE_OPTIONS = 5, (9, 10)
"""The fields of an operator: its code, the tensors that it reads, writes and keeps between, and its custom options,
inside or, by place and size, behind the flatbuffer.
"""

BUFFER_DATA, BUFFER_OFFSET, BUFFER_SIZE = range(3)
"""The fields of a buffer: its bytes, or where they are appended to the flatbuffer, and how many."""

SCALES, ZERO_POINTS, BLOCK_SIZE, BLOCK_SHAPE = (Field(place) for place in range(4))
"""The fields of quantisation per block: two indices of tensors, a number, and a vector of numbers."""

_YOUNGER: Mapping[str, Mapping[str, Field]] = {
    "FullyConnectedOptions": {"quant_spec": Field(5, Uint8Flags)},
    "StablehloCaseOptions": {"branch_subgraph_indices": Field(0)},
}
"""Vectors of numbers in options that the package may not know: by class of options, then by name."""

_SHARED = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(
        ("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), "ReducerOptions"
    ),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), "RandomOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
"""The options of operators that are not named after them."""


def _classes(union: Any, younger: Mapping[int, str]) -> dict[int, str]:
    return {**younger, **{code: name for name, code in vars(union).items() if isinstance(code, int) and code}}


UNIONS: Mapping[str, Mapping[int, str]] = {
    "BuiltinOptions": _classes(tflite.BuiltinOptions, {}),
    "BuiltinOptions2": _classes(tflite.BuiltinOptions2, {23: "StablehloCaseOptions"}),
}
"""The two fields of an operator that may hold its options: the class of options for each number."""

_CLASSES = {name.removesuffix("Options").lower(): name for union in UNIONS.values() for name in union.values()}


def options_class(operator: str) -> str:
    """The class of options that an operator reads, '' where there is none.

    LiteRT passes over options of another class: such an operator has none at all.
    """
    return _SHARED.get(operator) or _CLASSES.get(operator.replace("_", "").lower(), "")


@dataclass(frozen=True)
class Accessor:
    """How a field of options is read: by a method of the package, or by itself where the package does not know it.

    ``many`` marks a vector of numbers.
    """

    key: str
    method: str
    many: bool
    field: Field | None = None


class Bare:
    """A table of options that the package does not know."""

    def Init(self, data: Any, position: int) -> None:  # noqa: N802  (the name is flatbuffers')
        self._tab = Table(data, position)


@cache
def accessors(name: str) -> tuple[Accessor, ...]:
    """The fields of a class of options; nested tables are left out."""
    methods = _methods(name)
    vectors = {method.removesuffix("AsNumpy") for method in methods if method.endswith("AsNumpy")}
    plain = (method for method in _fields(name) if method in vectors or method + "Length" not in methods)
    found = {_snake(method): Accessor(_snake(method), method, method in vectors) for method in plain}
    younger = {key: Accessor(key, "", True, field) for key, field in _YOUNGER.get(name, {}).items()}
    return tuple((younger | found).values())


def younger(name: str, table: Any) -> bool:
    """Whether a table of options has a field beyond those that are known of its class."""
    start = table.Pos - table.Get(SOffsetTFlags, table.Pos)
    count = (table.Get(VOffsetTFlags, start) - 4) // 2
    return any(table.Offset(4 + 2 * place) for place in range(_width(name), count))


class _Places:
    """Stands for a table and remembers which entries of it are asked for."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def Offset(self, entry: int) -> int:  # noqa: N802  (the name is flatbuffers')
        self.seen.add((entry - 4) // 2)
        return 0


@cache
def _width(name: str) -> int:
    """How many fields of a class of options are known; there may be gaps, where fields were given up."""
    methods, asked = _methods(name), _Places()
    options = getattr(tflite, name, Bare)()
    options._tab = asked
    for method in _fields(name):
        getattr(options, method + "Length" if method + "Length" in methods else method)()
    return max(asked.seen | {field.place for field in _YOUNGER.get(name, {}).values()}, default=-1) + 1


def _methods(name: str) -> list[str]:
    """The methods of the package for a class of options."""
    return [method for method in vars(getattr(tflite, name, object)) if method[0].isupper()]


def _fields(name: str) -> list[str]:
    """The fields of a class of options that the package knows, in no order."""
    helpers = ("BufferHasIdentifier", "AsNumpy", "Length", "IsNone")
    return [
        method
        for method in _methods(name)
        if method != "Init" and not method.startswith("GetRootAs") and not method.endswith(helpers)
    ]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
