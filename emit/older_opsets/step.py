"""A node that is brought to an older operator set, and what is known of the tensors around it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from layoutsolve.emit.check import outline_of
from layoutsolve.emit.tensors import fill
from layoutsolve.frontend.onnx.constants import of
from layoutsolve.ir.graph import Array, Origin
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import REFUSALS, GraphProto, ModelProto, NodeProto, TensorProto, attribute, inferred
from layoutsolve.proto.scopes import graphs_of, names_in, nodes_of

_SMALL = 1 << 12
"""Elements of a constant up to which it may be axes, pads or sizes."""

Made = list[NodeProto]


class Step:
    """One node, what is known of its tensors, and the set that it is brought to."""

    def __init__(self, scope: Scope, node: NodeProto) -> None:
        self.scope, self.node, self.version = scope, node, scope.version

    def slot(self, position: int) -> str:
        """The name of an input, '' where it is left out."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def type(self, name: str) -> int:
        """The type of the elements of a tensor, 0 where it is not known."""
        return self.scope.types.get(name, 0)

    def shape(self, name: str) -> Sequence[int | None] | None:
        """The sizes of a tensor as far as they are known."""
        return self.scope.shapes.get(name)

    def constant(self, position: int) -> Array | None:
        """An input that is a small constant, None for others."""
        found = self.scope.constants.get(self.slot(position))
        if found is None or found.external_data or prod(found.dims) > _SMALL:
            return None
        data = of(found).data
        return None if data is None else np.asarray(data)

    def ints(self, position: int) -> list[int] | None:
        """An input that is a small constant vector of integers."""
        data = self.constant(position)
        return None if data is None else [int(each) for each in data.reshape(-1)]

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return next((each.s.decode() for each in self.node.attribute if each.name == name), default)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a float."""
        return next((each.f for each in self.node.attribute if each.name == name), default)

    def new(self, title: str, like: str = "") -> str:
        """A name of a new tensor, with the type and shape of another one."""
        made = self.scope.names.unique(f"{self.node.output[0]}/{title}")
        if like:
            self.scope.types[made] = self.type(like)
            if (shape := self.shape(like)) is not None:
                self.scope.shapes[made] = shape
        return made

    def hold(self, data: Any, dtype: str, title: str) -> str:
        """A new initializer."""
        name, proto = self.new(title), TensorProto()
        fill(proto, name, dtype, np.asarray(data, dtype))
        self.scope.held.append(proto)
        self.scope.constants[name], self.scope.types[name] = proto, proto.data_type
        self.scope.shapes[name] = list(proto.dims)
        return name

    def write(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
        """A node in place of this one, or of a part of it."""
        made = NodeProto(op_type=op, input=inputs, output=outputs, doc_string=self.node.doc_string)
        if self.node.name:
            made.name = self.scope.names.unique(f"{self.node.name}/{op}")
            if self.node.name in self.scope.origins:
                self.scope.origins[made.name] = self.scope.origins[self.node.name]
        made.attribute.extend(attribute(name, value) for name, value in attributes.items() if value is not None)
        return made

    def attributed(self, position: int, name: str) -> Made | None:
        """The node with an input as an attribute; None where it is computed."""
        if not self.slot(position):
            return self.shortened(position)
        values = self.ints(position)
        if values is None:
            return None
        self.node.attribute.append(attribute(name, values)) if values else None
        return self.shortened(position)

    def shortened(self, count: int) -> Made:
        """The node with its first inputs alone."""
        del self.node.input[count:]
        return [self.node]


class Scope:
    """A graph, what is known of its tensors and of those around it, and the sets that it is written in and brought to:
    attributes have the defaults of the first. Operators are to be ``alike`` where their own form has no slower others.
    """

    def __init__(
        self,
        graph: GraphProto,
        written: int,
        version: int,
        origins: dict[str, Origin],
        outer: Scope | None = None,
        alike: bool = False,
    ) -> None:
        self.graph, self.written, self.version, self.origins = graph, written, version, origins
        self.alike: bool = alike if outer is None else outer.alike
        self.names: Names = Names(names_in(graph)) if outer is None else outer.names
        self.types: dict[str, int] = {} if outer is None else dict(outer.types)
        self.shapes: dict[str, Sequence[int | None]] = {} if outer is None else dict(outer.shapes)
        self.constants: dict[str, TensorProto] = {} if outer is None else dict(outer.constants)
        self.held: list[TensorProto] = []
        self.dequantized: set[str] = {
            name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output
        }
        self._describe(graph)
        for each in graph.initializer:
            self.constants[each.name], self.types[each.name] = each, each.data_type
            self.shapes[each.name] = list(each.dims)

    def _describe(self, graph: GraphProto) -> None:
        for port in (*graph.value_info, *graph.input, *graph.output):
            tensor = port.type.tensor_type
            self.types[port.name] = tensor.elem_type
            if tensor.HasField("shape"):
                dims = tensor.shape.dim
                self.shapes[port.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

    def infer(self, model: ModelProto) -> None:
        """Note what is inferred of tensors that a model does not describe."""
        try:
            found = inferred(outline_of(model).SerializeToString(), False)
        except REFUSALS:  # which the check of the model tells
            return
        told = dict(self.types), dict(self.shapes)
        self._describe(found.graph)
        for node in nodes_of(found.graph):
            for inner in graphs_of(node):
                self._describe(inner)
        self.types.update(told[0])
        self.shapes.update(told[1])
