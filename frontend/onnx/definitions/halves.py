"""Models that compute in float16, as ones that compute in float32: for runtimes that have no other floats."""

from __future__ import annotations

from collections.abc import Mapping

from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    attribute,
    graphs_in,
)
from layoutsolve.proto.scopes import names_in, nodes_of

_HALF, _FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


def computes_in_halves(model: ModelProto) -> bool:
    """Whether a model computes anything in float16, beside casting constants that it stores so."""
    stored = {each.name for each in model.graph.initializer if each.data_type == _HALF}
    if any(each.type.tensor_type.elem_type == _HALF for each in model.graph.input):
        return True
    for node in nodes_of(model.graph):
        given = {each.name: each for each in node.attribute}
        if node.op_type == "Constant" and "value" in given and given["value"].t.data_type == _HALF:
            stored.update(node.output)
        if node.op_type == "Cast" and given["to"].i == _HALF:
            return True
    reading = (node for node in nodes_of(model.graph) if node.op_type not in ("Cast", "Identity"))
    return any(name in stored for node in reading for name in node.input)


def widened(model: ModelProto) -> ModelProto:
    """A model, whose types are stated, that computes in float32: constants stay as they are stored, and so do inputs
    and outputs.
    """
    names = Names(names_in(model.graph))
    stored = [each.name for each in model.graph.initializer if each.data_type == _HALF]
    given = [each.name for each in model.graph.input if each.type.tensor_type.elem_type == _HALF]
    wide = {name: names.derived(name, "wide") for name in dict.fromkeys((*stored, *given))}
    results = {each.name for each in model.graph.output if each.type.tensor_type.elem_type == _HALF}
    inner = {name: names.derived(name, "wide") for node in model.graph.node for name in node.output if name in results}
    before = [_cast(name, made, _FLOAT) for name, made in wide.items()]
    behind = [_cast(made, name, _HALF) for name, made in inner.items()]
    nodes = _nodes(model.graph, {**wide, **inner})
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend([*before, *nodes, *behind])
    return model


def _cast(name: str, made: str, kind: int) -> NodeProto:
    node = NodeProto(op_type="Cast", input=[name], output=[made], name=made)
    node.attribute.append(attribute("to", kind))
    return node


def _nodes(graph: GraphProto, wide: Mapping[str, str]) -> list[NodeProto]:
    """The nodes of a graph that read and write wide tensors in place of those that are stored otherwise."""
    found = list[NodeProto]()
    for each in graph.node:
        node = NodeProto.FromString(each.SerializeToString())
        for ports in (node.input, node.output):
            for number, name in enumerate(ports):
                ports[number] = wide.get(name, name)
        for given in node.attribute:
            _widen(given)
            for body in graphs_in(given):
                _within(body, wide)
        found.append(node)
    return found


def _widen(given: AttributeProto) -> None:
    """Let an attribute state float32 where it states float16."""
    if given.name in ("to", "dtype", "output_dtype", "stash_type") and given.i == _HALF:
        given.i = _FLOAT
    if given.type == AttributeProto.TENSOR and given.t.data_type == _HALF:
        given.t.CopyFrom(_wide(given.t))


def _wide(tensor: TensorProto) -> TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name)


def _within(body: GraphProto, wide: Mapping[str, str]) -> None:
    """Let a body compute in float32, which knows what is around it by the names that are wide."""
    own = {each.name for each in body.input} | {name for node in body.node for name in node.output}
    nodes = _nodes(body, {name: made for name, made in wide.items() if name not in own})
    del body.node[:], body.value_info[:]
    body.node.extend(nodes)
    for each in (*body.input, *body.output):
        if each.type.tensor_type.elem_type == _HALF:
            each.type.tensor_type.elem_type = _FLOAT
    for number, tensor in enumerate(body.initializer):
        if tensor.data_type == _HALF:
            body.initializer[number].CopyFrom(_wide(tensor))
