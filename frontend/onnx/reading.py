"""From the bytes of an ``.onnx`` file to what is lowered: its model in a present operator set, and its constants.

The bytes are not trusted: protobuf reads them, and whatever it finds is looked at before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import ModelError
from layoutsolve.frontend.onnx import versions
from layoutsolve.frontend.onnx.constants import OVERRIDABLE, Constant, of, taken
from layoutsolve.frontend.onnx.inlining import expanded, inlined
from layoutsolve.io.source import Folder
from layoutsolve.ir.figures import Figures
from layoutsolve.ir.graph import STATE
from layoutsolve.proto import operator_schemas, scopes
from layoutsolve.proto.data_movement import moves
from layoutsolve.proto.messages import FunctionProto, GraphProto, ModelProto, graphs_in
from layoutsolve.proto.rank_bounds import rank_of
from layoutsolve.proto.weight_selection import running

_DEEPEST = 28
"""How deeply graphs may lie within each other: protobuf reads 100 messages deep, three for each graph."""


@dataclass(frozen=True, eq=False)
class Source:
    """A model in ONNX. ``proto`` has no larger constants, which are in ``constants`` by name; ``size`` is that of the
    file in bytes. ``original`` is the model as it was read, ``figures`` are its own. ``dropped`` are the inputs that
    are left out, as they are initializers as well.
    """

    proto: ModelProto
    constants: Mapping[str, Constant]
    size: int
    original: ModelProto
    figures: Figures
    dropped: tuple[str, ...] = ()

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The files that are packed with the model: none."""
        return {}


def parse(
    data: bytes | memoryview,
    folder: Folder | None = None,
    called: str = "the model",
    drop: bool = False,
    defined: bool = False,
) -> Source:
    """Read a model, whose constants may be in other files of its ``folder``; it is ``called`` so in messages. With
    ``drop`` inputs that are initializers as well are left out, and where operators are to be ``defined`` some are what
    ONNX defines them by.

    Raises :class:`ModelError` on anything that is no model, and :class:`UnsupportedError` for operators that cannot be
    brought to a present operator set.
    """
    try:
        model = ModelProto.FromString(data)
    except Exception as error:  # DecodeError, whose class depends on how protobuf is made
        raise ModelError(f"{called} is damaged: it begins as a model in ONNX, and cannot be read as one") from error
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("the model has no graph with outputs: state what it is to compute")
    _check_parts(model)
    _check_inputs(model.graph)
    dropped = drop_inputs(model) if drop else ()
    for body in (model.graph, *model.functions):
        scopes.sort(body)
    original = model
    operator_schemas.check(model, versions.LOWEST)
    model = expanded(inlined(model)) if defined else inlined(model)
    if model is not original:
        operator_schemas.check(model, versions.LOWEST)
    scopes.check(model.graph)
    operators = sum(1 for body in (original.graph, *original.functions) for _ in running(body))
    counts = moves(model).counts
    outline, constants, beside = taken(model, folder)
    made = versions.converted(outline)
    constants |= {each.name: of(each) for each in made.graph.initializer if each.name not in constants}
    return Source(made, constants, len(data), original, Figures(*counts, operators, len(data) + beside), dropped)


def _check_parts(model: ModelProto) -> None:
    """Raise :class:`ModelError` for texts, names and ranks that are none, and for graphs that lie too deep."""
    told = (model.producer_name, model.producer_version, model.domain, model.doc_string)
    _check_texts([*told, *(each.domain for each in model.opset_import)])
    _check_texts([text for each in model.metadata_props for text in (each.key, each.value)])
    for function in model.functions:
        _check_texts([function.name, function.domain, *function.input, *function.output, *function.attribute])
    for body in (model.graph, *model.functions):
        for depth, graph in _graphs(body):
            _check_names(graph)
            if isinstance(graph, GraphProto):
                _check_ranks(graph)
            if depth > _DEEPEST:
                raise ModelError(f"graphs lie more than {_DEEPEST} deep in each other: make the model flatter")


def drop_inputs(model: ModelProto) -> tuple[str, ...]:
    """Leave out the inputs that are initializers as well; the names of those that whoever runs the model might have
    overridden, of which runtimes fold nothing. Before IR version 4 all initializers are listed so, and are constants
    all the same. Those stay that are states, which what is computed replaces, and those that training changes.
    """
    graph = model.graph
    names = {each.name for each in graph.initializer}
    kept = {each.key.removeprefix(STATE) for each in model.metadata_props if each.key.startswith(STATE)}
    kept.update(pair.key for training in model.training_info for pair in training.update_binding)
    ports = [port for port in graph.input if port.name in names and port.name not in kept]
    if not ports:
        return ()
    dropped = tuple(port.name for port in ports)
    others = [port for port in graph.input if port.name not in dropped]
    del graph.input[:]
    graph.input.extend(others)
    if model.ir_version >= OVERRIDABLE:
        return dropped
    model.ir_version = OVERRIDABLE
    return ()


def _check_inputs(graph: GraphProto) -> None:
    """Raise :class:`ModelError` where two inputs are one."""
    names = set[str]()
    for port in graph.input:
        if port.name in names:
            raise scopes.broken(f"two inputs are called '{port.name}'")
        names.add(port.name)


def _check_names(graph: GraphProto | FunctionProto) -> None:
    """Raise :class:`ModelError` where a name is no text, which protobuf gives as bytes."""
    names = [graph.name, graph.doc_string]
    if isinstance(graph, GraphProto):
        names += (port.name for port in (*graph.input, *graph.output, *graph.value_info))
        names += (name for constant in graph.initializer for name in (constant.name, constant.doc_string))
    for node in graph.node:
        names += (node.name, node.op_type, node.domain, node.doc_string, *node.input, *node.output)
        names += (attribute.name for attribute in node.attribute)
    _check_texts(names)


def _check_ranks(graph: GraphProto) -> None:
    """Raise :class:`ModelError` where a tensor is said to have more dimensions than any array: inference would repeat
    them for all that is computed of it.
    """
    ranks = [(each.name, rank_of(each.type)) for each in (*graph.input, *graph.value_info, *graph.output)]
    ranks += [(each.name, len(each.dims)) for each in graph.initializer]
    for name, rank in ranks:
        if rank > operator_schemas.MOST_DIMENSIONS:
            raise ModelError(
                f"'{name}' has {rank} dimensions: merge some, {operator_schemas.MOST_DIMENSIONS} are the most"
            )


def _check_texts(texts: Sequence[object]) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise ModelError("the file is damaged: a name in it is no text")


def _graphs(graph: GraphProto | FunctionProto) -> Iterator[tuple[int, GraphProto | FunctionProto]]:
    """A graph or a function, and the graphs within it, with how deeply they lie."""
    stack = [(0, graph)]
    while stack:
        depth, current = stack.pop()
        yield depth, current
        if depth <= _DEEPEST:
            for node in current.node:
                for attribute in node.attribute:
                    stack += [(depth + 1, inner) for inner in graphs_in(attribute)]
