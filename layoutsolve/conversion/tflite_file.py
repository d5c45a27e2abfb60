"""What a conversion to TensorFlow Lite writes: the bytes of a file, or the source's own where nothing is gained."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from layoutsolve.conversion.graph_io import every_end, metadata
from layoutsolve.conversion.provenance import Provenance
from layoutsolve.emit import apply
from layoutsolve.emit.tflite import Origins, Written, encode, written
from layoutsolve.emit.tflite.draft import stated
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend import Reading, is_tflite
from layoutsolve.frontend.tflite.lower import signature_of
from layoutsolve.frontend.tflite.lowering.draft import tensor_names
from layoutsolve.frontend.tflite.reading.model import VIEWS, Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.io.source import Content
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.graph import KEPT, LOWERINGS, Graph, Node
from layoutsolve.proto.data_movement import Moves
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.statement.proof_scope import MOVES

_MOVING, _SIZED = "TRANSPOSE", ("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")


@dataclass(frozen=True)
class File:
    """The bytes of a file. A source in TensorFlow Lite may be ``kept``, for a reason; it has ``figures``, and the
    subgraph at a ``position`` was converted. ``made`` is what is written for which operator. ``fixed`` are the
    operators of the subgraph, by number, that LiteRT does not express in the layouts that were chosen.
    """

    data: bytes
    kept: str = ""
    position: int = 0
    figures: Figures | None = None
    made: Written = field(default_factory=Written)
    fixed: frozenset[int] = frozenset()


def operators_of(model: Model) -> list[str]:
    """The operators of a model, of all its subgraphs."""
    return [operator.name for subgraph in model.subgraphs for operator in subgraph.operators]


def counted_moves(model: Model, hidden: int = 0) -> Moves:
    """The Transposes and Reshapes of a model."""
    names = operators_of(model)
    return Moves(names.count(_MOVING), sum(name in VIEWS for name in names), hidden)


def tflite_file(
    content: Content,
    graph: Graph,
    boundary: Boundary,
    assignment: Assignment,
    reading: Reading,
    made: Provenance,
    budget: Budget,
) -> File:
    """The TensorFlow Lite file of an assignment. A source in TensorFlow Lite of which nothing gets less is returned
    byte for byte, and so is one of which LiteRT's operators express only what it has itself, but where inputs or
    outputs are to be other ones.

    Raises :class:`UnsupportedError` where they do not express those, or a source in ONNX.
    """
    source = parse(content.data, content.called) if is_tflite(content.data) else None
    ends = every_end(graph, boundary, assignment)
    facts = {**_lowerings(graph), **made.facts, **metadata(ends)}
    made_of = Written()
    if source is None:
        return File(encode(written(apply(assignment, budget), None, facts, made_of), budget), made=made_of)
    position, moves, operators = _position(source, reading), counted_moves(source), len(operators_of(source))
    read = _resized(source, position, graph) if reading.shapes else source
    applied, own = Origins.of(read, position, assignment)
    figures = Figures(moves.transposes, moves.reshapes, operators, len(content.data))
    kept, data, others = "", b"", read is not source or any(end.moved for end in ends)
    try:
        model = written(applied, own, facts, made_of)
        kept = "" if others or _gains(model, moves, operators) else "no improvement"
        data = encode(model, budget) if not kept else bytes(content.data)
    except UnsupportedError as error:
        fixed = fixed_by(error, position)
        if others:
            raise
        kept, data = "LiteRT's operators express no other layouts of it", bytes(content.data)
        return File(data, kept, position, figures, made_of, fixed)
    return File(data, kept, position, figures, made_of)


def fixed_by(error: UnsupportedError, position: int | None) -> frozenset[int]:
    """The operators of a subgraph, by number, that LiteRT does not express; none of a source in ONNX."""
    return frozenset(gap.index for gap in error.gaps if gap.subgraph == position and gap.index >= 0)


def position_of(content: Content, reading: Reading) -> int | None:
    """The number of the subgraph of a source that is converted; None for a source in ONNX."""
    return _position(parse(content.data, content.called), reading) if is_tflite(content.data) else None


def _position(model: Model, reading: Reading) -> int:
    signature = signature_of(model, reading.signature)
    return 0 if signature is None else signature.subgraph


def holding(graph: Graph, position: int | None, fixed: Collection[int]) -> Graph:
    """A graph whose operators of some numbers keep their layouts."""

    def held(node: Node) -> Node:
        origin = node.origin
        if origin is None or origin.subgraph != position or origin.index not in fixed or node.op in MOVES:
            return node
        return node if node.domain or node.regions or node.region else replace(node, op=f"{KEPT}{node.op}")

    return replace(graph, nodes=tuple(map(held, graph.nodes)))


def _resized(model: Model, position: int, graph: Graph) -> Model:
    """A source with the sizes that its tensors were read with (``--shape``), itself where inputs have the same."""
    subgraph, names = model.subgraphs[position], tensor_names(model, position)
    known = {name: stated(value.shape) for name, value in graph.values.items()}
    given = [(subgraph.tensors[index], known.get(names[index])) for index in subgraph.inputs]
    if all(sizes is None or sizes[1] == (tensor.signature or tensor.shape) for tensor, sizes in given):
        return model
    tensors = [
        replace(tensor, shape=known[name][0], signature=known[name][1])
        if tensor.data is None and name in known
        else tensor
        for tensor, name in zip(subgraph.tensors, names, strict=True)
    ]
    for operator in subgraph.operators:
        if operator.name in _SIZED:  # an operand states the sizes of its result; of dynamic ones it is no constant
            sizes, stating = tensors[operator.outputs[0]].signature, tensors[operator.inputs[0]]
            data = None if -1 in sizes else np.array(sizes, stating.dtype)
            tensors[stating.index] = replace(stating, data=data)
    changed = replace(subgraph, tensors=tuple(tensors))
    return replace(model, subgraphs=(*model.subgraphs[:position], changed, *model.subgraphs[position + 1 :]))


def _lowerings(graph: Graph) -> dict[str, str]:
    """The files that registered lowerings, as the metadata have them."""
    return {LOWERINGS: graph.metadata[LOWERINGS]} if LOWERINGS in graph.metadata else {}


def _gains(model: Model, source: Moves, operators: int) -> bool:
    """Whether a model has fewer Transposes than its source, or as many and fewer operators, and never more."""
    after, count = counted_moves(model), len(operators_of(model))
    return count <= operators and (after.transposes, count) < (source.transposes, operators)
