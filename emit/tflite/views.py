"""Views that are left out, and those that keep tensors within the dimensions that LiteRT has.

A view of another view reads what that reads, and what nothing reads is not written. Kernels take eight dimensions
at most, but for RESHAPE: operators on more compute on fewer, of which each is several neighbours that they treat alike.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from layoutsolve.emit.tflite.draft import Draft, have_equal_steps, view_options
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.frontend.tflite.reading.model import Operator, Tensor
from layoutsolve.ir.graph import Array

VIEW = "RESHAPE"
LAYER = "FULLY_CONNECTED"

CHANGING_NOTHING = frozenset(("BROADCAST_TO", "CAST", "SLICE"))
"""Operators that give what they read where it has the type and the sizes of their result."""

BETWEEN = -1
"""The number of an operator that is written for none of the source."""

MOST, FEWER = 8, 6
"""The most dimensions that an operator which is no view is written with, and those that XNNPACK's tensors have
(``XNN_MAX_TENSOR_DIMS``), which it finds out of some operators only when it prepares them.
"""

ELEMENTWISE = frozenset(
    (
        "ABS", "ADD", "CAST", "CEIL", "COS", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV",
        "FLOOR_MOD", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG",
        "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "NOT_EQUAL", "POW",
        "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT_V2", "SIGN", "SIN",
        "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH",
    )
)  # fmt: skip
"""Operators that may be computed on fewer dimensions, as those below."""

_SPLITTING = {"SPLIT": (1, 0), "SPLIT_V": (0, 2)}
"""By operator that takes a tensor apart, the places of what it takes apart and of the axis."""

REDUCING = frozenset(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"))
EXPANDING = "BROADCAST_TO"


def within_limits(draft: Draft) -> list[Operator]:
    """The operators of a draft, as far as they can be on :data:`FEWER` dimensions at most. Raises
    :class:`ExpressionError` for one that is on more than :data:`MOST`.
    """
    written: list[Operator] = []
    for operator in draft.operators:
        tensors = [draft.tensors[index] for index in (*operator.inputs, *operator.outputs) if index >= 0]
        rank = max((len(tensor.shape) for tensor in tensors), default=0)
        known = all(tensor.signature == tensor.shape for tensor in tensors)
        axes = draft.tensors[operator.inputs[1]].data if operator.name in REDUCING else None
        if operator.name == VIEW or rank <= FEWER:
            written.append(operator)
        elif known and operator.name == LAYER:
            _as_matrix(draft, operator, written)
        elif known and operator.name == "CONCATENATION":
            _joined(draft, operator, written)
        elif known and operator.name in _SPLITTING:
            _split(draft, operator, written)
        elif known and axes is not None and draft.tensors[operator.outputs[0]].quant is None:
            _reduced(draft, operator, axes, written)
        elif known and axes is not None and not operator.options.get("keep_dims"):
            _keeping(draft, operator, axes, written)
        elif known and _can_be_flatter(operator):
            _flatter(draft, operator, written)
        elif rank <= MOST:
            written.append(operator)
        else:
            raise ExpressionError(f"a tensor of {operator.name} has more than {MOST} dimensions")
    return written


def _can_be_flatter(operator: Operator) -> bool:
    reduces = operator.name in REDUCING and bool(operator.options.get("keep_dims"))
    return reduces or operator.name == EXPANDING or operator.name in ELEMENTWISE


def _as_matrix(draft: Draft, operator: Operator, written: list[Operator]) -> None:
    """Write a fully-connected layer whose rows are one dimension."""
    data, made = operator.inputs[0], operator.outputs[0]
    read, shape = (draft.tensors[index].shape for index in (data, made))
    given = _viewed(draft, data, (prod(read[:-1]), read[-1]), written)
    flat = draft.like(made, (prod(shape[:-1]), shape[-1]))
    options = {**operator.options, "keep_num_dims": False}
    written.append(replace(operator, inputs=(given, *operator.inputs[1:]), outputs=(flat,), options=options))
    _viewed(draft, flat, shape, written, made)


def _joined(draft: Draft, operator: Operator, written: list[Operator]) -> None:
    """Write a concatenation along the second of three dimensions."""
    (made,), rank = operator.outputs, len(draft.tensors[operator.outputs[0]].shape)
    axis = operator.options["axis"] % rank

    def parts(index: int) -> tuple[int, ...]:
        shape = draft.tensors[index].shape
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    given = tuple(_viewed(draft, index, parts(index), written) for index in operator.inputs)
    flat = draft.like(made, parts(made))
    written.append(replace(operator, inputs=given, outputs=(flat,), options={**operator.options, "axis": 1}))
    _viewed(draft, flat, draft.tensors[made].shape, written, made)


def _split(draft: Draft, operator: Operator, written: list[Operator]) -> None:
    """Write a split along the second of three dimensions."""
    data, place = _SPLITTING[operator.name]
    shape, inputs = draft.tensors[operator.inputs[data]].shape, list(operator.inputs)
    axis = int(np.asarray(draft.tensors[operator.inputs[place]].data).reshape(())) % len(shape)
    before, behind = prod(shape[:axis]), prod(shape[axis + 1 :])
    inputs[data] = _viewed(draft, operator.inputs[data], (before, shape[axis], behind), written)
    inputs[place] = draft.constant(np.array(1, np.int32), "axis")
    flat = [draft.like(made, (before, draft.tensors[made].shape[axis], behind)) for made in operator.outputs]
    written.append(replace(operator, inputs=tuple(inputs), outputs=tuple(flat)))
    for each, made in zip(flat, operator.outputs, strict=True):
        _viewed(draft, each, draft.tensors[made].shape, written, made)


def _keeping(draft: Draft, operator: Operator, places: Array, written: list[Operator]) -> None:
    """Write a reduction of integers, at once, with dimensions of 1 that a view leaves out."""
    shape, (made,) = draft.tensors[operator.inputs[0]].shape, operator.outputs
    axes = {int(axis) % len(shape) for axis in places.reshape(-1)}
    kept = draft.like(made, [1 if axis in axes else size for axis, size in enumerate(shape)])
    _flatter(draft, replace(operator, outputs=(kept,), options={**operator.options, "keep_dims": True}), written)
    _viewed(draft, kept, draft.tensors[made].shape, written, made)


def _reduced(draft: Draft, operator: Operator, places: Array, written: list[Operator]) -> None:
    """Write a reduction along one run of neighbours after the other, each the second of three dimensions."""
    last, (made,) = operator.inputs[0], operator.outputs
    sizes = list(draft.tensors[last].shape)
    axes = sorted({int(axis) % len(sizes) for axis in places.reshape(-1)})
    options = {**operator.options, "keep_dims": True}
    while axes:
        first, run = axes[0], 1
        while run < len(axes) and axes[run] == first + run:
            run += 1
        parts = prod(sizes[:first]), prod(sizes[first : first + run]), prod(sizes[first + run :])
        sizes[first : first + run], axes = [1] * run, axes[run:]
        flat = draft.like(made, (parts[0], 1, parts[2]))
        given = _viewed(draft, last, parts, written), draft.constant(np.array([1], np.int32), draft.tensors[made].name)
        written.append(replace(operator, inputs=given, outputs=(flat,), options=options))
        last = flat
    _viewed(draft, last, draft.tensors[made].shape, written, made)


def _flatter(draft: Draft, operator: Operator, written: list[Operator]) -> None:
    """Write an operator on fewer dimensions."""
    alone = operator.name in REDUCING or operator.name == EXPANDING
    read, (made,) = operator.inputs[:1] if alone else operator.inputs, operator.outputs
    tensors = [draft.tensors[index] for index in (*read, made)]
    shapes = _grouped([tensor.shape for tensor in tensors])
    given = [_viewed(draft, index, shape, written) for index, shape in zip(read, shapes, strict=False)]
    if alone:
        axes = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if sizes[0] != sizes[1]]
        stated = shapes[-1] if operator.name == EXPANDING else axes
        given.append(draft.constant(np.array(stated, np.int32), tensors[-1].name))
    flat = draft.like(made, shapes[-1])
    written.append(replace(operator, inputs=tuple(given), outputs=(flat,)))
    _viewed(draft, flat, tensors[-1].shape, written, made)


def _viewed(draft: Draft, index: int, shape: Sequence[int], written: list[Operator], into: int = -1) -> int:
    """A tensor in another shape, as the tensor ``into`` or as one of its own."""
    result = draft.like(index, shape) if into < 0 else into
    sizes = draft.constant(np.array(shape, np.int32), draft.tensors[index].name)
    written.append(Operator(BETWEEN, VIEW, (index, sizes), (result,), view_options(shape)))
    return result


def _grouped(shapes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Shapes with one dimension for neighbours of which the same tensors have size 1. Raises :class:`ExpressionError`
    where more than :data:`MOST` are left.
    """
    rank = max(map(len, shapes))
    full = [(*(1 for _ in range(rank - len(shape))), *shape) for shape in shapes]
    groups: list[list[int]] = []
    kinds: list[tuple[bool, ...]] = []
    for axis in range(rank):
        kind = tuple(shape[axis] == 1 for shape in full)
        if all(kind):
            continue
        if kinds and kinds[-1] == kind:
            groups[-1].append(axis)
        else:
            groups.append([axis])
            kinds.append(kind)
    if len(groups) > MOST:
        raise ExpressionError(f"its operands are broadcast along more than {MOST} dimensions")
    return [[prod(shape[axis] for axis in group) for group in groups] or [1] for shape in full]


def merged(draft: Draft, ends: Collection[int]) -> list[Operator]:
    """The operators of a draft with as few RESHAPE as give the same, and without those that change nothing; inputs and
    outputs, its ``ends``, stay.
    """
    sources, same, written = dict[int, int](), dict[int, int](), list[Operator]()
    viewed: dict[int, list[int]] = {}
    for operator in draft.operators:
        inputs, alike = tuple(same.get(index, index) for index in operator.inputs), list[int]()
        if operator.name == VIEW:
            first = sources.get(inputs[0], inputs[0])
            sources[operator.outputs[0]], inputs = first, (first, *inputs[1:])
            others = viewed.setdefault(first, [first])
            alike = [*others]
            others.append(operator.outputs[0])
        elif operator.name in CHANGING_NOTHING and -1 not in draft.tensors[inputs[0]].signature:
            alike = [inputs[0]]
        elif operator.name == LAYER and not operator.options.get("keep_num_dims"):
            first = sources.get(inputs[0], inputs[0])  # which has its rows innermost, in any shape
            meant = have_equal_steps(draft.tensors[first].quant, draft.tensors[inputs[0]].quant)
            meant = meant and len(draft.tensors[first].shape) <= FEWER
            inputs = (first if meant else inputs[0], *inputs[1:])
        twin = next(
            (index for index in alike if _are_same(draft.tensors[index], draft.tensors[operator.outputs[0]])), None
        )
        if twin is not None and operator.outputs[0] not in ends:
            same[operator.outputs[0]] = twin
        else:
            written.append(operator if inputs == operator.inputs else replace(operator, inputs=inputs))
    return _in_rows(draft, _read(written, ends), ends)


def _in_rows(draft: Draft, operators: list[Operator], ends: Collection[int]) -> list[Operator]:
    """The operators with fully-connected layers that give their result in the dimensions of what they read, where it is
    read through a view of these alone.
    """
    readers = dict[int, list[Operator]]()
    for operator in operators:
        for index in operator.inputs:
            readers.setdefault(index, []).append(operator)
    made, gone = dict[int, int](), set[int]()
    for operator in operators:
        given = operator.outputs[0] if operator.name == LAYER else -1
        views = [each for each in readers.get(given, ()) if each.name == VIEW]
        if (
            given not in ends
            and len(views) == len(readers.get(given, ())) == 1
            and _are_rows(draft, operator, views[0])
        ):
            made[given] = views[0].outputs[0]
            gone.add(views[0].outputs[0])
    return [
        replace(each, outputs=(made[each.outputs[0]],), options={**each.options, "keep_num_dims": True})
        if each.outputs and each.outputs[0] in made
        else each
        for each in operators
        if each.name != VIEW or each.outputs[0] not in gone
    ]


def _are_rows(draft: Draft, layer: Operator, view: Operator) -> bool:
    """Whether a view gives a layer's result the dimensions of its operand, all of which are known."""
    read, weights, flat, seen = (
        draft.tensors[index] for index in (*layer.inputs[:2], layer.outputs[0], view.outputs[0])
    )
    rows = (
        bool(read.shape)
        and read.shape[:-1] == seen.shape[:-1]
        and read.shape[-1] == weights.shape[-1]
        and len(read.shape) <= FEWER
    )
    known = -1 not in (*read.signature, *seen.signature)
    return rows and known and seen.shape[-1] == flat.shape[-1] and have_equal_steps(flat.quant, seen.quant)


def _read(operators: list[Operator], ends: Collection[int]) -> list[Operator]:
    """The operators without views that nothing reads."""
    reads, kept = {*ends}, list[Operator]()
    for operator in reversed(operators):
        if operator.name != VIEW or operator.outputs[0] in reads:
            kept.append(operator)
            reads.update(operator.inputs)
    return kept[::-1]


def _are_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of the same elements are of the same shape and meaning."""
    first, second = ((each.shape, each.signature, each.dtype, each.quant and each.quant.axis) for each in (one, other))
    return first == second and have_equal_steps(one.quant, other.quant)


def compacted(draft: Draft, operators: Sequence[Operator], ends: Collection[int]) -> list[Operator]:
    """Some operators of a draft, whose tensors are from now on those that they read or write, and its ``ends``."""
    used = {*ends}
    for operator in operators:
        used.update(operator.inputs, operator.outputs, operator.intermediates)
    kept = [tensor for tensor in draft.tensors if tensor.index in used]
    numbers = {tensor.index: number for number, tensor in enumerate(kept)} | {-1: -1}
    draft.tensors = [replace(tensor, index=number) for number, tensor in enumerate(kept)]
    draft.places = {name: numbers[index] for name, index in draft.places.items() if index in numbers}
    return [
        replace(
            operator,
            inputs=tuple(numbers[index] for index in operator.inputs),
            outputs=tuple(numbers[index] for index in operator.outputs),
            intermediates=tuple(numbers[index] for index in operator.intermediates),
        )
        for operator in operators
    ]
