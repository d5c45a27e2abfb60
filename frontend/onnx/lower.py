"""From a model in ONNX to the reference graph: one operator after the other.

What an operator is written as in the file it stays, but for views, constants, and quantization, which is an annotation
here. What nothing is known about is written as it stands: an operator of another domain, one with graphs in it, one on
values that are no tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from layoutsolve.base.wording import brief, listed, nearest
from layoutsolve.errors import BudgetError, Gap, ModelError, OptionError, UnsupportedError
from layoutsolve.frontend.onnx import constants, integer_weights
from layoutsolve.frontend.onnx.call import Call, UnknownRankError
from layoutsolve.frontend.onnx.constant_folding import fold
from layoutsolve.frontend.onnx.control_flow import opened
from layoutsolve.frontend.onnx.draft import Draft
from layoutsolve.frontend.onnx.equal_sizes import equate_sizes
from layoutsolve.frontend.onnx.inference_standins import CONTRIB, ML
from layoutsolve.frontend.onnx.operators import LOWERINGS
from layoutsolve.frontend.onnx.operators.quantization import STORED, parameters
from layoutsolve.frontend.onnx.reading import Source
from layoutsolve.frontend.onnx.source_descriptions import axes_of, told_by
from layoutsolve.frontend.onnx.symbols import Symbols
from layoutsolve.frontend.passes.live_nodes import live
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import are_halves
from layoutsolve.ir.graph import BYTES, CAPTURES, CONTROL, KEPT, OPENING, STATE, Dim, Graph, Node, Origin, Value
from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    graphs_in,
    permutation,
)
from layoutsolve.proto.operator_schemas import REMEDY
from layoutsolve.proto.scopes import apart, broken, captures, names_in, ordered

VIEWS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that are views unless they come here: then they are asked for what is known only at run time, or are of
another domain.
"""

MOVING = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that hand on what is stored in another order, or as it is."""

_DEQUANTIZED = frozenset((*BYTES, "int32"))
"""The types of activations, weights and biases of bytes."""

ROUNDS = 8
"""How often all is lowered at most, to know from the beginning what symbols of sizes are."""


def lower(source: Source, name: str, shapes: Mapping[str, tuple[int, ...]], budget: Budget) -> Graph:
    """The reference graph of a model; ``shapes`` are those of inputs by name.

    Raises :class:`UnsupportedError` for what ONNX allows and cannot be kept, :class:`ModelError` for what it does not.
    """
    budget.extend(source.figures.bytes - source.size)
    try:
        return _lowered(_pinned(source, shapes), name, budget)
    except BudgetError as error:
        raise UnsupportedError([Gap(0, -1, "(model)", "", error.reason, error.remedy)]) from error


def _pinned(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> Source:
    """The model with the shapes of some inputs fixed."""
    if not shapes:
        return source
    known = {port.name: port for port in source.proto.graph.input if port.name not in source.constants}
    proto = ModelProto()
    proto.CopyFrom(source.proto)
    for name, shape in shapes.items():
        if name not in known:
            raise OptionError(f"no input is called '{name}': those are {listed(known)}{nearest(name, known)}")
        stated = known[name].type.tensor_type.shape.dim
        if len(stated) != len(shape) or any(
            dim.WhichOneof("value") == "dim_value" and dim.dim_value not in (size, -1, 0)
            for dim, size in zip(stated, shape, strict=True)
        ):
            sizes = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in stated)
            raise OptionError(
                f"shape {list(shape)} does not fit input '{name}', which has [{sizes}]: an ONNX model has the sizes"
                " that it states, which its operators may rely on; export it with other ones, or with a dynamic batch"
            )
        port = next(port for port in proto.graph.input if port.name == name)
        for dim, size in zip(port.type.tensor_type.shape.dim, shape, strict=True):
            if size >= 0:
                dim.dim_value = size
    return replace(source, proto=proto)


def _lowered(source: Source, name: str, budget: Budget) -> Graph:
    """The reference graph: what operators tell of symbols is known from the beginning when all is lowered once more."""
    nodes, symbols = source.proto.graph.node, Symbols()
    ports = sum(len(node.input) + len(node.output) for node in nodes)
    for _ in range(ROUNDS):
        budget.extend(0)  # what is lowered once more takes the place of what was
        budget.open(len(nodes), ports)
        draft = Draft(source, budget, symbols)
        inputs = _inputs(draft, source)
        states = _states(source, inputs)
        draft.outputs -= frozenset(states.values())
        _drafted(draft, inputs)
        if not draft.forced:
            break
    for state, following in reversed(states.items()):
        _keep(draft, state, following)
    return _graph(draft, name, [each for each in inputs if each not in states])


def _drafted(draft: Draft, inputs: Sequence[str]) -> None:
    """Write all of a model."""
    graph = draft.source.proto.graph
    nodes = ordered(graph, draft.given)
    _check_ends(graph, frozenset(inputs))
    for name in inputs:
        draft.declare(name)
    for port in graph.output:
        if port.name in draft.given:
            _copied(draft, port.name, None)
    _write(draft, nodes)


def _states(source: Source, inputs: Sequence[str]) -> dict[str, str]:
    """The states of a model that layoutsolve has written: by input the output that replaces it. Both come last."""
    told = {each.key: each.value for each in source.original.metadata_props if each.key.startswith(STATE)}
    found = {key.removeprefix(STATE): value for key, value in told.items()}
    outputs = [port.name for port in source.proto.graph.output]
    last = [name for name in inputs if name in found]
    following = [found[name] for name in last]
    if not last or len(last) < len(found) or list(inputs)[-len(last) :] != last or outputs[-len(last) :] != following:
        return {}
    fits = len(last) < len(outputs) and len(set(following)) == len(last)
    return dict(zip(last, following, strict=True)) if fits else {}


def _inputs(draft: Draft, source: Source) -> list[str]:
    """The names of the inputs. What has a default that may be replaced is one, and no constant."""
    found = []
    for port in source.original.graph.input:
        default = draft.given.get(port.name)
        if default is None:
            found.append(port.name)
        elif source.original.ir_version >= constants.OVERRIDABLE and default.data is not None:
            found.append(port.name)
            del draft.given[port.name]
            draft.defaults[port.name] = Value(port.name, default.dtype, default.data.shape, None, default.data)
    return found


def _check_ends(graph: GraphProto, inputs: Collection[str]) -> None:
    """Raise :class:`ModelError` where an output is none, or an end has no name."""
    names = [port.name for port in graph.output]
    if "" in (*inputs, *names):
        raise broken("an input or an output has no name")
    if len(set(names)) < len(names):
        raise broken("two outputs have the same name")


def _ask(draft: Draft, nodes: Sequence[tuple[int, NodeProto]]) -> None:
    """Note how tensors of whole numbers that are computed or given are dequantized first, by themselves or behind
    views.
    """
    known = [(index, node) for index, node in nodes if node.domain in DOMAINS and node.input and node.output]
    for index, proto in known:
        if proto.op_type == "DequantizeLinear":
            call, name = Call(draft, proto, index), proto.input[0]
            if _may_ask(draft, name) and len(call.inputs) > 1 and draft.given.keys() >= set(call.inputs[1:]):
                quant = parameters(call, draft.types.element(name), len(draft.types.dims(name) or ()))
                if quant is not None and quant.axis is None:
                    draft.asked[name] = quant
    for _, proto in reversed(known):
        if proto.op_type in MOVING and _may_ask(draft, proto.input[0]):
            quant = draft.asked.get(proto.output[0])
            if quant is not None:
                draft.asked[proto.input[0]] = quant


def _may_ask(draft: Draft, name: str) -> bool:
    """Whether a tensor is one of whole numbers of which it is not known yet what they mean."""
    stored = draft.types.element(name) in STORED and draft.types.dims(name) is not None
    return stored and name not in draft.asked and name not in draft.given


def _write(draft: Draft, nodes: Sequence[tuple[int, NodeProto]]) -> None:
    """Write operators of a graph."""
    nodes = [(index, _of_onnx(draft, proto)) for index, proto in nodes]
    _ask(draft, nodes)
    for index, proto in nodes:
        _lower(Call(draft, proto, index))


def _of_onnx(draft: Draft, proto: NodeProto) -> NodeProto:
    """A quantization of bytes of ONNX Runtime's own, which makes the same kernels of it, as that of ONNX."""
    names = {"DequantizeLinear": proto.input, "QuantizeLinear": proto.output}.get(proto.op_type)
    if proto.domain != CONTRIB or not names:
        return proto
    known = draft.given.get(names[0])
    if (draft.types.element(names[0]) if known is None else known.dtype) not in _DEQUANTIZED:
        return proto
    made = NodeProto()
    made.CopyFrom(proto)
    made.domain = ""
    return made


def _lower(call: Call) -> None:
    """Write one operator."""
    _check_values(call)
    try:
        equate_sizes(call)
        _written(call)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"{call.origin} contradicts itself: {error}") from error


def _check_values(call: Call) -> None:
    """Raise :class:`ModelError` for sizes, axes and indices that are no integers, for a Cast to no type at all, for a
    Transpose of more or fewer dimensions than its input has, and for a PRelu whose slope is larger than its input:
    runtimes do not agree with ONNX on the result.
    """
    if reason := call.draft.types.misfit(call.proto, call.draft.given):
        raise ModelError(f"{call.origin} {reason}; {REMEDY}")
    if call.op == "Cast" and not call.domain and call.attribute("to", 0) not in TensorProto.DataType.values()[1:]:
        raise ModelError(f"{call.origin} casts to the type {call.attribute('to', 0)}, which there is not; {REMEDY}")
    if call.op == "Transpose" and not call.domain and call.known(0) and (perm := permutation(call.proto)):
        rank = len(call.value(0).shape)
        if sorted(perm) != list(range(rank)):
            said = f"{call.origin} has the perm {brief(perm)} for '{call.inputs[0]}' of {rank} dimensions"
            raise ModelError(f"{said}; {REMEDY}")
    if call.op == "PRelu" and not call.domain and call.known(0) and call.known(1):
        shape, slope = (call.value(number).shape for number in (0, 1))
        if len(slope) > len(shape) or any(map(_is_larger, slope[::-1], shape[::-1])):
            raise ModelError(
                f"{call.origin} has a slope of shape {brief(slope)} for '{call.inputs[0]}' of shape {brief(shape)}, and"
                f" cannot be larger than that: expand what it is applied to"
            )


def _is_larger(one: Dim, other: Dim) -> bool:
    """Whether a size does not fit in another one, whatever is not known of them."""
    return isinstance(one, int) and isinstance(other, int) and one not in (1, other)


def _written(call: Call) -> None:
    if integer_weights.recognised(call):
        return
    if fold(call):
        for name in call.outputs:
            if name in call.draft.outputs:
                _copied(call.draft, name, call.origin)
        return
    if call.op in OPENING and not call.domain and not call.has_graphs:
        raise ModelError(f"{call.origin} has no graph in it")
    if call.has_graphs and opened(call, _write):
        return
    function = None if call.domain or call.has_graphs else LOWERINGS.get(call.op)
    try:
        written = function is not None and function(call)
    except UnknownRankError:
        written = False
    if not written:
        _as_it_stands(call)


def _copied(draft: Draft, name: str, origin: Origin | None) -> None:
    """Write an output that is a constant."""
    found = draft.given.pop(name)
    if found.data is None:
        raise ModelError(f"the output '{name}' is a constant of an unknown type")
    constant = draft.constant(found.data, f"{name}/constant", found.dtype)
    draft.given[constant.name] = found
    draft.add(Value(name, found.dtype, constant.shape))
    draft.emit(Node("Identity", (constant.name,), (name,), {}, origin, given=True))
    draft.alias[name] = constant.name


def _as_it_stands(call: Call) -> None:
    """Write an operator as it is in the file, with the sizes that are known of its results."""
    draft = call.draft
    shapes = call.shapes()
    names, storage = call.operands(call.stores)
    attributes = dict(call.attributes)
    if call.op == "Cast" and not call.domain and attributes.get("to") in constants.TYPES:
        attributes["to"] = constants.TYPES[attributes["to"]]
    if call.has_graphs:
        inner = captures(call.proto)
        attributes |= _apart(call)
        attributes[CAPTURES] = tuple(inner)
        names += [call.plain(name) for name in inner]
    for name, shape in zip(call.outputs, shapes, strict=True):
        if name and name not in draft.values:
            draft.declare(name, shape)
    opaque = call.has_graphs or call.op in (*VIEWS, *CONTROL, "Sizes") or call.domain not in ("", CONTRIB, ML)
    call.emit(f"{KEPT}{call.op}" if opaque else call.op, names, call.outputs, attributes, storage)


def _apart(call: Call) -> dict[str, AttributeProto]:
    """The graphs of an operator that stays as it stands, under names that nothing around them has."""
    found: dict[str, AttributeProto] = {}
    for each in call.proto.attribute:
        if graphs_in(each):
            made = found[each.name] = AttributeProto()
            made.CopyFrom(each)
            for graph in graphs_in(made):
                graph.CopyFrom(apart(graph, call.draft.names))
    for made in found.values():
        call.draft.names.take(name for graph in graphs_in(made) for name in names_in(graph))
    return found


def _keep(draft: Draft, name: str, following: str) -> None:
    """Make an input a state, which is what an output has left in the run before."""
    initial, value = draft.defaults.pop(name, None), draft.values[name]
    first = ""
    if initial is not None and initial.data is not None:
        first = draft.constant(initial.data, f"{name}/initial", initial.dtype, value.quant).name
    after = draft.plain(following) if value.quant is None else draft.value(following).name
    draft.nodes.insert(0, Node("State", (first, after), (name,), storage=True))


def _graph(draft: Draft, name: str, inputs: list[str]) -> Graph:
    source = draft.source
    states = any(node.op == "State" for node in draft.nodes)
    outputs = tuple(port.name for port in source.proto.graph.output if port.name in draft.outputs)
    for each in outputs:
        if each not in draft.values:  # an alias, or what a stored tensor means
            value, real = draft.value(each), draft.is_real(each)
            draft.add(Value(each, "float32" if real else value.dtype, value.shape, foreign=value.foreign))
            draft.emit(Node("Identity", (value.name,), (each,), {}, None, not real))
    nodes = live(draft.nodes, outputs, draft.values, draft.meanings.formulas)
    used = {each for node in nodes for each in (*node.inputs, *node.outputs) if each} | {*inputs, *outputs}
    values = {key: value for key, value in draft.values.items() if key in used}
    metadata = {each.key: each.value for each in source.original.metadata_props}
    if states:
        metadata = {key: value for key, value in metadata.items() if not key.startswith(STATE)}
    imports = {"" if each.domain in DOMAINS else each.domain: each.version for each in source.proto.opset_import}
    title = source.proto.graph.name or name
    formulas, told = draft.meanings.formulas, told_by(source.original, draft.unknown).SerializeToString()
    halves = any(each.data is not None and are_halves(each.data, each.dtype) for each in draft.given.values())
    facts = formulas, imports, draft.defaults, told, source.figures
    made = Graph(title, values, nodes, tuple(inputs), outputs, {}, metadata, *facts, halves=halves)
    return replace(made, dropped=source.dropped, axes=axes_of(source.original.graph, values))
