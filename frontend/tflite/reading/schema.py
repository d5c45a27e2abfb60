"""The schema of TensorFlow Lite: what its numbers stand for, and fields as they lie in the file.

The ``tflite`` package knows the names of operators, and the names and types of their options, but for those that are
younger. Other tables are read as they lie in the file, by the numbers of their fields: a model has thousands of them,
and the package does not read all as the schema says (its ``BuiltinCode`` returns another field for small numbers).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from typing import Any

import numpy as np
from flatbuffers.number_types import Int32Flags, SOffsetTFlags, Uint8Flags, VOffsetTFlags
from flatbuffers.table import Table

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array

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


@cache
def module(name: str) -> Any:
    """The module of the ``tflite`` package that defines a class, None where the package does not know it.

    The package itself is not imported: it imports all of its modules, which takes longer than converting a small model.
    """
    package = importlib.util.find_spec("tflite")
    places = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec(f"tflite.{name}", places)
    if spec is None or spec.loader is None:
        return None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def _class(name: str) -> Any:
    """A class of the ``tflite`` package, None where the package does not know it."""
    return getattr(module(name), name, None)


OPERATORS: Mapping[int, str] = {
    209: "STABLEHLO_CASE",
    **{code: name for name, code in vars(_class("BuiltinOperator")).items() if isinstance(code, int)},
}
"""The name of each built-in operator by its number."""

BUILTIN_OPERATORS = frozenset(OPERATORS.values())
"""The names of all built-in operators."""

CUSTOM = 32
"""The number that stands for all custom operators."""

CUSTOM_QUANTIZATION, BLOCKWISE = 1, 2
"""The kinds of details that quantization parameters may have, of those that are read."""


@dataclass(frozen=True)
class Field:
    """A vector of numbers in a table: its place among the table's fields, and the flatbuffer type of its numbers."""

    place: int
    kind: Any = Int32Flags

    def numbers(self, table: Any) -> Array:
        """The vector in a table of the ``tflite`` package, empty where that has none."""
        bare = table._tab
        at = bare.Offset(4 + 2 * self.place)
        found: Array = bare.GetVectorAsNumpy(self.kind, at) if at else np.zeros(0, np.int32)
        return found


MODEL_CODES, MODEL_SUBGRAPHS, MODEL_DESCRIPTION, MODEL_BUFFERS, MODEL_METADATA, MODEL_SIGNATURES = 1, 2, 3, 4, 6, 7
"""The fields of a model."""

GRAPH_TENSORS, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_OPERATORS, GRAPH_NAME = range(5)
"""The fields of a subgraph."""

METADATA_NAME, METADATA_BUFFER = range(2)
SIGNATURE_PORTS, SIGNATURE_KEY, SIGNATURE_GRAPH = (0, 1), 2, 4
PORT_NAME, PORT_TENSOR = range(2)
"""The fields of an entry of metadata, of a signature (its inputs and outputs first), and of an entry of those."""

CODE_NARROW, CODE_CUSTOM, CODE_VERSION, CODE_WIDE = range(4)
"""The fields of an operator code: its number where 8 bits hold it, the name of a custom one, its version, and the
number.
"""

TENSOR_SHAPE, TENSOR_TYPE, TENSOR_BUFFER, TENSOR_NAME, TENSOR_QUANTIZATION, TENSOR_VARIABLE, TENSOR_SPARSITY = range(7)
TENSOR_SIGNATURE, TENSOR_EXTERNAL = 7, 10
"""The fields of a tensor. The external one is the number of the buffer outside of the file that holds its data, 0 for
none.
"""

QUANT_SCALE, QUANT_ZERO_POINT, QUANT_DETAILS_TYPE, QUANT_DETAILS, QUANT_AXIS = range(2, 7)
"""The fields of quantization parameters."""

OPERATOR_CODE, OPERATOR_TENSORS = 0, (1, 2, 8)
OPERATOR_CUSTOM, OPERATOR_LARGE_CUSTOM = 5, (9, 10)
"""The fields of an operator: its code, the tensors that it reads, writes and keeps between, and its custom options,
inside or, by place and size, behind the flatbuffer.
"""

BUFFER_DATA, BUFFER_OFFSET, BUFFER_SIZE = range(3)
"""The fields of a buffer: its bytes, or where they are appended to the flatbuffer, and how many."""

SPARSE_ORDER, SPARSE_BLOCKS, SPARSE_DIMENSIONS = range(3)
DIMENSION_FORMAT, DIMENSION_SIZE, DIMENSION_SEGMENTS, DIMENSION_INDICES = 0, 1, (2, 3), (4, 5)
DENSE, SPARSE_CSR = 0, 1
"""The fields of sparsity and of a sparse dimension, where a vector of indices has its type before it; its formats."""

BLOCKS, BLOCK_SHAPE = (0, 1, 2), 3
"""The fields of quantization per block: the indices of tensors with scales and zero points and the size of a block, all
numbers, and a vector of numbers.
"""

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
    "BuiltinOptions": _classes(_class("BuiltinOptions"), {}),
    "BuiltinOptions2": _classes(_class("BuiltinOptions2"), {23: "StablehloCaseOptions"}),
}
"""The two fields of an operator that may hold its options: the class of options for each number."""

UNION_FIELDS: Mapping[str, tuple[int, int]] = {"BuiltinOptions": (3, 4), "BuiltinOptions2": (11, 12)}
"""The fields of an operator for each: the number of the class, and the table."""

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


def options_of(name: str, table: Table) -> Any:
    """A table as the package's class of options, from which :func:`accessors` read."""
    options = (_class(name) or Bare)()
    options.Init(table.Bytes, table.Pos)
    return options


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
    options = (_class(name) or Bare)()
    options._tab = asked
    for method in _fields(name):
        getattr(options, method + "Length" if method + "Length" in methods else method)()
    return max(asked.seen | {field.place for field in _YOUNGER.get(name, {}).values()}, default=-1) + 1


def _methods(name: str) -> list[str]:
    """The methods of the package for a class of options."""
    return [method for method in vars(_class(name) or object) if method[0].isupper()]


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
