"""What can be verified of a model with operators for which LiteRT has no kernel: all others.

In the source each of these is exchanged for one that nothing reads, so that operators keep their numbers. What others
read of it becomes an input, of the ONNX model as well, and what it reads becomes an output. Outputs that it gives
itself are left out. Operators that are one with it in the ONNX model, as a product behind a hard sigmoid is, share its
fate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from layoutsolve.base.wording import counted, printable
from layoutsolve.emit import nodes_of
from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import TYPES
from layoutsolve.verification.flatbuffer_repacking import opened, packed
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.tensor_locations import Inside, Place, places_of

_COUNTING = frozenset(("int32", "int64", "uint32", "uint64", "bool", "string"))


@dataclass(frozen=True)
class End:
    """A tensor of the ONNX model that holds one of the source's, in another order of dimensions or the same, with the
    ``sizes`` that are known of it: the source may leave open what follows from operators that LiteRT lacks.
    """

    name: str
    dtype: str
    permutation: tuple[int, ...]
    sizes: tuple[int | None, ...]


@dataclass(frozen=True)
class Partial:
    """A model without what LiteRT lacks.

    ``source`` is the file, ``ends`` are all tensors that may become inputs or outputs, by number, ``lacking`` the
    operators that results depend on, ``fused`` the numbers of those that LiteRT has, ``given`` the tensors that have
    become inputs and ``read`` those that have become outputs, behind those that there are, ``dropped`` the places of
    outputs that are left out, and ``counts`` how many inputs and outputs the source has.
    """

    source: bytes
    ends: Mapping[int, End]
    lacking: tuple[Operator, ...] = ()
    given: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    counts: tuple[int, int] = (0, 0)
    fused: frozenset[int] = frozenset()

    @property
    def said(self) -> str:
        """Which operators are missing, how often, and which are one with them."""
        joined = [each for each in self.lacking if each.index in self.fused]
        said = _counts(each for each in self.lacking if each.index not in self.fused)
        return f"{said}, from which {_counts(joined)} cannot be separated" if joined else said

    def told(self, tensors: int, outputs: int) -> str:
        """Message where all other operators pass, after a comparison of so many intermediate tensors and outputs."""
        right = f"{counted(tensors, 'intermediate tensor')} and {counted(outputs, 'output')}"
        return f"LiteRT has no kernel for {self.said}; all else agrees, with random values for their outputs: {right}"

    @property
    def counting(self) -> bool:
        """Whether something is drawn for whole numbers or texts, as indices and sizes are, of which not all do."""
        return any(self.ends[index].dtype in _COUNTING for index in self.given)

    @property
    def moved(self) -> dict[str, tuple[int, ...]]:
        """How its new inputs and outputs are stored, by their names in the ONNX model."""
        return {self.ends[index].name: self.ends[index].permutation for index in (*self.given, *self.read)}

    def cut(self, model: onnx.ModelProto | Path) -> onnx.ModelProto | Path:
        """Remove the same operators from the ONNX model; one with external data is written beside it."""
        if not self.lacking:
            return model
        made = onnx.ModelProto()
        made.CopyFrom(onnx.load(model, load_external_data=False) if isinstance(model, Path) else model)
        _cut(made, [self.ends[each] for each in self.given], [self.ends[each] for each in self.read], self)
        if not isinstance(model, Path):
            return made
        path = model.with_name("partial.onnx")
        path.write_bytes(made.SerializeToString())
        return path


def partial_of(litert: LiteRT, source: bytes, inside: Inside) -> Partial | None:
    """Remove the operators for which LiteRT reports that it has no kernel; None where there are none in the main
    subgraph, or where nothing would be left to compare.
    """
    subgraph, places, _ = places_of(source, inside)
    found = Partial(source, {index: end for index, place in places.items() if (end := _end(place)) is not None})
    lacking = set[int]()
    while refusal := litert.refusal(found.source):
        new = {each.index for each in subgraph.operators if _is_named(each.name, refusal)} - lacking
        lacking |= new
        without = _without(source, subgraph, frozenset(lacking), found.ends) if new else None
        if without is None:
            return None
        found = without
    return found if lacking else None


def _is_named(name: str, refusal: str) -> bool:
    """Whether LiteRT refuses an operator of this name because it does not have it."""
    custom = name.removeprefix("CUSTOM:")
    if custom != name:
        return re.search(rf"(?<![\w.]){re.escape(custom)}(?![\w.])", refusal) is not None
    return f"builtin opcode '{name}'" in refusal


def _counts(operators: Iterable[Operator]) -> str:
    """Kinds of operators, and how many of each."""
    counts = Counter(operator.name.removeprefix("CUSTOM:") for operator in operators)
    *others, last = (f"{printable(name)} ({count})" for name, count in counts.items())
    return f"{', '.join(others)} and {last}" if others else last


def _fused(subgraph: Subgraph, lacking: frozenset[int], ends: Mapping[int, End]) -> frozenset[int]:
    """The operators between which and those that are lacking there is no tensor in the ONNX model."""
    operators, numbers, hidden = subgraph.operators, set(lacking), set[int]()
    for operator in operators:  # behind
        if hidden.intersection(operator.inputs):
            numbers.add(operator.index)
        if operator.index in numbers:
            hidden.update(index for index in operator.outputs if index not in ends)
    readers = dict[int, list[int]]()
    for operator in operators:
        for index in operator.inputs:
            readers.setdefault(index, []).append(operator.index)
    for operator in reversed(operators):  # in front, where nothing else reads it
        given = [index for index in operator.outputs if index not in ends and index not in subgraph.outputs]
        computed = any(index >= 0 and subgraph.tensors[index].data is None for index in operator.inputs)
        inner = given == list(operator.outputs) and numbers.issuperset(
            reader for index in given for reader in readers.get(index, [operator.index])
        )
        if computed and inner:
            numbers.add(operator.index)
    return frozenset(numbers - lacking)


def _without(source: bytes, subgraph: Subgraph, lacking: frozenset[int], ends: Mapping[int, End]) -> Partial | None:
    """The model without some operators, and those that are one with them."""
    fused = _fused(subgraph, lacking, ends)
    numbers = lacking | fused
    others = [operator for operator in subgraph.operators if operator.index not in numbers]
    wanted = {index for operator in others for index in operator.inputs}
    live, asked = list[Operator](), {*subgraph.outputs, *wanted}
    for operator in reversed(subgraph.operators):
        if operator.index in numbers and asked.intersection(operator.outputs):
            live.insert(0, operator)
            asked.update(operator.inputs)
    computed = {index for operator in others for index in operator.outputs}.difference(subgraph.outputs)
    gone = list(dict.fromkeys(index for operator in live for index in operator.outputs))
    given = [index for index in gone if index in wanted]
    read = list(dict.fromkeys(index for operator in live for index in operator.inputs if index in computed))
    read = [index for index in read if index in ends]
    dropped = [place for place, index in enumerate(subgraph.outputs) if index in gone]
    if not all(index in ends for index in given) or (len(dropped) == len(subgraph.outputs) and not read):
        return None
    model = opened(source)
    graph = model.subgraphs[0]
    for index in sorted(numbers):
        _exchange(model, graph, index)
    graph.inputs = np.array([*subgraph.inputs, *given], np.int32)
    kept = [index for place, index in enumerate(subgraph.outputs) if place not in dropped]
    counts = len(subgraph.inputs), len(subgraph.outputs)
    graph.outputs = np.array([*kept, *read], np.int32)
    model.signatureDefs = None
    return Partial(packed(model, source), ends, tuple(live), tuple(given), tuple(read), tuple(dropped), counts, fused)


def _exchange(model: Any, graph: Any, index: int) -> None:
    """Make an operator one that asks for the shape of something, which nobody reads."""
    from ai_edge_litert import schema_py_generated as schema

    known = next(each for each in (*graph.inputs, *graph.operators[index].inputs, 0) if each >= 0)
    code, tensor, operator, options = (
        schema.OperatorCodeT(),
        schema.TensorT(),
        schema.OperatorT(),
        schema.ShapeOptionsT(),
    )
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.SHAPE
    code.version = 1
    model.operatorCodes.append(code)
    rank = 0 if graph.tensors[known].shape is None else len(graph.tensors[known].shape)
    tensor.name, tensor.shape, tensor.type = (
        f"without/{index}".encode(),
        np.array([rank], np.int32),
        schema.TensorType.INT32,
    )
    graph.tensors.append(tensor)
    options.outType = schema.TensorType.INT32
    operator.opcodeIndex, operator.inputs = len(model.operatorCodes) - 1, np.array([known], np.int32)
    operator.outputs = np.array([len(graph.tensors) - 1], np.int32)
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.ShapeOptions, options
    graph.operators[index] = operator


def _end(place: Place) -> End | None:
    """A tensor that is the source's but for the order of its dimensions; None for others."""
    after, before = place.value.quant, quant_of(place.tensor)
    if place.value.dtype != place.tensor.dtype or place.value.dtype not in TYPES or (after is None) != (before is None):
        return None
    if after is not None and before is not None:
        same = after.scale.size == before.scale.size == 1 and after.scale[0] == before.scale[0]
        if not same or int(after.zero_point[0]) != int(before.zero_point[0]):
            return None
    left, found = list(enumerate(place.stored.logical)), list[int]()
    for group in place.stored.layout:
        axis = next((number for number, own in left if own == group), None)
        if axis is None:
            return None
        found.append(axis)
        left.remove((axis, group))
    shape = place.value.shape
    sizes = tuple(size if isinstance(size := shape[axis], int) else None for axis in found)
    return None if left else End(place.stored.name, place.value.dtype, tuple(found), sizes)


def _cut(model: onnx.ModelProto, given: Sequence[End], read: Sequence[End], partial: Partial) -> None:
    """Make inputs of what is given and outputs of what is read, behind those of the source, leave out outputs, and what
    only they need. Raises :class:`VerifyError` where a tensor is not there.
    """
    graph, (first, last) = model.graph, partial.counts
    inputs, outputs = list(graph.input), list(graph.output)
    kept = [port for place, port in enumerate(outputs[:last]) if place not in partial.dropped]
    names, results = {end.name for end in given}, [*kept, *map(_port, read), *outputs[last:]]
    ends = [*(end.name for end in given), *(port.name for port in results)]
    if len({*ends}) < len(ends) or not {*ends} <= {name for node in graph.node for name in node.output}:
        raise VerifyError("what an operator reads or gives is no tensor of its own in the ONNX model")
    taken = Names({name for node in nodes_of(graph) for name in (*node.input, *node.output)})
    for node in graph.node:
        for position, name in enumerate(node.output):
            if name in names:
                node.output[position] = taken.unique(f"{name}/own")
    del graph.input[:], graph.output[:]
    graph.input.extend([*inputs[:first], *map(_port, given), *inputs[first:]])
    graph.output.extend(results)
    _drop(graph, {port.name for port in graph.output})
    infos = [info for info in graph.value_info if info.name not in names]
    del graph.value_info[:]
    graph.value_info.extend(infos)


def _port(end: End) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(end.name, TYPES[end.dtype], end.sizes)


def _drop(graph: onnx.GraphProto, wanted: set[str]) -> None:
    """Drop the nodes of which nothing is wanted."""
    kept = list[onnx.NodeProto]()
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_read(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _read(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (name for inner in nodes_of(graph) for name in inner.input)
            yield from (port.name for port in graph.output)
