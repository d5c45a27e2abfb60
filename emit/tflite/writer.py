"""From a graph as it is written to a TensorFlow Lite model: a row for each node, in the order of execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite import comparisons, gelus, roots
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.control_flow import Flows, in_order, without_unused
from layoutsolve.emit.tflite.copies import Copier, Origins, copies, with_states
from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.folding import folded
from layoutsolve.emit.tflite.fusion import Fused, fused
from layoutsolve.emit.tflite.meanings import annotated, direct, in_steps, united
from layoutsolve.emit.tflite.roundings import settled
from layoutsolve.emit.tflite.rows import QUANTIZED, ROWS, binary
from layoutsolve.emit.tflite.scaling import absorbed
from layoutsolve.emit.tflite.sharing import separated
from layoutsolve.emit.tflite.views import BETWEEN, compacted, merged, within_limits
from layoutsolve.errors import Gap, UnsupportedError
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Signature, Subgraph
from layoutsolve.ir.graph import CONTROL, KEPT, OPENING, Graph, Node

SIGNATURE = "serving_default"
"""The key of the signature of a model that has none in its source."""


Place = tuple[int, int]
"""The numbers of a graph of the source and of an operator in it."""


@dataclass(frozen=True)
class Written:
    """What is written for which operator of the source: ``operators`` by its place, and for operators of the main
    subgraph, by their numbers, the ``places`` that they come from.
    """

    operators: dict[Place, list[str]] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)


def written(
    graph: Graph, source: Origins | None = None, facts: Mapping[str, str] | None = None, made: Written | None = None
) -> Model:
    """The TensorFlow Lite model of a graph; operators of a ``source`` in TensorFlow Lite stay what they are where their
    tensors lie as they do there. ``facts`` are told in the model's metadata. ``made`` is filled with what is written
    for each operator.

    Raises :class:`UnsupportedError`, listing every node that LiteRT's operators do not express.
    """
    graph = (
        annotated(graph)
        if source is not None
        else settled(direct(united(annotated(comparisons.recognised(roots.recognised(gelus.recognised(graph)))))))
    )
    draft = Draft(graph, graph.names if source is None else {})
    try:
        for name in graph.inputs:
            draft.value(name)
    except ExpressionError as error:
        raise _refused(error) from error
    flows = Flows(draft, 1 if source is None else len(source.model.subgraphs))
    gaps = _nodes(draft, flows, source)
    if gaps:
        raise UnsupportedError(gaps)
    try:
        return _model(draft, source, facts or {}, made or Written())
    except ExpressionError as error:
        raise _refused(error) from error


def _nodes(draft: Draft, flows: Flows, source: Origins | None) -> list[Gap]:
    """Write all nodes; what LiteRT does not express of them."""
    graph = draft.graph
    same = copies(graph, source) if source is not None else {}
    copied = with_states(graph, {number for copy in same.values() for number in copy.nodes})
    together, gone = fused(graph, copied)
    copier = Copier(draft, source) if source is not None else None
    gaps: list[Gap] = []
    opened: list[Node] = []
    for number, node in enumerate(graph.nodes):
        if number in same and copier is not None:
            gaps += _gap(node, partial(copier.write, same[number]))
        if number in copied or number in gone:
            continue
        if node.op in CONTROL:
            gaps += _gap(node, partial(flows.note, node))
            opened += [node] if node.op in OPENING else []
            continue
        here = flows.drafts[node.region]
        if node.op == "Sizes":
            here.asked[node.outputs[0]] = tuple(node.attributes["dims"])
            continue
        here.origin = None if node.origin is None else (node.origin.subgraph, node.origin.index)
        own = together.get(number) or Fused(node.outputs[0] if node.outputs else "")
        gaps += _gap(node, partial(_write, here, node, own, source is not None))
    for node in reversed(opened):
        gaps += _gap(node, partial(flows.close, node), flows.result(node))
    return gaps


def _refused(error: ExpressionError) -> UnsupportedError:
    """What is said of a model where that is no matter of one node."""
    return UnsupportedError([Gap(0, -1, "(model)", "", f"LiteRT does not express it: {error.reason}", error.remedy)])


def _model(draft: Draft, source: Origins | None, facts: Mapping[str, str], made: Written) -> Model:
    """The model of all that is drafted, with what the source says of itself. ``made`` is filled."""
    graph = draft.graph
    name = "main" if source is None else source.model.subgraphs[source.position].name
    subgraph = _finished(draft, name, source is None, made, main=True)
    added = [
        _finished(body, f"{name}_{number}", source is None, made)
        for number, body in enumerate(draft.subgraphs, draft.first)
    ]
    ports = [
        {graph.names.get(name, name): draft.value(name) for name in names} for names in (graph.inputs, graph.outputs)
    ]
    told = {key: memoryview(value.encode()) for key, value in facts.items()}
    if source is None:
        return Model((subgraph, *added), (Signature(SIGNATURE, 0, *ports),), told, {}, "", 0)
    before = source.model.subgraphs[source.position]
    places = {
        index: draft.value(name)
        for side in zip((before.inputs, before.outputs), (graph.inputs, graph.outputs), strict=True)
        for index, name in _pairs(*side)
    }
    subgraphs = tuple(
        subgraph if number == source.position else each for number, each in enumerate(source.model.subgraphs)
    )
    signatures = tuple(
        _renumbered(each, places) if each.subgraph == source.position else each for each in source.model.signatures
    )
    metadata = {**source.model.metadata, **told}
    found = replace(source.model, subgraphs=(*subgraphs, *added), signatures=signatures, metadata=metadata)
    return without_unused(found, source.model, source.position)


def _finished(draft: Draft, name: str, anew: bool, made: Written, main: bool = False) -> Subgraph:
    """The subgraph of a draft, ``made`` is filled; what is written ``anew`` may compute otherwise."""
    draft.operators, ends = in_order(draft.operators), (draft.inputs, draft.outputs)
    kept = frozenset(draft.value(name) for names in ends for name in names)
    if anew:
        draft.operators = folded(draft, kept)
        draft.operators = absorbed(draft, kept)
    draft.operators = within_limits(draft)
    draft.operators = merged(draft, kept)
    operators = list[Operator]()
    for number, operator in enumerate(compacted(draft, separated(draft, kept), kept)):
        origin = draft.origins[operator.index] if operator.index != BETWEEN else None
        if origin is not None:
            made.operators.setdefault(origin, []).append(operator.name)
        if origin is not None and main:
            made.places[number] = origin
        operators.append(replace(operator, index=number))
    inputs, outputs = (tuple(draft.value(name) for name in names) for names in ends)
    return Subgraph(name, tuple(draft.tensors), tuple(operators), inputs, outputs)


def _renumbered(signature: Signature, places: Mapping[int, int]) -> Signature:
    """A signature of tensors that have other numbers."""
    inputs, outputs = (
        {name: places[index] for name, index in side.items() if index in places}
        for side in (signature.inputs, signature.outputs)
    )
    return replace(signature, inputs=inputs, outputs=outputs)


def _pairs(tensors: Sequence[int], names: Sequence[str]) -> list[tuple[int, str]]:
    """The tensors that are inputs, or outputs, of a source, each with what it is called in the graph."""
    different = list(dict.fromkeys(tensors))
    return list(zip(different if len(different) == len(names) else tensors, names, strict=True))


def _gap(node: Node, write: Callable[[], None], result: str = "") -> list[Gap]:
    """Write a node, of which ``result`` is told where it has no output itself; what LiteRT does not express of it."""
    try:
        write()
    except ExpressionError as error:
        origin = node.origin
        op = node.op.removeprefix(KEPT)
        place = (origin.subgraph, origin.index, origin.operator) if origin is not None else (0, 0, op)
        tensor = (node.outputs[0] if node.outputs else result).removesuffix("/stored")  # in a layout of its own
        return [Gap(*place, tensor, f"in LiteRT {error.reason}", error.remedy)]
    return []


def _write(draft: Draft, node: Node, together: Fused, exactly: bool) -> None:
    """Write a node; what is stored as integers is computed with in floats where no kernel does it in theirs. Where the
    result is to be ``exactly`` that of a source in TensorFlow Lite, its kernels alone may compute with integers.
    """
    call = Call(draft, node, together.result, together.activation)
    if together.bias:
        bound = Node("Gemm", (*node.inputs[:2], together.bias), node.outputs, {}, node.origin)
        call = Call(draft, bound, together.result, together.activation)
    row = ROWS.get(call.op)
    if row is None or (node.op.startswith(KEPT) and _without_rank(draft.graph, call)):
        name = call.op.removeprefix(KEPT)
        if name in ROWS and (unknown := _without_rank(draft.graph, call)):
            raise ExpressionError(f"the rank of '{unknown}' is not known", "state its shape in the model")
        raise ExpressionError(
            *_REFUSED.get(name, (f"it has no operator for {name}", "cut the model with --from or --to"))
        )
    if _is_without_elements(call):
        return
    stored = node.storage or call.op == "Identity" or not _is_quantized(draft.graph, call)
    if not stored and exactly:
        raise ExpressionError("its int8 kernel is not there in other layouts", _AS_IT_IS)
    if not stored and not QUANTIZED.get(call.op, _never)(call):
        call = Call(draft, call.node, call.result, call.activation, in_floats=True)
    read = (draft.graph.values[name] for name in call.node.inputs if name)
    draft.stored = tuple(value for value in read if call.in_floats and value.data is not None)
    named = (draft.graph.values[name] for name in (*node.inputs, *node.outputs) if name)
    computes = node.storage and call.op in binary.COMPUTING and any(map(in_steps, named))
    (binary.write_stored if computes else row)(call)
    call.close()


def _without_rank(graph: Graph, call: Call) -> str:
    """A tensor that a node reads or gives whose rank is not known, '' for none."""
    names = (*call.node.inputs, *call.node.outputs)
    return next((name for name in names if name and graph.values[name].foreign is not None), "")


def _is_without_elements(call: Call) -> bool:
    """Write results without elements as views of nothing: few of LiteRT's kernels expect any, and others end the
    process. Raises :class:`ExpressionError` for what is computed of nothing, as zeros are.
    """
    values, node = call.graph.values, call.node
    made = [(number, values[name]) for number, name in enumerate((call.result, *node.outputs[1:])) if name]
    if made and all(0 in value.shape for _, value in made):
        if call.op in ("Reshape", "Identity"):
            return False
        for number, value in made:
            nothing = call.draft.constant(np.zeros(0, value.dtype))
            call.reshape(nothing, value.shape, call.target(number))
        return True
    read = [values[name] for name in node.inputs if name]
    empty = [value for value in read if 0 in value.shape]
    if call.op not in ("Concat", "Resize") and any(each.data is None or each.in_floats for each in empty):
        raise ExpressionError("it computes something of a tensor without elements", "cut the model with --from or --to")
    return False


_AS_IT_IS = "leave out what asks for other layouts or sizes: --inputs, --outputs, --shape"
_BLOCKS = "weights in blocks have no kernel that computes in floats", "quantize them per channel"
_STEPS = (
    "weights in blocks have no kernel that computes in floats, and no scale is computed or not positive",
    "quantize them per channel, by constant scales",
)
_REFUSED = {
    **dict.fromkeys(("GatherBlockQuantized", "MatMulNBits"), _BLOCKS),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _STEPS),
}
"""Why some operators are not written, and what to do about it."""


def _never(call: Call) -> bool:
    return False


def _is_quantized(graph: Graph, call: Call) -> bool:
    names = (*call.node.inputs, *call.node.outputs, call.result)
    return any(graph.values[name].quant is not None for name in names if name)
