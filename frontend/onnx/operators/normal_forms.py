"""Operators that may be written in several ways, in the one that the rest of the project expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.einsum import written
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.frontend.onnx.operators.views import alias
from layoutsolve.frontend.shapes import axis_of, broadcast
from layoutsolve.ir.graph import Dim, Size, product

NEUTRAL: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "Add": (0.0, (0, 1)), "Sub": (0.0, (0,)), "Mul": (1.0, (0, 1)), "Div": (1.0, (0,)),
}  # fmt: skip
"""By operator the constant that changes nothing, and which operands it leaves as they are."""


@lowering("Split")
def split(call: Call) -> bool:
    """With its sizes as an input."""
    if not call.known(0):
        return False
    axis = call.attribute("axis", 0)
    sizes = call.dims(1)
    if sizes is None:
        if call.has(1):
            return False
        whole, count = call.value(0).shape[axis], call.attribute("num_outputs", len(call.outputs))
        if isinstance(whole, Size) or count != len(call.proto.output):
            return False
        part = -(-whole // count)
        sizes = (*([part] * (count - 1)), whole - part * (count - 1))
    if len(sizes) != len(call.proto.output) or not all(isinstance(size, int) and size >= 0 for size in sizes):
        return False
    shape, (names, storage) = list(call.value(0).shape), call.operands(call.stores)
    for name, size in zip(call.outputs, sizes, strict=False):
        if name:
            shape[axis] = size
            call.draft.declare(name, shape)
    if "" in call.outputs or len(call.outputs) < len(sizes):
        return False
    attributes = {"axis": axis + len(shape) if axis < 0 else axis}
    call.emit("Split", [names[0], call.draft.sizes(sizes, call.outputs[0])], call.outputs, attributes, storage)
    return True


@lowering("Slice")
def slice_(call: Call) -> bool:
    """With bounds of 64 bits, and sizes that follow from them."""
    if not call.known(0):
        return False
    shape = list(call.value(0).shape)
    names, storage = call.operands(call.stores)
    for number in range(1, len(call.inputs)):
        data = call.constant(number)
        if data is not None and data.dtype != np.int64:
            names[number] = call.draft.constant(data.astype(np.int64), f"{call.outputs[0]}/{number}").name
    call.draft.declare(call.outputs[0], _cut(call, shape) or _left(call, shape))
    call.emit("Slice", names, call.outputs, {}, storage)
    return True


@lowering("Pad")
def pad(call: Call) -> bool:
    """With the sizes of what is not padded, which inference forgets where axes are named; by nothing, another name."""
    inferred, pads = call.shapes()[0], call.constant(1)
    if pads is not None and not pads.any():
        return alias(call, call.outputs[0], call.inputs[0])
    if not (call.has(3) and call.known(0)) or inferred is None or pads is None:
        return False
    shape, axes = call.value(0).shape, call.dims(3)
    if axes is None or not all(isinstance(axis, int) for axis in axes) or pads.size != 2 * len(axes):
        return False
    sides = zip(axes, *pads.reshape(2, -1).tolist(), strict=True)
    padded = {axis_of(axis, len(shape)) for axis, *more in sides if isinstance(axis, int) and any(more)}
    names, storage = call.operands(call.stores)
    made = [dim if axis in padded else whole for axis, (dim, whole) in enumerate(zip(inferred, shape, strict=True))]
    call.draft.declare(call.outputs[0], made)
    call.emit("Pad", names, call.outputs, dict(call.attributes), storage)
    return True


def _left(call: Call, shape: Sequence[Dim | None]) -> Sequence[Dim | None] | None:
    """The inferred sizes behind a Slice, with those that it is known not to cut: inference forgets them all where
    bounds are computed.
    """
    inferred, axes = call.shapes()[0], _axes(call)
    if inferred is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return inferred
    cut = {axis % len(shape) for axis in axes if isinstance(axis, int)}
    return [dim if axis in cut else whole for axis, (dim, whole) in enumerate(zip(inferred, shape, strict=True))]


def _axes(call: Call) -> tuple[Dim, ...] | None:
    """The axes of a Slice, as many of the first as it has bounds where it names none; None where they are not known."""
    if call.has(3):
        return call.dims(3)
    starts = call.value(1).shape
    return tuple(range(starts[0])) if len(starts) == 1 and isinstance(starts[0], int) else None


def _cut(call: Call, shape: list[Dim]) -> list[Dim] | None:
    """The sizes behind a Slice from the beginning or to the end of dimensions that have names."""
    starts, ends = call.dims(1), call.dims(2)
    axes = _axes(call)
    steps = call.dims(4) if call.has(4) else (1,) * len(axes or ())
    if starts is None or ends is None or axes is None or steps is None or any(step != 1 for step in steps):
        return None
    found = list(shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        if not isinstance(axis, int) or not isinstance(start, int):
            return None
        size = shape[axis]
        if isinstance(end, int) and isinstance(size, Size):
            if start != 0 or end < 1 << 31:
                return None
            continue
        if isinstance(end, Size):
            if start != 0 or end != size:
                return None
            continue
        if isinstance(size, Size):
            return None
        first, last = (max(0, min(size, each + size if each < 0 else each)) for each in (start, end))
        found[axis] = max(last - first, 0)
    return found


@lowering("Expand")
def expand(call: Call) -> bool:
    """To sizes that are known."""
    wanted = call.dims(1) if call.known(0) else None
    if wanted is None or call.stores:
        return False
    shape = list(call.value(0).shape)
    rank = max(len(shape), len(wanted))
    one, other = [1] * (rank - len(shape)) + shape, [1] * (rank - len(wanted)) + list(wanted)
    made = []
    for left, right in zip(one, other, strict=True):
        if left != right and 1 not in (left, right):
            return False
        made.append(right if left == 1 else left)
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit("Expand", [names[0], call.draft.sizes(made, call.outputs[0])], call.outputs, {}, storage)
    return True


@lowering("Tile")
def tile(call: Call) -> bool:
    """A known number of times."""
    counts = call.dims(1) if call.known(0) else None
    if counts is None or len(counts) != len(call.value(0).shape) or call.stores:
        return False
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], [product(pair) for pair in zip(call.value(0).shape, counts, strict=True)])
    call.emit("Tile", [names[0], call.draft.sizes(counts, call.outputs[0])], call.outputs, {}, storage)
    return True


@lowering("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
          "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor")  # fmt: skip
def broadcasting(call: Call) -> bool:
    """As it stands, with sizes that follow where they have names; what leaves an operand as it is, or has one alone, is
    another name of that.
    """
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)) or call.stores:
        return False
    if len(call.inputs) == 1:
        return alias(call, call.outputs[0], call.inputs[0])
    for number in range(len(call.inputs)) if call.op in NEUTRAL else ():
        if _is_left(call, number) and alias(call, call.outputs[0], call.inputs[number]):
            return True
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    if all(isinstance(dim, int) for shape in shapes for dim in shape):
        return False
    made = broadcast(shapes, call.arithmetic)
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit(call.op, names, call.outputs, call.attributes, storage)
    return True


def _is_left(call: Call, number: int) -> bool:
    """Whether an operator leaves one of two operands of floats as it is: it adds zeros, or multiplies by ones. What may
    be the end of a normalization stays, which runtimes make one kernel of.
    """
    neutral, places = NEUTRAL[call.op]
    other = call.constant(1 - number)
    if number not in places or other is None or other.dtype.kind != "f" or call.constant(number) is not None:
        return False
    shape, ends = call.value(number).shape, other.shape
    larger = any(size not in (1, dim) for size, dim in zip(ends[::-1], shape[::-1], strict=False))
    if len(ends) > len(shape) or larger or not other.size or np.any(other != neutral):
        return False
    before = call.draft.producers.get(call.value(number).name)
    return other.size == 1 or before is None or call.draft.nodes[before].op not in ("Div", "Mul", "Sub")


@lowering("Einsum")
def summed(call: Call) -> bool:
    """With the sizes of all labels, in an equation of which onnx infers the same."""
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)) or call.stores:
        return False
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    found = written(call.attribute("equation", ""), shapes, call.arithmetic)
    if found is None:
        return False
    equation, made = found
    names, storage = call.operands()
    call.draft.declare(call.outputs[0], made)
    call.emit("Einsum", names, call.outputs, {"equation": equation}, storage)
    return True


@lowering("Concat")
def concat(call: Call) -> bool:
    """As it stands, with sizes that follow where they have names."""
    if any(not name or not call.known(number) for number, name in enumerate(call.inputs)):
        return False
    shapes = [call.value(number).shape for number in range(len(call.inputs))]
    axis = call.attribute("axis", 0)
    if len({len(shape) for shape in shapes}) > 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        return False
    axis += len(shapes[0]) if axis < 0 else 0
    made = [next((dim for dim in dims if isinstance(dim, int)), dims[0]) for dims in zip(*shapes, strict=True)]
    for at, dims in enumerate(zip(*shapes, strict=True)):
        for dim in dims if at != axis else ():
            if dim != made[at]:
                call.draft.equate(dim, made[at])
    made[axis] = call.arithmetic.total([shape[axis] for shape in shapes])
    names, storage = call.operands(call.stores)
    call.draft.declare(call.outputs[0], made)
    call.emit("Concat", names, call.outputs, {"axis": axis}, storage)
    return True
