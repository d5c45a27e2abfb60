"""Constants of a model in ONNX: in the file, beside it, or sparse; larger ones are taken out of what is inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import brief, printable
from layoutsolve.errors import ModelError
from layoutsolve.io.source import Folder, Part, joined
from layoutsolve.ir.budget import GROWTH, SPARE
from layoutsolve.ir.elements import unpacked
from layoutsolve.ir.graph import PACKED, Array, Dim
from layoutsolve.proto.messages import DOMAINS, GraphProto, ModelProto, SparseTensorProto, TensorProto
from layoutsolve.proto.messages import TYPES as CODES
from layoutsolve.proto.operator_schemas import MOST_DIMENSIONS
from layoutsolve.proto.scopes import graphs_of

SMALL = 1 << 10
"""Bytes up to which a constant stays in a model: sizes may follow from it."""

TYPES: Mapping[int, str] = {code: name for name, code in CODES.items() if name != "complex64"}
"""The types of elements that operators are known to compute with, by their codes; others are foreign."""

OVERRIDABLE = 4
"""The version of the format from which on an input may have a default, which is then no constant."""

_FIELDS: Mapping[int, tuple[str, str]] = {
    TensorProto.FLOAT: ("float_data", "float32"),
    TensorProto.DOUBLE: ("double_data", "float64"),
    TensorProto.FLOAT16: ("int32_data", "uint16"),
    TensorProto.BFLOAT16: ("int32_data", "uint16"),
    TensorProto.INT4: ("int32_data", "uint8"),
    TensorProto.UINT4: ("int32_data", "uint8"),
    TensorProto.INT8: ("int32_data", "int8"),
    TensorProto.UINT8: ("int32_data", "uint8"),
    TensorProto.INT16: ("int32_data", "int16"),
    TensorProto.UINT16: ("int32_data", "uint16"),
    TensorProto.INT32: ("int32_data", "int32"),
    TensorProto.UINT32: ("uint64_data", "uint32"),
    TensorProto.INT64: ("int64_data", "int64"),
    TensorProto.UINT64: ("uint64_data", "uint64"),
    TensorProto.BOOL: ("int32_data", "bool"),
}
"""By type the field that elements are in where they are not raw bytes, and the type of what is there."""


@dataclass(frozen=True, eq=False)
class Constant:
    """Elements of a type; None for those of a type that only the file's own operators understand, which stay in
    ``proto``.
    """

    dtype: str
    data: Array | None
    proto: TensorProto | None = None


def taken(model: ModelProto, folder: Folder | None) -> tuple[ModelProto, dict[str, Constant], int]:
    """A copy of a model without its larger constants, which are inputs there, all constants of its graph, and how many
    bytes of other files these are in. Neither of the first two has what inputs are by default: who runs the model may
    give something else.
    """
    sparse_ones = model.graph.sparse_initializer
    beside = Beside(
        folder, [*model.graph.initializer, *(part for each in sparse_ones for part in (each.values, each.indices))]
    )
    _check_zeros(sparse_ones, model.ByteSize() + beside.size)
    found: dict[str, Constant] = {}
    outline = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _copy(outline, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name not in ("initializer", "sparse_initializer"):
            _copy(outline.graph, field.name, value)
    _open(outline.graph)
    inputs = {port.name for port in model.graph.input}
    replaceable = inputs if model.ir_version >= OVERRIDABLE else ()
    for each in model.graph.initializer:
        constant = found[each.name] = of(each, beside)
        if each.name in replaceable and constant.data is not None:
            continue
        if constant.data is not None and constant.data.nbytes <= SMALL and not each.external_data:
            outline.graph.initializer.append(each)
        elif each.name not in inputs:
            tensor_type = outline.graph.input.add(name=each.name).type.tensor_type
            tensor_type.elem_type = each.data_type
            tensor_type.shape.SetInParent()
            for size in each.dims:
                tensor_type.shape.dim.add(dim_value=size)
    for sparse in sparse_ones:
        found[sparse.values.name] = dense(sparse, beside)
        outline.graph.sparse_initializer.append(sparse)
    return outline, found, beside.size


def _check_zeros(tensors: Iterable[SparseTensorProto], size: int) -> None:
    """Raise :class:`ModelError` where sparse tensors of a model of so many bytes are too large in memory."""
    taken, most = {each.values.name: dense_bytes(each) for each in tensors}, GROWTH * size + SPARE
    if (total := sum(taken.values())) > most:
        largest = max(taken, key=lambda name: taken[name])
        raise ModelError(
            f"its sparse constants take {total} bytes with their zeros, where {most} are the most; the largest is"
            f" '{printable(largest)}'"
        )


def _open(graph: GraphProto) -> None:
    """Sizes below 0 are sizes that are not known, as some exporters write them; inference would compute with them."""
    for port in (*graph.input, *graph.output, *graph.value_info):
        if port.type.HasField("tensor_type"):
            for dim in port.type.tensor_type.shape.dim:
                if dim.dim_value < 0:
                    dim.Clear()
    for node in graph.node:
        for inner in graphs_of(node):
            _open(inner)


def _copy(into: object, name: str, value: object) -> None:
    place = getattr(into, name)
    if hasattr(place, "extend"):
        place.extend(value)
    elif hasattr(place, "CopyFrom"):
        place.CopyFrom(value)
    else:
        setattr(into, name, value)


def tensors_of(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """The constants of a graph itself, by name: initializers, and what is in a Constant."""
    for each in graph.initializer:
        yield each.name, each
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in DOMAINS:
            yield from ((name, each.t) for name in node.output for each in node.attribute if each.name == "value")


def of(proto: TensorProto, beside: Beside | None = None) -> Constant:
    """Elements of a tensor. Raises :class:`ModelError` where their number contradicts its shape, or where they are in
    external data that may not be read.
    """
    dtype, shape = TYPES.get(proto.data_type), tuple(proto.dims)
    count = elements(f"constant '{proto.name}'", shape)
    if len(shape) > MOST_DIMENSIONS:
        raise ModelError(f"constant '{proto.name}' has {len(shape)} dimensions, at most {MOST_DIMENSIONS} are possible")
    if dtype is None or proto.HasField("segment"):
        return Constant("", None, proto)
    if dtype == "string":
        texts = list(proto.string_data)
        _check(proto, len(texts), count)
        return Constant(dtype, np.array([*texts, None], object)[:-1].reshape(shape))
    if proto.data_location == TensorProto.EXTERNAL:
        return Constant(dtype, (beside or Beside(None, [])).elements(proto, dtype, count).reshape(shape))
    if proto.HasField("raw_data"):
        return Constant(dtype, _shaped(proto, np.frombuffer(proto.raw_data, np.uint8), dtype, count).reshape(shape))
    field, stored = _FIELDS[proto.data_type]
    data = np.array(getattr(proto, field), np.int64 if field == "int32_data" else None).astype(stored)
    if dtype in ("float16", "bfloat16"):
        return Constant(dtype, _shaped(proto, data.view(np.uint8), dtype, count).reshape(shape))
    if dtype in PACKED:
        return Constant(dtype, _shaped(proto, data.astype(np.uint8), dtype, count).reshape(shape))
    _check(proto, data.size, count)
    return Constant(dtype, data.reshape(shape))


def elements(called: str, shape: Sequence[Dim]) -> int:
    """The number of elements of a shape, of which no array can have sizes below 0, or far too many, empty or not."""
    sizes = [size for size in shape if isinstance(size, int)]
    if any(size < 0 for size in sizes):
        raise ModelError(f"{called} has a size below 0: {brief(sizes)}")
    if len(shape) > MOST_DIMENSIONS:
        raise ModelError(f"{called} has {len(shape)} dimensions, where at most {MOST_DIMENSIONS} can be read")
    if prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
        raise ModelError(f"{called} has sizes that no memory holds: {brief(sizes)}; correct what they follow from")
    return prod(sizes)


_MOST_ELEMENTS = 1 << 56
"""The most elements of a tensor, where sizes of 0 count as 1: their bytes are counted in 64 bits."""


def _shaped(proto: TensorProto, raw: Array, dtype: str, count: int) -> Array:
    """Elements of their bytes."""
    if dtype in PACKED:
        _check(proto, raw.size, -(-count // 2))
        return unpacked(raw, dtype)[:count]
    kind = numpy_type(dtype)
    _check(proto, raw.size, count * kind.itemsize)
    if raw.ctypes.data % kind.alignment:
        raw = raw.copy()
    return raw.view(kind)


def numpy_type(dtype: str) -> np.dtype[np.generic]:
    if dtype == "bfloat16":
        import ml_dtypes  # what onnx itself needs; only few models do

        found: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(dtype)


def _check(proto: TensorProto, found: int, wanted: int) -> None:
    if found != wanted:
        said = f"constant '{proto.name}' has {found} elements or bytes, where its shape asks for {wanted}"
        raise ModelError(f"{said}: the file is damaged, export the model again")


class Beside:
    """The files beside a model that constants of it are in. Of each file the parts are read that tensors name. Tensors
    that name the same part share its memory.
    """

    def __init__(self, folder: Folder | None, tensors: Iterable[TensorProto]) -> None:
        self._folder = folder
        self._read: dict[tuple[Path, Part, str, int], Array] = {}
        parts: dict[Path, dict[Part, str]] = {}
        copied: dict[Path, set[Part]] = {}
        for each in tensors:
            if each.data_location == TensorProto.EXTERNAL:
                path, part, said = self._place(each)
                parts.setdefault(path, {}).setdefault(part, said)
                if _is_copied(part, each.data_type):
                    copied.setdefault(path, set()).add(part)
        self.size = 0
        for path, named in parts.items():
            covered = sum(length for _, length in joined(named))
            again, said = sum(length for _, length in copied.get(path, ())), next(iter(named.values()))
            if again > GROWTH * covered + SPARE:
                raise ModelError(
                    f"{said}, of which constants name {covered} bytes again and again, {again} in all that do not begin"
                    f" where numbers do: align them"
                )
            self.size += covered
            try:
                if folder is not None:
                    folder.hold(path, named)
            except (OSError, ValueError) as error:
                raise ModelError(f"{said}, which cannot be read: {error}") from error

    def _place(self, proto: TensorProto) -> tuple[Path, Part, str]:
        """Which part of which file a constant is, and a text that says so."""
        facts, location = {entry.key: entry.value for entry in proto.external_data}, _location(proto)
        said = f"constant '{proto.name}' is kept in the file '{printable(location)}'"
        if self._folder is None:
            raise ModelError(f"{said} beside the model: give the model's path instead of its bytes")
        try:
            path = (self._folder.path / location).resolve(strict=True)
            inside = bool(location) and path.is_relative_to(self._folder.path.resolve()) and path.is_file()
            size = path.stat().st_size
            offset = _number(facts.get("offset", "0"))
            length = _number(facts["length"]) if "length" in facts else size - offset
        except (OSError, ValueError, RuntimeError) as error:
            remedy = ": put it beside the model" if isinstance(error, FileNotFoundError) else ""
            raise ModelError(f"{said}, which cannot be read: {error}{remedy}") from error
        if not inside:
            raise ModelError(f"{said}, which is not in the model's folder: put it there")
        if length < 0 or offset + length > size:
            raise ModelError(f"{said} from byte {offset} on, {length} bytes long, but that has {size} bytes")
        return path, (offset, length), said

    def length(self, proto: TensorProto) -> int:
        """How many bytes a constant has."""
        return self._place(proto)[1][1]

    def elements(self, proto: TensorProto, dtype: str, count: int) -> Array:
        """The elements of a constant, so many of a type."""
        path, part, _ = self._place(proto)
        key = path, part, dtype, count
        if key not in self._read:
            held = b"" if self._folder is None else self._folder.read(path, part)
            raw = np.frombuffer(held, np.uint8) if part[1] else np.zeros(0, np.uint8)
            self._read[key] = _shaped(proto, raw, dtype, count)
        return self._read[key]


def _is_copied(part: Part, code: int) -> bool:
    """Whether elements cannot stay where they lie in a file."""
    dtype = TYPES.get(code, "string")
    return dtype in PACKED or (dtype != "string" and part[0] % numpy_type(dtype).alignment > 0)


def _number(text: str) -> int:
    """A number of bytes. Raises :class:`ValueError` for what is none."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"'{brief(text)}' is no number of bytes")
    return int(text)


def _location(proto: TensorProto) -> str:
    """The name of the file that a constant is in, '' where none is told."""
    return next((entry.value for entry in reversed(proto.external_data) if entry.key == "location"), "")


def dense_bytes(proto: SparseTensorProto) -> int:
    """The bytes of the elements of a sparse tensor, zeros included."""
    dtype = TYPES.get(proto.values.data_type, "string")
    return 0 if dtype == "string" else prod(proto.dims) * numpy_type(dtype).itemsize


def dense(proto: SparseTensorProto, beside: Beside | None = None) -> Constant:
    """The elements of a sparse tensor, zeros included."""
    values, indices, shape = of(proto.values, beside), of(proto.indices, beside), tuple(proto.dims)
    name = proto.values.name
    size = elements(f"the sparse constant '{name}'", shape)
    if values.data is None or indices.data is None or values.dtype == "string":
        raise ModelError(f"the sparse constant '{name}' is of a type that sparse ones cannot have")
    if size > _MOST_SPARSE * max(values.data.size, 1 << 10):
        raise ModelError(f"the sparse constant '{name}' has the shape {list(shape)}, far more than its elements")
    data, places = np.zeros(size, values.data.dtype), np.asarray(indices.data, np.int64)
    if places.ndim == 2 and places.shape[1] == len(shape):
        limits = np.array(shape, np.int64)
        if (places < 0).any() or (places >= limits).any():
            raise ModelError(f"the sparse constant '{name}' has elements outside of its shape {list(shape)}")
        places = np.ravel_multi_index(tuple(places.T), shape) if places.size else np.zeros(0, np.int64)
    if places.ndim != 1 or places.size != values.data.size or ((places < 0) | (places >= size)).any():
        raise ModelError(f"the sparse constant '{name}' has indices that do not fit its elements")
    data[places] = values.data.reshape(-1)
    return Constant(values.dtype, data.reshape(shape))


_MOST_SPARSE = 1 << 10
"""How many zeros a sparse constant may have for each element."""
