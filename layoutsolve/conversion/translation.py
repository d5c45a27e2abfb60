"""What a conversion does beside choosing layouts: it reads the source, and writes what the layouts make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.conversion.graph_io import End, ends_of, every_end, metadata
from layoutsolve.conversion.provenance import KEYS, WRITTEN, Provenance, outline
from layoutsolve.conversion.stages import Stages
from layoutsolve.emit import (
    LIMIT,
    External,
    Kernels,
    QuantForm,
    apply,
    constant_bytes,
    meant,
    pieces,
    place,
    serialise,
)
from layoutsolve.errors import OptionError, OutputError
from layoutsolve.frontend import Reading, lowered, parse
from layoutsolve.io.source import Content
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph, Origin
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.boundary import Boundary
from layoutsolve.solver.targets.target import Target

if TYPE_CHECKING:
    import onnx


def reference(
    content: Content, reading: Reading, stage: Stages, opset: int | None = None, budget: Budget | None = None
) -> Graph:
    """The reference graph of a model; ``opset`` is the one that is asked for."""
    with stage("read"):
        drop = reading.initializer_inputs == "drop"
        parsed = parse(content.data, content.folder, content.called, drop, reading.storage.decomposed)
    with stage("lower", counted="read"):
        return lowered(parsed, content.name, reading, partial(serialise, opset=opset), budget)


def kernels_of(reading: Reading, target: Target) -> Kernels | None:
    """The operators on stored integers that may be written for a target, None where none was asked for."""
    if reading.quant != "qoperator":
        return None
    return Kernels(frozenset(("", *target.domains)), reading.storage.weights in ("unsigned", "uint8"))


@dataclass(frozen=True)
class FileOptions:
    """What is asked of a file: its operator set, by default the lowest that is enough, and whether its constants are
    written beside it (``external_data``), by default where one file cannot hold them.
    """

    opset: int | None = None
    external_data: bool | None = None


_DEFAULT = FileOptions()


def emitted(
    graph: Graph,
    boundary: Boundary,
    assignment: Assignment,
    reading: Reading,
    made: Provenance,
    asked: FileOptions = _DEFAULT,
    budget: Budget | None = None,
) -> tuple[onnx.ModelProto, External | None, dict[str, Origin]]:
    """The ONNX model of an assignment of the layouts of a graph, its constants where they are beside it, and where each
    node comes from, by its name. ``reading`` is how the source was read, ``made`` what the model says of how it was
    made.
    """
    applied = apply(assignment, budget)
    ends = every_end(graph, boundary, assignment)
    stale = KEYS if graph.imports else ()  # of how a source in ONNX was made
    before = {key: value for key, value in applied.metadata.items() if key not in stale}
    facts = {**before, **metadata(ends, applied.metadata), **made.metadata}
    external, origins = External() if _apart(applied, asked.external_data) else None, dict[str, Origin]()
    kernels = kernels_of(reading, assignment.goal.target)
    real = meant(assignment, applied) if kernels is None else frozenset()
    told = replace(applied, metadata=facts)
    model = serialise(told, asked.opset, external, budget, origins, QuantForm(kernels, real, reading.storage))
    model.producer_version = made.version
    _tell_copies(model, ends_of(graph, boundary, assignment, inputs=False))
    if graph.imports:
        _tell(model, {WRITTEN: outline(model)})
    return model, external, origins


def _tell_copies(model: onnx.ModelProto, outputs: Sequence[End]) -> None:
    """Say how outputs are stored that have other names than their tensors: those that are inputs, or there twice."""
    pairs = zip(model.graph.output, outputs, strict=False)
    told = metadata([replace(end, name=port.name) for port, end in pairs if port.name != end.name])
    if told:
        _tell(model, told)


def _tell(model: onnx.ModelProto, told: dict[str, str]) -> None:
    """Add to the metadata, which are in order."""
    facts = {prop.key: prop.value for prop in model.metadata_props} | told
    del model.metadata_props[:]
    for key, value in sorted(facts.items()):
        model.metadata_props.add(key=key, value=value)


def _apart(graph: Graph, asked: bool | None) -> bool:
    """Whether constants are kept beside the model: as it was asked for, else where it cannot hold them."""
    large = constant_bytes(graph) > LIMIT
    if large and asked is False:
        raise OptionError("external_data is False, but the constants are more than one file can hold: leave it out")
    return large if asked is None else asked


def content_of(model: onnx.ModelProto, external: External | None, path: str) -> bytes:
    """The bytes of a model as it is saved under a path, which matters only where constants are apart.

    Raises :class:`OutputError` where the model could not refer to its constants.
    """
    return b"".join(pieces(saved(model, external, path)))


def saved(model: onnx.ModelProto, external: External | None, path: str) -> onnx.ModelProto:
    """A model as it is saved under a path; what it raises is as for :func:`content_of`."""
    if external is None:
        return model
    name = Path(f"{path}.data").name
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise OutputError(f"a model cannot refer to the file {name!a}: choose a name in UTF-8") from error
    return place(model, name)
