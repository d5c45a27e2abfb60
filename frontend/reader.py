"""From the bytes of a ``.tflite`` file to :class:`layoutsolve.frontend.model.Model`.

The bytes are not trusted. Offsets of a flatbuffer lead anywhere, so everything is read here, once, into plain data;
what goes wrong on the way is a :class:`ModelError`. A file can make one vector serve many owners, so the number of
elements read is bounded by a multiple of the file's size: memory stays proportional to it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags

from layoutsolve.errors import ModelError
from layoutsolve.frontend.checks import check_subgraph
from layoutsolve.frontend.model import (
    Model,
    Operator,
    Quantization,
    Signature,
    SparseDimension,
    Sparsity,
    Subgraph,
    Tensor,
)
from layoutsolve.graph import Array

_BROKEN = (struct.error, IndexError, KeyError, ValueError, TypeError, OverflowError, AttributeError, AssertionError)
"""What reading a broken flatbuffer raises (UnicodeDecodeError and flatbuffers' own range errors are among them)."""

_ELEMENTS_PER_BYTE = 8
_SPARE_ELEMENTS = 1 << 16
_ELEMENTS_PER_INTEGER = 15
"""What an integer of Python takes beyond one element that stays in the file."""

_MOST_DIMENSIONS = 16
"""More than any kernel of LiteRT takes that looks at dimensions at all."""

_TYPES = {
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
_PACKED = {"int4": 2, "uint4": 2, "int2": 4}
_OPAQUE = ("string", "resource", "variant")
_OPTION_CLASSES = {code: name for name, code in vars(tflite.BuiltinOptions).items() if isinstance(code, int) and code}
_OPTION_CLASSES_2 = {
    code: name for name, code in vars(tflite.BuiltinOptions2).items() if isinstance(code, int) and code
}
_CUSTOM = 32
_CUSTOM_QUANTISATION, _BLOCKWISE = 1, 2
_SCALES = ("float16", "float32")
_ZERO_POINTS = ("int8", "uint8", "int4", "uint4", "int2", "int16", "int32", "int64")
_NAMES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
BUILTIN_OPERATORS = frozenset(_NAMES.values())
"""The names of all built-in operators."""


def parse(data: bytes | memoryview) -> Model:
    """Read a model. Raises :class:`ModelError` on anything that is not one."""
    view = memoryview(data).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != b"TFL3":
        raise ModelError("not a TensorFlow Lite model: the identifier 'TFL3' is missing at byte 4")
    try:
        model = _Reader(view).model()
    except _BROKEN as error:
        raise ModelError(f"the file is damaged: {type(error).__name__} while reading it: {error}") from error
    for position, subgraph in enumerate(model.subgraphs):
        check_subgraph(position, subgraph)
    return model


class _Reader:
    """Reads one file, keeping count of what was read."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.left = len(view) * _ELEMENTS_PER_BYTE + _SPARE_ELEMENTS
        self.root = tflite.Model.GetRootAs(view, 0)

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ModelError("the file is damaged: its vectors refer to more elements than it can hold")

    def tables(self, owner: Any, field: str) -> Iterator[Any]:
        """The tables in a vector of tables."""
        length = getattr(owner, field + "Length")()
        if length * 4 > len(self.view):
            raise ModelError(f"the file is damaged: '{field}' states {length} entries, more than the file can hold")
        self.spend(length)
        element = getattr(owner, field)
        return (element(position) for position in range(length))

    def numbers(self, owner: Any, field: str) -> Array:
        """A vector of numbers, as a view of the file."""
        found = getattr(owner, field + "AsNumpy")()
        if isinstance(found, int):
            return np.zeros(0, np.int32)
        array: Array = found
        self.spend(array.size)
        return array

    def integers(self, owner: Any, field: str) -> tuple[int, ...]:
        found = self.numbers(owner, field)
        self.spend(_ELEMENTS_PER_INTEGER * found.size)
        return tuple(found.tolist())

    def text(self, raw: bytes | None) -> str:
        self.spend(len(raw or b""))
        return (raw or b"").decode("utf-8", "replace")

    def model(self) -> Model:
        self.buffers = [self.buffer(found) for found in self.tables(self.root, "Buffers")]
        self.codes = [self.operator_name(code) for code in self.tables(self.root, "OperatorCodes")]
        subgraphs = tuple(self.subgraph(found) for found in self.tables(self.root, "Subgraphs"))
        if not subgraphs:
            raise ModelError("the model has no subgraph")
        metadata = {}
        for entry in self.tables(self.root, "Metadata"):
            name = self.text(entry.Name())
            if name == "min_runtime_version":
                metadata[name] = bytes(self.buffer_at(entry.Buffer())[:64])
        signatures = tuple(self.signature(found, subgraphs) for found in self.tables(self.root, "SignatureDefs"))
        return Model(subgraphs, signatures, metadata, self.text(self.root.Description()), len(self.view))

    def buffer(self, found: Any) -> memoryview:
        """A buffer's bytes: inside the flatbuffer, or appended to it where it grew too large."""
        offset, size = found.Offset(), found.Size()
        if offset > 1:
            if offset + size > len(self.view):
                raise ModelError(f"the file is damaged: a buffer at {offset} with {size} bytes ends after the file")
            return self.view[offset : offset + size]
        data = found.DataAsNumpy()
        return self.view[:0] if isinstance(data, int) else memoryview(data)

    def buffer_at(self, index: int) -> memoryview:
        if index == 0 and not self.buffers:
            return self.view[:0]
        if not 0 <= index < len(self.buffers):
            raise ModelError(f"buffer {index} does not exist: the model has {len(self.buffers)}")
        return self.buffers[index]

    def operator_name(self, code: Any) -> str:
        number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        if number == _CUSTOM:
            return f"CUSTOM:{self.text(code.CustomCode())}"
        name: str = _NAMES.get(number, f"OPERATOR_{number}")
        return name

    def subgraph(self, found: Any) -> Subgraph:
        tensors = tuple(self.tensor(position, tensor) for position, tensor in enumerate(self.tables(found, "Tensors")))
        tensors = tuple(self.blockwise(tensor, tensors) for tensor in tensors)
        operators = tuple(
            self.operator(position, each) for position, each in enumerate(self.tables(found, "Operators"))
        )
        inputs, outputs = self.integers(found, "Inputs"), self.integers(found, "Outputs")
        return Subgraph(self.text(found.Name()), tensors, operators, inputs, outputs)

    def tensor(self, index: int, found: Any) -> Tensor:
        name, code = self.text(found.Name()), found.Type()
        shape, signature = self.integers(found, "Shape"), self.integers(found, "ShapeSignature")
        place = f"tensor {index} '{name}'"
        if code not in _TYPES:
            raise ModelError(f"{place} has the unknown type {code}")
        if len(shape) > _MOST_DIMENSIONS:
            raise ModelError(f"{place} has {len(shape)} dimensions: merge some, {_MOST_DIMENSIONS} are the most")
        if any(size < 0 for size in shape) or any(size < -1 for size in signature):
            raise ModelError(f"{place} has a negative dimension in its shape {list(shape)} or {list(signature)}")
        if signature and len(signature) != len(shape):
            raise ModelError(f"{place} has the shape {list(shape)} but the signature {list(signature)}")
        dtype, raw, sparsity = _TYPES[code], self.buffer_at(found.Buffer()), self.sparsity(found.Sparsity())
        data = _decode(raw, dtype, None if sparsity else shape, place) if len(raw) else None
        if dtype in _PACKED:
            self.spend(len(raw) * _PACKED[dtype])
        quant = self.quantization(found.Quantization())
        return Tensor(index, name, dtype, shape, signature, quant, data, bool(found.IsVariable()), sparsity)

    def quantization(self, found: Any) -> Quantization | None:
        if found is None:
            return None
        if found.DetailsType() == _BLOCKWISE:
            return self.blocks(found.Details())
        scale, zero = self.numbers(found, "Scale"), self.numbers(found, "ZeroPoint")
        if found.DetailsType() not in (0, _CUSTOM_QUANTISATION):
            return Quantization(scale, zero, found.QuantizedDimension(), "unknown")
        return Quantization(scale, zero, found.QuantizedDimension()) if scale.size else None

    def blocks(self, table: Any) -> Quantization:
        """Quantisation per block as the file states it: scales and zero points are the indices of tensors.

        The schema's fields are, in this order: scales, zero points (none if absent or negative), the size of a block,
        and its shape, which may be left out: then the last axis has the blocks.
        """
        entries = [table.Offset(4 + 2 * field) for field in range(4)]
        scales, zeros, size = (
            table.Get(Int32Flags, at + table.Pos) if at else default
            for at, default in zip(entries[:3], (0, -1, 0), strict=True)
        )
        shape = table.GetVectorAsNumpy(Int32Flags, entries[3]) if entries[3] else np.zeros(0, np.int32)
        self.spend(shape.size)
        axis, kind = -1, "blockwise"
        if shape.size:
            longer = np.flatnonzero(shape != 1)
            kind = "blockwise" if longer.size == 1 else "unknown"
            axis, size = (int(longer[0]), int(shape[longer[0]])) if longer.size else (-1, 1)
        return Quantization(np.array([scales]), np.array([zeros]), axis, kind, max(size, 0))

    def blockwise(self, tensor: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
        """A tensor that is quantised per block, with the scales and zero points that the tensors of its graph hold."""
        stated = tensor.quant
        if stated is None or stated.kind != "blockwise":
            return tensor
        place = f"tensor {tensor.index} '{tensor.name}'"
        found: list[Array] = [np.zeros(0), np.zeros(0, np.int32)]
        for position, (index, types) in enumerate(((stated.scale[0], _SCALES), (stated.zero_point[0], _ZERO_POINTS))):
            holder = tensors[index] if 0 <= index < len(tensors) else None
            if position == 1 and index < 0:
                continue
            if holder is None or holder.data is None or holder.sparsity or holder.dtype not in types:
                raise ModelError(f"{place} has blocks whose parameters are in tensor {index}, which holds none")
            found[position] = holder.data
        axis = stated.axis + len(tensor.shape) if stated.axis < 0 else stated.axis
        if not stated.block or not 0 <= axis < len(tensor.shape):
            raise ModelError(f"{place} has blocks of {stated.block} along axis {axis} of {list(tensor.shape)}")
        return replace(tensor, quant=Quantization(found[0], found[1], axis, "blockwise", stated.block))

    def sparsity(self, found: Any) -> Sparsity | None:
        if found is None or not found.DimMetadataLength():
            return None
        dimensions = tuple(self.sparse_dimension(each) for each in self.tables(found, "DimMetadata"))
        return Sparsity(self.integers(found, "TraversalOrder"), self.integers(found, "BlockMap"), dimensions)

    def sparse_dimension(self, found: Any) -> SparseDimension:
        if found.Format() == tflite.DimensionType.DENSE:
            return SparseDimension(True, found.DenseSize())
        segments = self.sparse_indices(found.ArraySegmentsType(), found.ArraySegments())
        indices = self.sparse_indices(found.ArrayIndicesType(), found.ArrayIndices())
        return SparseDimension(False, found.DenseSize(), segments, indices)

    def sparse_indices(self, kind: int, table: Any) -> Array:
        vector = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}[kind]()
        vector.Init(table.Bytes, table.Pos)
        return self.numbers(vector, "Values")

    def operator(self, index: int, found: Any) -> Operator:
        code = found.OpcodeIndex()
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} has the code {code}, the model states {len(self.codes)}")
        inputs, outputs = self.integers(found, "Inputs"), self.integers(found, "Outputs")
        options, custom, between = (
            self.options(found),
            self.custom_options(found),
            self.integers(found, "Intermediates"),
        )
        return Operator(index, self.codes[code], inputs, outputs, options, custom, between)

    def custom_options(self, found: Any) -> bytes:
        offset, size = found.LargeCustomOptionsOffset(), found.LargeCustomOptionsSize()
        raw = self.view[offset : offset + size] if offset > 1 else self.numbers(found, "CustomOptions")
        self.spend(len(raw))
        return bytes(raw)

    def options(self, found: Any) -> dict[str, Any]:
        """All options by name. Options of an operator that this version of the schema does not know are left out."""
        name, table = _OPTION_CLASSES.get(found.BuiltinOptionsType()), found.BuiltinOptions()
        if name is None or table is None:
            name, table = _OPTION_CLASSES_2.get(found.BuiltinOptions2Type()), found.BuiltinOptions2()
        if name is None or table is None:
            return {}
        options = getattr(tflite, name)()
        options.Init(table.Bytes, table.Pos)
        return {key: self.option(options, method, many) for key, method, many in _fields(name)}

    def option(self, options: Any, method: str, many: bool) -> Any:
        value = self.integers(options, method) if many else getattr(options, method)()
        return self.text(value) if isinstance(value, bytes) else value

    def signature(self, found: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
        position = found.SubgraphIndex()
        if position >= len(subgraphs):
            raise ModelError(f"a signature names subgraph {position}, the model has {len(subgraphs)}")
        count = len(subgraphs[position].tensors)
        ports = []
        for field in ("Inputs", "Outputs"):
            named = {self.text(entry.Name()): int(entry.TensorIndex()) for entry in self.tables(found, field)}
            if any(not 0 <= index < count for index in named.values()):
                raise ModelError("a signature names a tensor that does not exist")
            ports.append(named)
        return Signature(self.text(found.SignatureKey()), position, ports[0], ports[1])


@cache
def _fields(name: str) -> tuple[tuple[str, str, bool], ...]:
    """The fields of an options table: key, accessor, whether it is a vector of numbers. Nested tables are left out."""
    methods = [method for method in vars(getattr(tflite, name)) if method[0].isupper()]
    vectors = {method.removesuffix("AsNumpy") for method in methods if method.endswith("AsNumpy")}
    tables = {method.removesuffix("Length") for method in methods if method.endswith("Length")} - vectors
    fields = []
    for method in methods:
        helper = method.startswith("GetRootAs") or method.endswith(
            ("BufferHasIdentifier", "AsNumpy", "Length", "IsNone")
        )
        if method != "Init" and not helper and method not in tables:
            fields.append((_snake(method), method, method in vectors))
    return tuple(fields)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _decode(raw: memoryview, dtype: str, shape: tuple[int, ...] | None, place: str) -> Array | None:
    """The data of a constant; ``shape`` is None for a sparse one, whose elements are counted elsewhere."""
    if dtype in _OPAQUE:
        return np.frombuffer(raw, np.uint8) if dtype == "string" else None
    if dtype in _PACKED:
        return _unpack(np.frombuffer(raw, np.uint8), dtype, shape, place)
    stored = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    if shape is not None and prod(shape) * stored.itemsize != len(raw):
        expected = prod(shape) * stored.itemsize
        raise ModelError(f"{place} of {dtype}{list(shape)} needs {expected} bytes, its buffer has {len(raw)}")
    array = np.frombuffer(raw, stored)
    return array if shape is None else array.reshape(shape)


def _unpack(raw: Array, dtype: str, shape: tuple[int, ...] | None, place: str) -> Array:
    """Small integers, lowest bits first, one byte each."""
    per_byte = _PACKED[dtype]
    count = raw.size * per_byte if shape is None else prod(shape)
    if -(-count // per_byte) != raw.size:
        raise ModelError(f"{place} of {dtype}{list(shape or ())} needs {-(-count // per_byte)} bytes, not {raw.size}")
    bits = 8 // per_byte
    parts = np.stack([(raw >> (bits * part)) & ((1 << bits) - 1) for part in range(per_byte)], axis=-1).reshape(-1)[
        :count
    ]
    if dtype.startswith("int"):
        parts = (parts.astype(np.int8) << (8 - bits)) >> (8 - bits)
    return parts if shape is None else parts.reshape(shape)
