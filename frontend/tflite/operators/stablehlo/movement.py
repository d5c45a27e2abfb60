"""StableHLO operators that move elements or give views of them: what TensorFlow Lite does under other names."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import Span, axis_of
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.arrangement import join
from layoutsolve.frontend.tflite.operators.padding import gaps, write_dilated, write_pad
from layoutsolve.frontend.tflite.operators.scattering import kept_inside, write_update
from layoutsolve.frontend.tflite.operators.shared.common import as_int64, as_stored, counted, static, store
from layoutsolve.frontend.tflite.operators.slicing import take
from layoutsolve.frontend.tflite.operators.stablehlo.elementwise import unquantized
from layoutsolve.ir.graph import Dim, Value, product


@lowers("STABLEHLO_RESHAPE", signature="FZB -> =")
def reshape(call: Call) -> None:
    """A reshape to what the output is declared as."""
    unquantized(call)
    call.reshape(call.input(0), declared(call), call.slot())


def declared(call: Call) -> tuple[int, ...]:
    """Shape that the file states for the output, where the operator itself does not determine it."""
    tensor = call.tensor()
    if -1 in tensor.signature or call.draft.dynamic:
        raise GapError("its shape is dynamic", "convert the model with static input shapes")
    return tensor.shape


@lowers("STABLEHLO_TRANSPOSE", signature="FZB -> =")
def transpose(call: Call) -> None:
    """A permutation of axes."""
    unquantized(call)
    x, perm = call.input(0), tuple(call.option("permutation", ()))
    if sorted(perm) != list(range(len(x.shape))):
        raise ModelError(f"{call.origin} has the permutation {list(perm)} for rank {len(x.shape)}")
    call.transpose(x, perm, call.slot())


@lowers("STABLEHLO_SLICE", signature="FZB -> =")
def slice_(call: Call) -> None:
    """A slice with steps."""
    unquantized(call)
    x = call.input(0)
    starts, ends, steps = (call.option(key, ()) for key in ("start_indices", "limit_indices", "strides"))
    steps = steps or (1,) * len(x.shape)
    sizes = static(call, x.shape, "shape")
    if not len(starts) == len(ends) == len(steps) == len(sizes) or min(steps, default=1) < 1:
        raise ModelError(f"{call.origin} slices {len(starts)} axes of {len(sizes)}")
    if any(not 0 <= start <= end <= size for start, end, size in zip(starts, ends, sizes, strict=True)):
        raise ModelError(f"{call.origin} slices from {list(starts)} to {list(ends)} of {list(sizes)}")
    spans = {axis: Span(*span) for axis, span in enumerate(zip(starts, ends, steps, strict=True))}
    take(call, x, spans, call.slot())


@lowers("STABLEHLO_CONCATENATE", signature="FZB =* -> =")
def concatenate(call: Call) -> None:
    """A concatenation."""
    unquantized(call)
    parts = call.inputs()
    if not parts:
        raise ModelError(f"{call.origin} has no inputs")
    join(call, parts, axis_of(call.option("dimension"), len(parts[0].shape)), call.slot())


@lowers("STABLEHLO_BROADCAST_IN_DIM", signature="FZB -> =")
def broadcast_in_dim(call: Call) -> None:
    """Axes put at given places, and everything broadcast to the shape of the output."""
    unquantized(call)
    x, places, shape = call.input(0), tuple(call.option("broadcast_dimensions", ())), declared(call)
    wrong = len(places) != len(x.shape) or len(set(places)) != len(places)
    if wrong or any(not 0 <= place < len(shape) for place in places):
        raise ModelError(f"{call.origin} puts {len(x.shape)} axes at {list(places)} of {len(shape)}")
    order = sorted(range(len(places)), key=lambda axis: places[axis])
    spread = tuple(x.shape[places.index(axis)] if axis in places else 1 for axis in range(len(shape)))
    if any(dim not in (1, size) for dim, size in zip(spread, shape, strict=True)):
        raise ModelError(f"{call.origin} broadcasts {list(map(str, x.shape))} to {list(shape)}")
    if order != list(range(len(places))):
        x = call.transposed(x, order, "sorted")
    if spread == shape:
        call.reshape(x, shape, call.slot())
        return
    grown = call.reshaped(x, spread, "spread")
    call.write("Expand", [grown, call.vector(shape, "shape")], shape, call.slot())


@lowers("STABLEHLO_IOTA", signature="-> FZ")
def iota(call: Call) -> None:
    """Numbers that count along one axis."""
    unquantized(call)
    shape, slot = declared(call), call.slot()
    axis = axis_of(call.option("iota_dimension"), len(shape))
    along = tuple(size if at == axis else 1 for at, size in enumerate(shape))
    line = call.reshaped(counted(call, shape[axis], slot.dtype, "line"), along, "along")
    call.write("Expand", [line, call.vector(shape, "shape")], shape, slot)


def _scalars(call: Call, first: int, rank: int) -> Value:
    """Scalar operands as one vector."""
    if call.arity != first + rank:
        raise ModelError(f"{call.origin} has {call.arity} inputs, it needs {first + rank}")
    scalars = [call.input(first + axis) for axis in range(rank)]
    known = [call.content(scalar) for scalar in scalars]
    numbers = [each.reshape(-1) for each in known if each is not None and each.dtype != object and each.size == 1]
    if len(numbers) == rank:
        return call.vector([int(each[0]) for each in numbers], "begin")
    parts = [call.reshaped(as_int64(call, scalar), (1,), "part") for scalar in scalars]
    return parts[0] if rank == 1 else join(call, parts, 0, call.temporary("begin", "int64"))


@lowers("STABLEHLO_DYNAMIC_SLICE", signature="FZB I* -> =")
def dynamic_slice(call: Call) -> None:
    """Slice of static size from computed indices, clamped into the tensor."""
    unquantized(call)
    x, counts = call.input(0), tuple(call.option("slice_sizes", ()))
    sizes = static(call, x.shape, "shape")
    if len(counts) != len(sizes) or any(not 0 <= count <= size for count, size in zip(counts, sizes, strict=True)):
        raise ModelError(f"{call.origin} takes {list(counts)} of {list(sizes)}")
    if not counts:
        store(call, x, call.slot())
        return
    axes = list(range(len(sizes)))
    room: list[Dim] = [size - count for size, count in zip(sizes, counts, strict=True)]
    starts = kept_inside(call, _scalars(call, 1, len(sizes)), axes, room)
    ends = call.write("Add", [starts, call.vector(counts, "counts")], (len(axes),), call.temporary("ends", "int64"))
    call.write("Slice", [x, starts, ends, call.vector(axes, "axes")], counts, call.slot())


@lowers("STABLEHLO_DYNAMIC_UPDATE_SLICE", signature="FZB = I* -> =")
def dynamic_update_slice(call: Call) -> None:
    """Replace a part of a tensor, from computed indices."""
    unquantized(call)
    x = call.input(0)
    if not x.shape:
        store(call, call.input(1), call.slot())
        return
    write_update(call, x, call.input(1), _scalars(call, 2, len(x.shape)), call.slot())


@lowers("STABLEHLO_PAD", signature="FZB = -> =")
def pad(call: Call) -> None:
    """Fillers between the elements and around them; a negative padding cuts off what there is by then."""
    x, filler, slot = as_stored(call, call.input(0)), as_stored(call, call.input(1)), call.slot()
    low, high, between = (
        tuple(call.option(key, ())) for key in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if not len(low) == len(high) == len(between) == len(x.shape) or min(between, default=0) < 0:
        raise ModelError(f"{call.origin} has paddings that do not fit rank {len(x.shape)}")
    if filler.dtype != x.dtype or slot.dtype != x.dtype or product(filler.shape) != 1:
        raise ModelError(f"{call.origin} pads {x.dtype} with '{filler.name}' of {filler.dtype}")
    store(call, padded(call, x, call.reshaped(filler, (), "filler"), (low, high, between)), slot)


def padded(call: Call, x: Value, filler: Value, pads: tuple[Sequence[int], Sequence[int], Sequence[int]]) -> Value:
    """Stored numbers, padded before, after and between; negative numbers cut off."""
    low, high, between = pads
    sizes = static(call, x.shape, "shape")
    factors = [gap + 1 for gap in between]
    if gaps(sizes, factors) and 0 not in sizes:
        x = write_dilated(call, x, filler, factors, call.temporary("dilated", x.dtype))
    grown = [(max(before, 0), max(after, 0)) for before, after in zip(low, high, strict=True)]
    if any(before or after for before, after in grown):
        x = write_pad(call, x, grown, call.temporary("grown", x.dtype), filler)
    whole, spans = static(call, x.shape, "shape"), {}
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            begin, end = max(-before, 0), whole[axis] - max(-after, 0)
            if begin > end:
                raise ModelError(f"{call.origin} cuts off more than there is")
            spans[axis] = Span(begin, end)
    return take(call, x, spans, call.temporary("cut", x.dtype)) if spans else x
