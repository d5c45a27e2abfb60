"""The classes of ONNX's file format, what checks them, and how attributes and descriptions of tensors are made."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING

from layoutsolve.base.lazy_imports import part

if TYPE_CHECKING:
    import onnx as _classes
else:
    _classes = part("onnx", "onnx_ml_pb2")

AttributeProto = _classes.AttributeProto
FunctionProto = _classes.FunctionProto
GraphProto = _classes.GraphProto
ModelProto = _classes.ModelProto
NodeProto = _classes.NodeProto
OperatorSetIdProto = _classes.OperatorSetIdProto
SparseTensorProto = _classes.SparseTensorProto
TensorProto = _classes.TensorProto
TensorShapeProto = _classes.TensorShapeProto
TypeProto = _classes.TypeProto
ValueInfoProto = _classes.ValueInfoProto

native = part("onnx", "onnx_cpp2py_export")

NEWEST_OPSET: int = native.defs.schema_version_map()[""][1]
"""The newest operator set that the installed onnx knows."""

REFUSALS = (native.checker.ValidationError, native.shape_inference.InferenceError, RuntimeError, ValueError)
"""What is raised for a model that ONNX does not allow."""


def inferred(model: bytes, follow: bool) -> ModelProto:
    """A model with the types and sizes that follow from its inputs; whether numbers are to be followed as well.

    Raises one of :data:`REFUSALS` where the model breaks a rule of ONNX, or where its operators or what it says of its
    own tensors do not fit. As ``onnx.checker.check_model`` and ``onnx.shape_inference.infer_shapes`` do it.
    """
    native.checker.check_model(model, False, False, False)
    found: ModelProto = ModelProto.FromString(native.shape_inference.infer_shapes(model, True, True, follow))
    return found


TYPES: Mapping[str, int] = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
}
"""The code of each type of elements by its name."""

DOMAINS = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""


def graphs_in(attribute: AttributeProto) -> list[GraphProto]:
    """The graphs that an attribute holds."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def integer(node: NodeProto, name: str, default: int) -> int:
    """What a node has as an attribute that is one integer, or its default."""
    return next((each.i for each in node.attribute if each.name == name), default)


def integers(node: NodeProto, name: str) -> tuple[int, ...]:
    """What a node has as an attribute that is a list of integers, none where it is left out."""
    return next((tuple(each.ints) for each in node.attribute if each.name == name), ())


def permutation(transpose: NodeProto) -> tuple[int, ...] | None:
    """Permutation of a Transpose, None where it has the default and reverses the axes."""
    return integers(transpose, "perm") or None


def leave_out(node: NodeProto, names: Container[str]) -> None:
    """Take some attributes off a node."""
    kept = [each for each in node.attribute if each.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)


def attribute(name: str, value: object) -> AttributeProto:
    """An attribute of a node. Raises :class:`TypeError` or :class:`ValueError` for what none can be."""
    if isinstance(value, Integral):
        return AttributeProto(name=name, type=AttributeProto.INT, i=int(value))
    if isinstance(value, Real):
        return AttributeProto(name=name, type=AttributeProto.FLOAT, f=float(value))
    if isinstance(value, (str, bytes)):
        return AttributeProto(name=name, type=AttributeProto.STRING, s=_bytes(value))
    if isinstance(value, TensorProto):
        return AttributeProto(name=name, type=AttributeProto.TENSOR, t=value)
    if isinstance(value, GraphProto):
        return AttributeProto(name=name, type=AttributeProto.GRAPH, g=value)
    values = list(value) if isinstance(value, Iterable) else []
    if values and all(isinstance(each, Integral) for each in values):
        return AttributeProto(name=name, type=AttributeProto.INTS, ints=map(int, values))
    if values and all(isinstance(each, Real) for each in values):
        return AttributeProto(name=name, type=AttributeProto.FLOATS, floats=values)
    if values and all(isinstance(each, (str, bytes)) for each in values):
        return AttributeProto(name=name, type=AttributeProto.STRINGS, strings=map(_bytes, values))
    raise TypeError(f"{value!r:.80} is no attribute")


def decoded(found: AttributeProto) -> object:
    """The value of an attribute of numbers or texts; None for any other."""
    single = {AttributeProto.FLOAT: found.f, AttributeProto.INT: found.i}
    many = {AttributeProto.FLOATS: found.floats, AttributeProto.INTS: found.ints}
    if found.type == AttributeProto.STRING:
        return found.s.decode("utf-8", "replace")
    if found.type == AttributeProto.STRINGS:
        return tuple(text.decode("utf-8", "replace") for text in found.strings)
    return tuple(many[found.type]) if found.type in many else single.get(found.type)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def port(name: str, element: int, shape: Iterable[int | str]) -> ValueInfoProto:
    """The description of a tensor, whose dimensions are numbers, or names of what is not known."""
    info = ValueInfoProto(name=name)
    tensor_type = info.type.tensor_type
    tensor_type.elem_type = element
    tensor_type.shape.SetInParent()
    for dim in shape:
        tensor_type.shape.dim.add(**{"dim_value" if isinstance(dim, int) else "dim_param": dim})
    return info


def opset_of(model: ModelProto) -> int:
    """The version of ONNX's own operators in a model, 1 where it imports none."""
    return next((each.version for each in model.opset_import if each.domain in DOMAINS), 1)
