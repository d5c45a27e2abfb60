"""Branches, loops, calls of subgraphs, and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.draft import State
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.shared.loops import Turns
from layoutsolve.ir.graph import Node, Region, Shape, Size, Value, product
from layoutsolve.ir.names import short

Carried = tuple[Value, Value, Value, Shape, Slot]
"""What a loop carries: the value before it, in a turn and at the end of one; then shape and slot of what is left."""

ONE_BY_ONE = "let one loop set all elements of the list, one in each iteration"
"""What can be done about lists of tensors that are filled in another way."""


@lowers("CALL", signature="FZBSCRT* -> FZBSCRT*")
def call_subgraph(call: Call) -> None:
    """A call: the subgraph is written in its place."""
    _hand_on_all(call, call.inline(call.option("subgraph"), call.inputs()))


@lowers("STABLEHLO_COMPOSITE", signature="FZBSCRT* -> FZBSCRT*")
def composite(call: Call) -> None:
    """An operator that comes with its own definition, a subgraph."""
    _hand_on_all(call, call.inline(call.option("decomposition_subgraph_index"), call.inputs()))


@lowers("CALL_ONCE", signature="->")
def call_once(call: Call) -> None:
    """What initialises variables: it is run while converting, and has to come to constants."""
    call.inline(call.option("init_subgraph_index"), [], initialising=True)


def _hand_on_all(call: Call, values: Sequence[Value]) -> None:
    if len(values) != len(call.operator.outputs):
        count = len(call.operator.outputs)
        raise ModelError(f"{call.origin} has {count} outputs, but its subgraph gives {len(values)}")
    for position, value in enumerate(values):
        call.hand_on(value, position)


# -- branches ------------------------------------------------------------------------------------------------------


@lowers("IF", signature="B FZBSCRT* -> FZBSCRT*")
def branch(call: Call) -> None:
    """Both branches, or the one that is always taken. They read what they need from around them."""
    condition, *inputs = call.inputs()
    branches = call.option("then_subgraph_index"), call.option("else_subgraph_index")
    known = _truth(call, [condition]).data
    if known is not None:
        _hand_on_all(call, call.inline(branches[0 if known else 1], inputs))
        return
    regions = _branches(call, _truth(call, [condition]))
    results = [call.inline(position, inputs, region) for position, region in zip(branches, regions, strict=True)]
    if {len(result) for result in results} != {len(call.operator.outputs)}:
        raise ModelError(f"{call.origin} and its branches differ in the number of their outputs")
    for position, pair in enumerate(zip(*results, strict=True)):
        if pair[0] is pair[1]:
            call.hand_on(pair[0], position)
        else:
            shape = _common(call, [value.shape for value in pair], position)
            _tie(call, "Join", pair, [(shape, call.slot(position))], regions)


def _branches(call: Call, truth: Value) -> tuple[Region, Region]:
    """The regions of two branches, one of which is taken."""
    outer = call.lowering.region
    regions = Region("then_branch", outer), Region("else_branch", outer)
    call.draft.nodes.append(Node("If", (truth.name,), (), {}, call.origin, region=outer, regions=regions))
    return regions


def write_branches(
    call: Call, condition: Value, ways: Sequence[Callable[[Call], Sequence[Value]]], slots: Sequence[Slot]
) -> list[Value]:
    """What the first of two ways comes to where a condition holds, else the second one: each writes what it needs."""
    regions = _branches(call, condition)
    results = [way(call.within(region)) for way, region in zip(ways, regions, strict=True)]
    pairs = zip(*results, strict=True)
    return [
        _tie(call, "Join", pair, [(pair[0].shape, slot)], regions)[0] for pair, slot in zip(pairs, slots, strict=True)
    ]


def _tie(
    call: Call,
    op: str,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[Shape, Slot]],
    regions: tuple[Region, ...],
    attributes: Mapping[str, object] | None = None,
) -> list[Value]:
    """Write what ties regions together: it hands on what is stored."""
    if any(value.dtype in ("resource", "variant", "string") for value in inputs):
        raise GapError(
            f"it carries a {inputs[0].dtype} from iteration to iteration or out of a branch",
            "carry numeric tensors only",
        )
    kinds = {value.dtype for value in inputs} | {slot.dtype for _, slot in outputs}
    if len(kinds) != 1:
        raise ModelError(f"{call.origin} hands {' and '.join(sorted(kinds))} to one tensor")
    return call.write_node(Node(op, (), (), attributes or {}, storage=True, regions=regions), inputs, outputs)


def _common(call: Call, shapes: Sequence[Shape], position: int) -> Shape:
    """The shape of what has one of several shapes: a dimension in which they differ is unknown."""
    if len({len(shape) for shape in shapes}) != 1:
        raise GapError("its outputs have no static rank", "make all alternatives of one rank")
    dims = enumerate(zip(*shapes, strict=True))
    return tuple(sizes[0] if len(set(sizes)) == 1 else call.unknown(axis, position) for axis, sizes in dims)


def _is_true(condition: Value) -> bool:
    """Whether a condition is known to hold."""
    return condition.data is not None and bool(condition.data.all())


def _truth(call: Call, conditions: Sequence[Value]) -> Value:
    """A condition as ONNX wants it: a scalar."""
    if [(value.dtype, product(value.shape)) for value in conditions] != [("bool", 1)]:
        given = ", ".join(map(str, conditions))
        raise ModelError(f"{call.origin} needs one truth value as its condition, not {given}")
    return call.reshaped(conditions[0], (), "condition")


# -- loops ---------------------------------------------------------------------------------------------------------


@lowers("WHILE", signature="FZBSCRT* -> FZBSCRT*")
def loop(call: Call) -> None:
    """A loop. What its body hands on unchanged is read from around it; the rest is carried from iteration to iteration.

    A carried tensor may grow: then the body is written again for a size that is not known.
    """
    initial = call.inputs()
    if len(initial) != len(call.operator.outputs):
        raise ModelError(f"{call.origin} has {len(initial)} inputs but {len(call.operator.outputs)} outputs")
    initial = _with_lists(call, initial)
    first = _truth(call, call.inline(call.option("cond_subgraph_index"), initial))
    shapes = [value.shape for value in initial]
    start = len(call.draft.nodes)
    while (grown := _loop(call, initial, first, shapes)) != shapes:
        del call.draft.nodes[start:]
        shapes = grown


def _with_lists(call: Call, initial: list[Value]) -> list[Value]:
    """What is carried, with lists of tensors as tensors: the body says what their elements are."""
    draft, lists = call.draft, [position for position, value in enumerate(initial) if value.dtype == "variant"]
    if not lists:
        return initial
    start, given, found = len(draft.nodes), [*initial], [*initial]
    for position in lists:
        given[position] = draft.add(Value(draft.names.derived(call.slot(position).name, "list"), "variant", ()))
    results = _turned(call, given, Region("body", call.lowering.region))
    del draft.nodes[start:]
    for position in lists:
        if results[position] is given[position]:
            continue  # nothing is set in it
        name, element = initial[position].name, draft.elements.get(results[position].name)
        if element is None or name not in draft.reserved:
            raise GapError("it carries a list of tensors whose elements are not set in its body", ONE_BY_ONE)
        found[position] = unset_list(call, draft.reserved[name], element)
    return found


def _turned(call: Call, carried: list[Value], region: Region) -> list[Value]:
    """What the body makes of what is carried."""
    following = call.inline(call.option("body_subgraph_index"), carried, region)
    if len(following) != len(carried):
        raise ModelError(f"{call.origin} carries {len(carried)} tensors, but its body gives {len(following)}")
    return following


def unset_list(call: Call, count: Value, element: Value) -> Value:
    """Write a list of tensors as a tensor: elements that are not set are zeros, as TensorFlow gives them."""
    known = call.content(count)
    if known is None:
        raise GapError("its list of tensors has a number of elements that is computed at run time", ONE_BY_ONE)
    length = known.reshape(-1)[0] if known.size == 1 else -1
    if not isinstance(length, Size) and length < 0:
        raise ModelError(f"{call.origin} has a list whose number of elements is {known.reshape(-1).tolist()}")
    shape = (length if isinstance(length, Size) else int(length), *element.shape)
    zero = call.constant(np.zeros((), element.dtype), "unset", element.dtype)
    slot = call.temporary("list", element.dtype, element.quant)
    return call.write("Expand", [zero, call.sizes(shape, "shape")], shape, slot, storage=True)


def _loop(call: Call, initial: Sequence[Value], first: Value, shapes: list[Shape]) -> list[Shape]:
    """Write the loop for carried tensors of the given shapes. Returns the shapes that it turns out to need."""
    draft, outer = call.draft, call.lowering.region
    start, region = len(draft.nodes), Region("body", outer)
    carried = _changed(call)
    now = list(initial)
    for position in carried:
        name, like = draft.names.derived(call.slot(position).name, "now"), initial[position]
        now[position] = draft.add(Value(name, like.dtype, shapes[position], like.quant))
    following = _turned(call, now, region)
    again = _truth(call.within(region), call.inline(call.option("cond_subgraph_index"), following, region))
    ends = {now[each].name: (initial[each], following[each]) for each in carried}
    turns = Turns(draft.nodes[start:], draft.values, ends, again) if _is_true(first) else None
    elements = {each: element for each in carried if turns and (element := turns.element(now[each].name))}
    kept, grown = [each for each in carried if each not in elements], [*shapes]
    for position in kept:
        grown[position] = _common(call, [shapes[position], following[position].shape], position)
    if grown != shapes:
        return grown
    values = []
    for each in kept:
        last = _last(call, each, shapes[each])
        values.append((initial[each], now[each], following[each], last, _slot(call, each, initial[each])))
    write_loop(call, region, start, (first, again), values, turns.count if turns else None)
    for position, element in elements.items():
        collect(call, region, element, initial[position].shape, _slot(call, position, initial[position]))
    for position, value in enumerate(initial):
        if position not in carried:
            call.hand_on(value, position)
    return grown


def _slot(call: Call, position: int, like: Value) -> Slot:
    """Where an output goes that is stored as ``like``: a list of tensors is one itself."""
    slot = call.slot(position)
    return replace(slot, dtype=like.dtype, quant=like.quant) if slot.dtype == "variant" else slot


def write_loop(
    call: Call,
    region: Region,
    start: int,
    conditions: Sequence[Value],
    carried: Sequence[Carried],
    count: int | None = None,
) -> list[Value]:
    """Put a loop around the nodes from ``start`` on, which are those of its body; what is carried, after the loop.

    ``conditions`` say whether there is a first turn, written before ``start``, and after each whether there is another.
    The second is left out where the ``count`` of turns is known.
    """
    draft = call.draft
    inside, draft.nodes[start:] = draft.nodes[start:], []
    if count is not None:
        conditions = (conditions[0], call.constant(True, "again", "bool"), call.constant(count, "turns", "int64"))
    names = tuple(condition.name for condition in conditions)
    draft.nodes.append(Node("Loop", names, (), {}, call.origin, region=call.lowering.region, regions=(region,)))
    lasts = []
    for initial, now, following, shape, slot in carried:
        outputs = [(now.shape, Slot(now.name, initial.dtype, initial.quant)), (shape, slot)]
        lasts.append(_tie(call, "Carry", (initial, following), outputs, (region,))[1])
    draft.nodes += inside
    return lasts


def collect(call: Call, region: Region, element: Value, shape: Shape, slot: Slot) -> Value:
    """Write a list, of a ``shape``, of what an element is in each iteration of a loop that is written: one of [1,
    ...].
    """
    nodes, values = call.draft.nodes, call.draft.values
    made = next((node for node in reversed(nodes) if element.name in node.outputs), None)
    if made is not None and made.op == "Reshape" and values[made.inputs[0]].shape == shape[1:]:
        element = values[made.inputs[0]]
    whole, places = (shape[0], *element.shape), {"axis": 0, "direction": 0}
    if whole == shape:
        return _tie(call, "Stack", [element], [(whole, slot)], (region,), places)[0]
    (stacked,) = _tie(call, "Stack", [element], [(whole, call.like("list", element))], (region,), places)
    return call.reshape(stacked, shape, slot)


def _last(call: Call, position: int, shape: Shape) -> Shape:
    """The shape after the loop: a size that changes within it is another one then."""
    name = call.slot(position).name
    return tuple(
        call.draft.symbol_for(("last", call, position, axis), f"{name}_{axis}_last")
        if dim == call.unknown(axis, position)
        else dim
        for axis, dim in enumerate(shape)
    )


def _changed(call: Call) -> list[int]:
    """The positions at which the body of a loop does not just give what it is given."""
    body = call.subgraph(call.option("body_subgraph_index"))
    pairs = zip(body.inputs, body.outputs, strict=False)
    same = {position for position, (given, result) in enumerate(pairs) if given == result}
    return [position for position in range(call.arity) if position not in same]


# -- variables -----------------------------------------------------------------------------------------------------


@lowers("VAR_HANDLE", signature="-> R")
def handle(call: Call) -> None:
    """A variable, which operators then read and assign."""
    tensor, name = call.tensor(), call.slot().name
    if tensor.dtype != "resource":
        raise ModelError(f"{call.origin} gives a resource, but its output '{tensor.name}' is of type {tensor.dtype}")
    call.draft.handles[name] = call.option("container", ""), call.option("shared_name", "")
    call.lowering.bind(tensor.index, call.draft.add(Value(name, "resource", ())))


@lowers("READ_VARIABLE", signature="R -> FZBS")
def read_variable(call: Call) -> None:
    """What the variable holds: what was assigned last, before this run if need be."""
    state = _variable(call)
    slot = call.slot()
    like = Value(slot.name, slot.dtype, _declared_shape(call), slot.quant) if state.initial is None else state.initial
    call.hand_on(call.draft.read_state(state, replace(like, data=None)), 0)


def _declared_shape(call: Call) -> Shape:
    tensor = call.tensor()
    marks = enumerate(zip(tensor.shape, tensor.signature or tensor.shape, strict=True))
    return tuple(call.unknown(axis) if mark == -1 else size for axis, (size, mark) in marks)


@lowers("ASSIGN_VARIABLE", signature="R FZBS ->")
def assign_variable(call: Call) -> None:
    """From here on the variable holds another value; assigned by CALL_ONCE, that is what it begins with."""
    state, value = _variable(call), call.input(1)
    if not call.lowering.initialising:
        call.assign(state, value)
    elif value.data is None:
        raise GapError("it initialises a variable with what is computed", "initialise it with a constant")
    else:
        state.initial = value


def _variable(call: Call) -> State:
    key = call.draft.handles.get(call.input(0).name)
    if key is None:
        raise ModelError(f"{call.origin} reads its variable from '{call.input(0).name}', which is no handle of one")
    if key not in call.draft.states:
        call.draft.state(key, call.draft.names.unique(short("/".join(part for part in key if part) or "variable")))
    return call.draft.states[key]
