"""What a conversion to TensorFlow Lite writes: the bytes of a file, or the source's own where nothing is gained."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from layoutsolve.conversion.graph_io import every_end, metadata
from layoutsolve.conversion.provenance import Provenance
from layoutsolve.emit import apply
from layoutsolve.emit.tflite import Origins, Written, encode, written
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend import Reading, is_tflite
from layoutsolve.frontend.tflite.lower import signature_of
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

_MOVING = "TRANSPOSE"


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
    byte for byte, and so is one of which LiteRT's operators express only what it has itself.

    Raises :class:`UnsupportedError` where they do not express a source in ONNX.
    """
    applied, own = _applied(content, reading, assignment, budget)
    ends = every_end(graph, boundary, assignment)
    facts = {**_lowerings(graph), **made.facts, **metadata(ends)}
    made_of = Written()
    if own is None:
        return File(encode(written(applied, None, facts, made_of), budget), made=made_of)
    source, operators = counted_moves(own.model), len(operators_of(own.model))
    figures = Figures(source.transposes, source.reshapes, operators, len(content.data))
    kept, data, moved = "", b"", any(end.moved for end in ends)
    try:
        model = written(applied, own, facts, made_of)
        kept = "" if moved or _gains(model, source, operators) else "no improvement"
        data = encode(model, budget) if not kept else bytes(content.data)
    except UnsupportedError as error:
        fixed = frozenset(gap.index for gap in error.gaps if gap.subgraph == own.position and gap.index >= 0)
        if moved:
            raise
        kept, data = "LiteRT's operators express no other layouts of it", bytes(content.data)
        return File(data, kept, own.position, figures, made_of, fixed)
    return File(data, kept, own.position, figures, made_of)


def holding(graph: Graph, position: int, fixed: Collection[int]) -> Graph:
    """A graph whose operators of some numbers keep their layouts."""

    def held(node: Node) -> Node:
        origin = node.origin
        if origin is None or origin.subgraph != position or origin.index not in fixed or node.op in MOVES:
            return node
        return node if node.domain or node.regions or node.region else replace(node, op=f"{KEPT}{node.op}")

    return replace(graph, nodes=tuple(map(held, graph.nodes)))


def _applied(
    content: Content, reading: Reading, assignment: Assignment, budget: Budget
) -> tuple[Graph, Origins | None]:
    """The graph that is written, and which operators of a source in TensorFlow Lite it has."""
    if not is_tflite(content.data):
        return apply(assignment, budget), None
    model = parse(content.data, content.called)
    signature = signature_of(model, reading.signature)
    return Origins.of(model, 0 if signature is None else signature.subgraph, assignment)


def _lowerings(graph: Graph) -> dict[str, str]:
    """The files that registered lowerings, as the metadata have them."""
    return {LOWERINGS: graph.metadata[LOWERINGS]} if LOWERINGS in graph.metadata else {}


def _gains(model: Model, source: Moves, operators: int) -> bool:
    """Whether a model has fewer Transposes than its source, or as many and fewer operators, and never more."""
    after, count = counted_moves(model), len(operators_of(model))
    return count <= operators and (after.transposes, count) < (source.transposes, operators)
