"""From the bytes of a ``.tflite`` file to :class:`layoutsolve.frontend.model.Model`.

The bytes are not trusted. Offsets of a flatbuffer lead anywhere, so everything is read here, once, into plain data;
what goes wrong on the way is a :class:`ModelError`. A file can make one vector serve many owners, so the number of
elements read is bounded by a multiple of the file's size: memory stays proportional to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import tflite
from flatbuffers.table import Table

from layoutsolve.errors import ModelError
from layoutsolve.frontend import schema
from layoutsolve.frontend.checks import check_subgraph
from layoutsolve.frontend.model import (
    MOST_DIMENSIONS,
    Model,
    Operator,
    Quantization,
    Signature,
    SparseDimension,
    Sparsity,
    Subgraph,
    Tensor,
)
from layoutsolve.frontend.record import INT8, INT32, UINT8, UINT32, UINT64, Places, Record
from layoutsolve.graph import Array

_BROKEN = (struct.error, IndexError, KeyError, ValueError, TypeError, OverflowError, AttributeError, AssertionError)
"""What reading a broken flatbuffer raises (UnicodeDecodeError and flatbuffers' own range errors are among them)."""

_ELEMENTS_PER_BYTE = 8
_SPARE_ELEMENTS = 1 << 16
_ELEMENTS_PER_INTEGER = 15
"""What an integer of Python takes beyond one element that stays in the file."""

_NOTHING = np.zeros(0, np.int32)

_PACKED = {"int4": 2, "uint4": 2, "int2": 4}
_OPAQUE = ("string", "resource", "variant")
_SCALES = ("float16", "float32")
_ZERO_POINTS = ("int8", "uint8", "int4", "uint4", "int2", "int16", "int32", "int64")


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
        self.places: dict[int, Places] = {}

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

    def records(self, owner: Any, field: str) -> Iterator[Record]:
        """The tables in a vector of tables, as they lie in the file."""
        return (Record(self.view, found._tab.Pos, self.places) for found in self.tables(owner, field))

    def vector(self, owner: Record, field: int, dtype: type[np.generic] = np.int32) -> Array:
        """A vector of numbers of a record, as a view of the file; empty where there is none."""
        found = owner.numbers(field, dtype)
        if found is None:
            return _NOTHING
        self.spend(found.size)
        return found

    def indices(self, owner: Record, field: int) -> tuple[int, ...]:
        """A vector of 32-bit integers of a record."""
        found = self.vector(owner, field)
        self.spend(_ELEMENTS_PER_INTEGER * found.size)
        return tuple(found.tolist())

    def numbers(self, owner: Any, field: str | schema.Field) -> Array:
        """A vector of numbers, as a view of the file."""
        found = getattr(owner, field + "AsNumpy")() if isinstance(field, str) else field.numbers(owner)
        if isinstance(found, int):
            return np.zeros(0, np.int32)
        array: Array = found
        self.spend(array.size)
        return array

    def integers(self, owner: Any, field: str | schema.Field) -> tuple[int, ...]:
        found = self.numbers(owner, field)
        self.spend(_ELEMENTS_PER_INTEGER * found.size)
        return tuple(found.tolist())

    def text(self, raw: bytes | None) -> str:
        self.spend(len(raw or b""))
        return (raw or b"").decode("utf-8", "replace")

    def model(self) -> Model:
        self.buffers = [self.buffer(found) for found in self.records(self.root, "Buffers")]
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

    def buffer(self, found: Record) -> memoryview:
        """A buffer's bytes: inside the flatbuffer, or appended to it where it grew too large."""
        inside = found.numbers(schema.BUFFER_DATA, np.uint8)
        if inside is not None:
            return inside.data
        offset, size = (found.number(field, UINT64) for field in (schema.BUFFER_OFFSET, schema.BUFFER_SIZE))
        return self.appended(offset, size, "a buffer")

    def appended(self, offset: int, size: int, what: str) -> memoryview:
        """Bytes behind the flatbuffer; offsets of 0 and 1 mean that there are none."""
        if offset <= 1:
            return self.view[:0]
        if offset + size > len(self.view):
            raise ModelError(f"the file is damaged: {what} at {offset} with {size} bytes ends after the file")
        return self.view[offset : offset + size]

    def buffer_at(self, index: int) -> memoryview:
        if index == 0:
            return self.view[:0]
        if not 0 <= index < len(self.buffers):
            raise ModelError(f"buffer {index} does not exist: the model has {len(self.buffers)}")
        return self.buffers[index]

    def operator_name(self, code: Any) -> str:
        """The name of an operator, by the larger of two fields: old files have the narrow one, new ones may not."""
        number = max(code.DeprecatedBuiltinCode(), schema.BUILTIN_CODE.number(code))
        if number == schema.CUSTOM:
            return f"CUSTOM:{self.text(code.CustomCode())}"
        return schema.OPERATORS.get(number, f"OPERATOR_{number}")

    def subgraph(self, found: Any) -> Subgraph:
        tensors = tuple(self.tensor(position, tensor) for position, tensor in enumerate(self.records(found, "Tensors")))
        tensors = tuple(self.blockwise(tensor, tensors) for tensor in tensors)
        operators = tuple(
            self.operator(position, each) for position, each in enumerate(self.tables(found, "Operators"))
        )
        inputs, outputs = self.integers(found, "Inputs"), self.integers(found, "Outputs")
        return Subgraph(self.text(found.Name()), tensors, operators, inputs, outputs)

    def tensor(self, index: int, found: Record) -> Tensor:
        name, code = self.text(found.text(schema.TENSOR_NAME)), found.number(schema.TENSOR_TYPE, INT8)
        shape, signature = self.indices(found, schema.TENSOR_SHAPE), self.indices(found, schema.TENSOR_SIGNATURE)
        place = f"tensor {index} '{name}'"
        if code not in schema.TYPES:
            raise ModelError(f"{place} has the unknown type {code}")
        if len(shape) > MOST_DIMENSIONS:
            raise ModelError(f"{place} has {len(shape)} dimensions: merge some, {MOST_DIMENSIONS} are the most")
        if any(size < 0 for size in shape) or any(size < -1 for size in signature):
            raise ModelError(f"{place} has a negative dimension in its shape {list(shape)} or {list(signature)}")
        if signature and len(signature) != len(shape):
            raise ModelError(f"{place} has the shape {list(shape)} but the signature {list(signature)}")
        # a signature says which sizes are open; the others are those of the shape, whatever it states for them
        signature = tuple(mark if mark == -1 else size for mark, size in zip(signature, shape, strict=False))
        dtype, raw = schema.TYPES[code], self.buffer_at(found.number(schema.TENSOR_BUFFER, UINT32))
        sparsity = self.sparsity(found.table(schema.TENSOR_SPARSITY)) if len(raw) else None
        data = _decode(raw, dtype, None if sparsity else shape, place) if len(raw) else None
        if dtype in _PACKED:
            self.spend(len(raw) * _PACKED[dtype])
        quant = self.quantization(found.record(schema.TENSOR_QUANTISATION))
        external = found.number(schema.TENSOR_EXTERNAL, UINT32)
        variable = bool(found.number(schema.TENSOR_VARIABLE, INT8))
        return Tensor(index, name, dtype, shape, signature, quant, data, variable, sparsity, external)

    def quantization(self, found: Record | None) -> Quantization | None:
        if found is None:
            return None
        details = found.number(schema.QUANT_DETAILS_TYPE, UINT8)
        if details == schema.BLOCKWISE:
            return self.blocks(found.table(schema.QUANT_DETAILS))
        scale = self.vector(found, schema.QUANT_SCALE, np.float32)
        zero = self.vector(found, schema.QUANT_ZERO_POINT, np.int64)
        axis = found.number(schema.QUANT_AXIS, INT32)
        if details not in (0, schema.CUSTOM_QUANTISATION):
            return Quantization(scale, zero, axis, "unknown")
        return Quantization(scale, zero, axis) if scale.size else None

    def blocks(self, table: Any) -> Quantization:
        """Quantisation per block as the file states it: scales and zero points are the indices of tensors.

        A shape of blocks may be left out: then the last axis has the blocks.
        """
        scales, zeros, size = (field.number(table) for field in (schema.SCALES, schema.ZERO_POINTS, schema.BLOCK_SIZE))
        shape = self.numbers(table, schema.BLOCK_SHAPE)
        axis, kind = -1, "blockwise"
        if shape.size:
            longer = np.flatnonzero(shape != 1)
            kind = "blockwise" if longer.size == 1 else "unknown"
            axis, size = (int(longer[0]), int(shape[longer[0]])) if longer.size else (-1, 1)
        return Quantization(np.array([scales]), np.array([zeros]), axis, kind, max(size, 0))

    def blockwise(self, tensor: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
        """A tensor that is quantised per block, with the scales and zero points that the tensors of its graph hold.

        The index of zero points is 0 in files that leave it out: tensor 0 counts only if it can hold them.
        """
        stated = tensor.quant
        if stated is None or stated.kind != "blockwise":
            return tensor
        place = f"tensor {tensor.index} '{tensor.name}'"
        scale = _parameters(tensors, int(stated.scale[0]), _SCALES)
        if scale is None:
            raise ModelError(f"{place} has blocks whose scales are in tensor {stated.scale[0]}, which holds none")
        zero, index = np.zeros(0, np.int32), int(stated.zero_point[0])
        if index >= 0:
            held = _parameters(tensors, index, _ZERO_POINTS)
            if held is not None and (index > 0 or held.size == scale.size):
                zero = held
            elif index > 0:
                raise ModelError(f"{place} has blocks whose zero points are in tensor {index}, which holds none")
        axis = stated.axis + len(tensor.shape) if stated.axis < 0 else stated.axis
        if not stated.block or not 0 <= axis < len(tensor.shape):
            raise ModelError(f"{place} has blocks of {stated.block} along axis {axis} of {list(tensor.shape)}")
        return replace(tensor, quant=Quantization(scale, zero, axis, "blockwise", stated.block))

    def sparsity(self, table: Table | None) -> Sparsity | None:
        if table is None:
            return None
        found = tflite.SparsityParameters()
        found.Init(table.Bytes, table.Pos)
        if not found.DimMetadataLength():
            return None
        dimensions = tuple(self.sparse_dimension(each) for each in self.tables(found, "DimMetadata"))
        return Sparsity(self.integers(found, "TraversalOrder"), self.integers(found, "BlockMap"), dimensions)

    def sparse_dimension(self, found: Any) -> SparseDimension:
        if found.Format() == tflite.DimensionType.DENSE:
            return SparseDimension(True, found.DenseSize())
        if found.Format() != tflite.DimensionType.SPARSE_CSR:
            raise ModelError(f"a sparse tensor has a dimension of the unknown format {found.Format()}")
        segments = self.sparse_indices(found.ArraySegmentsType(), found.ArraySegments())
        indices = self.sparse_indices(found.ArrayIndicesType(), found.ArrayIndices())
        return SparseDimension(False, found.DenseSize(), segments, indices)

    def sparse_indices(self, kind: int, table: Any) -> Array:
        vector = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}[kind]()
        vector.Init(table.Bytes, table.Pos)
        return self.numbers(vector, "Values")

    def operator(self, index: int, found: Any) -> Operator:
        record = Record(self.view, found._tab.Pos, self.places)
        code = record.number(schema.OPERATOR_CODE, UINT32)
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} has the code {code}, the model states {len(self.codes)}")
        name = self.codes[code]
        inputs, outputs, between = (self.indices(record, field) for field in schema.OPERATOR_TENSORS)
        (options, unread), custom = self.options(name, found), self.custom_options(record)
        return Operator(index, name, inputs, outputs, options, custom, between, unread)

    def custom_options(self, found: Record) -> bytes:
        inside = found.numbers(schema.OPERATOR_OPTIONS, np.uint8)
        if inside is None:
            offset, size = (found.number(field, UINT64) for field in schema.OPERATOR_LARGE_OPTIONS)
            raw = bytes(self.appended(offset, size, "custom options"))
        else:
            raw = inside.tobytes()
        self.spend(len(raw))
        return raw

    def options(self, operator: str, found: Any) -> tuple[dict[str, Any], str]:
        """All options by name, and what of them cannot be read."""
        expected = schema.options_class(operator)
        for union, classes in schema.UNIONS.items():
            code, table = getattr(found, union + "Type")(), getattr(found, union)()
            name = classes.get(code)
            if code and name is None:
                return {}, f"its options are of the unknown class {code} of {union}"
            if name is None or name != expected or table is None:
                continue
            if schema.younger(name, table):
                return {}, f"its {name} have a field that is not known"
            options = getattr(tflite, name, schema.Bare)()
            options.Init(table.Bytes, table.Pos)
            return {entry.key: self.option(options, entry) for entry in schema.accessors(name)}, ""
        return {}, ""

    def option(self, options: Any, entry: schema.Accessor) -> Any:
        if entry.many:
            return self.integers(options, entry.field or entry.method)
        value = getattr(options, entry.method)()
        return self.text(value) if isinstance(value, bytes) else value

    def signature(self, found: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
        position = found.SubgraphIndex()
        if position >= len(subgraphs):
            raise ModelError(f"a signature names subgraph {position}, the model has {len(subgraphs)}")
        count = len(subgraphs[position].tensors)
        ports = []
        for field in ("Inputs", "Outputs"):
            entries = ((entry.Name(), int(entry.TensorIndex())) for entry in self.tables(found, field))
            named = {self.text(name): index for name, index in entries if name is not None}
            if any(not 0 <= index < count for index in named.values()):
                raise ModelError("a signature names a tensor that does not exist")
            ports.append(named)
        return Signature(self.text(found.SignatureKey()), position, ports[0], ports[1])


def _parameters(tensors: Sequence[Tensor], index: int, types: Sequence[str]) -> Array | None:
    """What a tensor holds for the blocks of others: a dense constant of one of these types, else None."""
    holder = tensors[index] if 0 <= index < len(tensors) else None
    return None if holder is None or holder.sparsity or holder.dtype not in types else holder.data


def _decode(raw: memoryview, dtype: str, shape: tuple[int, ...] | None, place: str) -> Array | None:
    """The data of a constant; ``shape`` is None for a sparse one, whose elements are counted elsewhere."""
    if dtype in ("resource", "variant") and len(raw):
        raise ModelError(f"{place} of {dtype} has data of its own")
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
