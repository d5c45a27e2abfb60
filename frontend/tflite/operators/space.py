"""Exchanges between space, depth and batch."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.padding import pad_computed, paddings, write_pad
from layoutsolve.frontend.tflite.operators.shared.common import (
    BYTES,
    as_int64,
    first_slot,
    from_channels_first,
    ranked,
    to_channels_first,
)
from layoutsolve.frontend.tflite.operators.slicing import cut
from layoutsolve.ir.graph import Dim, Shape, Value, product


def _quotient(call: Call, size: Dim, divisor: int) -> Dim:
    if not divisor or (isinstance(size, int) and size % divisor):
        raise ModelError(f"{call.origin} divides {size} elements into blocks of {divisor}")
    return call.arithmetic.quotient(size, divisor)


@lowers("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", signature="FZB -> =")
def depth_space(call: Call) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: the block is the outer part of the depth."""
    x, block = ranked(call, call.input(0), 4), int(call.option("block_size"))
    batch, height, width, depth = x.shape
    if block < 1:
        raise ModelError(f"{call.origin} has the block size {block}")
    if real_dtype(x) not in ("float32", *BYTES):
        _by_views(call, x, block)
        return
    slot = first_slot(call)
    storage = moves([x], slot.dtype, slot.quant, BYTES)
    first = to_channels_first(call, x)
    if call.operator.name == "DEPTH_TO_SPACE":
        shape: Shape = (batch, _quotient(call, depth, block * block), product((height, block)), product((width, block)))
        result = call.write("DepthToSpace", [first], shape, slot, storage=storage, blocksize=block, mode="DCR")
    else:
        spatial = (_quotient(call, height, block), _quotient(call, width, block))
        shape = (batch, product((depth, block * block)), *spatial)
        result = call.write("SpaceToDepth", [first], shape, slot, storage=storage, blocksize=block)
    from_channels_first(call, result)


def _by_views(call: Call, x: Value, block: int) -> None:
    """The same written as views, for types that ONNX Runtime's operators do not take."""
    batch, height, width, depth = x.shape
    if call.operator.name == "DEPTH_TO_SPACE":
        rest = _quotient(call, depth, block * block)
        parts = call.reshaped(x, (batch, height, width, block, block, rest), "blocks")
        moved = call.transposed(parts, (0, 1, 3, 2, 4, 5), "moved")
        shape: Shape = (batch, product((height, block)), product((width, block)), rest)
    else:
        rows, columns = _quotient(call, height, block), _quotient(call, width, block)
        parts = call.reshaped(x, (batch, rows, block, columns, block, depth), "blocks")
        moved = call.transposed(parts, (0, 1, 3, 2, 4, 5), "moved")
        shape = (batch, rows, columns, product((depth, block * block)))
    call.reshape(moved, shape, call.slot())


def _blocks(call: Call) -> tuple[int, ...]:
    x, blocks = call.input(0), call.integers(1, "block shape")
    if min(blocks, default=1) < 1 or len(blocks) + 1 > len(x.shape):
        raise ModelError(f"{call.origin} has the block shape {list(blocks)}")
    return blocks


@lowers("SPACE_TO_BATCH_ND", signature="FZB I I -> =")
def space_to_batch(call: Call) -> None:
    """SPACE_TO_BATCH_ND: pad, split each axis into blocks, and move the blocks into the batch."""
    x, blocks, slot = call.input(0), _blocks(call), call.slot()
    count, between = len(blocks), call.temporary("padded", slot.dtype, slot.quant)
    batch, rest = x.shape[0], x.shape[1 + count :]
    if call.content(call.input(2)) is None:
        grown = tuple(call.fresh("padded") for _ in range(count))
        x = pad_computed(call, x, _all_rows(call, x, count), (batch, *grown, *rest), between)
    else:
        pads = paddings(call, count, 2)
        if any(map(any, pads)):
            x = write_pad(call, x, [(0, 0), *pads, *[(0, 0)] * len(rest)], between)
    outer = [_quotient(call, size, block) for size, block in zip(x.shape[1 : 1 + count], blocks, strict=True)]
    split: list[Dim] = [batch]
    for size, block in zip(outer, blocks, strict=True):
        split += [size, block]
    parts = call.reshaped(x, (*split, *rest), "blocks")
    inner = range(2, 2 * count + 1, 2)
    perm = (*inner, 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(parts.shape)))
    moved = call.transposed(parts, perm, "moved")
    call.reshape(moved, (product((batch, *blocks)), *outer, *rest), slot)


def _rows(call: Call, count: int) -> Value:
    """Padding or crops that are known at run time only."""
    rows = call.input(2)
    if rows.shape != (count, 2):
        raise ModelError(f"{call.origin} has '{rows.name}' of shape {list(map(str, rows.shape))} for {count} axes")
    return as_int64(call, rows, "rows")


def _all_rows(call: Call, x: Value, count: int) -> Value:
    """Padding that is known at run time only, with none for the first axis and those behind."""
    after = len(x.shape) - 1 - count
    around = [call.constant(np.zeros((size, 2)), "none", "int64") for size in (1, after)]
    rows = [around[0], _rows(call, count), around[1]][: 3 if after else 2]
    return join(call, rows, 0, call.temporary("rows", "int64"))


@lowers("BATCH_TO_SPACE_ND", signature="FZB I I -> =")
def batch_to_space(call: Call) -> None:
    """BATCH_TO_SPACE_ND: move blocks from the batch back to their axes, and crop."""
    x, blocks, slot = call.input(0), _blocks(call), call.slot()
    count = len(blocks)
    computed = call.content(call.input(2)) is None
    crops = [] if computed else paddings(call, count, 2)
    batch, spatial, rest = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    images = _quotient(call, batch, prod(blocks))
    parts = call.reshaped(x, (*blocks, images, *spatial, *rest), "blocks")
    perm = [count]
    for axis in range(count):
        perm += [count + 1 + axis, axis]
    moved = call.transposed(parts, (*perm, *range(2 * count + 1, len(parts.shape))), "moved")
    shape = (images, *(product(pair) for pair in zip(spatial, blocks, strict=True)), *rest)
    if not computed and not any(map(any, crops)):
        call.reshape(moved, shape, slot)
        return
    whole = call.reshape(moved, shape, call.like("whole", x))
    if computed:
        _cropped(call, whole, count, slot)
    else:
        cut(call, whole, {axis + 1: pair for axis, pair in enumerate(crops)}, slot)


def _cropped(call: Call, whole: Value, count: int, slot: Slot) -> None:
    """Write a crop known at run time only."""
    rows = _rows(call, count)
    columns = [call.write("Gather", [rows, call.constant(side, "side", "int64")], (count,),
                          call.temporary("crops", "int64"), axis=1) for side in (0, 1)]  # fmt: skip
    axes = call.vector(range(1, count + 1), "axes")
    inner = call.sizes(whole.shape[1 : 1 + count], "sizes")
    ends = call.write("Sub", [inner, columns[1]], (count,), call.temporary("ends", "int64"))
    left = tuple(call.unknown(axis + 1) for axis in range(count))
    shape = (whole.shape[0], *left, *whole.shape[1 + count :])
    call.write("Slice", [whole, columns[0], ends, axes], shape, slot, storage=moves([whole], slot.dtype, slot.quant))
