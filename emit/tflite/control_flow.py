"""Branches and loops, as IF and WHILE: each graph is a subgraph, which is given what it reads from around it.

LiteRT's subgraphs see nothing of what is around them, and a WHILE hands on all that it is given: what a body only reads
is carried unchanged. The number of a turn and whether there is another one are carried as well, so that the condition
is a comparison, and so is what is collected of all turns: a tensor of its whole size, of which each turn writes a part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.draft import Draft, is_computed, view_options
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph, Tensor
from layoutsolve.ir.graph import OPENING, Array, Dim, Node, Region, Shape, Size, Value

_RUN = "subgraph_index"
"""What the names of options end with that say which subgraph an operator runs."""

_STATIC = "fix sizes with --shape, or cut the model with --from or --to"


class Body(Draft):
    """The subgraph of a branch, a body or a condition, which reads the values ``captured`` of the draft ``around``."""

    def __init__(self, around: Draft, region: Region | None) -> None:
        super().__init__(around.graph, {})
        self.around, self.region = around, region
        self.captured: list[str] = []
        self.inputs, self.outputs = [], []
        self.subgraphs, self.first = around.subgraphs, around.first
        self.origin = around.origin

    def value(self, name: str) -> int:
        """The tensor of a value of the graph, one more input where it comes to be around this."""
        if name and name not in self.places and self.graph.values[name].data is None and not self._has(name):
            self.captured.append(name)
        return super().value(name)

    def _has(self, name: str) -> bool:
        return self.region is not None and self.graph.region(name) is self.region

    def declare(self, wish: str, dtype: str, shape: Shape) -> str:
        """The name of a new tensor."""
        name = self.names.unique(wish)
        self.places[name] = self.add(name, dtype, shape)
        return name

    def returned(self, name: str) -> None:
        """Add an output; one that is an input or a constant, or is an output already, is a copy of it."""
        place = self.value(name)
        taken = {self.places[each] for each in (*self.inputs, *self.captured, *self.outputs)}
        if place in taken or self.tensors[place].data is not None:
            made = mirrored(self, self.tensors[place])
            _copy(self, place, made)
            name = self.tensors[made].name
            self.places[name] = made
        self.outputs.append(name)


def mirrored(draft: Draft, tensor: Tensor) -> int:
    """A new tensor in a draft that is as another one, which may be one of another draft."""
    made = len(draft.tensors)
    draft.tensors.append(replace(tensor, index=made, name=draft.names.unique(tensor.name), data=None))
    return made


def _copy(draft: Draft, source: int, result: int) -> None:
    shape = draft.tensors[source].signature
    if is_computed(shape):
        draft.write("RESHAPE", [source, draft.sizes_of(source)], [result], {})
        return
    sizes = draft.constant(np.array(shape, np.int32), draft.tensors[source].name)
    draft.write("RESHAPE", [source, sizes], [result], view_options(shape))


def called(draft: Draft, name: str, inputs: Sequence[int], outputs: Sequence[int], options: Mapping[str, int]) -> None:
    """Write an operator that runs subgraphs."""
    draft.append(Operator(len(draft.operators), name, tuple(inputs), tuple(outputs), options))


@dataclass(eq=False)
class _Flow:
    """An operator with regions in the making: what is written of these, and the ties to what is around them."""

    node: Node
    bodies: Sequence[Body]
    ties: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))


class Flows:
    """The drafts of all subgraphs, and the operators that run them, which are complete when all nodes are written."""

    def __init__(self, main: Draft, first: int) -> None:
        """``first`` is the number of the first subgraph that is added."""
        self.graph, main.first = main.graph, first
        self.drafts: dict[Region | None, Draft] = {None: main}
        self.flows: dict[Region, _Flow] = {}

    def note(self, node: Node) -> None:
        """Enter an operator of :data:`layoutsolve.ir.graph.CONTROL`, in its place among all nodes."""
        if node.op in OPENING:
            bodies = [Body(self.drafts[node.region], region) for region in node.regions]
            self.drafts.update(zip(node.regions, bodies, strict=True))
            self.flows[node.regions[0]] = _Flow(node, bodies)
        elif node.op == "State":
            raise ExpressionError("it has states that last from run to run", "make them inputs and outputs")
        else:
            self.flows[node.regions[0]].ties[node.op].append(node)

    def close(self, node: Node) -> None:
        """Write an operator that opens subgraphs, all nodes of which are written. Raises :class:`ExpressionError`."""
        flow, around = self.flows[node.regions[0]], self.drafts[node.region]
        around.origin = None if node.origin is None else (node.origin.subgraph, node.origin.index)
        if node.op == "If":
            self._branches(flow, around)
        else:
            _Loop(flow, around).write()

    def result(self, node: Node) -> str:
        """The first value that an operator gives which opens subgraphs, '' for none."""
        ties = self.flows[node.regions[0]].ties
        return next((tie.outputs[-1] for op in ("Join", "Carry", "Stack") for tie in ties[op]), "")

    def _branches(self, flow: _Flow, around: Draft) -> None:
        values, joins = self.graph.values, flow.ties["Join"]
        for join in joins:
            if len({values[name].shape for name in (*join.inputs, *join.outputs)}) > 1:
                raise ExpressionError("its branches give different sizes", _STATIC)
        for place, body in enumerate(flow.bodies):
            for join in joins:
                body.returned(join.inputs[place])
        read = list(dict.fromkeys(name for body in flow.bodies for name in body.captured))
        for body in flow.bodies:
            for name in read:
                body.value(name)
            body.inputs = read
        numbers = [around.numbered(body) for body in flow.bodies]
        options = dict(zip(("then_subgraph_index", "else_subgraph_index"), numbers, strict=True))
        inputs = [around.value(name) for name in (flow.node.inputs[0], *read)]
        called(around, "IF", inputs, [around.value(join.outputs[0]) for join in joins], options)


@dataclass(frozen=True, eq=False)
class _Carried:
    """What a WHILE carries: a tensor around it that it begins with, the names in the body of what it is in a turn and
    after that, and the value around it that is left at the end, '' for one that nothing reads.
    """

    initial: int
    now: str
    following: str
    last: str = ""


class _Loop:
    """A Loop or Scan that becomes a WHILE."""

    def __init__(self, flow: _Flow, around: Draft) -> None:
        self.node, self.ties, self.around, self.graph = flow.node, flow.ties, around, around.graph
        (self.body,) = flow.bodies
        self.carried: list[_Carried] = []
        self.first, self.again, self.trips = (*self.node.inputs, "", "", "")[:3]
        self.turn, self.going = next((tie.outputs for tie in self.ties["Turn"]), ("", ""))
        self.limit: Array | None = self.graph.constant(self.trips) if self.trips else None
        self.count = self._count()
        if self.node.op == "Scan":
            self.limit = np.array(self.count)
        small = self.limit is not None and int(self.limit.reshape(-1)[0]) <= np.iinfo(np.int32).max
        self.numbers = "int32" if small and not self._is_read(self.turn) else "int64"

    def _count(self) -> int | None:
        """How often the body runs, None where that is computed."""
        if self.node.op == "Scan":
            tie = self.ties["Element"][0]
            size: Dim = self.graph.values[tie.inputs[0]].shape[tie.attributes["axis"]]
            if isinstance(size, Size):
                raise ExpressionError("the number of its iterations is dynamic", _STATIC)
            return size
        return None if self.limit is None or not self._is_endless() else max(int(self.limit.reshape(-1)[0]), 0)

    def _is_endless(self) -> bool:
        """Whether nothing but the number of turns ends it."""
        known = [self.graph.constant(name) for name in (self.first, self.again) if name]
        return all(data is not None and bool(data.all()) for data in known)

    def _is_read(self, name: str) -> bool:
        return bool(name) and self.graph.reads[name] > 0

    def write(self) -> None:
        """Write its body, its condition, and the operator."""
        counts = self.trips or self.ties["Element"] or self.ties["Stack"] or self._is_read(self.turn)
        counter = self._counter() if counts else ""
        going = "" if self._is_endless() and not self._is_read(self.going) else self._going()
        for tie in self.ties["Carry"]:
            self._carry(tie)
        for tie in self.ties["Element"]:
            self._element(tie, counter)
        for tie in self.ties["Stack"]:
            self._stack(tie, counter)
        if self.trips and self.limit is None:
            self.body.value(self.trips)
        self.carried += [_Carried(self.around.value(name), name, name) for name in self.body.captured]
        self.body.inputs = [each.now for each in self.carried]
        for each in self.carried:
            if each.following == each.now:
                self.body.outputs.append(each.now)
            else:
                self.body.returned(each.following)
        self._close(self._condition(counter, going))

    def _close(self, condition: Body) -> None:
        body, around = self.body, self.around
        options = {"cond_subgraph_index": around.numbered(condition), "body_subgraph_index": around.numbered(body)}
        results = [
            around.value(each.last) if each.last else mirrored(around, body.tensors[body.places[each.now]])
            for each in self.carried
        ]
        called(around, "WHILE", [each.initial for each in self.carried], results, options)

    def _condition(self, counter: str, going: str) -> Body:
        """The subgraph that tells whether there is another turn, which is given all that is carried."""
        condition = Body(self.around, None)
        for each in self.carried:
            name = each.now
            condition.places[name] = mirrored(condition, self.body.tensors[self.body.places[name]])
            condition.inputs.append(name)
        tests = [condition.places[going]] if going else []
        if self.trips or self.count is not None:
            tests.append(self._is_less(condition, condition.places[counter]))
        if not tests:
            raise ExpressionError("it never ends", _STATIC)
        result = condition.declare("again", "bool", condition.tensors[tests[-1]].shape)
        if len(tests) == 1:
            _copy(condition, tests[0], condition.places[result])
        else:
            condition.write("LOGICAL_AND", tests, [condition.places[result]], {})
        condition.outputs = [result]
        return condition

    def _is_less(self, condition: Body, counter: int) -> int:
        """Whether a turn is one of those that are to be."""
        if self.limit is None:
            limit = condition.places[self.trips]
        else:
            limit = condition.constant(self.limit.astype(self.numbers), "trips")
        shapes = [condition.tensors[index].shape for index in (counter, limit)]
        made = condition.places[condition.declare("less", "bool", max(shapes, key=len))]
        condition.write("LESS", [counter, limit], [made], {})
        return made

    def _counter(self) -> str:
        """The number of a turn, from 0 on, which each turn adds 1 to: int32, of which old runtimes have more kernels,
        where it is not read and cannot be too large.
        """
        body, around = self.body, self.around
        name = self.turn if self._is_read(self.turn) else body.declare("turn", self.numbers, ())
        now = body.value(name)
        shape = body.tensors[now].shape
        following = body.declare("next", self.numbers, shape)
        body.write("ADD", [now, body.constant(np.ones((), self.numbers))], [body.places[following]], {})
        self.carried.append(_Carried(around.constant(np.zeros(shape, self.numbers)), name, following))
        return name

    def _going(self) -> str:
        """Whether there is this turn."""
        body, around = self.body, self.around
        shape = self.graph.values[self.again].shape
        name = self.going or body.declare("going", "bool", shape)
        start = around.value(self.first) if self.first else around.constant(np.ones(len(shape) * (1,), np.bool_))
        body.value(name)
        self.carried.append(_Carried(start, name, self.again))
        return name

    def _carry(self, tie: Node) -> None:
        (initial, following), (now, last) = tie.inputs, tie.outputs
        if len({self.graph.values[name].shape for name in (initial, now, following, last)}) > 1:
            raise ExpressionError("what it carries has other sizes from iteration to iteration", _STATIC)
        self.body.value(now)
        self.carried.append(_Carried(self.around.value(initial), now, following, last))

    def _place(self, call: Call, tie: Node, counter: str) -> int:
        """Where along an axis a turn reads, or writes: a number."""
        place = call.reshape(self.body.places[counter], ())
        if not tie.attributes["direction"]:
            return place
        if self.count is None:
            raise ExpressionError("the number of its iterations is computed", _STATIC)
        return call.step("SUB", [call.constant(self.count - 1, self.numbers), place], ())

    def _element(self, tie: Node, counter: str) -> None:
        """What a turn is given of a tensor: the part at its number."""
        call = Call(self.body, tie, tie.outputs[0])
        source, made = (self.body.value(name) for name in (tie.inputs[0], tie.outputs[0]))
        options = {"axis": tie.attributes["axis"], "batch_dims": 0}
        call.draft.write("GATHER", [source, self._place(call, tie, counter)], [made], options)

    def _stack(self, tie: Node, counter: str) -> None:
        """What is collected: each turn writes a part of what is carried."""
        call, axis = Call(self.body, tie, tie.outputs[0]), tie.attributes["axis"]
        value, element = (self.graph.values[name] for name in (tie.outputs[0], tie.inputs[0]))
        if self.count is None or any(isinstance(size, Size) for size in element.shape):
            raise ExpressionError("the size of what it collects is dynamic", _STATIC)
        shape = (*element.shape[:axis], self.count, *element.shape[axis:])
        if value.shape != shape:
            raise ExpressionError("the size of what it collects is dynamic", _STATIC)
        zero = self.around.constant(np.zeros((), value.dtype))
        sizes = self.around.constant(np.array(shape, np.int32))
        start = mirrored(self.around, self.around.tensors[self.around.value(tie.outputs[0])])
        self.around.write("BROADCAST_TO", [zero, sizes], [start], {})
        now = self.body.declare("collected", value.dtype, shape)
        part = call.reshape(self.body.value(tie.inputs[0]), (*element.shape[:axis], 1, *element.shape[axis:]))
        along = call.constant([int(each == axis) for each in range(len(shape))])
        place = call.as_int32(self._place(call, tie, counter), Value("", self.numbers, ()))
        begin = call.step("MUL", [along, place], [len(shape)])
        following = self.body.declare("collected", value.dtype, shape)
        call.draft.write(
            "DYNAMIC_UPDATE_SLICE", [self.body.places[now], part, begin], [self.body.places[following]], {}
        )
        self.carried.append(_Carried(start, now, following, tie.outputs[0]))


def in_order(operators: Sequence[Operator]) -> list[Operator]:
    """Operators in an order of execution: each behind those that it reads of, else as they are."""
    makers = {index: operator for operator in operators for index in operator.outputs}
    done, order = set[int](), list[Operator]()
    stack = [(operator, False) for operator in reversed(operators)]
    while stack:
        operator, ready = stack.pop()
        if ready:
            order.append(operator)
        elif operator.index not in done:
            done.add(operator.index)
            stack.append((operator, True))
            before = (makers[index] for index in reversed(operator.inputs) if index in makers)
            stack += [(each, False) for each in before if each.index not in done]
    return order


def without_unused(model: Model, source: Model, position: int) -> Model:
    """A model without the subgraphs of its source, behind the one at a ``position``, that operators ran there, and none
    runs any more.
    """
    gone = _run(source) - _run(model) - {*range(position + 1), *(each.subgraph for each in model.signatures)}
    if not gone:
        return model
    kept = [number for number in range(len(model.subgraphs)) if number not in gone]
    numbers = {number: place for place, number in enumerate(kept)}
    subgraphs = tuple(_renumbered(model.subgraphs[number], numbers) for number in kept)
    signatures = tuple(replace(each, subgraph=numbers[each.subgraph]) for each in model.signatures)
    return replace(model, subgraphs=subgraphs, signatures=signatures)


def _run(model: Model) -> set[int]:
    """The numbers of the subgraphs that operators run."""
    operators = (operator for subgraph in model.subgraphs for operator in subgraph.operators)
    return {number for operator in operators for number in _runs(operator).values()}


def _runs(operator: Operator) -> dict[str, int]:
    """By option the number of each subgraph that an operator runs."""
    return {key: number for key, number in operator.options.items() if key == "subgraph" or key.endswith(_RUN)}


def _renumbered(subgraph: Subgraph, numbers: Mapping[int, int]) -> Subgraph:
    operators = (
        replace(each, options={**each.options, **{key: numbers[number] for key, number in _runs(each).items()}})
        for each in subgraph.operators
    )
    return replace(subgraph, operators=tuple(operators))
