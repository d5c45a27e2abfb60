"""An operator that is written as others, and the nodes of these. Models are in a present operator set here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.onnx.constants import of, tensors_of
from layoutsolve.ir.graph import Array
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import (
    DOMAINS,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    attribute,
    decoded,
)
from layoutsolve.proto.scopes import graphs_of, names_in

Writing = Callable[["Definition"], bool]

MOST = 1 << 24
"""The most numbers of a matrix, or of places, that is written for an operator."""

DEFINITIONS: dict[tuple[str, str], Writing] = {}
"""By domain and operator what writes it; it gives False for a form that it does not write."""


def defines(*operators: str, domain: str = "") -> Callable[[Writing], Writing]:
    """Register what writes some operators."""

    def register(function: Writing) -> Writing:
        DEFINITIONS.update({(domain, each): function for each in operators})
        return function

    return register


def is_defined(node: NodeProto) -> bool:
    """Whether a node is of an operator that is written as others."""
    return _key(node) in DEFINITIONS


def _key(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain in DOMAINS else node.domain, node.op_type


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a model: the shapes of its tensors, in which sizes that are open are None, the numbers of its
    constants, names that are free, and initializers that are added.
    """

    shapes: Mapping[str, Sequence[int | None]]
    numbers: Mapping[str, Array]
    names: Names
    added: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Definition:
    """An operator, and the nodes that are written for it."""

    node: NodeProto
    known: Known
    nodes: list[NodeProto]

    def has(self, number: int) -> bool:
        """Whether an input is there."""
        return number < len(self.node.input) and bool(self.node.input[number])

    def shape(self, number: int = 0) -> Sequence[int | None] | None:
        """The sizes of an input, None where its rank is not known."""
        return self.known.shapes.get(self.node.input[number])

    def numbers(self, number: int) -> Array | None:
        """The elements of a constant input."""
        return self.known.numbers.get(self.node.input[number]) if self.has(number) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.own().get(name, default)

    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        found = self.attribute(name, default)
        return found if isinstance(found, int) else default

    def constant(self, data: object, dtype: str = "float32") -> str:
        """The name of a constant that is added."""
        name = self.known.names.unique(f"{self.node.output[0]}/constant")
        self.known.added[name] = np.asarray(data, dtype)
        return name

    def write(self, operator: str, *inputs: str, into: str = "", **attributes: Any) -> str:
        """Write a node, and give the name of its result."""
        made = into or self.known.names.unique(f"{self.node.output[0]}/{operator}")
        self.nodes.append(NodeProto(op_type=operator, input=inputs, output=[made], name=made))
        self.nodes[-1].attribute.extend(attribute(key, each) for key, each in attributes.items())
        return made

    def real(self, number: int, axis: int | None = None) -> str:
        """The floats that an input means, whose scale and zero point are the two behind it."""
        scale = self.numbers(number + 1)
        names = [self.node.input[number + place] if self.has(number + place) else "" for place in range(3)]
        if scale is not None and scale.size == 1:  # of one number, also where that is a vector
            axis, names[1] = None, self.constant(scale.reshape(()))
            names[2] = self._single(names[2])
        given: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.write("DequantizeLinear", *names, **given)

    def stored(self, real: str, number: int) -> bool:
        """Write the result: floats in the scale and zero point that are inputs."""
        names = [self.node.input[number + place] if self.has(number + place) else "" for place in range(2)]
        self.write("QuantizeLinear", real, *map(self._single, names), into=self.node.output[0])
        return True

    def _single(self, name: str) -> str:
        """A tensor, a constant of one number without dimensions."""
        data = self.known.numbers.get(name)
        return name if data is None or data.size != 1 else self.constant(data.reshape(()), str(data.dtype))

    def own(self) -> dict[str, Any]:
        """The attributes."""
        return {each.name: decoded(each) for each in self.node.attribute}


def written(model: ModelProto) -> ModelProto:
    """A model, whose types and shapes are stated, with others in place of the operators that are defined here."""
    from onnx import numpy_helper

    ports = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    shapes: dict[str, Sequence[int | None]] = {
        each.name: [size.dim_value if size.HasField("dim_value") else None for size in each.type.tensor_type.shape.dim]
        for each in ports
        if each.type.tensor_type.HasField("shape")
    }
    inside = ((name, each) for name, each in tensors_of(model.graph) if each.data_location != TensorProto.EXTERNAL)
    numbers = {name: data for name, each in inside if (data := of(each).data) is not None}
    shapes |= {name: data.shape for name, data in numbers.items()}
    known = Known(shapes, numbers, Names(names_in(model.graph)), {})
    _write(model.graph, known)
    model.graph.initializer.extend(numpy_helper.from_array(data, name) for name, data in known.added.items())
    return model


def _is_written(writing: Writing, definition: Definition) -> bool:
    """Whether an operator is written; one whose inputs and attributes do not fit each other stays, and is refused."""
    try:
        return writing(definition)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return False


def _write(graph: GraphProto, known: Known) -> None:
    """Write what is defined here, in branches and loops too."""
    found = list[NodeProto]()
    for node in graph.node:
        for inner in graphs_of(node):
            _write(inner, known)
        definition, writing = Definition(node, known, []), DEFINITIONS.get(_key(node))
        found += definition.nodes if writing is not None and _is_written(writing, definition) else [node]
    copies = [NodeProto.FromString(each.SerializeToString()) for each in found]
    del graph.node[:]
    graph.node.extend(copies)
