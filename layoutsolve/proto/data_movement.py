"""What of a model in ONNX moves data: a source may have more of that than what is written in its place, never less."""

from __future__ import annotations

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.proto.messages import GraphProto, ModelProto
from layoutsolve.proto.scopes import graphs_of

SIZES = frozenset(("Shape", "Size"))
"""The operators that tell sizes, with which is computed before data are moved."""

VIEWS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
"""The operators that give a tensor another shape and move nothing."""


@dataclass(frozen=True, order=True)
class Moves:
    """The operators of a model, those in branches and loops included, that run and only move or reshape data.

    ``hidden`` is time that kernels lose by layouts, in Transposes, less those that are not executed.
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
        """Transposes, those within fused kernels included."""
        return self.transposes + self.hidden

    def gains(self, source: Moves, *, executed: bool = False) -> bool:
        """Whether a model with these is better than its source: in Transposes, then Reshapes, then what is hidden.

        Where what is ``executed`` counts, less of it is better at no more Transposes: a Reshape is nothing beside it.
        Layout penalties are whole Transposes, and rough: more Transposes than the source has are worth them where less
        than half is executed.
        """
        if self.counts < source.counts or (self.counts == source.counts and self.hidden < source.hidden):
            return True
        if self.transposes <= source.transposes:
            return executed and self.executed < source.executed
        return executed and 2 * self.executed < source.executed


def moves(model: ModelProto, hidden: int = 0) -> Moves:
    """What moves in a model without functions; what is computed of constants and sizes alone does not count."""
    graph = model.graph
    constants = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    return Moves(*_counted(graph, {each.name for each in graph.input} - constants), hidden)


def of_constants(model: ModelProto) -> int:
    """The Transposes in the main graph that are computed of constants alone: runtimes fold them when they load it."""
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    found = 0
    for node in graph.node:
        if constants.issuperset(filter(None, node.input)) and not any(graphs_of(node)):
            constants.update(node.output)
            found += node.op_type == "Transpose"
    return found


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
