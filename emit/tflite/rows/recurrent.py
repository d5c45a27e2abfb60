"""Recurrent operators, step by step, or many steps as a WHILE: LiteRT's own keep their states from one run of a model
to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.control_flow import Body, called, mirrored
from layoutsolve.emit.tflite.draft import Draft
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.ir.graph import Array, Dim, product

MOST_STEPS = 512
"""The most steps that are written one by one, in all directions."""

_ACTIVATIONS = {"Relu": "RELU", "Sigmoid": "LOGISTIC", "Tanh": "TANH"}
_DEFAULTS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of a recurrent operator: how many rows each gate has, and its weights of inputs and states, with
    what is added to both. ``activations`` are its own, and ``peepholes`` what gates of an LSTM see of its cells.
    """

    call: Call
    hidden: int
    batch: Dim
    inputs: Array
    states: Array
    added: Array
    recurrent: Array
    activations: Sequence[str]
    peepholes: Array | None

    @property
    def shape(self) -> list[Dim]:
        """The shape of a state."""
        return [self.batch, self.hidden]

    def product(self, tensor: int, weights: Array, added: Array | None = None, rows: Dim | None = None) -> int:
        """Rows of a matrix, by default one for each of the batch, by weights that have a row for each result."""
        kernel = self.call.constant(np.ascontiguousarray(weights), "float32")
        bias = -1 if added is None else self.call.constant(added, "float32")
        first = self.call.draft.tensors[tensor].signature[0]
        if rows is None:
            rows = self.batch if first == -1 else first
        return self.call.step("FULLY_CONNECTED", [tensor, kernel, bias], [rows, weights.shape[0]])

    def gates(self, tensor: int, count: int) -> list[int]:
        """The parts of a tensor of all gates."""
        call = self.call
        parts = [call.temporary(self.shape) for _ in range(count)]
        call.draft.write("SPLIT", [call.constant(1), tensor], parts, {"num_splits": count})
        return parts

    def both(self, operator: str, one: int, other: int) -> int:
        """An operator of two states."""
        return self.call.step(operator, [one, other], self.shape)

    def bent(self, place: int, state: int) -> int:
        """One of the activations, by its number, of a state."""
        clip = float(self.call.attribute("clip", 0.0) or 0.0)
        if clip:
            for operator, limit in (("MINIMUM", clip), ("MAXIMUM", -clip)):
                state = self.call.step(operator, [state, self.call.constant(limit, "float32")], self.shape)
        return self.call.step(self.activations[place], [state], self.shape)

    def peeped(self, gate: int, cell: int, place: int) -> int:
        """A gate with what it sees of the cells."""
        if self.peepholes is None:
            return gate
        weights = self.call.constant(np.split(self.peepholes, 3)[place], "float32")
        return self.both("ADD", gate, self.both("MUL", cell, weights))


States = tuple[int, ...]
Cell = Callable[[Direction, int, States], States]
"""What comes of the inputs' part of all gates, and the states before: the states after, the output first."""


def _lstm(direction: Direction, given: int, states: States) -> States:
    hidden, cell = states
    together = direction.call.step(
        "ADD", [given, direction.product(hidden, direction.states)], [direction.batch, 4 * direction.hidden]
    )
    opened, shown, kept, new = direction.gates(together, 4)
    opened = direction.bent(0, direction.peeped(opened, cell, 0))
    if direction.call.attribute("input_forget", 0):
        kept = direction.both("SUB", direction.call.constant(1.0, "float32"), opened)
    else:
        kept = direction.bent(0, direction.peeped(kept, cell, 2))
    comes = direction.both("MUL", opened, direction.bent(1, new))
    cell = direction.both("ADD", direction.both("MUL", kept, cell), comes)
    shown = direction.bent(0, direction.peeped(shown, cell, 1))
    return direction.both("MUL", shown, direction.call.step(direction.activations[2], [cell], direction.shape)), cell


def _gru(direction: Direction, given: int, states: States, after: bool) -> States:
    """With ``after`` the state is reset behind the product by its weights."""
    (hidden,) = states
    update_in, reset_in, new_in = direction.gates(given, 3)
    weights = np.split(direction.states, 3)
    added = np.split(direction.recurrent, 3)
    update, reset = (
        direction.bent(0, direction.both("ADD", part, direction.product(hidden, weights[place])))
        for place, part in enumerate((update_in, reset_in))
    )
    if after:
        inner = direction.both("MUL", reset, direction.product(hidden, weights[2], added[2]))
    else:
        inner = direction.product(direction.both("MUL", reset, hidden), weights[2])
    new = direction.bent(1, direction.both("ADD", new_in, inner))
    moved = direction.both("MUL", update, direction.both("SUB", hidden, new))
    return (direction.both("ADD", new, moved),)


def _rnn(direction: Direction, given: int, states: States) -> States:
    return (direction.bent(0, direction.both("ADD", given, direction.product(states[0], direction.states))),)


@row("LSTM")
def lstm(call: Call) -> None:
    """LSTM."""
    _unrolled(call, 4, 2, _lstm)


@row("GRU")
def gru(call: Call) -> None:
    """GRU."""
    _unrolled(call, 3, 1, partial(_gru, after=bool(call.attribute("linear_before_reset", 0))))


@row("RNN")
def rnn(call: Call) -> None:
    """RNN."""
    _unrolled(call, 1, 1, _rnn)


def _activations(call: Call, directions: int) -> list[list[str]]:
    """The activations of each direction, as operators of LiteRT."""
    usual = _DEFAULTS[call.op]
    told = list(call.attribute("activations") or usual * directions)
    unknown = [name for name in told if name not in _ACTIVATIONS]
    if unknown or len(told) != len(usual) * directions:
        raise ExpressionError(f"its activation is {', '.join(unknown)}", f"use {', '.join(_ACTIVATIONS)}")
    found = [_ACTIVATIONS[name] for name in told]
    return [found[place : place + len(usual)] for place in range(0, len(found), len(usual))]


def _unrolled(call: Call, gates: int, states: int, cell: Cell) -> None:
    """Write all steps in all directions, then their outputs together."""
    value = call.value(0)
    if len(value.shape) != 3:
        raise ExpressionError("its input has no three dimensions", "give it steps, batches and features")
    steps, batch, width = value.shape
    if not isinstance(width, int):
        raise ExpressionError("the number of its features is dynamic", "fix it with --shape")
    if call.attribute("layout", 0):
        raise ExpressionError("its batch comes first", "use layout=0")
    weights, recurrent = (call.known(number, "weights") for number in (1, 2))
    directions, hidden = weights.shape[0], recurrent.shape[2]
    added = call.known(3, "biases") if call.has(3) else np.zeros((directions, 2 * gates * hidden), np.float32)
    activations, lengths = _activations(call, directions), _lengths(call, steps)
    peepholes = call.known(7, "peepholes") if call.op == "LSTM" and call.has(7) else [None] * directions
    shown: list[int] = []
    last: list[States] = []
    for number in range(directions):
        first, second = np.split(added[number], 2)
        late = call.op == "GRU" and call.attribute("linear_before_reset", 0)
        whole = first + second
        if late:
            whole = np.concatenate([whole[: 2 * hidden], first[2 * hidden :]])
        own = activations[number], peepholes[number]
        direction = Direction(call, hidden, batch, weights[number], recurrent[number], whole, second, *own)
        backwards = call.attribute("direction", "forward") == "reverse" or number == 1
        given = _given(direction, value.shape, gates)
        begun = tuple(_begun(direction, lengths, 5 + place, number) for place in range(states))
        if isinstance(steps, int) and steps * directions <= MOST_STEPS:
            results, now = _stepwise(direction, given, begun, cell, lengths, range(steps)[:: -1 if backwards else 1])
        else:
            results, now = _looped(direction, given, begun, cell, lengths, steps, backwards)
        shown.append(results)
        last.append(now)
    _outputs(call, shown, last, [batch, hidden])


def _stepwise(
    direction: Direction, given: int, now: States, cell: Cell, lengths: int | None, order: range
) -> tuple[int, States]:
    """What all steps show, and the states at the end, of steps one by one."""
    call, steps = direction.call, len(order)
    (rows, size), results = call.draft.tensors[given].shape[1:], [0] * steps
    parts = [call.temporary([rows, size]) for _ in range(steps)]
    call.draft.write("UNPACK", [given], parts, {"num": steps, "axis": 0})
    for step in order:
        before, now = now, cell(direction, parts[step], now)
        results[step] = now[0]
        if lengths is not None:
            now, results[step] = _ended(direction, lengths, call.constant(step), before, now)
    made = call.temporary([steps, *direction.shape])
    if call.node.outputs[0]:
        _pack(call, results, made, [1, *direction.shape])
    return made, now


def _looped(
    direction: Direction, given: int, now: States, cell: Cell, lengths: int | None, steps: Dim, backwards: bool
) -> tuple[int, States]:
    """The same of steps that a WHILE counts, which is given what it reads, and hands it on."""
    call, around = direction.call, direction.call.draft
    shown = call.temporary([steps, *direction.shape])
    around.write("BROADCAST_TO", [call.constant(0.0, "float32"), call.extents([steps, *direction.shape])], [shown], {})
    known = [given, *(() if lengths is None else (lengths,)), call.count(0)]
    initial = [call.constant(0), shown, *(_whole(direction, state) for state in now), *known]
    body, condition = (_given_all(around, initial) for _ in range(2))
    turn, before, *states = (body.places[name] for name in body.inputs[: 2 + len(now)])
    inner = Call(body, call.node, call.result)
    read, *rest = (body.places[name] for name in body.inputs[2 + len(now) :])
    step = turn
    if backwards:
        step = inner.step("SUB", [inner.step("SUB", [rest[-1], inner.constant(1)], ()), turn], ())
    size = call.draft.tensors[given].shape[2]
    part = inner.step("GATHER", [read, step], [direction.batch, size], axis=0, batch_dims=0)
    own = replace(direction, call=inner)
    after = cell(own, part, tuple(states))
    result = after[0]
    if lengths is not None:
        after, result = _ended(own, rest[0], step, tuple(states), after)
    place = inner.step("MUL", [inner.constant([1, 0, 0]), step], [3])
    row_ = inner.reshape(result, [1, *direction.shape])
    written = inner.step("DYNAMIC_UPDATE_SLICE", [before, row_, place], [steps, *direction.shape])
    following = inner.step("ADD", [turn, inner.constant(1)], ())
    for tensor in (following, written, *after):
        body.outputs.append(body.tensors[tensor].name)
        body.places[body.outputs[-1]] = tensor
    body.outputs += body.inputs[2 + len(now) :]
    again = condition.declare("again", "bool", ())
    ends = [condition.places[condition.inputs[place]] for place in (0, -1)]
    condition.write("LESS", ends, [condition.places[again]], {})
    condition.outputs = [again]
    options = {"cond_subgraph_index": around.numbered(condition), "body_subgraph_index": around.numbered(body)}
    results = [mirrored(around, body.tensors[body.places[name]]) for name in body.inputs]
    called(around, "WHILE", initial, results, options)
    return results[1], tuple(results[2 : 2 + len(now)])


def _whole(direction: Direction, state: int) -> int:
    """A state with a row for each of a dynamic batch, as what a WHILE carries keeps its size."""
    call = direction.call
    if isinstance(direction.batch, int) or call.draft.tensors[state].signature[0] == -1:
        return state
    return call.move("BROADCAST_TO", state, [call.extents(direction.shape)], direction.shape)


def _given_all(around: Draft, tensors: Sequence[int]) -> Body:
    """A subgraph that is given some tensors of the one around it."""
    body = Body(around, None)
    for tensor in tensors:
        made = mirrored(body, around.tensors[tensor])
        body.inputs.append(body.tensors[made].name)
        body.places[body.inputs[-1]] = made
    return body


def _lengths(call: Call, steps: Dim) -> int | None:
    """The tensor of the lengths of sequences, one a row; None where all are as long as can be."""
    known = call.data(4)
    if not call.has(4) or (known is not None and isinstance(steps, int) and (known == steps).all()):
        return None
    return call.reshape(call.tensor(4), (*call.value(4).shape, 1))


def _begun(direction: Direction, lengths: int | None, place: int, number: int) -> int:
    """A state before the first step: in ONNX Runtime that of a sequence without elements is 0 at the end, whatever it
    began with.
    """
    call, lasting = direction.call, direction.call.data(4)
    begun = _initial(call, place, number, direction)
    if lengths is None or not call.has(place) or (lasting is not None and lasting.all()):
        return begun
    on = _running(direction, lengths, call.constant(0))
    return _chosen(direction, on, begun, call.constant(0.0, "float32"))


def _ended(direction: Direction, lengths: int, step: int, before: States, now: States) -> tuple[States, int]:
    """The states after a step, and what is shown of it: sequences that are over keep theirs, and show nothing."""
    on = _running(direction, lengths, step)
    kept = tuple(_chosen(direction, on, *pair) for pair in zip(now, before, strict=True))
    return kept, _chosen(direction, on, now[0], direction.call.constant(0.0, "float32"))


def _running(direction: Direction, lengths: int, step: int) -> int:
    """Which sequences have an element at a step, of which the number is a tensor."""
    on = direction.call.temporary([direction.batch, 1], "bool")
    direction.call.draft.write("GREATER", [lengths, step], [on], {})
    return on


def _chosen(direction: Direction, on: int, one: int, other: int) -> int:
    made = direction.call.temporary(direction.shape)
    direction.call.draft.write("SELECT_V2", [on, one, other], [made], {})
    return made


def _given(direction: Direction, shape: tuple[Dim, ...], gates: int) -> int:
    """The inputs' part of all gates in all steps."""
    call, (steps, batch, width) = direction.call, shape
    rows = product((steps, batch))
    flat = call.reshape(call.tensor(0), [rows, width])
    whole = direction.product(flat, direction.inputs, direction.added, rows)
    return call.reshape(whole, [steps, batch, gates * direction.hidden])


def _initial(call: Call, place: int, number: int, direction: Direction) -> int:
    """The state that a direction begins with."""
    if not call.has(place):
        return call.constant(
            np.zeros([1 if not isinstance(size, int) else size for size in direction.shape]), "float32"
        )
    value = call.value(place)
    if value.shape[-1] != direction.hidden:
        raise ExpressionError("its states have other sizes than its weights", "change the model")
    if value.shape[0] == 1:
        return call.reshape(call.tensor(place), direction.shape)
    begin, size = call.constant([number, 0, 0]), call.counts([1, *direction.shape])
    return call.reshape(call.step("SLICE", [call.tensor(place), begin, size], [1, *direction.shape]), direction.shape)


def _outputs(call: Call, shown: list[int], last: list[States], shape: list[Dim]) -> None:
    """Write what all directions show, and their states at the end, which have a ``shape``."""
    names = call.node.outputs
    if names and names[0]:
        _pack(call, shown, call.target(0), [call.value(0).shape[0], 1, *shape], axis=1)
    for place, states in enumerate(zip(*last, strict=True), 1):
        if place < len(names) and names[place]:
            _pack(call, states, call.target(place), [1, *shape])


def _pack(call: Call, tensors: Sequence[int], into: int, alone: list[Dim], axis: int = 0) -> None:
    """Write tensors side by side along a new axis; one that is ``alone`` has that shape then."""
    if len(tensors) == 1:  # XNNPACK has no kernel for PACK
        call.reshape(tensors[0], alone, into)
        return
    call.write("PACK", tensors, [into], values_count=len(tensors), axis=axis)
