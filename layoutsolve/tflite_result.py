"""The result of a conversion to TensorFlow Lite: the file, and what is counted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from layoutsolve.conversion.graph_io import every_end, metadata
from layoutsolve.conversion.provenance import Provenance, of_facts
from layoutsolve.conversion.stages import Stages
from layoutsolve.emit import apply
from layoutsolve.emit.tflite import Origins, encode, written
from layoutsolve.errors import OptionError, UnsupportedError
from layoutsolve.frontend import Reading, is_tflite
from layoutsolve.frontend.tflite.lower import signature_of
from layoutsolve.frontend.tflite.reading.model import Model, Subgraph, port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.io.files import Output
from layoutsolve.io.source import Content
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.graph import LOWERINGS, Graph
from layoutsolve.proto.data_movement import Moves
from layoutsolve.result import Conversion
from layoutsolve.solver import Assignment, Boundary

if TYPE_CHECKING:
    from layoutsolve.conversion.session import Session
    from layoutsolve.measurement.profile import Profile

_MOVING, _VIEWS = "TRANSPOSE", frozenset(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"))


@dataclass(frozen=True, repr=False)
class TfliteConversion(Conversion):
    """Result of :func:`convert` with ``to="tflite"``. ``model`` is the bytes of the file.

    ``kept`` is the reason why a source in TensorFlow Lite is returned byte for byte, '' where it is not.
    """

    position: int = field(default=0, repr=False)
    made: Mapping[tuple[int, int], Sequence[str]] = field(default_factory=dict, repr=False)

    transpose, reshape = "TRANSPOSE", "RESHAPE"
    """What the operators are called that move and reshape data."""

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return cast("bytes", self.model)

    @cached_property
    def written(self) -> Model:
        """The model that is written, as it is read again."""
        return parse(self.data)

    @property
    def subgraph(self) -> Subgraph:
        """The subgraph that was converted, as it is written."""
        return self.written.subgraphs[self.position]

    @cached_property
    def moves(self) -> Moves:
        """Transposes and Reshapes of the written model."""
        return counted_moves(self.written, self.price.hidden)

    @property
    def selected(self) -> int:
        """Number of layers that select weights on loading: none."""
        return 0

    @property
    def provenance(self) -> Provenance:
        """Provenance from the model's metadata: version, source digest and options."""
        return of_facts({key: bytes(value).decode("utf-8", "replace") for key, value in self.written.metadata.items()})

    @cached_property
    def operators(self) -> list[str]:
        """The operators of the written model."""
        return operators_of(self.written)

    @property
    def to(self) -> str:
        """The format that is written: 'onnx' or 'tflite'."""
        return "tflite"

    @property
    def format_told(self) -> str:
        """The format of the written model, in words."""
        return "TensorFlow Lite"

    @property
    def format_facts(self) -> dict[str, object]:
        """Facts of the format of the written model."""
        return {"format": "tflite"}

    def ports(self, inputs: bool) -> dict[str, str]:
        """Graph inputs (or outputs) of the written model by name: type and shape, such as ``float32[1,224,224,3]``."""
        tensors, indices = self.subgraph.tensors, self.subgraph.inputs if inputs else self.subgraph.outputs
        found = {}
        for name, index in zip(self._port_names(inputs), indices, strict=True):
            tensor = tensors[index]
            sizes = ",".join("?" if size == -1 else str(size) for size in tensor.signature or tensor.shape)
            found[name] = f"{tensor.dtype}[{sizes}]"
        return found

    def _port_names(self, inputs: bool) -> list[str]:
        return list(port_names(self.written, inputs, self.position))

    @cached_property
    def size(self) -> int:
        """Size of the written model in bytes."""
        return len(self.data)

    def session(self, *, threads: int = 0) -> Session:
        """Not for TensorFlow Lite: LiteRT runs the file."""
        raise OptionError("a session runs ONNX: give the file to LiteRT's interpreter")

    def profile(self) -> Profile:
        """Not for TensorFlow Lite."""
        raise OptionError("profile: that is about ONNX Runtime; use LiteRT's benchmark_model")

    def outputs(self, path: str) -> tuple[Output, ...]:
        """File that :meth:`save` writes."""
        return (Output("model", path, lambda file: file.write(self.data)),)

    def content(self, path: str | Any = "") -> bytes:
        """The bytes of the file, whatever its path is."""
        return self.data

    @property
    def written_for(self) -> Mapping[tuple[int, int], Sequence[str]]:
        """Operators of the written model by the subgraph and operator numbers of what they come from."""
        if not self.kept:
            return self.made
        pairs = ((number, each) for number, graph in enumerate(self.written.subgraphs) for each in graph.operators)
        return {(number, operator.index): [operator.name] for number, operator in pairs}


def operators_of(model: Model) -> list[str]:
    """The operators of a model, of all its subgraphs."""
    return [operator.name for subgraph in model.subgraphs for operator in subgraph.operators]


def counted_moves(model: Model, hidden: int = 0) -> Moves:
    """The Transposes and Reshapes of a model."""
    names = operators_of(model)
    return Moves(names.count(_MOVING), sum(name in _VIEWS for name in names), hidden)


def as_tflite(
    content: Content,
    graph: Graph,
    boundary: Boundary,
    assignment: Assignment,
    reading: Reading,
    made: Provenance,
    budget: Budget,
    stage: Stages,
) -> TfliteConversion:
    """The TensorFlow Lite model of an assignment. A source in TensorFlow Lite of which nothing gets less is returned
    byte for byte, and so is one of which LiteRT's operators express only what it has itself.

    Raises :class:`UnsupportedError` where they do not express a source in ONNX.
    """
    applied, own = _applied(content, reading, assignment, budget)
    ends = every_end(graph, boundary, assignment)
    facts = {**_lowerings(graph), **made.facts, **metadata(ends)}
    made_of: dict[tuple[int, int], list[str]] = {}
    how = stage.seconds, boundary, reading, None, content.file
    if own is None:
        data = encode(written(applied, None, facts, made_of), budget)
        return TfliteConversion(graph, assignment, cast("Any", data), *how, mapped=content.mapped, made=made_of)
    source, operators = counted_moves(own.model), len(operators_of(own.model))
    graph = replace(graph, figures=Figures(source.transposes, source.reshapes, operators, len(content.data)))
    kept, data, moved = "", b"", any(end.moved for end in ends)
    try:
        model = written(applied, own, facts, made_of)
        kept = "" if moved or _gains(model, source, operators) else "no improvement"
        data = encode(model, budget) if not kept else bytes(content.data)
    except UnsupportedError:
        if moved:
            raise
        kept, data = "LiteRT's operators express no other layouts of it", bytes(content.data)
    found = TfliteConversion(graph, assignment, cast("Any", data), *how, mapped=content.mapped, position=own.position)
    return replace(found, kept=kept, made=made_of)


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
