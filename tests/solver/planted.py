"""Graphs of known optimum: the case of an operator without its views, which needs no Transpose, hidden behind some.

What is *planted* is a graph with so many Transposes by construction, most often none. It is then rewritten by random
equivalences, each of which leaves what it computes as it is: pairs of Transposes that undo each other are put on a
tensor, whole or between Reshapes that split its dimensions; Transposes are pushed through operators, which renumber
their axes, turn their kernels, swap their operands and fold what they can into constants; they are split in two, and
dimensions of size 1 come and go. A solver has to find as few Transposes as were planted.

How operators commute with Transposes is stated here anew, by :data:`PUSHED`, and knows nothing of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array, Graph, Node, Size, Value
from layoutsolve.solver.theory.rules.elementwise import BROADCASTING, UNARY
from tests.solver.cases import CASES, Random, graph_of

Perm = tuple[int, ...]

PAIRS, PUSHES = 3, 8
"""The most pairs that are put in, and pushes that are tried."""

VIEWS = ("Transpose", "Reshape")

PERMUTATIONS = 12
"""How many Transposes are tried until one can be pushed through an operator."""

MOST_DIMENSIONS = 6
"""The most dimensions of what is transposed: a Reshape splits no more than that."""


@dataclass(frozen=True)
class Planted:
    """A graph, the same behind its disguise, the Transposes that the first one has, and the names of what hid it."""

    base: Graph
    hidden: Graph
    transposes: int
    disguise: tuple[str, ...]


@dataclass
class Draft:
    """A graph in the making."""

    values: dict[str, Value]
    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    random: Random
    imports: Mapping[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def fresh(self, like: Value, shape: Sequence[Any]) -> str:
        """A new tensor of the type of another one."""
        name = f"p{len(self.values)}"
        self.values[name] = Value(name, like.dtype, tuple(shape), like.quant)
        return name

    def constant(self, data: Array, like: Value | None = None) -> str:
        """A new constant, quantized as another one is."""
        name = f"p{len(self.values)}"
        self.values[name] = Value(name, str(data.dtype), data.shape, None if like is None else like.quant, data)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(int(str(dim)) for dim in self.values[name].shape)

    def static(self, name: str) -> bool:
        """Whether the sizes of a tensor are numbers."""
        return not any(isinstance(dim, Size) for dim in self.values[name].shape)

    def fits(self, name: str) -> bool:
        """Whether a tensor may be transposed: it is computed, of known sizes, and no quantized axis would move."""
        value = self.values[name]
        axis = None if value.quant is None else value.quant.axis
        return value.data is None and self.static(name) and axis is None and prod(self.shape(name)) > 1

    def view(self, op: str, x: str, *rest: str, shape: Sequence[int], result: str = "", **attributes: Any) -> Node:
        """A Transpose or a Reshape of a tensor, which is not put in yet."""
        value = self.values[x]
        outputs = (result or self.fresh(value, shape),)
        return Node(op, (x, *rest), outputs, attributes, storage=value.quant is not None)

    def transposed(self, x: str, perm: Perm, result: str = "") -> Node:
        """A Transpose."""
        shape = self.shape(x)
        return self.view("Transpose", x, shape=[shape[axis] for axis in perm], result=result, perm=perm)

    def reshaped(self, x: str, shape: Sequence[int], result: str = "") -> Node:
        """A Reshape."""
        return self.view("Reshape", x, self.constant(np.array(shape, np.int64)), shape=shape, result=result)

    def graph(self) -> Graph:
        """The graph as it stands."""
        ends = tuple(self.inputs), tuple(self.outputs)
        return Graph("planted", dict(self.values), tuple(self.nodes), *ends, imports=self.imports)


def core(operator: str, seed: int) -> Draft:
    """The case of an operator without the views around it; what lies inside of loops and branches stays."""
    graph, random = graph_of(operator, seed)
    kept, ends = [], set[str]()
    cut = ("Transpose",) if operator == "Reshape" else VIEWS
    for node in graph.nodes:
        if node.op in cut and node.region is None and not node.regions and graph.values[node.inputs[0]].data is None:
            ends |= {*node.inputs[:1], *node.outputs}
        else:
            kept.append(node)
    made = {name for node in kept for name in node.outputs}
    read = {name for node in kept for name in node.inputs if name}
    inputs = [name for name in read if name not in made and graph.values[name].data is None]
    outputs = [name for name in made if name in ends or name in graph.outputs]
    draft = Draft(dict(graph.values), kept, sorted(inputs), sorted(outputs), random, graph.imports)
    for name in [*draft.inputs, *draft.outputs]:
        if random.random() < 0.5:
            _beside(draft, name)
    return draft


def _beside(draft: Draft, name: str) -> None:
    """An operator on single elements behind an input, or before an output of the main graph."""
    value = draft.values[name]
    op = str(draft.random.choice(["Relu", "Tanh", "Abs", "Neg"]))
    if value.dtype != "float32" or value.quant is not None:
        return
    other = draft.fresh(value, value.shape)
    if name in draft.inputs:
        draft.inputs[draft.inputs.index(name)] = other
        draft.nodes.insert(0, Node(op, (other,), (name,)))
    elif name in draft.outputs and not any(name in node.inputs for node in draft.nodes):
        draft.outputs[draft.outputs.index(name)] = other
        draft.nodes.append(Node(op, (name,), (other,)))


def planted(operator: str, seed: int) -> Planted:
    """The case of an operator, planted and hidden."""
    draft = core(operator, seed)
    base = draft.graph()
    for _ in range(int(draft.random.integers(PAIRS + 1))):
        insert_pair(draft)
    for _ in range(int(draft.random.integers(1, PUSHES + 1))):
        MOVES[int(draft.random.integers(len(MOVES)))](draft)
    count = sum(node.op == "Transpose" for node in base.nodes)
    return Planted(base, draft.graph(), count, tuple(draft.done))


# What is put in


def insert_pair(draft: Draft) -> None:
    """Two Transposes that undo each other, between a tensor and what reads it; perhaps between Reshapes."""
    names = [name for name in draft.inputs + [each for node in draft.nodes for each in node.outputs] if name]
    names = [name for name in names if draft.fits(name) and _in_main(draft, name)]
    if not names:
        return
    name = names[int(draft.random.integers(len(names)))]
    shape = draft.shape(name)
    finer = _split(draft.random, shape) if draft.random.random() < 0.4 else list(shape)
    if len(finer) < 2 or len(finer) > MOST_DIMENSIONS:
        return
    perm = tuple(draft.random.permutation(len(finer)).tolist())
    at, value = _behind(draft, name), draft.values[name]
    renamed = draft.fresh(value, value.shape)
    _read_instead(draft, name, renamed)
    added = [draft.reshaped(name, finer)] if tuple(finer) != shape else []
    added.append(draft.transposed(added[-1].outputs[0] if added else name, perm))
    back = _inverse(perm)
    last = renamed if tuple(finer) == shape else ""
    added.append(draft.transposed(added[-1].outputs[0], back, last))
    if not last:
        added.append(draft.reshaped(added[-1].outputs[0], shape, renamed))
    draft.nodes[at:at] = added
    draft.done.append("pair" if tuple(finer) == shape else "factored pair")


def _in_main(draft: Draft, name: str) -> bool:
    """Whether a tensor is written in the main graph, and everything that reads it is there."""
    around = [node for node in draft.nodes if name in (*node.inputs, *node.outputs)]
    return all(node.region is None and not node.regions and node.op != "State" for node in around)


def _behind(draft: Draft, name: str) -> int:
    """Where a node that reads a tensor may stand: right behind what writes it."""
    return next((index + 1 for index, node in enumerate(draft.nodes) if name in node.outputs), 0)


def _read_instead(draft: Draft, name: str, other: str) -> None:
    """Let everything that reads a tensor read another one; an output of that name becomes the other, too."""
    draft.nodes = [
        replace(node, inputs=tuple(other if each == name else each for each in node.inputs)) for node in draft.nodes
    ]
    draft.outputs = [other if each == name else each for each in draft.outputs]


def _split(random: Random, shape: Sequence[int]) -> list[int]:
    """A shape with some dimensions cut in two."""
    finer: list[int] = []
    for dim in shape:
        factor = next((each for each in (2, 3) if dim % each == 0 and dim > each), None)
        if factor is None or random.random() < 0.4:
            finer.append(dim)
        else:
            finer += [factor, dim // factor] if random.random() < 0.5 else [dim // factor, factor]
    return finer


def _inverse(perm: Sequence[int]) -> Perm:
    return tuple(int(axis) for axis in np.argsort(perm))


# What hides it


def split_transpose(draft: Draft) -> None:
    """One Transpose as two."""
    at = _some(draft, lambda node: node.op == "Transpose")
    if at is None:
        return
    node, perm = draft.nodes[at], tuple(draft.nodes[at].attributes["perm"])
    first = tuple(draft.random.permutation(len(perm)).tolist())
    second = tuple(first.index(axis) for axis in perm)
    one = draft.transposed(node.inputs[0], first)
    draft.nodes[at : at + 1] = [one, draft.transposed(one.outputs[0], second, node.outputs[0])]
    draft.done.append("split")


def units(draft: Draft) -> None:
    """A Transpose of more dimensions, of which some have size 1, between Reshapes."""
    at = _some(draft, lambda node: node.op == "Transpose")
    if at is None or len(draft.nodes[at].attributes["perm"]) >= MOST_DIMENSIONS:
        return
    node = draft.nodes[at]
    perm, shape = list(node.attributes["perm"]), list(draft.shape(node.inputs[0]))
    place, where = (int(draft.random.integers(len(perm) + 1)) for _ in range(2))
    more = [axis + (axis >= place) for axis in perm]
    wide = draft.reshaped(node.inputs[0], [*shape[:place], 1, *shape[place:]])
    turned = draft.transposed(wide.outputs[0], (*more[:where], place, *more[where:]))
    back = draft.reshaped(turned.outputs[0], draft.shape(node.outputs[0]), node.outputs[0])
    draft.nodes[at : at + 1] = [wide, turned, back]
    draft.done.append("units")


def factored(draft: Draft) -> None:
    """A Transpose of the factors of dimensions, between Reshapes."""
    at = _some(draft, lambda node: node.op == "Transpose")
    if at is None:
        return
    node = draft.nodes[at]
    parts = [_split(draft.random, [dim]) for dim in draft.shape(node.inputs[0])]
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    if starts[-1] > MOST_DIMENSIONS:
        return
    perm = tuple(starts[axis] + each for axis in node.attributes["perm"] for each in range(len(parts[axis])))
    fine = draft.reshaped(node.inputs[0], [dim for part in parts for dim in part])
    turned = draft.transposed(fine.outputs[0], perm)
    back = draft.reshaped(turned.outputs[0], draft.shape(node.outputs[0]), node.outputs[0])
    draft.nodes[at : at + 1] = [fine, turned, back]
    draft.done.append("factored")


def push(draft: Draft) -> None:
    """A Transpose from before an operator to behind it."""
    pairs = []
    for at, node in enumerate(draft.nodes):
        if node.op == "Transpose" and node.region is None:
            pairs += [(at, other) for other, reader in enumerate(draft.nodes) if node.outputs[0] in reader.inputs]
    if not pairs:
        return
    at, other = pairs[int(draft.random.integers(len(pairs)))]
    node, reader = draft.nodes[at], draft.nodes[other]
    if reader.op not in PUSHED or reader.region is not None or reader.regions or reader.domain:
        return
    if not all(draft.static(name) for name in (*reader.inputs, *reader.outputs) if name):
        return
    if reader.inputs.count(node.outputs[0]) > 1 or any(not draft.fits(name) for name in reader.outputs if name):
        return
    port, perm = reader.inputs.index(node.outputs[0]), tuple(node.attributes["perm"])
    pushed = PUSHED[reader.op](Push(draft, reader, port, perm))
    if pushed is None:
        return
    written = _pushed(draft, node.inputs[0], reader, port, pushed)
    if written is not None:
        draft.nodes[other : other + 1] = written
        draft.done.append(f"push {reader.op}")


def push_back(draft: Draft) -> None:
    """A Transpose from behind an operator to before it: as a pair before the operator, one of which is pushed."""
    at = _some(draft, lambda node: node.op == "Transpose")
    if at is None:
        return
    node = draft.nodes[at]
    made = next((each for each in draft.nodes if node.inputs[0] in each.outputs), None)
    if made is None or not made.inputs or made.region is not None or made.regions or made.op in VIEWS:
        return
    x = made.inputs[0]
    if not draft.fits(x) or len(draft.shape(x)) != len(node.attributes["perm"]) or not _in_main(draft, x):
        return
    perm = _inverse(node.attributes["perm"])
    one = draft.transposed(x, _inverse(perm))
    two = draft.transposed(one.outputs[0], perm)
    place = draft.nodes.index(made)
    draft.nodes[place] = replace(made, inputs=(two.outputs[0], *made.inputs[1:]))
    draft.nodes[place:place] = [one, two]
    draft.done.append("pair before")


def merge(draft: Draft) -> None:
    """Two Transposes, one behind the other, as one."""
    at = _some(draft, lambda node: node.op == "Transpose" and _maker(draft, node).op == "Transpose")
    if at is None:
        return
    node = draft.nodes[at]
    first = _maker(draft, node)
    perm = tuple(first.attributes["perm"][axis] for axis in node.attributes["perm"])
    draft.nodes[at] = draft.transposed(first.inputs[0], perm, node.outputs[0])
    draft.done.append("merge")


def commute(draft: Draft) -> None:
    """A pair of Transposes before an operator, one of which is pushed through it at once."""
    found = [(node, port) for node in draft.nodes for port in range(len(node.inputs)) if _pushable(draft, node, port)]
    if not found:
        return
    node, port = found[int(draft.random.integers(len(found)))]
    rank = len(draft.shape(node.inputs[port]))
    for _ in range(PERMUTATIONS):
        perm = _permutation(draft.random, rank)
        pushed = PUSHED[node.op](Push(draft, node, port, perm))
        if pushed is None:
            continue
        at = draft.nodes.index(node)
        one = draft.transposed(node.inputs[port], _inverse(perm))
        written = _pushed(draft, one.outputs[0], node, port, pushed)
        if written is not None:
            draft.nodes[at : at + 1] = [one, *written]
            draft.done.append(f"commute {node.op}")
            return


def _permutation(random: Random, rank: int) -> Perm:
    """Any permutation, or one that leaves the first two dimensions, or the last one, where they are."""
    start, stop = ((0, rank), (min(2, rank), rank), (0, rank - 1))[int(random.integers(3))]
    return (*range(start), *(start + random.permutation(stop - start)).tolist(), *range(stop, rank))


def _pushable(draft: Draft, node: Node, port: int) -> bool:
    """Whether it is said how an operator commutes with Transposes of an input, and all of its sizes are known."""
    name = node.inputs[port]
    plain = node.op in PUSHED and node.region is None and not node.regions and not node.domain
    if not plain or not name or not draft.fits(name) or node.inputs.count(name) > 1 or len(draft.shape(name)) < 2:
        return False
    whole = all(draft.static(each) for each in (*node.inputs, *node.outputs) if each)
    return whole and all(draft.fits(each) for each in node.outputs if each)


def inside(draft: Draft) -> None:
    """Factors of a dimension change places before an operator that is symmetric in it, and back behind it."""
    found = [node for node in draft.nodes if node.op in INSIDE and _pushable(draft, node, 0)]
    if not found:
        return
    node = found[int(draft.random.integers(len(found)))]
    shape = draft.shape(node.inputs[0])
    axes = [axis for axis, dim in enumerate(shape) if any(dim % each == 0 and dim > each for each in (2, 3))]
    if not axes:
        return
    axis = axes[int(draft.random.integers(len(axes)))]
    factors = next([each, shape[axis] // each] for each in (2, 3) if shape[axis] % each == 0 and shape[axis] > each)
    order = np.arange(shape[axis]).reshape(factors).T.reshape(-1)
    told = INSIDE[node.op](Push(draft, node, 0, tuple(range(len(shape)))), axis, order)
    if told is None:
        return
    behind, constants = told
    at = draft.nodes.index(node)
    before = _exchanged(draft, node.inputs[0], axis, factors)
    inputs = [before[-1].outputs[0], *node.inputs[1:]]
    for port, data in constants.items():
        inputs[port] = draft.constant(data)
    made = (
        node.outputs[0] if behind is None else draft.fresh(draft.values[node.outputs[0]], draft.shape(node.outputs[0]))
    )
    after = [] if behind is None else _exchanged(draft, made, behind, factors[::-1], node.outputs[0])
    draft.nodes[at : at + 1] = [*before, replace(node, inputs=tuple(inputs), outputs=(made, *node.outputs[1:])), *after]
    draft.done.append(f"inside {node.op}")


def _exchanged(draft: Draft, x: str, axis: int, factors: Sequence[int], result: str = "") -> list[Node]:
    """Two factors of a dimension in exchange."""
    shape = draft.shape(x)
    fine = draft.reshaped(x, [*shape[:axis], *factors, *shape[axis + 1 :]])
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(shape) + 1))
    turned = draft.transposed(fine.outputs[0], perm)
    return [fine, turned, draft.reshaped(turned.outputs[0], shape, result)]


MOVES: tuple[Callable[[Draft], None], ...] = (
    *(commute, commute, commute, inside, push, push, push, push_back, split_transpose, units, factored, merge),
)


def _whole(push: Push, axis: int, order: Array) -> tuple[int | None, dict[int, Array]] | None:
    """What takes each element by itself, or all elements of an axis alike."""
    return axis, {}


def _reduced(push: Push, axis: int, order: Array) -> tuple[int | None, dict[int, Array]] | None:
    given = push.given(1)
    if given is None:
        return None
    axes = [each % push.rank for each in given.reshape(-1).tolist()] or list(range(push.rank))
    if axis in axes:
        return None, {}
    kept = axis if push.node.attributes.get("keepdims", 1) else axis - sum(each < axis for each in axes)
    return kept, {}


def _contracted(push: Push, axis: int, order: Array) -> tuple[int | None, dict[int, Array]] | None:
    """Weights follow what is contracted."""
    weights = push.given(1)
    if weights is None or push.draft.values[push.node.inputs[1]].quant is not None:
        return None
    if push.node.op == "MatMul" and axis == push.rank - 1:
        return None, {1: weights[..., order, :]}
    if push.node.op == "MatMul" and weights.ndim == 2:
        return axis, {}
    if push.node.op == "Conv" and axis == 1 and push.node.attributes.get("group", 1) == 1:
        return None, {1: weights[:, order]}
    return None


INSIDE: dict[str, Callable[[Push, int, Array], tuple[int | None, dict[int, Array]] | None]] = {
    **dict.fromkeys((*UNARY, "Softmax", "LogSoftmax"), _whole),
    **{name: _reduced for name in CASES if name.startswith("Reduce")},
    **dict.fromkeys(("MatMul", "Conv"), _contracted),
}
"""How operators commute with an exchange of the factors of a dimension of their first input, of which each element is
taken from a place in an ``order``: the dimension of the result in which they are exchanged back, None where there is
none, and what becomes of constants.
"""


def _maker(draft: Draft, node: Node) -> Node:
    return next((each for each in draft.nodes if node.inputs[0] in each.outputs), Node("", (), ()))


def _some(draft: Draft, wanted: Callable[[Node], bool]) -> int | None:
    """Where some node of the main graph stands that is as wanted."""
    found = [at for at, node in enumerate(draft.nodes) if node.region is None and wanted(node)]
    return found[int(draft.random.integers(len(found)))] if found else None


# How operators commute with Transposes


@dataclass(frozen=True)
class Push:
    """An operator, of whose inputs the one at a port is ``transposed(x, perm)``."""

    draft: Draft
    node: Node
    port: int
    perm: Perm

    def shape(self, port: int) -> tuple[int, ...]:
        return self.draft.shape(self.node.inputs[port])

    @property
    def rank(self) -> int:
        return len(self.perm)

    def axis(self, name: str = "axis", default: int = -1) -> int:
        """The axis of x that is the one which an attribute names."""
        return self.perm[self.node.attributes.get(name, default) % self.rank]

    def given(self, port: int) -> Array | None:
        """The data of an input, None where it is computed or left out."""
        name = self.node.inputs[port] if port < len(self.node.inputs) else ""
        return self.draft.values[name].data if name else None

    def fixes(self, *axes: int) -> bool:
        """Whether a Transpose leaves some axes where they are."""
        return all(self.perm[axis] == axis for axis in axes)


@dataclass(frozen=True)
class Pushed:
    """The same operator on x: its attributes, other inputs (``perms`` they are transposed by, or new ``constants``),
    the Transposes of its outputs, and the sequence of its inputs.
    """

    outputs: tuple[Perm, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    perms: Mapping[int, Perm] = field(default_factory=dict)
    constants: Mapping[int, Array] = field(default_factory=dict)
    sequence: tuple[int, ...] = ()


def _pushed(draft: Draft, x: str, node: Node, port: int, pushed: Pushed) -> list[Node] | None:
    """The nodes that stand for an operator behind a Transpose."""
    before: list[Node] = []
    inputs = list(node.inputs)
    inputs[port] = x
    for other, perm in pushed.perms.items():
        value = draft.values[inputs[other]]
        if value.data is not None:
            if value.quant is not None and (value.quant.axis is not None or value.quant.block):
                return None
            inputs[other] = draft.constant(value.data.transpose(perm).copy(), value)
        else:
            before.append(draft.transposed(inputs[other], perm))
            inputs[other] = before[-1].outputs[0]
    for other, data in pushed.constants.items():
        inputs[other] = draft.constant(data)
    ordered = tuple(inputs[other] for other in pushed.sequence) or tuple(inputs)
    made, after = [], []
    for name, perm in zip(node.outputs, pushed.outputs, strict=False):
        shape = draft.shape(name)
        made.append(draft.fresh(draft.values[name], [shape[axis] for axis in _inverse(perm)]))
        after.append(draft.transposed(made[-1], perm, name))
    changed = {**node.attributes, **pushed.attributes}
    return [*before, replace(node, inputs=ordered, outputs=tuple(made), attributes=changed), *after]


PUSHED: dict[str, Callable[[Push], Pushed | None]] = {}


def pushes(*operators: str) -> Callable[[Callable[[Push], Pushed | None]], Callable[[Push], Pushed | None]]:
    """Register how some operators commute with Transposes."""

    def register(function: Callable[[Push], Pushed | None]) -> Callable[[Push], Pushed | None]:
        PUSHED.update(dict.fromkeys(operators, function))
        return function

    return register


@pushes(*UNARY)
def _single(push: Push) -> Pushed:
    return Pushed((push.perm,))


@pushes(*BROADCASTING)
def _broadcast(push: Push) -> Pushed | None:
    others = [port for port in range(len(push.node.inputs)) if port != push.port]
    back = _inverse(push.perm)
    if len(push.draft.shape(push.node.outputs[0])) != push.rank:
        return None
    perms, constants = dict[int, Perm](), dict[int, Array]()
    for other in others:
        data, shape = push.given(other), push.shape(other)
        if len(shape) == push.rank:
            perms[other] = back
        elif data is None or push.draft.values[push.node.inputs[other]].quant is not None:
            return None
        elif shape:
            constants[other] = data.reshape((1,) * (push.rank - len(shape)) + shape).transpose(back).copy()
    return Pushed((push.perm,), perms=perms, constants=constants)


@pushes("Softmax", "LogSoftmax")
def _along(push: Push) -> Pushed:
    return Pushed((push.perm,), {"axis": push.axis()})


@pushes("CumSum")
def _cumulative(push: Push) -> Pushed | None:
    axis = push.given(1)
    if push.port or axis is None:
        return None
    return Pushed((push.perm,), constants={1: np.array(push.perm[int(axis) % push.rank], np.int64)})


@pushes("ArgMax", "ArgMin")
def _arg(push: Push) -> Pushed:
    kept = push.node.attributes.get("keepdims", 1)
    return Pushed((push.perm if kept else _without(push.perm, [push.axis(default=0)]),), {"axis": push.axis(default=0)})


def _without(perm: Sequence[int], axes: Sequence[int]) -> Perm:
    """A Transpose of what is left when some axes of x are gone."""
    left = [axis for axis in perm if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


@pushes(*(name for name in CASES if name.startswith("Reduce")))
def _reduce(push: Push) -> Pushed | None:
    given = push.given(1)
    if push.port or (given is None and len(push.node.inputs) > 1):
        return None
    named = range(push.rank) if given is None or not given.size else given.reshape(-1).tolist()
    axes = [push.perm[axis % push.rank] for axis in named]
    perm = push.perm if push.node.attributes.get("keepdims", 1) else _without(push.perm, axes)
    return Pushed((perm,), constants={1: np.array(sorted(axes), np.int64)} if len(push.node.inputs) > 1 else {})


@pushes("TopK")
def _topk(push: Push) -> Pushed | None:
    return None if push.port else Pushed((push.perm,) * 2, {"axis": push.axis()})


@pushes("Concat")
def _concat(push: Push) -> Pushed:
    others = (port for port in range(len(push.node.inputs)) if port != push.port)
    return Pushed((push.perm,), {"axis": push.axis()}, dict.fromkeys(others, _inverse(push.perm)))


@pushes("Split")
def _split_apart(push: Push) -> Pushed | None:
    return None if push.port else Pushed((push.perm,) * len(push.node.outputs), {"axis": push.axis(default=0)})


@pushes("Slice")
def _slice(push: Push) -> Pushed | None:
    axes = push.given(3)
    if push.port or axes is None:
        return None
    return Pushed((push.perm,), constants={3: np.array([push.perm[axis % push.rank] for axis in axes], np.int64)})


@pushes("Pad", "Tile", "Expand")
def _for_each(push: Push) -> Pushed | None:
    numbers = push.given(1)
    if push.port or numbers is None or numbers.size % push.rank:
        return None
    if push.node.op == "Expand" and numbers.size != push.rank:
        return None
    moved = numbers.reshape(-1, push.rank)[:, _inverse(push.perm)].reshape(-1)
    return Pushed((push.perm,), constants={1: moved.copy()})


@pushes("Gather")
def _gather(push: Push) -> Pushed | None:
    indexed = push.shape(1)
    if push.port or len(indexed) > 1:
        return None
    axis = push.axis(default=0)
    return Pushed((push.perm if indexed else _without(push.perm, [axis]),), {"axis": axis})


@pushes("Resize")
def _resize(push: Push) -> Pushed | None:
    given = push.node.attributes
    number = 3 if len(push.node.inputs) > 3 else 2
    numbers, part = push.given(number), push.given(1)
    flat = given.get("mode", "nearest") != "nearest"
    if push.port or numbers is None or (flat and {*push.perm[:1], *push.perm[-1:]} != {0, push.rank - 1}):
        return None
    moved = [push.perm[axis] for axis in given.get("axes") or range(push.rank)]
    order = np.argsort(moved)
    constants = {number: numbers[order]}
    if part is not None and part.size:
        constants[1] = part.reshape(2, -1)[:, order].reshape(-1)
    attributes = {"axes": sorted(moved)} if given.get("axes") else {}
    return Pushed((push.perm,), attributes, constants=constants)


@pushes("LayerNormalization")
def _layer(push: Push) -> Pushed | None:
    first = push.node.attributes.get("axis", -1) % push.rank
    return None if push.port or not push.fixes(*range(first, push.rank)) else Pushed((push.perm,))


@pushes("BatchNormalization")
def _batch(push: Push) -> Pushed | None:
    return None if push.port or not push.fixes(1) else Pushed((push.perm,))


@pushes("InstanceNormalization")
def _instance(push: Push) -> Pushed | None:
    return None if push.port or not push.fixes(0, 1) else Pushed((push.perm,))


@pushes("LRN")
def _local(push: Push) -> Pushed | None:
    return Pushed((push.perm,)) if push.fixes(1) else None


SPATIAL = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")
"""Attributes with a number for each dimension of space."""


def _turned(push: Push) -> dict[str, Any]:
    """The attributes of a window whose dimensions of space change places."""
    back = [axis - 2 for axis in _inverse(push.perm)[2:]]
    given = push.node.attributes
    found = {name: [given[name][axis] for axis in back] for name in SPATIAL if given.get(name)}
    if given.get("pads"):
        found["pads"] = [given["pads"][axis + len(back) * end] for end in (0, 1) for axis in back]
    return found


@pushes("AveragePool", "MaxPool", "LpPool")
def _pool(push: Push) -> Pushed | None:
    return Pushed((push.perm,), _turned(push)) if {*push.perm[:2]} == {0, 1} else None


@pushes("Conv", "ConvTranspose", "ConvInteger")
def _convolution(push: Push) -> Pushed | None:
    if push.port or not push.fixes(0, 1):
        return None
    return Pushed((push.perm,), _turned(push), {1: _inverse(push.perm)})


@pushes("MatMul")
def _matmul(push: Push) -> Pushed | None:
    other = 1 - push.port
    shape, result = push.shape(other), push.draft.shape(push.node.outputs[0])
    last = (push.rank - 2, push.rank - 1)
    swap = (*range(push.rank - 2), last[1], last[0])
    if push.perm == swap and len(shape) == push.rank == len(result):
        return Pushed((swap,), perms={other: swap}, sequence=(1, 0))
    if len(result) != push.rank:
        return None
    if push.fixes(*last) and len(shape) == push.rank:
        return Pushed((push.perm,), perms={other: _inverse(push.perm)})
    if len(shape) == 2 and push.perm[last[1 - push.port]] == last[1 - push.port]:
        return Pushed((push.perm,)) if push.port == 0 or push.fixes(*last) else None
    return None


@pushes("Gemm")
def _gemm(push: Push) -> Pushed | None:
    if push.port > 1 or push.perm != (1, 0):
        return None
    name = ("transA", "transB")[push.port]
    return Pushed(((0, 1),), {name: 1 - push.node.attributes.get(name, 0)})
