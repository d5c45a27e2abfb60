"""A source in ONNX, and what is written in its place: that has no more Transposes, and no more Reshapes beside as many.

Where nothing is gained the source is written as it stands.
"""

from __future__ import annotations

from pathlib import Path

from layoutsolve.emit import External
from layoutsolve.emit.nodes import graphs_of
from layoutsolve.emit.tensors import fill
from layoutsolve.frontend.onnx import constants
from layoutsolve.protos import GraphProto, ModelProto, TensorProto
from layoutsolve.records import dataclass

SIZES = frozenset(("Shape", "Size"))
"""The operators that tell sizes, with which is computed before data are moved."""

VIEWS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""The operators that give a tensor another shape and move nothing."""


@dataclass(frozen=True, order=True)
class Moves:
    """The operators of a model, those in branches and loops included, that run and only move or reshape data.

    ``hidden`` is time that kernels lose by layouts, in Transposes.
    """

    transposes: int
    reshapes: int
    hidden: int

    @property
    def counts(self) -> tuple[int, int]:
        """Transposes first, then Reshapes."""
        return self.transposes, self.reshapes

    @property
    def executed(self) -> int:
        """Transposes, hidden ones included."""
        return self.transposes + self.hidden

    def gains(self, source: Moves) -> bool:
        """Whether a model with these is better than its source in something, and worse in nothing that is counted."""
        return self.counts < source.counts or (self.counts == source.counts and self.hidden < source.hidden)


def moves(model: ModelProto, hidden: int) -> Moves:
    """What moves in a model; what is computed of constants and sizes alone does not count."""
    found = _counted(model.graph, {each.name for each in model.graph.input} - _constants(model.graph))
    return Moves(*found, hidden)


def _constants(graph: GraphProto) -> set[str]:
    return {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}


def _counted(graph: GraphProto, running: set[str]) -> tuple[int, int]:
    transposes = reshapes = 0
    for node in graph.node:
        inner = list(graphs_of(node))
        if not inner and not running.intersection(node.input):
            continue
        if node.op_type in SIZES:
            continue
        running.update(node.output)
        transposes += node.op_type == "Transpose"
        reshapes += node.op_type in VIEWS
        for each in inner:
            more = _counted(each, running | {port.name for port in each.input})
            transposes, reshapes = transposes + more[0], reshapes + more[1]
    return transposes, reshapes


def as_it_stands(original: ModelProto, folder: Path | None, external: External | None) -> ModelProto:
    """A copy of a source with constants that it keeps in other files, in itself or in ``external``."""
    model = ModelProto()
    model.CopyFrom(original)
    for proto in model.graph.initializer:
        if proto.data_location == TensorProto.EXTERNAL:
            found = constants.of(proto, folder)
            name = proto.name
            if found.data is not None:
                proto.Clear()
                fill(proto, name, found.dtype, found.data, external)
    return model
