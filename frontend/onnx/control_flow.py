"""If, Loop and Scan: their graphs are written in place, in subgraphs of their own, so that layouts go through them.

What cannot be is left as it stands: what hands on something else than tensors of a known number of dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from layoutsolve.frontend.onnx import constants
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.draft import Draft
from layoutsolve.ir.graph import Dim, Node, Region, Shape, Value
from layoutsolve.proto.messages import GraphProto, NodeProto
from layoutsolve.proto.scopes import ordered, outer, renamed

Write = Callable[[Draft, Sequence[tuple[int, NodeProto]]], None]
"""What writes operators into a draft."""

_COPIES = 4
"""How often as much as the file holds may be copied: each graph is, and all that lies in it."""

_LITTLE = 1 << 26
"""How many bytes may be copied in any case."""

_ROUNDS = 4
"""How often a loop is looked at to learn which sizes change in it; all do that still change then."""


class _KeptError(Exception):
    """The operator has to stay as it stands."""


def opened(call: Call, write: Write) -> bool:
    """Write an operator with graphs in it as what is in these; False where it is left as it stands."""
    function = None if call.domain else _FLOWS.get(call.op)
    if function is None:
        return False
    draft, start = call.draft, len(call.draft.nodes)
    try:
        function(call, write)
    except _KeptError:
        draft.forget(start)
        for name in call.outputs:
            draft.values.pop(name, None)
        return False
    return True


def _graph(call: Call, name: str, named: Sequence[str] = ()) -> GraphProto:
    """A graph of the operator's, under names that nothing else has; its results may have names already."""
    found = next((each.g for each in call.proto.attribute if each.name == name and each.HasField("g")), None)
    if found is None or any(each.external_data for each in found.initializer):
        raise _KeptError
    call.draft.copied += found.ByteSize()
    if call.draft.copied > _COPIES * call.draft.source.size + _LITTLE:
        raise _KeptError
    wishes = {port.name: wish for port, wish in zip(found.output, named, strict=False) if wish}
    return renamed(found, call.draft.names, wishes)


@contextmanager
def _written(
    call: Call, name: str, graph: GraphProto, region: Region | None, given: Sequence[Value], write: Write
) -> Iterator[None]:
    """Where a graph has been written that an attribute has, into a region; its inputs are values that are there."""
    draft = call.draft
    if len(graph.input) != len(given):
        raise _KeptError
    replaced = {port.name for port in graph.input}
    for initializer in graph.initializer:
        if initializer.name in replaced:  # a default of what each turn is given
            continue
        draft.given[initializer.name] = constants.of(initializer)
    for sparse in graph.sparse_initializer:
        draft.budget.spend(constants.dense_bytes(sparse))
        draft.given[sparse.values.name] = constants.dense(sparse)
    _learn(draft, graph, given)
    with draft.within(call.index, name, graph, region):
        write(draft, ordered(graph, outer(graph)))
        yield


def _learn(draft: Draft, graph: GraphProto, given: Sequence[Value]) -> None:
    """Infer types and sizes within a graph from those of its inputs and of what it reads from around it."""
    known = {port.name: (value.dtype, value.shape) for port, value in zip(graph.input, given, strict=True)}
    draft.types.learn(graph, *draft.told(outer(graph)), known)


def _results(call: Call, graph: GraphProto) -> list[Value]:
    """What a graph gives that has just been written."""
    return _known(call, [port.name for port in graph.output])


def _known(call: Call, names: Sequence[str]) -> list[Value]:
    """Tensors as the numbers that operators of the file see, all of them of a known number of dimensions."""
    found = [call.draft.values[call.plain(name)] for name in names if name]
    if len(found) < len(names) or any(value.foreign is not None for value in found):
        raise _KeptError
    return found


def _tie(
    call: Call,
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    regions: tuple[Region, ...],
    attributes: Mapping[str, int] | None = None,
) -> None:
    """Write what ties regions together."""
    ends = tuple(inputs), tuple(outputs)
    call.draft.emit(Node(op, *ends, attributes or {}, call.origin, storage=True, regions=regions, given=True))


# -- branches ------------------------------------------------------------------------------------------------------


def _branch(call: Call, write: Write) -> None:
    """Both branches, or the one that is always taken."""
    draft, known = call.draft, call.constant(0)
    if known is not None and known.size == 1:
        taken = "then_branch" if known.reshape(-1)[0] else "else_branch"
        graph = _graph(call, taken, call.outputs)
        with _written(call, taken, graph, draft.region, [], write):
            for name, port in zip(call.outputs, graph.output, strict=False):
                if port.name != name:
                    draft.alias[name] = draft.alias.get(port.name, port.name)
        return
    (condition,) = _known(call, call.inputs)
    regions = Region("then_branch", draft.region), Region("else_branch", draft.region)
    _tie(call, "If", [condition.name], [], regions)
    sides = []
    for region in regions:
        graph = _graph(call, region.role)
        with _written(call, region.role, graph, region, [], write):
            sides.append(_results(call, graph))
    for name, one, other in zip(call.outputs, *sides, strict=False):
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            raise _KeptError
        if name:
            shape = [left if left == right else None for left, right in zip(one.shape, other.shape, strict=True)]
            draft.declare(name, shape, one.dtype)
            _tie(call, "Join", [one.name, other.name], [name], regions)


# -- loops ---------------------------------------------------------------------------------------------------------


class _Turns:
    """A graph that runs in turns. It is given what is ``before``, what is carried and what is ``after`` that; it gives
    so many ``conditions``, what it carries on, and what is collected.
    """

    def __init__(
        self,
        call: Call,
        initial: Sequence[Value],
        before: Callable[[GraphProto], Sequence[Value]],
        after: Callable[[GraphProto], Sequence[Value]],
        conditions: int,
    ) -> None:
        self.call, self.graph, self.initial = call, _graph(call, "body"), initial
        self.before, self.after = before(self.graph), after(self.graph)
        self.region = Region("body", call.draft.region)
        self.conditions, end = conditions, conditions + len(initial)
        ports = len(self.before) + len(initial) + len(self.after)
        if len(self.graph.input) != ports or len(self.graph.output) < end:
            raise _KeptError
        self.names = [port.name for port in self.graph.input[len(self.before) : len(self.before) + len(initial)]]
        self.following = [port.name for port in self.graph.output[conditions:end]]
        self.now = self._stable()

    @property
    def given(self) -> list[Value]:
        """All that a turn is given."""
        return [*self.before, *self.now, *self.after]

    def _stable(self) -> list[Value]:
        """What is carried as it is within a turn. Sizes that differ from turn to turn have a name of their own."""
        draft, shapes = self.call.draft, [value.shape for value in self.initial]
        for rounds in range(_ROUNDS + 1):
            self.now = list(map(self._carried, self.names, self.initial, shapes))
            _learn(draft, self.graph, self.given)
            found = [draft.types.dims(name) for name in self.following]
            if found == shapes:
                break
            if [None if dims is None else len(dims) for dims in found] != list(map(len, shapes)):
                raise _KeptError
            pairs = zip(self.names, shapes, found, strict=True)
            shapes = [self._grown(name, shape, dims or (), rounds == _ROUNDS) for name, shape, dims in pairs]
        return list(map(self._carried, self.names, self.initial, shapes))

    def _carried(self, name: str, initial: Value, shape: Shape) -> Value:
        return Value(name, initial.dtype, shape)

    def _grown(self, name: str, shape: Shape, after: Sequence[Dim | None], every: bool) -> Shape:
        """A shape in which sizes are unknown that are others after a turn."""
        pairs = enumerate(zip(shape, after, strict=True))
        return tuple(
            self.call.draft.types.fresh(f"{name}_{axis}") if every or dim != following else dim
            for axis, (dim, following) in pairs
        )

    def write(self, write: Write) -> list[Value]:
        """Write what is carried, and the graph; its conditions, and what is collected."""
        call, draft = self.call, self.call.draft
        place = len(draft.nodes)
        for number, (first, now) in enumerate(zip(self.initial, self.now, strict=True)):
            name = call.outputs[number] if number < len(call.outputs) else ""
            known = set(first.shape)
            last = [dim if dim in known else None for dim in now.shape]
            name = draft.declare(name or draft.names.derived(now.name, "last"), last, first.dtype).name
            _tie(call, "Carry", [first.name, ""], [draft.add(now).name, name], (self.region,))
        with _written(call, self.region.role, self.graph, self.region, self.given, write):
            results, end = _results(call, self.graph), self.conditions + len(self.now)
        for at, (now, following) in enumerate(zip(self.now, results[self.conditions : end], strict=True), place):
            if (now.dtype, len(now.shape)) != (following.dtype, len(following.shape)):
                raise _KeptError
            node = draft.nodes[at]
            draft.nodes[at] = replace(node, inputs=(node.inputs[0], following.name))
        return results[: self.conditions] + results[end:]

    def collect(self, elements: Sequence[Value], count: Dim, places: Sequence[tuple[int, int]]) -> None:
        """Write what is collected: of each the axis along which, and whether from behind."""
        call = self.call
        names = call.outputs[len(self.now) :]
        for name, element, (axis, direction) in zip(names, elements, places, strict=False):
            if name:
                shape = [*element.shape[:axis], count, *element.shape[axis:]]
                call.draft.declare(name, shape, element.dtype)
                attributes = {"axis": axis, "direction": direction}
                _tie(call, "Stack", [element.name], [name], (self.region,), attributes)


def _loop(call: Call, write: Write) -> None:
    """A loop that may count its turns."""
    draft, initial = call.draft, _known(call, call.inputs[2:])
    trips, first = (call.plain(call.inputs[number]) if call.has(number) else "" for number in (0, 1))
    turns = _Turns(call, initial, _counted, lambda graph: (), 1)
    place = len(draft.nodes)
    _tie(call, "Loop", [first, "", trips], [], (turns.region,))
    _tie(call, "Turn", [], [draft.add(value).name for value in turns.before], (turns.region,))
    again, *elements = turns.write(write)
    again = turns.before[1] if _passes_on(draft.nodes[place:], again.name, turns.before[1].name) else again
    if again is turns.before[1] and (not first or _holds(draft.values[first])):
        again = draft.constant(np.ones(len(again.shape) * (1,), np.bool_), f"{again.name}_again")
    draft.nodes[place] = replace(draft.nodes[place], inputs=(first, again.name, trips))
    counted = trips and _holds(again) and (not first or _holds(draft.values[first]))
    known = draft.values[trips].data if counted else None
    count = draft.types.fresh(f"{call.origin}_turns") if known is None else max(int(known.reshape(-1)[0]), 0)
    turns.collect(elements, count, [(0, 0)] * len(elements))


def _holds(condition: Value) -> bool:
    """Whether a condition is known to be true."""
    return condition.data is not None and bool(condition.data.all())


def _passes_on(nodes: Sequence[Node], name: str, given: str) -> bool:
    """Whether a value is one that is given, or a copy of it."""
    copies = {node.outputs[0]: node.inputs[0] for node in nodes if node.op == "Identity" and not node.domain}
    while name in copies and name != given:
        name = copies[name]
    return name == given


def _counted(graph: GraphProto) -> list[Value]:
    """What a loop tells its body: the number of the turn, and that it goes on. Both may have a dimension there."""
    shapes = [(1,) if len(port.type.tensor_type.shape.dim) == 1 else () for port in graph.input]
    kinds = zip(graph.input, ("int64", "bool"), shapes, strict=False)
    return [Value(port.name, dtype, shape) for port, dtype, shape in kinds]


def _scan(call: Call, write: Write) -> None:
    """A loop over the elements of tensors along an axis of each."""
    draft, count = call.draft, call.attribute("num_scan_inputs", 0)
    values = _known(call, call.inputs)
    initial, sources = values[: len(values) - count], values[len(values) - count :]
    if not sources:
        raise _KeptError
    reading = _places(call, "scan_input", [len(value.shape) for value in sources])
    turns = _Turns(call, initial, lambda graph: (), lambda graph: _elements(graph, sources, reading), 0)
    _tie(call, "Scan", [], [], (turns.region,))
    for source, element, (axis, direction) in zip(sources, turns.after, reading, strict=True):
        attributes = {"axis": axis, "direction": direction}
        _tie(call, "Element", [source.name], [draft.add(element).name], (turns.region,), attributes)
    elements = turns.write(write)
    writing = _places(call, "scan_output", [len(element.shape) + 1 for element in elements])
    turns.collect(elements, sources[0].shape[reading[0][0]], writing)


def _places(call: Call, kind: str, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Along which axis of each tensor a Scan goes, and in which direction."""
    axes, directions = (call.integers(f"{kind}_{name}") or (0,) * len(ranks) for name in ("axes", "directions"))
    if len(axes) != len(ranks) or len(directions) != len(ranks) or 0 in ranks:
        raise _KeptError
    return [(axis % rank, direction) for axis, direction, rank in zip(axes, directions, ranks, strict=True)]


def _elements(graph: GraphProto, sources: Sequence[Value], places: Sequence[tuple[int, int]]) -> list[Value]:
    """What a turn of a Scan is given of each tensor."""
    ports = graph.input[len(graph.input) - len(sources) :]
    return [
        Value(port.name, source.dtype, source.shape[:axis] + source.shape[axis + 1 :])
        for port, source, (axis, _) in zip(ports, sources, places, strict=False)
    ]


_FLOWS: Mapping[str, Callable[[Call, Write], None]] = {"If": _branch, "Loop": _loop, "Scan": _scan}
