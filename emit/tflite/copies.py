"""Operators of a TensorFlow Lite source that are written again, with their options, constants and quantization.

A lowering makes several nodes of an operator: of its activation, its rounding, its states. Where the layouts of its
inputs and outputs are those of the source, all of these nodes are that operator as it is. In other layouts they are the
same operator on other shapes, as long as it works on elements, or along axes of which the nodes tell where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.apply import located
from layoutsolve.emit.tflite.draft import Draft, have_equal_steps, quantization, stated
from layoutsolve.emit.tflite.encode import writes
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.lowering.draft import tensor_names
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Tensor
from layoutsolve.ir.graph import Graph, Node, Origin, Value
from layoutsolve.solver.statement.assignment import Assignment

_ELEMENTWISE = frozenset(
    (
        *("Abs", "Add", "And", "Atan", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor"),
        *("Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Less"),
        *("LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu"),
        *("Round", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor"),
    )
)
"""Operators of ONNX that compute each element from those at the same place."""

_OF_ELEMENTS = frozenset(
    (
        *("ABS", "ADD", "CEIL", "COS", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GELU"),
        *("GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG", "LOGICAL_AND"),
        *("LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "NOT_EQUAL", "POW", "QUANTIZE"),
        *("DEQUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT_V2", "SIGN", "SIN"),
        *("SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH"),
    )
)
"""Operators of TensorFlow Lite that do the same, on what is broadcast as ONNX has it."""

_REDUCING = {
    "MEAN": "ReduceMean",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}
_PRODUCTS = frozenset(("Gemm", "MatMul", "MatMulInteger"))
_MATRIX, _MOST_BROADCAST = 2, 4


@dataclass(frozen=True, eq=False)
class Origins:
    """A TensorFlow Lite source: the ``model``, of which a graph has one subgraph at a ``position``. By the name of each
    tensor of the graph as it is written ``tensors`` has those of the source that it holds, as they lie there, and
    ``anyhow`` those that it holds in any layout.
    """

    model: Model
    position: int
    tensors: Mapping[str, frozenset[int]]
    anyhow: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, model: Model, position: int, assignment: Assignment) -> tuple[Graph, Origins]:
        """The graph of an assignment as it is written, and what it holds of a source."""
        applied, places = located(assignment)
        numbers = {name: index for index, name in enumerate(tensor_names(model, position))}
        own = {public: name for name, public in applied.names.items()}
        tensors, anyhow = dict[str, frozenset[int]](), dict[str, frozenset[int]]()
        for public, (variable, layout) in places.items():
            name = own.get(public, public)
            readings = assignment.problem.variables[variable].readings
            known = {numbers[each]: logical for each, logical in readings.items() if each in numbers}
            anyhow[name] = frozenset(known)
            tensors[name] = frozenset(index for index, logical in known.items() if logical == layout)
        return applied, cls(model, position, tensors, anyhow)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators of the subgraph."""
        return self.model.subgraphs[self.position].operators

    def tensor(self, index: int) -> Tensor:
        """A tensor of the subgraph."""
        return self.model.subgraphs[self.position].tensors[index]


@dataclass(frozen=True, eq=False)
class Copy:
    """An ``operator`` that is written again at the node of some number, and for which nodes. By their numbers in the
    source ``names`` has what its tensors are in the graph, and ``constants`` those that are other ones.
    """

    operator: Operator
    place: int
    nodes: frozenset[int]
    names: Mapping[int, str]
    constants: Mapping[int, Value]


class _Group:
    """The nodes that an operator has been lowered to."""

    def __init__(self, graph: Graph, source: Origins, operator: Operator, numbers: Sequence[int]) -> None:
        self.graph, self.source, self.operator = graph, source, operator
        self.own = frozenset(numbers)
        self.numbers = numbers
        self.nodes = [graph.nodes[number] for number in numbers]
        self.made = {name for node in self.nodes for name in node.outputs if name}
        given = [name for node in self.nodes for name in node.inputs if name and name not in self.made]
        self.read = {name for name in given if graph.values[name].data is None and not _is_state(graph, name)}
        self.constants = [name for name in dict.fromkeys(given) if graph.values[name].data is not None]

    def copy(self, readers: Mapping[str, list[int]]) -> Copy | None:
        """The operator again, None where it is no longer the same."""
        graph = self.graph
        if not writes(self.operator):
            return None
        states = {number for number, node in enumerate(graph.nodes) if node.op == "State"} if self._has_states else ()
        outside = {
            name
            for name in self.made
            if name in graph.results or not self.own.union(states).issuperset(readers.get(name, ()))
        }
        ready = max([graph.producers.get(name, -1) for name in self.read], default=-1)
        needed = [number for name in outside for number in readers.get(name, ()) if number not in self.own]
        place = next((number for number in self.numbers if number > ready), None)
        if place is None or place >= min(needed, default=len(graph.nodes)):
            return None
        names = self._names(self.source.tensors, outside)
        if names is not None and all(self._is_stored(index, name) for index, name in names.items()):
            return Copy(self.operator, place, self.own, names, {})
        names = self._names(self.source.anyhow, outside)
        found = None if names is None else self._restated(names)
        return None if names is None or found is None else Copy(found[0], place, self.own, names, found[1])

    @property
    def _has_states(self) -> bool:
        """Whether the operator has variables, which it reads and writes by itself."""
        return any(index >= 0 and self.source.tensor(index).is_variable for index in self.operator.inputs)

    def _names(self, held: Mapping[str, frozenset[int]], outside: set[str]) -> dict[int, str] | None:
        """What the operator's tensors are called in the graph; None where one is not there."""
        names = dict[int, str]()
        for tensors, given in ((self.operator.inputs, self.read), (self.operator.outputs, outside)):
            for name in given:
                found = held.get(name, frozenset()).intersection(tensors)
                if not found or not all(self._alike(index, name) for index in found):
                    return None
                if any(names.get(index, name) != name for index in found):
                    return None  # which lies in two ways
                names.update(dict.fromkeys(found, name))
        read = (self.source.tensor(index) for index in self.operator.inputs if index >= 0)
        there = all(each.data is not None or each.is_variable or each.index in names for each in read)
        return names if there else None

    def _alike(self, index: int, name: str) -> bool:
        """Whether a value is of the type and the steps of a tensor of the source."""
        value, tensor = self.graph.values[name], self.source.tensor(index)
        plain = value.dtype == tensor.dtype and not tensor.sparsity and not tensor.external
        return plain and _quantized_alike(value, tensor)

    def _is_stored(self, index: int, name: str) -> bool:
        """Whether a value has the shape of a tensor of the source."""
        shape, signature = stated(self.graph.values[name].shape)
        tensor = self.source.tensor(index)
        return len(shape) == len(tensor.shape) and (shape == tensor.shape or -1 in signature)

    def _restated(self, names: Mapping[int, str]) -> tuple[Operator, dict[int, Value]] | None:
        """The operator on what its tensors are now, with other options and constants; None where it is another one."""
        operator, kind = self.operator, self.operator.name
        rest = [node for node in self.nodes if node.op not in _ELEMENTWISE or node.domain]
        if kind in _OF_ELEMENTS:
            return self._of_elements(names) if not rest else None
        if kind == "MEAN" and self._is_quantized(names):
            return None  # whose kernels round otherwise along other axes
        if kind in _REDUCING and rest and all(node.op == _REDUCING[kind] for node in rest):
            return self._reduction(rest)
        if kind == "SOFTMAX" and len(rest) == 1 and rest[0].op == "Softmax":
            rank = len(self.graph.values[rest[0].inputs[0]].shape)
            return (operator, {}) if rest[0].attributes.get("axis", -1) % rank == rank - 1 <= 3 else None
        if kind == "CONCATENATION" and len(self.nodes) == 1 and rest and rest[0].op == "Concat":
            found = self._arranged(names)
            options = {**operator.options, "axis": rest[0].attributes["axis"]}
            return None if found is None else (replace(operator, options=options), found)
        if kind == "FULLY_CONNECTED" and len(rest) == 1 and rest[0].op in _PRODUCTS:
            return self._layer(rest[0], names)
        return None

    def _is_quantized(self, names: Mapping[int, str]) -> bool:
        return any(self.graph.values[name].quant is not None for name in names.values())

    def _of_elements(self, names: Mapping[int, str]) -> tuple[Operator, dict[int, Value]] | None:
        found = self._arranged(names)
        if found is None:
            return None
        shapes = {value.shape for value in [*map(self.graph.values.__getitem__, names.values()), *found.values()]}
        most = max(map(len, shapes), default=0)
        return None if most > _MOST_BROADCAST and len(shapes) > 1 else (self.operator, found)

    def _arranged(self, names: Mapping[int, str]) -> dict[int, Value] | None:
        """What the operator's constants are now; None where one is not found."""
        wanted = [index for index in self.operator.inputs if index >= 0 and index not in names]
        found = {index: self._constant(self.source.tensor(index)) for index in wanted}
        return None if None in found.values() else {index: value for index, value in found.items() if value is not None}

    def _constant(self, tensor: Tensor) -> Value | None:
        """What a constant of the source is now: the only one of the nodes that has its elements, in any order. A
        variable is none.
        """
        if tensor.data is None:
            return None
        if tensor.data.size == 1 and tensor.quant is None:
            return Value(tensor.name, tensor.dtype, (), None, tensor.data.reshape(()))
        same = [value for value in map(self.graph.values.__getitem__, self.constants) if _is_rearranged(value, tensor)]
        return same[0] if len(same) == 1 and _quantized_alike(same[0], tensor) else None

    def _reduction(self, reductions: Sequence[Node]) -> tuple[Operator, dict[int, Value]] | None:
        axes = {tuple(self._axes(node)) for node in reductions}
        keep = {bool(node.attributes.get("keepdims", 1)) for node in reductions}
        if len(axes) != 1 or len(keep) != 1 or len(self.operator.inputs) != 2:
            return None
        stored = np.array(axes.pop(), np.int32)
        option = {**self.operator.options, "keep_dims": keep.pop()}
        index = self.operator.inputs[1]
        constant = Value(f"{self.source.tensor(index).name}/axes", "int32", stored.shape, None, stored)
        return replace(self.operator, options=option), {index: constant}

    def _axes(self, node: Node) -> list[int]:
        rank = len(self.graph.values[node.inputs[0]].shape)
        given = self.graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
        found = [] if given is None else given.reshape(-1).tolist()
        if not found and not node.attributes.get("noop_with_empty_axes", 0):
            found = list(range(rank))
        return sorted(axis % rank for axis in found)

    def _layer(self, node: Node, names: Mapping[int, str]) -> tuple[Operator, dict[int, Value]] | None:
        """A fully-connected layer on rows that lie elsewhere, with weights and what is added in the same order."""
        data, weights, *_added = self.operator.inputs
        now = self.graph.values[node.inputs[1]] if len(node.inputs) > 1 else None
        if now is None or now.data is None or node.inputs[0] != names.get(data) or node.attributes.get("transA", 0):
            return None
        then = self.source.tensor(weights)
        stored = now.data if node.attributes.get("transB", 0) else now.data.swapaxes(-1, -2)
        if then.data is None or stored.ndim != 2 or stored.shape != then.shape or not _is_rearranged(now, then):
            return None
        result = names[self.operator.outputs[0]]
        rows, columns = self.graph.values[node.inputs[0]].shape, self.graph.values[result].shape
        if len(rows) < _MATRIX or rows[:-1] != columns[:-1] or columns[-1] != stored.shape[0]:
            return None
        if not np.array_equal(stored, then.data):
            return None
        options = {**self.operator.options, "keep_num_dims": len(rows) > 2}
        return replace(self.operator, options=options), {}


def _is_rearranged(value: Value, tensor: Tensor) -> bool:
    """Whether a constant has the elements of one of the source."""
    if value.data is None or tensor.data is None or value.dtype != tensor.dtype or value.data.size != tensor.data.size:
        return False
    return np.array_equal(np.sort(value.data, axis=None), np.sort(tensor.data, axis=None), equal_nan=False)


def _quantized_alike(value: Value, tensor: Tensor) -> bool:
    """Whether a value has the scales and zero points of a tensor of the source."""
    try:
        return have_equal_steps(quantization(value.quant), tensor.quant)
    except ExpressionError:
        return False


def copies(graph: Graph, source: Origins) -> dict[int, Copy]:
    """The operators of a source that are written again, by the number of the node that each is written at."""
    groups: dict[int, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        origin = _outermost(graph, node)
        if origin is not None and origin.subgraph == source.position:
            groups.setdefault(origin.index, []).append(number)
        for name in node.inputs:
            readers.setdefault(name, []).append(number)
    found = (_Group(graph, source, source.operators[index], each).copy(readers) for index, each in groups.items())
    return {copy.place: copy for copy in found if copy is not None}


def _outermost(graph: Graph, node: Node) -> Origin | None:
    """The operator of the source's own graph that a node comes from, or lies within."""
    while node.region is not None:
        region = node.region
        while region.parent is not None:
            region = region.parent
        node = graph.openers[region]
    return node.origin


def _is_state(graph: Graph, name: str) -> bool:
    node = graph.producer(name)
    return node is not None and node.op == "State"


def with_states(graph: Graph, copied: Collection[int]) -> frozenset[int]:
    """The nodes that are copied, and the states that these alone read and write: variables of their operators."""
    found = set(copied)
    for number, node in enumerate(graph.nodes):
        if node.op == "State":
            around = {graph.producers.get(node.inputs[1], -1)}
            around.update(graph.producers[each.outputs[0]] for each in graph.readers.get(node.outputs[0], ()))
            if around <= set(copied) and graph.results.isdisjoint(node.outputs):
                found.add(number)
    return frozenset(found)


class Copier:
    """Writes operators of a source into a draft, with their constants and variables."""

    def __init__(self, draft: Draft, source: Origins) -> None:
        self.draft, self.source = draft, source
        self.places: dict[int, int] = {}

    def write(self, copy: Copy) -> None:
        """Write an operator again."""
        operator = copy.operator
        inputs, outputs, between = (
            tuple(self._tensor(index, copy) for index in side)
            for side in (operator.inputs, operator.outputs, operator.intermediates)
        )
        index = len(self.draft.operators)
        written = replace(operator, index=index, inputs=inputs, outputs=outputs, intermediates=between)
        self.draft.origin = self.source.position, operator.index
        self.draft.append(written)

    def _tensor(self, index: int, copy: Copy) -> int:
        if index < 0:
            return -1
        if index in copy.names:
            return self.draft.value(copy.names[index])
        if index in copy.constants:
            return self._constant(copy.constants[index])
        if index not in self.places:
            tensor = self.source.tensor(index)
            place = len(self.draft.tensors)
            self.draft.tensors.append(replace(tensor, index=place, name=self.draft.names.unique(tensor.name)))
            self.places[index] = place
        return self.places[index]

    def _constant(self, value: Value) -> int:
        if value.quant is None:
            return self.draft.constant(value.constant, value.name)
        return self.draft.value(value.name)
