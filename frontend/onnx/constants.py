"""Constants of a model in ONNX: in the file, beside it, or sparse; larger ones are taken out of what is inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.graph import PACKED, Array, Dim, unpacked
from layoutsolve.protos import TYPES as CODES
from layoutsolve.protos import GraphProto, ModelProto, SparseTensorProto, TensorProto
from layoutsolve.records import dataclass
from layoutsolve.scopes import graphs_of
from layoutsolve.source import Folder
from layoutsolve.wording import brief

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


def taken(model: ModelProto, folder: Folder | None) -> tuple[ModelProto, dict[str, Constant]]:
    """A copy of a model without its larger constants, which are inputs there, and all constants of its graph. Neither
    has it what inputs are by default: who runs the model may give something else.
    """
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
        constant = found[each.name] = of(each, folder)
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
    for sparse in model.graph.sparse_initializer:
        found[sparse.values.name] = dense(sparse, folder)
        outline.graph.sparse_initializer.append(sparse)
    return outline, found


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


def beside(model: ModelProto, folder: Folder | None) -> int:
    """The bytes of all files that a model keeps constants in."""
    if folder is None:
        return 0
    graph = model.graph
    every = [*graph.initializer, *(part for each in graph.sparse_initializer for part in (each.values, each.indices))]
    places = {_place(each) for each in every if each.data_location == TensorProto.EXTERNAL}
    sizes: dict[Path, int] = {}
    for place in places:
        with suppress(OSError, ValueError, RuntimeError):  # which reading it tells
            path = (folder.path / place).resolve(strict=True)
            sizes[path] = path.stat().st_size
    return sum(sizes.values())


def of(proto: TensorProto, folder: Folder | None = None) -> Constant:
    """The elements of a tensor. Raises :class:`ModelError` where they are not as many as its shape says, or are kept
    where nothing may be read.
    """
    dtype, shape = TYPES.get(proto.data_type), tuple(proto.dims)
    count = elements(f"constant '{proto.name}'", shape)
    if len(shape) > _MOST_DIMENSIONS:
        raise ModelError(
            f"constant '{proto.name}' has {len(shape)} dimensions, at most {_MOST_DIMENSIONS} are possible"
        )
    if dtype is None or proto.HasField("segment"):
        return Constant("", None, proto)
    if dtype == "string":
        texts = list(proto.string_data)
        _check(proto, len(texts), count)
        return Constant(dtype, np.array([*texts, None], object)[:-1].reshape(shape))
    if proto.data_location == TensorProto.EXTERNAL:
        return Constant(dtype, _shaped(proto, _external(proto, folder), dtype, count).reshape(shape))
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
    if len(shape) > _MOST_DIMENSIONS:
        raise ModelError(f"{called} has {len(shape)} dimensions, where at most {_MOST_DIMENSIONS} can be read")
    if prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
        raise ModelError(f"{called} has sizes that no memory holds: {brief(sizes)}; correct what they follow from")
    return prod(sizes)


_MOST_ELEMENTS, _MOST_DIMENSIONS = 1 << 56, 32
"""The most elements of a tensor, where sizes of 0 count as 1: their bytes are counted in 64 bits. The most dimensions
of an array, which NumPy has in all versions.
"""


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
        raise ModelError(f"constant '{proto.name}' has {found} elements or bytes, where its shape asks for {wanted}")


def _external(proto: TensorProto, folder: Folder | None) -> Array:
    """The bytes of a constant that is kept in a file beside the model."""
    facts, location = {entry.key: entry.value for entry in proto.external_data}, _place(proto)
    said = f"constant '{proto.name}' is kept in the file '{location}'"
    if folder is None:
        raise ModelError(f"{said} beside the model: give the model's path instead of its bytes")
    path = folder.path / location
    try:
        inside = bool(location) and path.resolve(strict=True).is_relative_to(folder.path.resolve()) and path.is_file()
        data = folder.read(path.resolve()) if inside else b""
        offset, size = int(facts.get("offset", 0)), len(data)
        length = int(facts.get("length", size - offset))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{said}, which cannot be read: {error}") from error
    if not inside:
        raise ModelError(f"{said}, which is not in the model's folder: put it there")
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(f"{said} from byte {offset} on, {length} bytes long, but that has {size} bytes")
    return np.frombuffer(data, np.uint8)[offset : offset + length]


def _place(proto: TensorProto) -> str:
    """The name of the file that a constant is in, '' where none is told."""
    return next((entry.value for entry in reversed(proto.external_data) if entry.key == "location"), "")


def dense(proto: SparseTensorProto, folder: Folder | None = None) -> Constant:
    """The elements of a sparse tensor, zeros included."""
    values, indices, shape = of(proto.values, folder), of(proto.indices, folder), tuple(proto.dims)
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
