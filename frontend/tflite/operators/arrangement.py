"""Operators that rearrange elements: views, concatenation and splitting."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import ModelError
from layoutsolve.frontend.shapes import axis_of, reshaped
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import moves
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.lowering.writer import Slot, real_dtype
from layoutsolve.frontend.tflite.operators.shared.common import activation, as_int64, copy, open_bounds, write_clamped
from layoutsolve.ir.graph import Dim, Shape, Size, Value, product


@lowers("RESHAPE", signature="FZBSC I? -> =")
def reshape(call: Call) -> None:
    """RESHAPE to the shape in its second input, else to the one in its options."""
    x, tail, slot = call.viewed()
    before, requested = x.shape[: len(x.shape) - len(tail)], call.optional(1)
    if requested is None:
        sizes: tuple[Dim, ...] = tuple(call.option("new_shape", ()))
    elif call.content(requested) is not None:
        sizes = call.dims(1, "shape")
        if sizes == (0,) and before and product(before) == 1:
            sizes = ()
        _check_opened(call, before, sizes)
    else:
        _reshape_computed(call, call.input(0), requested)
        return
    call.reshape(x, (*reshaped(before, sizes, call.arithmetic), *tail), slot)


def _check_opened(call: Call, before: Shape, sizes: Sequence[Dim]) -> None:
    """Raise :class:`GapError` for a constant shape that holds for one size only of an input whose size was opened."""
    total, rest = product(before), product(sizes)
    if not isinstance(total, Size) or isinstance(rest, Size) or -1 in sizes:
        return
    if call.draft.opened.intersection(total.symbols):
        raise GapError(
            f"its constant shape {list(sizes)} fits one size only of an input whose size is to be open",
            "give that size as a number (--shape), or reshape to -1 in the source model",
        )


def _reshape_computed(call: Call, x: Value, requested: Value) -> None:
    rank = requested.shape[0] if len(requested.shape) == 1 else None
    if not isinstance(rank, int):
        raise GapError(
            "its shape is computed at run time, with an unknown number of entries", "make the shape constant"
        )
    slot = call.slot()
    shape = tuple(call.unknown(axis) for axis in range(rank))
    storage = x.quant is not None or slot.quant is not None
    call.write("Reshape", [x, as_int64(call, requested)], shape, slot, storage=storage)


@lowers("SQUEEZE", signature="FZBSC -> =")
def squeeze(call: Call) -> None:
    """SQUEEZE of the axes given, or of all of size one."""
    x, tail, slot = call.viewed()
    before = x.shape[: len(x.shape) - len(tail)]
    axes = {axis_of(axis, len(before)) for axis in call.option("squeeze_dims", ())}
    if any(isinstance(before[axis], int) and before[axis] != 1 for axis in axes):
        raise ModelError(f"{call.origin} squeezes an axis of {list(map(str, before))} that is not of size 1")
    gone = axes or {axis for axis, dim in enumerate(before) if dim == 1}
    unsure = not axes and any(isinstance(dim, Size) for dim in before)
    if unsure and slot.tensor is not None and len(slot.tensor.shape) != len(before) - len(gone):
        raise GapError("which of its axes go depends on a dynamic size", "name the axes, or fix the shape (--shape)")
    call.reshape(x, (*(dim for axis, dim in enumerate(before) if axis not in gone), *tail), slot)


@lowers("EXPAND_DIMS", signature="FZBSC I -> =")
def expand_dims(call: Call) -> None:
    """EXPAND_DIMS."""
    x, tail, slot = call.viewed()
    axis = axis_of(call.integers(1, "axis")[0], len(x.shape) - len(tail) + 1)
    call.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]), slot)


@lowers("TRANSPOSE", signature="FZBSC W -> =")
def transpose(call: Call) -> None:
    """TRANSPOSE."""
    x, tail, slot = call.viewed()
    rank = len(x.shape) - len(tail)
    perm = tuple(axis_of(axis, rank) for axis in call.integers(1, "permutation"))
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"{call.origin} has the permutation {list(perm)} for rank {rank}")
    call.transpose(x, (*perm, *range(rank, len(x.shape))), slot)


def join(call: Call, parts: Sequence[Value], axis: int, slot: Slot) -> Value:
    """Write a concatenation."""
    first = parts[0].shape
    for part in parts[1:]:
        others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (first, part.shape)]
        if real_dtype(part) != real_dtype(parts[0]):
            raise ModelError(f"{call.origin} joins {real_dtype(parts[0])} and {real_dtype(part)}")
        if len(part.shape) != len(first) or not call.agree(*others):
            raise ModelError(
                f"{call.origin} joins shapes that do not fit: {list(map(str, first))}, {list(map(str, part.shape))}"
            )
    shape = (*first[:axis], total(call, [part.shape[axis] for part in parts]), *first[axis + 1 :])
    storage = moves(parts, slot.dtype, slot.quant)
    return call.write("Concat", parts, shape, slot, storage=storage, axis=axis)


def total(call: Call, dims: Sequence[Dim]) -> Dim:
    """The sum of sizes."""
    return call.arithmetic.total(dims)


@lowers("CONCATENATION", signature="FZBS FZBS* -> =", per_tensor=True)
def concatenation(call: Call) -> None:
    """CONCATENATION; inputs may be quantized otherwise than the output."""
    parts = call.inputs()
    if not parts:
        raise ModelError(f"{call.origin} has no inputs")
    axis = axis_of(call.option("axis"), len(parts[0].shape))
    slot = call.slot()
    bounds = open_bounds(activation(call), slot)
    if bounds == (float("-inf"), float("inf")):
        join(call, parts, axis, slot)
    else:
        write_clamped(call, join(call, parts, axis, call.temporary("linear", slot.real)), bounds, slot)


@lowers("PACK", signature="FZBS =* -> =")
def pack(call: Call) -> None:
    """PACK: every input gets a new axis along which they are joined."""
    parts = call.inputs()
    if not parts:
        raise ModelError(f"{call.origin} has no inputs")
    axis = axis_of(call.option("axis"), len(parts[0].shape) + 1)
    shapes = [(*part.shape[:axis], 1, *part.shape[axis:]) for part in parts]
    if len(parts) == 1:
        call.reshape(parts[0], shapes[0], call.slot())
        return
    expanded = [call.reshaped(part, shape, "part") for part, shape in zip(parts, shapes, strict=True)]
    join(call, expanded, axis, call.slot())


def _split(call: Call, x: Value, axis: int, sizes: Sequence[Dim], slots: Sequence[tuple[Shape, Slot]]) -> list[Value]:
    storage = all(moves([x], slot.dtype, slot.quant) for _, slot in slots)
    vector = call.sizes(sizes, "split")
    return call.write_many("Split", [x, vector], slots, storage=storage, axis=axis)


def _parts(x: Value, axis: int, sizes: Sequence[Dim]) -> list[Shape]:
    return [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]


@lowers("UNPACK", signature="FZBS -> = =*")
def unpack(call: Call) -> None:
    """UNPACK: split into slices of one element, each without the axis."""
    x, count = call.input(0), len(call.operator.outputs)
    axis = axis_of(call.option("axis"), len(x.shape))
    if isinstance(x.shape[axis], int) and x.shape[axis] != count:
        raise ModelError(f"{call.origin} unpacks {x.shape[axis]} elements into {count} outputs")
    parts = [x]
    if count > 1:
        shapes = _parts(x, axis, [1] * count)
        parts = _split(call, x, axis, [1] * count, [(shape, call.like("part", x)) for shape in shapes])
    for position, part in enumerate(parts):
        call.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :]), call.slot(position))


@lowers("SPLIT", signature="I FZBS -> =1 =1*")
def split(call: Call) -> None:
    """SPLIT into equal parts."""
    x, count = call.input(1), len(call.operator.outputs)
    axis = axis_of(call.integers(0, "axis")[0], len(x.shape))
    size = x.shape[axis]
    if not count or (isinstance(size, int) and size % count):
        raise ModelError(f"{call.origin} splits {size} elements into {count} parts")
    _split_into(call, x, axis, [call.arithmetic.quotient(size, count)] * count)


@lowers("SPLIT_V", signature="FZBS I I -> = =*")
def split_v(call: Call) -> None:
    """SPLIT_V into parts of given sizes, one of which may be -1: the rest."""
    x, sizes = call.input(0), list(call.dims(1, "sizes"))
    axis = axis_of(call.integers(2, "axis")[0], len(x.shape))
    whole = x.shape[axis]
    if sizes.count(-1) == 1:
        others = total(call, [size for size in sizes if size != -1])
        sizes[sizes.index(-1)] = call.arithmetic.difference(whole, others, "rest")
    numbers = [size for size in sizes if not isinstance(size, Size)]
    unequal = len(numbers) == len(sizes) and not isinstance(whole, Size) and sum(numbers) != whole
    if len(sizes) != len(call.operator.outputs) or min(numbers, default=0) < 0 or unequal:
        raise ModelError(f"{call.origin} splits {whole} elements into {list(map(str, sizes))}")
    _split_into(call, x, axis, sizes)


def _split_into(call: Call, x: Value, axis: int, sizes: Sequence[Dim]) -> None:
    if len(sizes) == 1:
        copy(call, x)
        return
    slots = [(shape, call.slot(position)) for position, shape in enumerate(_parts(x, axis, sizes))]
    if any(slot.dtype != x.dtype for _, slot in slots):
        raise ModelError(f"{call.origin} reads {x.dtype}, but its outputs are declared otherwise")
    _split(call, x, axis, sizes, slots)
