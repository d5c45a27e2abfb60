"""A TensorFlow Lite model as the bytes of its file: what the reader makes of a file, written back."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np

from layoutsolve.emit.tflite.versions import version_of
from layoutsolve.errors import OutputError
from layoutsolve.frontend.tflite.reading import schema
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Quantization, Signature, Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.reader import IDENTIFIER
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import memory
from layoutsolve.ir.graph import Array

VERSION = 3
"""The version of the schema."""

ALIGNMENT = 16
"""What LiteRT wants constants aligned to."""

SMALL = 1 << 10
"""Bytes of a constant up to which it shares its buffer with those that are equal."""

LIMIT = (1 << 31) - (1 << 20)
"""Fewer bytes than a flatbuffer can have: its offsets have 31 bits."""

_CODES = {name: code for code, name in schema.OPERATORS.items()}
_TYPES = {name: code for code, name in schema.TYPES.items()}
_CLASSES = {name: (union, code) for union, classes in schema.UNIONS.items() for code, name in classes.items()}
_BITS = {"int4": 4, "uint4": 4, "int2": 2}
_VERSION = 2
"""The field of an operator code that has its version."""

_PLACEHOLDER = 127
"""What the narrow field of an operator code has where its number is wider."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of associated files: the same model gives the same bytes."""


def encode(model: Model, budget: Budget) -> bytes:
    """The bytes of a model, which count in the ``budget``. Raises :class:`OutputError` for one that a flatbuffer cannot
    hold.
    """
    different = {memory(data): data for data in _constants(model)}
    size = sum(data.nbytes for data in different.values())
    budget.write(size, "its constants")
    if size > LIMIT:
        raise OutputError(
            f"the constants have {size} bytes, and a .tflite file can hold {LIMIT}: quantize the weights, or write ONNX"
        )
    data = _Encoder(size).model(model)
    return _with_files(data, model.files) if model.files else data


def writes(operator: Operator) -> bool:
    """Whether an operator's options can be written: the ``tflite`` package knows all of those that are set."""
    entries = schema.accessors(schema.options_class(operator.name))
    return not operator.unread and not any(entry.field and operator.options.get(entry.key) for entry in entries)


def _constants(model: Model) -> Iterator[Array]:
    """All constants, and what metadata hold."""
    yield from (np.frombuffer(data, np.uint8) for data in model.metadata.values())
    for subgraph in model.subgraphs:
        yield from (tensor.data for tensor in subgraph.tensors if tensor.data is not None)


def _with_files(data: bytes, files: Mapping[str, bytes]) -> bytes:
    """A model with files packed behind it, as TensorFlow Lite Metadata has them."""
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return buffer.getvalue()


class _Sizes:
    """Stands for a builder, and tells of how many bytes an element of a vector is."""

    def StartVector(self, size: int, count: int, alignment: int) -> int:  # noqa: N802  (the name is flatbuffers')
        return size


class _Encoder:
    """Writes the tables of a model, each after those that it refers to."""

    def __init__(self, size: int) -> None:
        self.builder = flatbuffers.Builder(size + (1 << 16))
        self.buffers: list[int] = []
        self.known: dict[tuple[object, ...], int] = {}

    def model(self, model: Model) -> bytes:
        self.buffers.append(self.table(3, {}))
        codes: dict[tuple[str, int], int] = {}
        subgraphs = [self.subgraph(subgraph, codes) for subgraph in model.subgraphs]
        metadata = [self.metadata(name, data) for name, data in model.metadata.items()]
        signatures = [self.signature(each) for each in model.signatures]
        written = [self.code(name, version) for name, version in codes]
        description = self.builder.CreateString(model.description)
        buffers = self.offsets(self.buffers)
        fields = {
            0: ("Uint32", VERSION),
            schema.MODEL_CODES: ("UOffsetTRelative", self.offsets(written)),
            schema.MODEL_SUBGRAPHS: ("UOffsetTRelative", self.offsets(subgraphs)),
            schema.MODEL_DESCRIPTION: ("UOffsetTRelative", description),
            schema.MODEL_BUFFERS: ("UOffsetTRelative", buffers),
            schema.MODEL_METADATA: ("UOffsetTRelative", self.offsets(metadata) if metadata else 0),
            schema.MODEL_SIGNATURES: ("UOffsetTRelative", self.offsets(signatures) if signatures else 0),
        }
        self.builder.Finish(self.table(8, fields), file_identifier=IDENTIFIER)
        return bytes(self.builder.Output())

    def table(self, width: int, fields: Mapping[int, tuple[str, Any]], ones: Collection[int] = ()) -> int:
        """A table of so many fields; those that are 0 are left out, as their default is, which is 1 of ``ones``."""
        self.builder.StartObject(width)
        for place, (kind, value) in fields.items():
            getattr(self.builder, f"Prepend{kind}Slot")(place, value, int(place in ones))
        return int(self.builder.EndObject())

    def offsets(self, tables: Sequence[int]) -> int:
        """A vector of tables, or of texts."""
        self.builder.StartVector(4, len(tables), 4)
        for each in reversed(tables):
            self.builder.PrependUOffsetTRelative(each)
        return int(self.builder.EndVector())

    def numbers(self, values: Iterable[Any] | Array, dtype: type[np.generic]) -> int:
        """A vector of numbers."""
        array = np.asarray(values if isinstance(values, np.ndarray) else [*values], dtype)
        return int(self.builder.CreateNumpyVector(array))

    def code(self, name: str, version: int) -> int:
        custom = name.partition("CUSTOM:")[2] if name.startswith("CUSTOM:") else None
        number = schema.CUSTOM if custom is not None else _CODES[name]
        text = 0 if custom is None else self.builder.CreateString(custom)
        fields = {
            schema.CODE_NARROW: ("Int8", min(number, _PLACEHOLDER)),
            schema.CODE_CUSTOM: ("UOffsetTRelative", text),
            _VERSION: ("Int32", version),
            schema.CODE_WIDE: ("Int32", number),
        }
        return self.table(4, fields, ones=(_VERSION,))

    def subgraph(self, subgraph: Subgraph, codes: dict[tuple[str, int], int]) -> int:
        tensors = [self.tensor(each) for each in subgraph.tensors]
        operators = [self.operator(each, subgraph, codes) for each in subgraph.operators]
        name = self.builder.CreateString(subgraph.name)
        fields = {
            schema.GRAPH_TENSORS: ("UOffsetTRelative", self.offsets(tensors)),
            schema.GRAPH_INPUTS: ("UOffsetTRelative", self.numbers(subgraph.inputs, np.int32)),
            schema.GRAPH_OUTPUTS: ("UOffsetTRelative", self.numbers(subgraph.outputs, np.int32)),
            schema.GRAPH_OPERATORS: ("UOffsetTRelative", self.offsets(operators)),
            schema.GRAPH_NAME: ("UOffsetTRelative", name),
        }
        return self.table(5, fields)

    def tensor(self, tensor: Tensor) -> int:
        buffer = 0 if tensor.data is None else self.buffer(tensor.data, tensor.dtype)
        quant = 0 if tensor.quant is None else self.quantization(tensor.quant)
        name, shape = self.builder.CreateString(tensor.name), self.numbers(tensor.shape, np.int32)
        signature = self.numbers(tensor.signature, np.int32) if -1 in tensor.signature else 0
        fields = {
            schema.TENSOR_SHAPE: ("UOffsetTRelative", shape),
            schema.TENSOR_TYPE: ("Int8", _TYPES[tensor.dtype]),
            schema.TENSOR_BUFFER: ("Uint32", buffer),
            schema.TENSOR_NAME: ("UOffsetTRelative", name),
            schema.TENSOR_QUANTIZATION: ("UOffsetTRelative", quant),
            schema.TENSOR_VARIABLE: ("Bool", tensor.is_variable),
            schema.TENSOR_SIGNATURE: ("UOffsetTRelative", signature),
            8: ("Bool", True),
        }
        return self.table(9, fields)

    def quantization(self, quant: Quantization) -> int:
        scale = self.numbers(quant.scale, np.float32)
        zero = self.numbers(quant.zero_point, np.int64)
        fields = {
            schema.QUANT_SCALE: ("UOffsetTRelative", scale),
            schema.QUANT_ZERO_POINT: ("UOffsetTRelative", zero),
            schema.QUANT_AXIS: ("Int32", quant.axis),
        }
        return self.table(7, fields)

    def buffer(self, data: Array, dtype: str) -> int:
        """The number of the buffer that holds a constant; equal constants share one."""
        key = (*memory(data), dtype)
        if key not in self.known:
            self.known[key] = self.stored(_packed(data, dtype))
        return self.known[key]

    def stored(self, data: Array) -> int:
        """The number of a new buffer with some bytes; those of the same few bytes are one."""
        key = (data.tobytes(),) if data.nbytes <= SMALL else ()
        if not key or key not in self.known:
            self.buffers.append(self.table(3, {schema.BUFFER_DATA: ("UOffsetTRelative", self.bytes(data))}))
            if not key:
                return len(self.buffers) - 1
            self.known[key] = len(self.buffers) - 1
        return self.known[key]

    def bytes(self, stored: Array) -> int:
        """A vector of bytes where LiteRT wants constants to begin."""
        builder = self.builder
        builder.StartVector(1, stored.nbytes, ALIGNMENT)
        builder.head -= stored.nbytes
        builder.Bytes[builder.head : builder.head + stored.nbytes] = stored.tobytes()
        return int(builder.EndVector())

    def operator(self, operator: Operator, subgraph: Subgraph, codes: dict[tuple[str, int], int]) -> int:
        kind = operator.name, version_of(operator, subgraph.tensors)
        code = codes.setdefault(kind, len(codes))
        inputs, outputs = (self.numbers(each, np.int32) for each in (operator.inputs, operator.outputs))
        between = self.numbers(operator.intermediates, np.int32) if operator.intermediates else 0
        custom = (
            self.numbers(np.frombuffer(operator.custom_options, np.uint8), np.uint8) if operator.custom_options else 0
        )
        anew = not operator.version  # compilers expect a table, though nothing is set in it
        name = schema.options_class(operator.name) if operator.options or anew else ""
        read, written, third = schema.OPERATOR_TENSORS
        fields: dict[int, tuple[str, Any]] = {
            schema.OPERATOR_CODE: ("Uint32", code),
            read: ("UOffsetTRelative", inputs),
            written: ("UOffsetTRelative", outputs),
            third: ("UOffsetTRelative", between),
            schema.OPERATOR_CUSTOM: ("UOffsetTRelative", custom),
        }
        if name:
            union, number = _CLASSES[name]
            kind_field, table_field = schema.UNION_FIELDS[union]
            table = self.options(name, operator.options)
            fields |= {kind_field: ("Uint8", number), table_field: ("UOffsetTRelative", table)}
        return self.table(13, fields)

    def options(self, name: str, options: Mapping[str, Any]) -> int:
        """A table of options, by the functions of the ``tflite`` package that write its fields."""
        package = schema.module(name)
        ready: list[tuple[str, Any]] = []
        for entry in schema.accessors(name):
            value = options.get(entry.key)
            if value is None or (entry.many and len(value) == 0) or entry.field is not None:
                continue
            if entry.many:
                value = self.vector(package, name, entry.method, value)
            elif isinstance(value, str):
                value = self.builder.CreateString(value)
            ready.append((entry.method, value))
        getattr(package, f"{name}Start")(self.builder)
        for method, value in ready:
            getattr(package, f"{name}Add{method}")(self.builder, value)
        return int(getattr(package, f"{name}End")(self.builder))

    def vector(self, package: Any, name: str, method: str, values: Sequence[int]) -> int:
        start = getattr(package, f"{name}Start{method}Vector")
        size = start(_Sizes(), len(values))
        start(self.builder, len(values))
        builder = self.builder
        whole = {1: builder.PrependUint8, 4: builder.PrependInt32, 8: builder.PrependInt64}[size]
        prepend = self.builder.PrependFloat32 if isinstance(values[0], float) else whole
        for each in reversed(values):
            prepend(each)
        return int(self.builder.EndVector())

    def metadata(self, name: str, data: memoryview) -> int:
        held = np.frombuffer(data, np.uint8)
        key = (*memory(held), "")
        if key not in self.known:
            self.known[key] = self.stored(held)
        text = self.builder.CreateString(name)
        fields = {
            schema.METADATA_NAME: ("UOffsetTRelative", text),
            schema.METADATA_BUFFER: ("Uint32", self.known[key]),
        }
        return self.table(2, fields)

    def signature(self, signature: Signature) -> int:
        ports = [
            self.offsets([self.port(name, index) for name, index in each.items()])
            for each in (signature.inputs, signature.outputs)
        ]
        key = self.builder.CreateString(signature.key)
        first, second = schema.SIGNATURE_PORTS
        fields = {
            first: ("UOffsetTRelative", ports[0]),
            second: ("UOffsetTRelative", ports[1]),
            schema.SIGNATURE_KEY: ("UOffsetTRelative", key),
            schema.SIGNATURE_GRAPH: ("Uint32", signature.subgraph),
        }
        return self.table(5, fields)

    def port(self, name: str, index: int) -> int:
        text = self.builder.CreateString(name)
        fields = {schema.PORT_NAME: ("UOffsetTRelative", text), schema.PORT_TENSOR: ("Uint32", index)}
        return self.table(2, fields)


def _packed(data: Array, dtype: str) -> Array:
    """The bytes of a constant; small integers share bytes, lowest bits first."""
    if dtype in _BITS:
        per_byte = 8 // _BITS[dtype]
        flat = np.asarray(data).reshape(-1).astype(np.uint8) & ((1 << _BITS[dtype]) - 1)
        flat = np.append(flat, np.zeros(-flat.size % per_byte, np.uint8)).reshape(-1, per_byte)
        parts = [flat[:, part] << (part * _BITS[dtype]) for part in range(per_byte)]
        packed: Array = np.bitwise_or.reduce(parts).astype(np.uint8)
        return packed
    plain = dtype in ("string", "bfloat16")
    stored = np.ascontiguousarray(data) if plain else np.ascontiguousarray(data, np.dtype(dtype).newbyteorder("<"))
    return stored.reshape(-1).view(np.uint8)
