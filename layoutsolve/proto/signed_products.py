"""Which int8 products of a model in ONNX may saturate: also those in graphs that stay as they stand, as bodies of loops
that carry sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from layoutsolve.base.wording import printable
from layoutsolve.errors import ModelError
from layoutsolve.ir.graph import BYTES, CAPTURES, Array, Graph, Node, Quant, Value
from layoutsolve.ir.saturation import Weights, computed, is_too_large, may_saturate, of_integers, saturating
from layoutsolve.proto.messages import (
    TYPES,
    AttributeProto,
    GraphProto,
    NodeProto,
    TensorProto,
    decoded,
    graphs_in,
    integer,
)
from layoutsolve.proto.scopes import graphs_of

_NAMES = {code: name for name, code in TYPES.items()}

_GIVES: Mapping[str, str] = {
    "ConvInteger": "int32", "DequantizeLinear": "float32", "DynamicQuantizeLSTM": "float32",
    "DynamicQuantizeLinear": "uint8", "DynamicQuantizeMatMul": "float32", "MatMulInteger": "int32",
    "MatMulIntegerToFloat": "float32", "QAttention": "float32",
}  # fmt: skip
"""The types that operators give whatever they read."""

_ZEROS: Mapping[str, int] = {
    "QGemm": 8, "QLinearConv": 7, "QLinearMatMul": 7, "QuantizeLinear": 2,
}  # fmt: skip
"""At which input operators have a zero of the type that they give."""

Found = tuple[GraphProto, NodeProto, tuple[Weights, ...], str]
"""A graph, a node of it, weights with a sign that it reads, and the type that it gives."""


def count(graph: Graph) -> int:
    """How many weights are int8, and of products whose sums may saturate."""
    products = sum(bool(of_integers(graph, node)) for node in graph.nodes)
    inner = sum(len([*within(kept(node), _around(graph, node))]) for node in graph.nodes if CAPTURES in node.attributes)
    return len(saturating(graph)) + len(computed(graph)) + products + inner


def kept(node: Node) -> list[GraphProto]:
    """The graphs in a node that stay as they stand."""
    if CAPTURES not in node.attributes:
        return []
    return [inner for each in node.attributes.values() if isinstance(each, AttributeProto) for inner in graphs_in(each)]


def _around(graph: Graph, node: Node) -> dict[str, Value]:
    """What the graphs in a node read from around it."""
    names: tuple[str, ...] = node.attributes[CAPTURES]
    return {
        name: graph.values[each] for name, each in zip(names, node.inputs[len(node.inputs) - len(names) :], strict=True)
    }


def within(graphs: Iterable[GraphProto], around: Mapping[str, Value]) -> Iterator[Found]:
    """The products of integers in some graphs whose sums may saturate, and the DequantizeLinear of weights of others'.
    What is ``around`` is known by name. Those of a graph follow each other, after those of all graphs within it.
    """
    for graph in graphs:
        values = {
            **around,
            **{port.name: _typed(port.name, _NAMES.get(port.type.tensor_type.elem_type, "")) for port in graph.input},
        }
        values.update((each.name, _constant(each.name, each)) for each in graph.initializer)
        nodes = [_read(node, values) for node in graph.node]
        view, made = Graph("", values, tuple(nodes), (), ()), dict[str, NodeProto]()
        for proto in graph.node:
            yield from within(graphs_of(proto), values)
        for proto, node in zip(graph.node, nodes, strict=True):
            if weights := of_integers(view, node):
                yield graph, proto, weights, values[node.outputs[0]].dtype
            made.update(dict.fromkeys(proto.output, proto))
            name = node.inputs[1] if len(node.inputs) > 1 else ""
            before = made.pop(name, None)
            if before is not None and before.op_type == "DequantizeLinear" and _saturates(view, node):
                given, (scale, *zero) = values[before.input[0]], [values[each].data for each in before.input[1:]]
                known = zero[0] if zero else np.zeros(() if scale is None else scale.shape, np.int8)
                if known is not None:
                    yield graph, before, (Weights(0, 2, given, known),), "float32"


def _saturates(view: Graph, node: Node) -> bool:
    if not may_saturate(view, node):
        return False
    given, weights = (view.values[name] for name in node.inputs[:2])
    signs = given.dtype == "uint8" and weights.dtype == "int8"
    return signs and (weights.data is None or is_too_large(node, weights.data))


def _typed(name: str, dtype: str) -> Value:
    """A value of which the type is known, or nothing."""
    return Value(name, dtype, (), foreign=None if dtype else b"")


def _constant(name: str, proto: TensorProto) -> Value:
    dtype = _NAMES.get(proto.data_type, "")
    if dtype not in (*BYTES, "float32") or proto.data_location == TensorProto.EXTERNAL:
        return Value(name, dtype, tuple(proto.dims))
    from onnx import numpy_helper  # which few models need

    try:
        return Value(name, dtype, tuple(proto.dims), data=numpy_helper.to_array(proto))
    except ValueError as error:
        fault = f"constant '{printable(name)}' has not as many elements as its dimensions state"
        raise ModelError(f"{fault}: export the model again") from error


def _read(proto: NodeProto, values: dict[str, Value]) -> Node:
    """A node, of whose results the types are noted, as far as products of bytes need them."""
    for name in filter(None, (*proto.input, *proto.output)):
        values.setdefault(name, _typed(name, ""))
    tensors = [each.t for each in proto.attribute if each.name == "value" and each.HasField("t")]
    numbers = {each.name: decoded(each) for each in proto.attribute if each.name in ("axis", "group", "transB")}
    domain = "" if proto.op_type == "DequantizeLinear" else proto.domain
    node = Node(proto.op_type, tuple(proto.input), tuple(proto.output), numbers, domain=domain)
    if proto.op_type == "Constant" and tensors:
        values[proto.output[0]] = _constant(proto.output[0], tensors[0])
    elif proto.op_type == "DequantizeLinear":
        values[proto.output[0]] = _dequantized(node, values)
    elif proto.output:
        zero = _ZEROS.get(proto.op_type, 0)
        known = values[proto.input[zero]].dtype if len(proto.input) > zero and proto.input[zero] else ""
        cast = _NAMES.get(integer(proto, "to", 0), "") if proto.op_type == "Cast" else known
        dtype = _GIVES.get(proto.op_type, cast)
        values.update((name, _typed(name, dtype)) for name in proto.output[:1] if name)
    return node


def _dequantized(node: Node, values: Mapping[str, Value]) -> Value:
    """What bytes mean, as a value with parameters."""
    stored = values[node.inputs[0]]
    scale, zero = (_numbers(node, place, values) for place in (1, 2))
    axis = int(node.attributes.get("axis", 1)) if scale.size > 1 else None
    return replace(stored, name=node.outputs[0], quant=Quant(scale, np.broadcast_to(zero, scale.shape), axis))


def _numbers(node: Node, place: int, values: Mapping[str, Value]) -> Array:
    found = values[node.inputs[place]].data if len(node.inputs) > place and node.inputs[place] else None
    return np.zeros(1, np.float32) if found is None else found.reshape(-1)
