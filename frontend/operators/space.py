"""Exchanges between space, depth and batch."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.errors import ModelError
from layoutsolve.frontend.builder import Call, Slot, lowers, real_dtype
from layoutsolve.frontend.operators.arrangement import join
from layoutsolve.frontend.operators.common import (
    BYTES,
    as_int64,
    first_slot,
    from_channels_first,
    ranked,
    to_channels_first,
)
from layoutsolve.frontend.operators.padding import pad_computed, paddings, write_pad
from layoutsolve.frontend.operators.slicing import take
from layoutsolve.frontend.quantisation import moves
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.graph import Dim, Shape, Size, Value, product, quotient


def _quotient(call: Call, size: Dim, divisor: int) -> Dim:
    result = quotient(size, divisor) if divisor else None
    if result is None and isinstance(size, int):
        raise ModelError(f"{call.origin} divides {size} elements into blocks of {divisor}")
    return call.derive(("quotient", str(size), divisor)) if result is None else result


@lowers("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
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


@lowers("SPACE_TO_BATCH_ND")
def space_to_batch(call: Call) -> None:
    """SPACE_TO_BATCH_ND: pad, split each axis into blocks, and move the blocks into the batch."""
    x, blocks, slot = call.input(0), _blocks(call), call.slot()
    count = len(blocks)
    if call.content(call.input(2)) is None:
        _space_to_batch_computed(call, x, blocks)
        return
    pads = paddings(call, count, 2)
    if any(map(any, pads)):
        between = call.temporary("padded", slot.dtype, slot.quant)
        x = write_pad(call, x, [(0, 0), *pads, *[(0, 0)] * (len(x.shape) - 1 - count)], between)
    batch, spatial, rest = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    outer = [_quotient(call, size, block) for size, block in zip(spatial, blocks, strict=True)]
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


def _unrelated(call: Call, key: str, dims: Shape) -> Shape:
    """A shape whose dynamic sizes nothing is known of, where a view with several of them could not be written anew."""
    if sum(isinstance(dim, Size) for dim in dims) < 2:
        return dims
    return tuple(call.derive((key, axis)) if isinstance(dim, Size) else dim for axis, dim in enumerate(dims))


def _regrouped(call: Call, x: Value, factors: Value, blocks: tuple[int, ...], order: list[int], shape: Shape) -> Value:
    """``x`` reshaped to its sizes divided by ``factors``, followed by the blocks, in an order."""
    rank = len(x.shape)
    whole = call.write("Shape", [x], (rank,), call.temporary("sizes", "int64"), real="int64")
    outer = call.write("Div", [whole, factors], (rank,), call.temporary("outer", "int64"))
    every = join(call, [outer, call.vector(blocks, "blocks")], 0, call.temporary("every", "int64"))
    picked = [every, call.vector(order, "order")]
    vector = call.write("Gather", picked, (len(order),), call.temporary("shape", "int64"), axis=0)
    slot = call.like("regrouped", x)
    return call.write("Reshape", [x, vector], shape, slot, storage=x.quant is not None)


def _merged(call: Call, x: Value, axes: list[tuple[int, ...]], shape: Shape, slot: Slot) -> Value:
    """``x`` with neighbouring axes merged, by sizes that are computed at run time."""
    rank = len(x.shape)
    whole = call.write("Shape", [x], (rank,), call.temporary("parts", "int64"), real="int64")
    sizes = []
    for group in axes:
        picked = [whole, call.vector(group, "group")]
        few = call.write("Gather", picked, (len(group),), call.temporary("few", "int64"), axis=0)
        reduced = [few, call.vector([0], "axes")]
        sizes.append(call.write("ReduceProd", reduced, (1,), call.temporary("size", "int64"), keepdims=1))
    vector = join(call, sizes, 0, call.temporary("shape", "int64"))
    return call.write("Reshape", [x, vector], shape, slot, storage=x.quant is not None)


def _space_to_batch_computed(call: Call, x: Value, blocks: tuple[int, ...]) -> None:
    """SPACE_TO_BATCH_ND whose padding is known at run time only."""
    slot, rank, count = call.slot(), len(x.shape), len(blocks)
    around = [call.constant(np.zeros((size, 2)), "none", "int64") for size in (1, rank - 1 - count)]
    rows = join(call, [around[0], _rows(call, count), around[1]][: 3 if rank > 1 + count else 2], 0,
                call.temporary("rows", "int64"))  # fmt: skip
    batch, rest = x.shape[0], x.shape[1 + count :]
    grown = tuple(call.derive(("padded", axis)) for axis in range(count))
    outer = tuple(call.derive(("outer", axis)) for axis in range(count))
    padded = pad_computed(call, x, rows, (batch, *grown, *rest), call.temporary("padded", slot.dtype, slot.quant))
    factors = call.vector([1, *blocks, *[1] * len(rest)], "factors")
    order = [0, *(index for axis in range(count) for index in (1 + axis, rank + axis)), *range(1 + count, rank)]
    split = (dim for pair in zip(outer, blocks, strict=True) for dim in pair)
    parts = _regrouped(call, padded, factors, blocks, order, (batch, *split, *rest))
    inner = tuple(range(2, 2 * count + 1, 2))
    perm = (*inner, 0, *range(1, 2 * count, 2), *range(2 * count + 1, rank + count))
    moved = call.transposed(parts, perm, "moved")
    groups = [tuple(range(count + 1)), *((axis,) for axis in range(count + 1, rank + count))]
    reduced = tuple(call.unknown(axis + 1) for axis in range(count))
    _merged(call, moved, groups, (product((batch, *blocks)), *reduced, *rest), slot)


def _batch_to_space_computed(call: Call, x: Value, blocks: tuple[int, ...]) -> None:
    """BATCH_TO_SPACE_ND whose crops are known at run time only."""
    slot, rank, count = call.slot(), len(x.shape), len(blocks)
    spatial, rest = x.shape[1 : 1 + count], x.shape[1 + count :]
    images = _quotient(call, x.shape[0], prod(blocks))
    factors = call.vector([prod(blocks), *[1] * (rank - 1)], "factors")
    order = [*range(rank, rank + count), *range(rank)]
    split = _unrelated(call, "split", (*blocks, images, *spatial, *rest))
    parts = _regrouped(call, x, factors, blocks, order, split)
    pairs = [(count + 1 + axis, axis) for axis in range(count)]
    perm = (count, *(axis for pair in pairs for axis in pair), *range(2 * count + 1, rank + count))
    moved = call.transposed(parts, perm, "moved")
    grown = tuple(product(pair) for pair in zip(spatial, blocks, strict=True))
    groups = [(0,), *((2 * axis + 1, 2 * axis + 2) for axis in range(count)),
              *((axis,) for axis in range(2 * count + 1, rank + count))]  # fmt: skip
    shape = _unrelated(call, "whole", (images, *grown, *rest))
    whole = _merged(call, moved, groups, shape, call.like("whole", x))
    rows = _rows(call, count)
    columns = [call.write("Gather", [rows, call.constant(side, "side", "int64")], (count,),
                          call.temporary("crops", "int64"), axis=1) for side in (0, 1)]  # fmt: skip
    axes = call.vector(range(1, count + 1), "axes")
    sizes = call.write("Shape", [whole], (rank,), call.temporary("sizes", "int64"), real="int64")
    ends = call.write("Gather", [sizes, axes], (count,), call.temporary("ends", "int64"), axis=0)
    ends = call.write("Sub", [ends, columns[1]], (count,), call.temporary("ends", "int64"))
    cropped = tuple(call.unknown(axis + 1) for axis in range(count))
    storage = moves([whole], slot.dtype, slot.quant)
    call.write(
        "Slice", [whole, columns[0], ends, axes], (shape[0], *cropped, *shape[1 + count :]), slot, storage=storage
    )


@lowers("BATCH_TO_SPACE_ND")
def batch_to_space(call: Call) -> None:
    """BATCH_TO_SPACE_ND: move blocks from the batch back to their axes, and crop."""
    x, blocks, slot = call.input(0), _blocks(call), call.slot()
    count = len(blocks)
    if call.content(call.input(2)) is None:
        _batch_to_space_computed(call, x, blocks)
        return
    crops = paddings(call, count, 2)
    batch, spatial, rest = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    images = _quotient(call, batch, product(blocks) if blocks else 1)  # type: ignore[arg-type]
    parts = call.reshaped(x, (*blocks, images, *spatial, *rest), "blocks")
    perm = [count]
    for axis in range(count):
        perm += [count + 1 + axis, axis]
    moved = call.transposed(parts, (*perm, *range(2 * count + 1, len(parts.shape))), "moved")
    whole = (images, *(product(pair) for pair in zip(spatial, blocks, strict=True)), *rest)
    spans = {axis + 1: Span(a, LAST if not b else -b) for axis, (a, b) in enumerate(crops) if a or b}
    if not spans:
        call.reshape(moved, whole, slot)
        return
    take(call, call.reshape(moved, whole, call.like("whole", x)), spans, slot)
