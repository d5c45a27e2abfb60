"""What an ONNX model states about itself: names of dimensions, documentation and metadata, which its graph keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.ir.graph import Size, Value
from layoutsolve.proto.messages import (
    GraphProto,
    ModelProto,
    TensorProto,
)
from layoutsolve.proto.scopes import nodes_of


def axes_of(graph: GraphProto, values: Mapping[str, Value]) -> dict[str, dict[str, str]]:
    """What a model calls sizes of tensors that are symbols with other names here. A name stays as it is made here that
    would be read as a multiple.
    """
    found: dict[str, dict[str, str]] = {}
    for port in (*graph.input, *graph.output, *graph.value_info):
        shape, dims = values[port.name].shape if port.name in values else (), port.type.tensor_type.shape.dim
        names = {
            str(own): dim.dim_param
            for own, dim in zip(shape, dims, strict=False)
            if len(shape) == len(dims) and isinstance(own, Size) and own.coefficient == 1 and dim.dim_param
        }
        others = {own: name for own, name in names.items() if own != name and not name.partition("*")[0].isdecimal()}
        if others:
            found[port.name] = others
    return found


def told_by(original: ModelProto, unknown: Sequence[TensorProto]) -> ModelProto:
    """What a model states about itself and its nodes, and constants of types that nothing is known about."""
    found = ModelProto(doc_string=original.doc_string, domain=original.domain, model_version=original.model_version)
    found.training_info.extend(original.training_info)
    found.ir_version = original.ir_version
    found.opset_import.extend(original.opset_import)
    graph = original.graph
    found.graph.doc_string = graph.doc_string
    found.graph.metadata_props.extend(graph.metadata_props)
    found.graph.initializer.extend(unknown)
    for each in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        if each.doc_string or each.metadata_props:
            told = found.graph.value_info.add(name=each.name, doc_string=each.doc_string)
            told.metadata_props.extend(each.metadata_props)
    found.graph.input.extend(graph.input)
    found.graph.output.extend(graph.output)
    for node in nodes_of(graph):
        if node.name:
            told = found.graph.node.add(name=node.name, op_type=node.op_type, doc_string=node.doc_string)
            told.output.extend(node.output)
            told.metadata_props.extend(node.metadata_props)
    return found
