"""From the bytes of a ``.tflite`` file to :class:`layoutsolve.frontend.tflite.reading.model.Model`.

The bytes are not trusted. Offsets of a flatbuffer lead anywhere, so everything is read here, once, into plain data;
what goes wrong on the way is a :class:`ModelError`. A file can make one vector serve many owners, so the number of
elements read is bounded by a multiple of the file's size: memory stays proportional to it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.reading import schema
from layoutsolve.frontend.tflite.reading.checks import check_subgraph
from layoutsolve.frontend.tflite.reading.metadata import packed
from layoutsolve.frontend.tflite.reading.model import (
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
from layoutsolve.frontend.tflite.reading.record import BROKEN, INT8, INT32, UINT8, UINT32, UINT64, Reader, Record
from layoutsolve.ir.graph import Array

IDENTIFIER = b"TFL3"
"""What is at byte 4 of every model."""

_ORT_FORMAT = b"ORTM"

_OTHERS: Mapping[bytes, str] = {
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with 'git lfs pull'",
    b"\x89hdf": "an HDF5 file, as Keras writes; convert it with tf.lite.TFLiteConverter first",
    b"\x80": "a pickle, as PyTorch writes; export the model with torch.onnx.export or litert-torch first",
    b"<?xml": "XML, as OpenVINO writes; give the model that it was made from",
    b"<!doctype": "a web page; download the file itself",
    b"<html": "a web page; download the file itself",
}
"""What files are that are taken for models, by how they begin, in small letters."""

_SPARSE_INDICES: Mapping[int, type[np.generic]] = {1: np.int32, 2: np.uint16, 3: np.uint8}
"""The types of the indices of sparse dimensions by the classes of their vectors."""

_PACKED = {"int4": 2, "uint4": 2, "int2": 4}
_COMPRESSED = "COMPRESSION_METADATA"
_OPAQUE = ("string", "resource", "variant")
_SCALES = ("float16", "float32")
_ZERO_POINTS = ("int8", "uint8", "int4", "uint4", "int2", "int16", "int32", "int64")


def parse(data: bytes | memoryview, called: str = "the model") -> Model:
    """Read a model, which is ``called`` so in messages. Raises :class:`ModelError` on anything that is not one."""
    view = memoryview(data).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != IDENTIFIER:
        raise ModelError(f"{called} is neither a TensorFlow Lite nor an ONNX model{_instead(bytes(view[:64]))}")
    try:
        model = _Reader(view).model()
    except BROKEN as error:
        raise ModelError(f"{called} is damaged: {_damage(error)}") from error
    for position, subgraph in enumerate(model.subgraphs):
        check_subgraph(position, subgraph)
    return model


def _instead(head: bytes) -> str:
    """What a file is that begins so, and what to do about it; '' where that is not known."""
    if head[4:8] == _ORT_FORMAT:
        return ": it is one in ORT format; give the ONNX model that it was made from"
    begins = head.lstrip()
    return next((f": it is {what}" for start, what in _OTHERS.items() if begins.lower().startswith(start)), "")


def _damage(error: Exception) -> str:
    """What is wrong with a file that cannot be read, in other words than those of what reads it."""
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not in UTF-8"
    if isinstance(error, (struct.error, IndexError)):
        return "it ends before what it refers to"
    return "what it refers to is not there, or is something else"


class _Reader(Reader):
    """Reads the tables of a model."""

    def model(self) -> Model:
        root = self.root
        self.buffers = [self.buffer(found) for found in self.records(root, schema.MODEL_BUFFERS)]
        stated = self.records(root, schema.MODEL_CODES)
        self.codes = [(self.operator_name(code), code.number(schema.CODE_VERSION, INT32, 1)) for code in stated]
        metadata = {}
        for entry in self.records(root, schema.MODEL_METADATA):
            name = self.text(entry.text(schema.METADATA_NAME))
            if name == _COMPRESSED:
                raise ModelError(
                    "the model's weights are compressed for TensorFlow Lite Micro (COMPRESSION_METADATA), which stores"
                    " numbers of entries of tables in their place; convert the file from before they were compressed"
                )
            metadata[name] = self.buffer_at(entry.number(schema.METADATA_BUFFER, UINT32))
        subgraphs = tuple(self.subgraph(found) for found in self.records(root, schema.MODEL_SUBGRAPHS))
        if not subgraphs:
            raise ModelError("the model has no subgraph")
        signatures = tuple(self.signature(found, subgraphs) for found in self.records(root, schema.MODEL_SIGNATURES))
        description = self.text(root.text(schema.MODEL_DESCRIPTION))
        return Model(subgraphs, signatures, metadata, packed(self.view), description, len(self.view))

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

    def operator_name(self, code: Record) -> str:
        """The name of an operator, by the larger of two fields: old files have the narrow one, new ones may not."""
        number = max(code.number(schema.CODE_NARROW, INT8), code.number(schema.CODE_WIDE, INT32))
        if number == schema.CUSTOM:
            return f"CUSTOM:{self.text(code.text(schema.CODE_CUSTOM))}"
        return schema.OPERATORS.get(number, f"OPERATOR_{number}")

    def subgraph(self, found: Record) -> Subgraph:
        stated = enumerate(self.records(found, schema.GRAPH_TENSORS))
        tensors = tuple(self.tensor(position, each) for position, each in stated)
        tensors = tuple(self.blockwise(tensor, tensors) for tensor in tensors)
        stated = enumerate(self.records(found, schema.GRAPH_OPERATORS))
        operators = tuple(self.operator(position, each) for position, each in stated)
        inputs, outputs = self.indices(found, schema.GRAPH_INPUTS), self.indices(found, schema.GRAPH_OUTPUTS)
        return Subgraph(self.text(found.text(schema.GRAPH_NAME)), tensors, operators, inputs, outputs)

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
        sparsity = self.sparsity(found.record(schema.TENSOR_SPARSITY)) if len(raw) else None
        data = _decode(raw, dtype, None if sparsity else shape, place) if len(raw) else None
        if dtype in _PACKED:
            self.spend(len(raw) * _PACKED[dtype])
        quant = self.quantization(found.record(schema.TENSOR_QUANTIZATION))
        external = found.number(schema.TENSOR_EXTERNAL, UINT32)
        variable = bool(found.number(schema.TENSOR_VARIABLE, INT8))
        return Tensor(index, name, dtype, shape, signature, quant, data, variable, sparsity, external)

    def quantization(self, found: Record | None) -> Quantization | None:
        if found is None:
            return None
        details = found.number(schema.QUANT_DETAILS_TYPE, UINT8)
        if details == schema.BLOCKWISE:
            return self.blocks(found.record(schema.QUANT_DETAILS))
        scale = self.vector(found, schema.QUANT_SCALE, np.float32)
        zero = self.vector(found, schema.QUANT_ZERO_POINT, np.int64)
        axis = found.number(schema.QUANT_AXIS, INT32)
        if details not in (0, schema.CUSTOM_QUANTIZATION):
            return Quantization(scale, zero, axis, "unknown")
        return Quantization(scale, zero, axis) if scale.size else None

    def blocks(self, found: Record | None) -> Quantization:
        """Quantization per block as the file states it: scales and zero points are the indices of tensors.

        A shape of blocks may be left out: then the last axis has the blocks.
        """
        if found is None:
            raise ModelError("the file is damaged: a tensor is quantized per block, without the size of a block")
        scales, zeros, size = (found.number(field, INT32) for field in schema.BLOCKS)
        shape = self.vector(found, schema.BLOCK_SHAPE)
        axis, kind = -1, "blockwise"
        if shape.size:
            longer = np.flatnonzero(shape != 1)
            kind = "blockwise" if longer.size == 1 else "unknown"
            axis, size = (int(longer[0]), int(shape[longer[0]])) if longer.size else (-1, 1)
        return Quantization(np.array([scales]), np.array([zeros]), axis, kind, max(size, 0))

    def blockwise(self, tensor: Tensor, tensors: tuple[Tensor, ...]) -> Tensor:
        """A tensor that is quantized per block, with the scales and zero points that the tensors of its graph hold.

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

    def sparsity(self, found: Record | None) -> Sparsity | None:
        dimensions = () if found is None else tuple(self.records(found, schema.SPARSE_DIMENSIONS))
        if found is None or not dimensions:
            return None
        order, blocks = (self.indices(found, field) for field in (schema.SPARSE_ORDER, schema.SPARSE_BLOCKS))
        return Sparsity(order, blocks, tuple(self.sparse_dimension(each) for each in dimensions))

    def sparse_dimension(self, found: Record) -> SparseDimension:
        kind, size = found.number(schema.DIMENSION_FORMAT, INT8), found.number(schema.DIMENSION_SIZE, INT32)
        if kind == schema.DENSE:
            return SparseDimension(True, size)
        if kind != schema.SPARSE_CSR:
            raise ModelError(f"a sparse tensor has a dimension of the unknown format {kind}")
        fields = (schema.DIMENSION_SEGMENTS, schema.DIMENSION_INDICES)
        return SparseDimension(False, size, *(self.sparse_indices(found, *each) for each in fields))

    def sparse_indices(self, owner: Record, kind: int, field: int) -> Array:
        vector, dtype = owner.record(field), _SPARSE_INDICES[owner.number(kind, UINT8)]
        if vector is None:
            raise ModelError("the file is damaged: a sparse dimension lacks its indices")
        return self.vector(vector, 0, dtype)

    def operator(self, index: int, found: Record) -> Operator:
        code = found.number(schema.OPERATOR_CODE, UINT32)
        if not 0 <= code < len(self.codes):
            raise ModelError(f"operator {index} has the code {code}, the model states {len(self.codes)}")
        name, version = self.codes[code]
        inputs, outputs, between = (self.indices(found, field) for field in schema.OPERATOR_TENSORS)
        (options, unread), custom = self.options(name, found), self.custom_options(found)
        return Operator(index, name, inputs, outputs, options, custom, between, unread, max(version, 1))

    def custom_options(self, found: Record) -> bytes:
        inside = found.numbers(schema.OPERATOR_CUSTOM, np.uint8)
        if inside is None:
            offset, size = (found.number(field, UINT64) for field in schema.OPERATOR_LARGE_CUSTOM)
            raw = bytes(self.appended(offset, size, "custom options"))
        else:
            raw = inside.tobytes()
        self.spend(len(raw))
        return raw

    def options(self, operator: str, found: Record) -> tuple[dict[str, Any], str]:
        """All options by name, and what of them cannot be read."""
        expected = schema.options_class(operator)
        for union, classes in schema.UNIONS.items():
            kind, field = schema.UNION_FIELDS[union]
            code, table = found.number(kind, UINT8), found.table(field)
            name = classes.get(code)
            if code and name is None:
                return {}, f"its options are of the unknown class {code} of {union}"
            if name is None or name != expected or table is None:
                continue
            if schema.younger(name, table):
                return {}, f"its {name} have a field that is not known"
            options = schema.options_of(name, table)
            return {entry.key: self.option(options, entry) for entry in schema.accessors(name)}, ""
        return {}, ""

    def option(self, options: Any, entry: schema.Accessor) -> Any:
        if not entry.many:
            value = getattr(options, entry.method)()
            return self.text(value) if isinstance(value, bytes) else value
        found = getattr(options, entry.method + "AsNumpy")() if entry.field is None else entry.field.numbers(options)
        if isinstance(found, int):  # what flatbuffers gives for a vector that is left out
            return ()
        self.spend(found.size)
        return self.listed(found)

    def signature(self, found: Record, subgraphs: tuple[Subgraph, ...]) -> Signature:
        position = found.number(schema.SIGNATURE_GRAPH, UINT32)
        if position >= len(subgraphs):
            raise ModelError(f"a signature names subgraph {position}, the model has {len(subgraphs)}")
        count = len(subgraphs[position].tensors)
        ports = []
        for field in schema.SIGNATURE_PORTS:
            named = {
                self.text(each.text(schema.PORT_NAME)): each.number(schema.PORT_TENSOR, UINT32)
                for each in self.records(found, field)
                if each.numbers(schema.PORT_NAME, np.uint8) is not None
            }
            if any(not 0 <= index < count for index in named.values()):
                raise ModelError("a signature names a tensor that does not exist")
            ports.append(named)
        return Signature(self.text(found.text(schema.SIGNATURE_KEY)), position, ports[0], ports[1])


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
