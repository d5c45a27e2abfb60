"""Exchanges between space, depth and batch."""

from __future__ import annotations

from layoutsolve.errors import ModelError
from layoutsolve.frontend.builder import Call, lowers, real_dtype
from layoutsolve.frontend.operators.common import BYTES, first_slot, from_channels_first, ranked, to_channels_first
from layoutsolve.frontend.operators.padding import paddings, write_pad
from layoutsolve.frontend.operators.slicing import take
from layoutsolve.frontend.quantisation import moves
from layoutsolve.frontend.shapes import LAST, Span
from layoutsolve.graph import Dim, Shape, Value, product, quotient


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


@lowers("BATCH_TO_SPACE_ND")
def batch_to_space(call: Call) -> None:
    """BATCH_TO_SPACE_ND: move blocks from the batch back to their axes, and crop."""
    x, blocks, slot = call.input(0), _blocks(call), call.slot()
    count = len(blocks)
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
