"""Recurrent operators, step by step: LiteRT's own keep their states from one run of a model to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.draft import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.ir.graph import Array, Dim, Shape

MOST_STEPS = 512
"""The most steps that are written, in all directions."""

_DEFAULTS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of a recurrent operator: how many rows each gate has, and its weights of inputs and states, with
    what is added to both.
    """

    call: Call
    hidden: int
    batch: Dim
    inputs: Array
    states: Array
    added: Array
    recurrent: Array

    @property
    def shape(self) -> list[Dim]:
        """The shape of a state."""
        return [self.batch, self.hidden]

    def product(self, tensor: int, weights: Array, added: Array | None = None) -> int:
        """Rows of a matrix by weights that have a row for each result."""
        kernel = self.call.constant(np.ascontiguousarray(weights), "float32")
        bias = -1 if added is None else self.call.constant(added, "float32")
        first = self.call.draft.tensors[tensor].signature[0]
        rows: Dim = self.batch if first == -1 else first
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

    def bent(self, operator: str, state: int) -> int:
        """An activation of a state."""
        return self.call.step(operator, [state], self.shape)


States = tuple[int, ...]
Cell = Callable[[Direction, int, States], States]
"""What comes of the inputs' part of all gates, and the states before: the states after, the output first."""


def _lstm(direction: Direction, given: int, states: States) -> States:
    hidden, cell = states
    together = direction.call.step(
        "ADD", [given, direction.product(hidden, direction.states)], [direction.batch, 4 * direction.hidden]
    )
    opened, shown, kept, new = direction.gates(together, 4)
    stays = direction.both("MUL", direction.bent("LOGISTIC", kept), cell)
    comes = direction.both("MUL", direction.bent("LOGISTIC", opened), direction.bent("TANH", new))
    cell = direction.both("ADD", stays, comes)
    return direction.both("MUL", direction.bent("LOGISTIC", shown), direction.bent("TANH", cell)), cell


def _gru(direction: Direction, given: int, states: States, after: bool) -> States:
    """With ``after`` the state is reset behind the product by its weights."""
    (hidden,) = states
    update_in, reset_in, new_in = direction.gates(given, 3)
    weights = np.split(direction.states, 3)
    added = np.split(direction.recurrent, 3)
    update, reset = (
        direction.bent("LOGISTIC", direction.both("ADD", part, direction.product(hidden, weights[place])))
        for place, part in enumerate((update_in, reset_in))
    )
    if after:
        inner = direction.both("MUL", reset, direction.product(hidden, weights[2], added[2]))
    else:
        inner = direction.product(direction.both("MUL", reset, hidden), weights[2])
    new = direction.bent("TANH", direction.both("ADD", new_in, inner))
    moved = direction.both("MUL", update, direction.both("SUB", hidden, new))
    return (direction.both("ADD", new, moved),)


def _rnn(direction: Direction, given: int, states: States) -> States:
    return (direction.bent("TANH", direction.both("ADD", given, direction.product(states[0], direction.states))),)


@row("LSTM")
def lstm(call: Call) -> None:
    """LSTM without peepholes."""
    if call.has(7):
        raise ExpressionError("it has peepholes", "use an LSTM without")
    _unrolled(call, 4, 2, _lstm)


@row("GRU")
def gru(call: Call) -> None:
    """GRU."""
    _unrolled(call, 3, 1, partial(_gru, after=bool(call.attribute("linear_before_reset", 0))))


@row("RNN")
def rnn(call: Call) -> None:
    """RNN of tanh."""
    _unrolled(call, 1, 1, _rnn)


def _check(call: Call, steps: int, directions: int) -> None:
    told = tuple(call.attribute("activations") or _DEFAULTS[call.op] * directions)
    if told != _DEFAULTS[call.op] * directions or call.attribute("clip") or call.attribute("input_forget", 0):
        raise ExpressionError("it has other activations than the usual ones, or limits", "use the usual ones")
    if call.attribute("layout", 0):
        raise ExpressionError("its batch comes first", "use layout=0")
    lengths = call.data(4)
    if call.has(4) and (lengths is None or (lengths != steps).any()):
        raise ExpressionError("its sequences end early", "leave sequence_lens out")
    if steps * directions > MOST_STEPS:
        raise ExpressionError(
            f"it has {steps * directions} steps, where {MOST_STEPS} are the most", "shorten it with --shape"
        )


def _unrolled(call: Call, gates: int, states: int, cell: Cell) -> None:
    """Write all steps in all directions, then their outputs together."""
    value = call.value(0)
    steps, batch, width = value.shape
    if not isinstance(steps, int) or not isinstance(width, int):
        raise ExpressionError("the number of its steps is dynamic", "fix it with --shape")
    weights, recurrent = (call.known(number, "weights") for number in (1, 2))
    directions, hidden = weights.shape[0], recurrent.shape[2]
    _check(call, steps, directions)
    added = call.known(3, "biases") if call.has(3) else np.zeros((directions, 2 * gates * hidden), np.float32)
    shown: list[list[int]] = []
    last: list[States] = []
    for number in range(directions):
        first, second = np.split(added[number], 2)
        late = call.op == "GRU" and call.attribute("linear_before_reset", 0)
        whole = first + second
        if late:
            whole = np.concatenate([whole[: 2 * hidden], first[2 * hidden :]])
        direction = Direction(call, hidden, batch, weights[number], recurrent[number], whole, second)
        backwards = call.attribute("direction", "forward") == "reverse" or number == 1
        given = _given(direction, value.shape, gates)
        now = tuple(_initial(call, 5 + place, number, direction) for place in range(states))
        results = [0] * steps
        for step in reversed(range(steps)) if backwards else range(steps):
            now = cell(direction, given[step], now)
            results[step] = now[0]
        shown.append(results)
        last.append(now)
    _outputs(call, shown, last, states)


def _given(direction: Direction, shape: tuple[Dim, ...], gates: int) -> list[int]:
    """The inputs' part of all gates in each step."""
    call, (steps, batch, width) = direction.call, shape
    if not isinstance(steps, int) or not isinstance(batch, int) or not isinstance(width, int):
        raise ExpressionError("the size of its batch is dynamic", "fix it with --shape")
    flat = call.reshape(call.tensor(0), [steps * batch, width])
    whole = direction.product(flat, direction.inputs, direction.added)
    size = gates * direction.hidden
    parts = [call.temporary([batch, size]) for _ in range(steps)]
    stacked = call.reshape(whole, [steps, batch, size])
    call.draft.write("UNPACK", [stacked], parts, {"num": steps, "axis": 0})
    return parts


def _initial(call: Call, place: int, number: int, direction: Direction) -> int:
    """The state that a direction begins with."""
    if not call.has(place):
        return call.constant(
            np.zeros([1 if not isinstance(size, int) else size for size in direction.shape]), "float32"
        )
    value = call.value(place)
    if value.shape[0] == 1:
        return call.reshape(call.tensor(place), direction.shape)
    begin, size = call.constant([number, 0, 0]), call.constant([1, -1, -1])
    return call.reshape(call.step("SLICE", [call.tensor(place), begin, size], [1, *direction.shape]), direction.shape)


def _outputs(call: Call, shown: list[list[int]], last: list[States], states: int) -> None:
    names = call.node.outputs
    if names and names[0]:
        shape = call.graph.values[names[0]].shape
        steps = [_packed(call, step, shape[1:]) for step in zip(*shown, strict=True)]
        _pack(call, steps, call.target(0))
    for place in range(states):
        if place + 1 < len(names) and names[place + 1]:
            _pack(call, [now[place] for now in last], call.target(place + 1))


def _packed(call: Call, tensors: Sequence[int], shape: Shape) -> int:
    """Tensors side by side along a new axis in front."""
    made = call.temporary(shape)
    _pack(call, tensors, made)
    return made


def _pack(call: Call, tensors: Sequence[int], into: int) -> None:
    call.write("PACK", tensors, [into], values_count=len(tensors), axis=0)
