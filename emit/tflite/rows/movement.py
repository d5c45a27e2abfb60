"""Operators that move elements and compute nothing."""

from __future__ import annotations

import numpy as np

from layoutsolve.emit.tflite import kernels
from layoutsolve.emit.tflite.call import Call
from layoutsolve.emit.tflite.errors import ExpressionError
from layoutsolve.emit.tflite.rows.registry import row
from layoutsolve.emit.tflite.rows.slicing import MOST_CUT, runs_of
from layoutsolve.emit.tflite.rows.stored import alike, moves, same_bytes
from layoutsolve.frontend.onnx.constants import of
from layoutsolve.ir.graph import KEPT, Dim, Size, Value, product
from layoutsolve.proto.messages import AttributeProto

_TRANSPOSED = 6
"""The most dimensions that TRANSPOSE takes."""


@row("Reshape", quantized=same_bytes)
def reshape(call: Call) -> None:
    """Reshape, behind a QUANTIZE where bytes get another meaning."""
    if call.alias():
        return
    value, made = call.value(0), call.output
    if value.in_bytes and not call.node.storage and not moves(call):
        again = call.temporary(value.shape, made.dtype, made.quant)
        call.write("QUANTIZE", [call.tensor(0)], [again])
        call.reshape(again, made.shape, call.target())
        return
    call.reshape(call.tensor(0), call.output.shape, call.target())


@row(f"{KEPT}Reshape")
def reshape_to_computed(call: Call) -> None:
    """Reshape to sizes that are computed, of which 0 stands for that of the operand."""
    (count,), rank = call.sizes(call.value(1)), len(call.value(0).shape)
    sizes = call.tensor(1)
    if not call.attribute("allowzero", 0):
        own = call.draft.sizes_of(call.tensor(0), "int64")
        first = call.step("SLICE", [own, call.constant([0]), call.constant([min(count, rank)])], [min(count, rank)])
        same = first
        if count > rank:
            ones = call.constant(np.ones(count - rank), "int64")
            same = call.step("CONCATENATION", [first, ones], [count], axis=0)
        zero = call.temporary([count], "bool")
        call.write("EQUAL", [sizes, call.constant(0, "int64")], [zero])
        given, sizes = sizes, call.temporary([count], "int64")
        call.write("SELECT_V2", [zero, same, given], [sizes])
    call.write("RESHAPE", [call.tensor(0), call.as_int32(sizes, call.value(1))])


@row("Identity")
def identity(call: Call) -> None:
    """Identity: a copy, or quantization where the two are stored otherwise."""
    before, after = call.value(0), call.output
    if call.alias():
        return
    if call.node.storage or (before.quant is None and after.quant is None):
        call.reshape(call.tensor(0), after.shape, call.target())
    elif after.quant is not None:
        call.write("QUANTIZE", [call.tensor(0)])
    else:
        call.write("DEQUANTIZE", [call.tensor(0)])


@row("Transpose", quantized=moves)
def transpose(call: Call) -> None:
    """Transpose; of more dimensions than its kernel takes those that stay together are one."""
    value, made = call.value(0), call.output
    perm = list(call.attribute("perm", range(len(value.shape))[::-1]))
    if len(perm) <= _TRANSPOSED:
        call.write("TRANSPOSE", [call.tensor(0), call.constant(perm)])
        return
    runs: list[list[int]] = []
    for axis in (axis for axis in perm if value.shape[axis] != 1):
        last = runs[-1][-1] if runs else None
        if last is not None and axis > last and all(value.shape[each] == 1 for each in range(last + 1, axis)):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    stored = sorted(runs)
    sizes = [product(value.shape[axis] for axis in run) for run in stored]
    order = [stored.index(run) for run in runs]
    tensor = call.tensor(0)
    while len(order) > _TRANSPOSED:
        tensor, sizes, order = _joined(call, tensor, sizes, order)
    turned = call.move(
        "TRANSPOSE", call.reshape(tensor, sizes), [call.constant(order)], [sizes[each] for each in order]
    )
    call.reshape(turned, made.shape, call.target())


def _joined(call: Call, tensor: int, sizes: list[Dim], order: list[int]) -> tuple[int, list[Dim], list[int]]:
    """A tensor in which the first two dimensions of an order are neighbours, and so one: its sizes, and the order of
    those that are left.
    """
    first, second = order[:2]
    rest = [each for each in range(len(sizes)) if each != second]
    place = rest.index(first) + 1
    groups = runs_of([*rest[:place], second, *rest[place:]])
    parts = sorted(groups)
    flat = [product(sizes[each] for each in part) for part in parts]
    perm = [parts.index(group) for group in groups]
    tensor = call.move("TRANSPOSE", call.reshape(tensor, flat), [call.constant(perm)], [flat[each] for each in perm])
    after = [product((sizes[first], sizes[second])) if each == first else sizes[each] for each in rest]
    return tensor, after, [rest.index(each) for each in order if each != second]


@row("Concat", quantized=alike)
def concat(call: Call) -> None:
    """Concat."""
    axis = call.attribute("axis") % len(call.output.shape)
    inputs = [call.tensor(number) for number in range(len(call.node.inputs))]
    call.write("CONCATENATION", inputs, axis=axis)


_SPLIT = ("float32", "int8", "uint8")
"""The types of which XNNPACK takes equal parts, by SPLIT alone; that of LiteRT takes fewer types than SPLIT_V."""


@row("Split", quantized=moves)
def split(call: Call) -> None:
    """Split."""
    axis = call.axis()
    parts = _parts(call, axis)
    shapes = [[part if place == axis else size for place, size in enumerate(call.value(0).shape)] for part in parts]
    outputs = [
        call.target(number) if name else call.temporary(shape, call.value(0).dtype, call.value(0).quant)
        for number, (name, shape) in enumerate(zip(call.node.outputs, shapes, strict=True))
    ]  # of parts that nothing reads too
    if len({*parts}) == 1 and call.value(0).dtype in _SPLIT:
        call.write("SPLIT", [call.constant(axis), call.tensor(0)], outputs, num_splits=len(parts))
        return
    if call.value(0).dtype not in kernels.TYPES["SPLIT_V"]:
        starts = np.cumsum([0, *parts[:-1]]).tolist()
        for start, shape, output in zip(starts, shapes, outputs, strict=True):
            begin = call.constant([start if place == axis else 0 for place in range(len(shape))])
            call.write("SLICE", [call.tensor(0), begin, call.counts(shape)], [output])
        return
    inputs = [call.tensor(0), call.constant(parts), call.constant(axis)]
    call.write("SPLIT_V", inputs, outputs, num_splits=len(parts))


def _parts(call: Call, axis: int) -> list[int]:
    """The sizes of the parts that a Split gives: as stated, or equal ones, of which the last may be smaller."""
    if call.has(1):
        return [int(each) for each in call.known(1, "sizes").reshape(-1)]
    whole, count = call.value(0).shape[axis], len(call.node.outputs)
    if isinstance(whole, Size):
        raise ExpressionError("the sizes of its parts are open", "fix them with --shape")
    part = -(-whole // count)
    return [*([part] * (count - 1)), whole - part * (count - 1)]


def _repeating(value: Value, made: Value) -> tuple[int, ...] | None:
    """The shape of ones by which floats are repeated in a product; None where that has no kernel, or sizes are open."""
    shape = (*(1 for _ in range(len(made.shape) - len(value.shape))), *value.shape)
    factors = [1 if one == other else other for one, other in zip(shape, made.shape, strict=True)]
    known = [size for size in factors if isinstance(size, int)]
    plain = value.in_floats and value.data is None and len(made.shape) <= MOST_CUT and len(known) == len(factors)
    return tuple(known) if plain else None


@row("Expand", quantized=moves)
def expand(call: Call) -> None:
    """Expand: a product with ones, which XNNPACK has a kernel for, or BROADCAST_TO."""
    value, made = call.value(0), call.output
    if value.shape == made.shape:
        call.reshape(call.tensor(0), made.shape, call.target())
        return
    ones = _repeating(value, made) if call.graph.imports else None
    if ones is not None:
        call.write("MUL", [call.tensor(0), call.constant(np.ones(ones), "float32")])
        return
    try:
        sizes = call.extents(made.shape)
    except ExpressionError:  # no operand has these sizes
        sizes = call.temporary([len(made.shape)], "int64")
        call.write("BROADCAST_ARGS", [call.draft.sizes_of(call.tensor(0), "int64"), call.tensor(1)], [sizes])
    call.write("BROADCAST_TO", [call.tensor(0), sizes])


@row("Shape", quantized=lambda call: True)
def shape(call: Call) -> None:
    """Shape: SHAPE, of which SLICE takes what is asked for."""
    rank = len(call.value(0).shape)
    part = range(rank)[slice(call.attribute("start", 0), call.attribute("end", rank))]
    whole = call.draft.sizes_of(call.tensor(0), "int64")
    call.write("SLICE", [whole, call.constant([part.start]), call.constant([len(part)])])


@row("ConstantOfShape")
def filled(call: Call) -> None:
    """ConstantOfShape: FILL, also by sizes that are not known before a run."""
    given = call.node.attributes.get("value")
    number = of(given.t).data if isinstance(given, AttributeProto) else given
    data = np.zeros(()) if number is None else np.asarray(number).reshape(())
    call.write("FILL", [call.tensor(0), call.constant(data, call.output.dtype)])


@row("Range")
def numbers(call: Call) -> None:
    """Range: RANGE, also of a number of elements that is not known before a run."""
    call.write("RANGE", [call.tensor(place) for place in range(3)])


@row("Tile", quantized=moves)
def tile(call: Call) -> None:
    """Tile."""
    call.write("TILE", [call.tensor(0), call.constant(call.known(1, "repeats").reshape(-1))])


def _moves_blocks(call: Call) -> bool:
    """Whether stored integers keep their meaning, of a type that kernels move in blocks."""
    return moves(call) and call.output.dtype != "int16"


@row("DepthToSpace", quantized=_moves_blocks)
def depth_to_space(call: Call) -> None:
    """DepthToSpace on channels-last images; in the order CRD the channels are arranged before."""
    value, size = call.value(0), call.attribute("blocksize")
    tensor = _channels_last(call)
    if call.attribute("mode", "DCR") != "DCR":
        channels = value.shape[3]
        if isinstance(channels, Size):
            raise ExpressionError("the number of its channels is dynamic", "fix it with --shape")
        order = np.arange(channels).reshape(-1, size, size).transpose(1, 2, 0).reshape(-1)
        tensor = call.move("GATHER", tensor, [call.constant(order)], value.shape, axis=3)
    call.write("DEPTH_TO_SPACE", [tensor], block_size=size)


@row("SpaceToDepth", quantized=_moves_blocks)
def space_to_depth(call: Call) -> None:
    """SpaceToDepth on channels-last images; in the order CRD the channels are arranged behind."""
    size, operands = call.attribute("blocksize"), [_channels_last(call)]
    if call.attribute("mode", "DCR") == "DCR":
        call.write("SPACE_TO_DEPTH", operands, block_size=size)
        return
    made = call.output.shape
    if isinstance(made[3], Size):
        raise ExpressionError("the number of its channels is dynamic", "fix it with --shape")
    order = np.arange(made[3]).reshape(size, size, -1).transpose(2, 0, 1).reshape(-1)
    deep = call.move("SPACE_TO_DEPTH", operands[0], [], made, block_size=size)
    call.write("GATHER", [deep, call.constant(order)], axis=3)


def _channels_last(call: Call) -> int:
    if call.order(0) != (0, 3, 1, 2):
        raise ExpressionError(
            "no operator has it on images in this order of dimensions", "report it: the plan is wrong"
        )
    return call.tensor(0)
