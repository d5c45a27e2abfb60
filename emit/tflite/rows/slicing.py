"""Operators that take parts of a tensor, or put something around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.meanings import same_steps
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.stored import moves
from layoutsolve.ir.graph import Array, Dim, Size, product

MOST_CUT = 5
"""The most dimensions that SLICE and STRIDED_SLICE take."""

_FAR = (1 << 31) - 1
"""What is beyond all sizes."""


@row("Slice", quantized=moves)
def cut(call: Call) -> None:
    """Slice: SLICE where it takes neighbours, else STRIDED_SLICE, and REVERSE_V2 where it goes backwards."""
    value = call.value(0)
    rank = len(value.shape)
    if len(call.value(1).shape) != 1:
        raise ExpressionError("its bounds are no vectors", "give them one dimension")
    (count,) = call.sizes(call.value(1))
    axes = call.known(3, "axes").reshape(-1) % rank if call.has(3) else np.arange(count)
    steps = call.known(4, "steps").reshape(-1) if call.has(4) else np.ones(count, np.int64)
    if call.data(1) is None or call.data(2) is None:
        _take_computed(call, axes.tolist(), steps.tolist())
        return
    starts, ends = (call.known(number, "bounds").reshape(-1) for number in (1, 2))
    tensor, begin, size, stride = call.tensor(0), [0] * rank, [-1] * rank, [1] * rank
    turned, stops = [int(axis) for axis, step in zip(axes, steps, strict=True) if step < 0], dict[int, int]()
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        whole = value.shape[axis]
        if isinstance(whole, Size):
            if step < 0 and (step != -1 or -1 != start < _FAR or end > -_FAR):
                raise ExpressionError("it goes backwards along a part of a dynamic size", "fix the size with --shape")
            if step > 0:
                begin[axis], stride[axis] = min(max(start, -_FAR), _FAR), step
                stops |= {axis: max(end, -_FAR)} if end < _FAR else {}
            continue
        first = max(start, -whole) if step < 0 else start  # before the first element is that one, going backwards
        places = range(*slice(first, _end(end, whole, step), step).indices(whole))
        first = places[0] if places else 0
        begin[axis] = whole - 1 - first if step < 0 else first
        size[axis], stride[axis] = len(places), abs(step)
    for run in runs_of(sorted(turned)):
        tensor = call.move("REVERSE_V2", tensor, [call.constant(run)], value.shape)
    _take(call, tensor, value.shape, begin, size, stride, stops)


def _take_computed(call: Call, axes: list[int], steps: list[int]) -> None:
    """Write a slice between computed bounds, which count from the end where they are negative."""
    rank = len(call.value(0).shape)
    if min(steps) < 0 or rank > MOST_CUT:
        raise ExpressionError(
            "it goes backwards, or is of many dimensions, between computed bounds", "make them constant"
        )
    places = [axes.index(axis) if axis in axes else len(axes) for axis in range(rank)]
    bounds = []
    for number in (1, 2):
        given, dtype = call.tensor(number), call.value(number).dtype
        near = call.step("MINIMUM", [given, call.constant(_FAR, dtype)], [len(axes)])
        near = call.step("MAXIMUM", [near, call.constant(-_FAR, dtype)], [len(axes)])
        every = call.step(
            "CONCATENATION", [call.as_int32(near, call.value(number)), call.constant([0])], [len(axes) + 1], axis=0
        )
        bounds.append(call.step("GATHER", [every, call.constant(places)], [rank], axis=0))
    strides = [[*steps, 1][place] for place in places]
    whole = sum(1 << axis for axis, place in enumerate(places) if place == len(axes))
    call.write("STRIDED_SLICE", [call.tensor(0), *bounds, call.constant(strides)], end_mask=whole)


def runs_of(axes: Sequence[int]) -> list[list[int]]:
    """Axes in runs of neighbours."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _end(end: int, whole: int, step: int) -> int | None:
    """The end of a slice as Python has it: before the first element it is none."""
    return None if step < 0 and end < -whole else end


def _merged(whole: Sequence[bool]) -> list[list[int]]:
    """The dimensions, those next to each other that stay whole in one group."""
    groups: list[list[int]] = []
    for axis, stays in enumerate(whole):
        if groups and stays and whole[groups[-1][-1]]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _take(
    call: Call,
    tensor: int,
    shape: Sequence[Dim],
    begin: list[int],
    size: list[int],
    stride: list[int],
    stops: Mapping[int, int],
) -> None:
    """Write a slice; of more dimensions than kernels take those that stay whole are one. Parts of dynamic dimensions
    end at ``stops``; these and their beginnings count from the end where they are negative.
    """
    rank, made = len(shape), call.output
    ends = [first + (count - 1) * step + 1 for first, count, step in zip(begin, size, stride, strict=True)]
    plain = not stops and min(begin, default=0) >= 0 and all(step == 1 for step in stride)
    whole = [
        first == 0 and count in (-1, dim) and step == 1 and axis not in stops
        for axis, (first, count, step, dim) in enumerate(zip(begin, size, stride, shape, strict=True))
    ]
    groups = _merged(whole) if rank > MOST_CUT else [[axis] for axis in range(rank)]
    if len(groups) > MOST_CUT:
        raise ExpressionError(f"it takes parts of a tensor of more than {MOST_CUT} dimensions", "merge some")
    flat = [product(shape[axis] for axis in group) for group in groups]
    result = [product(made.shape[axis] for axis in group) for group in groups]
    last = call.reshape(tensor, flat)
    heads = [group[0] for group in groups]
    if plain:
        arguments = [call.constant([begin[axis] for axis in heads]), call.counts(result)]
        operator, options = "SLICE", dict[str, Any]()
    else:
        masks = sum(
            1 << place
            for place, (axis, group) in enumerate(zip(heads, groups, strict=True))
            if len(group) > 1 or (size[axis] == -1 and axis not in stops)
        )
        bounds = [stops.get(axis, max(ends[axis], 0)) for axis in heads]
        arguments = [
            call.constant(each) for each in ([begin[axis] for axis in heads], bounds, [stride[axis] for axis in heads])
        ]
        operator, options = "STRIDED_SLICE", {"end_mask": masks}
    if len(groups) == rank:
        call.write(operator, [last, *arguments], **options)
    else:
        call.reshape(call.move(operator, last, arguments, result, **options), made.shape, call.target())


_MIRRORS = {"reflect": 0, "symmetric": 1}


def _fills(call: Call) -> bool:
    """Whether stored integers keep their meaning, and so does what a Pad fills with: any constant can have theirs."""
    constant = not call.has(2) or call.data(2) is not None
    return moves(call) and (constant or same_steps(call.value(0), call.value(2)))


@row("Pad", quantized=_fills)
def pad(call: Call) -> None:
    """Pad; negative amounts are cut off."""
    value = call.value(0)
    rank = len(value.shape)
    given = call.known(1, "amounts").reshape(-1)
    axes = call.known(3, "axes").reshape(-1) % rank if call.has(3) else np.arange(rank)
    amounts = np.zeros((rank, 2), np.int64)
    amounts[axes] = given.reshape(2, -1).T
    tensor, shape = call.tensor(0), list(value.shape)
    mode = call.attribute("mode", "constant")
    if (amounts < 0).any():
        tensor, shape = _cropped(call, tensor, shape, np.minimum(amounts, 0))
        amounts = np.maximum(amounts, 0)
    if mode in ("edge", "wrap"):
        _repeat(call, tensor, shape, amounts, mode)
    elif mode in _MIRRORS:
        if (
            max(amounts.max(initial=0), 0)
            and mode == "reflect"
            and any(
                isinstance(size, Size) or amounts[axis].max() >= size
                for axis, size in enumerate(shape)
                if amounts[axis].any()
            )
        ):
            raise ExpressionError("it reflects more than there is", "use smaller amounts")
        call.write("MIRROR_PAD", [tensor, call.constant(amounts)], mode=_MIRRORS[mode])
    elif mode == "constant":
        _fill(call, tensor, shape, amounts)
    else:
        raise ExpressionError(f"its mode is {mode}", "use constant, edge, reflect or wrap")


def _fill(call: Call, tensor: int, shape: Sequence[Dim], amounts: Any) -> None:
    """Write a Pad of a constant, which is 0 where none is given; of more dimensions than kernels take those that stay
    as they are are one.
    """
    groups: list[list[int]] = []
    for axis in range(len(shape)):
        alone = amounts[axis].any() or not groups or amounts[groups[-1][0]].any() or len(shape) <= MOST_CUT
        groups.append([axis]) if alone else groups[-1].append(axis)
    if len(groups) > MOST_CUT:
        raise ExpressionError(f"it pads a tensor of more than {MOST_CUT} dimensions", "merge some")
    made = call.output
    flat = call.reshape(tensor, [product(shape[axis] for axis in group) for group in groups])
    result = [product(made.shape[axis] for axis in group) for group in groups]
    pads = call.constant(amounts[[group[0] for group in groups]])
    filled = _filling(call)
    operator, rest = ("PAD", [pads]) if filled is None else ("PADV2", [pads, filled])
    if len(groups) == len(shape):
        call.write(operator, [flat, *rest])
    else:
        call.reshape(call.move(operator, flat, rest, result), made.shape, call.target())


def _filling(call: Call) -> int | None:
    """What a Pad fills with; None for what PAD does: a zero, or what stands for it."""
    value = call.data(2)
    if call.has(2) and value is None:
        return call.tensor(2)
    quant, dtype = call.output.quant, call.output.dtype
    zero = 0 if quant is None else int(quant.zero_point[0])
    number = (0 if call.node.storage else zero) if value is None else value.reshape(-1)[0]
    if value is not None and quant is not None and not call.node.storage:
        given = call.value(2).quant
        real = (value if given is None else given.real(value)).astype(np.float32).reshape(-1)[0]
        limits = np.iinfo(dtype)
        number = int(np.clip(np.rint(real / quant.scale[0]) + zero, limits.min, limits.max))
    if number == zero:
        return None
    if quant is None:
        return call.constant(number, dtype)
    return call.number("fill", number, dtype, quant)


def _cropped(call: Call, tensor: int, shape: list[Dim], amounts: Any) -> tuple[int, list[Dim]]:
    if any(isinstance(dim, Size) and pair[1] for dim, pair in zip(shape, amounts, strict=True)):
        raise ExpressionError("it cuts off the end of a dynamic size", "fix it with --shape")
    sizes = [
        dim
        if not pair.any()
        else Size(1, (f"{call.result}/{axis}",))
        if isinstance(dim, Size)
        else dim + int(pair.sum())
        for axis, (dim, pair) in enumerate(zip(shape, amounts, strict=True))
    ]
    begin = call.constant([-int(pair[0]) for pair in amounts])
    return call.move("SLICE", tensor, [begin, call.counts(sizes)], sizes), sizes


def _repeat(call: Call, tensor: int, shape: Sequence[Dim], amounts: Any, mode: str) -> None:
    """Write a Pad with the outermost elements, or with those from the other side: they are gathered along each
    dimension.
    """
    places = dict[int, Array]()
    for axis, size in enumerate(shape):
        if not amounts[axis].any():
            continue
        if isinstance(size, Size):
            raise ExpressionError("it repeats the edge of a dynamic size", "fix it with --shape")
        wanted = np.arange(-amounts[axis, 0], size + amounts[axis, 1])
        places[axis] = np.clip(wanted, 0, size - 1) if mode == "edge" else wanted % size
    gather_along(call, tensor, shape, places)


def gather_along(call: Call, tensor: int, shape: Sequence[Dim], places: Mapping[int, Array]) -> None:
    """Write elements of a tensor, taken by their places along each of some axes, as the node's result."""
    if not places:
        call.reshape(tensor, call.output.shape, call.target())
    sizes = list(shape)
    for left, (axis, taken) in zip(reversed(range(len(places))), places.items(), strict=True):
        sizes[axis] = len(taken)
        if left:
            tensor = call.move("GATHER", tensor, [call.constant(taken)], sizes, axis=axis)
        else:
            call.write("GATHER", [tensor, call.constant(taken)], axis=axis)
