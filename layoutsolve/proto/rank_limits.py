"""How many dimensions tensors may come to have: asked before native code infers types and sizes, which repeats every
dimension of whatever is computed, and where a chain of Gathers doubles their number with each of them.

What is kept of a tensor are upper bounds, from one look at each node in topological order. Where one is too large, or
depends on how long a vector is, inference itself tells what is true, of all but the nodes in question.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from math import prod
from typing import NamedTuple

from layoutsolve.base.wording import printable
from layoutsolve.errors import ModelError
from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    integer,
    integers,
    native,
)
from layoutsolve.proto.operator_schemas import MOST_DIMENSIONS
from layoutsolve.proto.scopes import graphs_of, nodes_of

_MANY = 1 << 62
"""As many as there may be, where no bound is known."""

_ROUNDS = 32
"""How often inference is asked for what is true."""

_ASIDE, _OTHERS = "layoutsolve.growing", "ai.onnx."
"""The domain of nodes that are hidden from inference, and what ONNX's further domains begin with."""


class Bound(NamedTuple):
    """The most dimensions and elements that a tensor has, None where inference knows nothing of these; the most
    elements of a tensor whose shape it is, or the constant that it is itself; and whether it depends on what is hidden
    from inference. So many of its dimensions may be ``wide``, which is not known to be of size 1, None for all; its
    ``last`` one has at least that size.
    """

    rank: int | None = None
    elements: int | None = None
    product: int | TensorProto = _MANY
    hidden: bool = False
    wide: int | None = None
    last: int = 0


_UNKNOWN = Bound()

Bounds = MutableMapping[str, Bound]

Place = tuple[int, str, str]
"""The number of a node in its graph, its operator and its first result."""


def check(model: ModelProto) -> None:
    """Raise :class:`ModelError` where inference would, or might, come upon a tensor of more dimensions than any array
    has.
    """
    for place in _growing(model):
        raise _grown(place)


def checked(model: ModelProto) -> ModelProto:
    """A model whose types and sizes can be inferred: nodes are hidden of which nothing bounds the dimensions that they
    give. Raises :class:`ModelError` where these are too many.
    """
    growing = _growing(model)
    return _without(model, growing) if growing else model


def bring_back(model: ModelProto) -> None:
    """Undo :func:`checked`, in a model that was made of what it gave."""
    for node in nodes_of(model.graph):
        if node.domain == _ASIDE:
            node.domain = ""
    kept = [each for each in model.opset_import if each.domain != _ASIDE]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def hidden(model: ModelProto) -> set[str]:
    """The operators of the nodes that :func:`checked` hides in a model that it gave."""
    return {node.op_type for node in nodes_of(model.graph) if node.domain == _ASIDE}


def bounded(model: ModelProto) -> dict[str, int]:
    """The most dimensions that each tensor of a model's graph has, as far as inference knows of them, by name."""
    bounds: ChainMap[str, Bound] = ChainMap({"": _UNKNOWN})
    _Pass().over(model, bounds)
    return {name: bound.rank for name, bound in bounds.items() if bound.rank is not None}


def _growing(model: ModelProto) -> list[Place]:
    """The nodes of a model that have to be hidden from inference, as nothing bounds the dimensions that they give."""
    last = _Pass()
    last.over(model)
    for _ in range(_ROUNDS):
        if not any(within == 0 for within, _ in last.growing.values()):
            break
        last = _Pass(_true(model, list(last.growing)), last.growing)
        last.over(model)
    for place, (_, rank) in last.growing.items():
        if rank < _MANY:
            raise _grown(place)
    return list(last.growing)


def check_node(node: NodeProto, kinds: Mapping[str, TypeProto], data: Mapping[str, bytes]) -> None:
    """The same of a single node, given the types of what it reads and the content of some of that."""
    if node.op_type not in _RULES:
        return
    given = []
    for name in node.input:
        bound = _declared(kinds[name]) if name in kinds else _UNKNOWN
        given.append(_constant(TensorProto.FromString(data[name])) if name in data else bound)
    if (_bound(node, given).rank or 0) > MOST_DIMENSIONS:
        raise _grown((-1, node.op_type, next(iter(node.output), "")))


def rank_of(kind: TypeProto) -> int:
    """Stated rank of a tensor, or of those in a sequence; 0 where none is stated."""
    while (held := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, held).elem_type
    return len(kind.tensor_type.shape.dim) if held == "tensor_type" else 0


def _grown(place: Place) -> ModelError:
    index, op, output = place
    number = f" {index}" if index >= 0 else ""
    return ModelError(
        printable(
            f"operator{number} {op} (output '{output}') gives a tensor of more than {MOST_DIMENSIONS} dimensions, which"
            f" are the most: merge some"
        )
    )


def _without(model: ModelProto, hidden: Collection[Place]) -> ModelProto:
    """A model some of whose nodes are hidden from inference."""
    asked = ModelProto()
    asked.CopyFrom(model)
    asked.opset_import.add(domain=_ASIDE, version=1)
    places, stack = set(hidden), [asked.graph]
    while stack:
        graph = stack.pop()
        for index, node in enumerate(graph.node):
            stack += graphs_of(node)
            if _place(index, node) in places:
                node.domain = _ASIDE
    return asked


def _true(model: ModelProto, hidden: Collection[Place]) -> dict[str, Bound]:
    """What inference tells of a model's graph when some nodes are hidden from it, by name."""
    asked = _without(model, hidden)
    del asked.graph.value_info[:]
    for port in asked.graph.output:
        port.type.Clear()
    try:
        data = native.shape_inference.infer_shapes(asked.SerializeToString(), False, False, False)
    except Exception as error:  # of a library that tells nothing of this model
        raise _grown(next(iter(hidden))) from error
    found = ModelProto.FromString(data).graph
    return {info.name: _declared(info.type) for info in (*found.output, *found.value_info)}


def _place(index: int, node: NodeProto) -> Place:
    return index, node.op_type, next(iter(node.output), "")


class _Pass:
    """One look at each node, ``true`` being what inference told when some were hidden from it; None before."""

    def __init__(self, true: Mapping[str, Bound] | None = None, hidden: Collection[Place] = ()) -> None:
        self.true, self.hidden = true, frozenset(hidden)
        self.growing: dict[Place, tuple[int, int]] = {}
        """The nodes that may give too many dimensions: how deeply they lie, and how many these are."""

    def over(self, model: ModelProto, bounds: ChainMap[str, Bound] | None = None) -> None:
        """Look at a model. Raises :class:`ModelError` for a node that is known to give too many dimensions."""
        self._graph(model.graph, ChainMap({"": _UNKNOWN}) if bounds is None else bounds, [])

    def _graph(self, graph: GraphProto, bounds: ChainMap[str, Bound], given: Sequence[Bound]) -> list[Bound]:
        """The bounds of what a graph gives."""
        for tensor in graph.initializer:
            bounds[tensor.name] = _constant(tensor)
        for sparse in graph.sparse_initializer:
            bounds[sparse.values.name] = Bound(len(sparse.dims), _MANY)
        for number, port in enumerate(graph.input):
            bound = _declared(port.type)
            if number < len(given):
                bound = _either(bound, given[number])
            default = bounds.maps[0].get(port.name)
            if default is not None and not given:
                bound = default._replace(rank=max(default.rank or 0, bound.rank or 0), wide=None, last=0)
            bounds[port.name] = bound
        told = {info.name: rank for info in (*graph.value_info, *graph.output) if (rank := rank_of(info.type))}
        for index, node in enumerate(graph.node):
            self._node(index, node, bounds, told)
        return [bounds.get(port.name, _UNKNOWN) for port in graph.output]

    def _node(self, index: int, node: NodeProto, bounds: ChainMap[str, Bound], told: Mapping[str, int]) -> None:
        place, inputs = _place(index, node), [bounds.get(name, _UNKNOWN) for name in node.input]
        dependent = any(each.hidden for each in inputs)
        if node.op_type in _FLOWS and node.domain in DOMAINS:
            results = self._flow(node, inputs, bounds)
            dependent = dependent or any(each.hidden for each in results)
        else:
            results = [_bound(node, inputs)] * len(node.output)
        true, within = self.true, len(bounds.maps) - 1
        most = max((each.rank or 0 for each in results), default=0)
        if most > MOST_DIMENSIONS:
            if true is not None and not dependent and not within:
                raise _grown(place)
            self.growing[place] = within, most
            if within:  # where inference does not tell what it finds
                results = [_UNKNOWN] * len(results)
        dependent = dependent or place in self.hidden
        for name, bound in zip(node.output, results, strict=False):
            rank, count, wide = bound.rank, bound.elements, bound.wide
            if true is not None and not within:
                known = true.get(name, _UNKNOWN)
                if not dependent:
                    rank, count = known.rank, known.elements
                elif rank is not None and known.rank is not None:
                    rank = min(rank, known.rank)
            if name in told and told[name] > (rank or 0):
                rank, wide = told[name], None
            bounds[name] = Bound(rank, count, bound.product, dependent, wide, bound.last)

    def _flow(self, node: NodeProto, inputs: Sequence[Bound], bounds: ChainMap[str, Bound]) -> list[Bound]:
        """What branches and bodies give."""
        op, given, graphs = node.op_type, list(inputs), list(graphs_of(node))
        if not graphs:
            return []
        carried = 0
        if op == "If":
            given = []
        elif op == "Loop":
            given[:2] = [Bound(0, 1), Bound(0, 1)]
        elif op == "Scan":
            given = given[max(len(given) - len(graphs[0].input), 0) :]  # once there were lengths before all else
            carried = max(len(given) - integer(node, "num_scan_inputs", 1), 0)
            given[carried:] = [_with(each, -1) for each in given[carried:]]
        found, *others = [self._graph(graph, bounds.new_child(), given) for graph in graphs]
        if op == "If":
            for other in others:
                found = list(map(_either, found, other))
        elif op in ("Loop", "Scan"):
            initial, found = (given[2:], found[1:]) if op == "Loop" else (given[:carried], found)
            more = 1 if op == "Loop" else 2
            stacked = [_with(each, more) for each in found[len(initial) :]]
            found = [*map(_either, initial, found), *stacked]
        return found


_FLOWS = ("If", "Loop", "Scan", "SequenceMap")
"""Operators whose graphs inference looks into."""


def _declared(kind: TypeProto) -> Bound:
    """What a type says."""
    while (held := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, held).elem_type
    if held != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return _UNKNOWN
    dims = kind.tensor_type.shape.dim
    known = all(dim.WhichOneof("value") == "dim_value" for dim in dims)
    wide = sum(dim.dim_value != 1 for dim in dims)
    elements = _few(max(dim.dim_value, 0) for dim in dims) if known else None
    return Bound(len(dims), elements, wide=wide, last=max(dims[-1].dim_value, 0) if dims else 0)


def _constant(tensor: TensorProto) -> Bound:
    dims = [max(size, 0) for size in tensor.dims]
    return Bound(len(dims), _few(dims), tensor, wide=sum(size != 1 for size in dims), last=dims[-1] if dims else 0)


def _few(sizes: object) -> int:
    return min(prod(sizes), _MANY)  # type: ignore[call-overload, no-any-return]


def _with(bound: Bound, more: int) -> Bound:
    """The bound of a tensor that has so many dimensions more."""
    return Bound(None if bound.rank is None else max(bound.rank + more, 0), _MANY, _MANY, bound.hidden)


def _either(one: Bound, other: Bound) -> Bound:
    """What holds of a tensor that is one or another."""
    ranks = [each.rank for each in (one, other) if each.rank is not None]
    counts = [each.elements for each in (one, other) if each.elements is not None]
    wide = max(map(_wide, (one, other)))
    return Bound(max(ranks, default=None), max(counts, default=None), _MANY, one.hidden or other.hidden, wide)


def _wide(bound: Bound) -> int:
    """The most dimensions that are not known to be of size 1."""
    return (bound.rank or 0) if bound.wide is None else bound.wide


# -- operators -----------------------------------------------------------------------------------------------------


def _bound(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """The bound of all that an operator gives: by default no more dimensions than one of its inputs has."""
    if node.domain not in DOMAINS:
        return _of_others(node, inputs) if node.domain.startswith(_OTHERS) else _UNKNOWN
    rule = _RULES.get(node.op_type)
    if rule is not None:
        found = rule(node, inputs)
        return found if (found.rank or 0) < _MANY else found._replace(rank=_MANY)
    return Bound(max([each.rank or 0 for each in inputs], default=0), _MANY)


Rule = Callable[[NodeProto, Sequence[Bound]], Bound]


def _first(inputs: Sequence[Bound], number: int = 0) -> Bound:
    return inputs[number] if number < len(inputs) else _UNKNOWN


def _total(counts: Sequence[int | None]) -> int:
    return min(sum(_MANY if each is None else each for each in counts), _MANY)


def _volume(shape: Bound) -> int:
    """The most elements of a tensor of a shape."""
    if isinstance(shape.product, int):
        return shape.product
    sizes = _numbers(shape)
    return _few(max(size, 0) for size in sizes) if len(sizes) == shape.elements else _MANY


def _numbers(bound: Bound) -> list[int]:
    """The numbers of a constant, as far as it is one, and short."""
    tensor = bound.product
    if isinstance(tensor, int) or tensor.data_type != TensorProto.INT64 or (bound.elements or 0) > MOST_DIMENSIONS:
        return []
    if tensor.int64_data and tensor.raw_data:
        return []
    raw = tensor.raw_data[: 8 * MOST_DIMENSIONS]
    numbers = [int.from_bytes(raw[at : at + 8], "little", signed=True) for at in range(0, len(raw), 8)]
    return [*tensor.int64_data, *numbers]


def _as_many(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """One result that has no more elements than the first input."""
    first = _first(inputs)
    if node.op_type in ("Slice", "Split"):
        return Bound(first.rank, first.elements)
    return Bound(first.rank, first.elements, wide=first.wide, last=0 if node.op_type == "Transpose" else first.last)


def _slice(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, ends = _first(inputs), [_numbers(each) for each in inputs[1:3]]
    if data.rank == 1 and len(ends) == 2 and list(map(len, ends)) == [1, 1] and min(ends)[0] >= 0:
        return Bound(1, min(_MANY if data.elements is None else data.elements, abs(ends[1][0] - ends[0][0])))
    return _as_many(node, inputs)


def _same(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return _first(inputs)


def _broadcast(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    ranks = [each.rank for each in inputs if each.rank is not None]
    rank = max(ranks, default=None)
    counts = [_MANY if each.elements is None else each.elements for each in inputs]
    if rank is None:
        return _UNKNOWN
    last = max(each.last for each in inputs)
    wide = min(sum(map(_wide, inputs)), rank)
    return Bound(rank, max(counts) if rank <= 1 else _few(counts), wide=wide, last=last if last > 1 else 0)


def _shape(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    first = _first(inputs)
    return Bound(1, first.rank, _MANY if first.elements is None or len(node.attribute) else first.elements)


def _reshape(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return Bound(_first(inputs, 1).elements, _first(inputs).elements)


def _expand(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, shape = _first(inputs), _first(inputs, 1)
    if data.rank is None and shape.elements is None:
        return _UNKNOWN
    count = _few([_MANY if data.elements is None else data.elements, _volume(shape)])
    return Bound(max(data.rank or 0, shape.elements or 0), count)


def _filled(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    shape = _first(inputs)
    sizes = _numbers(shape)
    last = max(sizes[-1], 0) if sizes and len(sizes) == shape.elements else 0
    return Bound(shape.elements, _volume(shape), last=last)


def _unsqueeze(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data = _first(inputs)
    count = _first(inputs, 1).elements if len(inputs) > 1 else len(integers(node, "axes"))
    rank = None if data.rank is None or count is None else data.rank + count
    return Bound(rank, data.elements, wide=None if rank is None else _wide(data))


def _gone(node: NodeProto, inputs: Sequence[Bound], rank: int) -> int:
    """How many of a tensor's axes are told, as far as they are constant."""
    axes = _numbers(inputs[1]) if len(inputs) > 1 else integers(node, "axes")
    return len({axis % rank for axis in axes if -rank <= axis < rank})


def _squeeze(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data = _first(inputs)
    if data.rank is None:
        return Bound(None, data.elements)
    told = len(inputs) > 1 or any(each.name == "axes" for each in node.attribute)
    rank = data.rank - _gone(node, inputs, data.rank) if told else _wide(data)
    return Bound(rank, data.elements, wide=min(_wide(data), rank))


def _reduce(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data = _first(inputs)
    if data.rank is None or integer(node, "keepdims", 1):
        return Bound(data.rank, data.elements)
    gone = min(data.rank, 1) if node.op_type.startswith("Arg") else _gone(node, inputs, data.rank)
    return Bound(data.rank - gone, data.elements)


def _gather(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, indices = _first(inputs), _first(inputs, 1)
    if data.rank is None or indices.rank is None:
        return _UNKNOWN
    return Bound(max(data.rank - 1, 0) + indices.rank, indices.elements if data.rank <= 1 else _MANY)


def _gather_nd(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, indices = _first(inputs), _first(inputs, 1)
    if data.rank is None or indices.rank is None:
        return _UNKNOWN
    return Bound(max(data.rank + indices.rank - 1 - min(indices.last, data.rank), 0), _MANY)


def _more(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """One dimension more, that of what each element becomes."""
    first = _first(inputs)
    return Bound(None if first.rank is None else first.rank + 1, _MANY)


def _concat(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    ranks = [each.rank for each in inputs if each.rank is not None]
    return Bound(max(ranks, default=None), _total([each.elements for each in inputs]))


def _joined(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return _more(node, inputs) if integer(node, "new_axis", 0) else Bound(_first(inputs).rank, _MANY)


def _einsum(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    text = next((each.s.decode("latin-1") for each in node.attribute if each.name == "equation"), "").replace(" ", "")
    operands, arrow, result = text.partition("->")
    terms = operands.split(",")
    if any(each.rank is None for each in inputs):
        return _UNKNOWN
    others = [
        (each.rank or 0) - len(term.replace(".", "")) for term, each in zip(terms, inputs, strict=False) if "." in term
    ]
    around = max([0, *others])
    if arrow:
        return Bound(len(result.replace(".", "")) + (around if "." in result else 0), _MANY)
    return Bound(len(set(operands) - {".", ","}) + around, _MANY)


def _told(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """What an attribute says that has a value or a type."""
    for each in node.attribute:
        if each.HasField("t"):
            return _constant(each.t)
        if each.HasField("sparse_tensor"):
            return Bound(len(each.sparse_tensor.dims), _MANY)
        if each.HasField("tp"):
            return Bound(rank_of(each.tp), _MANY)
        if each.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
            if node.op_type != "Constant":
                return Bound(len(each.ints), _MANY)
            count = max(len(each.ints), len(each.floats), len(each.strings))
            return _constant(TensorProto(data_type=TensorProto.INT64, dims=[count], int64_data=each.ints))
        if each.type in (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING):
            return Bound(0, 1)
    return Bound(_first(inputs).rank, _MANY)


def _random(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return Bound(len(integers(node, "shape")), _MANY)


def _longest(least: int, number: int) -> Rule:
    """As many dimensions as a vector has elements, and the least of them beside; or as many as the first input has."""

    def rule(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
        vector = _first(inputs, number).elements if number < len(inputs) else 0
        return Bound(max(_first(inputs).rank or 0, least + (vector or 0)), _MANY)

    return rule


def _at_least(rank: int) -> Rule:
    return lambda node, inputs: Bound(max([rank, *(each.rank or 0 for each in inputs)]), _MANY)


def _always(rank: int) -> Rule:
    return lambda node, inputs: Bound(rank, 1 if rank == 0 else _MANY)


_of_others = _at_least(5)

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Identity", "Cast"), _same),
    **dict.fromkeys(
        ("Abs", "Ceil", "Floor", "Neg", "Not", "Relu", "Round", "Sign", "Split", "Sqrt", "Transpose"),
        _as_many,
    ),
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul",
         "Or", "Pow", "Sub", "Where"), _broadcast,
    ),
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
         "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"), _reduce,
    ),
    **dict.fromkeys(("Constant", "Optional", "SequenceEmpty"), _told),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), _random),
    **dict.fromkeys(("OneHot", "StringSplit"), _more),
    **dict.fromkeys(
        ("Attention", "GRU", "LSTM", "LinearAttention", "MaxRoiPool", "RNN", "RoiAlign", "STFT"), _at_least(4)
    ),
    **dict.fromkeys(("EyeLike", "Gemm", "MelWeightMatrix", "Multinomial"), _at_least(2)),
    **dict.fromkeys(("Flatten", "NonMaxSuppression", "NonZero"), _always(2)),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "Range"), _always(1)),
    **dict.fromkeys(("SequenceLength", "Size"), _always(0)),
    "AffineGrid": _at_least(5),
    "Col2Im": _longest(2, 1),
    "Concat": _concat,
    "ConcatFromSequence": _joined,
    "ConstantOfShape": _filled,
    "Einsum": _einsum,
    "Expand": _expand,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "ImageDecoder": _at_least(3),
    "MaxUnpool": _longest(0, 2),
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}  # fmt: skip
"""Operators whose results may have other dimensions than the most that one of their inputs has, or of which vectors of
sizes are computed.
"""
