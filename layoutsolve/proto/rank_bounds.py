"""Upper bounds on the dimensions and elements of tensors, by operator, without inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from layoutsolve.proto.messages import (
    DOMAINS,
    AttributeProto,
    NodeProto,
    TensorProto,
    TypeProto,
    integer,
    integers,
)
from layoutsolve.proto.operator_schemas import MOST_DIMENSIONS

MANY = 1 << 62
"""As many as there may be, where no bound is known."""

_OTHERS = "ai.onnx."
"""What ONNX's further domains begin with."""


class Bound(NamedTuple):
    """The most dimensions and elements that a tensor has, None where inference knows nothing of these; the most
    elements of a tensor whose shape it is, or the constant that it is itself; and whether it depends on what is hidden
    from inference. So many of its dimensions may be ``wide``, which is not known to be of size 1, None for all; its
    ``last`` one has at least that size.
    """

    rank: int | None = None
    elements: int | None = None
    product: int | TensorProto = MANY
    hidden: bool = False
    wide: int | None = None
    last: int = 0


UNKNOWN = Bound()


def rank_of(kind: TypeProto) -> int:
    """Stated rank of a tensor, or of those in a sequence; 0 where none is stated."""
    while (held := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, held).elem_type
    return len(kind.tensor_type.shape.dim) if held == "tensor_type" else 0


def bound_of_type(kind: TypeProto) -> Bound:
    """The bound that a type states."""
    while (held := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, held).elem_type
    if held != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return UNKNOWN
    dims = kind.tensor_type.shape.dim
    known = all(dim.WhichOneof("value") == "dim_value" for dim in dims)
    wide = sum(dim.dim_value != 1 for dim in dims)
    elements = _few(max(dim.dim_value, 0) for dim in dims) if known else None
    return Bound(len(dims), elements, wide=wide, last=max(dims[-1].dim_value, 0) if dims else 0)


def bound_of_constant(tensor: TensorProto) -> Bound:
    dims = [max(size, 0) for size in tensor.dims]
    return Bound(len(dims), _few(dims), tensor, wide=sum(size != 1 for size in dims), last=dims[-1] if dims else 0)


def _few(sizes: object) -> int:
    return min(prod(sizes), MANY)  # type: ignore[call-overload, no-any-return]


def with_dimensions(bound: Bound, more: int) -> Bound:
    """The bound of a tensor that has so many dimensions more."""
    return Bound(None if bound.rank is None else max(bound.rank + more, 0), MANY, MANY, bound.hidden)


def either(one: Bound, other: Bound) -> Bound:
    """What holds of a tensor that is one or another."""
    ranks = [each.rank for each in (one, other) if each.rank is not None]
    counts = [each.elements for each in (one, other) if each.elements is not None]
    wide = max(map(_wide, (one, other)))
    return Bound(max(ranks, default=None), max(counts, default=None), MANY, one.hidden or other.hidden, wide)


def _wide(bound: Bound) -> int:
    """The most dimensions that are not known to be of size 1."""
    return (bound.rank or 0) if bound.wide is None else bound.wide


def bound_of_results(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """The bound of every result of an operator: by default no more dimensions than one of its inputs has."""
    if node.domain not in DOMAINS:
        return _of_others(node, inputs) if node.domain.startswith(_OTHERS) else UNKNOWN
    rule = RULES.get(node.op_type)
    if rule is not None:
        found = rule(node, inputs)
        return found if (found.rank or 0) < MANY else found._replace(rank=MANY)
    return Bound(max([each.rank or 0 for each in inputs], default=0), MANY)


Rule = Callable[[NodeProto, Sequence[Bound]], Bound]


def _first(inputs: Sequence[Bound], number: int = 0) -> Bound:
    return inputs[number] if number < len(inputs) else UNKNOWN


def _total(counts: Sequence[int | None]) -> int:
    return min(sum(MANY if each is None else each for each in counts), MANY)


def _volume(shape: Bound) -> int:
    """The most elements of a tensor of a shape."""
    if isinstance(shape.product, int):
        return shape.product
    sizes = _numbers(shape)
    return _few(max(size, 0) for size in sizes) if len(sizes) == shape.elements else MANY


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
        return Bound(1, min(MANY if data.elements is None else data.elements, abs(ends[1][0] - ends[0][0])))
    return _as_many(node, inputs)


def _same(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return _first(inputs)


def _broadcast(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    ranks = [each.rank for each in inputs if each.rank is not None]
    rank = max(ranks, default=None)
    counts = [MANY if each.elements is None else each.elements for each in inputs]
    if rank is None:
        return UNKNOWN
    last = max(each.last for each in inputs)
    wide = min(sum(map(_wide, inputs)), rank)
    return Bound(rank, max(counts) if rank <= 1 else _few(counts), wide=wide, last=last if last > 1 else 0)


def _shape(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    first = _first(inputs)
    return Bound(1, first.rank, MANY if first.elements is None or len(node.attribute) else first.elements)


def _reshape(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return Bound(_first(inputs, 1).elements, _first(inputs).elements)


def _expand(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, shape = _first(inputs), _first(inputs, 1)
    if data.rank is None and shape.elements is None:
        return UNKNOWN
    count = _few([MANY if data.elements is None else data.elements, _volume(shape)])
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
        return UNKNOWN
    return Bound(max(data.rank - 1, 0) + indices.rank, indices.elements if data.rank <= 1 else MANY)


def _gather_nd(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    data, indices = _first(inputs), _first(inputs, 1)
    if data.rank is None or indices.rank is None:
        return UNKNOWN
    return Bound(max(data.rank + indices.rank - 1 - min(indices.last, data.rank), 0), MANY)


def _more(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """One dimension more, that of what each element becomes."""
    first = _first(inputs)
    return Bound(None if first.rank is None else first.rank + 1, MANY)


def _concat(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    ranks = [each.rank for each in inputs if each.rank is not None]
    return Bound(max(ranks, default=None), _total([each.elements for each in inputs]))


def _joined(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return _more(node, inputs) if integer(node, "new_axis", 0) else Bound(_first(inputs).rank, MANY)


def _einsum(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    text = next((each.s.decode("latin-1") for each in node.attribute if each.name == "equation"), "").replace(" ", "")
    operands, arrow, result = text.partition("->")
    terms = operands.split(",")
    if any(each.rank is None for each in inputs):
        return UNKNOWN
    others = [
        (each.rank or 0) - len(term.replace(".", "")) for term, each in zip(terms, inputs, strict=False) if "." in term
    ]
    around = max([0, *others])
    if arrow:
        return Bound(len(result.replace(".", "")) + (around if "." in result else 0), MANY)
    return Bound(len(set(operands) - {".", ","}) + around, MANY)


def _told(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    """What an attribute says that has a value or a type."""
    for each in node.attribute:
        if each.HasField("t"):
            return bound_of_constant(each.t)
        if each.HasField("sparse_tensor"):
            return Bound(len(each.sparse_tensor.dims), MANY)
        if each.HasField("tp"):
            return Bound(rank_of(each.tp), MANY)
        if each.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
            if node.op_type != "Constant":
                return Bound(len(each.ints), MANY)
            count = max(len(each.ints), len(each.floats), len(each.strings))
            return bound_of_constant(TensorProto(data_type=TensorProto.INT64, dims=[count], int64_data=each.ints))
        if each.type in (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING):
            return Bound(0, 1)
    return Bound(_first(inputs).rank, MANY)


def _random(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
    return Bound(len(integers(node, "shape")), MANY)


def _longest(least: int, number: int) -> Rule:
    """As many dimensions as a vector has elements, and the least of them beside; or as many as the first input has."""

    def rule(node: NodeProto, inputs: Sequence[Bound]) -> Bound:
        vector = _first(inputs, number).elements if number < len(inputs) else 0
        return Bound(max(_first(inputs).rank or 0, least + (vector or 0)), MANY)

    return rule


def _at_least(rank: int) -> Rule:
    return lambda node, inputs: Bound(max([rank, *(each.rank or 0 for each in inputs)]), MANY)


def _always(rank: int) -> Rule:
    return lambda node, inputs: Bound(rank, 1 if rank == 0 else MANY)


_of_others = _at_least(5)

RULES: Mapping[str, Rule] = {
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
