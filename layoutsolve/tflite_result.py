"""The result of a conversion to TensorFlow Lite: the file, and what is counted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, cast

from layoutsolve.conversion.provenance import Provenance, of_facts
from layoutsolve.conversion.tflite_file import File, counted_moves, operators_of
from layoutsolve.emit.tflite import Written
from layoutsolve.errors import OptionError
from layoutsolve.frontend import Reading
from layoutsolve.frontend.tflite.reading.model import Model, Subgraph, port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.io.files import Output
from layoutsolve.io.source import Content
from layoutsolve.ir.elements import element_bytes
from layoutsolve.ir.graph import Graph, Origin
from layoutsolve.proto.data_movement import Moves
from layoutsolve.result import Conversion
from layoutsolve.solver import Assignment, Boundary

if TYPE_CHECKING:
    from layoutsolve.conversion.session import Session
    from layoutsolve.measurement.profile import Profile


@dataclass(frozen=True, repr=False)
class TfliteConversion(Conversion):
    """Result of :func:`convert` with ``to="tflite"``. ``model`` is the bytes of the file.

    ``kept`` is the reason why a source in TensorFlow Lite is returned byte for byte, '' where it is not, and ``fixed``
    are the numbers of operators that keep their layouts, as LiteRT does not express them in others.
    """

    position: int = field(default=0, repr=False)
    made: Written = field(default_factory=Written, repr=False)
    fixed: frozenset[int] = frozenset()

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
    def bytes_moved(self) -> int:
        """Bytes that TRANSPOSEs of the written model write in one inference, dynamic sizes taken as 1."""
        if not self.kept:
            return self.price.bytes
        made = [
            graph.tensors[operator.outputs[0]]
            for graph in self.written.subgraphs
            for operator in graph.operators
            if operator.name == self.transpose
        ]
        return sum(int(prod(tensor.shape) * element_bytes(tensor.dtype)) for tensor in made)

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
    def held(self) -> bool:
        """Whether operators of the source keep their layouts, as LiteRT does not express them in others."""
        return bool(self.fixed)

    @property
    def main(self) -> int:
        """The number of the subgraph of the written model that was converted."""
        return self.position

    @property
    def opset(self) -> int:
        """0, as there are no operator sets."""
        return 0

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
            return self.made.operators
        pairs = ((number, each) for number, graph in enumerate(self.written.subgraphs) for each in graph.operators)
        return {(number, operator.index): [operator.name] for number, operator in pairs}


def as_tflite(
    file: File, content: Content, graph: Graph, assignment: Assignment, how: tuple[dict[str, float], Boundary, Reading]
) -> TfliteConversion:
    """The conversion that wrote a file: the seconds of its stages, and how its source was read, are ``how``."""
    graph = graph if file.figures is None else replace(graph, figures=file.figures)
    found = TfliteConversion(graph, assignment, cast("Any", file.data), *how, None, content.file, mapped=content.mapped)
    return _told(replace(found, kept=file.kept, position=file.position, made=file.made, fixed=file.fixed))


def _told(found: TfliteConversion) -> TfliteConversion:
    """A conversion with where each operator of the converted subgraph comes from, by what a report calls it."""
    own = {(each.subgraph, each.index): each for node in found.graph.nodes if (each := node.origin) is not None}
    named = {number: (found.position, number) for number in range(len(found.subgraph.operators))}
    places = named if found.kept else found.made.places
    operators = enumerate(found.subgraph.operators)
    names = {number: str(Origin(found.position, number, each.name)) for number, each in operators}
    return replace(found, origins={names[number]: own[place] for number, place in places.items() if place in own})
