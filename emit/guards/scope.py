"""One graph of an ONNX model as optimisation barriers see it: what makes a value, what reads it, what it is behind
views.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tensors import elements
from layoutsolve.ir.graph import Array
from layoutsolve.proto.messages import GraphProto, NodeProto, TensorProto, TypeProto
from layoutsolve.proto.scopes import captures

Fresh = Callable[[str], str]
"""Makes a name unique."""

PASSED = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"})
"""The operators that DequantizeLinear is moved down through, and QuantizeLinear up."""

_QUANTIZING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""The operators around quantized numbers, of which nothing is said between them."""

AHEAD = frozenset({"Cast", "Mul", "Sub"})
"""The operators as which quantized constants are written that only meet floats."""


def widened(graph: GraphProto, constants: Mapping[str, TensorProto]) -> dict[str, TensorProto]:
    """The constants of float16 by the names of what they are cast to, float32, and those of equal parts by the names of
    what they are expanded to: runtimes compute that on loading.
    """
    counts = {"Cast": 1, "Expand": 2}
    made = (
        node for node in graph.node if counts.get(node.op_type) == len(node.input) and constants.keys() >= {*node.input}
    )
    return {node.output[0]: constants[node.input[0]] for node in made if _is_loaded(node, constants)}


def _is_loaded(node: NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    if node.op_type == "Expand":
        return [len(constants[node.input[0]].dims)] == [*constants[node.input[1]].dims]
    half: bool = constants[node.input[0]].data_type == TensorProto.FLOAT16
    return half and any(each.name == "to" and each.i == TensorProto.FLOAT for each in node.attribute)


@dataclass(eq=False)
class Scope:
    """One graph of a model, and what is around it: ``constants`` are initializers by name, those of float16 and of
    equal parts also by the name of what becomes of them. Nodes are put ``ahead`` of others or ``behind`` them, by the
    identity of those; some are ``gone``.
    """

    graph: GraphProto
    version: int
    constants: Mapping[str, TensorProto]
    fresh: Fresh
    ahead: dict[int, tuple[NodeProto, ...]] = field(default_factory=dict)
    behind: dict[int, NodeProto] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    _origins: dict[str, NodeProto | None] = field(default_factory=dict)

    @cached_property
    def producers(self) -> dict[str, NodeProto]:
        """The node that makes each value."""
        return {name: node for node in self.graph.node for name in node.output}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[NodeProto]]:
        """The nodes that read each value in this graph itself."""
        found: dict[str, list[NodeProto]] = defaultdict(list)
        for node in self.graph.node:
            for name in dict.fromkeys(node.input):
                found[name].append(node)
        return found

    @cached_property
    def results(self) -> frozenset[str]:
        """The names of the outputs."""
        return frozenset(port.name for port in self.graph.output)

    @cached_property
    def captured(self) -> frozenset[str]:
        """The names that branches and loops in this graph read."""
        return frozenset(name for node in self.graph.node for name in captures(node))

    def constant(self, name: str) -> Array | None:
        """The elements of a small constant, None where a value is computed."""
        found = self.constants.get(name)
        if found is None or found.data_location == TensorProto.EXTERNAL:
            return None
        return self.elements(name)

    def elements(self, name: str) -> Array:
        """The elements of what is known to be a small constant."""
        found = self.constants[name]
        data = elements(found)
        return data.astype(np.float32) if found.data_type == TensorProto.FLOAT16 and found.name != name else data

    @cached_property
    def _said(self) -> Mapping[str, TypeProto.Tensor]:
        """What is said of the types of values, where their shapes are."""
        said = (*self.graph.input, *self.graph.value_info, *self.graph.output)
        return {each.name: each.type.tensor_type for each in said if each.type.tensor_type.HasField("shape")}

    def shape(self, name: str) -> Sequence[int]:
        """Dimensions of a computed value, 0 for a symbolic one; none where they are unknown, or those of what it is
        quantized or dequantized from.
        """
        found, before = self._said.get(name), self.producers.get(name)
        while found is None and before is not None and before.op_type in _QUANTIZING:
            found, before = self._said.get(before.input[0]), self.producers.get(before.input[0])
        return () if found is None else [dim.dim_value for dim in found.shape.dim]

    def rank(self, name: str) -> int | None:
        """The number of dimensions of a value, None where it is not known."""
        found = self.constants.get(name)
        if found is not None:
            return len(found.dims)
        return len(self._said[name].shape.dim) if name in self._said else None

    def is_fixed(self, name: str) -> bool:
        """Whether a value is a constant, or one that is computed of a constant when the model is loaded."""
        for _ in AHEAD:
            node = self.producers.get(name)
            name = node.input[0] if node is not None and node.op_type in AHEAD else name
        return name in self.constants

    def varies(self, name: str) -> bool:
        """Whether a value is surely computed of what this graph is given, so that no constant is ever made of it."""
        given = {port.name for port in self.graph.input} - self.constants.keys()
        seen, reached = {name}, [name]
        for each in reached:
            if each in given:
                return True
            node = self.producers.get(each)
            more = {before for before in (node.input if node is not None else ()) if before} - seen
            seen |= more
            reached += sorted(more)
        return False

    def following(self, name: str, operators: frozenset[str], *, anywhere: bool = False) -> Iterator[NodeProto]:
        """What reads a value, itself or behind some of these operators that have it as their data, or ``anywhere``."""
        waiting, seen = deque([name]), {name}
        while waiting:
            name = waiting.popleft()
            for node in self.readers.get(name, ()):
                yield node
                through = node.op_type in operators and (anywhere or node.input[0] == name)
                if through and node.output[0] not in seen:
                    seen.add(node.output[0])
                    waiting.append(node.output[0])

    def origin(self, name: str) -> NodeProto | None:
        """What makes a value, before all operators that DequantizeLinear is moved through."""
        passed = [name]
        node = self.producers.get(name)
        while node is not None and node.op_type in PASSED and node.input and node.input[0] not in self._origins:
            passed.append(node.input[0])
            node = self.producers.get(node.input[0])
        if node is not None and node.op_type in PASSED and node.input:
            node = self._origins[node.input[0]]
        self._origins.update(dict.fromkeys(passed, node))
        return node
